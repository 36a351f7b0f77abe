/* Conjugate gradients for a chain of springs (the one-dimensional Laplacian), bound by the allreduce of its two
   dot products per step. Arguments: unknowns per rank, at least 2; steps. Prints `time SECONDS`. Checked: after
   as many steps as there are unknowns the answer is the known one, and before that the error is no larger than at
   the beginning. */
#include "check.h"
#include <math.h>

int rank, ranks;

/* The neighbours' outermost values into x[0] and x[n + 1]; nothing lies beyond the ends. */
static void borders(double *x, int n)
{
    int left = rank ? rank - 1 : MPI_PROC_NULL, right = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    x[0] = x[n + 1] = 0;
    MPI_Sendrecv(&x[1], 1, MPI_DOUBLE, left, 0, &x[n + 1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(&x[n], 1, MPI_DOUBLE, right, 1, &x[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static double dot(const double *x, const double *y, int n)
{
    double sum = 0, all;
    for (int i = 1; i <= n; i++) sum += x[i] * y[i];
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count != 3) FAIL("give: unknowns per rank, steps");
    int n = atoi(words[1]), steps = atoi(words[2]);
    size_t bytes = (size_t)(n + 2) * sizeof(double);
    double *known = memory(bytes), *x = memory(bytes), *r = memory(bytes), *p = memory(bytes), *q = memory(bytes);
    for (int i = 0; i <= n + 1; i++) known[i] = sin(0.37 * (rank * n + i)) + 1.5;
    borders(known, n);
    memset(x, 0, bytes);
    for (int i = 1; i <= n; i++) p[i] = r[i] = 2 * known[i] - known[i - 1] - known[i + 1];
    double begin_error = dot(known, known, n), rr = dot(r, r, n), first = rr;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    int step_number = 0;
    for (; step_number < steps && rr > first * 1e-24; step_number++) {
        borders(p, n);
        for (int i = 1; i <= n; i++) q[i] = 2 * p[i] - p[i - 1] - p[i + 1];
        double alpha = rr / dot(p, q, n);
        for (int i = 1; i <= n; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        double next = dot(r, r, n), beta = next / rr;
        for (int i = 1; i <= n; i++) p[i] = r[i] + beta * p[i];
        rr = next;
    }
    double took = MPI_Wtime() - begin;
    for (int i = 1; i <= n; i++) q[i] = x[i] - known[i];
    double error = sqrt(dot(q, q, n) / begin_error);
    CHECK(error < (steps >= n * ranks ? 1e-6 : 1));
    if (rank == 0) printf("steps %d, error %.1e\ntime %.6f\n", step_number, error, took);
    MPI_Finalize();
    return 0;
}
