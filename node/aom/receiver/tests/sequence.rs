//! Sequences of packets and drops under loss, reordering, duplication, forgery, jumps and changes of the epoch.

use corniche_aom_receiver::{Config, ConfirmVote, Delivery, EpochKey, OrderingCertificate, Output, Proof, Receiver, Suspicion};
use corniche_aom_wire::{Request, SigningKey, Stamper, Suite, TagKey, TagScope};
use corniche_types::{Bytes, FaultModel, TimestampMs, ValidatorIndex, Votes, Weights};

const GROUP: u32 = 3;
const REORDER_MS: u64 = 5;

fn tag_key(epoch: u32, receiver: u16) -> TagKey {
    let bytes: Vec<u8> = (0..16).map(|place| place ^ receiver as u8 ^ (epoch as u8) << 4).collect();
    TagKey::from_bytes(TagScope { chain_id: 7, group: GROUP, epoch, receiver, suite: Suite::SipHash64 }, &bytes).unwrap()
}

fn hm(epoch: u32, receivers: u16) -> Stamper {
    Stamper::hm((0..receivers).map(|receiver| tag_key(epoch, receiver)).collect()).unwrap()
}

fn config(receivers: u16, me: u16) -> Config {
    Config {
        chain_id: 7,
        group: GROUP,
        me,
        weights: Weights::one_each(receivers.into(), FaultModel::Byzantine),
        byzantine: false,
        reorder_ms: REORDER_MS,
        reorder_packets: 8,
        max_jump: 100,
        max_buffered: 200,
        max_payload: 64,
    }
}

fn receiver(receivers: u16, me: u16) -> Receiver {
    let mut receiver = Receiver::new(config(receivers, me), 1, 1);
    receiver.install(TimestampMs(0), 1, EpochKey::Hm(tag_key(1, me)));
    receiver
}

fn payload(number: u64) -> Vec<u8> {
    format!("request {number}").into_bytes()
}

fn stamp(stamper: &mut Stamper, payload: &[u8]) -> Vec<Bytes> {
    stamper.stamp(&Request::new(GROUP, payload).unwrap()).unwrap().into_iter().map(Bytes::from).collect()
}

/// Packets 1 to `count`, each as its datagrams.
fn packets(stamper: &mut Stamper, count: u64) -> Vec<Vec<Bytes>> {
    (1..=count).map(|number| stamp(stamper, &payload(number))).collect()
}

fn give(receiver: &mut Receiver, now: u64, datagrams: &[Bytes]) {
    datagrams.iter().for_each(|datagram| receiver.handle(TimestampMs(now), datagram));
}

/// Takes the sequence as far as it is known: the payload's number, or `None` for a drop.
fn sequence(receiver: &mut Receiver) -> Vec<Option<u64>> {
    let mut taken = Vec::new();
    while let Some(delivery) = receiver.peek() {
        taken.push(match delivery {
            Delivery::Packet(packet) => {
                let text = String::from_utf8(packet.payload.to_vec()).unwrap();
                Some(text.trim_start_matches("request ").parse().unwrap())
            }
            Delivery::Dropped => None,
        });
        receiver.advance();
    }
    taken
}

fn suspicions(receiver: &mut Receiver) -> Vec<Suspicion> {
    let mut found = Vec::new();
    while let Some(output) = receiver.poll() {
        if let Output::Suspect(suspicion) = output {
            found.push(suspicion);
        }
    }
    found
}

#[test]
fn packets_come_in_order_whatever_order_they_arrive_in() {
    let packets = packets(&mut hm(1, 4), 4);
    let mut receiver = receiver(4, 2);
    for place in [2, 0, 0, 3, 1, 2] {
        give(&mut receiver, 0, &packets[place]);
    }
    assert_eq!(sequence(&mut receiver), [Some(1), Some(2), Some(3), Some(4)]);
    give(&mut receiver, 0, &packets[1]);
    assert_eq!(sequence(&mut receiver), [], "a repeated packet is not delivered again");
}

