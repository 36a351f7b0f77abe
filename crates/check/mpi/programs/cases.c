/* What MPI promises, with every byte checked. `cases all` is everything but these:
   - `threads`, which asks for MPI_THREAD_MULTIPLE;
   - `killed`, whose last rank ends by SIGKILL;
   - `away [SECONDS]`, which takes so long;
   - `passive [SECONDS]` and `passive-without-check [SECONDS]`, which take at most so long.
   Rank 0 says each case that held. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <pthread.h>
#include <signal.h>

int rank, ranks;
static const MPI_Comm world = MPI_COMM_WORLD;

/* 0 to 64 bytes one by one, then what lies around each power of two up to 4 MiB. */
static size_t size_of(int number)
{
    if (number <= 64) return (size_t)number;
    size_t power = (size_t)128 << (number - 65) / 3;
    return power - 1 + (size_t)((number - 65) % 3);
}
enum { SIZES = 65 + 3 * 16, LARGEST = (4 << 20) + 1 };

static void point_to_point(void)
{
    unsigned char *out = memory(LARGEST), *in = memory(LARGEST);
    /* The largest only between two: they take most of the time. */
    int sizes = ranks == 2 ? SIZES : SIZES - 3 * 5;
    for (int number = 0; number < sizes; number++) {
        int bytes = (int)size_of(number);
        /* Once to each other rank, at a distance that all have in common. */
        for (int distance = 1; distance < ranks; distance++) {
            int to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks;
            MPI_Request requests[2];
            MPI_Status statuses[2];
            int count;
            fill(out, (size_t)bytes, rank, to, number);
            memset(in, 0xee, (size_t)bytes);
            MPI_Irecv(in, bytes, MPI_BYTE, from, number, world, &requests[0]);
            MPI_Isend(out, bytes, MPI_BYTE, to, number, world, &requests[1]);
            MPI_Waitall(2, requests, statuses);
            MPI_Get_count(&statuses[0], MPI_BYTE, &count);
            CHECK(count == bytes && statuses[0].MPI_SOURCE == from && statuses[0].MPI_TAG == number);
            verify(in, (size_t)bytes, from, rank, number);
        }
    }
    free(out);
    free(in);
}

/* The receiver asks only when all lies there, and in the other order. */
static void unexpected(void)
{
    enum { MANY = 400, LARGE = 100000 };
    unsigned char *all = memory((size_t)MANY * 64), *large = memory(LARGE), *in = memory(LARGE);
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    MPI_Request *requests = memory((MANY + 1) * sizeof *requests);
    for (int i = 0; i < MANY; i++) {
        fill(all + i * 64, (size_t)(i % 65), rank, to, i);
        MPI_Isend(all + i * 64, i % 65, MPI_BYTE, to, i, world, &requests[i]);
    }
    fill(large, LARGE, rank, to, MANY);
    MPI_Isend(large, LARGE, MPI_BYTE, to, MANY, world, &requests[MANY]);
    MPI_Barrier(world);
    MPI_Recv(in, LARGE, MPI_BYTE, from, MANY, world, MPI_STATUS_IGNORE);
    verify(in, LARGE, from, rank, MANY);
    for (int i = MANY - 1; i >= 0; i--) {
        MPI_Recv(in, 65, MPI_BYTE, from, i, world, MPI_STATUS_IGNORE);
        verify(in, (size_t)(i % 65), from, rank, i);
    }
    MPI_Waitall(MANY + 1, requests, MPI_STATUSES_IGNORE);
    free(all);
    free(large);
    free(in);
    free(requests);
}

