/* Stamping of aom/1 with suite 1, for one packet in memory. aom.bpf.c compiles it for the kernel, native.c for tests.
 *
 * The including file defines AOM_LOOKUP(id), which gives a struct aom_group * or NULL. Pointer comparisons come before
 * every access in the form that the kernel's verifier follows. Little-endian machines only.
 */
#ifndef AOM_CORE_H
#define AOM_CORE_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "SipHash reads words as they lie in memory");

#define AOM_HEADER 160
#define AOM_MAX_PAYLOAD 8800
#define AOM_LANES 4

/* Values are shared with src/lib.rs and index the map of counters. */
enum aom_outcome {
    AOM_STAMPED = 0,
    AOM_PASS = 1, /* not aom, or for the control plane */
    AOM_SHORT = 2,
    AOM_LONG = 3,
    AOM_MAGIC = 4,
    AOM_VERSION = 5,
    AOM_KIND = 6,
    AOM_RESERVED = 7,
    AOM_GROUP = 8,
    AOM_INACTIVE = 9,
    AOM_EXHAUSTED = 10,
    AOM_OPTIONS = 11,
    AOM_FRAGMENT = 12,
    AOM_LENGTH = 13,    /* lengths of IP, UDP and frame contradict each other */
    AOM_CONTENDED = 14, /* other processors took the number at each try; no number was used */
    AOM_ADDRESS = 15,   /* not the group's address of requests */
    AOM_OUTCOMES = 16
};

/* One group in one epoch. A new epoch is a new value in the map, so a packet does not mix two epochs. The exception is a run
 * of the program that lasts through two changes of the map: the kernel may reuse the old value for the second one.
 */
struct aom_group {
    u64 next; /* next sequence number; 0 after 2^64 - 1: it never wraps */
    u32 epoch;
    u8 receivers; /* 1 to 4 */
    u8 active;
    u16 max_payload; /* bytes */
    u32 address;     /* IPv4 destination of requests */
    u32 unused;
    u64 keys[AOM_LANES][2]; /* the 16 bytes of each tag key, as they lie in memory */
};

_Static_assert(sizeof(struct aom_group) == 88, "GROUP_BYTES of src/lib.rs");

#define AOM_INLINE static inline __attribute__((always_inline))

#ifdef __bpf__
/* The kernel allows unaligned access to packets on this machine or refuses the program. */
#define AOM_READ64(at) (*(const u64 *)(at))
#define AOM_WRITE64(at, value) (*(u64 *)(at) = (value))
#else
AOM_INLINE u64 aom_read64(const u8 *at)
{
    u64 value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}
#define AOM_READ64(at) aom_read64(at)
#define AOM_WRITE64(at, value)                              \
    do {                                                    \
        u64 value_ = (value);                               \
        __builtin_memcpy((at), &value_, sizeof value_);     \
    } while (0)
#endif

AOM_INLINE u16 aom_be16(const u8 *at)
{
    return (u16)(at[0] << 8 | at[1]);
}

AOM_INLINE u32 aom_be32(const u8 *at)
{
    return (u32)aom_be16(at) << 16 | aom_be16(at + 2);
}

AOM_INLINE void aom_put32(u8 *at, u32 value)
{
    at[0] = value >> 24;
    at[1] = value >> 16;
    at[2] = value >> 8;
    at[3] = value;
}

#define AOM_ROTATE(x, n) ((x) << (n) | (x) >> (64 - (n)))
#define AOM_ROUND              \
    do {                       \
        v0 += v1;              \
        v2 += v3;              \
        v1 = AOM_ROTATE(v1, 13) ^ v0; \
        v3 = AOM_ROTATE(v3, 16) ^ v2; \
        v0 = AOM_ROTATE(v0, 32);      \
        v2 += v1;              \
        v0 += v3;              \
        v1 = AOM_ROTATE(v1, 17) ^ v2; \
        v3 = AOM_ROTATE(v3, 21) ^ v0; \
        v2 = AOM_ROTATE(v2, 32);      \
    } while (0)

/* SipHash-2-4 with 64 bits of output over seven words. */
AOM_INLINE u64 aom_siphash(u64 k0, u64 k1, const u64 words[7])
{
    u64 v0 = k0 ^ 0x736F6D6570736575ULL, v1 = k1 ^ 0x646F72616E646F6DULL;
    u64 v2 = k0 ^ 0x6C7967656E657261ULL, v3 = k1 ^ 0x7465646279746573ULL;
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        u64 word = i < 7 ? words[i] : 56ULL << 56;
        v3 ^= word;
        AOM_ROUND;
        AOM_ROUND;
        v0 ^= word;
    }
    v2 ^= 0xFF;
    AOM_ROUND;
    AOM_ROUND;
    AOM_ROUND;
    AOM_ROUND;
    return v0 ^ v1 ^ v2 ^ v3;
}

