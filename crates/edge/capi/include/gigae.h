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
 *     gigae/error.h      what a call answers when it fails
 *     gigae/options.h    how an endpoint is to be opened
 *     gigae/endpoint.h   opening, closing, waiting, event loops
 *     gigae/peer.h       naming the endpoints that one speaks to
 *     gigae/cluster.h    nodes by name, from a file that all of them share
 *     gigae/message.h    messages: sending, receiving, what failed
 *     gigae/operation.h  tagged messages of any size, remote memory
 *     gigae/counters.h   what an endpoint counts
 *
 * RESULTS. A call returns zero or more if it went well, and one of gigae_error if not.
 * gigae_last_error() says more about the last error, and what to do. A call that answers
 * GIGAE_INVALID, GIGAE_BAD_HANDLE or GIGAE_IN_CALL changes nothing, except that it empties what it
 * was to fill in.
 *
 * THREADS. Any thread may use an endpoint (with its buffers and messages) or options, but only one
 * at a time. A second one gets GIGAE_IN_CALL, and so does a signal handler that interrupts a call.
 * Endpoints are independent of each other. After fork, use an endpoint only in the parent: in the
 * child, calls answer GIGAE_PANICKED, and closing does nothing.
 *
 * PROGRESS. A program may compute for as long as it likes. While it makes no calls, one background
 * thread per process acknowledges, retransmits, answers, and lets peers use registered memory. The
 * thread blocks all signals and ends with the last endpoint. gigae_options_progress turns it off.
 *
 * MISTAKES. The library notices a closed handle, a dropped or zeroed buffer or message, a copy of
 * either, an unknown peer, NULL, and a length out of range. It answers with an error. It cannot
 * notice a pointer to memory that is too small or not yours, the use of `data` after the buffer or
 * message was dropped, and the use of memory that an operation has.
 *
 * COSTS. Each call states how often the library copies the message and how many system calls it
 * makes. The kernel copies once more each way unless the NIC does zero-copy. A call on an endpoint
 * also costs one atomic operation. A call allocates memory only if it says so, or if the program
 * holds more buffers or messages at once than ever before.
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

/* The release that this header belongs to; gigae_version() tells that of the library. */
#define GIGAE_VERSION_MAJOR 0
#define GIGAE_VERSION_MINOR 1
#define GIGAE_VERSION_PATCH 0

/* The library's release, as "0.1.0". Constant; cannot fail. */
const char *gigae_version(void);

#ifdef __cplusplus
}
#endif

#endif