/* From anybody, with any tag; those of one sender in their order. */
static void wildcard(void)
{
    enum { EACH = 50 };
    unsigned char bytes[3000];
    if (rank != 0) {
        for (int i = 0; i < EACH; i++) {
            size_t length = (size_t)(i * 59);
            fill(bytes, length, rank, 0, i);
            MPI_Send(bytes, (int)length, MPI_BYTE, 0, i, world);
        }
        return;
    }
    int *next = calloc((size_t)ranks, sizeof *next);
    for (int i = 0; i < EACH * (ranks - 1); i++) {
        MPI_Status status;
        int count;
        MPI_Recv(bytes, sizeof bytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK(status.MPI_TAG == next[status.MPI_SOURCE] && count == status.MPI_TAG * 59);
        verify(bytes, (size_t)count, status.MPI_SOURCE, 0, status.MPI_TAG);
        next[status.MPI_SOURCE]++;
    }
    free(next);
}

/* Which is not done before its receive has begun, however much else goes to and fro. */
static void synchronous(void)
{
    int word = 7, done, got;
    for (int bytes = 4; bytes <= 400000; bytes *= 100000) {
        unsigned char *body = memory((size_t)bytes);
        if (rank == 0) {
            MPI_Request request;
            fill(body, (size_t)bytes, 0, 1, bytes);
            MPI_Issend(body, bytes, MPI_BYTE, 1, 1, world, &request);
            for (int i = 0; i < 20; i++) {
                MPI_Send(&word, 1, MPI_INT, 1, 2, world);
                MPI_Recv(&got, 1, MPI_INT, 1, 2, world, MPI_STATUS_IGNORE);
                MPI_Test(&request, &done, MPI_STATUS_IGNORE);
                CHECK(!done);
            }
            MPI_Send(&word, 1, MPI_INT, 1, 3, world);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            fill(body, (size_t)bytes, 0, 1, 1);
            MPI_Ssend(body, bytes, MPI_BYTE, 1, 4, world);
        } else if (rank == 1) {
            for (int i = 0; i < 20; i++) {
                MPI_Recv(&got, 1, MPI_INT, 0, 2, world, MPI_STATUS_IGNORE);
                MPI_Send(&word, 1, MPI_INT, 0, 2, world);
            }
            MPI_Recv(&got, 1, MPI_INT, 0, 3, world, MPI_STATUS_IGNORE);
            MPI_Recv(body, bytes, MPI_BYTE, 0, 1, world, MPI_STATUS_IGNORE);
            verify(body, (size_t)bytes, 0, 1, bytes);
            MPI_Recv(body, bytes, MPI_BYTE, MPI_ANY_SOURCE, 4, world, MPI_STATUS_IGNORE);
            verify(body, (size_t)bytes, 0, 1, 1);
        }
        free(body);
    }
}

static void probes(void)
{
    unsigned char *body = memory(100000);
    int sizes[] = {0, 8, 5000, 100000};
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    for (int i = 0; i < 4; i++) {
        for (int way = 0; way < 4; way++) {
            MPI_Request request;
            MPI_Status status;
            MPI_Message message;
            int count, found = 0, tag = i * 4 + way;
            unsigned char *out = memory((size_t)sizes[i]);
            fill(out, (size_t)sizes[i], rank, to, tag);
            MPI_Isend(out, sizes[i], MPI_BYTE, to, tag, world, &request);
            switch (way) {
            case 0: MPI_Probe(from, tag, world, &status); break;
            case 1:
                while (!found) MPI_Iprobe(MPI_ANY_SOURCE, tag, world, &found, &status);
                break;
            case 2: MPI_Mprobe(from, MPI_ANY_TAG, world, &message, &status); break;
            default:
                while (!found) MPI_Improbe(from, tag, world, &found, &message, &status);
            }
            MPI_Get_count(&status, MPI_BYTE, &count);
            CHECK(count == sizes[i] && status.MPI_TAG == tag && status.MPI_SOURCE == from);
            memset(body, 0xee, (size_t)count);
            if (way < 2) {
                MPI_Recv(body, count, MPI_BYTE, from, tag, world, &status);
            } else if (way == 2) {
                MPI_Mrecv(body, count, MPI_BYTE, &message, &status);
            } else {
                MPI_Request receive;
                MPI_Imrecv(body, count, MPI_BYTE, &message, &receive);
                MPI_Wait(&receive, &status);
            }
            verify(body, (size_t)count, from, rank, tag);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            free(out);
            MPI_Barrier(world);
        }
    }
    int found;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &found, MPI_STATUS_IGNORE);
    CHECK(!found);
    free(body);
}

