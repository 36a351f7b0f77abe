/* Latency and bandwidth between two ranks, 8 bytes to 4 MiB, as lines for a program to read: `init MILLISECONDS` is
   the longest MPI_Init of a rank;
   `latency BYTES MICROSECONDS` is half a round trip, the median of batches; `bandwidth BYTES MB/S` is one way,
   many messages under way, also the median. Every byte of a message before and after each batch is
   checked. `--pin` gives each rank its own processor, if there are enough. */
#define _GNU_SOURCE
#include "check.h"
#include "pin.h"
#include <time.h>

int rank, ranks;

enum { LARGEST = 4 << 20, BATCHES = 11 };
/* A batch's length in seconds: 40 kinds of 12 take some 3 s. */
static const double BATCH = 0.005;
static unsigned char *out, *in;

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

static void round_trip(int bytes)
{
    if (rank == 0) {
        MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(in, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

static void one_way(int bytes, int window, MPI_Request *requests)
{
    char ready = 0;
    for (int i = 0; i < window; i++) {
        if (rank == 0)
            MPI_Isend(out, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
        else
            MPI_Irecv(in, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    if (rank == 0)
        MPI_Recv(&ready, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(&ready, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
}

/* A new content each time, so that none of an earlier batch can pass for it. */
static void renew(int bytes, int which)
{
    fill(out, (size_t)bytes, rank, 1 - rank, which);
    memset(in, 0xee, (size_t)bytes);
}

/* How often in a batch, if once takes `once` seconds; the same for both ranks. */
static int often(double once)
{
    double number = BATCH / once;
    int all = number > 5000 ? 5000 : number < 1 ? 1 : (int)number;
    MPI_Bcast(&all, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return all;
}

static void latency(int bytes)
{
    double each[BATCHES];
    int trips = 10;
    for (int batch = -1; batch < BATCHES; batch++) {
        renew(bytes, batch);
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (int i = 0; i < trips; i++) round_trip(bytes);
        double once = (MPI_Wtime() - begin) / trips;
        verify(in, (size_t)bytes, 1 - rank, rank, batch);
        if (batch < 0) trips = often(once);
        else each[batch] = once / 2;
    }
    if (rank == 0) printf("latency %d %.3f\n", bytes, median(each, BATCHES) * 1e6);
}

static void bandwidth(int bytes)
{
    MPI_Request requests[64];
    double each[BATCHES];
    int window = (16 << 20) / bytes, rounds = 1;
    window = window > 64 ? 64 : window;
    for (int batch = -1; batch < BATCHES; batch++) {
        renew(bytes, batch);
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (int i = 0; i < rounds; i++) one_way(bytes, window, requests);
        double once = (MPI_Wtime() - begin) / rounds;
        if (rank == 1) verify(in, (size_t)bytes, 0, 1, batch);
        if (batch < 0) rounds = often(once);
        else each[batch] = (double)bytes * window / once;
    }
    if (rank == 0) printf("bandwidth %d %.2f\n", bytes, median(each, BATCHES) / 1e6);
}

/* MPI's own clock may not be read before MPI_Init. */
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int count, char **words)
{
    double init = now(), longest;
    MPI_Init(&count, &words);
    init = now() - init;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) FAIL("two ranks are needed");
    MPI_Reduce(&init, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("init %.2f\n", longest * 1e3);
    if (count > 1 && !strcmp(words[1], "--pin")) pin();
    out = memory(LARGEST);
    in = memory(LARGEST);
    for (int bytes = 8; bytes <= LARGEST; bytes *= 2) latency(bytes);
    for (int bytes = 8; bytes <= LARGEST; bytes *= 2) bandwidth(bytes);
    MPI_Finalize();
    return 0;
}
