/* Loses memory, so that the tests can tell that valgrind is asked to mind. */
#include <stdlib.h>

int main(void)
{
    void *lost = malloc(100);
    lost = NULL;
    return lost != NULL;
}
