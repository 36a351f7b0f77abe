/*
 * gigae.h: reliable, ordered messages on plain Ethernet frames.
 *
 * An endpoint sends messages to other endpoints on the same Ethernet and receives theirs. There is
 * no connection to make: name a peer by its MAC address and send. Every message arrives once and in
 * order, or comes back as failed with the reason. TCP/IP goes on over the same interface.
 *
 *     gigae_endpoint *endpoint;
 *     gigae_message message;
 *     uint32_t peer;
 *     if (gigae_open("eth1", &endpoint) < 0 || gigae_peer(endpoint, "02:00:00:00:00:02", &peer) < 0
 *         || gigae_send(endpoint, peer, "hello", 5) < 0 || gigae_recv(endpoint, &message) < 0)
 *         fprintf(stderr, "%s\n", gigae_last_error());
 *
 * Build with `cc program.c $(pkg-config --cflags --libs gigae)`.
 *
 * RESULTS. An int is zero or more when all went well and one of gigae_error when not.
 * gigae_last_error() says more about the last one, and what to do. Nothing is changed by a call
 * that answers GIGAE_INVALID, GIGAE_BAD_HANDLE or GIGAE_IN_CALL, but that what it should have
 * filled in is empty.
 *
 * THREADS. An endpoint (with its buffers and messages) and options may be used by any thread, by
 * one at a time; a second one is answered GIGAE_IN_CALL. So is a signal handler that comes in the
 * midst of a call. Different endpoints are independent of each other. After fork, use an endpoint
 * only in the parent: a call in the child answers GIGAE_PANICKED, and closing it there does
 * nothing.
 *
 * PROGRESS. A program may compute for as long as it likes. While it makes no calls, one background
 * thread per process acknowledges, repeats, answers, and lets peers use registered memory. The
 * thread blocks all signals and ends with the last endpoint. gigae_options_progress turns it off.
 *
 * MISTAKES. A closed handle, a dropped or zeroed buffer or message, a copy of either, an unknown
 * peer, NULL and lengths out of range are noticed and answered with an error. What cannot be
 * noticed: pointers to memory that is too small or not yours, the use of `data` after the buffer or
 * message was dropped, and the use of memory that an operation has.
 *
 * COSTS are given per call as copies of the message by the library, and system calls. The kernel
 * copies once more each way unless the NIC does zero-copy. A call on an endpoint costs one atomic
 * operation besides; none allocates memory but where it says so, or when more buffers or messages
 * are held at once than ever before.
 */
#ifndef GIGAE_H
#define GIGAE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The release that this header belongs to; gigae_version() tells that of the library. */
#define GIGAE_VERSION_MAJOR 0
#define GIGAE_VERSION_MINOR 1
#define GIGAE_VERSION_PATCH 0

/* The library's release, as "0.1.0". Constant; cannot fail. */
const char *gigae_version(void);

/* ---- Errors -------------------------------------------------------------------------------- */

enum gigae_error {
    /* Nothing there, or no room now: receive or make progress, then try again. */
    GIGAE_AGAIN = -1,
    /* The given time passed first. */
    GIGAE_TIMEOUT = -2,
    /* Messages sent earlier failed: take them with gigae_take_failure, then go on. */
    GIGAE_FAILED = -3,
    /* Longer than gigae_max_message, or than the peer can receive. */
    GIGAE_TOO_LONG = -4,
    /* An argument is NULL, out of range or unknown. */
    GIGAE_INVALID = -5,
    /* The handle, buffer, message, operation or key is closed, used up, or was never one. */
    GIGAE_BAD_HANDLE = -6,
    /* Another thread is in a call on the handle. */
    GIGAE_IN_CALL = -7,
    /* Buffers or messages are still held: send or drop them, then go on. */
    GIGAE_BUSY = -8,
    /* An error in the library stopped the endpoint. All that it still does is close. */
    GIGAE_PANICKED = -9,
    /* There is no such interface here. */
    GIGAE_NO_INTERFACE = -10,
    /* The interface is down. */
    GIGAE_DOWN = -11,
    /* The interface is gone. */
    GIGAE_GONE = -12,
    /* Not permitted: needs root or a capability. */
    GIGAE_PERMISSION = -13,
    /* The interface's MTU is too small. */
    GIGAE_MTU = -14,
    /* The kernel or the link lacks what was asked for. */
    GIGAE_UNSUPPORTED = -15,
    /* Another program has the interface's XDP hook or queue, or took this endpoint off it. */
    GIGAE_TAKEN = -16,
    /* A system call failed. */
    GIGAE_IO = -17,
    /* Not an address, or not one for this envelope. */
    GIGAE_ADDRESS = -18,
    /* The channel is not open on this endpoint. */
    GIGAE_CHANNEL = -19,
    /* Too many peers, or too many handles open in this process (1,024 of each kind). */
    GIGAE_TOO_MANY = -20,
    /* There is no way to the IP address. */
    GIGAE_UNREACHABLE = -21,
    /* An error without a code of its own. */
    GIGAE_OTHER = -22,
    /* How an operation ended: the message was longer than the memory; its beginning is there. */
    GIGAE_TRUNCATED = -23,
    /* Cancelled before anything had happened. */
    GIGAE_CANCELLED = -24,
    /* The peer was lost. How much had been done is not known. */
    GIGAE_LOST = -25,
    /* Refused, and nothing was done: the peer has no memory registered under the key; */
    GIGAE_NO_REGION = -26,
    /* the bytes are not all within that memory; */
    GIGAE_BOUNDS = -27,
    /* the memory was registered without this right; */
    GIGAE_RIGHTS = -28,
    /* the peer has too many notices that it did not take (4,096). */
    GIGAE_NOTICES = -29,
    /* The cluster file is missing or wrong, or lacks a node or an address. */
    GIGAE_CLUSTER = -30
};