#[test]
fn lost_packet_becomes_drop_after_reorder_window() {
    let packets = packets(&mut hm(1, 4), 3);
    let mut receiver = receiver(4, 0);
    give(&mut receiver, 10, &packets[0]);
    give(&mut receiver, 10, &packets[2]);
    assert_eq!(sequence(&mut receiver), [Some(1)], "L5: the packet may still come");
    assert_eq!(receiver.deadline(), Some(TimestampMs(10 + REORDER_MS)));
    receiver.tick(TimestampMs(10 + REORDER_MS - 1));
    assert_eq!(receiver.peek(), None);
    receiver.tick(TimestampMs(10 + REORDER_MS));
    assert_eq!(receiver.peek(), Some(Delivery::Dropped));
    assert_eq!(receiver.dropped(10), [2]);
    assert_eq!(sequence(&mut receiver), [None, Some(3)], "the notification comes before packet 3");
    // L7: a late copy is not delivered, but can be shown to others.
    give(&mut receiver, 20, &packets[1]);
    assert_eq!(sequence(&mut receiver), []);
    assert!(receiver.get(2).is_some() && !receiver.is_dropped(2));
}

#[test]
fn many_later_packets_end_the_wait_early() {
    let packets = packets(&mut hm(1, 4), 20);
    let mut receiver = receiver(4, 0);
    packets[1..9].iter().for_each(|packet| give(&mut receiver, 0, packet));
    assert_eq!(receiver.peek(), None);
    give(&mut receiver, 0, &packets[9]);
    assert_eq!(receiver.peek(), Some(Delivery::Dropped), "8 packets later");
}

#[test]
fn packet_in_time_fills_the_gap() {
    let packets = packets(&mut hm(1, 4), 3);
    let mut receiver = receiver(4, 0);
    give(&mut receiver, 0, &packets[1]);
    give(&mut receiver, 3, &packets[0]);
    receiver.tick(TimestampMs(100));
    assert_eq!(sequence(&mut receiver), [Some(1), Some(2)]);
}

#[test]
fn incomplete_vector_is_not_delivered() {
    let mut stamper = hm(1, 7);
    let packets = packets(&mut stamper, 2);
    assert_eq!(packets[0].len(), 2, "⌈7/4⌉ packets");
    for me in [0, 5] {
        let mut receiver = receiver(7, me);
        // The own tag arrives, the other receivers' tags do not.
        give(&mut receiver, 0, &packets[0][usize::from(me / 4)..=usize::from(me / 4)]);
        give(&mut receiver, 0, &packets[1]);
        assert_eq!(receiver.peek(), None);
        receiver.tick(TimestampMs(REORDER_MS));
        assert_eq!(receiver.peek(), Some(Delivery::Dropped), "L3, pitfall 7");
        give(&mut receiver, 9, &packets[0]);
        assert!(receiver.get(1).is_some());
    }
}

#[test]
fn forged_parts_displace_no_vector() {
    let packets = packets(&mut hm(1, 7), 2);
    let forged = |number: u64| stamp(&mut hm(2, 7), &payload(100 + number))[1].to_vec();
    let forge = |receiver: &mut Receiver, seq: u8, count: u64| {
        for number in 0..count {
            let mut part = forged(number);
            (part[11], part[23]) = (1, seq);
            receiver.handle(TimestampMs(0), &part.into());
        }
    };
    let mut receiver = receiver(7, 0);
    // Parts of the other subgroup before everything, and many more after the own part.
    forge(&mut receiver, 1, 10);
    give(&mut receiver, 0, &packets[0][1..]);
    give(&mut receiver, 0, &packets[0][..1]);
    give(&mut receiver, 0, &packets[1][..1]);
    forge(&mut receiver, 2, 1_000);
    give(&mut receiver, 0, &packets[1][1..]);
    assert_eq!(sequence(&mut receiver), [Some(1), Some(2)]);
}

