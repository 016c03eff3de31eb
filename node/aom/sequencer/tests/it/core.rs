//! The deciding part in virtual time.

use crate::common::{self, certificate};
use corniche_aom_sequencer::{Core, DropReason, Group, GroupEpoch, Handled, Outbox, Run, Timing};
use corniche_aom_wire::{EpochStart, Packet, SigningKey, Stamped, Stamper, Suite, encode_request};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

const TIMING: Timing = Timing { sign_after: Duration::from_micros(100), heartbeat_after: Duration::from_micros(1000) };

fn at(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn hm(group: u32, receivers: u16) -> Group {
    Group { group, ..common::group(Suite::SipHash64, receivers, vec!["127.0.0.1:1".parse().unwrap()]) }
}

fn pk(group: u32) -> Group {
    Group { group, ..common::group(Suite::Ed25519, 1, vec!["127.0.0.1:1".parse().unwrap()]) }
}

/// A core with groups that are on standby.
fn standby(groups: impl IntoIterator<Item = Group>) -> Core {
    let mut core = Core::new(TIMING, 32);
    for group in groups {
        core.add(group, None).unwrap();
    }
    core
}

/// A core with groups in epoch 0, without the heartbeat that begins it.
fn core(groups: impl IntoIterator<Item = Group>) -> Core {
    let mut core = Core::new(TIMING, 32);
    for group in groups {
        let epoch = GroupEpoch { chain_id: group.chain_id, group: group.group, epoch: 0 };
        core.add(group, None).unwrap();
        core.begin(epoch);
    }
    core
}

/// Stamps a request.
fn request(core: &mut Core, now: u64, group: u32, payload: &[u8], out: &mut Outbox) -> Result<Stamped, DropReason> {
    match core.handle(at(now), &encode_request(group, payload).unwrap(), out)? {
        Handled::Request(found, stamped) if found == group => Ok(stamped),
        other => panic!("expected a request, got {other:?}"),
    }
}

/// Asks group 7 for an epoch. The outbox must remain empty.
fn ask(core: &mut Core, now: u64, epoch: u32, certificate: &[u8]) -> Result<Handled, DropReason> {
    let mut out = Outbox::default();
    let datagram = EpochStart { group: 7, epoch, certificate }.encode().unwrap();
    let result = core.handle(at(now), &datagram, &mut out);
    assert_eq!(out, Outbox::default());
    result
}

fn start(epoch: u32) -> GroupEpoch {
    GroupEpoch { chain_id: common::CHAIN_ID, group: 7, epoch }
}

/// Runs heartbeats until none is due, and returns their groups, numbers and times in microseconds.
fn heartbeats(core: &mut Core) -> Vec<(u32, u64, u64)> {
    let (mut made, mut out) = (Vec::new(), Outbox::default());
    while let Some(deadline) = core.deadline() {
        assert!(made.len() < 100, "heartbeats have an end");
        let before = made.len();
        core.tick(deadline - at(1), &mut out, |group, _| panic!("group {group}: early"));
        core.tick(deadline, &mut out, |group, stamped| made.push((group, stamped.seq, deadline.as_micros() as u64)));
        assert!(made.len() > before, "a deadline makes a heartbeat");
    }
    made
}

#[test]
fn quiet_group_gets_three_heartbeats() {
    let mut core = core([hm(7, 4)]);
    assert_eq!(core.deadline(), None, "nothing to reveal before the first request");
    let mut out = Outbox::default();
    request(&mut core, 5, 7, b"x", &mut out).unwrap();
    assert_eq!(heartbeats(&mut core), [(7, 2, 1005), (7, 3, 2005), (7, 4, 3005)]);
    // A request starts the count again; one between heartbeats too.
    request(&mut core, 9000, 7, b"x", &mut out).unwrap();
    core.tick(at(10_000), &mut out, |_, _| {});
    request(&mut core, 10_500, 7, b"x", &mut out).unwrap();
    assert_eq!(heartbeats(&mut core), [(7, 8, 11_500), (7, 9, 12_500), (7, 10, 13_500)]);
}

/// The signed heartbeat counts among the three.
#[test]
fn unsigned_tail_gets_early_heartbeat() {
    let mut core = core([pk(7)]);
    let mut out = Outbox::default();
    request(&mut core, 0, 7, b"first", &mut out).unwrap();
    assert_eq!(core.deadline(), Some(at(1000)), "the first packet is signed");
    request(&mut core, 10, 7, b"second", &mut out).unwrap();
    assert_eq!(heartbeats(&mut core), [(7, 3, 110), (7, 4, 1110), (7, 5, 2110)]);
}

#[test]
fn groups_have_timers_of_their_own() {
    let mut core = core([hm(7, 4), pk(9)]);
    let mut out = Outbox::default();
    request(&mut core, 0, 7, b"x", &mut out).unwrap();
    request(&mut core, 500, 9, b"x", &mut out).unwrap();
    let expected = [(7, 2, 1000), (9, 2, 1500), (7, 3, 2000), (9, 3, 2500), (7, 4, 3000), (9, 4, 3500)];
    assert_eq!(heartbeats(&mut core), expected);
}

#[test]
fn exhausted_epoch_is_silent() {
    for group in [hm(7, 4), pk(7)] {
        let mut core = core([group]);
        let other = Stamper::pk(1, 7, 0, SigningKey::from_bytes(Suite::Ed25519, &[1; 32]).unwrap(), 32).unwrap();
        let stamper = core.stamper(7).unwrap();
        *stamper = std::mem::replace(stamper, other).continue_after(u64::MAX - 1, [0; 32]);
        let mut out = Outbox::default();
        assert_eq!(request(&mut core, 0, 7, b"x", &mut out).unwrap().seq, u64::MAX);
        assert_eq!(heartbeat_count(&mut core), 0);
        assert_eq!(request(&mut core, 9, 7, b"x", &mut out), Err(DropReason::Exhausted));
        assert_eq!(core.deadline(), None);
        assert_eq!(ask(&mut core, 9, 0, b""), Ok(Handled::Repeat(7)));
        assert_eq!(core.heartbeat(at(9), 7, &mut out), None, "not even a heartbeat is left");
        assert_eq!(ask(&mut core, 9, 1, &certificate(1)), Ok(Handled::Start(start(1))), "the next epoch has numbers");
    }
}

fn heartbeat_count(core: &mut Core) -> usize {
    let (mut count, mut out) = (0, Outbox::default());
    while let Some(deadline) = core.deadline() {
        core.tick(deadline, &mut out, |_, _| count += 1);
    }
    count
}

#[test]
fn outbox_joins_packets_of_one_size() {
    let mut core = core([hm(7, 5), pk(9)]);
    let mut out = Outbox::default();
    for (group, payload) in [(7, "ab"), (7, "cd"), (7, "e"), (9, "f"), (9, "g"), (7, "h")] {
        request(&mut core, 0, group, payload.as_bytes(), &mut out).unwrap();
    }
    let run = |group, packets, payload: usize| Run { group, packets, packet_bytes: 160 + payload };
    let runs: Vec<_> = out.runs().map(|(run, _)| run).collect();
    assert_eq!(runs, [run(7, 4, 2), run(7, 2, 1), run(9, 2, 1), run(7, 2, 1)]);
    let packets = out.runs().flat_map(|(run, bytes)| bytes.chunks(run.packet_bytes));
    let payloads: Vec<_> = packets.map(|packet| Packet::decode(packet).unwrap().payload).collect();
    assert_eq!(payloads, [&b"ab"[..], b"ab", b"cd", b"cd", b"e", b"e", b"f", b"g", b"h", b"h"]);
    out.clear();
    assert_eq!(out, Outbox::default());
}

#[test]
fn payload_limit_and_digest() {
    let mut core = core([Group { max_payload_bytes: 2, ..hm(7, 1) }]);
    let mut out = Outbox::default();
    assert_eq!(request(&mut core, 0, 7, b"abc", &mut out), Err(DropReason::Long));
    let mut wrong = encode_request(7, b"ab").unwrap();
    wrong[24] ^= 1;
    assert_eq!(core.handle(at(0), &wrong, &mut out), Err(DropReason::Digest));
    assert_eq!(request(&mut core, 0, 7, b"ab", &mut out).unwrap().seq, 1);
}

/// Epoch 0 follows from the genesis. Nothing else begins it, and it begins once.
#[test]
fn first_epoch_has_no_certificate() {
    let mut core = standby([hm(7, 1)]);
    assert_eq!(ask(&mut core, 0, 0, b"something"), Err(DropReason::Certificate));
    assert_eq!(ask(&mut core, 0, 0, b""), Ok(Handled::Start(start(0))));
    core.begin(start(0));
    assert_eq!(ask(&mut core, 0, 1, b""), Err(DropReason::Certificate));
    let mut later = Core::new(TIMING, 32);
    later.add(hm(7, 1), Some(4)).unwrap();
    assert_eq!(ask(&mut later, 0, 0, b""), Err(DropReason::Used));
}

/// Each refusal, and the order of checks: a certificate costs time, so it comes last.
#[test]
fn checks_are_in_order_of_cost() {
    let checks = Arc::new(AtomicU32::new(0));
    let count = checks.clone();
    let authority = Box::new(move |epoch: u32, given: &[u8]| {
        count.fetch_add(1, Ordering::Relaxed);
        given == certificate(epoch)
    });
    let mut core = Core::new(TIMING, 32);
    core.add(Group { sequencers: 3, index: 1, authority, ..hm(7, 1) }, Some(4)).unwrap();
    for epoch in [0, 2, 3, 5, 6, u32::MAX - 1] {
        assert_eq!(ask(&mut core, 0, epoch, &certificate(epoch)), Err(DropReason::NotMine), "epoch {epoch}");
    }
    for epoch in [1, 4] {
        assert_eq!(ask(&mut core, 0, epoch, &certificate(epoch)), Err(DropReason::Used), "epoch {epoch}");
    }
    let mut out = Outbox::default();
    let other = EpochStart { group: 8, epoch: 7, certificate: b"" }.encode().unwrap();
    assert_eq!(core.handle(at(0), &other, &mut out), Err(DropReason::Group));
    assert_eq!(checks.load(Ordering::Relaxed), 0);

    assert_eq!(ask(&mut core, 0, 7, &certificate(10)), Err(DropReason::Certificate), "that of another epoch");
    assert_eq!(ask(&mut core, 19_999, 7, &certificate(7)), Err(DropReason::Rate));
    assert_eq!(ask(&mut core, 20_000, 7, &certificate(7)), Ok(Handled::Start(start(7))));
    assert_eq!(checks.load(Ordering::Relaxed), 2);
    assert_eq!(request(&mut core, 20_000, 7, b"x", &mut out), Err(DropReason::Standby), "the mark is not yet durable");
    core.begin(start(7));
    assert_eq!(request(&mut core, 20_000, 7, b"x", &mut out).unwrap().seq, 1);
}

#[test]
fn certificates_are_checked_fifty_times_a_second() {
    let checks = Arc::new(AtomicU32::new(0));
    let groups = [7, 8].map(|group| {
        let count = checks.clone();
        let authority = Box::new(move |_: u32, _: &[u8]| {
            count.fetch_add(1, Ordering::Relaxed);
            false
        });
        Group { authority, ..hm(group, 1) }
    });
    let mut core = standby(groups);
    let mut out = Outbox::default();
    for micros in (0..1_000_000).step_by(100) {
        for group in [7, 8] {
            let datagram = EpochStart { group, epoch: 1, certificate: b"forged" }.encode().unwrap();
            core.handle(at(micros), &datagram, &mut out).unwrap_err();
        }
    }
    assert_eq!(checks.load(Ordering::Relaxed), 50, "for all groups together");
}

/// The receivers ask until they see the epoch, since the first heartbeat can be lost.
#[test]
fn present_epoch_gets_heartbeats() {
    let mut core = core([hm(7, 1)]);
    let mut out = Outbox::default();
    assert_eq!(ask(&mut core, 0, 0, b""), Ok(Handled::Repeat(7)));
    assert_eq!(core.heartbeat(at(0), 7, &mut out).unwrap().seq, 1);
    assert_eq!(ask(&mut core, 49_999, 0, b""), Err(DropReason::Rate));
    assert_eq!(ask(&mut core, 50_000, 0, b""), Ok(Handled::Repeat(7)));
    assert_eq!(core.heartbeat(at(50_000), 7, &mut out).unwrap().seq, 2);
    assert_eq!(ask(&mut core, 50_001, 0, b""), Err(DropReason::Rate));
    // The content does not matter: this epoch runs already.
    assert_eq!(ask(&mut core, 100_000, 0, b"other"), Ok(Handled::Repeat(7)));
    assert_eq!(core.heartbeat(at(100_000), 7, &mut out).unwrap().seq, 3);
    assert_eq!(core.deadline(), None, "three heartbeats in a row are enough");
    assert_eq!(request(&mut core, 100_001, 7, b"x", &mut out).unwrap().seq, 4);
    // Back end `xdp`: the kernel stamps, and nothing else may.
    assert_eq!(core.handle_start(at(200_000), &encode_request(7, b"x").unwrap()), Err(DropReason::Kind));
    assert_eq!(request(&mut core, 200_001, 7, b"x", &mut out).unwrap().seq, 5, "no number was used");
}

/// A later epoch has numbers from 1, other keys, and a signed first packet.
#[test]
fn later_epoch_replaces_present_one() {
    for group in [hm(7, 1), pk(7)] {
        let mut core = core([group]);
        let mut out = Outbox::default();
        for seq in 1..=3 {
            assert_eq!(request(&mut core, seq, 7, b"x", &mut out).unwrap().seq, seq);
        }
        assert_eq!(ask(&mut core, 10, 3, &certificate(3)), Ok(Handled::Start(start(3))));
        core.begin(start(3));
        assert_eq!(core.deadline(), None, "heartbeats of the old epoch end");
        out.clear();
        let stamped = core.heartbeat(at(10), 7, &mut out).unwrap();
        let header = Packet::decode(out.runs().next().unwrap().1).unwrap().header;
        assert_eq!((stamped.seq, header.seq, header.epoch, header.prev_seq), (1, 1, 3, 0));
        assert_eq!(header.is_signed(), stamped.signed);
        assert_eq!(heartbeats(&mut core), [(7, 2, 1010), (7, 3, 2010)], "two more show it to the receivers");
    }
}

#[test]
#[should_panic(expected = "no epoch begins twice")]
fn no_epoch_begins_twice() {
    core([hm(7, 1)]).begin(start(0));
}
