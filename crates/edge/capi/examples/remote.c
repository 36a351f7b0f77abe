/* Writes into another program's memory. On one node: `remote eth1`; on another: `remote eth1 MAC`. */
#include <gigae.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int result)
{
    if (result < 0) fprintf(stderr, "remote: %s\n", gigae_last_error()), exit(1);
}

int main(int argc, char **argv)
{
    gigae_endpoint *endpoint;
    gigae_place place = {.offset = 100};
    gigae_message asked;
    gigae_notice notice;
    gigae_completion done;
    char address[GIGAE_ADDRESS_TEXT], memory[1000];
    uint64_t key, word = 42;
    check(gigae_open(argc > 1 ? argv[1] : "eth0", &endpoint));
    check(gigae_mac(endpoint, address, sizeof address));
    if (argc < 3) { /* Answers a message with the key, and waits until a peer has written. */
        printf("waiting on %s\n", address), fflush(stdout);
        check(gigae_register(endpoint, memory, sizeof memory, GIGAE_RIGHT_WRITE, &key));
        check(gigae_recv(endpoint, &asked));
        check(gigae_start_send(endpoint, asked.from, 0, &key, sizeof key, NULL, NULL));
        check(gigae_message_drop(&asked)), check(gigae_notice_timeout(endpoint, &notice, 10000000));
        printf("%s, and %u\n", memory + notice.offset, (unsigned)notice.value);
    } else { /* Asks for the key, and writes. */
        check(gigae_peer(endpoint, argv[2], &place.peer));
        check(gigae_send(endpoint, place.peer, NULL, 0));
        check(gigae_start_recv(endpoint, place.peer, 0, 0, &place.key, sizeof key, NULL, NULL));
        check(gigae_completion_timeout(endpoint, &done, 10000000));
        check(gigae_start_write(endpoint, &place, "hello", 6, &word, NULL, NULL));
        check(gigae_completion_timeout(endpoint, &done, 10000000));
        puts(gigae_error_text(done.status));
    }
    return gigae_close(endpoint) == 0 ? 0 : 1;
}
