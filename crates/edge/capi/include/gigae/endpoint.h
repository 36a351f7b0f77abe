/* gigae/endpoint.h, a part of gigae.h: opening, closing, waiting, event loops. */
#ifndef GIGAE_ENDPOINT_H
#define GIGAE_ENDPOINT_H

#include "options.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sends and receives messages over one interface, or over several combined. */
typedef struct gigae_endpoint gigae_endpoint;

/*
 * Opens an endpoint on an interface with every option at its default. Takes some milliseconds to
 * load programs and to map and lock memory. *endpoint is NULL after an error.
 * If the environment has GIGAE_LOG=debug (or info, warn, trace), the library writes a log to
 * standard error from then on.
 * Errors: GIGAE_INVALID, GIGAE_NO_INTERFACE, GIGAE_DOWN, GIGAE_PERMISSION, GIGAE_MTU,
 * GIGAE_UNSUPPORTED, GIGAE_TAKEN, GIGAE_IO, GIGAE_TOO_MANY.
 */
int gigae_open(const char *interface, gigae_endpoint **endpoint);

/*
 * The same with options, which stay the caller's. Further reason for GIGAE_INVALID: options that do
 * not go together, which are several interfaces with UDP, or one of them twice.
 */
int gigae_open_with(const gigae_options *options, gigae_endpoint **endpoint);

/*
 * Closes an endpoint. Waits, at most for the linger, until everything that was sent is acknowledged
 * and all peers know of the end; then frees everything. Returns GIGAE_BUSY, with no effect, while
 * the program holds buffers or messages of the endpoint. Also waits for operations within the same
 * linger, and ends the rest without a completion. In the end waits, without a limit, for a
 * neighbour that is stopped in the middle of a copy (gigae_deregister). After this call the library
 * uses no memory of the program. (An endpoint that returns GIGAE_PANICKED is closed in any case; do
 * not touch its buffers and messages any more.)
 * Errors: GIGAE_BUSY, GIGAE_BAD_HANDLE, GIGAE_INVALID, GIGAE_IN_CALL.
 */
int gigae_close(gigae_endpoint *endpoint);

/* Longest message in bytes. */
int gigae_max_message(gigae_endpoint *endpoint, size_t *bytes);

/*
 * These calls return text like snprintf: as much as fits into `size` bytes, ended by NUL. The
 * result is the length of the whole text in bytes without the NUL. NULL is allowed with a size of
 * 0.
 */

/* The (first) interface's MAC address: 17 bytes. */
int gigae_mac(gigae_endpoint *endpoint, char *text, size_t size);

/*
 * The address by which others name this endpoint (gigae_peer): the MAC address, or in the UDP
 * envelope an IP address, with the port id and the first channel. GIGAE_ADDRESS_TEXT bytes are
 * enough.
 */
int gigae_address(gigae_endpoint *endpoint, char *text, size_t size);

/* The (first) link in one line: interface, address, mode, frames, and why no better mode. */
int gigae_link_info(gigae_endpoint *endpoint, char *text, size_t size);

/* ---- Waiting and event loops --------------------------------------------------------------- */

/*
 * A descriptor that polls readable when a frame may have arrived, for poll, epoll and others. It
 * belongs to the endpoint: do not read, write or close it. Before sleeping on it, call
 * gigae_prepare_to_wait. Afterwards, receive until GIGAE_AGAIN, and take completions and notices.
 * From the first call on, each frame that arrives costs some 100 ns more.
 */
int gigae_fd(gigae_endpoint *endpoint);

/*
 * Sends delayed acknowledgements. Returns for how many microseconds the program may sleep on the
 * descriptor before it must call gigae_progress. -1: without limit. 0: it must not sleep, but look
 * again at all that it waits for: something has been taken in, such as a message or the
 * acknowledgement that makes room for one. 1 system call if there is something to send.
 */
int gigae_prepare_to_wait(gigae_endpoint *endpoint, int64_t *microseconds);

/* Takes in frames, and acknowledges and repeats what is due, without waiting. */
int gigae_progress(gigae_endpoint *endpoint);

/*
 * Waits until everything that was sent is acknowledged and every operation except receives is
 * completed, at most for this many microseconds. Keeps messages that arrive during the wait.
 * Errors: GIGAE_TIMEOUT, GIGAE_FAILED.
 */
int gigae_drain(gigae_endpoint *endpoint, uint64_t microseconds);

/* Changes how blocking calls wait, one of gigae_wait. Error: GIGAE_INVALID. */
int gigae_set_wait(gigae_endpoint *endpoint, int style);

#ifdef __cplusplus
}
#endif

#endif
