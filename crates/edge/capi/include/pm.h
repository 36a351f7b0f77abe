/*
 * pm.h: the API of PM (SCore's PMv2) over gigae, so that a PM program recompiles.
 *
 *     pmDevice *device;
 *     pmContext *pmc;
 *     caddr_t buf;
 *     if (pmOpenDevice("ethernet", 0, NULL, &device) == PM_SUCCESS
 *         && pmOpenContext(device, 0, &pmc) == PM_SUCCESS) {
 *         while (pmGetSendBuffer(pmc, 1, &buf, 5) == ENOBUFS) ;
 *         memcpy(buf, "hello", 5);
 *         pmSend(pmc);
 *     }
 *
 * Build with `cc program.c $(pkg-config --cflags --libs gigae)`.
 *
 * STANDING. What is known of PM's API differs from call to call. So each call names its source:
 *
 *     DOCUMENTED  prototype and codes are those of PM's manual pages.
 *     INFERRED    manual pages name the call or show its use; the prototype is concluded.
 *     OWN         the sources say nothing: apart from the name, prototype and meaning are gigae's.
 *
 * "Own:" in an explanation marks what goes beyond the manual pages. docs/reference/pm.md of
 * gigae lists the sources and what they leave open.
 *
 * RESULTS are PM_SUCCESS or a code of errno.h, as the result and not in errno. gigae_last_error()
 * of gigae.h says more about the last failure, except for ENOBUFS and EBUSY, which a program
 * expects. Own: a call on a closed context or device, or on NULL, returns EINVAL. One thread at a
 * time uses a context; a second one gets EBUSY. After fork, use it only in the parent.
 *
 * MESSAGES arrive once and in order from each node. pmReceive does not return the sender: write it
 * into the message. While pmGetSendBuffer returns ENOBUFS, receive: the other nodes may be waiting
 * for just that. Own: one send buffer and one received message may be held at the same time.
 *
 * PROGRESS. While the program makes no call, a background thread answers the other nodes and lets
 * them read and write registered memory. So a program may compute for as long as it wants.
 */
#ifndef PM_H
#define PM_H

#include <errno.h>
#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* DOCUMENTED; that it is zero is inferred. */
#define PM_SUCCESS 0

/* DOCUMENTED; the value is own. Every node, for locking a region. */
#define PM_NODE_ANY (-1)

/* OWN name for the type of device, a documented word of SCore's cluster database. */
#define PM_ETHERNET "ethernet"

/* DOCUMENTED; their contents are private. */
typedef struct pmDevice pmDevice;
typedef struct pmContext pmContext;

/*
 * DOCUMENTED: names a locked region; an offset in bytes may be added to it. Own: 128 bits, of which
 * the lower half is the offset. To share it with another node, write it into a message unchanged.
 */
__extension__ typedef unsigned __int128 pmAddrHandle;

/* In the manual pages, `char *` is caddr_t where it is the address of a message or of memory. */

/* ---- Devices and contexts ------------------------------------------------------------------ */

/*
 * DOCUMENTED. Opens a device of a type, PM_ETHERNET. Arguments: -config FILE, the list of nodes in
 * the form of PM/Ethernet's configuration: lines "NUMBER MAC HOSTNAME", and "checksum 0" or 1;
 * "unit", "maxnsend" and "backoff" are read and not needed. argv may begin with a program's name.
 * Own: a line "netdev NAME" says which interface to use (eth0); the node with its MAC address is
 * this one. Without -config the nodes are those of the cluster file (gigae_cluster_load). A device
 * may be opened more than once, which PM does not allow.
 * Errors: ENODEV type; EINVAL arguments or list of nodes; ENOMEM.
 */
int pmOpenDevice(char *type, int argc, char **argv, pmDevice **pmdp);

/* OWN. Closes a device. Contexts that were opened with it continue. Error: EINVAL. */
int pmCloseDevice(pmDevice *pmd);

/*
 * INFERRED from PM 1.2. Opens context number `ctx` of a device: own: an endpoint on that channel, 0
 * to 255, ready to use with all nodes of the list. All nodes of a program use the same number.
 * Errors: EINVAL number, or this node is not in the list; ENODEV no such interface; EIO it cannot
 * be used; ENOMEM.
 */
int pmOpenContext(pmDevice *pmd, int ctx, pmContext **pmcp);

/*
 * INFERRED from PM 1.2. Closes a context. Own: returns everything that is held of it and unlocks
 * regions. Waits at most for a second or two until everything that was sent has arrived, and ends
 * transfers. Uses no memory of the program afterwards. Error: EINVAL.
 */
int pmCloseContext(pmContext *pmc);

/* DOCUMENTED, but contexts cannot be passed to other processes here. Error: ENODEV, always. */
int pmAttachContext(char *type, int fd, pmContext **pmcp);

/*
 * OWN. From now on the context sends only to these nodes of the list; this node is ignored. Not
 * needed: pmOpenContext takes all. Error: EINVAL, with no effect.
 */
int pmAssociateNodes(pmContext *pmc, const int *nodes, int nnode);

/* OWN. This node's number. Error: EINVAL. */
int pmGetSelf(pmContext *pmc, int *node);

/*
 * OWN, in the manner of pmGetFd. The numbers of all nodes of the list, in order, including this
 * one. *nnodep: in, room in the array; out, number of nodes, also when there was too little room.
 * Errors: ENOSPC too little room; EINVAL a negative number.
 */
int pmGetNodeList(pmContext *pmc, int *nodes, int *nnodep);

/* OWN. The longest message in bytes, 1,468 on an interface with an MTU of 1,500. Error: EINVAL. */
int pmGetMtu(pmContext *pmc, size_t *mtu);

/* ---- Messages ------------------------------------------------------------------------------ */

