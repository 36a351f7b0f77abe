// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Takes the frames of links out of receive queues; everything else is XDP_PASS. Each queue has a link of
// its own, with a filter of its own.
//
// A frame is taken when it is addressed to this interface itself, carries the EtherType (or is UDP
// to the port, over IPv4 without options and unfragmented, or over IPv6 without extension headers)
// and its channel is in the set; or when it is a Who (PROTOCOL.md 10.2) to all, on any channel. It
// may have a priority tag (PROTOCOL.md 14), which names no VLAN; frames of a VLAN pass. A queue
// without a socket passes its frames too.
//
// The same twice: for frames in one buffer, and (section xdp.frags, Linux 5.18) for interfaces whose
// frames may be in several. The headers are then in the first one; a frame whose first buffer ends
// before the channel passes.
//
// Not done here: no counters (a store per frame would be a cost, and the socket and the interface
// count already), no length, checksum or version check (the receiver does them), no look at who
// sent the frame. A tag that the driver stripped before this program ran is not seen.
//
// Rebuild, in this directory, with clang 14 (the object is compared byte for byte):
//   clang -O2 -g -target bpf -mcpu=v2 -Wall -Werror -fdebug-compilation-dir=. -c steer.bpf.c -o steer.bpf.o && llvm-strip -g steer.bpf.o

// No header is included: the few declarations below are part of the kernel's stable interface
// (linux/bpf.h), and without headers the object does not depend on which ones are installed.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct xdp_md {
	u32 data;
	u32 data_end;
	u32 data_meta;
	u32 ingress_ifindex;
	u32 rx_queue_index;
	u32 egress_ifindex;
};

#define XDP_PASS 2
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_XSKMAP 17
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_redirect_map)(void *map, u64 key, u64 flags) = (void *)51;

#define SEC(name) __attribute__((section(name), used))

// Set by the loader. In network byte order, as in the frame.
volatile const u16 own_mac[3] = {};

// Which frames a queue's link takes. 16-bit values are in network byte order.
struct filter {
	u16 ethertype; // zero: frames are in UDP
	u16 udp_port;
	u32 unused;
	u64 channels[4];
};

// One filter and one socket per receive queue; the loader sets the sizes. Without a socket the filter does
// not matter. Sizes instead of types, for the loader does not describe types to the kernel.
struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*max_entries)[1];
	int (*key_size)[sizeof(u32)];
	int (*value_size)[sizeof(struct filter)];
} filters SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_XSKMAP];
	int (*max_entries)[1];
	u32 *key;
	u32 *value;
} sockets SEC(".maps");

#define ORDER(x) __builtin_bswap16(x)
#define TAG ORDER(0x8100)
#define VLAN ORDER(0x0fff) // of a tag: which VLAN
#define IPV4 ORDER(0x0800)
#define IPV6 ORDER(0x86dd)
#define FRAGMENT ORDER(0x3fff) // "more fragments" and the offset
#define UDP 17

// Where things are in a frame, in bytes from its start.
enum {
	// Those of a frame with a tag are TAG_LENGTH further, but for those of the tag.
	TYPE = 12,
	TAG_CONTROL = 14,
	TAG_LENGTH = 4,
	ETHERNET_END = 14,
	IPV4_FRAGMENT = 20,
	IPV4_PROTOCOL = 23,
	IPV4_PORT = 36,
	IPV4_UDP_END = 42,
	IPV6_NEXT = 20,
	IPV6_PORT = 56,
	IPV6_UDP_END = 62,
	// From the start of the GigaE header, in every version:
	KIND = 4, // and version
	CHANNEL = 5,
};

#define WHO 0x38 // version 3, kind 8

#define HALF(at) (*(u16 *)(frame + (at)))

// Loads a byte here and now. Without this the compiler makes one load with a computed address of those in
// several branches, and such an address is refused to a loader without CAP_PERFMON.
#define BYTE(to, at)                              \
	do {                                      \
		(to) = frame[at];                 \
		asm volatile("" : "+r"(to));      \
	} while (0)

// Reads kind and channel of a frame whose headers are `tag` bytes further than without a tag. Zero if its
// headers are not what the filter takes.
static __attribute__((always_inline)) int headers(u8 *frame, u8 *end, struct filter *filter, u8 *to_kind,
						  u8 *to_channel, const int tag)
{
	u8 kind, channel;

	if (frame + tag + ETHERNET_END + CHANNEL + 1 > end)
		return 0;
	if (filter->ethertype) {
		if (HALF(tag + TYPE) != filter->ethertype)
			return 0;
		BYTE(kind, tag + ETHERNET_END + KIND);
		BYTE(channel, tag + ETHERNET_END + CHANNEL);
	} else if (HALF(tag + TYPE) == IPV4) {
		if (frame + tag + IPV4_UDP_END + CHANNEL + 1 > end)
			return 0;
		if (frame[tag + ETHERNET_END] != 0x45 || HALF(tag + IPV4_FRAGMENT) & FRAGMENT ||
		    frame[tag + IPV4_PROTOCOL] != UDP || HALF(tag + IPV4_PORT) != filter->udp_port)
			return 0;
		BYTE(kind, tag + IPV4_UDP_END + KIND);
		BYTE(channel, tag + IPV4_UDP_END + CHANNEL);
	} else if (HALF(tag + TYPE) == IPV6) {
		if (frame + tag + IPV6_UDP_END + CHANNEL + 1 > end)
			return 0;
		if (frame[tag + IPV6_NEXT] != UDP || HALF(tag + IPV6_PORT) != filter->udp_port)
			return 0;
		BYTE(kind, tag + IPV6_UDP_END + KIND);
		BYTE(channel, tag + IPV6_UDP_END + CHANNEL);
	} else {
		return 0;
	}
	*to_kind = kind;
	*to_channel = channel;
	return 1;
}

static __attribute__((always_inline)) int steer(struct xdp_md *ctx)
{
	u8 *frame = (u8 *)(long)ctx->data;
	u8 *end = (u8 *)(long)ctx->data_end;
	u32 queue = ctx->rx_queue_index;
	struct filter *filter;
	u8 to_all, kind, channel;

	if (frame + ETHERNET_END + CHANNEL + 1 > end)
		return XDP_PASS;
	to_all = (HALF(0) & HALF(2) & HALF(4)) == 0xffff;
	if (!to_all && (HALF(0) != own_mac[0] || HALF(2) != own_mac[1] || HALF(4) != own_mac[2]))
		return XDP_PASS;

	filter = bpf_map_lookup_elem(&filters, &queue);
	if (!filter)
		return XDP_PASS;
	if (!headers(frame, end, filter, &kind, &channel, 0)) {
		if (HALF(TYPE) != TAG || HALF(TAG_CONTROL) & VLAN ||
		    !headers(frame, end, filter, &kind, &channel, TAG_LENGTH))
			return XDP_PASS;
	}
	if (to_all ? kind != WHO : !(filter->channels[channel / 64] >> (channel % 64) & 1))
		return XDP_PASS;
	return bpf_redirect_map(&sockets, queue, XDP_PASS);
}

SEC("xdp")
int gigae_steer(struct xdp_md *ctx)
{
	return steer(ctx);
}

// The name begins with that of the other, by which the loader knows both.
SEC("xdp.frags")
int gigae_steer_sg(struct xdp_md *ctx)
{
	return steer(ctx);
}

// bpf_redirect_map is open to every licence.
char _license[] SEC("license") = "Dual MIT/GPL";
