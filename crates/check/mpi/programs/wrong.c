/* One byte of a hundred is changed on its way, so to speak: `verify` must say which. */
#include "check.h"

int rank, ranks;

int main(int count, char **words)
{
    unsigned char bytes[100];
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        fill(bytes, sizeof bytes, 0, 1, 0);
        bytes[77] ^= 1;
        MPI_Send(bytes, sizeof bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(bytes, sizeof bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        verify(bytes, sizeof bytes, 0, 1, 0);
    }
    MPI_Finalize();
    return 0;
}
