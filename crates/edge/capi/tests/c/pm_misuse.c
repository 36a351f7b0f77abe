/* What a PM program may get wrong: PM's codes, and nothing else happens. `pm_misuse CONFIG` */
#include <gigae.h>
#include <pm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IS(call, code) is(call, code, #call, __LINE__)

static void is(int result, int code, const char *call, int line)
{
    if (result != code) {
        fprintf(stderr, "line %d: %s is %d (%s), not %d\n", line, call, result, gigae_last_error(), code);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    char *config[] = {"program", "-config", argc > 1 ? argv[1] : ""};
    char *trunk[] = {"-trunk:0", "file"};
    char *missing[] = {"-config", "/no/such/file"};
    char memory[16], *buf;
    pmDevice *device;
    pmContext *pmc, *other;
    pmAddrHandle handle = 0;
    size_t len, mtu = 0;
    int self = 9, nodes[2], count, fd;

    IS(pmOpenDevice("myrinet", 0, NULL, &device), ENODEV);
    IS(device != NULL, 0);
    IS(pmOpenDevice(PM_ETHERNET, 2, trunk, &device), EINVAL);
    IS(pmOpenDevice(PM_ETHERNET, 2, missing, &device), EINVAL);
    IS(pmOpenDevice(PM_ETHERNET, -1, config, &device), EINVAL);
    IS(pmOpenDevice(PM_ETHERNET, 1, NULL, &device), EINVAL);
    IS(pmOpenDevice(NULL, 0, NULL, &device), EINVAL);
    IS(pmOpenDevice(PM_ETHERNET, 3, config, NULL), EINVAL);
    IS(pmOpenDevice(PM_ETHERNET, 3, config, &device), PM_SUCCESS);
    IS(pmOpenContext(device, 256, &pmc), EINVAL);
    IS(pmOpenContext((pmDevice *)memory, 0, &pmc), EINVAL);
    IS(pmOpenContext(device, 7, &pmc), PM_SUCCESS);
    IS(pmCloseDevice(device), PM_SUCCESS);
    IS(pmCloseDevice(device), EINVAL);
    IS(pmAttachContext(PM_ETHERNET, 0, &other), ENODEV);

    IS(pmGetSelf(pmc, &self), PM_SUCCESS);
    IS(pmGetMtu(pmc, &mtu), PM_SUCCESS);
    IS(mtu == 1468, 1);
    count = 1;
    IS(pmGetNodeList(pmc, nodes, &count), ENOSPC);
    IS(count, 2);
    IS(pmGetNodeList(pmc, nodes, &count), PM_SUCCESS);
    IS(nodes[0] == 0 && nodes[1] == 1, 1);
    count = -1;
    IS(pmGetFd(pmc, &fd, &count), EINVAL);
    count = 0;
    IS(pmGetFd(pmc, NULL, &count), ENOSPC);
    IS(count, 1);
    IS(pmGetFd(pmc, &fd, &count), PM_SUCCESS);
    nodes[1] = 5;
    IS(pmAssociateNodes(pmc, nodes, 2), EINVAL);
    IS(pmAssociateNodes(pmc, &self, 1), PM_SUCCESS);
    IS(pmGetSendBuffer(pmc, 1 - self, &buf, 1), EINVAL);
    nodes[1] = 1;
    IS(pmAssociateNodes(pmc, nodes, 2), PM_SUCCESS);

    /* None held, one too long, a second buffer. */
    IS(pmReceive(pmc, NULL, &len), EINVAL);
    IS(pmReleaseReceiveBuffer(pmc), EIO);
    IS(pmSend(pmc), EIO);
    IS(pmTruncateBuffer(pmc, 1), EIO);
    IS(pmGetSendBuffer(pmc, 1 - self, &buf, mtu + 1), EINVAL);
    IS(pmGetSendBuffer(pmc, 1 - self, &buf, 0), EINVAL);
    IS(pmGetSendBuffer(pmc, self, &buf, 1), EINVAL);
    IS(pmGetSendBuffer(pmc, 2, &buf, 1), EINVAL);
    IS(pmGetSendBuffer(pmc, 1 - self, NULL, 1), EINVAL);
    IS(pmGetMulticastBuffer(pmc, nodes, 2, &buf, 1), ENOSYS);
    IS(pmTimeRequest(pmc, 1 - self), ENOSYS);
    IS(pmGetSendBuffer(pmc, 1 - self, &buf, mtu), PM_SUCCESS);
    memset(buf, 1, mtu);
    IS(pmGetSendBuffer(pmc, 1 - self, &buf, 1), EBUSY);
    IS(pmTruncateBuffer(pmc, 0), EINVAL);
    IS(pmTruncateBuffer(pmc, mtu + 1), EINVAL);
    IS(pmTruncateBuffer(pmc, 10), PM_SUCCESS);
    IS(pmTruncateBuffer(pmc, 11), EINVAL);
    IS(pmSend(pmc), PM_SUCCESS);
    IS(pmSend(pmc), EIO);
    while (pmReceive(pmc, &buf, &len) == ENOBUFS) {}
    IS(len == 10 && buf[9] == 1, 1);
    IS(pmReceive(pmc, &buf, &len), EBUSY);
    IS(pmReleaseReceiveBuffer(pmc), PM_SUCCESS);
    IS(pmReleaseReceiveBuffer(pmc), EIO);

    IS(pmMLock(pmc, 2, memory, sizeof memory, &handle), EINVAL);
    IS(pmMLock(pmc, PM_NODE_ANY, memory, 0, &handle), EINVAL);
    IS(pmMLock(pmc, PM_NODE_ANY, NULL, 1, &handle), EINVAL);
    IS(pmMLock(pmc, PM_NODE_ANY, memory, sizeof memory, &handle), PM_SUCCESS);
    IS(pmWrite(pmc, 1 - self, handle, handle + 9, 8), EINVAL);
    IS(pmWrite(pmc, 1 - self, handle, handle, 0), EINVAL);
    IS(pmRead(pmc, 1 - self, handle, 77, 8), EINVAL);
    IS(pmRead(pmc, self, handle, handle, 8), EINVAL);
    IS(pmIsWriteDone(pmc), PM_SUCCESS);
    IS(pmIsReadDone(pmc), PM_SUCCESS);
    IS(pmMUnlock(pmc, PM_NODE_ANY, memory, 1), ENOENT);
    IS(pmMUnlock(pmc, 1 - self, memory, sizeof memory), ENOENT);
    IS(pmMUnlock(pmc, PM_NODE_ANY, memory, sizeof memory), PM_SUCCESS);
    IS(pmMUnlock(pmc, PM_NODE_ANY, memory, sizeof memory), ENOENT);

    IS(pmDumpContext(pmc), PM_SUCCESS);
    IS(pmBeforeSelect(pmc), PM_SUCCESS);
    IS(pmAfterSelect(pmc), PM_SUCCESS);
    IS(pmMLock(pmc, PM_NODE_ANY, memory, sizeof memory, &handle), PM_SUCCESS);
    IS(pmGetSendBuffer(pmc, 1 - self, &buf, 1), PM_SUCCESS);
    IS(pmCloseContext(pmc), PM_SUCCESS);
    IS(pmCloseContext(pmc), EINVAL);
    IS(pmReceive(pmc, &buf, &len), EINVAL);
    IS(pmReceive(NULL, &buf, &len), EINVAL);
    IS(strcmp(pmErrorString(PM_SUCCESS), "no error"), 0);
    return 0;
}
