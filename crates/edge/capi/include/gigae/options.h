/* gigae/options.h, a part of gigae.h: how an endpoint is to be opened. */
#ifndef GIGAE_OPTIONS_H
#define GIGAE_OPTIONS_H

#include "error.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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
    /* The NIC itself, even if other programs use it. */
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
 * say so: 0 by default. They find each other in any order of opening: those of the
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

#ifdef __cplusplus
}
#endif

#endif
