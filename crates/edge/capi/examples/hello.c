/* A first program. On one node: `hello eth1`; on another: `hello eth1 MAC-OF-THE-FIRST`. */
#include <gigae.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int result)
{
    if (result < 0) { fprintf(stderr, "hello: %s\n", gigae_last_error()); exit(1); }
}

int main(int argc, char **argv)
{
    gigae_endpoint *endpoint;
    gigae_message message;
    char address[GIGAE_ADDRESS_TEXT];
    uint32_t peer;
    check(gigae_open(argc > 1 ? argv[1] : "eth0", &endpoint));
    check(gigae_mac(endpoint, address, sizeof address));
    if (argc < 3) printf("waiting on %s\n", address), fflush(stdout);
    else check(gigae_peer(endpoint, argv[2], &peer)), check(gigae_send(endpoint, peer, "hello", 5));
    check(gigae_recv(endpoint, &message));
    check(gigae_peer_address(endpoint, message.from, address, sizeof address));
    printf("%s says %.*s\n", address, (int)message.len, (const char *)message.data);
    if (argc < 3) check(gigae_send(endpoint, message.from, "hello to you", 12));
    check(gigae_message_drop(&message));
    check(gigae_drain(endpoint, 1000000));
    check(gigae_close(endpoint));
    return 0;
}
