/* gigae/peer.h, a part of gigae.h: naming the endpoints to talk to. */
#ifndef GIGAE_PEER_H
#define GIGAE_PEER_H

#include "endpoint.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A peer is another endpoint on one channel. Its number is valid at the endpoint that returned it
 * until that endpoint is closed, also when the peer restarts. 0 is not a peer.
 *
 * Naming a peer sends nothing to it. For an IP address the kernel is asked for the route, which may
 * take up to a second. The same address gives the same number. Allocates for new peers. *peer is 0
 * after an error.
 * Errors: GIGAE_ADDRESS, GIGAE_CHANNEL, GIGAE_TOO_MANY, GIGAE_UNREACHABLE, GIGAE_INVALID.
 */

/*
 * By text: a MAC address (an IP address in the UDP envelope), then /PORT and /CHANNEL if they are
 * not zero: "02:00:00:00:00:02", "02:00:00:00:00:02/7", "198.18.0.2/7/1".
 */
int gigae_peer(gigae_endpoint *endpoint, const char *address, uint32_t *peer);

/* By the six bytes of a MAC address. */
int gigae_peer_by_mac(gigae_endpoint *endpoint, const uint8_t *mac, uint16_t port, uint8_t channel,
                      uint32_t *peer);

/* By the 4 or 16 bytes of an IP address in network order: a struct in_addr or in6_addr. */
int gigae_peer_by_ip(gigae_endpoint *endpoint, const void *ip, size_t len, uint16_t port,
                     uint8_t channel, uint32_t *peer);

/* Longest text of an address in bytes, with its NUL. */
#define GIGAE_ADDRESS_TEXT 64

/* The address of a peer as text, as gigae_peer reads it. Error: GIGAE_INVALID. */
int gigae_peer_address(gigae_endpoint *endpoint, uint32_t peer, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
