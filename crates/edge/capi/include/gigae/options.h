/* gigae/options.h, a part of gigae.h: how to open an endpoint. */
#ifndef GIGAE_OPTIONS_H
#define GIGAE_OPTIONS_H

#include "error.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How to open an endpoint. */
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
 * The same for several interfaces combined, 1 to 8 names. Frames go by all of them, in proportion
 * to what each delivers. When one fails, they go by the others within 50 ms. The first names the
 * endpoint and must work when two endpoints first meet. The n-th must lead to the n-th of each
 * peer; a peer may have fewer. The shortest MTU limits the messages. Not in the UDP envelope.
 */
int gigae_options_trunk(const char *const *interfaces, size_t count, gigae_options **options);

/* Frees options; endpoints that were opened with them are not affected. Error: GIGAE_BAD_HANDLE. */
int gigae_options_free(gigae_options *options);

/*
 * This endpoint's port id, which distinguishes the endpoints of one node. In the UDP envelope, port
 * ids from 32,769 on stand for UDP ports of their own, 1 and so on beyond that of the envelope.
 */
int gigae_options_port(gigae_options *options, uint16_t port);

/*
 * The channels to open instead of channel 0: `count` numbers, 1 to 256 of them. Frames on other
 * channels are left to other programs. Messages on different channels do not wait for each other,
 * and have no order among each other. Error: GIGAE_INVALID.
 */
int gigae_options_channels(gigae_options *options, const uint8_t *channels, size_t count);

/* Another EtherType, 0x0600 or more. Peers are named by MAC addresses. Error: GIGAE_INVALID. */
int gigae_options_ethertype(gigae_options *options, uint16_t ethertype);

/*
 * UDP with this port instead of an EtherType, for networks that carry no unknown EtherTypes. Peers
 * are named by IP addresses. Error: GIGAE_INVALID.
 */
int gigae_options_udp(gigae_options *options, uint16_t port);

enum gigae_backend {
    /* AF_XDP in a mode of the driver's own, zero-copy or native, that passes its self-test; else
     * AF_PACKET, since AF_XDP's generic mode costs long messages and the kernel's TCP more than it
     * saves short ones. In the UDP envelope a UDP socket where this process may open neither. */
    GIGAE_BACKEND_AUTO = 0,
    /* AF_XDP in the best mode that passes its self-test, or an error. */
    GIGAE_BACKEND_XDP = 1,
    /* AF_XDP in exactly this mode, or an error. */
    GIGAE_BACKEND_XDP_ZERO_COPY = 2,
    GIGAE_BACKEND_XDP_NATIVE = 3,
    GIGAE_BACKEND_XDP_GENERIC = 4,
    /* AF_PACKET. */
    GIGAE_BACKEND_PACKET = 5,
    /* A UDP socket, which needs no privilege; with gigae_options_udp only. */
    GIGAE_BACKEND_UDP = 6
};

/* The kernel interface to use, one of gigae_backend. Error: GIGAE_INVALID. */
int gigae_options_backend(gigae_options *options, int backend);

enum gigae_sharing {
    /* The NIC itself, even if other programs use it. */
    GIGAE_SHARING_ALONE = 0,
    /* The NIC itself if no other endpoint has it, otherwise a child. In the UDP envelope: the NIC
     * itself, with the first UDP port that is free; gigae_address has the port id. */
    GIGAE_SHARING_AUTO = 1,
    /* Always a child. In the UDP envelope the same as GIGAE_SHARING_AUTO. */
    GIGAE_SHARING_CHILD = 2
};

/*
 * Whether to share the NIC with other processes, one of gigae_sharing; alone by default. A child is
 * an interface that the kernel adds to the NIC (macvlan), with its own address. It is removed with
 * the endpoint. It needs CAP_NET_ADMIN and an Ethernet envelope; gigae_mac returns its address. The
 * kernel carries frames between the children of a NIC and between them and the wire, but none
 * between a child and an endpoint on the NIC itself. Error: GIGAE_INVALID.
 */
int gigae_options_sharing(gigae_options *options, int sharing);