/* A cancelled receive takes nothing away from the next one. */
static void cancelled(void)
{
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    int untouched = -1, got = -1, flag;
    for (int i = 0; i < 10; i++) {
        MPI_Request request;
        MPI_Status status;
        MPI_Irecv(&untouched, 1, MPI_INT, from, 5, world, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        CHECK(flag && untouched == -1);
        MPI_Barrier(world);
        MPI_Sendrecv(&i, 1, MPI_INT, to, 5, &got, 1, MPI_INT, from, 5, world, &status);
        CHECK(got == i && untouched == -1);
    }
}

/* Buffered, ready and persistent sends, and a message longer than its receive. */
static void modes(void)
{
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    int size = 70000, attached = size + MPI_BSEND_OVERHEAD;
    unsigned char *out = memory((size_t)size), *in = memory((size_t)size);
    void *buffer = memory((size_t)attached);
    MPI_Buffer_attach(buffer, attached);
    fill(out, (size_t)size, rank, to, 1);
    MPI_Bsend(out, size, MPI_BYTE, to, 1, world);
    memset(out, 0, (size_t)size);
    MPI_Recv(in, size, MPI_BYTE, from, 1, world, MPI_STATUS_IGNORE);
    verify(in, (size_t)size, from, rank, 1);
    MPI_Buffer_detach(&buffer, &attached);

    MPI_Request requests[2];
    MPI_Recv_init(in, size, MPI_BYTE, from, 2, world, &requests[0]);
    MPI_Rsend_init(out, size, MPI_BYTE, to, 2, world, &requests[1]);
    for (int i = 0; i < 5; i++) {
        fill(out, (size_t)size, rank, to, i);
        MPI_Start(&requests[0]);
        MPI_Barrier(world);
        MPI_Start(&requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        verify(in, (size_t)size, from, rank, i);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);

    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    for (int length = 100; length <= size; length += size - 100) {
        MPI_Request request;
        MPI_Isend(out, length, MPI_BYTE, to, 3, world, &request);
        int code = MPI_Recv(in, 50, MPI_BYTE, from, 3, world, MPI_STATUS_IGNORE), class;
        MPI_Error_class(code, &class);
        CHECK(class == MPI_ERR_TRUNCATE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(world);
    }
    MPI_Comm_set_errhandler(world, MPI_ERRORS_ARE_FATAL);
    free(buffer);
    free(out);
    free(in);
}

/* Every third of the numbers, into every second place. */
static void layouts(void)
{
    enum { COUNT = 3000 };
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    int *out = memory(3 * COUNT * sizeof *out), *in = memory(2 * COUNT * sizeof *in);
    MPI_Datatype third, second;
    MPI_Type_vector(COUNT, 1, 3, MPI_INT, &third);
    MPI_Type_vector(COUNT, 1, 2, MPI_INT, &second);
    MPI_Type_commit(&third);
    MPI_Type_commit(&second);
    for (int i = 0; i < 3 * COUNT; i++) out[i] = rank * 100000 + i;
    memset(in, 0xff, 2 * COUNT * sizeof *in);
    MPI_Sendrecv(out, 1, third, to, 0, in, 1, second, from, 0, world, MPI_STATUS_IGNORE);
    for (int i = 0; i < COUNT; i++) {
        CHECK(in[2 * i] == from * 100000 + 3 * i);
        CHECK(in[2 * i + 1] == -1);
    }
    MPI_Type_free(&third);
    MPI_Type_free(&second);
    free(out);
    free(in);
}

static void remote_memory(void)
{
    enum { WORDS = 20000 };
    int64_t *base, *in = memory(WORDS * sizeof *in), *out = memory(WORDS * sizeof *out);
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    MPI_Win window;
    MPI_Win_allocate(WORDS * sizeof *base, sizeof *base, MPI_INFO_NULL, world, &base, &window);

    for (int i = 0; i < WORDS; i++) base[i] = -1, out[i] = (int64_t)rank << 32 | i;
    MPI_Win_fence(0, window);
    MPI_Put(out, WORDS, MPI_INT64_T, to, 0, WORDS, MPI_INT64_T, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < WORDS; i++) CHECK(base[i] == ((int64_t)from << 32 | i));
    MPI_Win_fence(0, window);
    MPI_Get(in, WORDS, MPI_INT64_T, from, 0, WORDS, MPI_INT64_T, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < WORDS; i++)
        CHECK(in[i] == ((int64_t)((from + ranks - 1) % ranks) << 32 | i));

    /* All add into rank 0, and each rank has its own place there. */
    for (int i = 0; i < WORDS; i++) base[i] = 0, out[i] = i;
    MPI_Win_fence(0, window);
    MPI_Accumulate(out, WORDS, MPI_INT64_T, 0, 0, WORDS, MPI_INT64_T, MPI_SUM, window);
    MPI_Win_fence(0, window);
    if (rank == 0)
        for (int i = 0; i < WORDS; i++) CHECK(base[i] == (int64_t)ranks * i);
    for (int i = 0; i < WORDS; i++) base[i] = 0;
    MPI_Barrier(world);
    int64_t one = 1, taken, last = -1;
    for (int i = 0; i < 50; i++) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        MPI_Fetch_and_op(&one, &taken, MPI_INT64_T, 0, 0, MPI_SUM, window);
        MPI_Win_unlock(0, window);
        CHECK(taken > last && taken < 50 * ranks);
        last = taken;
    }
    int64_t none = 0, mine = rank + 1, found;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Compare_and_swap(&mine, &none, &found, MPI_INT64_T, 0, 1, window);
    MPI_Win_unlock(0, window);
    int won = found == 0, winners;
    MPI_Allreduce(&won, &winners, 1, MPI_INT, MPI_SUM, world);
    CHECK(winners == 1);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Get_accumulate(&mine, 1, MPI_INT64_T, &found, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_NO_OP, window);
    MPI_Win_unlock(0, window);
    CHECK(found == 50 * ranks);

    /* Between neighbours only: post, start, complete, wait. */
    MPI_Group all, target, origin;
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, 1, &to, &target);
    MPI_Group_incl(all, 1, &from, &origin);
    MPI_Barrier(world);
    MPI_Win_post(origin, 0, window);
    MPI_Win_start(target, 0, window);
    MPI_Put(out, WORDS, MPI_INT64_T, to, 0, WORDS, MPI_INT64_T, window);
    MPI_Win_complete(window);
    MPI_Win_wait(window);
    for (int i = 0; i < WORDS; i++) CHECK(base[i] == i);
    MPI_Group_free(&all);
    MPI_Group_free(&target);
    MPI_Group_free(&origin);
    MPI_Win_free(&window);
    free(in);
    free(out);
}

/* Groups, and a communicator between two of them. */
static void communicators(void)
{
    MPI_Comm half, between, copy;
    int color = rank % 2, size, within, sum, own = rank;
    MPI_Comm_dup(world, &copy);
    MPI_Comm_split(copy, color, -rank, &half);
    MPI_Comm_size(half, &size);
    MPI_Comm_rank(half, &within);
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, half);
    int expected = 0;
    for (int i = color; i < ranks; i += 2) expected += i;
    CHECK(sum == expected);
    MPI_Intercomm_create(half, 0, copy, color ? (ranks - 1) / 2 * 2 : (ranks - 2) / 2 * 2 + 1, 9, &between);
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, between);
    expected = 0;
    for (int i = 1 - color; i < ranks; i += 2) expected += i;
    CHECK(sum == expected);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
}