#[test]
fn changed_packets_are_not_received() {
    let packet = packets(&mut hm(1, 4), 1).remove(0).remove(0);
    let changed = |place: usize| {
        let mut bytes = packet.to_vec();
        bytes[place] ^= 2;
        Bytes::from(bytes)
    };
    let mut receiver = receiver(4, 1);
    // Sequence number, digest, own tag (8 bytes behind that of receiver 0), payload.
    for place in [23, 24, 56 + 8, 160] {
        receiver.handle(TimestampMs(0), &changed(place));
        assert_eq!(receiver.peek(), None, "byte {place}");
    }
    let counters = receiver.counters();
    assert_eq!((counters.forged, counters.wrong_digest), (2, 2));
    receiver.handle(TimestampMs(0), &changed(4));
    receiver.handle(TimestampMs(0), &packet.slice(..100));
    assert_eq!((receiver.counters().other_group, receiver.counters().malformed), (1, 1));
    receiver.handle(TimestampMs(0), &packet);
    assert_eq!(sequence(&mut receiver), [Some(1)], "the right packet still counts");
}

#[test]
fn damaged_tag_of_another_receiver_is_seen_by_that_one_only() {
    let packet = packets(&mut hm(1, 4), 1).remove(0).remove(0);
    let mut bytes = packet.to_vec();
    bytes[56 + 16] ^= 1;
    let damaged = Bytes::from(bytes);
    let [mut first, third] = [receiver(4, 0), receiver(4, 2)];
    first.handle(TimestampMs(0), &damaged);
    let Some(Delivery::Packet(certificate)) = first.peek() else { panic!("its own tag is right") };
    assert!(!third.verify(certificate, |_, _| false), "pitfall 6: this certificate does not convince receiver 2");
    assert!(receiver(4, 3).verify(certificate, |_, _| false));
}

#[test]
fn whole_vector_convinces_every_receiver() {
    let packets = packets(&mut hm(1, 7), 1);
    let mut first = receiver(7, 0);
    give(&mut first, 0, &packets[0]);
    let certificate = first.get(1).unwrap().clone();
    for me in 0..7 {
        let mut other = receiver(7, me);
        assert!(other.verify(&certificate, |_, _| false), "receiver {me}");
        other.insert(TimestampMs(0), certificate.clone());
        assert_eq!(sequence(&mut other), [Some(1)]);
    }
    let mut wrong = certificate.clone();
    wrong.seq = 2;
    assert!(!receiver(7, 3).verify(&wrong, |_, _| true));
    let mut short = certificate.clone();
    let Proof::Hm { vector } = &mut short.proof else { panic!("a vector of tags") };
    vector.pop();
    assert!(!receiver(7, 3).verify(&short, |_, _| true), "pitfall 7: it shows nothing to receivers 4 to 6");
    let mut wrong = certificate;
    wrong.payload = Bytes::from_static(b"another");
    assert!(!receiver(7, 3).verify(&wrong, |_, _| true));
}

#[test]
fn jump_is_a_suspicion_and_no_drops() {
    let mut far = hm(1, 4).continue_after(101, [0; 32]);
    let mut receiver = receiver(4, 0);
    give(&mut receiver, 0, &stamp(&mut far, b"request 102"));
    receiver.tick(TimestampMs(1_000));
    assert_eq!(receiver.peek(), None, "L6");
    assert_eq!(suspicions(&mut receiver), [Suspicion::Jump { seq: 102 }]);
    let mut near = hm(1, 4).continue_after(100, [0; 32]);
    give(&mut receiver, 0, &stamp(&mut near, b"request 101"));
    receiver.tick(TimestampMs(1_000));
    assert_eq!(receiver.dropped(1_000).len(), 100, "exactly G is believed");
}

