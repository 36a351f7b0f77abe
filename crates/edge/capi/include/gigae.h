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
 * This header includes its parts, in this order:
 *
 *     gigae/error.h      the codes of calls that fail
 *     gigae/options.h    how to open an endpoint
 *     gigae/endpoint.h   opening, closing, waiting, event loops
 *     gigae/peer.h       naming the endpoints to talk to
 *     gigae/cluster.h    nodes by name, from a file that all of them share
 *     gigae/message.h    messages: sending, receiving, failures
 *     gigae/operation.h  tagged messages of any size, remote memory
 *     gigae/counters.h   counters of an endpoint
 *
 * RESULTS. A call returns zero or more on success, and one of gigae_error otherwise.
 * gigae_last_error() says more about the last error, and what to do. A call that returns
 * GIGAE_INVALID, GIGAE_BAD_HANDLE or GIGAE_IN_CALL changes nothing, except that it clears what it
 * should have filled in.
 *
 * THREADS. Any thread may use an endpoint (with its buffers and messages) or options, but only one
 * at a time. A second one gets GIGAE_IN_CALL, and so does a signal handler that interrupts a call.
 * Endpoints are independent of each other. After fork, use an endpoint only in the parent: in the
 * child, calls return GIGAE_PANICKED, and dropping and closing do nothing.
 *
 * PROGRESS. A program may compute for as long as it likes. While it makes no calls, one background
 * thread per process acknowledges, retransmits, answers, and lets peers use registered memory. The
 * thread blocks all signals and ends with the last endpoint. gigae_options_progress turns it off.
 * Close each endpoint before the program exits: closing waits for acknowledgements. Without that,
 * what is not acknowledged may be lost, even a first message that was accepted long before.
 *
 * MISTAKES. The library detects a closed handle, a dropped or zeroed buffer or message, a copy of
 * either, an unknown peer, NULL, and a length out of range. It returns an error. It cannot detect a
 * pointer to memory that is too small or not yours, the use of `data` after the buffer or message
 * was dropped, and the use of memory while an operation has it.
 *
 * COSTS. Each call states how often the library copies the message and how many system calls it
 * makes. The kernel copies once more in each direction, unless the NIC does zero-copy. A call on an
 * endpoint also costs one atomic operation. A call allocates memory only if it says so, or if the
 * program holds more buffers or messages at once than ever before.
 */
#ifndef GIGAE_H
#define GIGAE_H

#include "gigae/error.h"
#include "gigae/options.h"
#include "gigae/endpoint.h"
#include "gigae/peer.h"
#include "gigae/cluster.h"
#include "gigae/message.h"
#include "gigae/operation.h"
#include "gigae/counters.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The release of this header; gigae_version() returns that of the library. */
#define GIGAE_VERSION_MAJOR 0
#define GIGAE_VERSION_MINOR 1
#define GIGAE_VERSION_PATCH 0

/* The library's release, as "0.1.0". Constant; cannot fail. */
const char *gigae_version(void);

#ifdef __cplusplus
}
#endif

#endif
