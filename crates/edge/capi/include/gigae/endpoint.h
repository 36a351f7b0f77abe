/* gigae/endpoint.h, a part of gigae.h: opening, closing, waiting, event loops. */
#ifndef GIGAE_ENDPOINT_H
#define GIGAE_ENDPOINT_H

#include "options.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

#endif