/// A receiver that waits for confirmations does not advance. Numbers that follow each other are no jump, however many come.
#[test]
fn long_burst_is_no_jump() {
    let mut receiver = byzantine_receivers().remove(0);
    let mut stamper = hm(1, 4);
    (1..=500).for_each(|number| give(&mut receiver, 0, &stamp(&mut stamper, &payload(number))));
    assert_eq!(suspicions(&mut receiver), [], "L6");
    give(&mut receiver, 0, &stamp(&mut stamper.continue_after(601, [0; 32]), b"request 602"));
    assert_eq!(suspicions(&mut receiver), [Suspicion::Jump { seq: 602 }]);
}

#[test]
fn two_packets_of_one_number_are_a_proof_and_the_first_counts() {
    let mut receiver = receiver(4, 0);
    give(&mut receiver, 0, &stamp(&mut hm(1, 4), b"request 1"));
    give(&mut receiver, 0, &stamp(&mut hm(1, 4), b"request 2"));
    assert_eq!(suspicions(&mut receiver), [Suspicion::Equivocation { seq: 1 }]);
    assert_eq!(sequence(&mut receiver), [Some(1)]);
}

#[test]
fn packets_of_the_next_epoch_wait() {
    let (old, new) = (packets(&mut hm(1, 4), 2), packets(&mut hm(2, 4), 2));
    let mut receiver = receiver(4, 0);
    give(&mut receiver, 0, &new[0]);
    give(&mut receiver, 0, &old[0]);
    assert_eq!(sequence(&mut receiver), [Some(1)]);
    // E4: the epoch's start and its key come in any order.
    receiver.start_epoch(TimestampMs(0), 2, 1);
    give(&mut receiver, 0, &new[1]);
    assert_eq!(receiver.peek(), None);
    receiver.install(TimestampMs(0), 2, EpochKey::Hm(tag_key(2, 0)));
    assert_eq!(sequence(&mut receiver), [Some(1), Some(2)]);
    // E5.
    give(&mut receiver, 0, &old[1]);
    assert_eq!((receiver.counters().old_epoch, receiver.peek()), (1, None));
}

#[test]
fn floods_stay_bounded() {
    let mut receiver = receiver(4, 0);
    let mut future = hm(2, 4);
    for number in 0..1_000 {
        give(&mut receiver, 0, &stamp(&mut future, &payload(number)));
    }
    let mut present = hm(1, 4).continue_after(1, [0; 32]);
    for number in 0..1_000 {
        give(&mut receiver, number, &stamp(&mut present, &payload(number)));
    }
    assert!(receiver.footprint() <= 1_000, "{}", receiver.footprint());
}

const MIB: usize = 1 << 20;

/// A receiver for large packets, and many of them.
fn spacious(epoch: u32) -> Receiver {
    let config = Config { max_buffered: 65_536, max_jump: 65_536, max_payload: 8_800, reorder_packets: 65_536, ..config(4, 0) };
    Receiver::new(config, epoch, 1)
}

#[test]
fn datagrams_of_the_next_epoch_are_bounded_in_bytes() {
    let mut receiver = spacious(1);
    let (mut next, mut later) = (hm(2, 4), hm(3, 4));
    for _ in 0..2_000 {
        give(&mut receiver, 0, &stamp(&mut next, &[1; 8_800]));
        give(&mut receiver, 0, &stamp(&mut later, &[1; 8_800]));
    }
    assert!((7 * MIB..=8 * MIB).contains(&receiver.held_bytes()), "{}", receiver.held_bytes());
    assert_eq!(receiver.counters().later_epoch, 2_000, "only the next epoch waits");
    receiver.start_epoch(TimestampMs(0), 2, 1_500);
    receiver.install(TimestampMs(0), 2, EpochKey::Hm(tag_key(2, 0)));
    assert!(receiver.get(2_000).is_some(), "the newest ones are kept");
}

