/* gigae/counters.h, a part of gigae.h: counters of an endpoint. */
#ifndef GIGAE_COUNTERS_H
#define GIGAE_COUNTERS_H

#include "endpoint.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts since the endpoint was opened. Later releases add fields at the end. */
typedef struct gigae_counts {
    /* Messages accepted for sending; received by the program; handed back as failed. */
    uint64_t messages_sent;
    uint64_t messages_received;
    uint64_t messages_failed;
    /* Received frames that were copied because the program held too many. */
    uint64_t frames_copied;
    /* Data frames that arrived in order (small messages may share one); that were sent again;
     * retransmission timeouts. */
    uint64_t data_frames_received;
    uint64_t retransmissions;
    uint64_t timeouts;
    /* Times that there was something to send and no credit. */
    uint64_t stops;
    /* Frames that carried only acknowledgement and credit; probes for lost credit. */
    uint64_t acks_sent;
    uint64_t probes;
    /* Sessions that came up; resets sent. */
    uint64_t sessions;
    uint64_t resets;
    /* Frames discarded: too short; in another envelope; of another version of the protocol; with a
     * wrong checksum; malformed; for another port or channel; of an unknown or former epoch; that
     * had already arrived; outside the window; out of order (go-back-N); because the session table
     * was full. */
    uint64_t discarded_short;
    uint64_t discarded_not_ours;
    uint64_t discarded_version;
    uint64_t discarded_checksum;
    uint64_t discarded_malformed;
    uint64_t discarded_port;
    uint64_t discarded_epoch;
    uint64_t discarded_duplicate;
    uint64_t discarded_window;
    uint64_t discarded_out_of_order;
    uint64_t discarded_refused;
    /* Frames handed to the link; taken from it; for which the kernel had no room; that the kernel
     * refused as invalid. */
    uint64_t frames_sent;
    uint64_t frames_received;
    uint64_t frames_dropped;
    uint64_t frames_invalid;
    /* System calls for transmitting; for driving the driver. */
    uint64_t doorbells;
    uint64_t drives;
    /* Sleeps; those that a frame ended. */
    uint64_t waits;
    uint64_t wakeups;
    /* Readings of the clock. */
    uint64_t clock_reads;
    /* Sessions in which frames as long as both ends accept do not arrive. */
    uint64_t black_holes;
    /* Tagged messages sent at once; offered first; that arrived before a matching receive. */
    uint64_t messages_unasked;
    uint64_t messages_offered;
    uint64_t messages_unexpected;
    /* Reads, writes and atomic changes of peers that were refused; operations that no sender of
     * this protocol starts. */
    uint64_t operations_refused;
    uint64_t operations_invalid;
    /* Of those refused: with a wrong key. */
    uint64_t operations_wrong_keys;
    /* Unreceived messages of ended sessions that were dropped because there was no more room. */
    uint64_t messages_dropped;
    /* Of frames_sent and frames_received: those through memory to and from endpoints of this node;
     * frames for which such an endpoint had no room. */
    uint64_t memory_frames_sent;
    uint64_t memory_frames_received;
    uint64_t memory_full;
    /* How often the progress thread acted for this endpoint; how often it woke up, for all
     * endpoints of the process. */
    uint64_t progress_turns;
    uint64_t progress_wakeups;
    /* Frames whose data were received where they belong; those whose data were placed where others
     * were expected, and so copied twice. */
    uint64_t frames_placed;
    uint64_t frames_misplaced;
    /* Messages that other processes of this node have read in the memory of this one; those that
     * this one has read so. */
    uint64_t messages_lent;
    uint64_t messages_fetched;
    /* Reads and writes of peers' memory that took one copy and no frame: gigae_memory_alloc. */
    uint64_t operations_direct;
} gigae_counts;

/*
 * Fills in `size` bytes of counts; give sizeof *counts. Fields that this library does not know are
 * 0. 1 system call, for the kernel's own counters.
 */
int gigae_counters(gigae_endpoint *endpoint, gigae_counts *counts, size_t size);

/* One of an endpoint's interfaces, and its counters since the endpoint was opened. */
typedef struct gigae_path {
    /* The interface's name. */
    char interface[16];
    /* Frames handed to the link; taken from it; for which the kernel had no room. */
    uint64_t frames_sent;
    uint64_t frames_received;
    uint64_t frames_dropped;
    /* Over all peers: data frames that were sent here and had to be repeated, here or elsewhere;
     * times that this interface was given up; times that it came back. */
    uint64_t frames_lost;
    uint64_t deaths;
    uint64_t returns;
    uint64_t reserved_[2];
} gigae_path;

/*
 * Fills in the first `count` of the endpoint's interfaces, in their given order. Returns how many
 * there are (1 to 8). NULL is allowed with a count of 0. 1 system call for each interface, for the
 * kernel's own counters.
 */
int gigae_paths(gigae_endpoint *endpoint, gigae_path *paths, size_t count);

#ifdef __cplusplus
}
#endif

#endif