/* Takes the next number, or gives 0. */
AOM_INLINE u64 aom_take_number(struct aom_group *group, int *exhausted)
{
    *exhausted = 0;
    /* Not an atomic addition: that would wrap at the end. One group should be steered to one processor anyway. */
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        u64 next = *(volatile u64 *)&group->next;
        if (next == 0) {
            *exhausted = 1;
            return 0;
        }
        if (__sync_val_compare_and_swap(&group->next, next, next + 1) == next)
            return next;
    }
    return 0;
}

/* Checks and stamps a request in place. The caller has checked that the 160 bytes of the header are there. `address` is the
 * destination of the frame, `payload` the size of the payload in bytes.
 */
AOM_INLINE int aom_stamp(u8 *header, u32 address, u32 payload)
{
    if (aom_be16(header) != 0xA04D)
        return AOM_MAGIC;
    if (header[2] != 1)
        return AOM_VERSION;
    if (header[3] == 3)
        return AOM_PASS; /* the start of an epoch */
    if (header[3] != 0)
        return AOM_KIND;
    if (header[15] != 0)
        return AOM_RESERVED;
    u32 id = aom_be32(header + 4);
    struct aom_group *group = AOM_LOOKUP(id);
    if (!group)
        return AOM_GROUP;
    if (!group->active || group->receivers == 0 || group->receivers > AOM_LANES)
        return AOM_INACTIVE;
    if (address != group->address)
        return AOM_ADDRESS;
    if (payload > group->max_payload)
        return AOM_LONG;
    int exhausted;
    u64 seq = aom_take_number(group, &exhausted);
    if (seq == 0)
        return exhausted ? AOM_EXHAUSTED : AOM_CONTENDED;

    header[3] = 1;
    aom_put32(header + 8, group->epoch);
    header[12] = 0;
    header[13] = group->receivers;
    header[14] = 1;
    aom_put32(header + 16, seq >> 32);
    aom_put32(header + 20, (u32)seq);
    u64 words[7];
#pragma GCC unroll 7
    for (int i = 0; i < 7; i++)
        words[i] = AOM_READ64(header + 8 * i);
#pragma GCC unroll 4
    for (int lane = 0; lane < AOM_LANES; lane++) {
        u64 tag = lane < group->receivers ? aom_siphash(group->keys[lane][0], group->keys[lane][1], words) : 0;
        AOM_WRITE64(header + 56 + 8 * lane, tag);
    }
#pragma GCC unroll 9
    for (int i = 11; i < 20; i++)
        AOM_WRITE64(header + 8 * i, 0);
    return AOM_STAMPED;
}

/* Finds an aom request to `port` in an Ethernet frame, stamps it, and addresses it to `packet_port`. Everything else is
 * left as it is.
 */
AOM_INLINE int aom_frame(u8 *data, u8 *end, u16 port, u16 packet_port)
{
    if (data + 14 + 20 > end || aom_be16(data + 12) != 0x0800)
        return AOM_PASS;
    u8 *ip = data + 14;
    u32 ip_header = (ip[0] & 15) * 4;
    u16 fragment = aom_be16(ip + 6);
    if (ip[0] >> 4 != 4 || ip_header < 20 || ip[9] != 17 || (fragment & 0x1FFF))
        return AOM_PASS;
    u8 *udp = ip + ip_header;
    if (udp + 8 > end || aom_be16(udp + 2) != port)
        return AOM_PASS;

    /* The datagram is for this program: from here on it is stamped or dropped. */
    if (ip_header != 20)
        return AOM_OPTIONS;
    if (fragment & 0x2000)
        return AOM_FRAGMENT;
    u32 ip_length = aom_be16(ip + 2), udp_length = aom_be16(udp + 4);
    if (ip_length > (u64)(end - ip) || udp_length + 20 > ip_length)
        return AOM_LENGTH;
    if (udp_length < 8 + AOM_HEADER)
        return AOM_SHORT;
    if (udp_length > 8 + AOM_HEADER + AOM_MAX_PAYLOAD)
        return AOM_LONG;
    if (data + 42 + AOM_HEADER > end)
        return AOM_LENGTH;
    int outcome = aom_stamp(data + 42, aom_be32(ip + 16), udp_length - 8 - AOM_HEADER);
    if (outcome == AOM_STAMPED) {
        udp[2] = packet_port >> 8;
        udp[3] = (u8)packet_port;
        /* The old checksum is wrong now. 0 means "none", which RFC 768 allows for IPv4. */
        data[40] = 0;
        data[41] = 0;
    }
    return outcome;
}

#endif