#[test]
fn authentic_packets_are_bounded_in_bytes() {
    let mut receiver = spacious(1);
    receiver.install(TimestampMs(0), 1, EpochKey::Hm(tag_key(1, 0)));
    let mut stamper = hm(1, 4);
    let first = stamp(&mut stamper, &[1; 8_800]);
    for _ in 0..6_000 {
        give(&mut receiver, 0, &stamp(&mut stamper, &[1; 8_800]));
    }
    assert!((31 * MIB..=32 * MIB).contains(&receiver.held_bytes()), "{}", receiver.held_bytes());
    give(&mut receiver, 0, &first);
    assert!(receiver.get(1).is_some(), "the next one has room");
    receiver.set_next(5_000);
    receiver.release(5_000);
    assert_eq!(receiver.held_bytes(), 0);
}

#[test]
fn rollback_shows_packets_again() {
    let packets = packets(&mut hm(1, 4), 5);
    let mut receiver = receiver(4, 0);
    packets.iter().for_each(|packet| give(&mut receiver, 0, packet));
    assert_eq!(sequence(&mut receiver).len(), 5);
    receiver.release(2);
    receiver.set_next(4);
    assert_eq!(sequence(&mut receiver), [Some(4), Some(5)]);
    receiver.set_next(1);
    assert_eq!(sequence(&mut receiver), [Some(3), Some(4), Some(5)], "released numbers are gone");
}

// ---- PK ----------------------------------------------------------------------------------------------------------------

fn signing_key() -> SigningKey {
    SigningKey::from_bytes(Suite::Ed25519, &[9; 32]).unwrap()
}

fn pk_receiver(me: u16) -> Receiver {
    let mut receiver = Receiver::new(config(4, me), 1, 1);
    receiver.install(TimestampMs(0), 1, EpochKey::Pk(signing_key().verifying_key()));
    receiver
}

fn pk(sign_every: u32) -> Stamper {
    Stamper::pk(7, GROUP, 1, signing_key(), sign_every).unwrap()
}

#[test]
fn unsigned_packets_wait_for_the_next_signature() {
    let packets = packets(&mut pk(4), 9);
    let mut receiver = pk_receiver(0);
    let mut delivered = Vec::new();
    for packet in &packets {
        give(&mut receiver, 0, packet);
        delivered.push(sequence(&mut receiver).len());
    }
    assert_eq!(delivered.iter().sum::<usize>(), 9, "{delivered:?}");
    assert_eq!(delivered[0], 1, "the first packet is signed");
    assert!(delivered.contains(&4), "three unsigned packets and the signed one: {delivered:?}");
    let other = pk_receiver(3);
    for seq in 1..=9 {
        let certificate = receiver.get(seq).unwrap();
        assert!(other.verify(certificate, |_, _| false), "certificate {seq}");
        let mut wrong = certificate.clone();
        wrong.payload = Bytes::from_static(b"another");
        assert!(!other.verify(&wrong, |_, _| false));
    }
}

#[test]
fn chain_across_a_loss_is_not_believed() {
    let packets = packets(&mut pk(4), 5);
    let mut receiver = pk_receiver(0);
    // 2, 3 and 4 are unsigned; 3 is lost.
    [0, 1, 3, 4].iter().for_each(|place| give(&mut receiver, 0, &packets[*place]));
    receiver.tick(TimestampMs(REORDER_MS));
    assert_eq!(receiver.dropped(10), [2, 3], "pitfall 10: packet 2 counts as not received");
    assert!(receiver.get(4).is_some());
    // The others' certificate is checked alone.
    let mut complete = pk_receiver(1);
    packets.iter().for_each(|packet| give(&mut complete, 0, packet));
    let certificate = complete.get(3).unwrap().clone();
    assert!(receiver.verify(&certificate, |_, _| false));
    receiver.insert(TimestampMs(9), certificate);
    assert_eq!(receiver.dropped(10), [2]);
}

