/* Each rank says where it is, and all add up who is there. */
#include "check.h"

int rank, ranks;

int main(int count, char **words)
{
    char host[MPI_MAX_PROCESSOR_NAME], library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, sum;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_processor_name(host, &length);
    MPI_Get_library_version(library, &length);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == ranks * (ranks - 1) / 2);
    printf("hello from rank %d of %d on %s\n", rank, ranks, host);
    if (rank == 0) printf("library %.*s\n", (int)strcspn(library, "\n,"), library);
    MPI_Finalize();
    return 0;
}
