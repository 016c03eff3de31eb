//! Frozen vectors of aom/1. Groups that begin with number 1 are made from a configuration, as the daemon does.

use crate::sequencers;
use corniche_aom_sequencer::{
    BackEnd, Config, Core, DropReason, GroupConfig, MulticastConfig, Outbox, ReceiverConfig, Secrets, Timing,
};
use corniche_aom_vectors::{Group, Op, Step, Vector, load};
use corniche_aom_wire::{Kind, Request, Suite};
use std::{collections::BTreeSet, path::PathBuf, time::Duration};
use zeroize::Zeroizing;

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
            Op::Request => core.handle(now, &step.datagram.0, &mut out).map(|(_, stamped)| stamped.signed),
            Op::Heartbeat => {
                sequencers::check_heartbeat(step);
                if is_pk && !step.flush {
                    // The daemon signs every heartbeat. Others are equal to requests.
                    core.handle(now, &step.datagram.0, &mut out).map(|(_, stamped)| stamped.signed)
                } else {
                    now += Duration::from_millis(1);
                    heartbeat(&mut core, group.unwrap(), now, &mut out)
                }
            }
        };
        match (&step.drop, result) {
            (Some(reason), result) => assert_eq!(result.map_err(DropReason::name), Err(reason.as_str()), "step {number}"),
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

fn core(vector: &Vector) -> Core {
    let first = &vector.groups[0];
    // The daemon refuses suite 3 and has no way to begin later in an epoch.
    if vector.groups.iter().all(|group| group.first_seq == 1 && group.suite != Suite::HalfSipHash64 as u8) {
        assert!(vector.groups.iter().all(|group| group.sign_every == first.sign_every));
        let (config, secrets) = configuration(vector);
        return config.core(&secrets).unwrap();
    }
    let timing = Timing { sign_after: Duration::from_micros(100), heartbeat_after: Duration::from_millis(1) };
    let mut core = Core::new(timing, true, 8800);
    for group in &vector.groups {
        core.add(group.group, group.active.then(|| sequencers::stamper(group, vector.chain_id)));
    }
    core
}

fn configuration(vector: &Vector) -> (Config, Secrets) {
    let group = |group: &Group| {
        let receivers = match &group.receiver_x25519_publics[..] {
            [] => vec![receiver(None)],
            keys => keys.iter().map(|key| receiver(Some(hex::encode(&key.0)))).collect(),
        };
        GroupConfig {
            group: group.group,
            chain_id: vector.chain_id,
            epoch: group.epoch,
            suite: group.suite,
            active: group.active,
            key: PathBuf::new(),
            multicast: None,
            receivers,
        }
    };
    let secret = |group: &Group| {
        let secret = group.sequencer_x25519_secret.as_ref().or(group.signing_secret.as_ref()).unwrap();
        (group.group, Zeroizing::new(secret.array()))
    };
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        admin: None,
        back_end: BackEnd::Unicast,
        check_digests: true,
        max_payload_bytes: 8800,
        sign_every: vector.groups[0].sign_every.unwrap_or(32),
        sign_after_us: 100,
        heartbeat_after_us: 1000,
        multicast: MulticastConfig::default(),
        groups: vector.groups.iter().map(group).collect(),
    };
    (config, vector.groups.iter().map(secret).collect())
}

fn receiver(exchange_key: Option<String>) -> ReceiverConfig {
    ReceiverConfig { address: Some("127.0.0.1:1".parse().unwrap()), exchange_key }
}
