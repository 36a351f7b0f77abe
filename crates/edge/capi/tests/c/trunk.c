/* Two interfaces as one: `trunk eth0` waits for messages and sends as many back, `trunk eth0 MAC` begins. */
#include <gigae.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 200, LENGTH = 1000 };

static void check(int result)
{
    if (result < 0) { fprintf(stderr, "trunk: %s\n", gigae_last_error()); exit(1); }
}

static gigae_endpoint *endpoint;

/* All at once, so that they wait and each goes where it waits least. */
static void send_all(uint32_t peer)
{
    char body[LENGTH];
    memset(body, 7, sizeof body);
    for (int n = 0; n < MESSAGES; n++) {
        memcpy(body, &n, sizeof n);
        check(gigae_queue(endpoint, peer, body, sizeof body));
    }
    check(gigae_flush(endpoint));
}

static uint32_t receive_all(void)
{
    gigae_message message;
    uint32_t from = 0;
    for (int n = 0; n < MESSAGES; n++) {
        check(gigae_recv(endpoint, &message));
        if (message.len != LENGTH || memcmp(message.data, &n, sizeof n)) exit(2);
        from = message.from;
        check(gigae_message_drop(&message));
    }
    printf("%d messages\n", MESSAGES);
    return from;
}

int main(int argc, char **argv)
{
    const char *both[] = { argc > 1 ? argv[1] : "", "eth1" };
    gigae_options *options;
    gigae_path paths[2];
    uint32_t peer;
    char mac[18];
    if (argc < 2) return 2;
    check(gigae_options_trunk(both, 2, &options));
    check(gigae_open_with(options, &endpoint));
    check(gigae_options_free(options));
    if (argc < 3) {
        check(gigae_mac(endpoint, mac, sizeof mac));
        printf("waiting on %s\n", mac), fflush(stdout);
        send_all(receive_all());
    } else {
        check(gigae_peer(endpoint, argv[2], &peer));
        send_all(peer);
        receive_all();
    }
    check(gigae_drain(endpoint, 5000000));
    if (gigae_paths(endpoint, paths, 2) != 2) return 3;
    if (strcmp(paths[0].interface, both[0]) || strcmp(paths[1].interface, both[1])) return 4;
    if (!paths[0].frames_sent || !paths[1].frames_received) return 5;
    check(gigae_close(endpoint));
    return 0;
}