/// The sequencer's coprocessor lost a packet: `prev_seq` names the one before it.
#[test]
fn chain_skips_a_number_that_nobody_has() {
    let mut stamper = pk(4);
    let mut packets = packets(&mut stamper, 2);
    assert_eq!(stamper.lose(), Ok(3));
    packets.extend((4..=6).map(|number| stamp(&mut stamper, &payload(number))));
    let mut receiver = pk_receiver(0);
    packets.iter().for_each(|packet| give(&mut receiver, 0, packet));
    receiver.tick(TimestampMs(REORDER_MS));
    assert_eq!(sequence(&mut receiver), [Some(1), Some(2), None, Some(4), Some(5), Some(6)], "pitfall 10");
    let other = pk_receiver(1);
    assert!([1, 2, 4, 5, 6].iter().all(|seq| other.verify(receiver.get(*seq).unwrap(), |_, _| false)));
}

#[test]
fn chain_of_another_network_is_not_received() {
    let foreign = Config { chain_id: 8, ..config(4, 0) };
    let packet = stamp(&mut Stamper::pk(8, GROUP, 1, signing_key(), 4).unwrap(), b"request 1");
    let mut other = Receiver::new(foreign, 1, 1);
    other.install(TimestampMs(0), 1, EpochKey::Pk(signing_key().verifying_key()));
    give(&mut other, 0, &packet);
    let mut receiver = pk_receiver(0);
    give(&mut receiver, 0, &packet);
    assert_eq!((receiver.counters().forged, receiver.peek()), (1, None), "pitfall 8: the keys are equal");
    assert!(!receiver.verify(other.get(1).unwrap(), |_, _| true));
}

#[test]
fn forged_unsigned_packet_does_not_displace_the_right_one() {
    let packets = packets(&mut pk(4), 5);
    let forged = stamp(&mut pk(4).continue_after(1, [1; 32]), b"request 7");
    let mut receiver = pk_receiver(0);
    give(&mut receiver, 0, &packets[0]);
    give(&mut receiver, 0, &forged);
    packets[1..].iter().for_each(|packet| give(&mut receiver, 0, packet));
    assert_eq!(sequence(&mut receiver), [Some(1), Some(2), Some(3), Some(4), Some(5)]);
}

#[test]
fn oversized_payload_is_not_received() {
    let large = [7; 65];
    let mut stamper = hm(1, 4);
    let packets = [stamp(&mut stamper, &large[1..]), stamp(&mut stamper, &large), stamp(&mut stamper, b"request 3")];
    let mut receiver = receiver(4, 0);
    packets.iter().for_each(|packet| give(&mut receiver, 0, packet));
    receiver.tick(TimestampMs(REORDER_MS));
    assert!(receiver.get(1).is_some(), "exactly the maximum");
    assert_eq!((receiver.dropped(10), receiver.counters().oversized), (vec![2], 1));
    // A certificate is judged alike.
    let mut lenient = Receiver::new(Config { max_payload: 65, ..config(4, 1) }, 1, 1);
    lenient.install(TimestampMs(0), 1, EpochKey::Hm(tag_key(1, 1)));
    give(&mut lenient, 0, &packets[1]);
    let certificate = lenient.get(2).unwrap();
    assert!(lenient.verify(certificate, |_, _| false) && !receiver.verify(certificate, |_, _| true));
}

#[test]
fn many_forged_unsigned_packets_displace_nothing() {
    let packets = packets(&mut pk(4), 5);
    let mut receiver = pk_receiver(0);
    give(&mut receiver, 0, &packets[0]);
    for seq in 1..4 {
        for variant in 0..10 {
            let mut forger = pk(4).continue_after(seq, [variant; 32]);
            give(&mut receiver, 0, &stamp(&mut forger, b"request 7"));
        }
    }
    packets[1..].iter().for_each(|packet| give(&mut receiver, 0, packet));
    assert_eq!(sequence(&mut receiver), [Some(1), Some(2), Some(3), Some(4), Some(5)]);
}

