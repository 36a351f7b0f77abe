/* gigae/message.h, a part of gigae.h: messages: sending, receiving, what failed. */
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

#ifdef __cplusplus
}
#endif

#endif
