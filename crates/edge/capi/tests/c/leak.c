/* Loses memory, so the tests see that valgrind reports it. */
#include <stdlib.h>

int main(void)
{
    void *lost = malloc(100);
    lost = NULL;
    return lost != NULL;
}