/* What a code means, in one line. Never NULL; constant. */
const char *gigae_error_text(int code);

/*
 * What the last call that failed in this thread had to say: one line, with names, numbers and what
 * to do. Never NULL. It stays until the next call of this thread fails; calls that go well leave it
 * alone.
 */
const char *gigae_last_error(void);

/* ---- Options ------------------------------------------------------------------------------- */

/* How an endpoint is to be opened. */
typedef struct gigae_options gigae_options;

/*
 * Options for an interface, everything at its default: port 0, channel 0, EtherType 0x88B5, the
 * best backend, adaptive waiting, selective repeat, a peer timeout of 10 s, a linger of 1 s.
 * "eth1v0/eth1v1" is the first of these interfaces that is up and that no other endpoint uses.
 * Allocates; free them with gigae_options_free. *options is NULL after an error.
 * Errors: GIGAE_INVALID, GIGAE_TOO_MANY.
 */
int gigae_options_new(const char *interface, gigae_options **options);

/*
 * Likewise for several interfaces as one, 1 to 8 names: frames go by all of them, weighed by what
 * each delivers, and by those that are left when one fails, within 50 ms. The first names the
 * endpoint and must work when two endpoints first meet; the n-th must lead to the peers' n-th, who
 * may have fewer. The shortest MTU limits the messages. Not in the UDP envelope.
 */
int gigae_options_trunk(const char *const *interfaces, size_t count, gigae_options **options);

/* Frees options; endpoints that were opened with them are not affected. Error: GIGAE_BAD_HANDLE. */
int gigae_options_free(gigae_options *options);

/* This endpoint's port id, by which endpoints on one node differ. */
int gigae_options_port(gigae_options *options, uint16_t port);

/*
 * The channels to open instead of channel 0: `count` numbers, 1 to 256 of them. Frames on other
 * channels are left to other programs. Messages on different channels do not wait for each other
 * and are not ordered among each other. Error: GIGAE_INVALID.
 */
int gigae_options_channels(gigae_options *options, const uint8_t *channels, size_t count);

/* Another EtherType, 0x0600 or more. Peers are named by MAC addresses. Error: GIGAE_INVALID. */
int gigae_options_ethertype(gigae_options *options, uint16_t ethertype);

/*
 * UDP with this port instead of an EtherType, for networks that carry no unknown ones. Peers are
 * named by IP addresses. Error: GIGAE_INVALID.
 */
int gigae_options_udp(gigae_options *options, uint16_t port);

enum gigae_backend {
    /* AF_XDP in the best mode that passes its self-test, else AF_PACKET. */
    GIGAE_BACKEND_AUTO = 0,
    /* AF_XDP in the best mode that passes its self-test, or an error. */
    GIGAE_BACKEND_XDP = 1,
    /* AF_XDP in exactly this mode, or an error. */
    GIGAE_BACKEND_XDP_ZERO_COPY = 2,
    GIGAE_BACKEND_XDP_NATIVE = 3,
    GIGAE_BACKEND_XDP_GENERIC = 4,
    /* AF_PACKET. */
    GIGAE_BACKEND_PACKET = 5
};

/* The kernel interface to use, one of gigae_backend. Error: GIGAE_INVALID. */
int gigae_options_backend(gigae_options *options, int backend);

enum gigae_sharing {
    /* The NIC itself, whoever else is there. */
    GIGAE_SHARING_ALONE = 0,
    /* The NIC itself if no other endpoint has it, otherwise a child. */
    GIGAE_SHARING_AUTO = 1,
    /* Always a child. */
    GIGAE_SHARING_CHILD = 2
};

/*
 * Whether the NIC is shared with other processes, one of gigae_sharing; alone by default. A child
 * is an interface that the kernel puts beside the NIC (macvlan), with an address of its own, which
 * goes with the endpoint. It needs CAP_NET_ADMIN and an Ethernet envelope; gigae_mac tells its
 * address. The kernel carries frames between the children of a NIC and between them and the wire,
 * but none between a child and an endpoint on the NIC itself. Error: GIGAE_INVALID.
 */
int gigae_options_sharing(gigae_options *options, int sharing);

enum gigae_broker {
    /* Where this process lacks the privileges to open a link and a broker listens. */
    GIGAE_BROKER_AUTO = 0,
    GIGAE_BROKER_NEVER = 1,
    /* Also with privileges. */
    GIGAE_BROKER_ONLY = 2
};

/*
 * Whether a broker (the daemon "gigae broker", at /run/gigae/broker.sock or where the environment
 * variable GIGAE_BROKER says) opens the links; one of gigae_broker. What it gives is a child of the
 * NIC in AF_XDP's generic mode, for an Ethernet envelope only. Who may not have one finds
 * GIGAE_PERMISSION and the reason when the endpoint is opened. Error: GIGAE_INVALID.
 */
