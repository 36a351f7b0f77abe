/* Ranks that compute, making no call, while others want something of them: what was sent arrives, and what they
   receive is taken, all the same. Ranks tell each other by files, outside MPI. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <time.h>
#include <unistd.h>

enum { SHORT = 8, LONG = 300000, MOST_SECONDS = 60 };

static char files[4096];

static const char *file_of(int step)
{
    static char name[sizeof files + 32];
    snprintf(name, sizeof name, "%s.%d", files, step);
    return name;
}

static void tell(int step)
{
    FILE *file = fopen(file_of(step), "w");
    CHECK(file && !fclose(file));
}

/* Computes until another rank says to stop. */
static void compute_until(int step)
{
    time_t end = time(NULL) + MOST_SECONDS;
    volatile uint64_t state = 1;
    while (access(file_of(step), F_OK)) {
        CHECK(time(NULL) < end);
        for (int i = 0; i < 100000; i++) state = state * 3 + 1;
    }
}

void computing(void)
{
    int last = ranks - 1;
    if (rank == 0) {
        const char *place = getenv("TMPDIR");
        snprintf(files, sizeof files, "%s/gigae-computing-%d", place ? place : "/tmp", (int)getpid());
    }
    MPI_Bcast(files, sizeof files, MPI_CHAR, 0, MPI_COMM_WORLD);
    unsigned char few[SHORT], *many = memory(LONG);
    MPI_Request both[2];
    /* Rank 0 sends and computes; the last rank receives. A long message is pulled out of a sender that computes. */
    if (rank == 0) {
        fill(few, SHORT, 0, last, 1);
        fill(many, LONG, 0, last, 2);
        MPI_Isend(few, SHORT, MPI_BYTE, last, 1, MPI_COMM_WORLD, &both[0]);
        MPI_Isend(many, LONG, MPI_BYTE, last, 2, MPI_COMM_WORLD, &both[1]);
        compute_until(1);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    } else if (rank == last) {
        MPI_Recv(few, SHORT, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(many, LONG, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        verify(few, SHORT, 0, last, 1);
        verify(many, LONG, 0, last, 2);
        tell(1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* The last rank posts its receives and computes; rank 0 sends, and its sends complete. */
    if (rank == last) {
        MPI_Irecv(few, SHORT, MPI_BYTE, 0, 3, MPI_COMM_WORLD, &both[0]);
        MPI_Irecv(many, LONG, MPI_BYTE, 0, 4, MPI_COMM_WORLD, &both[1]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        fill(few, SHORT, 0, last, 3);
        fill(many, LONG, 0, last, 4);
        MPI_Send(few, SHORT, MPI_BYTE, last, 3, MPI_COMM_WORLD);
        MPI_Send(many, LONG, MPI_BYTE, last, 4, MPI_COMM_WORLD);
        tell(2);
    } else if (rank == last) {
        compute_until(2);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        verify(few, SHORT, 0, last, 3);
        verify(many, LONG, 0, last, 4);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) CHECK(!unlink(file_of(1)) && !unlink(file_of(2)));
    free(many);
}

/* The last rank posts its receives and computes for so many seconds, making no call. Rank 0 sends short and long messages
   meanwhile, and prints how long the slowest send took. */
void away(int seconds)
{
    /* The longer ones are complete when the other end has them: they are not copied. */
    enum { PER_SECOND = 10, SOME = 100000 };
    int last = ranks - 1, count = seconds * PER_SECOND;
    unsigned char *all = memory((size_t)count * SOME);
    MPI_Request *requests = memory(count * sizeof *requests);
    if (rank == last)
        for (int i = 0; i < count; i++)
            MPI_Irecv(all + (size_t)i * SOME, SOME, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        double longest = 0;
        for (int i = 0; i < count; i++) {
            int bytes = i % 2 ? SOME : SHORT;
            nanosleep(&(struct timespec){.tv_nsec = 1000000000 / PER_SECOND}, NULL);
            fill(all, bytes, 0, last, i);
            double begin = MPI_Wtime();
            MPI_Send(all, bytes, MPI_BYTE, last, i, MPI_COMM_WORLD);
            double took = MPI_Wtime() - begin;
            if (took > longest) longest = took;
        }
        printf("away: slowest of %d sends to a rank that computes: %.3f ms\n", count, longest * 1e3);
    } else if (rank == last) {
        volatile uint64_t state = 1;
        /* A second more than the sends take. */
        for (time_t end = time(NULL) + seconds + 2; time(NULL) < end;)
            for (int i = 0; i < 100000; i++) state = state * 3 + 1;
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < count; i++) verify(all + (size_t)i * SOME, i % 2 ? SOME : SHORT, 0, last, i);
    }
    free(requests);
    free(all);
}
