// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Loses, duplicates and corrupts the frames that leave a port of the virtual switch.
//
// A classifier at the egress of each port, in front of the token bucket. Every choice is a function
// of the seed, the port and the number of the frame on that port, so the same traffic meets the same
// fate. It looks at unicast frames only: the kernel's own multicast chatter must not shift the
// sequence. It does not delay and does not reorder.
//
// The object beside this file is made by
//
//     clang -O2 -g -mcpu=v3 -target bpf -fdebug-compilation-dir=. -c impair.bpf.c -o impair.bpf.o
//     llvm-strip -g impair.bpf.o
//
// in this directory (so that no path of the building machine gets into it). -mcpu=v3 gives the atomic addition
// that returns the former value (Linux 5.12). The kernel's headers are not needed.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

// The first fields of struct __sk_buff, linux/bpf.h; the verifier checks every access.
struct __sk_buff {
    u32 len;
    u32 pkt_type;
    u32 mark;
    u32 queue_mapping;
    u32 protocol;
    u32 vlan_present;
    u32 vlan_tci;
    u32 vlan_proto;
    u32 priority;
    u32 ingress_ifindex;
    u32 ifindex;
};

// Helper numbers, linux/bpf.h.
static void *(*const map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const skb_store_bytes)(struct __sk_buff *skb, u32 offset, const void *from, u32 len,
                                     u64 flags) = (void *)9;
static long (*const clone_redirect)(struct __sk_buff *skb, u32 ifindex, u64 flags) = (void *)13;
static long (*const skb_load_bytes)(const struct __sk_buff *skb, u32 offset, void *to,
                                    u32 len) = (void *)26;

#define BPF_MAP_TYPE_ARRAY 2
#define TC_ACT_UNSPEC (-1)
#define TC_ACT_SHOT 2

// Interface index of port 0: the same number as PORT_INDEX in topology.rs.
#define PORT_INDEX 1000
// 64 nodes, counted from 1.
#define PORTS 65
// Both Ethernet addresses; they are left alone, or a corrupted frame would merely go elsewhere.
#define ADDRESSES 12
// On a copy that was made here, so that it is not judged again. A mark does not survive the way
// into another network namespace, so no node can set it and none sees it.
#define COPY 0x67694745

// Set before loading. Thresholds are probabilities times 2^32.
const volatile u64 seed;
const volatile u64 loss;
const volatile u64 duplicate;
const volatile u64 corrupt;

struct counters {
    u64 seen;
    u64 dropped;
    u64 duplicated;
    u64 corrupted;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, PORTS);
    __type(key, u32);
    __type(value, struct counters);
} impair_ports SEC(".maps");

// SplitMix64's output function: every bit of the result depends on every bit of the argument.
static __attribute__((always_inline)) u64 mix(u64 x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    x ^= x >> 31;
    return x;
}

// One number per seed, port, frame and question.
static __attribute__((always_inline)) u64 draw(u32 port, u64 frame, u32 question)
{
    u64 stream = mix(seed + 0x9e3779b97f4a7c15ULL * (4ULL * port + question + 1));
    return mix(stream + 0x9e3779b97f4a7c15ULL * (frame + 1));
}

static __attribute__((always_inline)) int happens(u64 threshold, u64 number)
{
    return (number >> 32) < threshold;
}

// Flips one of the bits behind the addresses.
static __attribute__((always_inline)) int flip(struct __sk_buff *skb, u64 number)
{
    u32 length = skb->len;
    if (length <= ADDRESSES)
        return 0;
    u32 offset = ADDRESSES + (u32)(number >> 8) % (length - ADDRESSES);
    u8 byte;
    if (skb_load_bytes(skb, offset, &byte, 1))
        return 0;
    byte ^= 1 << (number & 7);
    return skb_store_bytes(skb, offset, &byte, 1, 0) == 0;
}

SEC("classifier")
int impair(struct __sk_buff *skb)
{
    u8 first;
    if (skb->mark == COPY) {
        skb->mark = 0;
        return TC_ACT_UNSPEC;
    }
    // The lowest bit of the first byte tells broadcast and multicast from unicast.
    if (skb_load_bytes(skb, 0, &first, 1) || (first & 1))
        return TC_ACT_UNSPEC;

    u32 port = skb->ifindex - PORT_INDEX;
    struct counters *count = map_lookup_elem(&impair_ports, &port);
    if (!count)
        return TC_ACT_UNSPEC;
    u64 frame = __sync_fetch_and_add(&count->seen, 1);

    if (happens(loss, draw(port, frame, 0))) {
        __sync_fetch_and_add(&count->dropped, 1);
        return TC_ACT_SHOT;
    }
    if (happens(duplicate, draw(port, frame, 1))) {
        skb->mark = COPY;
        if (clone_redirect(skb, skb->ifindex, 0) == 0)
            __sync_fetch_and_add(&count->duplicated, 1);
        skb->mark = 0;
    }
    u64 number = draw(port, frame, 2);
    if (happens(corrupt, number) && flip(skb, draw(port, frame, 3)))
        __sync_fetch_and_add(&count->corrupted, 1);
    return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual MIT/GPL";
