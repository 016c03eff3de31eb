/* aom sequencer as an XDP program: stamps requests (suite 1, up to four receivers), and sends them to all ports or to
 * the stack of this host.
 *
 * Maps:
 *   groups    group id -> struct aom_group. The loader replaces the value to begin an epoch.
 *   ports     interfaces that get every stamped frame, all groups alike. The interface of arrival is left out.
 *   outcomes  counters for each processor, by enum aom_outcome
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define AOM_LOOKUP(id) aom_lookup(id)
struct aom_group;
static struct aom_group *aom_lookup(unsigned int id);
#include "aom_core.h"

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 256);
    /* Before Linux 6.1, a value without preallocation is freed only when no processor reads it any more. Since then, and in
     * preallocated maps of any version, the next change of the map may reuse a replaced value at once.
     */
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, u32);
    __type(value, struct aom_group);
} groups SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __uint(max_entries, 128);
    __type(key, u32);
    __type(value, u32);
} ports SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, AOM_OUTCOMES);
    __type(key, u32);
    __type(value, u64);
} outcomes SEC(".maps");

/* Set by the loader: UDP ports of requests and of packets, and whether stamped frames go on to this host's stack. */
const volatile u16 udp_port = 0xA04D;
const volatile u16 packet_port = 0xA04D;
const volatile u8 to_host = 0;

AOM_INLINE struct aom_group *aom_lookup(u32 id)
{
    return bpf_map_lookup_elem(&groups, &id);
}

SEC("xdp")
int aom_sequencer(struct xdp_md *context)
{
    u32 outcome = aom_frame((u8 *)(long)context->data, (u8 *)(long)context->data_end, udp_port, packet_port);
    u64 *count = bpf_map_lookup_elem(&outcomes, &outcome);
    if (count)
        ++*count;
    if (outcome == AOM_PASS)
        return XDP_PASS;
    if (outcome != AOM_STAMPED)
        return XDP_DROP;
    if (to_host)
        return XDP_PASS;
    return bpf_redirect_map(&ports, 0, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS);
}

/* Native mode on veth delivers frames only to peers that have an XDP program. This one leaves all to the kernel. */
SEC("xdp")
int aom_receiver(struct xdp_md *context)
{
    return XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";