int gigae_options_broker(gigae_options *options, int broker);

/*
 * Whether frames to endpoints of this node go through memory instead of the NIC, where both ends
 * say so: 0 by default. They find each other by themselves, whoever is opened first: those of the
 * same user in the same network namespace, with an interface each, the same channels and envelope.
 * gigae_counts tells how many frames did. For each such peer 2 descriptors, and memory of 0.5 MiB
 * per channel each way at MTU 1500, of which what is never used takes up nothing.
 */
int gigae_options_local(gigae_options *options, int on);

/* For gigae_options_progress. */
enum gigae_progress_mode {
    /* A background thread, one for all endpoints of the process, acts for an endpoint whose program
     * has made no call for a millisecond. */
    GIGAE_PROGRESS_AUTO = 0,
    /* Nobody does: call gigae_progress more often than the peers' timeout. */
    GIGAE_PROGRESS_MANUAL = 1
};

/*
 * Who acknowledges, repeats and answers while the program makes no calls, one of
 * gigae_progress_mode; GIGAE_PROGRESS_AUTO by default. Error: GIGAE_INVALID.
 */
int gigae_options_progress(gigae_options *options, int progress);

/* The NIC's receive queue to which an AF_XDP socket is bound; frames of others are not seen. */
int gigae_options_queue(gigae_options *options, uint32_t queue);

enum gigae_wait {
    /* Polls for as long as that has lately paid, 100 us at most, then sleeps. */
    GIGAE_WAIT_ADAPTIVE = 0,
    /* Polls without end: the shortest round trip, one CPU fully used. */
    GIGAE_WAIT_SPIN = 1,
    /* Sleeps at once: no CPU while idle, tens of microseconds for each wake-up. */
    GIGAE_WAIT_SLEEP = 2
};

/* How blocking calls wait, one of gigae_wait. Error: GIGAE_INVALID. */
int gigae_options_wait(gigae_options *options, int style);

enum gigae_busy_poll {
    /* On where it helps: zero-copy and native mode on hardware. */
    GIGAE_BUSY_POLL_AUTO = 0,
    GIGAE_BUSY_POLL_OFF = 1,
    /* On; opening fails if the kernel refuses. */
    GIGAE_BUSY_POLL_ON = 2
};

/*
 * Whether an empty receive ring makes the endpoint drive the driver itself instead of waiting for
 * its interrupt; one of gigae_busy_poll. With GIGAE_BUSY_POLL_ON, each time for at most so many
 * microseconds and `budget` frames (above 64 it takes CAP_NET_ADMIN); otherwise both are ignored.
 * Means nothing to AF_PACKET and AF_XDP in generic mode. Error: GIGAE_INVALID.
 */
int gigae_options_busy_poll(gigae_options *options, int mode, uint32_t microseconds,
                            uint16_t budget);

/*
 * After so many microseconds without an answer, not zero, a peer is lost and what was sent to it
 * fails. Error: GIGAE_INVALID.
 */
int gigae_options_peer_timeout(gigae_options *options, uint64_t microseconds);

/* For how many microseconds gigae_close waits for the acknowledgement of what was sent. */
int gigae_options_linger(gigae_options *options, uint64_t microseconds);

/* Recovers from loss by go-back-N instead of selective repeat. */
int gigae_options_go_back_n(gigae_options *options);

/* Whether small messages that wait for the same doorbell share a frame. On (not 0) by default. */
int gigae_options_aggregate(gigae_options *options, int on);

/*
 * Whether the CRC of sent frames covers the messages or only the header. On (not 0) by default.
 * Ethernet's own FCS covers every wire, but neither memory, bus nor switch.
 */
int gigae_options_payload_checksum(gigae_options *options, int on);

/* ---- Endpoints ----------------------------------------------------------------------------- */

/* Sends and receives messages over one interface, or several as one. */
typedef struct gigae_endpoint gigae_endpoint;

/*
 * Opens an endpoint on an interface with every option at its default. Takes some milliseconds:
 * programs are loaded, memory is mapped and locked. *endpoint is NULL after an error.
 * Errors: GIGAE_INVALID, GIGAE_NO_INTERFACE, GIGAE_DOWN, GIGAE_PERMISSION, GIGAE_MTU,
 * GIGAE_UNSUPPORTED, GIGAE_TAKEN, GIGAE_IO, GIGAE_TOO_MANY.
 */
int gigae_open(const char *interface, gigae_endpoint **endpoint);

/*
 * Likewise, as the options say. The options stay the caller's. GIGAE_INVALID besides for options
 * that do not go together: several interfaces with UDP, or one of them twice.
 */
int gigae_open_with(const gigae_options *options, gigae_endpoint **endpoint);

/*
 * Closes an endpoint: waits at most for the linger for the acknowledgement of what was sent and
 * until all peers know, and frees everything. Refused with GIGAE_BUSY while buffers or messages of
 * it are held, and nothing is changed then. Operations are waited for, within the same linger, and
 * ended without a completion: no memory of the program's is used after this call. (An endpoint that
 * answers GIGAE_PANICKED is closed in any case; what was held of it must not be touched any more.)
 * Errors: GIGAE_BUSY, GIGAE_BAD_HANDLE, GIGAE_INVALID, GIGAE_IN_CALL.
 */
