/* A PM ping-pong between nodes 0 and 1: `pm_pingpong CONFIG` on both. */
#include <pm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pmContext *pmc;
static void check(int result)
{
    if (result != PM_SUCCESS) fprintf(stderr, "pm_pingpong: %s\n", pmErrorString(result)), exit(1);
}

static void put(int dest, const void *data, size_t len)
{
    caddr_t buf; int result;
    while ((result = pmGetSendBuffer(pmc, dest, &buf, len)) == ENOBUFS) {}
    check(result), memcpy(buf, data, len), check(pmSend(pmc));
}
static void get(void *data, size_t len)
{
    caddr_t buf; int result;
    while ((result = pmReceive(pmc, &buf, &len)) == ENOBUFS) {}
    check(result), memcpy(data, buf, len), check(pmReleaseReceiveBuffer(pmc));
}
int main(int argc, char **argv)
{
    char *config[] = {"-config", argc > 1 ? argv[1] : "/etc/pm.conf"};
    int self, n, got;
    pmDevice *device;
    check(pmOpenDevice("ethernet", 2, config, &device));
    check(pmOpenContext(device, 0, &pmc)), check(pmGetSelf(pmc, &self));
    for (n = 0; n < 1000; n++) {
        if (self == 0) put(1, &n, sizeof n);
        if (get(&got, sizeof got), got != n) return 1;
        if (self == 1) put(0, &n, sizeof n);
    }
    printf("node %d: %d round trips\n", self, n);
    return pmCloseContext(pmc) == PM_SUCCESS && pmCloseDevice(device) == PM_SUCCESS ? 0 : 1;
}
