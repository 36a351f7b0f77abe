/* A processor for each rank. Define _GNU_SOURCE before anything is included. */
#ifndef GIGAE_MPI_PIN_H
#define GIGAE_MPI_PIN_H

#include "check.h"
#include <sched.h>

/* To the rank-th of the processors that this process may use. */
static inline void pin(void)
{
    cpu_set_t all, own;
    CHECK(!sched_getaffinity(0, sizeof all, &all));
    if (CPU_COUNT(&all) < ranks) return;
    for (int cpu = 0, number = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all) || number++ != rank) continue;
        CPU_ZERO(&own);
        CPU_SET(cpu, &own);
        CHECK(!sched_setaffinity(0, sizeof own, &own));
    }
}

#endif