int gigae_close(gigae_endpoint *endpoint);

/* Longest message in bytes. */
int gigae_max_message(gigae_endpoint *endpoint, size_t *bytes);

/*
 * Text is answered as by snprintf: as much as fits into `size` bytes, ended by NUL, and as the
 * result the length in bytes of all of it without the NUL. NULL is good with a size of 0.
 */

/* The (first) interface's MAC address, by which others name this endpoint: 17 bytes. */
int gigae_mac(gigae_endpoint *endpoint, char *text, size_t size);

/* The (first) link in one line: interface, address, mode, frames, and why no better mode. */
int gigae_link_info(gigae_endpoint *endpoint, char *text, size_t size);

/* ---- Peers --------------------------------------------------------------------------------- */

/*
 * A peer, another endpoint on one channel, is a number, valid at the endpoint where it was given
 * until that is closed, also when the peer restarts. 0 is nobody.
 *
 * Naming a peer sends nothing to it; for an IP address the kernel is asked for the way, which may
 * take up to a second. The same address gives the same number. Allocates for new peers. *peer is 0
 * after an error.
 * Errors: GIGAE_ADDRESS, GIGAE_CHANNEL, GIGAE_TOO_MANY, GIGAE_UNREACHABLE, GIGAE_INVALID.
 */

/*
 * By text: a MAC address (an IP address in the UDP envelope), then /PORT and /CHANNEL if they are
 * not zero: "02:00:00:00:00:02", "02:00:00:00:00:02/7", "198.18.0.2/7/1".
 */
int gigae_peer(gigae_endpoint *endpoint, const char *address, uint32_t *peer);

/* By the six bytes of a MAC address. */
int gigae_peer_by_mac(gigae_endpoint *endpoint, const uint8_t *mac, uint16_t port, uint8_t channel,
                      uint32_t *peer);

/* By the 4 or 16 bytes of an IP address in network order: a struct in_addr or in6_addr. */
int gigae_peer_by_ip(gigae_endpoint *endpoint, const void *ip, size_t len, uint16_t port,
                     uint8_t channel, uint32_t *peer);

/* Bytes that the text of an address may take, with its NUL. */
#define GIGAE_ADDRESS_TEXT 64

/* The address of a peer as text, as gigae_peer reads it. Error: GIGAE_INVALID. */
int gigae_peer_address(gigae_endpoint *endpoint, uint32_t peer, char *text, size_t size);

/* ---- Clusters ------------------------------------------------------------------------------ */

/*
 * A cluster file says where the nodes are and how they speak; the same file serves all of them.
 * Nodes are numbered from 0 in its order. 'gigae discover --write FILE' makes one, with every key
 * explained.
 *
 *     gigae_cluster_load(NULL, &cluster);
 *     gigae_cluster_options(cluster, &options);
 *     gigae_open_with(options, &endpoint);
 *     gigae_cluster_number(cluster, "n3", &number);
 *     gigae_cluster_address(cluster, number, address, sizeof address);
 *     gigae_peer(endpoint, address, &peer);
 *
 * Errors of all that follow: GIGAE_CLUSTER, GIGAE_INVALID, GIGAE_BAD_HANDLE, GIGAE_IN_CALL.
 */
typedef struct gigae_cluster gigae_cluster;

/*
 * Reads a cluster file; NULL: the one that the environment variable GIGAE_CLUSTER names, else
 * /etc/gigae/cluster.toml. Allocates; free it with gigae_cluster_free. *cluster is NULL after an
 * error. Error besides: GIGAE_TOO_MANY.
 */
int gigae_cluster_load(const char *file, gigae_cluster **cluster);

/* Frees a cluster; options and endpoints made with it are not affected. */
int gigae_cluster_free(gigae_cluster *cluster);

/* How many nodes there are. */
int gigae_cluster_count(const gigae_cluster *cluster, uint32_t *count);

/*
 * This node's number: of the node that the environment variable GIGAE_NODE names, else of the one
 * with a MAC or IP address of this host. Some ten system calls.
 */
int gigae_cluster_self(const gigae_cluster *cluster, uint32_t *number);

/* The number of a node by its name. */
int gigae_cluster_number(const gigae_cluster *cluster, const char *name, uint32_t *number);

/* The name of a node, at most 63 bytes. */
int gigae_cluster_name(const gigae_cluster *cluster, uint32_t number, char *text, size_t size);

/* The address of a node's endpoint, as gigae_peer reads it: GIGAE_ADDRESS_TEXT bytes are enough. */
int gigae_cluster_address(const gigae_cluster *cluster, uint32_t number, char *text, size_t size);

/*
 * Options for this node's endpoint: interface (or interfaces, with `trunk = true` in the file),
 * envelope, channel and port id of the file, all else at its default. They are the caller's: free
 * them with gigae_options_free. *options is NULL after an error. Error besides: GIGAE_TOO_MANY.
 */
int gigae_cluster_options(const gigae_cluster *cluster, gigae_options **options);

/* ---- Sending ------------------------------------------------------------------------------- */