enum gigae_broker {
    /* If this process lacks the privileges to open a link and a broker listens. */
    GIGAE_BROKER_AUTO = 0,
    GIGAE_BROKER_NEVER = 1,
    /* Even with privileges. */
    GIGAE_BROKER_ONLY = 2
};

/*
 * Whether a broker opens the links; one of gigae_broker. It is the daemon "gigae broker", at
 * /run/gigae/broker.sock or where the environment variable GIGAE_BROKER says. It provides a child
 * of the NIC in AF_XDP's generic mode, only for an Ethernet envelope. If it refuses, opening the
 * endpoint returns GIGAE_PERMISSION and the reason. Error: GIGAE_INVALID.
 */
int gigae_options_broker(gigae_options *options, int broker);

/*
 * Whether frames to endpoints of this node go through memory instead of the NIC, if both ends say
 * so: 0 by default. Endpoints of the same user in the same network namespace find each other in any
 * order of opening. Each has its own interface; channels and envelope must be the same.
 * gigae_counts shows how many frames went through memory. Each such peer takes 2 descriptors, and
 * 0.5 MiB of memory per channel and direction at MTU 1500; unused parts take up none.
 */
int gigae_options_local(gigae_options *options, int on);

/*
 * Whether long messages and long operations on remote memory go by a UDP socket beside the link, if
 * the peer has one too. On (not 0) by default. It needs an IP address on the interface and no
 * privilege. If a firewall drops its datagrams, the link carries everything.
 */
int gigae_options_bulk(gigae_options *options, int on);

/* For gigae_options_progress. */
enum gigae_progress_mode {
    /* A background thread, one for all endpoints of the process, acts for an endpoint whose program
     * has made no call for a millisecond. */
    GIGAE_PROGRESS_AUTO = 0,
    /* No thread acts: call gigae_progress more often than the peers' timeout. */
    GIGAE_PROGRESS_MANUAL = 1
};

/*
 * Which side acknowledges, repeats and answers while the program makes no calls, one of
 * gigae_progress_mode; GIGAE_PROGRESS_AUTO by default. Error: GIGAE_INVALID.
 */
int gigae_options_progress(gigae_options *options, int progress);

/* The NIC's receive queue for an AF_XDP socket. It does not see frames of other queues. */
int gigae_options_queue(gigae_options *options, uint32_t queue);

enum gigae_wait {
    /* Polls as long as that has recently paid off, at most 100 us, then sleeps. */
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
 * its interrupt; one of gigae_busy_poll. With GIGAE_BUSY_POLL_ON, each time for at most this many
 * microseconds and `budget` frames (above 64 it needs CAP_NET_ADMIN); otherwise both are ignored.
 * No effect on AF_PACKET and AF_XDP in generic mode. Error: GIGAE_INVALID.
 */
int gigae_options_busy_poll(gigae_options *options, int mode, uint32_t microseconds,
                            uint16_t budget);

/*
 * A peer is lost after this many microseconds without an answer, not zero. Messages to it then
 * fail. Error: GIGAE_INVALID.
 */
int gigae_options_peer_timeout(gigae_options *options, uint64_t microseconds);

/* For how many microseconds gigae_close waits for the acknowledgement of what was sent. */
int gigae_options_linger(gigae_options *options, uint64_t microseconds);

/* Recovers from loss by go-back-N instead of selective repeat. */
int gigae_options_go_back_n(gigae_options *options);

/* Whether small messages that wait for the same doorbell share a frame. On (not 0) by default. */
int gigae_options_aggregate(gigae_options *options, int on);

/*
 * Whether the checksum of sent frames covers the messages or only the header. On (not 0) by
 * default. Ethernet's own FCS covers every wire, but no memory, bus or switch. Long messages by
 * a UDP socket are always covered.
 */
int gigae_options_payload_checksum(gigae_options *options, int on);

/*
 * Whether long messages by a UDP socket are sent from the program's memory, without a copy, where
 * that is faster. Off (0) by default: a peer on the same machine that does not keep to the protocol
 * could read what is written later to the place of a message that was sent to it. On is for peers
 * that the program trusts so far.
 */
int gigae_options_lend(gigae_options *options, int on);

#ifdef __cplusplus
}
#endif

#endif
