/*
 * A PM program that computes: `pm_computes CONFIG SECONDS MESSAGES`. After a first message its
 * context is left alone for SECONDS; then it receives what came during that time.
 */
#define _POSIX_C_SOURCE 200809L
#include <pm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pmContext *pmc;

static void check(int result)
{
    if (result != PM_SUCCESS) fprintf(stderr, "pm_computes: %s\n", pmErrorString(result)), exit(1);
}

static void get(int *number)
{
    int result;
    caddr_t buf;
    size_t len;
    while ((result = pmReceive(pmc, &buf, &len)) == ENOBUFS) {}
    check(result);
    if (len != sizeof *number) exit(3);
    memcpy(number, buf, sizeof *number);
    check(pmReleaseReceiveBuffer(pmc));
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    char *config[] = {"-config", argv[1]};
    time_t seconds = atoi(argv[2]);
    int n, got, messages = atoi(argv[3]);
    struct timespec now;
    pmDevice *device;
    check(pmOpenDevice(PM_ETHERNET, 2, config, &device));
    check(pmOpenContext(device, 0, &pmc));
    printf("waiting on node 0\n"), fflush(stdout);
    get(&got);
    clock_gettime(CLOCK_MONOTONIC, &now);
    time_t end = now.tv_sec + seconds + 1;
    while (now.tv_sec < end) clock_gettime(CLOCK_MONOTONIC, &now);
    for (n = 0; n < messages; n++) {
        if (get(&got), got != n) return 3;
    }
    printf("%d messages\n", messages);
    check(pmCloseContext(pmc));
    check(pmCloseDevice(device));
    return 0;
}
