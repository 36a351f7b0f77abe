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
 * One call starts an operation, and a completion ends it, whatever its result. It goes out with the
 * next gigae_flush or with any other call that makes progress: every call that waits, receives or
 * takes completions does.
 *
 * MEMORY of an operation stays the program's own, but the library may use it from the start until
 * the program takes the completion. Until then it must stay where it is. The program may only read
 * it if it is sent, and must not touch it if it is received into. gigae_close ends all such use. It
 * must not be in memory into which peers may write during the operation (gigae_register). Each byte
 * is copied once at each end.
 *
 * Every start takes a `context`, any pointer, which the library returns in the completion and does
 * not use. It also takes a pointer for the operation's number, `id`, for gigae_cancel; NULL if that
 * is not needed. After an error the number is 0, and nothing was started.
 *
 * Operations share window and credit with messages. Messages of the same peer that the program does
 * not receive hold them back, and a message may overtake an operation that waits for room. A
 * program that uses both for a long time should give them separate channels.
 *
 * Errors of all starts: GIGAE_INVALID (peer, data, place), GIGAE_TOO_LONG, GIGAE_TOO_MANY
 * (1,048,576 are in progress), GIGAE_PANICKED, GIGAE_BAD_HANDLE, GIGAE_IN_CALL. They allocate and
 * make no system call. But gigae_start_write and gigae_start_read ask a neighbour for memory that
 * is not mapped (gigae_memory_alloc), at most once in 8 seconds for each key: a sendmsg here and a
 * recvmsg there.
 */

/* Longest memory of one operation in bytes: 1 GiB. */
#define GIGAE_MAX_OPERATION 1073741824

/* Means every peer where a receive names the sender. */
#define GIGAE_ANYBODY 4294967295U

/*
 * Starts sending a tagged message. It completes when all of it has arrived at the peer's endpoint.
 * Above 64 KiB, or when the peer keeps too many unreceived messages, it completes when a receive
 * there has taken it.
 */
int gigae_start_send(gigae_endpoint *endpoint, uint32_t to, uint64_t tag, const void *data,
                     size_t len, void *context, uint64_t *id);

/*
 * Starts receiving the first tagged message from this peer (GIGAE_ANYBODY: from any) with this tag,
 * ignoring the bits that are set in `ignore`. Messages of one peer are matched in the order in
 * which they were sent, receives in the order in which they were started. A message longer than the
 * memory fills it and completes with GIGAE_TRUNCATED.
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
 * The first message that such a receive would get at once. GIGAE_AGAIN if no such message is there.
 * Makes no progress, so call gigae_progress in between.
 */
int gigae_peek(gigae_endpoint *endpoint, uint32_t from, uint64_t tag, uint64_t ignore,
               gigae_tagged *found);

/*
 * Cancels a receive without a message, or a message of which nothing was sent. Returns 1, or 0 if
 * it is too late. In both cases the completion comes. GIGAE_BAD_HANDLE if that was already taken.
 */
int gigae_cancel(gigae_endpoint *endpoint, uint64_t id);

/* The end of an operation. */
typedef struct gigae_completion {
    /* Its number, and the context of its start. */
    uint64_t id;
    void *context;
    /* Tagged messages: the tag. */
    uint64_t tag;
    /* Atomic changes: the former value. */
    uint64_t value;
    /* Bytes that were transferred; bytes of the message as it was sent. */
    size_t len;
    size_t total;
    /* The peer; 0 for a receive that was cancelled. */
    uint32_t peer;
    /* 0, or GIGAE_TRUNCATED, GIGAE_CANCELLED, GIGAE_LOST, GIGAE_NO_REGION, GIGAE_BOUNDS,
     * GIGAE_RIGHTS, GIGAE_NOTICES. */
    int status;
    /* GIGAE_LOST: why, one of gigae_reason. */
    int reason;
    uint32_t reserved_;
} gigae_completion;

/*
 * Takes the completion of the next operation that has ended, whatever its result. Its memory is the
 * program's alone again. All zero after an error. GIGAE_AGAIN if no completion is there. Makes
 * progress. Errors: GIGAE_INVALID, GIGAE_DOWN, GIGAE_GONE, GIGAE_TAKEN, GIGAE_IO, GIGAE_PANICKED,
 * GIGAE_BAD_HANDLE, GIGAE_IN_CALL.
 */
int gigae_try_completion(gigae_endpoint *endpoint, gigae_completion *completion);

/*
 * The same, but waits at most for this many microseconds (UINT64_MAX: without limit). GIGAE_TIMEOUT
 * if none came; GIGAE_AGAIN at once if there is no operation to wait for.
 */
int gigae_completion_timeout(gigae_endpoint *endpoint, gigae_completion *completion,
                             uint64_t microseconds);

/* The number of operations whose completion was not taken. */
int gigae_outstanding(gigae_endpoint *endpoint, size_t *operations);

/* ---- Operations: remote memory ------------------------------------------------------------- */

