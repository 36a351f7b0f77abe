/* gigae/operation.h, a part of gigae.h: tagged messages of any size, remote memory. */
#ifndef GIGAE_OPERATION_H
#define GIGAE_OPERATION_H

#include "peer.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

#endif