/* Four threads, each with its like in every other rank, all sizes mixed. */
enum { THREADS = 4, ROUNDS = 60 };
static void *exchange(void *number)
{
    int thread = (int)(intptr_t)number;
    unsigned char *out = memory(60000), *in = memory(60000);
    for (int round = 0; round < ROUNDS; round++) {
        int distance = 1 + round % (ranks - 1);
        int to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks;
        int bytes = round * round * 16 % 60000, which = thread * ROUNDS + round;
        fill(out, (size_t)bytes, rank, to, which);
        MPI_Sendrecv(out, bytes, MPI_BYTE, to, thread, in, bytes, MPI_BYTE, from, thread, world,
                     MPI_STATUS_IGNORE);
        verify(in, (size_t)bytes, from, rank, which);
    }
    free(out);
    free(in);
    return NULL;
}

static void threads(void)
{
    pthread_t all[THREADS];
    for (intptr_t i = 0; i < THREADS; i++) CHECK(!pthread_create(&all[i], NULL, exchange, (void *)i));
    for (int i = 0; i < THREADS; i++) pthread_join(all[i], NULL);
    MPI_Barrier(world);
}

/* The last rank vanishes in the middle; the others must not wait for it for ever. */
static void killed(void)
{
    for (int round = 0;; round++) {
        int sum;
        if (round == 100 && rank == ranks - 1) raise(SIGKILL);
        MPI_Allreduce(&round, &sum, 1, MPI_INT, MPI_SUM, world);
        CHECK(sum == round * ranks);
    }
}