/*
 * Accepted is not delivered: a message that is not acknowledged comes back by gigae_take_failure,
 * and nothing more is sent to its peer until it is taken. gigae_drain waits for all. A message
 * whose call returns an error was not accepted, and may be sent again.
 *
 * Errors of all that follow: GIGAE_TOO_LONG, GIGAE_FAILED, GIGAE_INVALID (peer or data), GIGAE_BUSY
 * (this program holds all transmit buffers), GIGAE_DOWN, GIGAE_GONE, GIGAE_TAKEN, GIGAE_IO,
 * GIGAE_PANICKED, GIGAE_BAD_HANDLE, GIGAE_IN_CALL.
 */

/*
 * Sends a message. Waits while the window towards the peer is full, which a peer that is there and
 * does not receive may prolong without limit; one that is not there is reported within the peer
 * timeout. `data` is not needed afterwards; it may be that of a received message. Empty messages
 * are messages. 1 copy, 1 system call.
 */
int gigae_send(gigae_endpoint *endpoint, uint32_t to, const void *data, size_t len);

/*
 * Likewise without the doorbell: the message goes with the next gigae_flush, gigae_send or receive.
 * For streams. 1 copy, no system call unless it has to wait or enough frames do.
 */
int gigae_queue(gigae_endpoint *endpoint, uint32_t to, const void *data, size_t len);

/* Like gigae_send, but answers GIGAE_AGAIN instead of waiting. 1 copy, 1 system call. */
int gigae_try_send(gigae_endpoint *endpoint, uint32_t to, const void *data, size_t len);

/*
 * Rings the doorbell for all that was queued, and takes in what has arrived. 1 system call, none if
 * nothing was queued.
 */
int gigae_flush(gigae_endpoint *endpoint);

/*
 * A frame to write a message into, so that it is sent without a copy. It holds what was in it
 * before. Read `data` and `capacity`; leave the rest alone. A buffer that was used up is all zero.
 */
typedef struct gigae_buffer {
    void *data;
    size_t capacity;
    uint64_t opaque_[4];
} gigae_buffer;

/*
 * Takes a buffer; waits while all are in use. GIGAE_BUSY if this program holds all of them,
 * GIGAE_FAILED if messages that failed do. What *buffer held before is overwritten, so it must not
 * hold a buffer. No copy, no system call unless it has to wait.
 */
int gigae_buffer_take(gigae_endpoint *endpoint, gigae_buffer *buffer);

/* Likewise, but answers GIGAE_AGAIN instead of waiting. */
int gigae_buffer_try_take(gigae_endpoint *endpoint, gigae_buffer *buffer);

/*
 * Sends the first `len` bytes of a buffer; waits as gigae_send does. The buffer is used up, also
 * when the message is not accepted, but not by GIGAE_INVALID, GIGAE_BAD_HANDLE, GIGAE_IN_CALL, nor
 * if `len` is more than its capacity (GIGAE_TOO_LONG). No copy, 1 system call.
 */
int gigae_buffer_send(gigae_buffer *buffer, uint32_t to, size_t len);

/*
 * Likewise without the doorbell. No copy, unless a small message joins one that waits in its frame
 * already; no system call unless it has to wait or enough frames do.
 */
int gigae_buffer_queue(gigae_buffer *buffer, uint32_t to, size_t len);

/* Like gigae_buffer_queue, but answers GIGAE_AGAIN instead of waiting, and leaves the buffer. */
int gigae_buffer_try_queue(gigae_buffer *buffer, uint32_t to, size_t len);

/* Gives a buffer back unsent. Errors: GIGAE_BAD_HANDLE if it is used up, GIGAE_INVALID. */
int gigae_buffer_drop(gigae_buffer *buffer);

/* ---- Receiving ----------------------------------------------------------------------------- */

/*
 * A received message, in the frame that the NIC or the kernel filled. `data` is valid until it is
 * dropped; it is read only. Answer to `from`. Leave the rest alone. A dropped message is all zero.
 *
 * A message that is kept holds back the sender's credit. Where more than half of the link's frames
 * are held, further ones are copied to memory allocated for them (frames_copied counts them).
 */
typedef struct gigae_message {
    const void *data;
    size_t len;
    uint32_t from;
    uint32_t reserved_;
    uint64_t opaque_[4];
} gigae_message;

/*
 * Receives the next message. What *message held before is overwritten, so it must not hold one; it
 * is all zero after an error. No copy; no system call but for sleeping, and doorbells for
 * acknowledgements. A peer that is heard of for the first time allocates.
 * Errors: GIGAE_FAILED (only when there is no message), GIGAE_INVALID, GIGAE_DOWN, GIGAE_GONE,
 * GIGAE_TAKEN, GIGAE_IO, GIGAE_PANICKED, GIGAE_BAD_HANDLE, GIGAE_IN_CALL.
 */

/* Waits for it as long as it takes; no signal ends that. */
int gigae_recv(gigae_endpoint *endpoint, gigae_message *message);

/* Answers GIGAE_AGAIN if there is none. */
int gigae_try_recv(gigae_endpoint *endpoint, gigae_message *message);

/* Waits for so many microseconds at most; answers GIGAE_TIMEOUT if there was none. */
int gigae_recv_timeout(gigae_endpoint *endpoint, gigae_message *message, uint64_t microseconds);

/* Gives a message back. Errors: GIGAE_BAD_HANDLE if it was dropped already, GIGAE_INVALID. */
int gigae_message_drop(gigae_message *message);

/* ---- What failed --------------------------------------------------------------------------- */

