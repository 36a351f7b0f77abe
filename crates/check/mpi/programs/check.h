/* What the MPI programs here share: bytes that follow from who sends them to whom and as which, and how
   a difference is reported. */
#ifndef GIGAE_MPI_CHECK_H
#define GIGAE_MPI_CHECK_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of MPI_COMM_WORLD; each program defines them. */
extern int rank, ranks;

/* Ends all ranks with exit code 1, saying where and what. */
#define FAIL(...) \
    do { \
        fprintf(stderr, "rank %d, %s:%d: ", rank, __FILE__, __LINE__); \
        fprintf(stderr, __VA_ARGS__); \
        fputc('\n', stderr); \
        fflush(stderr); \
        MPI_Abort(MPI_COMM_WORLD, 1); \
        exit(1); \
    } while (0)

#define CHECK(condition) \
    do { \
        if (!(condition)) FAIL("does not hold: %s", #condition); \
    } while (0)

static inline void *memory(size_t bytes)
{
    void *got = malloc(bytes ? bytes : 1);
    if (!got) FAIL("no memory for %zu bytes", bytes);
    return got;
}

/* A generator of 64 bits per step (splitmix64, Steele et al. 2014). */
static inline uint64_t step(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint64_t seed_of(int from, int to, int which)
{
    return ((uint64_t)from << 48) ^ ((uint64_t)to << 32) ^ (uint32_t)which;
}

/* The bytes of message `which` from one rank to another. */
static inline void fill(unsigned char *at, size_t bytes, int from, int to, int which)
{
    uint64_t state = seed_of(from, to, which), word = 0;
    for (size_t i = 0; i < bytes; i++, word >>= 8) {
        if (i % 8 == 0) word = step(&state);
        at[i] = (unsigned char)word;
    }
}

static inline void verify(const unsigned char *at, size_t bytes, int from, int to, int which)
{
    uint64_t state = seed_of(from, to, which), word = 0;
    for (size_t i = 0; i < bytes; i++, word >>= 8) {
        if (i % 8 == 0) word = step(&state);
        if (at[i] != (unsigned char)word)
            FAIL("byte %zu of %zu of message %d from %d to %d is %02x and not %02x", i, bytes, which,
                 from, to, at[i], (unsigned char)word);
    }
}

#endif
