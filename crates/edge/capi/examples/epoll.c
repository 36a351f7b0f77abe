/* Echoes messages from an event loop until an empty one comes: `epoll eth1`. */
#include <gigae.h>
#include <stdio.h>
#include <sys/epoll.h>

int main(int argc, char **argv)
{
    gigae_endpoint *endpoint;
    gigae_message message;
    char mac[GIGAE_ADDRESS_TEXT];
    struct epoll_event event = {.events = EPOLLIN};
    int loop = epoll_create1(0), result = gigae_open(argc > 1 ? argv[1] : "eth0", &endpoint);
    if (result < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, gigae_fd(endpoint), &event) < 0) goto failed;
    if (gigae_mac(endpoint, mac, sizeof mac) > 0) printf("waiting on %s\n", mac), fflush(stdout);
    for (size_t len = 1; len > 0;) {
        int64_t us; /* All that has come, then sleep, but not past the next thing that is due. */
        while (len > 0 && (result = gigae_try_recv(endpoint, &message)) == 0) {
            len = message.len;
            if (len > 0) result = gigae_send(endpoint, message.from, message.data, len);
            if (gigae_message_drop(&message) < 0 || result < 0) goto failed;
        }
        if (len > 0 && result != GIGAE_AGAIN) goto failed;
        if (gigae_prepare_to_wait(endpoint, &us) < 0) goto failed;
        if (len > 0) epoll_wait(loop, &event, 1, us < 0 ? -1 : (int)((us + 999) / 1000));
    }
    if (gigae_close(endpoint) == 0) return 0;
failed:
    fprintf(stderr, "epoll: %s\n", gigae_last_error());
    return 1;
}
