//! The daemon and receivers on loopback sockets.

use crate::common::{GROUP, NEVER_US, World, epoch_start, stop};
use corniche_aom_sequencer::{BackEnd, DropReason};
use corniche_aom_wire::{EpochStart, HEADER_BYTES, Header, MAX_PAYLOAD_BYTES, Suite, encode_request};

const SUITES: [Suite; 4] = [Suite::SipHash64, Suite::SipHash128, Suite::Ecdsa, Suite::Ed25519];

/// T4: four receivers, identical order, no gap.
#[test]
fn unicast_delivers_one_order() {
    for suite in SUITES {
        check_order(&World::unicast(suite, 4));
    }
}

#[test]
fn multicast_delivers_one_order() {
    for suite in SUITES {
        match World::new(BackEnd::Multicast, suite, 4) {
            Ok(world) => check_order(&world),
            Err(error) => {
                eprintln!(
                    "SKIPPED multicast_delivers_one_order: the system refuses multicast on the loopback interface: {error}"
                );
                return;
            }
        }
    }
}

#[test]
fn gso_delivers_one_order() {
    // Five receivers have two packets in each vector, so that suites with tags send segments even for single requests.
    for (suite, n) in SUITES.into_iter().zip([4, 5, 4, 4]) {
        check_order(&World::new(BackEnd::Gso, suite, n).unwrap());
    }
}

/// Sends requests in windows that fit the receivers' buffers.
fn check_order(world: &World) {
    const WINDOWS: usize = 8;
    const WINDOW: usize = 16;
    let sequencer = world.start().unwrap();
    let (suite, packets) = (world.suite, world.packets());
    let mut orders: Vec<Vec<(Header, Vec<u8>)>> = vec![Vec::new(); world.receivers.len()];
    world.send(&sequencer, &epoch_start(world.epoch));
    for (receiver, order) in (0..).zip(&mut orders) {
        // The heartbeat at the beginning.
        order.extend((0..packets).map(|_| world.receive(receiver)));
    }
    for window in 0..WINDOWS {
        for number in 0..WINDOW {
            // Both sizes occur in one batch.
            world.request(
                &sequencer,
                format!("request {:>width$}", window * WINDOW + number, width = 3 + number % 3 / 2).as_bytes(),
            );
        }
        for (receiver, order) in (0..).zip(&mut orders) {
            for _ in 0..WINDOW * usize::from(packets) {
                order.push(world.receive(receiver));
            }
        }
    }
    for order in &orders {
        assert_eq!(order, &orders[0], "all receivers see one order");
        let seqs: Vec<_> = order.iter().map(|(header, _)| (header.seq, u16::from(header.subgroup))).collect();
        let expected: Vec<_> =
            (1..=(WINDOWS * WINDOW) as u64 + 1).flat_map(|seq| (0..packets).map(move |i| (seq, i))).collect();
        assert_eq!(seqs, expected, "no gap");
        world.check_chain(order.iter().map(|(header, _)| header));
    }
    assert_eq!(sequencer.metrics().send_errors(GROUP), 0);
    if sequencer.metrics().gso_fallbacks(GROUP) > 0 {
        eprintln!("SKIPPED segments of {suite}: the system refuses UDP_SEGMENT; packets were sent one by one");
    }
    stop(sequencer);
}

/// Bad datagrams are counted and use no number.
#[test]
fn bad_datagrams_are_dropped() {
    let world = World::unicast(Suite::SipHash64, 1);
    let sequencer = world.serve();
    let good = encode_request(GROUP, b"transfer").unwrap();
    let changed = |offset: usize, byte: u8| {
        let mut datagram = good.clone();
        datagram[offset] = byte;
        datagram
    };
    let start = epoch_start(1);
    let other_group = EpochStart { group: GROUP + 1, epoch: 1, certificate: b"" }.encode().unwrap();
    let too_long = [&good[..HEADER_BYTES], &vec![0; MAX_PAYLOAD_BYTES + 1]].concat();
    let bad = [
        (DropReason::Short, vec![]),
        (DropReason::Short, good[..HEADER_BYTES - 1].to_vec()),
        (DropReason::Long, too_long.clone()),
        (DropReason::Long, [too_long, vec![0; 20_000]].concat()),
        (DropReason::Magic, changed(0, 0)),
        (DropReason::Version, changed(2, 2)),
        // A forged packet, stamped by nobody or by another sequencer.
        (DropReason::Kind, changed(3, 1)),
        (DropReason::Kind, changed(3, 2)),
        (DropReason::Kind, changed(3, 4)),
        (DropReason::Reserved, changed(15, 1)),
        (DropReason::Group, encode_request(GROUP + 1, b"transfer").unwrap()),
        // Cut payload, and other payload.
        (DropReason::Digest, good[..good.len() - 1].to_vec()),
        (DropReason::Digest, changed(HEADER_BYTES, 0)),
        // Starts of epochs: cut in the header, cut later, changed, too long.
        (DropReason::Short, start[..HEADER_BYTES - 1].to_vec()),
        (DropReason::Reserved, start[..start.len() - 1].to_vec()),
        (DropReason::Reserved, [&start[..16], &[1], &start[17..]].concat()),
        (DropReason::Long, [&start[..], &vec![0; MAX_PAYLOAD_BYTES]].concat()),
        (DropReason::Group, other_group),
        // Without a certificate.
        (DropReason::Certificate, EpochStart { group: GROUP, epoch: 1, certificate: b"" }.encode().unwrap()),
    ];
    for (_, datagram) in &bad {
        world.send(&sequencer, datagram);
    }
    world.send(&sequencer, &good);
    let (header, payload) = world.receive(0);
    assert_eq!((header.seq, &payload[..]), (2, &b"transfer"[..]));
    for reason in DropReason::ALL {
        let expected = bad.iter().filter(|(expected, _)| *expected == reason).count() as u64;
        assert_eq!(sequencer.metrics().dropped(reason), expected, "{reason:?}");
    }
    assert_eq!(sequencer.metrics().received(), bad.len() as u64 + 2);
    stop(sequencer);
}