enum gigae_reason {
    /* One that is newer than this header. */
    GIGAE_REASON_OTHER = 0,
    /* The peer left it unanswered for the peer timeout. */
    GIGAE_REASON_TIMEOUT = 1,
    /* The peer restarted or closed its endpoint. */
    GIGAE_REASON_RESET = 2,
    /* The peer speaks another version of the protocol. */
    GIGAE_REASON_VERSION = 3,
    /* The message is longer than the peer can receive. */
    GIGAE_REASON_TOO_LONG = 4,
    /* This endpoint was closed. */
    GIGAE_REASON_CLOSED = 5
};

/* A message that was sent and not acknowledged. */
typedef struct gigae_failure {
    /* To whom. */
    uint32_t to;
    /* One of gigae_reason. It may have arrived all the same: only its acknowledgement did not. */
    int reason;
    /* Length of the whole message in bytes. */
    size_t len;
    /* All that in one line. */
    char why[240];
} gigae_failure;

/*
 * Takes the next failed message and copies the first `size` bytes of it to `data`, which may be
 * NULL for none (size 0). The rest is lost, so give gigae_max_message bytes to have all. Until all
 * of a peer's are taken, nothing more can be sent to it. Answers GIGAE_AGAIN if there is none.
 * Allocates; 2 copies.
 */
int gigae_take_failure(gigae_endpoint *endpoint, gigae_failure *failure, void *data, size_t size);

/* ---- Operations: tagged messages of any size ----------------------------------------------- */

/*
 * An operation is started by one call and ends with a completion, in whatever way it ends. It goes
 * out with the next gigae_flush or any other call that makes progress: all that wait, receive or
 * take completions do.
 *
 * MEMORY of an operation stays the program's own and is lent to the library from the start until
 * its completion is taken: until then it must stay where it is, may only be read if it is sent, and
 * must not be touched if it is received into. gigae_close ends all loans. Each byte is copied once
 * at each end.
 *
 * Every start is told a `context`, any pointer, which comes back in the completion and is not used,
 * and where to put the operation's number, `id`, for gigae_cancel; NULL if that is not wanted. The
 * number is 0 after an error, and then nothing was started and no memory is lent.
 *
 * Operations share window and credit with messages: messages of the same peer that nobody receives
 * hold them back, and a message may overtake an operation that waits for room. Programs that use
 * both for long give them channels of their own.
 *
 * Errors of all starts: GIGAE_INVALID (peer, data, place), GIGAE_TOO_LONG, GIGAE_TOO_MANY
 * (1,048,576 are going on), GIGAE_PANICKED, GIGAE_BAD_HANDLE, GIGAE_IN_CALL. They allocate; no
 * system call.
 */

/* Longest memory of one operation in bytes: 1 GiB. */
#define GIGAE_MAX_OPERATION 1073741824

/* Stands for every peer where a receive is asked whose messages it wants. */
#define GIGAE_ANYBODY 4294967295U

/*
 * Starts sending a tagged message. It is completed when all of it has arrived at the peer's
 * endpoint; above 32 KiB, or when the peer keeps too many that it has not received, when a receive
 * there has taken it.
 */
int gigae_start_send(gigae_endpoint *endpoint, uint32_t to, uint64_t tag, const void *data,
                     size_t len, void *context, uint64_t *id);

/*
 * Starts receiving the first tagged message that is from this peer (GIGAE_ANYBODY: from any) and
 * has this tag, but for the bits that are set in `ignore`. Messages of one peer are matched in the
 * order in which they were sent, receives in the order in which they were started. One that is
 * longer than the memory fills it and completes with GIGAE_TRUNCATED.
 */
int gigae_start_recv(gigae_endpoint *endpoint, uint32_t from, uint64_t tag, uint64_t ignore,
                     void *data, size_t len, void *context, uint64_t *id);

/* A tagged message that has arrived or was announced. */
typedef struct gigae_tagged {
    uint64_t tag;
    size_t len;
    uint32_t from;
    uint32_t reserved_;
} gigae_tagged;

/*
 * The first message that such a receive would get at once. GIGAE_AGAIN if there is none; makes no
 * progress, so call gigae_progress in between.
 */
int gigae_peek(gigae_endpoint *endpoint, uint32_t from, uint64_t tag, uint64_t ignore,
               gigae_tagged *found);

/*
 * Cancels a receive that no message was matched with, or a message of which nothing was sent: 1. It
 * is 0 if it is too late or over. Either way its completion comes. GIGAE_BAD_HANDLE if that was
 * taken already.
 */
int gigae_cancel(gigae_endpoint *endpoint, uint64_t id);

/* The end of an operation. */
typedef struct gigae_completion {
    /* Its number, and what the program gave at its start. */
    uint64_t id;
    void *context;
    /* Tagged messages: the tag. */
    uint64_t tag;
    /* Atomic changes: what was there before. */
    uint64_t value;
    /* Bytes that were transferred; bytes that the message has as it was sent. */
    size_t len;
    size_t total;
    /* With whom; 0 for a receive that was cancelled. */
    uint32_t peer;
    /* 0, or GIGAE_TRUNCATED, GIGAE_CANCELLED, GIGAE_LOST, GIGAE_NO_REGION, GIGAE_BOUNDS,
     * GIGAE_RIGHTS, GIGAE_NOTICES. */
    int status;
    /* GIGAE_LOST: why, one of gigae_reason. */
    int reason;
    uint32_t reserved_;
} gigae_completion;

