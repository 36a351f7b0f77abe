/* Speaks by names of a cluster file: `cluster FILE` waits for a greeting, `cluster FILE NAME` greets. */
#include <gigae.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int result)
{
    if (result < 0) { fprintf(stderr, "cluster: %s\n", gigae_last_error()); exit(1); }
}

int main(int argc, char **argv)
{
    gigae_cluster *cluster;
    gigae_options *options;
    gigae_endpoint *endpoint;
    gigae_message message;
    char address[GIGAE_ADDRESS_TEXT], name[64] = "";
    uint32_t peer, number, count;
    if (argc < 2) return 2;
    check(gigae_cluster_load(argv[1], &cluster));
    check(gigae_cluster_options(cluster, &options));
    check(gigae_open_with(options, &endpoint));
    check(gigae_options_free(options));
    check(gigae_cluster_count(cluster, &count));
    check(gigae_cluster_self(cluster, &number));
    check(gigae_cluster_name(cluster, number, name, sizeof name));
    if (argc < 3) {
        printf("waiting on %s, %u of %u\n", name, (unsigned)number, (unsigned)count), fflush(stdout);
    } else {
        check(gigae_cluster_number(cluster, argv[2], &number));
        check(gigae_cluster_address(cluster, number, address, sizeof address));
        check(gigae_peer(endpoint, address, &peer));
        check(gigae_send(endpoint, peer, name, sizeof name));
    }
    check(gigae_recv(endpoint, &message));
    printf("%s got a message of %s\n", name, (const char *)message.data);
    if (argc < 3) check(gigae_send(endpoint, message.from, name, sizeof name));
    check(gigae_message_drop(&message));
    check(gigae_drain(endpoint, 1000000));
    check(gigae_close(endpoint));
    check(gigae_cluster_free(cluster));
    return 0;
}
