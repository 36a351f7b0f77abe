/* Ping-pong without a copy: `inplace eth1 MAC` against `epoll eth1` on the node with that MAC. */
#include <gigae.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int result)
{
    if (result < 0) { fprintf(stderr, "inplace: %s\n", gigae_last_error()); exit(1); }
}

int main(int argc, char **argv)
{
    gigae_endpoint *endpoint;
    uint32_t peer, pings = 1000, n;
    if (argc < 3) return fprintf(stderr, "usage: inplace INTERFACE MAC\n"), 2;
    check(gigae_open(argv[1], &endpoint));
    check(gigae_peer(endpoint, argv[2], &peer));
    for (n = 0; n < pings; n++) {
        gigae_buffer ping;
        gigae_message pong;
        check(gigae_buffer_take(endpoint, &ping));
        memcpy(ping.data, &n, sizeof n);
        check(gigae_buffer_send(&ping, peer, sizeof n));
        check(gigae_recv(endpoint, &pong));
        if (pong.len != sizeof n || memcmp(pong.data, &n, sizeof n) != 0) return 1;
        check(gigae_message_drop(&pong));
    }
    check(gigae_send(endpoint, peer, NULL, 0));
    check(gigae_drain(endpoint, 1000000));
    printf("%u pings came back\n", (unsigned)n);
    check(gigae_close(endpoint));
    return 0;
}
