/* gigae/cluster.h, a part of gigae.h: nodes by name, from a file that all of them share. */
#ifndef GIGAE_CLUSTER_H
#define GIGAE_CLUSTER_H

#include "options.h"
#include "peer.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A cluster file lists the nodes and how they communicate. The same file serves all of them. Nodes
 * are numbered from 0 in its order. 'gigae discover --write FILE' makes one, with every key
 * explained.
 *
 *     gigae_cluster_load(NULL, &cluster);
 *     gigae_cluster_options(cluster, &options);
 *     gigae_open_with(options, &endpoint);
 *     gigae_cluster_number(cluster, "n3", &number);
 *     gigae_cluster_address(cluster, number, address, sizeof address);
 *     gigae_peer(endpoint, address, &peer);
 *
 * Errors of all that follow: GIGAE_CLUSTER, GIGAE_INVALID, GIGAE_BAD_HANDLE, GIGAE_IN_CALL.
 */
typedef struct gigae_cluster gigae_cluster;

/*
 * Reads a cluster file. NULL: the file in the environment variable GIGAE_CLUSTER, or otherwise
 * /etc/gigae/cluster.toml. Allocates; free it with gigae_cluster_free. *cluster is NULL after an
 * error. Further error: GIGAE_TOO_MANY.
 */
int gigae_cluster_load(const char *file, gigae_cluster **cluster);

/* Frees a cluster; options and endpoints made with it are not affected. */
int gigae_cluster_free(gigae_cluster *cluster);

/* The number of nodes. */
int gigae_cluster_count(const gigae_cluster *cluster, uint32_t *count);

/*
 * This node's number: of the node in the environment variable GIGAE_NODE, or otherwise of the one
 * with a MAC or IP address of this host. Some ten system calls.
 */
int gigae_cluster_self(const gigae_cluster *cluster, uint32_t *number);

/* The number of a node by its name. */
int gigae_cluster_number(const gigae_cluster *cluster, const char *name, uint32_t *number);

/* The name of a node, at most 63 bytes. */
int gigae_cluster_name(const gigae_cluster *cluster, uint32_t number, char *text, size_t size);

/* The address of a node's endpoint, as gigae_peer reads it: GIGAE_ADDRESS_TEXT bytes are enough. */
int gigae_cluster_address(const gigae_cluster *cluster, uint32_t number, char *text, size_t size);

/*
 * Options for this node's endpoint: interface (or interfaces, with `trunk = true` in the file),
 * envelope, channel and port id of the file, everything else at its default. They belong to the
 * caller: free them with gigae_options_free. *options is NULL after an error. Further error:
 * GIGAE_TOO_MANY.
 */
int gigae_cluster_options(const gigae_cluster *cluster, gigae_options **options);

#ifdef __cplusplus
}
#endif

#endif
