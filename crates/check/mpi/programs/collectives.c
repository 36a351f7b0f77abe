/* Every collective operation, with values from which each rank can say what must come out. */
#include "check.h"

void collectives(void);
void nonblocking_collectives(void);

static const MPI_Comm world = MPI_COMM_WORLD;

/* Element `i` of what rank `from` has for rank `to`. */
static int value(int from, int to, int i)
{
    return from * 1000003 + to * 7919 + i;
}

static int *numbers(size_t count)
{
    return memory(count * sizeof(int));
}

/* So much has rank `from` for rank `to` where that differs, 0 included. */
static int part(int from, int to, int count)
{
    return (from + 2 * to) % 3 * count / 2;
}

static void rooted(int root, int count)
{
    int *out = numbers((size_t)count * (size_t)ranks), *in = numbers((size_t)count * (size_t)ranks);
    for (int i = 0; i < count; i++) in[i] = rank == root ? value(root, 0, i) : -1;
    MPI_Bcast(in, count, MPI_INT, root, world);
    for (int i = 0; i < count; i++) CHECK(in[i] == value(root, 0, i));

    for (int to = 0; to < ranks; to++)
        for (int i = 0; i < count; i++) out[to * count + i] = value(root, to, i);
    MPI_Scatter(out, count, MPI_INT, in, count, MPI_INT, root, world);
    for (int i = 0; i < count; i++) CHECK(in[i] == value(root, rank, i));

    for (int i = 0; i < count; i++) out[i] = value(rank, root, i);
    MPI_Gather(out, count, MPI_INT, in, count, MPI_INT, root, world);
    for (int from = 0; rank == root && from < ranks; from++)
        for (int i = 0; i < count; i++) CHECK(in[from * count + i] == value(from, root, i));

    MPI_Reduce(out, in, count, MPI_INT, MPI_MAX, root, world);
    for (int i = 0; rank == root && i < count; i++) CHECK(in[i] == value(ranks - 1, root, i));
    free(out);
    free(in);
}

/* Parts of different length, from the root and to it. */
static void rooted_parts(int root, int count)
{
    int *out = numbers((size_t)count * (size_t)ranks), *in = numbers((size_t)count * (size_t)ranks);
    int *counts = numbers((size_t)ranks), *places = numbers((size_t)ranks);
    for (int other = 0; other < ranks; other++) {
        counts[other] = part(root, other, count);
        places[other] = other * count;
        for (int i = 0; i < counts[other]; i++) out[other * count + i] = value(root, other, i);
    }
    MPI_Scatterv(out, counts, places, MPI_INT, in, counts[rank], MPI_INT, root, world);
    for (int i = 0; i < counts[rank]; i++) CHECK(in[i] == value(root, rank, i));
    for (int i = 0; i < counts[rank]; i++) out[i] = value(rank, root, i);
    MPI_Gatherv(out, counts[rank], MPI_INT, in, counts, places, MPI_INT, root, world);
    for (int from = 0; rank == root && from < ranks; from++)
        for (int i = 0; i < counts[from]; i++) CHECK(in[from * count + i] == value(from, root, i));
    free(out);
    free(in);
    free(counts);
    free(places);
}

static void all_to_all(int count)
{
    size_t all = (size_t)count * (size_t)ranks;
    int *out = numbers(all), *in = numbers(all);
    int *sent = numbers((size_t)ranks), *got = numbers((size_t)ranks), *places = numbers((size_t)ranks);
    MPI_Datatype *types = memory((size_t)ranks * sizeof *types);
    for (int i = 0; i < count; i++) out[i] = value(rank, 0, i);
    MPI_Allgather(out, count, MPI_INT, in, count, MPI_INT, world);
    for (int from = 0; from < ranks; from++)
        for (int i = 0; i < count; i++) CHECK(in[from * count + i] == value(from, 0, i));

    for (int other = 0; other < ranks; other++) {
        sent[other] = part(rank, other, count);
        got[other] = part(other, 0, count);
        places[other] = other * count;
        types[other] = MPI_INT;
        for (int i = 0; i < count; i++) out[other * count + i] = value(rank, other, i);
    }
    int *own = numbers((size_t)count);
    for (int i = 0; i < got[rank]; i++) own[i] = value(rank, 0, i);
    MPI_Allgatherv(own, got[rank], MPI_INT, in, got, places, MPI_INT, world);
    for (int from = 0; from < ranks; from++)
        for (int i = 0; i < got[from]; i++) CHECK(in[from * count + i] == value(from, 0, i));
    free(own);

    MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, world);
    for (int from = 0; from < ranks; from++)
        for (int i = 0; i < count; i++) CHECK(in[from * count + i] == value(from, rank, i));

    for (int other = 0; other < ranks; other++) got[other] = part(other, rank, count);
    for (int way = 0; way < 2; way++) {
        memset(in, 0xff, all * sizeof *in);
        if (way == 0) {
            MPI_Alltoallv(out, sent, places, MPI_INT, in, got, places, MPI_INT, world);
        } else {
            /* Places in bytes. */
            for (int other = 0; other < ranks; other++) places[other] *= (int)sizeof(int);
            MPI_Alltoallw(out, sent, places, types, in, got, places, types, world);
        }
        for (int from = 0; from < ranks; from++)
            for (int i = 0; i < count; i++)
                CHECK(in[from * count + i] == (i < got[from] ? value(from, rank, i) : -1));
    }
    free(out);
    free(in);
    free(sent);
    free(got);
    free(places);
    free(types);
}

