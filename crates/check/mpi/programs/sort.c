/* A sort of integers over all ranks, bound by alltoall, in the manner of the NAS benchmark IS: each
   round draws keys, sends each to the rank whose range it is in, sorts there, and checks that all is in order,
   nothing missing. Arguments: keys per rank, rounds. Prints `time SECONDS`, of the sorting alone. */
#include "check.h"

int rank, ranks;

enum { BITS = 20 };

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count != 3) FAIL("give: keys per rank, rounds");
    int keys = atoi(words[1]), rounds = atoi(words[2]), most = 2 * keys + 4096;
    uint32_t width = ((1u << BITS) + (uint32_t)ranks - 1) / (uint32_t)ranks, *own = memory((size_t)keys * 4);
    uint32_t *sent = memory((size_t)keys * 4), *got = memory((size_t)most * 4), *tally = memory(width * 4);
    int *to = memory((size_t)ranks * 4), *from = memory((size_t)ranks * 4);
    int *to_at = memory((size_t)ranks * 4), *from_at = memory((size_t)ranks * 4), *next = memory((size_t)ranks * 4);
    uint64_t state = seed_of(rank, 0, 1);
    double total = 0;
    for (int round = 0; round < rounds; round++) {
        uint64_t sums[2] = {0, (uint64_t)keys}, all[2], sorted[2] = {0, 0}, found[2];
        for (int i = 0; i < keys; i++) sums[0] += own[i] = (uint32_t)(step(&state) >> (64 - BITS));
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        memset(to, 0, (size_t)ranks * 4);
        for (int i = 0; i < keys; i++) to[own[i] / width]++;
        MPI_Alltoall(to, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD);
        int here = 0;
        for (int other = 0, at = 0; other < ranks; other++) {
            next[other] = to_at[other] = at;
            from_at[other] = here;
            at += to[other];
            here += from[other];
        }
        CHECK(here <= most);
        for (int i = 0; i < keys; i++) sent[next[own[i] / width]++] = own[i];
        MPI_Alltoallv(sent, to, to_at, MPI_UINT32_T, got, from, from_at, MPI_UINT32_T, MPI_COMM_WORLD);
        memset(tally, 0, width * 4);
        for (int i = 0; i < here; i++) {
            uint32_t place = got[i] - (uint32_t)rank * width;
            CHECK(place < width);
            tally[place]++;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        total += MPI_Wtime() - begin;
        for (uint64_t i = 0; i < width; i++) {
            sorted[0] += tally[i] * (i + (uint64_t)rank * width);
            sorted[1] += tally[i];
        }
        MPI_Allreduce(sums, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(sorted, found, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        CHECK(all[0] == found[0] && all[1] == found[1]);
    }
    if (rank == 0) printf("time %.6f\n", total);
    MPI_Finalize();
    return 0;
}
