/* How programs talk, as lines for a program to read: `pattern NAME BYTES MICROSECONDS`, the median of batches. Two ranks,
   of which rank 0 takes the time:

   exchange          both send to each other and wait for both (neighbours of a grid)
   exchange-compute  the same, and compute for 300 us, which are not counted
   one-way           rank 0 sends, one message after the other, and rank 1 receives
   allreduce, alltoall, allgather, bcast   MPI's own

   What arrives is checked once for each pattern and size. `--pin` gives each rank its own processor, if there are
   enough. */
#define _GNU_SOURCE
#include "check.h"
#include "pin.h"

int rank, ranks;

enum { LARGEST = 1 << 20, BATCHES = 11, MOST = 2000 };
static const double BATCH = 0.01, COMPUTED = 300e-6;
static unsigned char *out, *in;
static long *sums;

static void compute(void)
{
    double begin = MPI_Wtime();
    while (MPI_Wtime() - begin < COMPUTED) {
    }
}

static void exchange(int bytes)
{
    MPI_Request requests[2];
    MPI_Irecv(in, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void exchange_compute(int bytes)
{
    exchange(bytes);
    compute();
}

static void one_way(int bytes)
{
    if (rank == 0) MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    else MPI_Recv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void allreduce(int bytes)
{
    MPI_Allreduce(out, sums, bytes / (int)sizeof *sums, MPI_LONG, MPI_BXOR, MPI_COMM_WORLD);
}

static void alltoall(int bytes)
{
    MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void allgather(int bytes)
{
    MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void bcast(int bytes)
{
    MPI_Bcast(rank == 0 ? out : in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

/* Where in `in` the other's message is, as a multiple of its length, or -1 if rank 0 gets none. */
static const struct pattern {
    const char *name;
    void (*once)(int bytes);
    int place;
    int one_way;
    double not_counted;
} patterns[] = {
    {"exchange", exchange, 0, 0, 0},
    {"exchange-compute", exchange_compute, 0, 0, COMPUTED},
    {"one-way", one_way, 0, 1, 0},
    {"allreduce", allreduce, -1, 0, 0},
    {"alltoall", alltoall, 1, 0, 0},
    {"allgather", allgather, 1, 0, 0},
    {"bcast", bcast, 0, 1, 0},
};

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Once, with bytes that nothing before has sent. */
static void check(const struct pattern *pattern, int bytes, int which)
{
    int other = 1 - rank;
    /* The second half is what alltoall sends to rank 1. */
    fill(out, (size_t)bytes, rank, 0, which);
    fill(out + bytes, (size_t)bytes, rank, 1, which);
    memset(in, 0xee, 2 * (size_t)bytes);
    pattern->once(bytes);
    if (pattern->place < 0) {
        for (int from = 0; from < 2; from++) {
            fill(in, (size_t)bytes, from, 0, which);
            for (size_t i = 0; i < (size_t)bytes; i++) ((unsigned char *)sums)[i] ^= in[i];
        }
        for (size_t i = 0; i < (size_t)bytes; i++) CHECK(((unsigned char *)sums)[i] == 0);
        return;
    }
    if (pattern->one_way && rank == 0) return;
    int to_me = pattern->once == alltoall ? rank : 0;
    int place = pattern->place > 0 ? other : 0;
    verify(in + (size_t)place * (size_t)bytes, (size_t)bytes, other, to_me, which);
}

static void measure(const struct pattern *pattern, int bytes)
{
    double each[BATCHES];
    int times = 5;
    for (int batch = -1; batch < BATCHES; batch++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (int i = 0; i < times; i++) pattern->once(bytes);
        double once = (MPI_Wtime() - begin) / times;
        if (batch >= 0) {
            each[batch] = once - pattern->not_counted;
            continue;
        }
        times = (int)(BATCH / once);
        times = times < 1 ? 1 : times > MOST ? MOST : times;
        MPI_Bcast(&times, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    qsort(each, BATCHES, sizeof *each, by_value);
    if (rank == 0) printf("pattern %s %d %.3f\n", pattern->name, bytes, each[BATCHES / 2] * 1e6);
}

int main(int count, char **words)
{
    static const int sizes[] = {8, 4 << 10, 16 << 10, 64 << 10, 256 << 10, LARGEST};
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) FAIL("two ranks are needed");
    if (count > 1 && !strcmp(words[1], "--pin")) pin();
    out = memory(2 * LARGEST);
    in = memory(2 * LARGEST);
    sums = memory(LARGEST);
    int which = 0;
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            check(&patterns[p], sizes[s], which++);
            measure(&patterns[p], sizes[s]);
        }
    MPI_Finalize();
    return 0;
}
