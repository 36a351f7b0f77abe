/* Memory within a node: `local x0` waits for messages and answers each, `local x1 MAC` begins. */
#include <gigae.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 200 };

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
    check(gigae_drain(endpoint, 5000000));
    check(gigae_counters(endpoint, &counts, sizeof counts));
    if (counts.memory_frames_sent < MESSAGES / 2 || counts.memory_frames_received < MESSAGES / 2) {
        return 3;
    }
    printf("%d messages\n", MESSAGES);
    check(gigae_close(endpoint));
    return 0;
}
