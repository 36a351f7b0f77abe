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

/* Computes until another rank says to stop, or for `seconds`. Returns whether it was the rank. */
static int computes_until(int step, int seconds)
{
    time_t end = time(NULL) + seconds;
    volatile uint64_t state = 1;
    while (access(file_of(step), F_OK)) {
        if (time(NULL) >= end) return 0;
        for (int i = 0; i < 100000; i++) state = state * 3 + 1;
    }
    return 1;
}

static void compute_until(int step)
{
    CHECK(computes_until(step, MOST_SECONDS));
}

/* Where ranks tell: rank 0 says it to all. */
static void agree_on_files(void)
{
    if (rank == 0) {
        const char *place = getenv("TMPDIR");
        if (!place) place = "/tmp";
        snprintf(files, sizeof files, "%s/gigae-computing-%d", place, (int)getpid());
    }
    MPI_Bcast(files, sizeof files, MPI_CHAR, 0, MPI_COMM_WORLD);
}

void computing(void)
{
    int last = ranks - 1;
    agree_on_files();
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

/* The last rank posts its receives and computes for `seconds`, making no call. In that time rank 0 sends short and long
   messages, and prints how long the slowest send took. */
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

/* A window that is written, read and changed: a number, a short and a long piece. */
enum { NUMBER_AT = 0, SHORT_AT = 8, LONG_AT = 16, WINDOW = LONG_AT + LONG, FIRST = 40, ADDED = 7 };

/* Hints with which MPICH leaves atomic operations to libfabric; any other MPI may ignore them. All
   are true of this program. The last one is MPICH's own. */
static MPI_Info hints(void)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "accumulate_ops", "same_op");
    MPI_Info_set(info, "accumulate_ordering", "rar,raw,waw");
    MPI_Info_set(info, "disable_shm_accumulate", "true");
    return info;
}

/* The milliseconds since *begin, which is now from then on. */
static double lap(double *begin)
{
    double now = MPI_Wtime(), took = (now - *begin) * 1e3;
    *begin = now;
    return took;
}

/* What rank 0 does with the window of the last rank. Each operation is over before the next. */
static void use_window(int assert, MPI_Win window)
{
    int last = ranks - 1;
    int64_t added = ADDED, before[2] = {-1, -1};
    unsigned char few[SHORT], *many = memory(LONG);
    double took[7], begin;
    fill(few, SHORT, 0, last, 1);
    fill(many, LONG, 0, last, 2);
    begin = MPI_Wtime();
    MPI_Win_lock(MPI_LOCK_SHARED, last, assert, window);
    took[0] = lap(&begin);
    MPI_Put(few, SHORT, MPI_BYTE, last, SHORT_AT, SHORT, MPI_BYTE, window);
    MPI_Win_flush(last, window);
    took[1] = lap(&begin);
    MPI_Put(many, LONG, MPI_BYTE, last, LONG_AT, LONG, MPI_BYTE, window);
    MPI_Win_flush(last, window);
    took[2] = lap(&begin);
    memset(many, 0xee, LONG);
    begin = MPI_Wtime();
    MPI_Get(many, LONG, MPI_BYTE, last, LONG_AT, LONG, MPI_BYTE, window);
    MPI_Win_flush(last, window);
    took[3] = lap(&begin);
    for (int i = 0; i < 2; i++) {
        MPI_Fetch_and_op(&added, &before[i], MPI_INT64_T, last, NUMBER_AT, MPI_SUM, window);
        MPI_Win_flush(last, window);
        took[4 + i] = lap(&begin);
    }
    MPI_Win_unlock(last, window);
    took[6] = lap(&begin);
    /* Everything is over. The other rank may make calls again. */
    tell(2);
    verify(many, LONG, 0, last, 2);
    CHECK(before[0] == FIRST && before[1] == FIRST + ADDED);
    printf("passive RMA: lock %.3f ms, put of %d B %.3f ms, put of %d B %.3f ms, get of %d B %.3f"
           " ms, fetch-and-op %.3f and %.3f ms, unlock %.3f ms\n",
           took[0], SHORT, took[1], LONG, took[2], LONG, took[3], took[4], took[5], took[6]);
    free(many);
}

/* Rank 0 locks, writes, reads and changes memory of the last rank. In that time the last rank
   computes and makes no call, until rank 0 is through or `seconds` have passed. Rank 0 prints
   which of the two it was. `assert` is that of MPI_Win_lock. */
void passive(int assert, int seconds)
{
    int last = ranks - 1, alone = 0;
    unsigned char *base;
    MPI_Win window;
    MPI_Info info = hints();
    agree_on_files();
    MPI_Win_allocate(WINDOW, 1, info, MPI_COMM_WORLD, &base, &window);
    MPI_Info_free(&info);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    memset(base, 0, WINDOW);
    memcpy(base + NUMBER_AT, &(int64_t){FIRST}, sizeof(int64_t));
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        /* The other one is in no call, and begins none before it knows that this one is through. */
        compute_until(1);
        use_window(assert, window);
    } else if (rank == last) {
        tell(1);
        alone = computes_until(2, seconds);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == last) {
        int64_t number;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, last, 0, window);
        memcpy(&number, base + NUMBER_AT, sizeof number);
        CHECK(number == FIRST + 2 * ADDED);
        verify(base + SHORT_AT, SHORT, 0, last, 1);
        verify(base + LONG_AT, LONG, 0, last, 2);
        MPI_Win_unlock(last, window);
        MPI_Send(&alone, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
    } else if (rank == 0) {
        MPI_Recv(&alone, 1, MPI_INT, last, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("passive RMA: %s\n",
               alone ? "done while the target computed" : "only when the target entered MPI");
        CHECK(!unlink(file_of(1)) && !unlink(file_of(2)));
    }
    MPI_Win_free(&window);
}