/* computing.c */
void computing(void);
void away(int seconds);
void passive(int assert, int seconds);

/* collectives.c */
void collectives(void);
void nonblocking_collectives(void);

/* What the command line says. */
static int seconds = 2;

static void away_for_seconds(void)
{
    away(seconds);
}

static void passive_with_lock(void)
{
    passive(0, seconds);
}

/* The program knows that no other rank locks, so MPI need not ask the other rank. */
static void passive_without_check(void)
{
    passive(MPI_MODE_NOCHECK, seconds);
}

static const struct {
    const char *name;
    void (*run)(void);
} CASES[] = {
    {"point-to-point", point_to_point},
    {"unexpected", unexpected},
    {"wildcard", wildcard},
    {"synchronous", synchronous},
    {"probes", probes},
    {"cancelled", cancelled},
    {"modes", modes},
    {"layouts", layouts},
    {"collectives", collectives},
    {"nonblocking-collectives", nonblocking_collectives},
    {"remote-memory", remote_memory},
    {"communicators", communicators},
    {"computing", computing},
    {"away", away_for_seconds},
    {"passive", passive_with_lock},
    {"passive-without-check", passive_without_check},
    {"threads", threads},
    {"killed", killed},
};

int main(int count, char **words)
{
    const char *wanted = count > 1 ? words[1] : "all";
    int several = !strcmp(wanted, "threads"), provided, found = 0;
    /* Less than the rank computes for. */
    if (!strcmp(wanted, "away")) setenv("FI_GIGAE_PEER_TIMEOUT", "2", 1);
    MPI_Init_thread(&count, &words, several ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    if (count > 2) seconds = atoi(words[2]);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    if (ranks < 2) FAIL("at least two ranks are needed");
    if (several) CHECK(provided == MPI_THREAD_MULTIPLE);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        void (*run)(void) = CASES[i].run;
        int special = run == threads || run == killed || run == away_for_seconds ||
                      run == passive_with_lock || run == passive_without_check;
        if (strcmp(wanted, CASES[i].name) && (special || strcmp(wanted, "all"))) continue;
        double begin = MPI_Wtime();
        run();
        MPI_Barrier(world);
        if (rank == 0) printf("%s: held, %d ranks, %.2f s\n", CASES[i].name, ranks, MPI_Wtime() - begin);
        fflush(stdout);
        found = 1;
    }
    if (!found) FAIL("there is no case '%s'", wanted);
    MPI_Finalize();
    return 0;
}
