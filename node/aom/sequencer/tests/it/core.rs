//! The deciding part in virtual time.

use corniche_aom_sequencer::{Core, DropReason, Outbox, Run, Timing};
use corniche_aom_wire::{Packet, SigningKey, Stamper, Suite, TagKey, TagScope, encode_request};
use std::time::Duration;

const TIMING: Timing = Timing { sign_after: Duration::from_micros(100), heartbeat_after: Duration::from_micros(1000) };

fn at(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn hm(group: u32, receivers: u16) -> Stamper {
    let key = |receiver| {
        TagKey::from_bytes(TagScope { chain_id: 1, group, epoch: 1, receiver, suite: Suite::SipHash64 }, &[1; 16]).unwrap()
    };
    Stamper::hm((0..receivers).map(key).collect()).unwrap()
}

fn pk(group: u32) -> Stamper {
    Stamper::pk(1, group, 1, SigningKey::from_bytes(Suite::Ed25519, &[1; 32]).unwrap(), 32).unwrap()
}

fn core(stampers: impl IntoIterator<Item = Stamper>) -> Core {
    let mut core = Core::new(TIMING, true, 8800);
    for stamper in stampers {
        core.add(stamper.group(), Some(stamper));
    }
    core
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
    core.handle(at(5), &encode_request(7, b"x").unwrap(), &mut out).unwrap();
    assert_eq!(heartbeats(&mut core), [(7, 2, 1005), (7, 3, 2005), (7, 4, 3005)]);
    // A request starts the count again; one between heartbeats too.
    core.handle(at(9000), &encode_request(7, b"x").unwrap(), &mut out).unwrap();
    core.tick(at(10_000), &mut out, |_, _| {});
    core.handle(at(10_500), &encode_request(7, b"x").unwrap(), &mut out).unwrap();
    assert_eq!(heartbeats(&mut core), [(7, 8, 11_500), (7, 9, 12_500), (7, 10, 13_500)]);
}

/// The signed heartbeat counts among the three.
#[test]
fn unsigned_tail_gets_early_heartbeat() {
    let mut core = core([pk(7)]);
    let mut out = Outbox::default();
    core.handle(at(0), &encode_request(7, b"first").unwrap(), &mut out).unwrap();
    assert_eq!(core.deadline(), Some(at(1000)), "the first packet is signed");
    core.handle(at(10), &encode_request(7, b"second").unwrap(), &mut out).unwrap();
    assert_eq!(heartbeats(&mut core), [(7, 3, 110), (7, 4, 1110), (7, 5, 2110)]);
}

#[test]
fn groups_have_timers_of_their_own() {
    let mut core = core([hm(7, 4), pk(9)]);
    let mut out = Outbox::default();
    core.handle(at(0), &encode_request(7, b"x").unwrap(), &mut out).unwrap();
    core.handle(at(500), &encode_request(9, b"x").unwrap(), &mut out).unwrap();
    let expected = [(7, 2, 1000), (9, 2, 1500), (7, 3, 2000), (9, 3, 2500), (7, 4, 3000), (9, 4, 3500)];
    assert_eq!(heartbeats(&mut core), expected);
}

#[test]
fn exhausted_epoch_is_silent() {
    for stamper in [hm(7, 4), pk(7)] {
        let mut core = core([stamper.continue_after(u64::MAX - 1, [0; 32])]);
        let (request, mut out) = (encode_request(7, b"x").unwrap(), Outbox::default());
        assert_eq!(core.handle(at(0), &request, &mut out).unwrap().1.seq, u64::MAX);
        assert_eq!(heartbeat_count(&mut core), 0);
        assert_eq!(core.handle(at(9), &request, &mut out), Err(DropReason::Exhausted));
        assert_eq!(core.deadline(), None);
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
        core.handle(at(0), &encode_request(group, payload.as_bytes()).unwrap(), &mut out).unwrap();
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
fn payload_limit_and_digest_check_are_options() {
    let mut core = Core::new(TIMING, false, 2);
    core.add(7, Some(hm(7, 1)));
    let mut out = Outbox::default();
    assert_eq!(core.handle(at(0), &encode_request(7, b"abc").unwrap(), &mut out), Err(DropReason::Long));
    let mut wrong = encode_request(7, b"ab").unwrap();
    wrong[24] ^= 1;
    assert_eq!(core.handle(at(0), &wrong, &mut out).unwrap().1.seq, 1);
    let packet = out.runs().next().unwrap().1;
    assert!(Packet::decode(packet).unwrap().verify_digest().is_err());
}