#[test]
fn unsigned_packets_are_bounded_in_bytes() {
    let mut receiver = spacious(1);
    receiver.install(TimestampMs(0), 1, EpochKey::Pk(signing_key().verifying_key()));
    let mut real = pk(4);
    give(&mut receiver, 0, &stamp(&mut real, b"request 1"));
    // Forged packets for higher numbers give way to the next ones.
    let mut forger = pk(u32::MAX).continue_after(5, [1; 32]);
    for _ in 0..2_000 {
        give(&mut receiver, 0, &stamp(&mut forger, &[1; 8_800]));
    }
    assert!((7 * MIB..=8 * MIB).contains(&receiver.held_bytes()), "{}", receiver.held_bytes());
    for _ in 0..4 {
        give(&mut receiver, 0, &stamp(&mut real, &[2; 8_800]));
    }
    assert!((1..=5).all(|seq| receiver.get(seq).is_some()));
    assert!(receiver.held_bytes() <= 9 * MIB);
}

#[test]
fn oversized_payload_does_not_break_the_chain() {
    let large = [7; 65];
    for place in [2, 4] {
        // Packets 1 and 5 are signed.
        let mut stamper = pk(4);
        let packets: Vec<_> = (0..5).map(|at| stamp(&mut stamper, if at == place { &large } else { b"request 1" })).collect();
        let mut receiver = pk_receiver(0);
        packets.iter().for_each(|packet| give(&mut receiver, 0, packet));
        receiver.tick(TimestampMs(REORDER_MS));
        let missing: Vec<u64> = (1..=5).filter(|seq| receiver.get(*seq).is_none()).collect();
        assert_eq!(missing, [place + 1]);
        let other = pk_receiver(1);
        assert!((1..=5).filter_map(|seq| receiver.get(seq)).all(|certificate| other.verify(certificate, |_, _| false)));
    }
}

// ---- Byzantine network ---------------------------------------------------------------------------------------------------

fn byzantine_receivers() -> Vec<Receiver> {
    let receiver = |me| {
        let mut receiver = Receiver::new(Config { byzantine: true, ..config(4, me) }, 1, 1);
        receiver.install(TimestampMs(0), 1, EpochKey::Hm(tag_key(1, me)));
        receiver
    };
    (0..4).map(receiver).collect()
}

/// Signs and takes the CONFIRMs that a receiver wants to send.
fn confirms(receiver: &mut Receiver, member: u16) -> Vec<ConfirmVote> {
    let mut votes = Vec::new();
    while let Some(output) = receiver.poll() {
        if let Output::Confirm { from, digests, .. } = output {
            votes.push(ConfirmVote { member: ValidatorIndex(member), from, digests, signature: [member as u8; 64] });
        }
    }
    votes
}

#[test]
fn packet_needs_a_quorum_of_confirms() {
    let packets = packets(&mut hm(1, 4), 3);
    let mut receivers = byzantine_receivers();
    let mut votes = Vec::new();
    for (member, receiver) in (0..).zip(&mut receivers) {
        packets.iter().for_each(|packet| give(receiver, 0, packet));
        votes.extend(confirms(receiver, member));
    }
    assert_eq!(votes.len(), 4, "one CONFIRM covers all packets since the last one");
    let receiver = &mut receivers[0];
    receiver.handle_confirm(TimestampMs(0), 1, &votes[0]);
    receiver.handle_confirm(TimestampMs(0), 1, &votes[1]);
    receiver.handle_confirm(TimestampMs(0), 1, &votes[1]);
    assert_eq!(receiver.peek(), None, "two of four, however often they vote");
    receiver.handle_confirm(TimestampMs(0), 2, &votes[2]);
    assert_eq!(receiver.peek(), None, "a vote of another epoch");
    receiver.handle_confirm(TimestampMs(0), 1, &votes[3]);
    let certificate = receiver.get(1).unwrap().clone();
    assert_eq!(sequence(receiver), [Some(1), Some(2), Some(3)]);
    let is_signed = |_: u32, vote: &ConfirmVote| vote.signature == [vote.member.0 as u8; 64];
    assert!(receivers[2].verify(&certificate, is_signed));
    assert!(!receivers[2].verify(&certificate, |_, _| false));
    let mut short = certificate.clone();
    short.confirms.pop();
    assert!(!receivers[2].verify(&short, is_signed));
    let mut doubled = certificate;
    doubled.confirms[0] = doubled.confirms[1].clone();
    assert!(!receivers[2].verify(&doubled, is_signed));
}