static void reductions(int count)
{
    size_t all = (size_t)count * (size_t)ranks;
    int64_t *out = memory(all * sizeof *out), *in = memory(all * sizeof *in);
    int *counts = numbers((size_t)ranks);
    int64_t others = (int64_t)ranks * (ranks - 1) / 2, before = (int64_t)rank * (rank - 1) / 2;
    for (size_t i = 0; i < all; i++) out[i] = rank + (int64_t)i * 1000;
    MPI_Allreduce(out, in, count, MPI_INT64_T, MPI_SUM, world);
    for (int64_t i = 0; i < count; i++) CHECK(in[i] == others + ranks * i * 1000);
    MPI_Scan(out, in, count, MPI_INT64_T, MPI_SUM, world);
    for (int64_t i = 0; i < count; i++) CHECK(in[i] == before + rank + (rank + 1) * i * 1000);
    MPI_Exscan(out, in, count, MPI_INT64_T, MPI_SUM, world);
    for (int64_t i = 0; rank && i < count; i++) CHECK(in[i] == before + rank * i * 1000);
    MPI_Reduce_scatter_block(out, in, count, MPI_INT64_T, MPI_SUM, world);
    for (int64_t i = 0; i < count; i++) CHECK(in[i] == others + ranks * (rank * count + i) * 1000);
    for (int other = 0; other < ranks; other++) counts[other] = other == 0 ? 0 : count;
    MPI_Reduce_scatter(out, in, counts, MPI_INT64_T, MPI_SUM, world);
    for (int64_t i = 0; i < counts[rank]; i++)
        CHECK(in[i] == others + ranks * ((rank - 1) * count + i) * 1000);
    memcpy(in, out, all * sizeof *in);
    MPI_Allreduce(MPI_IN_PLACE, in, count, MPI_INT64_T, MPI_MIN, world);
    for (int64_t i = 0; i < count; i++) CHECK(in[i] == i * 1000);
    free(out);
    free(in);
    free(counts);
}

static const int COUNTS[] = {1, 100, 3000, 20000};

void collectives(void)
{
    for (int i = 0; i < 20; i++) MPI_Barrier(world);
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++) {
        for (int root = 0; root < ranks; root++) {
            rooted(root, COUNTS[i]);
            rooted_parts(root, COUNTS[i]);
        }
        all_to_all(COUNTS[i]);
        reductions(COUNTS[i]);
    }
}

/* Five at a time, ended together. */
void nonblocking_collectives(void)
{
    for (size_t n = 0; n < sizeof COUNTS / sizeof *COUNTS; n++) {
        int count = COUNTS[n], root = (int)n % ranks;
        size_t all = (size_t)count * (size_t)ranks;
        int *out = numbers(all), *given = numbers((size_t)count), *gathered = numbers(all);
        int *crossed = numbers(all), *sum = numbers((size_t)count);
        MPI_Request requests[5];
        for (int to = 0; to < ranks; to++)
            for (int i = 0; i < count; i++) out[to * count + i] = value(rank, to, i);
        for (int i = 0; i < count; i++) given[i] = rank == root ? value(root, 1, i) : -1;
        MPI_Ibcast(given, count, MPI_INT, root, world, &requests[0]);
        MPI_Iallgather(out, count, MPI_INT, gathered, count, MPI_INT, world, &requests[1]);
        MPI_Ialltoall(out, count, MPI_INT, crossed, count, MPI_INT, world, &requests[2]);
        MPI_Iallreduce(out, sum, count, MPI_INT, MPI_MAX, world, &requests[3]);
        MPI_Ibarrier(world, &requests[4]);
        MPI_Waitall(5, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < count; i++) {
            CHECK(given[i] == value(root, 1, i));
            CHECK(sum[i] == value(ranks - 1, 0, i));
            for (int from = 0; from < ranks; from++) {
                CHECK(gathered[from * count + i] == value(from, 0, i));
                CHECK(crossed[from * count + i] == value(from, rank, i));
            }
        }
        free(out);
        free(given);
        free(gathered);
        free(crossed);
        free(sum);
    }
}