#[test]
fn every_kth_packet_is_signed() {
    for suite in [Suite::Ecdsa, Suite::Ed25519] {
        let mut world = World::unicast(suite, 1);
        world.config.sign_every = 3;
        let sequencer = world.start().unwrap();
        world.send(&sequencer, &epoch_start(0));
        let mut headers = vec![world.receive(0).0];
        for number in 0..8 {
            world.request(&sequencer, &[number]);
            headers.push(world.receive(0).0);
        }
        let signed: Vec<_> = headers.iter().filter(|header| header.is_signed()).map(|header| header.seq).collect();
        assert_eq!(signed, [1, 4, 7]);
        world.check_chain(headers.iter());
        stop(sequencer);
    }
}

/// After the last request, three heartbeats reveal a lost tail. A fourth one would shift the number of the next request. At the
/// beginning of an epoch there are three too.
#[test]
fn heartbeats_follow_last_request() {
    for suite in [Suite::SipHash64, Suite::Ed25519] {
        let mut world = World::unicast(suite, 1);
        (world.config.sign_after_us, world.config.heartbeat_after_us) = (100, 1000);
        let sequencer = world.serve();
        for seq in 2..=3 {
            let (header, payload) = world.receive(0);
            assert_eq!((header.seq, payload.len()), (seq, 0));
        }
        for round in 0..3 {
            world.request(&sequencer, b"request");
            for (seq, expected) in (round * 4 + 4..).zip([&b"request"[..], b"", b"", b""]) {
                let (header, payload) = world.receive(0);
                assert_eq!((header.seq, &payload[..]), (seq, expected));
                assert_eq!(header.is_signed(), suite == Suite::Ed25519 && payload.is_empty());
            }
        }
        stop(sequencer);
    }
}

/// A signature that is due makes the first heartbeat early.
#[test]
fn unsigned_tail_is_signed_by_heartbeat() {
    let mut world = World::unicast(Suite::Ecdsa, 1);
    (world.config.sign_after_us, world.config.heartbeat_after_us) = (100, NEVER_US);
    let sequencer = world.serve();
    for seq in [2, 4] {
        world.request(&sequencer, b"unsigned");
        let [unsigned, heartbeat] = [world.receive(0), world.receive(0)];
        assert_eq!((unsigned.0.seq, unsigned.0.is_signed()), (seq, false));
        assert_eq!((heartbeat.0.seq, heartbeat.0.is_signed(), heartbeat.1.len()), (seq + 1, true, 0));
    }
    stop(sequencer);
}

/// A receiver without a socket affects nobody else.
#[test]
fn closed_receiver_affects_no_other() {
    let mut world = World::unicast(Suite::SipHash64, 2);
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    world.destinations[0] = closed;
    let sequencer = world.start().unwrap();
    world.send(&sequencer, &epoch_start(0));
    assert_eq!(world.receive(1).0.seq, 1);
    for seq in 2..20 {
        world.request(&sequencer, b"request");
        assert_eq!(world.receive(1).0.seq, seq);
    }
    stop(sequencer);
}

/// Requests before the first epoch are counted and use no number.
#[test]
fn requests_are_dropped_in_standby() {
    for suite in SUITES {
        let world = World::unicast(suite, 1);
        let sequencer = world.start().unwrap();
        for _ in 0..3 {
            world.request(&sequencer, b"too early");
        }
        world.begin(&sequencer);
        assert_eq!(sequencer.metrics().dropped(DropReason::Standby), 3);
        world.request(&sequencer, b"request");
        let (header, payload) = world.receive(0);
        assert_eq!((header.seq, &payload[..]), (2, &b"request"[..]));
        stop(sequencer);
    }
}
