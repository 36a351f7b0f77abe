/* What a program may get wrong: every mistake is answered with a code, and nothing else happens. */
#include <gigae.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IS(call, code) is(call, code, #call, __LINE__)

static void is(int result, int code, const char *call, int line)
{
    if (result != code) {
        fprintf(stderr, "line %d: %s is %d (%s), not %d\n", line, call, result, gigae_last_error(), code);
        exit(1);
    }
}

static int refused;

/* Uses the endpoint until the other thread was refused because of it. */
static void *receive(void *endpoint)
{
    gigae_message message;
    while (!__atomic_load_n(&refused, __ATOMIC_RELAXED)) {
        int code = gigae_recv_timeout(endpoint, &message, 100000);
        if (code != GIGAE_IN_CALL) IS(code, GIGAE_TIMEOUT);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    gigae_options *options;
    gigae_endpoint *endpoint = (gigae_endpoint *)&endpoint, *other;
    gigae_cluster *cluster = (gigae_cluster *)&cluster;
    gigae_buffer buffer, copy;
    gigae_message message;
    gigae_counts counts;
    pthread_t thread;
    gigae_place place = {0};
    gigae_completion done;
    gigae_notice notice;
    gigae_tagged found;
    char memory[16];
    uint64_t id = 7, key;
    void *shared;
    size_t count;
    uint32_t peer;
    int code;
    if (argc < 3) return 2;

    IS(gigae_open(NULL, &endpoint), GIGAE_INVALID);
    IS(endpoint != NULL, 0);
    IS(gigae_open(argv[1], NULL), GIGAE_INVALID);
    IS(gigae_open("nosuch", &endpoint), GIGAE_NO_INTERFACE);
    IS(gigae_close(NULL), GIGAE_INVALID);
    IS(gigae_close((gigae_endpoint *)&options), GIGAE_BAD_HANDLE);
    IS(gigae_options_new(argv[1], &options), 0);
    IS(gigae_options_wait(options, 77), GIGAE_INVALID);
    IS(gigae_options_wait(options, GIGAE_WAIT_SLEEP), 0);
    IS(gigae_close((gigae_endpoint *)options), GIGAE_BAD_HANDLE);
    IS(gigae_open_with(options, &endpoint), 0);
    IS(gigae_options_free(options), 0);
    IS(gigae_options_free(options), GIGAE_BAD_HANDLE);
    IS(gigae_open_with(options, &other), GIGAE_BAD_HANDLE);

    IS(gigae_cluster_load("/nonexistent", &cluster), GIGAE_CLUSTER);
    IS(cluster != NULL, 0);
    IS(gigae_cluster_free(cluster), GIGAE_INVALID);
    IS(gigae_cluster_free((gigae_cluster *)endpoint), GIGAE_BAD_HANDLE);
    IS(gigae_cluster_count((gigae_cluster *)&cluster, &peer), GIGAE_BAD_HANDLE);

    IS(gigae_peer(endpoint, "nonsense", &peer), GIGAE_ADDRESS);
    IS(gigae_send(endpoint, peer, "x", 1), GIGAE_INVALID);
    IS(gigae_peer(endpoint, argv[2], &peer), 0);
    IS(gigae_send(endpoint, peer, NULL, 1), GIGAE_INVALID);
    IS(gigae_send(endpoint, peer, "x", (size_t)-1), GIGAE_TOO_LONG);

    memset(&buffer, 0, sizeof buffer);
    IS(gigae_buffer_drop(&buffer), GIGAE_BAD_HANDLE);
    IS(gigae_buffer_take(endpoint, &buffer), 0);
    copy = buffer;
    IS(gigae_close(endpoint), GIGAE_BUSY);
    IS(gigae_buffer_send(&buffer, peer, buffer.capacity + 1), GIGAE_TOO_LONG);
    IS(gigae_buffer_drop(&buffer), 0);
    IS(gigae_buffer_drop(&buffer), GIGAE_BAD_HANDLE);
    IS(gigae_buffer_send(&copy, peer, 1), GIGAE_BAD_HANDLE);

    memset(&message, 0, sizeof message);
    IS(gigae_message_drop(&message), GIGAE_BAD_HANDLE);
    IS(gigae_message_drop(NULL), GIGAE_INVALID);
    IS(gigae_try_recv(endpoint, &message), GIGAE_AGAIN);
    IS(gigae_message_drop(&message), GIGAE_BAD_HANDLE);

    /* Operations: what is refused was not started, and says so. */
    IS(gigae_start_send(endpoint, 77, 0, memory, 1, NULL, &id), GIGAE_INVALID);
    IS(id != 0, 0);
    IS(gigae_start_send(endpoint, peer, 0, NULL, 1, NULL, NULL), GIGAE_INVALID);
    IS(gigae_start_recv(endpoint, 0, 0, 0, memory, 1, NULL, &id), GIGAE_INVALID);
    IS(gigae_start_recv(endpoint, peer, 0, 0, memory, (size_t)-1, NULL, &id), GIGAE_TOO_LONG);
    IS(gigae_start_write(endpoint, NULL, memory, 1, NULL, NULL, &id), GIGAE_INVALID);
    IS(gigae_start_write(endpoint, &place, memory, 1, NULL, NULL, &id), GIGAE_INVALID);
    IS(gigae_start_read(endpoint, &place, memory, 1, NULL, &id), GIGAE_INVALID);
    IS(gigae_start_fetch_add(endpoint, &place, 1, NULL, &id), GIGAE_INVALID);
    IS(gigae_start_compare_swap(endpoint, NULL, 1, 2, NULL, &id), GIGAE_INVALID);
    IS(gigae_outstanding(endpoint, &count), 0);
    IS(count != 0, 0);
    IS(gigae_try_completion(endpoint, NULL), GIGAE_INVALID);
    IS(gigae_try_completion(endpoint, &done), GIGAE_AGAIN);
    IS(gigae_completion_timeout(endpoint, &done, UINT64_MAX), GIGAE_AGAIN);
    IS(gigae_try_notice(endpoint, &notice), GIGAE_AGAIN);
    IS(gigae_notice_timeout(endpoint, &notice, 1000), GIGAE_TIMEOUT);
    IS(gigae_peek(endpoint, GIGAE_ANYBODY, 0, 0, &found), GIGAE_AGAIN);
    IS(gigae_cancel(endpoint, 0), GIGAE_BAD_HANDLE);
    IS(gigae_start_recv(endpoint, peer, 0, 0, memory, sizeof memory, &place, &id), 0);
    IS(gigae_completion_timeout(endpoint, &done, 1000), GIGAE_TIMEOUT);
    IS(gigae_cancel(endpoint, id), 1);
    IS(gigae_cancel(endpoint, id), 0);
    IS(gigae_try_completion(endpoint, &done), 0);
    IS(done.id == id && done.context == &place && done.status == GIGAE_CANCELLED, 1);
    IS(gigae_cancel(endpoint, id), GIGAE_BAD_HANDLE);
    IS(gigae_register(endpoint, memory, sizeof memory, 0, &key), GIGAE_INVALID);
    IS(gigae_register(endpoint, memory, sizeof memory, 8, &key), GIGAE_INVALID);
    IS(gigae_register(endpoint, NULL, 1, GIGAE_RIGHT_READ, &key), GIGAE_INVALID);
    IS(gigae_register(endpoint, memory, sizeof memory, GIGAE_RIGHT_READ, &key), 0);
    IS(gigae_deregister(endpoint, key + 1), GIGAE_BAD_HANDLE);
    IS(gigae_deregister(endpoint, key), 0);
    IS(gigae_deregister(endpoint, key), GIGAE_BAD_HANDLE);
    IS(gigae_memory_alloc(100, NULL), GIGAE_INVALID);
    IS(gigae_memory_alloc((size_t)-1, &shared), GIGAE_IO);
    IS(shared != NULL, 0);
    IS(gigae_memory_alloc(100, &shared), 0);
    IS(gigae_memory_free((char *)shared + 1), GIGAE_BAD_HANDLE);
    IS(gigae_memory_free(memory), GIGAE_BAD_HANDLE);
    IS(gigae_register(endpoint, (char *)shared + 1, 100, GIGAE_RIGHT_WRITE, &key), GIGAE_INVALID);
    IS(gigae_register(endpoint, (char *)shared + 1, 99, GIGAE_RIGHT_WRITE, &key), 0);
    IS(gigae_memory_free(shared), 0);
    IS(gigae_memory_free(shared), GIGAE_BAD_HANDLE);
    IS(gigae_memory_free(NULL), GIGAE_BAD_HANDLE);
    IS(gigae_deregister(endpoint, key), 0);

    /* A second thread is refused while the first one's call goes on. */
    IS(pthread_create(&thread, NULL, receive, endpoint), 0);
    do {
        /* The other thread can begin its call only while this one is in none. */
        usleep(100);
        code = gigae_counters(endpoint, &counts, sizeof counts);
    } while (code == 0);
    IS(code, GIGAE_IN_CALL);
    __atomic_store_n(&refused, 1, __ATOMIC_RELAXED);
    IS(pthread_join(thread, NULL), 0);
    IS(gigae_counters(endpoint, &counts, sizeof counts), 0);

    /* Closing ends what is going on. */
    IS(gigae_start_recv(endpoint, peer, 0, 0, memory, sizeof memory, NULL, &id), 0);
    IS(gigae_register(endpoint, memory, sizeof memory, GIGAE_RIGHT_READ, &key), 0);
    IS(gigae_buffer_take(endpoint, &buffer), 0);
    copy = buffer;
    IS(gigae_buffer_drop(&buffer), 0);
    IS(gigae_close(endpoint), 0);
    IS(gigae_close(endpoint), GIGAE_BAD_HANDLE);
    IS(gigae_buffer_drop(&copy), GIGAE_BAD_HANDLE);
    IS(gigae_send(endpoint, peer, "x", 1), GIGAE_BAD_HANDLE);
    IS(gigae_recv(endpoint, &message), GIGAE_BAD_HANDLE);
    IS(gigae_fd(endpoint), GIGAE_BAD_HANDLE);
    IS(gigae_cancel(endpoint, id), GIGAE_BAD_HANDLE);
    IS(gigae_deregister(endpoint, key), GIGAE_BAD_HANDLE);
    IS(strlen(gigae_last_error()) == strlen(gigae_error_text(GIGAE_BAD_HANDLE)), 1);
    return 0;
}
