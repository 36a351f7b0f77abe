/* gigae/message.h, a part of gigae.h: messages: sending, receiving, failures. */
#ifndef GIGAE_MESSAGE_H
#define GIGAE_MESSAGE_H

#include "peer.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Sending ------------------------------------------------------------------------------- */

/*
 * An accepted message is not delivered yet. If it is not acknowledged, it comes back by
 * gigae_take_failure, and nothing more can be sent to its peer until it is taken. gigae_drain waits
 * for all messages. A message whose call returns an error was not accepted and may be sent again.
 *
 * Errors of all that follow: GIGAE_TOO_LONG, GIGAE_FAILED, GIGAE_INVALID (peer or data), GIGAE_BUSY
 * (this program holds all transmit buffers), GIGAE_DOWN, GIGAE_GONE, GIGAE_TAKEN, GIGAE_IO,
 * GIGAE_PANICKED, GIGAE_BAD_HANDLE, GIGAE_IN_CALL.
 */

/*
 * Sends a message. Waits while the window towards the peer is full. A peer that is there and does
 * not receive may prolong that without limit; a lost one is reported within the peer timeout.
 * `data` is not needed afterwards, and may be that of a received message. Messages may be empty. 1
 * copy, 1 system call.
 */
int gigae_send(gigae_endpoint *endpoint, uint32_t to, const void *data, size_t len);

/*
 * The same without the doorbell: the message goes with the next gigae_flush, gigae_send or receive.
 * For streams. 1 copy; no system call unless it has to wait or enough frames are queued.
 */
int gigae_queue(gigae_endpoint *endpoint, uint32_t to, const void *data, size_t len);

/* Like gigae_send, but returns GIGAE_AGAIN instead of waiting. 1 copy, 1 system call. */
int gigae_try_send(gigae_endpoint *endpoint, uint32_t to, const void *data, size_t len);

/*
 * Rings the doorbell for everything that was queued, and takes in what has arrived. 1 system call,
 * none if nothing was queued.
 */
int gigae_flush(gigae_endpoint *endpoint);

/*
 * A frame for building a message in place, so it is sent without a copy. Its former contents are
 * still there. Read `data` and `capacity`; do not touch the rest. A used-up buffer is all zero.
 */
typedef struct gigae_buffer {
    void *data;
    size_t capacity;
    uint64_t opaque_[4];
} gigae_buffer;

/*
 * Takes a buffer; waits while all are in use. GIGAE_BUSY if this program holds all of them,
 * GIGAE_FAILED if failed messages hold them. Overwrites *buffer, so it must not hold a buffer. No
 * copy; no system call unless it has to wait.
 */
int gigae_buffer_take(gigae_endpoint *endpoint, gigae_buffer *buffer);

/* The same, but returns GIGAE_AGAIN instead of waiting. */
int gigae_buffer_try_take(gigae_endpoint *endpoint, gigae_buffer *buffer);

/*
 * Sends the first `len` bytes of a buffer; waits like gigae_send. The buffer is used up, also if
 * the message is not accepted. It is not used up by GIGAE_INVALID, GIGAE_BAD_HANDLE, GIGAE_IN_CALL,
 * or a `len` above its capacity (GIGAE_TOO_LONG). No copy, 1 system call.
 */
int gigae_buffer_send(gigae_buffer *buffer, uint32_t to, size_t len);

/*
 * The same without the doorbell. No copy, unless a small message joins one that already waits in
 * its frame; no system call unless it has to wait or enough frames are queued.
 */
int gigae_buffer_queue(gigae_buffer *buffer, uint32_t to, size_t len);

/* Like gigae_buffer_queue, but returns GIGAE_AGAIN instead of waiting, and keeps the buffer. */
int gigae_buffer_try_queue(gigae_buffer *buffer, uint32_t to, size_t len);

/* Returns a buffer unsent. Errors: GIGAE_BAD_HANDLE if it is used up, GIGAE_INVALID. */
int gigae_buffer_drop(gigae_buffer *buffer);

/* ---- Receiving ----------------------------------------------------------------------------- */

/*
 * A received message, in the frame as the link received it. `data` is read-only and valid
 * until the message is dropped. Answer to `from`. Do not touch the rest. A dropped message is all
 * zero.
 *
 * A message that the program keeps holds back the sender's credit. While the program holds more
 * than half of the link's frames, further ones are copied to allocated memory (frames_copied counts
 * them).
 */
typedef struct gigae_message {
    const void *data;
    size_t len;
    uint32_t from;
    uint32_t reserved_;
    uint64_t opaque_[4];
} gigae_message;

/*
 * Receives the next message. Overwrites *message, so it must not hold one; it is all zero after an
 * error. No copy; no system call except for sleeping and for doorbells of acknowledgements.
 * Allocates for a new peer.
 * Errors: GIGAE_FAILED (only when there is no message), GIGAE_INVALID, GIGAE_DOWN, GIGAE_GONE,
 * GIGAE_TAKEN, GIGAE_IO, GIGAE_PANICKED, GIGAE_BAD_HANDLE, GIGAE_IN_CALL.
 */

/* Waits for it without limit; no signal ends that. */
int gigae_recv(gigae_endpoint *endpoint, gigae_message *message);

/* Returns GIGAE_AGAIN if no message is there. */
int gigae_try_recv(gigae_endpoint *endpoint, gigae_message *message);

/* Waits for at most this many microseconds; returns GIGAE_TIMEOUT if no message came. */
int gigae_recv_timeout(gigae_endpoint *endpoint, gigae_message *message, uint64_t microseconds);

/* Returns a message. Errors: GIGAE_BAD_HANDLE if it was already dropped, GIGAE_INVALID. */
int gigae_message_drop(gigae_message *message);

/* ---- What failed --------------------------------------------------------------------------- */

/* A message that was sent and not acknowledged. */
typedef struct gigae_failure {
    /* The peer. */
    uint32_t to;
    /* One of gigae_reason. The message may have arrived: only its acknowledgement did not. */
    int reason;
    /* Length of the whole message in bytes. */
    size_t len;
    /* All that in one line. */
    char why[240];
} gigae_failure;

/*
 * Takes the next failed message and copies its first `size` bytes to `data`, which may be NULL for
 * a size of 0. The rest is lost, so give gigae_max_message bytes to get everything. Nothing more
 * can be sent to a peer until all its failures are taken. GIGAE_AGAIN if no failed message is left.
 * Allocates; 2 copies.
 */
int gigae_take_failure(gigae_endpoint *endpoint, gigae_failure *failure, void *data, size_t size);

#ifdef __cplusplus
}
#endif

#endif
