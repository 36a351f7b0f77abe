/* A PM ring that sleeps: `pm_ring` on every node, with the nodes in the cluster file. */
#include <pm.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>

static void check(int result)
{
    if (result != PM_SUCCESS) fprintf(stderr, "pm_ring: %s\n", pmErrorString(result)), exit(1);
}

int main(void)
{
    int self, nodes[64], count = 64, fd, nfd = 1, result, round, turn;
    pmDevice *device;
    pmContext *pmc;
    caddr_t buf;
    size_t len;
    fd_set set;
    check(pmOpenDevice(PM_ETHERNET, 0, NULL, &device)), check(pmOpenContext(device, 0, &pmc));
    check(pmGetSelf(pmc, &self)), check(pmGetNodeList(pmc, nodes, &count));
    check(pmGetFd(pmc, &fd, &nfd));
    for (round = 0; round < 100; round++) for (turn = 0; turn < 2; turn++) {
        if (turn == (self != 0)) { /* Node 0 sends first, the others receive first. */
            while ((result = pmGetSendBuffer(pmc, (self + 1) % count, &buf, 1)) == ENOBUFS) {}
            check(result), *buf = (char)round, check(pmSend(pmc));
            continue;
        }
        while (check(pmBeforeSelect(pmc)), (result = pmReceive(pmc, &buf, &len)) == ENOBUFS) {
            FD_ZERO(&set); FD_SET(fd, &set);
            if (select(fd + 1, &set, NULL, NULL, NULL) >= 0) check(pmAfterSelect(pmc));
        }
        check(result), check(pmAfterSelect(pmc));
        if (len != 1 || *buf != (char)round) return 1;
        check(pmReleaseReceiveBuffer(pmc));
    }
    printf("node %d of %d: %d rounds\n", self, count, round);
    return pmCloseContext(pmc) == PM_SUCCESS && pmCloseDevice(device) == PM_SUCCESS ? 0 : 1;
}