/*
 * Every peer that knows the key of a registered memory may use it. The key has 64 bits from the
 * operating system's random numbers. The owner's program need not call anything: a background
 * thread executes the operations while the program makes no call.
 *
 * The operations of one endpoint at one peer are executed in the order of their start: a write is
 * in place before a later write, tagged message or notice is seen.
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
 * Lets peers use a memory of at most GIGAE_MAX_OPERATION bytes with these `rights`, a sum of
 * gigae_rights. The program may go on reading and writing it, but peers access it at any time, also
 * while the program computes: agree with them on who writes what when, or use atomic operations. It
 * must stay where it is until gigae_deregister or gigae_close. Give the key to the peers that
 * should use it, by a message for example. *key is 0 after an error. Allocates.
 * Errors: GIGAE_INVALID (also bytes that begin in an allocation of gigae_memory_alloc and end
 * beyond it), GIGAE_TOO_LONG, GIGAE_TOO_MANY (1,048,576).
 */
int gigae_register(gigae_endpoint *endpoint, void *data, size_t len, int rights, uint64_t *key);

/*
 * Takes a memory back at once: the library does not use it any more, and refuses peers' operations
 * on it from now on. Of gigae_memory_alloc: waits while a neighbour copies (usually some 0.1 ms),
 * and as long as the neighbour is stopped in the middle of that. Error: GIGAE_BAD_HANDLE.
 */
int gigae_deregister(gigae_endpoint *endpoint, uint64_t key);

/*
 * Allocates `len` bytes, all zero, that processes of this node can map. Registered like any other
 * memory, whole or in parts, without GIGAE_RIGHT_ATOMIC: a write or read of a neighbour
 * (gigae_options_local) then is one copy by the neighbour, with no call, thread or frame of the
 * owner. With GIGAE_RIGHT_ATOMIC only reads are, so that nothing comes between reading and writing
 * a number. That does not hold for bytes that are also registered without GIGAE_RIGHT_ATOMIC: a
 * write to them may come in between. All else goes in frames: what peers of other nodes do, the
 * first accesses of a neighbour, until it has mapped the memory, a write with a notice, an access
 * while an earlier operation or message to the peer goes on, and more than 128 memories of an
 * endpoint. gigae_counts.operations_direct says how many took no frame.
 *
 * The neighbour maps all of the allocation, not only what is registered. A program of the same user
 * that does not keep to the library's rules can use it for as long as it likes. So give what no
 * neighbour may see an allocation of its own. A child of fork shares the memory with its parent.
 *
 * Each allocation takes a descriptor (memfd_create) and 7 system calls. The size of /dev/shm does
 * not matter. *memory is NULL after an error. Errors: GIGAE_INVALID, GIGAE_IO (no memory, no
 * descriptor, or a filter forbids it: memory of malloc does the same in frames).
 */
int gigae_memory_alloc(size_t len, void **memory);

/*
 * Frees it. What is registered stays until gigae_deregister or gigae_close, but the program must
 * not use it any more. The memory stays taken up until the neighbours that have mapped it have made
 * a call after that, or are gone. Error: GIGAE_BAD_HANDLE (not the address of an allocation).
 */
int gigae_memory_free(void *memory);

/* A place in a memory that a peer has registered: its key and the offset of the first byte. */
typedef struct gigae_place {
    uint64_t key;
    uint64_t offset;
    uint32_t peer;
    uint32_t reserved_;
} gigae_place;

/*
 * Starts writing to a place. It completes when the bytes are there. If `notice` is not NULL, the
 * peer then gets a notice with that number.
 */
int gigae_start_write(gigae_endpoint *endpoint, const gigae_place *to, const void *data, size_t len,
                      const uint64_t *notice, void *context, uint64_t *id);

/* Starts reading from a place into a memory. */
int gigae_start_read(gigae_endpoint *endpoint, const gigae_place *from, void *data, size_t len,
                     void *context, uint64_t *id);

/*
 * Starts adding to the eight bytes at a place, a little-endian number. The completion has the
 * former value. No other peer's operation comes between reading and writing it; the owner's program
 * may change it in between, and so may a write to memory of gigae_memory_alloc that is also
 * registered without GIGAE_RIGHT_ATOMIC.
 */
int gigae_start_fetch_add(gigae_endpoint *endpoint, const gigae_place *place, uint64_t operand,
                          void *context, uint64_t *id);

/* The same, but replaces such a number by `desired` if it is `expected`. */
int gigae_start_compare_swap(gigae_endpoint *endpoint, const gigae_place *place, uint64_t expected,
                             uint64_t desired, void *context, uint64_t *id);

/* A peer has written into a registered memory and asked for this notice. */
typedef struct gigae_notice {
    /* The memory, and the offset of the first byte. */
    uint64_t key;
    uint64_t offset;
    /* The writer's number. */
    uint64_t value;
    /* The peer, and how many bytes. */
    uint32_t peer;
    uint32_t len;
} gigae_notice;

/*
 * Takes the next notice. All zero after an error. GIGAE_AGAIN if no notice is there. Makes
 * progress. Errors as for gigae_try_completion.
 */
int gigae_try_notice(gigae_endpoint *endpoint, gigae_notice *notice);

/* The same, but waits at most for this many microseconds. GIGAE_TIMEOUT if no notice came. */
int gigae_notice_timeout(gigae_endpoint *endpoint, gigae_notice *notice, uint64_t microseconds);

#ifdef __cplusplus
}
#endif

#endif
