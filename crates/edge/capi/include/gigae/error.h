/* gigae/error.h, a part of gigae.h: the codes of calls that fail. */
#ifndef GIGAE_ERROR_H
#define GIGAE_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

enum gigae_error {
    /* Nothing there, or no room now: receive or make progress, then try again. */
    GIGAE_AGAIN = -1,
    /* The given time passed before it happened. */
    GIGAE_TIMEOUT = -2,
    /* Messages sent earlier failed: take them with gigae_take_failure, then continue. */
    GIGAE_FAILED = -3,
    /* Longer than gigae_max_message, or than the peer can receive. */
    GIGAE_TOO_LONG = -4,
    /* An argument is NULL, out of range or unknown. */
    GIGAE_INVALID = -5,
    /* The handle, buffer, message, operation or key is closed, used up, or was never valid. */
    GIGAE_BAD_HANDLE = -6,
    /* Another thread is in a call on the handle. */
    GIGAE_IN_CALL = -7,
    /* The program still holds buffers or messages: send or drop them, then continue. */
    GIGAE_BUSY = -8,
    /* An error in the library stopped the endpoint. It can only be closed. */
    GIGAE_PANICKED = -9,
    /* There is no such interface here. */
    GIGAE_NO_INTERFACE = -10,
    /* The interface is down. */
    GIGAE_DOWN = -11,
    /* The interface is gone. */
    GIGAE_GONE = -12,
    /* Not permitted: needs root or a capability. */
    GIGAE_PERMISSION = -13,
    /* The interface's MTU is too small. */
    GIGAE_MTU = -14,
    /* The kernel or the link cannot do this. */
    GIGAE_UNSUPPORTED = -15,
    /* Another program has the interface's XDP hook or queue, or detached this endpoint from it. */
    GIGAE_TAKEN = -16,
    /* A system call failed. */
    GIGAE_IO = -17,
    /* Not an address, or not one for this envelope. */
    GIGAE_ADDRESS = -18,
    /* The channel is not open on this endpoint. */
    GIGAE_CHANNEL = -19,
    /* Too many peers, or too many handles open in this process (1,024 of each kind). */
    GIGAE_TOO_MANY = -20,
    /* There is no route to the IP address. */
    GIGAE_UNREACHABLE = -21,
    /* An error without its own code. */
    GIGAE_OTHER = -22,
    /* An operation's result: the message was longer than the memory, which has its beginning. */
    GIGAE_TRUNCATED = -23,
    /* Memory of a receive or a read that has failed is undefined beyond the counted bytes.
     * The operation was cancelled before anything had happened. */
    GIGAE_CANCELLED = -24,
    /* The peer was lost. It is not known how much was done. */
    GIGAE_LOST = -25,
    /* Refused, and nothing was done: the peer has no memory registered under the key; */
    GIGAE_NO_REGION = -26,
    /* the bytes are not all within that memory; */
    GIGAE_BOUNDS = -27,
    /* the memory was registered without this right; */
    GIGAE_RIGHTS = -28,
    /* the peer has too many notices that its program did not take (65,536), or was given too many
     * wrong keys. */
    GIGAE_NOTICES = -29,
    /* The cluster file is missing or wrong, or lacks a node or an address. */
    GIGAE_CLUSTER = -30
};

/* The meaning of a code in one line. Never NULL; constant. */
const char *gigae_error_text(int code);

/*
 * The message of the last call that failed in this thread: one line, with names, numbers and what
 * to do. Never NULL. It stays until the next call of this thread fails.
 */
const char *gigae_last_error(void);

/* Why a peer was lost or a message failed. */
enum gigae_reason {
    /* A reason that is newer than this header. */
    GIGAE_REASON_OTHER = 0,
    /* The peer answered nothing for the peer timeout. */
    GIGAE_REASON_TIMEOUT = 1,
    /* The peer restarted or closed its endpoint. */
    GIGAE_REASON_RESET = 2,
    /* The peer speaks another version of the protocol. */
    GIGAE_REASON_VERSION = 3,
    /* The message is longer than the peer can receive. */
    GIGAE_REASON_TOO_LONG = 4,
    /* This endpoint was closed. */
    GIGAE_REASON_CLOSED = 5
};

#ifdef __cplusplus
}
#endif

#endif