/*
 * Takes the completion of the next operation that has ended, in whatever way: its memory is the
 * program's alone again. All zero after an error. Answers GIGAE_AGAIN if there is none. Makes
 * progress. Errors: GIGAE_INVALID, GIGAE_DOWN, GIGAE_GONE, GIGAE_TAKEN, GIGAE_IO, GIGAE_PANICKED,
 * GIGAE_BAD_HANDLE, GIGAE_IN_CALL.
 */
int gigae_try_completion(gigae_endpoint *endpoint, gigae_completion *completion);

/*
 * Likewise, but waits for it for so many microseconds at most (UINT64_MAX: without end) and answers
 * GIGAE_TIMEOUT if there was none; GIGAE_AGAIN at once if there is no operation to wait for.
 */
int gigae_completion_timeout(gigae_endpoint *endpoint, gigae_completion *completion,
                             uint64_t microseconds);

/* How many operations are not completed. */
int gigae_outstanding(gigae_endpoint *endpoint, size_t *operations);

/* ---- Operations: remote memory ------------------------------------------------------------- */

/*
 * A memory that is registered may be used by every peer that is told its key: 64 bits, half of them
 * random. The owner's program takes part only by making progress.
 *
 * What one end starts towards one peer is done there in that order: a write is in place before a
 * later write, tagged message or notice is seen.
 */

enum gigae_rights {
    /* Peers may read it; */
    GIGAE_RIGHT_READ = 1,
    /* write into it; */
    GIGAE_RIGHT_WRITE = 2,
    /* add to and compare and swap numbers in it. */
    GIGAE_RIGHT_ATOMIC = 4
};

/*
 * Lets peers use a memory of at most GIGAE_MAX_OPERATION bytes as `rights` say, a sum of
 * gigae_rights. The program may go on reading and writing it: what peers do to it, they do within
 * calls on this endpoint. It must stay where it is until gigae_deregister or gigae_close. Tell the
 * key to whom you want, by a message for example. *key is 0 after an error. Allocates.
 * Errors: GIGAE_INVALID, GIGAE_TOO_LONG, GIGAE_TOO_MANY (1,048,576).
 */
int gigae_register(gigae_endpoint *endpoint, void *data, size_t len, int rights, uint64_t *key);

/*
 * Takes a memory back at once: it is not used any more, and what peers do with it is refused from
 * now on. Error: GIGAE_BAD_HANDLE.
 */
int gigae_deregister(gigae_endpoint *endpoint, uint64_t key);

/* A place in a memory that a peer has registered: its key and the first byte. */
typedef struct gigae_place {
    uint64_t key;
    uint64_t offset;
    uint32_t peer;
    uint32_t reserved_;
} gigae_place;

/*
 * Starts writing to a place. It is completed when the bytes are there. If `notice` is not NULL, the
 * peer then finds a notice with that number.
 */
int gigae_start_write(gigae_endpoint *endpoint, const gigae_place *to, const void *data, size_t len,
                      const uint64_t *notice, void *context, uint64_t *id);

/* Starts filling a memory from a place. */
int gigae_start_read(gigae_endpoint *endpoint, const gigae_place *from, void *data, size_t len,
                     void *context, uint64_t *id);

/*
 * Starts adding to the eight bytes at a place, a little-endian number. The completion has what was
 * there before. No other peer's operation comes between reading and writing it; what the owner's
 * program does to it may.
 */
int gigae_start_fetch_add(gigae_endpoint *endpoint, const gigae_place *place, uint64_t operand,
                          void *context, uint64_t *id);

/* Likewise, replacing such a number by `desired` if it is `expected`. */
int gigae_start_compare_swap(gigae_endpoint *endpoint, const gigae_place *place, uint64_t expected,
                             uint64_t desired, void *context, uint64_t *id);

/* A peer has written into a registered memory and wants it known. */
typedef struct gigae_notice {
    /* Into which memory, from which byte on. */
    uint64_t key;
    uint64_t offset;
    /* The writer's number. */
    uint64_t value;
    /* Who, and how many bytes. */
    uint32_t peer;
    uint32_t len;
} gigae_notice;

/*
 * Takes the next notice. All zero after an error. Answers GIGAE_AGAIN if there is none. Makes
 * progress. Errors as of gigae_try_completion.
 */
int gigae_try_notice(gigae_endpoint *endpoint, gigae_notice *notice);

/* Likewise, but waits for so many microseconds at most and answers GIGAE_TIMEOUT. */
int gigae_notice_timeout(gigae_endpoint *endpoint, gigae_notice *notice, uint64_t microseconds);

/* ---- Waiting and event loops --------------------------------------------------------------- */

/*
 * A descriptor that polls readable when a frame may have arrived, for poll, epoll and the like. It
 * stays the endpoint's: neither read, write nor close it. Before sleeping on it, call
 * gigae_prepare_to_wait; afterwards, receive until GIGAE_AGAIN, and take completions and notices.
 */
int gigae_fd(gigae_endpoint *endpoint);