#[test]
fn confirms_are_weighed() {
    // W = 9, Q = 7.
    let weights = Weights::new([1, 1, 3, 4].map(Votes), FaultModel::Byzantine);
    let weighted = |me| {
        let mut receiver = Receiver::new(Config { byzantine: true, weights: weights.clone(), ..config(4, me) }, 1, 1);
        receiver.install(TimestampMs(0), 1, EpochKey::Hm(tag_key(1, me)));
        receiver
    };
    let packet = packets(&mut hm(1, 4), 1).remove(0);
    let votes: Vec<_> = (0..4)
        .flat_map(|me| {
            let mut receiver = weighted(me);
            give(&mut receiver, 0, &packet);
            confirms(&mut receiver, me)
        })
        .collect();
    let mut receiver = weighted(0);
    give(&mut receiver, 0, &packet);
    votes[..3].iter().for_each(|vote| receiver.handle_confirm(TimestampMs(0), 1, vote));
    assert_eq!(receiver.peek(), None, "three members with five votes");
    receiver.handle_confirm(TimestampMs(0), 1, &votes[3]);
    let certificate = receiver.get(1).unwrap().clone();
    let of = |voters: &[usize]| {
        let confirms = voters.iter().map(|place| votes[*place].clone()).collect();
        weighted(2).verify(&OrderingCertificate { confirms, ..certificate.clone() }, |_, _| true)
    };
    assert!(!of(&[0, 1, 2]) && of(&[2, 3]));
}

#[test]
fn equivocation_delivers_at_most_one_packet() {
    let (one, two) = (stamp(&mut hm(1, 4), b"request 1"), stamp(&mut hm(1, 4), b"request 2"));
    let next = stamp(&mut hm(1, 4).continue_after(1, [0; 32]), b"request 3");
    let mut receivers = byzantine_receivers();
    let mut votes = Vec::new();
    for (member, receiver) in (0..).zip(&mut receivers) {
        give(receiver, 0, if member < 2 { &one } else { &two });
        give(receiver, 0, &next);
        votes.extend(confirms(receiver, member));
    }
    for receiver in &mut receivers {
        votes.iter().for_each(|vote| receiver.handle_confirm(TimestampMs(1), 1, vote));
        receiver.tick(TimestampMs(1 + REORDER_MS));
        // Pitfall 18: nobody has a quorum, so the number is dropped when a later one is confirmed.
        assert_eq!(sequence(receiver), [None, Some(3)]);
    }
    let receiver = &mut receivers[0];
    give(receiver, 0, &two);
    assert_eq!(suspicions(receiver), [Suspicion::Equivocation { seq: 1 }]);
}

#[test]
fn restored_confirm_is_never_contradicted() {
    let (one, two) = (stamp(&mut hm(1, 4), b"request 1"), stamp(&mut hm(1, 4), b"request 2"));
    let mut receivers = byzantine_receivers();
    give(&mut receivers[0], 0, &one);
    let vote = confirms(&mut receivers[0], 0).remove(0);
    let mut restarted = byzantine_receivers().remove(0);
    restarted.restore_confirm(1, &vote);
    give(&mut restarted, 0, &two);
    assert_eq!(confirms(&mut restarted, 0), [], "pitfall 16");
    assert_eq!(restarted.stuck_confirm(), Some(&vote), "it can be sent again");
}
