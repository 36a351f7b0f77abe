/* 1 MiB there and back. On one node: `tagged eth1`; on another: `tagged eth1 MAC-OF-THE-FIRST`. */
#include <gigae.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PING, PONG };
static gigae_endpoint *endpoint;
static unsigned char memory[1 << 20];

/* Waits for what was started; with whom it was completed. */
static uint32_t completed(int result)
{
    gigae_completion done = {0};
    if (result == 0) result = gigae_completion_timeout(endpoint, &done, UINT64_MAX);
    if (result == 0 && done.status == 0) return done.peer;
    fprintf(stderr, "tagged: %s\n", result < 0 ? gigae_last_error() : gigae_error_text(done.status));
    exit(1);
}

int main(int argc, char **argv)
{
    size_t size = sizeof memory;
    char mac[GIGAE_ADDRESS_TEXT];
    uint32_t peer = GIGAE_ANYBODY;
    int asked = argc < 3, result = gigae_open(argc > 1 ? argv[1] : "eth0", &endpoint);
    if (result == 0 && !asked) result = gigae_peer(endpoint, argv[2], &peer);
    if (result < 0) return fprintf(stderr, "tagged: %s\n", gigae_last_error()), 1;
    if (asked && gigae_mac(endpoint, mac, sizeof mac) > 0) printf("waiting on %s\n", mac);
    fflush(stdout);
    for (size_t i = 0; !asked && i < size; i++) memory[i] = (unsigned char)(i % 251);
    if (!asked) completed(gigae_start_send(endpoint, peer, PING, memory, size, NULL, NULL));
    if (!asked) memset(memory, 0, size);
    peer = completed(gigae_start_recv(endpoint, peer, asked ? PING : PONG, 0, memory, size, NULL, NULL));
    if (asked) completed(gigae_start_send(endpoint, peer, PONG, memory, size, NULL, NULL));
    for (size_t i = 0; i < size; i++) if (memory[i] != i % 251) return 1;
    if (!asked) printf("%u bytes came back\n", (unsigned)size);
    return gigae_close(endpoint) == 0 ? 0 : 1;
}
