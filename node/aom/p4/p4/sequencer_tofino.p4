// aom sequencer, suite 3, for switches of the Tofino class (architecture TNA).
//
// NEVER COMPILED BY A VENDOR TOOL. It may not fit a chip (stages, containers, hash units). README.md lists
// what was checked: src/lib.rs has the same passes and gives the bytes of the vectors.
//
//   ingress: new request -> number, copy to one loopback port for each subgroup
//            between rounds -> back to the same loopback port
//            after the last round -> tags to wire order, multicast to all receivers
//   egress on loopback ports: load the keys, or one round for four lanes
#include <core.p4>
#include <tna.p4>
#include "aom.p4"

struct ingress_t {
    bit<8> index;
    word_t low;
    word_t high;
}

struct egress_t {}

parser IngressParser(packet_in packet, out headers_t hdr, out ingress_t meta, out ingress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        meta = {0, 0, 0};
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_PASS: parse_pass;
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_pass {
        packet.extract(hdr.pass);
        transition parse_ipv4;
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.fragment, hdr.ipv4.protocol) {
            (4, 5, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }
    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.destination) {
            UDP_PORT: parse_aom;
            default: accept;
        }
    }
    state parse_aom {
        packet.extract(hdr.aom);
        transition accept;
    }
}

control Ingress(
    inout headers_t hdr, inout ingress_t meta, in ingress_intrinsic_metadata_t intrinsic,
    in ingress_intrinsic_metadata_from_parser_t from_parser, inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
    inout ingress_intrinsic_metadata_for_tm_t for_tm
) {
    // The control plane writes one less than the first number before it activates the group (Q5: a new epoch, always 0).
    Register<word_t, bit<8>>(256, 0) lows;
    Register<word_t, bit<8>>(256, 0) highs;
    Register<bit<8>, bit<8>>(256, 0) stops;

    RegisterAction<word_t, bit<8>, word_t>(lows) next_low = {
        void apply(inout word_t low, out word_t result) {
            low = low + 1;
            result = low;
        }
    };
    RegisterAction<word_t, bit<8>, word_t>(highs) read_high = {
        void apply(inout word_t high, out word_t result) {
            result = high;
        }
    };
    RegisterAction<word_t, bit<8>, word_t>(highs) next_high = {
        void apply(inout word_t high, out word_t result) {
            high = high + 1;
            result = high;
        }
    };
    RegisterAction<bit<8>, bit<8>, bit<8>>(stops) read_stop = {
        void apply(inout bit<8> stop, out bit<8> result) {
            result = stop;
        }
    };
    RegisterAction<bit<8>, bit<8>, bit<8>>(stops) set_stop = {
        void apply(inout bit<8> stop, out bit<8> result) {
            stop = 1;
            result = 1;
        }
    };

    action drop() {
        for_deparser.drop_ctl = 1;
    }
    action known(bit<8> index, bit<32> epoch, bit<8> receivers, bit<16> copies, bit<16> deliver) {
        meta.index = index;
        hdr.aom.epoch = epoch;
        hdr.aom.receivers = receivers;
        hdr.pass.setValid();
        hdr.pass.index = index;
        hdr.pass.deliver = deliver;
        for_tm.mcast_grp_a = copies;
    }
    // Active groups only: the control plane removes a group's entry before it changes its epoch.
    table groups {
        key = { hdr.aom.group: exact; }
        actions = { known; drop; }
        default_action = drop();
        size = 256;
    }

    // Ports in loopback mode. Only the switch itself may send unfinished packets.
    table loopback {
        key = { intrinsic.ingress_port: exact; }
        actions = { NoAction; drop; }
        default_action = drop();
        size = 64;
    }

    apply {
        if (!hdr.aom.isValid() || hdr.ipv4.flags[0:0] == 1) {
            drop();
        } else if (hdr.pass.isValid()) {
            loopback.apply();
            if (hdr.pass.number == PASSES) {
                Tags.apply(hdr);
                hdr.ethernet.type = ETHERTYPE_IPV4;
                for_tm.mcast_grp_a = hdr.pass.deliver;
                hdr.pass.setInvalid();
            } else {
                for_tm.ucast_egress_port = intrinsic.ingress_port;
            }
        } else if (hdr.aom.magic != 0xA04D || hdr.aom.version != 1 || hdr.aom.kind != 0 || hdr.aom.reserved != 0
                   || hdr.udp.length < 168 || hdr.udp.length > 8968) {
            drop();
        } else if (groups.apply().hit) {
            meta.low = next_low.execute(meta.index);
            if (meta.low == 0) {
                meta.high = next_high.execute(meta.index);
            } else {
                meta.high = read_high.execute(meta.index);
            }
            bit<8> stop;
            // After 2^64 - 1 the number is 0. The stop register stays set, because the counters go on.
            if (meta.low == 0 && meta.high == 0) {
                stop = set_stop.execute(meta.index);
            } else {
                stop = read_stop.execute(meta.index);
            }
            if (stop == 1) {
                drop();
            }
            hdr.ethernet.type = ETHERTYPE_PASS;
            hdr.pass.number = 0xFF;
            hdr.aom.kind = 1;
            hdr.aom.suite = 3;
            hdr.aom.seq_high = meta.high;
            hdr.aom.seq_low = meta.low;
            hdr.aom.unused = 0;
            hdr.aom.prev_seq = 0;
            hdr.aom.prev_hash = 0;
            hdr.udp.checksum = 0;
        }
    }
}

control IngressDeparser(
    packet_out packet, inout headers_t hdr, in ingress_t meta, in ingress_intrinsic_metadata_for_deparser_t for_deparser
) {
    apply {
        packet.emit(hdr);
    }
}

parser EgressParser(packet_in packet, out headers_t hdr, out egress_t meta, out egress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_PASS: parse_pass;
            default: accept;
        }
    }
    state parse_pass {
        packet.extract(hdr.pass);
        packet.extract(hdr.ipv4);
        packet.extract(hdr.udp);
        packet.extract(hdr.aom);
        transition accept;
    }
}

control Egress(
    inout headers_t hdr, inout egress_t meta, in egress_intrinsic_metadata_t intrinsic,
    in egress_intrinsic_metadata_from_parser_t from_parser, inout egress_intrinsic_metadata_for_deparser_t for_deparser,
    inout egress_intrinsic_metadata_for_output_port_t for_port
) {
    apply {
        if (hdr.pass.isValid()) {
            if (hdr.pass.number == 0xFF) {
                hdr.aom.subgroup = intrinsic.egress_rid[7:0];
                hdr.pass.number = 0;
                Keys.apply(hdr);
            } else {
                Round.apply(hdr);
            }
        }
    }
}

control EgressDeparser(
    packet_out packet, inout headers_t hdr, in egress_t meta, in egress_intrinsic_metadata_for_deparser_t for_deparser
) {
    apply {
        packet.emit(hdr);
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;
Switch(pipe) main;
