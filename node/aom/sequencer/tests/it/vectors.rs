//! Frozen vectors of aom/1. Groups that begin with number 1 begin their epoch as in the daemon.

use crate::sequencers;
use corniche_aom_sequencer::{Core, DropReason, Group, GroupEpoch, Handled, Outbox, Timing};
use corniche_aom_vectors::{self as vectors, Op, Step, Vector, load};
use corniche_aom_wire::{Kind, MAX_PAYLOAD_BYTES, Request, Suite};
use std::{collections::BTreeSet, time::Duration};

/// A skipped vector is visible: the ids that ran are those that name this producer.
#[test]
fn sequencer_runs_all_its_vectors() {
    let vectors = load();
    let mut handled = BTreeSet::new();
    for vector in &vectors.stamp {
        if vector.producers.contains("sequencer") {
            let result = std::panic::catch_unwind(|| check(vector));
            assert!(result.is_ok(), "vector {} failed; see above", vector.id);
            handled.insert(vector.id.clone());
        }
    }
    assert_eq!(handled, vectors.ids("sequencer"));
    assert!(handled.len() >= 116, "vectors were removed: {} are left", handled.len());
}

fn check(vector: &Vector) {
    let mut core = core(vector);
    let mut now = Duration::ZERO;
    for (number, step) in vector.steps.iter().enumerate() {
        now += Duration::from_micros(1);
        let mut out = Outbox::default();
        let group = step.group.or_else(|| Request::decode(&step.datagram.0).ok().map(|request| request.group));
        let is_pk = group.and_then(|group| core.stamper(group)).is_some_and(|stamper| stamper.suite().kind() == Kind::Pk);
        let result = match step.op {
            Op::Request if step.lost => lose(&mut core, step).map(|_| false),
            Op::Request => request(&mut core, now, step, &mut out),
            Op::Heartbeat => {
                sequencers::check_heartbeat(step);
                if is_pk && !step.flush {
                    // The daemon signs every heartbeat. Others are equal to requests.
                    request(&mut core, now, step, &mut out)
                } else {
                    now += Duration::from_millis(1);
                    heartbeat(&mut core, group.unwrap(), now, &mut out)
                }
            }
        };
        match (&step.drop, result) {
            (Some(reason), result) => {
                let reason = if reason == "inactive" { "standby" } else { reason };
                assert_eq!(result.map_err(DropReason::name), Err(reason), "step {number}");
            }
            (None, result) => assert_eq!(result, Ok(step.signed), "step {number}"),
        }
        let runs = out.runs().filter(|(run, _)| group == Some(run.group));
        let packets: Vec<_> = runs.flat_map(|(run, bytes)| bytes.chunks(run.packet_bytes)).collect();
        let expected: Vec<_> = step.out.iter().map(|out| &out.0[..]).collect();
        assert_eq!(packets, expected, "step {number}");
    }
}

/// Lets a time pass after which a heartbeat is due. Groups without numbers make none.
fn heartbeat(core: &mut Core, group: u32, now: Duration, out: &mut Outbox) -> Result<bool, DropReason> {
    let mut made = None;
    core.tick(now, out, |number, stamped| {
        if number == group {
            made = Some(stamped.signed);
        }
    });
    if made.is_none() {
        assert_eq!(core.stamper(group).unwrap().seq(), u64::MAX, "only the end of an epoch stops heartbeats");
    }
    made.ok_or(DropReason::Exhausted)
}

fn lose(core: &mut Core, step: &Step) -> Result<u64, DropReason> {
    let request = Request::decode(&step.datagram.0).unwrap();
    core.stamper(request.group).unwrap().lose().map_err(|_| DropReason::Exhausted)
}

fn request(core: &mut Core, now: Duration, step: &Step, out: &mut Outbox) -> Result<bool, DropReason> {
    match core.handle(now, &step.datagram.0, out)? {
        Handled::Request(_, stamped) => Ok(stamped.signed),
        other => panic!("expected a request, got {other:?}"),
    }
}

fn core(vector: &Vector) -> Core {
    let sign_every = vector.groups[0].sign_every;
    assert!(vector.groups.iter().all(|group| group.sign_every == sign_every));
    let timing = Timing { sign_after: Duration::from_micros(100), heartbeat_after: Duration::from_millis(1) };
    let mut core = Core::new(timing, sign_every.unwrap_or(32));
    for group in &vector.groups {
        // The daemon refuses suite 3 and has no way to begin later in an epoch. Such a group gets another stamper.
        let suite = Some(sequencers::suite(group.suite)).filter(|suite| *suite != Suite::HalfSipHash64);
        core.add(new_group(group, suite.unwrap_or(Suite::SipHash64), vector.chain_id), None).unwrap();
        if group.active {
            core.begin(GroupEpoch { chain_id: vector.chain_id, group: group.group, epoch: group.epoch });
            if group.first_seq > 1 || suite.is_none() {
                *core.stamper(group.group).unwrap() = sequencers::stamper(group, vector.chain_id);
            }
        }
    }
    core
}

fn new_group(group: &vectors::Group, suite: Suite, chain_id: u64) -> Group {
    let secret = group.sequencer_x25519_secret.as_ref().or(group.signing_secret.as_ref()).unwrap();
    Group {
        chain_id,
        group: group.group,
        suite,
        sequencers: 1,
        index: 0,
        secret: secret.array::<32>().into(),
        exchange_keys: group.receiver_x25519_publics.iter().map(|key| key.array()).collect(),
        max_payload_bytes: MAX_PAYLOAD_BYTES,
        destinations: vec!["127.0.0.1:1".parse().unwrap()],
        authority: Box::new(|_, _| false),
    }
}
