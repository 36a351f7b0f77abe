/*
 * Node 0 writes into the memory of node 1 and reads it back; node 1 checks it after a message. Until
 * node 0 has written, node 1 makes no call. The second argument is a directory that both can use.
 */
#include <pm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IS(call, code) is(call, code, #call, __LINE__)
enum { LEN = 300000, AT = 1000 };
static pmContext *pmc;
static char memory[LEN + 2 * AT], back[LEN];

static void is(int result, int code, const char *call, int line)
{
    if (result != code) {
        fprintf(stderr, "line %d: %s is %d (%s), not %d\n", line, call, result, pmErrorString(result), code);
        exit(1);
    }
}

static void put(int dest, const void *data, size_t len)
{
    int result;
    caddr_t buf;
    while ((result = pmGetSendBuffer(pmc, dest, &buf, len)) == ENOBUFS) {}
    IS(result, PM_SUCCESS);
    memcpy(buf, data, len);
    IS(pmSend(pmc), PM_SUCCESS);
}

static void get(void *data, size_t len)
{
    int result;
    caddr_t buf;
    size_t got;
    while ((result = pmReceive(pmc, &buf, &got)) == ENOBUFS) {}
    IS(result, PM_SUCCESS);
    IS(got == len, 1);
    memcpy(data, buf, len);
    IS(pmReleaseReceiveBuffer(pmc), PM_SUCCESS);
}

int main(int argc, char **argv)
{
    char written[4096];
    pmDevice *device;
    pmAddrHandle here, there, other;
    int self, result, i;
    char word;
    snprintf(written, sizeof written, "%s/written", argc > 2 ? argv[2] : "");
    IS(pmOpenDevice(PM_ETHERNET, 0, NULL, &device), PM_SUCCESS);
    IS(pmOpenContext(device, 0, &pmc), PM_SUCCESS);
    IS(pmGetSelf(pmc, &self), PM_SUCCESS);
    IS(pmMLock(pmc, 1 - self, memory, sizeof memory, &here), PM_SUCCESS);
    if (self == 0) {
        get(&there, sizeof there);
        for (i = 0; i < LEN; i++) memory[i] = (char)(i % 251);
        IS(pmWrite(pmc, 1, there + AT, here, LEN), PM_SUCCESS);
        IS(pmMUnlock(pmc, 1, memory, sizeof memory), EBUSY);
        while ((result = pmIsWriteDone(pmc)) == EBUSY) {}
        IS(result, PM_SUCCESS);
        IS(fclose(fopen(written, "w")), 0);
        IS(pmWrite(pmc, 1, there + AT, here, LEN), PM_SUCCESS);
        put(1, "w", 1); /* Received after the bytes are in place. */
        while ((result = pmIsWriteDone(pmc)) == EBUSY) {}
        IS(result, PM_SUCCESS);
        IS(pmMLock(pmc, PM_NODE_ANY, back, sizeof back, &other), PM_SUCCESS);
        IS(pmRead(pmc, 1, there + AT + 1, other + 1, LEN - 1), PM_SUCCESS);
        while ((result = pmIsReadDone(pmc)) == EBUSY) {}
        IS(result, PM_SUCCESS);
        IS(memcmp(memory + 1, back + 1, LEN - 1), 0);
        IS(back[0], 0);
        IS(pmMUnlock(pmc, PM_NODE_ANY, back, sizeof back), PM_SUCCESS);

        /* What is refused there is reported here, once. */
        IS(pmWrite(pmc, 1, there + 3 * AT, here, LEN), PM_SUCCESS);
        while ((result = pmIsWriteDone(pmc)) == EBUSY) {}
        IS(result, EINVAL);
        IS(pmIsWriteDone(pmc), PM_SUCCESS);
        put(1, "u", 1);
        get(&word, 1);
        IS(pmRead(pmc, 1, there, here, 1), PM_SUCCESS);
        while ((result = pmIsReadDone(pmc)) == EBUSY) {}
        IS(result, ENOENT);
        put(1, "e", 1);
        printf("%d bytes there and back\n", LEN);
    } else {
        put(0, &here, sizeof here);
        while (access(written, F_OK) != 0) usleep(1000); /* It computes. */
        get(&word, 1);
        for (i = 0; i < LEN; i++) IS(memory[AT + i] == (char)(i % 251), 1);
        IS(memory[AT - 1] == 0 && memory[AT + LEN] == 0, 1);
        get(&word, 1);
        IS(pmMUnlock(pmc, 0, memory, sizeof memory), PM_SUCCESS);
        put(0, "u", 1);
        get(&word, 1);
        printf("%d bytes were written\n", LEN);
    }
    IS(pmCloseContext(pmc), PM_SUCCESS);
    IS(pmCloseDevice(device), PM_SUCCESS);
    return 0;
}