/*
 * Sends the acknowledgements that wait for company, and tells for how many microseconds the program
 * may sleep on the descriptor before it must call gigae_progress: -1, for as long as it likes; 0,
 * something is waiting already: a message, a failure, a completion or a notice. 1 system call, if
 * there is something to send.
 */
int gigae_prepare_to_wait(gigae_endpoint *endpoint, int64_t *microseconds);

/* Takes in frames, acknowledges and repeats what is due, without waiting. */
int gigae_progress(gigae_endpoint *endpoint);

/*
 * Waits until everything that was sent is acknowledged and every operation but receives completed,
 * at most for so many microseconds. Messages that arrive meanwhile are kept.
 * Errors: GIGAE_TIMEOUT, GIGAE_FAILED.
 */
int gigae_drain(gigae_endpoint *endpoint, uint64_t microseconds);

/* Changes how blocking calls wait, one of gigae_wait. Error: GIGAE_INVALID. */
int gigae_set_wait(gigae_endpoint *endpoint, int style);

/* ---- Counters ------------------------------------------------------------------------------ */

/* Counts since the endpoint was opened. Later releases add fields at the end. */
typedef struct gigae_counts {
    /* Messages accepted for sending; received by the program; handed back as failed. */
    uint64_t messages_sent;
    uint64_t messages_received;
    uint64_t messages_failed;
    /* Received frames that were copied because too many were held. */
    uint64_t frames_copied;
    /* Data frames that arrived in order (small messages may share one); that were sent again;
     * retransmission timeouts. */
    uint64_t data_frames_received;
    uint64_t retransmissions;
    uint64_t timeouts;
    /* Times that there was something to send and no credit. */
    uint64_t stops;
    /* Frames that carried nothing but acknowledgement and credit; probes for lost credit. */
    uint64_t acks_sent;
    uint64_t probes;
    /* Sessions that came up; resets sent. */
    uint64_t sessions;
    uint64_t resets;
    /* Frames discarded: too short; in another envelope; of another version of the protocol; with a
     * bad CRC; malformed; for another port or channel; of an unknown or former epoch; that had
     * arrived before; outside the window; out of order (go-back-N); for want of a session. */
    uint64_t discarded_short;
    uint64_t discarded_not_ours;
    uint64_t discarded_version;
    uint64_t discarded_checksum;
    uint64_t discarded_malformed;
    uint64_t discarded_port;
    uint64_t discarded_epoch;
    uint64_t discarded_duplicate;
    uint64_t discarded_window;
    uint64_t discarded_out_of_order;
    uint64_t discarded_refused;
    /* Frames handed to the link; taken from it; for which the kernel had no room; that the kernel
     * refused as invalid. */
    uint64_t frames_sent;
    uint64_t frames_received;
    uint64_t frames_dropped;
    uint64_t frames_invalid;
    /* System calls made in order to transmit; in order to drive the driver. */
    uint64_t doorbells;
    uint64_t drives;
    /* Sleeps; those that a frame ended. */
    uint64_t waits;
    uint64_t wakeups;
    /* Looks at the clock. */
    uint64_t clock_reads;
    /* Sessions in which frames as long as both ends can take do not arrive. */
    uint64_t black_holes;
    /* Tagged messages sent at once; offered first; that came before a receive wanted them. */
    uint64_t messages_unasked;
    uint64_t messages_offered;
    uint64_t messages_unexpected;
    /* Reads, writes and atomic changes of others that were refused; operations that no sender of
     * this protocol starts. */
    uint64_t operations_refused;
    uint64_t operations_invalid;
    /* Of those refused, these had a key that fits no memory. */
    uint64_t operations_wrong_keys;
    /* Messages that nobody received, of sessions that ended, for which there was no more room. */
    uint64_t messages_dropped;
    /* Of frames_sent and frames_received, those through memory to and from endpoints of this node;
     * frames that such an endpoint had no room for. */
    uint64_t memory_frames_sent;
    uint64_t memory_frames_received;
    uint64_t memory_full;
    /* How often the progress thread acted for this endpoint; how often it has woken up, for all
     * endpoints of the process. */
    uint64_t progress_turns;
    uint64_t progress_wakeups;
} gigae_counts;

/*
 * Fills in `size` bytes of counts; give sizeof *counts. Fields that this library does not know yet
 * are 0. 1 system call, for the kernel's own counts.
 */
int gigae_counters(gigae_endpoint *endpoint, gigae_counts *counts, size_t size);

/* One of an endpoint's interfaces, and what happened there since the endpoint was opened. */
typedef struct gigae_path {
    /* The interface's name. */
    char interface[16];
    /* Frames handed to the link; taken from it; for which the kernel had no room. */
    uint64_t frames_sent;
    uint64_t frames_received;
    uint64_t frames_dropped;
    /* Over all peers: data frames that were sent here and had to be sent again, here or elsewhere;
     * times that this interface was given up; that it came back. */
    uint64_t frames_lost;
    uint64_t deaths;
    uint64_t returns;
    uint64_t reserved_[2];
} gigae_path;

/*
 * Fills in the first `count` of the endpoint's interfaces, in the order in which they were given;
 * the result is how many there are (1 to 8). NULL is good with a count of 0. 1 system call for each
 * interface, for the kernel's own counts.
 */
int gigae_paths(gigae_endpoint *endpoint, gigae_path *paths, size_t count);

#ifdef __cplusplus
}
#endif

#endif
