/*
 * A program that computes: `computes eth0 SECONDS MESSAGES`. It answers a message with the key of
 * its memory. Then it makes no call for SECONDS, and afterwards receives what came during that
 * time.
 */
#define _POSIX_C_SOURCE 200809L
#include <gigae.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(int result)
{
    if (result < 0) { fprintf(stderr, "computes: %s\n", gigae_last_error()); exit(1); }
}

int main(int argc, char **argv)
{
    enum { RIGHTS = GIGAE_RIGHT_READ | GIGAE_RIGHT_WRITE | GIGAE_RIGHT_ATOMIC };
    gigae_endpoint *endpoint;
    gigae_message message;
    char mac[18], memory[4096] = {0};
    uint64_t key, counted;
    if (argc < 4) return 2;
    struct timespec now;
    time_t seconds = atoi(argv[2]);
    int messages = atoi(argv[3]);
    check(gigae_open(argv[1], &endpoint));
    check(gigae_mac(endpoint, mac, sizeof mac));
    check(gigae_register(endpoint, memory, sizeof memory, RIGHTS, &key));
    printf("waiting on %s\n", mac), fflush(stdout);
    check(gigae_recv(endpoint, &message));
    check(gigae_send(endpoint, message.from, &key, sizeof key));
    check(gigae_message_drop(&message));
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (time_t end = now.tv_sec + seconds + 1; now.tv_sec < end;) clock_gettime(CLOCK_MONOTONIC, &now);
    for (int n = 0; n < messages; n++) {
        check(gigae_recv(endpoint, &message));
        if (message.len != sizeof n || memcmp(message.data, &n, sizeof n)) return 3;
        check(gigae_message_drop(&message));
    }
    memcpy(&counted, memory, sizeof counted);
    printf("%d messages, counted to %d, wrote '%s'\n", messages, (int)counted, memory + 8);
    check(gigae_close(endpoint));
    return 0;
}
