// Headers and hash rounds of the aom sequencer for suite 3, shared by sequencer_v1model.p4 and sequencer_tofino.p4.
//
// Only 32-bit additions, XORs and rotations: what a 32-bit switch ASIC has. One round of HalfSipHash for each of four
// lanes in a pass; the state travels in a header between passes. src/lib.rs models the same passes.

typedef bit<32> word_t;

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_PASS = 0x88B5; // IEEE 802, local experimental; only on loopback ports
const bit<8> PROTOCOL_UDP = 17;
const bit<16> UDP_PORT = 0xA04D;

// 14 header words and the length block, two rounds each; four final rounds, and four more for the second half.
const bit<8> PASSES = 38;

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

// Follows Ethernet on loopback ports.
header pass_t {
    bit<8> number; // rounds done; the next round's row of the schedule
    bit<8> index;  // of the group: row of keys
    bit<16> deliver; // multicast group of the receivers
    word_t v0_0; word_t v1_0; word_t v2_0; word_t v3_0;
    word_t v0_1; word_t v1_1; word_t v2_1; word_t v3_1;
    word_t v0_2; word_t v1_2; word_t v2_2; word_t v3_2;
    word_t v0_3; word_t v1_3; word_t v2_3; word_t v3_3;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> length;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

header udp_t {
    bit<16> source;
    bit<16> destination;
    bit<16> length;
    bit<16> checksum;
}

header aom_t {
    bit<16> magic;
    bit<8> version;
    bit<8> kind;
    bit<32> group;
    bit<32> epoch;
    bit<8> subgroup;
    bit<8> receivers;
    bit<8> suite;
    bit<8> reserved;
    word_t seq_high;
    word_t seq_low;
    word_t digest_0; word_t digest_1; word_t digest_2; word_t digest_3;
    word_t digest_4; word_t digest_5; word_t digest_6; word_t digest_7;
    word_t tag_0_first; word_t tag_0_second;
    word_t tag_1_first; word_t tag_1_second;
    word_t tag_2_first; word_t tag_2_second;
    word_t tag_3_first; word_t tag_3_second;
    bit<256> unused;
    bit<64> prev_seq;
    bit<256> prev_hash;
}

struct headers_t {
    ethernet_t ethernet;
    pass_t pass;
    ipv4_t ipv4;
    udp_t udp;
    aom_t aom;
}

// HalfSipHash reads little-endian words, the header is big-endian.
#define SWAP(x) ((x)[7:0] ++ (x)[15:8] ++ (x)[23:16] ++ (x)[31:24])

// A round of lane N in six steps, each one dependent layer of a pipeline. Rotations are concatenations of slices.
#define STEP_1(N) hdr.pass.v0_##N = hdr.pass.v0_##N + hdr.pass.v1_##N; hdr.pass.v2_##N = hdr.pass.v2_##N + hdr.pass.v3_##N;
#define STEP_2(N) hdr.pass.v1_##N = (hdr.pass.v1_##N[26:0] ++ hdr.pass.v1_##N[31:27]) ^ hdr.pass.v0_##N; \
                  hdr.pass.v3_##N = (hdr.pass.v3_##N[23:0] ++ hdr.pass.v3_##N[31:24]) ^ hdr.pass.v2_##N;
#define STEP_3(N) hdr.pass.v0_##N = hdr.pass.v0_##N[15:0] ++ hdr.pass.v0_##N[31:16];
#define STEP_4(N) hdr.pass.v2_##N = hdr.pass.v2_##N + hdr.pass.v1_##N; hdr.pass.v0_##N = hdr.pass.v0_##N + hdr.pass.v3_##N;
#define STEP_5(N) hdr.pass.v1_##N = (hdr.pass.v1_##N[18:0] ++ hdr.pass.v1_##N[31:19]) ^ hdr.pass.v2_##N; \
                  hdr.pass.v3_##N = (hdr.pass.v3_##N[24:0] ++ hdr.pass.v3_##N[31:25]) ^ hdr.pass.v0_##N;
#define STEP_6(N) hdr.pass.v2_##N = hdr.pass.v2_##N[15:0] ++ hdr.pass.v2_##N[31:16];

// Both halves of a block: into v3 before its first round, into v0 after its second.
#define BLOCK(N, WORD) action first_##N() { into_v3 = (WORD); } action second_##N() { into_v0 = (WORD); }
#define LANES(STEP) STEP(0) STEP(1) STEP(2) STEP(3)

// One pass: one round of all lanes. p4c needs the round as small actions; as one block its propagation explodes.
control Round(inout headers_t hdr) {
    word_t into_v3 = 0;
    word_t into_v2 = 0;
    word_t into_v1 = 0;
    word_t into_v0 = 0;

    BLOCK(0, SWAP(hdr.aom.magic ++ hdr.aom.version ++ hdr.aom.kind))
    BLOCK(1, SWAP(hdr.aom.group))
    BLOCK(2, SWAP(hdr.aom.epoch))
    BLOCK(3, SWAP(hdr.aom.subgroup ++ hdr.aom.receivers ++ hdr.aom.suite ++ hdr.aom.reserved))
    BLOCK(4, SWAP(hdr.aom.seq_high))
    BLOCK(5, SWAP(hdr.aom.seq_low))
    BLOCK(6, SWAP(hdr.aom.digest_0))
    BLOCK(7, SWAP(hdr.aom.digest_1))
    BLOCK(8, SWAP(hdr.aom.digest_2))
    BLOCK(9, SWAP(hdr.aom.digest_3))
    BLOCK(10, SWAP(hdr.aom.digest_4))
    BLOCK(11, SWAP(hdr.aom.digest_5))
    BLOCK(12, SWAP(hdr.aom.digest_6))
    BLOCK(13, SWAP(hdr.aom.digest_7))
    BLOCK(14, 32w56 << 24)
    action final_first() { into_v2 = 0xEE; }
    action half_done() { into_v1 = 0xDD; }
    action plain() {}

    table schedule {
        key = { hdr.pass.number: exact; }
        actions = {
            first_0; second_0; first_1; second_1; first_2; second_2; first_3; second_3; first_4; second_4;
            first_5; second_5; first_6; second_6; first_7; second_7; first_8; second_8; first_9; second_9;
            first_10; second_10; first_11; second_11; first_12; second_12; first_13; second_13; first_14; second_14;
            final_first; half_done; plain;
        }
        const default_action = plain();
        const entries = {
            0: first_0(); 1: second_0(); 2: first_1(); 3: second_1(); 4: first_2(); 5: second_2();
            6: first_3(); 7: second_3(); 8: first_4(); 9: second_4(); 10: first_5(); 11: second_5();
            12: first_6(); 13: second_6(); 14: first_7(); 15: second_7(); 16: first_8(); 17: second_8();
            18: first_9(); 19: second_9(); 20: first_10(); 21: second_10(); 22: first_11(); 23: second_11();
            24: first_12(); 25: second_12(); 26: first_13(); 27: second_13(); 28: first_14(); 29: second_14();
            30: final_first(); 33: half_done();
        }
    }

    action before() {
        hdr.pass.v3_0 = hdr.pass.v3_0 ^ into_v3; hdr.pass.v2_0 = hdr.pass.v2_0 ^ into_v2;
        hdr.pass.v3_1 = hdr.pass.v3_1 ^ into_v3; hdr.pass.v2_1 = hdr.pass.v2_1 ^ into_v2;
        hdr.pass.v3_2 = hdr.pass.v3_2 ^ into_v3; hdr.pass.v2_2 = hdr.pass.v2_2 ^ into_v2;
        hdr.pass.v3_3 = hdr.pass.v3_3 ^ into_v3; hdr.pass.v2_3 = hdr.pass.v2_3 ^ into_v2;
    }
    action step_1() { LANES(STEP_1) }
    action step_2() { LANES(STEP_2) }
    action step_3() { LANES(STEP_3) }
    action step_4() { LANES(STEP_4) }
    action step_5() { LANES(STEP_5) }
    action step_6() { LANES(STEP_6) }
    // The first half of a tag is v1 ^ v3 after 34 rounds, before the mark enters v1; the second half after 38.
    action first_tags() {
        hdr.aom.tag_0_first = hdr.pass.v1_0 ^ hdr.pass.v3_0;
        hdr.aom.tag_1_first = hdr.pass.v1_1 ^ hdr.pass.v3_1;
        hdr.aom.tag_2_first = hdr.pass.v1_2 ^ hdr.pass.v3_2;
        hdr.aom.tag_3_first = hdr.pass.v1_3 ^ hdr.pass.v3_3;
    }
    action second_tags() {
        hdr.aom.tag_0_second = hdr.pass.v1_0 ^ hdr.pass.v3_0;
        hdr.aom.tag_1_second = hdr.pass.v1_1 ^ hdr.pass.v3_1;
        hdr.aom.tag_2_second = hdr.pass.v1_2 ^ hdr.pass.v3_2;
        hdr.aom.tag_3_second = hdr.pass.v1_3 ^ hdr.pass.v3_3;
    }
    action after() {
        hdr.pass.v0_0 = hdr.pass.v0_0 ^ into_v0; hdr.pass.v1_0 = hdr.pass.v1_0 ^ into_v1;
        hdr.pass.v0_1 = hdr.pass.v0_1 ^ into_v0; hdr.pass.v1_1 = hdr.pass.v1_1 ^ into_v1;
        hdr.pass.v0_2 = hdr.pass.v0_2 ^ into_v0; hdr.pass.v1_2 = hdr.pass.v1_2 ^ into_v1;
        hdr.pass.v0_3 = hdr.pass.v0_3 ^ into_v0; hdr.pass.v1_3 = hdr.pass.v1_3 ^ into_v1;
    }

    apply {
        schedule.apply();
        before();
        step_1();
        step_2();
        step_3();
        step_4();
        step_5();
        step_6();
        if (hdr.pass.number == 33) {
            first_tags();
        } else if (hdr.pass.number == 37) {
            second_tags();
        }
        after();
        hdr.pass.number = hdr.pass.number + 1;
    }
}

// Initial state from the keys, which the control plane writes as little-endian words.
control Keys(inout headers_t hdr) {
#define LOAD(N)                            \
    action load_##N(word_t k0, word_t k1) { \
        hdr.pass.v0_##N = k0;              \
        hdr.pass.v1_##N = k1 ^ 0xEE;       \
        hdr.pass.v2_##N = k0 ^ 0x6C796765; \
        hdr.pass.v3_##N = k1 ^ 0x74656462; \
    }
    LOAD(0)
    LOAD(1)
    LOAD(2)
    LOAD(3)
    // A table for each lane, because one action with eight words of data would be wider than a 128-bit row.
#define KEYS(N)                                                               \
    table keys_##N {                                                          \
        key = { hdr.pass.index: exact; hdr.aom.subgroup: exact; }             \
        actions = { load_##N; NoAction; }                                     \
        default_action = NoAction();                                          \
        size = 4096;                                                          \
        KEY_ENTRIES_##N                                                       \
    }
#ifndef KEY_ENTRIES_0
#define KEY_ENTRIES_0
#define KEY_ENTRIES_1
#define KEY_ENTRIES_2
#define KEY_ENTRIES_3
#endif
    KEYS(0)
    KEYS(1)
    KEYS(2)
    KEYS(3)
    apply {
        keys_0.apply();
        keys_1.apply();
        keys_2.apply();
        keys_3.apply();
    }
}

// Tags are little-endian words on the wire. Tags of lanes beyond the group's receivers are zero.
control Tags(inout headers_t hdr) {
#define TAG(N)                                                                       \
    action swap_##N() {                                                              \
        hdr.aom.tag_##N##_first = SWAP(hdr.aom.tag_##N##_first);                     \
        hdr.aom.tag_##N##_second = SWAP(hdr.aom.tag_##N##_second);                   \
    }                                                                                \
    action clear_##N() { hdr.aom.tag_##N##_first = 0; hdr.aom.tag_##N##_second = 0; }
    TAG(0)
    TAG(1)
    TAG(2)
    TAG(3)
    apply {
        // Receivers of this subgroup and later ones.
        bit<8> left = hdr.aom.receivers - (hdr.aom.subgroup << 2);
        swap_0();
        if (left > 1) { swap_1(); } else { clear_1(); }
        if (left > 2) { swap_2(); } else { clear_2(); }
        if (left > 3) { swap_3(); } else { clear_3(); }
    }
}