/*
 * DOCUMENTED. Returns a buffer for a message of `len` bytes to node `dest`, if there is one; never
 * waits. Build the message in it, then call pmSend. Own: send a buffer before taking the next, also
 * to another node; a received message may be held at the same time. No copy. Errors: ENOBUFS none
 * now: receive and try again; EINVAL node (own: also this one), less than one byte or more than the
 * MTU; EBUSY a buffer is held.
 */
int pmGetSendBuffer(pmContext *pmc, int dest, char **bufp, size_t len);

/* DOCUMENTED, with ENOSYS as one of its answers. Error: ENOSYS, always. */
int pmGetMulticastBuffer(pmContext *pmc, int *dest, int ndest, char **bufp, size_t len);

/* OWN. Shortens the message being built. Errors: EINVAL zero bytes or too many; EIO no buffer. */
int pmTruncateBuffer(pmContext *pmc, size_t len);

/*
 * INFERRED from pages that name it. Sends the message that was built; do not touch its buffer any
 * more. Never waits; a sent message is not delivered yet. Own errors, after which the message was
 * not sent and is gone: EIO no buffer is held, the data link failed, or messages to this node
 * failed; EPIPE the node's end was closed or restarted. A message that is sent while an interface
 * is down goes when it is up again, if that is soon. pmReceive returns EIO while the interface is
 * down.
 */
int pmSend(pmContext *pmc);

/*
 * DOCUMENTED. Polls once for a message and returns its address and length if there is one. Own: the
 * message is read-only, and *bufp and *lenp stay unchanged without one. No copy.
 * Errors: ENOBUFS no message; EBUSY one is held: release it; EIO the data link does not work, or
 * messages to some node failed: what was sent last to it may not have arrived; EPIPE the same
 * because it closed its end or restarted. gigae_last_error() says which. EIO of the link lasts as
 * long as its reason, the others are reported once. The context can still be used.
 */
int pmReceive(pmContext *pmc, char **bufp, size_t *lenp);

/* DOCUMENTED. Returns the message of pmReceive to the context. Error: EIO none is held. */
int pmReleaseReceiveBuffer(pmContext *pmc);

/* ---- Remote memory ------------------------------------------------------------------------- */

/*
 * DOCUMENTED. Locks a region and returns its handle, for a node or PM_NODE_ANY. Any alignment and
 * length from 1 byte to 1 GiB. Own: every node that knows the handle may read and write it while
 * this program makes calls on the context. The region must stay where it is until it is unlocked.
 * Errors: EINVAL node or length; ENOSPC too many are locked (1,048,576).
 */
int pmMLock(pmContext *pmc, int rmt_node, char *addr, size_t len, pmAddrHandle *hndlp);

/*
 * DOCUMENTED. Unlocks what was locked with the same node, address and length. This takes effect at
 * once: later operations with the handle are refused.
 * Errors: EINVAL node; ENOENT it is not locked; EBUSY (own) a transfer of this context uses it.
 */
int pmMUnlock(pmContext *pmc, int rmt_node, char *addr, size_t len);

/*
 * DOCUMENTED. Starts copying `len` bytes from a local region to one of another node; either handle
 * may have an offset added. Any alignment, up to 1 GiB. Own: the local bytes must stay unchanged
 * until pmIsWriteDone returns PM_SUCCESS. A message that is sent after pmWrite to the same node
 * waits here until the bytes are in place there. It goes with the first PM call after that, so make
 * one before you compute for long.
 * Errors: EINVAL node, length or local handle; ENOBUFS too many transfers are in progress.
 */
int pmWrite(pmContext *pmc, int rmt_node, pmAddrHandle rmt_hndl, pmAddrHandle local_hndl,
            size_t len);

/* DOCUMENTED. The same from the other node's region to the local one; pmIsReadDone ends it. */
int pmRead(pmContext *pmc, int rmt_node, pmAddrHandle rmt_hndl, pmAddrHandle local_hndl,
           size_t len);

/*
 * OWN. Whether all writes of this context are done: their bytes are in place. Makes progress.
 * Errors: EBUSY not yet. For a failed write, reported once: ENOENT the remote region is not locked,
 * EINVAL its bytes are not all within that, EIO or EPIPE the node was lost.
 */
int pmIsWriteDone(pmContext *pmc);

/* OWN. The same for reads: the local bytes are there. */
int pmIsReadDone(pmContext *pmc);

/* ---- Sleeping ------------------------------------------------------------------------------ */

/*
 * DOCUMENTED for composite contexts; own: for all. Fills the array with descriptors for select or
 * poll, which become readable; they belong to the context. *nfdp: in, room; out, their number (here
 * one), also when there was too little room.
 * Errors: ENOSPC too little room; EINVAL a negative number.
 */
int pmGetFd(pmContext *pmc, int *fd, int *nfdp);

/*
 * DOCUMENTED. Call this before select, and then pmReceive until ENOBUFS; if there were messages,
 * handle them first. Own: the descriptor also becomes readable when acknowledgements or repetitions
 * are due, so a select may end without a message. Own error: EIO.
 */
int pmBeforeSelect(pmContext *pmc);

/* INFERRED from its counterpart. Call this after select, before receiving. Own error: EIO. */
int pmAfterSelect(pmContext *pmc);

/* ---- Other --------------------------------------------------------------------------------- */

/* DOCUMENTED as optional; there is no global clock here. Error: ENOSYS, always. */
int pmTimeRequest(pmContext *pmc, int dest);

/* OWN. Writes a description of a context to standard error, some lines. */
int pmDumpContext(pmContext *pmc);

/* OWN. The meaning of a code in one line. Never NULL; constant. */
const char *pmErrorString(int error);

#ifdef __cplusplus
}
#endif

#endif
