// aom sequencer, suite 3, for the software switch BMv2 (simple_switch). Function only; its speed means nothing.
//
// run.py defines GROUP_ENTRIES and KEY_ENTRIES_n as constant entries. Without them the control plane fills the tables.
#include <core.p4>
#include <v1model.p4>
#include "aom.p4"

#ifndef GROUP_ENTRIES
#define GROUP_ENTRIES
#endif

// simple_switch's instance_type of a packet that comes back.
const bit<32> RECIRCULATED = 4;

struct metadata_t {
    bit<64> seq;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
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
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags[0:0], hdr.ipv4.fragment, hdr.ipv4.protocol) {
            (4, 5, 0, 0, PROTOCOL_UDP): parse_udp;
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
        // A datagram without a whole header ends the parser with an error: the header stays invalid.
        packet.extract(hdr.aom);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<64>>(256) counters;

    action drop() {
        mark_to_drop(standard);
    }

    // `before_first` is one less than the epoch's first number. `copies` is the multicast group that makes one copy for
    // each subgroup (replication id = subgroup), or 0 for groups of up to four. A new epoch uses a new index.
    action stamp(bit<8> index, bit<32> epoch, bit<8> receivers, bit<64> before_first, bit<16> copies, bit<16> deliver) {
        bit<64> count;
        counters.read(count, (bit<32>)index);
        meta.seq = before_first + count + 1;
        // After 2^64 - 1 comes 0: the counter stays, and everything is dropped.
        if (meta.seq != 0) {
            counters.write((bit<32>)index, count + 1);
        }
        hdr.aom.epoch = epoch;
        hdr.aom.receivers = receivers;
        hdr.pass.index = index;
        hdr.pass.deliver = deliver;
        standard.mcast_grp = copies;
        standard.egress_spec = 1;
    }

    table groups {
        key = { hdr.aom.group: exact; }
        actions = { stamp; drop; }
        default_action = drop();
        size = 256;
        GROUP_ENTRIES
    }

    apply {
        if (!hdr.aom.isValid()) {
            drop();
        } else if (hdr.pass.isValid() && standard.instance_type != RECIRCULATED) {
            // Only the switch itself may send unfinished packets.
            drop();
        } else if (hdr.pass.isValid()) {
            standard.egress_spec = 1;
            if (hdr.pass.number == PASSES) {
                // All rounds are done: to the receivers.
                Tags.apply(hdr);
                hdr.ethernet.type = ETHERTYPE_IPV4;
                standard.mcast_grp = hdr.pass.deliver;
                hdr.pass.setInvalid();
            }
        } else if (hdr.aom.magic != 0xA04D || hdr.aom.version != 1 || hdr.aom.kind != 0 || hdr.aom.reserved != 0
                   || hdr.udp.length < 168 || hdr.udp.length > 8968) {
            drop();
        } else {
            // One packet at a time takes a number.
            @atomic {
                hdr.pass.setValid();
                meta.seq = 0;
                groups.apply();
                if (meta.seq == 0) {
                    drop();
                } else {
                    hdr.ethernet.type = ETHERTYPE_PASS;
                    hdr.pass.number = 0xFF;
                    hdr.aom.kind = 1;
                    hdr.aom.suite = 3;
                    hdr.aom.seq_high = meta.seq[63:32];
                    hdr.aom.seq_low = meta.seq[31:0];
                    hdr.aom.unused = 0;
                    hdr.aom.prev_seq = 0;
                    hdr.aom.prev_hash = 0;
                    hdr.udp.checksum = 0;
                }
            }
        }
    }
}

control Egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (hdr.pass.isValid()) {
            if (hdr.pass.number == 0xFF) {
                // Out of the replicator: which copy is this?
                hdr.aom.subgroup = (bit<8>)standard.egress_rid;
                hdr.pass.number = 0;
                Keys.apply(hdr);
            } else {
                Round.apply(hdr);
            }
            recirculate_preserving_field_list(0);
        }
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(Parse(), Verify(), Ingress(), Egress(), Update(), Deparse()) main;
