/*
 * Memory within a node: `local x0` waits for messages and answers each, `local x1 MAC` begins. Then
 * the second writes into memory of the first, until that takes no frame.
 */
#include <gigae.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 200, BYTES = 100000, TRIES = 1000000 };

static void check(int result)
{
    if (result < 0) { fprintf(stderr, "local: %s\n", gigae_last_error()); exit(1); }
}

static gigae_endpoint *endpoint;

static uint32_t receive(int n)
{
    gigae_message message;
    uint32_t from;
    check(gigae_recv(endpoint, &message));
    if (message.len != sizeof n || memcmp(message.data, &n, sizeof n)) exit(2);
    from = message.from;
    check(gigae_message_drop(&message));
    return from;
}

static void ended(void)
{
    gigae_completion done;
    check(gigae_completion_timeout(endpoint, &done, 5000000));
    if (done.status) exit(4);
}

/* Registers a part of an allocation, whose first byte stays zero. */
static void lend(uint32_t peer)
{
    void *memory;
    uint64_t key;
    gigae_message message;
    const int rights = GIGAE_RIGHT_READ | GIGAE_RIGHT_WRITE;
    check(gigae_memory_alloc(BYTES, &memory));
    check(gigae_register(endpoint, (char *)memory + 1, BYTES - 1, rights, &key));
    check(gigae_send(endpoint, peer, &key, sizeof key));
    check(gigae_recv(endpoint, &message));
    check(gigae_message_drop(&message));
    if (*(char *)memory || memcmp((char *)memory + BYTES - 8, "written", 8)) exit(5);
    check(gigae_deregister(endpoint, key));
    check(gigae_memory_free(memory));
}

static void use(uint32_t peer)
{
    gigae_place place = {.offset = BYTES - 9, .peer = peer};
    gigae_message message;
    gigae_counts counts;
    char read[8];
    int n = 0;
    check(gigae_recv(endpoint, &message));
    if (message.len != sizeof place.key) exit(6);
    memcpy(&place.key, message.data, sizeof place.key);
    check(gigae_message_drop(&message));
    do {
        check(gigae_start_write(endpoint, &place, "written", 8, NULL, NULL, NULL)), ended();
        check(gigae_start_read(endpoint, &place, read, 8, NULL, NULL)), ended();
        check(gigae_counters(endpoint, &counts, sizeof counts));
    } while (counts.operations_direct < 10 && n++ < TRIES);
    if (n >= TRIES || memcmp(read, "written", 8)) exit(7);
    check(gigae_send(endpoint, peer, NULL, 0));
}

int main(int argc, char **argv)
{
    gigae_options *options;
    gigae_counts counts;
    uint32_t peer = 0;
    char mac[18];
    int n;
    if (argc < 2) return 2;
    check(gigae_options_new(argv[1], &options));
    check(gigae_options_local(options, 1));
    /* It has the privileges, and whatever daemon listens on this machine is not asked. */
    check(gigae_options_broker(options, GIGAE_BROKER_NEVER));
    check(gigae_open_with(options, &endpoint));
    check(gigae_options_free(options));
    if (argc < 3) {
        check(gigae_mac(endpoint, mac, sizeof mac));
        printf("waiting on %s\n", mac), fflush(stdout);
    } else {
        check(gigae_peer(endpoint, argv[2], &peer));
    }
    for (n = 0; n < MESSAGES; n++) {
        if (argc < 3) peer = receive(n);
        check(gigae_send(endpoint, peer, &n, sizeof n));
        if (argc > 2) receive(n);
    }
    if (argc < 3) lend(peer);
    else use(peer);
    check(gigae_drain(endpoint, 5000000));
    check(gigae_counters(endpoint, &counts, sizeof counts));
    if (counts.memory_frames_sent < MESSAGES / 2 || counts.memory_frames_received < MESSAGES / 2) {
        return 3;
    }
    printf("%d messages\n", MESSAGES);
    check(gigae_close(endpoint));
    return 0;
}
