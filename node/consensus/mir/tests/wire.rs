//! Frozen encodings on the wire, on disk and in signatures. A change of any of these bytes changes the protocol version.

use corniche_mir::{
    message::{
        CheckpointCertificate, Context, EpochCertificate, EpochChange, EpochConfig, EpochNumber, Message, NewEpoch,
        PreparedCertificate, Proposal, Sn, Statement, Status, Votes,
    },
    record::{Promises, Record},
};
use corniche_mir_testing::committee;
use corniche_testkit::{assert_frozen, encodings};
use corniche_types::{B256, Bytes, MAX_VALIDATORS, TimestampMs, ValidatorIndex, wire};

const FROZEN: &str = include_str!("fixtures/wire.hex");
const EPOCH: EpochNumber = EpochNumber(5);
const SN: Sn = Sn(9);
const HASH: B256 = B256::repeat_byte(8);
const SIGNATURE: [u8; 64] = [6; 64];
const TIME: TimestampMs = TimestampMs(1_700_000_000_000);

fn votes(count: u16) -> Votes {
    (0..count).map(|member| (ValidatorIndex(member), [member as u8 + 1; 64])).collect()
}

fn proposal() -> Proposal {
    Proposal { sn: SN, author: ValidatorIndex(1), time: TIME, batch: Bytes::from_static(b"batch") }
}

fn config() -> EpochConfig {
    let leaders = vec![ValidatorIndex(0), ValidatorIndex(2)];
    EpochConfig { epoch: EPOCH, leaders, start: Sn(4), listed: vec![HASH, B256::ZERO], first: Sn(7), last: Some(Sn(18)) }
}

fn certificate() -> EpochCertificate {
    EpochCertificate { config: EpochConfig { last: None, ..config() }, votes: votes(3) }
}

fn prepared() -> PreparedCertificate {
    PreparedCertificate { epoch: EPOCH, sn: SN, digest: HASH, votes: votes(3) }
}

fn checkpoint() -> CheckpointCertificate {
    CheckpointCertificate { sn: Sn(4), hash: B256::repeat_byte(22), votes: votes(3) }
}

fn change() -> EpochChange {
    EpochChange {
        sender: ValidatorIndex(2),
        target: EpochNumber(6),
        certificate: Some(certificate()),
        checkpoint: Some(checkpoint()),
        prepared: vec![prepared()],
        signature: SIGNATURE,
    }
}

fn messages() -> Vec<(&'static str, Message)> {
    let (epoch, sn, digest, hash, signature) = (EPOCH, SN, HASH, HASH, SIGNATURE);
    let first = EpochChange { certificate: None, checkpoint: None, prepared: Vec::new(), ..change() };
    let new_epoch = |changes| Message::NewEpoch(Box::new(NewEpoch { config: config(), changes }));
    let status = Status { epoch, wants: EpochNumber(6), delivered: sn, stable: Sn(4), seeks: Some(EpochNumber(7)), asks: true };
    vec![
        ("pre-prepare", Message::PrePrepare { epoch, proposal: proposal(), signature }),
        ("prepare", Message::Prepare { epoch, sn, digest, signature }),
        ("commit", Message::Commit { epoch, sn, digest }),
        ("checkpoint", Message::Checkpoint { sn, hash, signature }),
        ("stable-checkpoint", Message::StableCheckpoint(checkpoint())),
        ("epoch-change", Message::EpochChange(Box::new(change()))),
        ("epoch-change-first", Message::EpochChange(Box::new(first))),
        ("new-epoch", new_epoch(vec![(ValidatorIndex(2), HASH)])),
        ("new-epoch-gracious", new_epoch(Vec::new())),
        ("fetch-changes", Message::FetchChanges { epoch, members: vec![ValidatorIndex(3)] }),
        ("echo", Message::Echo { epoch, config: HASH, signature }),
        ("epoch", Message::Epoch(Box::new(certificate()))),
        ("status", Message::Status(status)),
        ("committed", Message::Committed(vec![(sn, digest)])),
        ("fetch-body", Message::FetchBody { sn, digest }),
        ("body", Message::Body(proposal())),
    ]
}

fn records() -> Vec<(&'static str, Record)> {
    let (epoch, sn, digest) = (EPOCH, SN, HASH);
    let promises = Promises {
        certificate: Some(certificate()),
        target: Some(EpochNumber(6)),
        echoed: Some((EPOCH, HASH)),
        stable: Some(checkpoint()),
        has_lost_disk: true,
        silent: Some((EPOCH, SN)),
    };
    vec![
        ("record-promises", Record::Promises(Box::new(promises))),
        ("record-accepted", Record::Accepted { epoch, sn, digest, proposal: Some(proposal()) }),
        ("record-accepted-null", Record::Accepted { epoch, sn, digest: B256::ZERO, proposal: None }),
        ("record-body", Record::Body(proposal())),
        ("record-prepared", Record::Prepared(prepared())),
        ("record-committed", Record::Committed { sn, digest }),
        ("record-left", Record::Left(epoch)),
        ("record-echoed", Record::Echoed { epoch, config: HASH }),
        ("record-entered", Record::Entered(certificate())),
        ("record-stable", Record::Stable(checkpoint())),
    ]
}

fn digests() -> Vec<(&'static str, B256)> {
    let context = Context::new(&committee(4));
    let (epoch, sn, hash) = (EPOCH, SN, HASH);
    vec![
        ("signed-prepare", context.digest(&Statement::Prepare { epoch, sn, digest: hash })),
        ("signed-checkpoint", context.digest(&Statement::Checkpoint { sn, hash })),
        ("signed-epoch-change", context.digest(&Statement::EpochChange(hash))),
        ("signed-echo", context.digest(&Statement::Echo { epoch, config: hash })),
        ("digest-proposal", context.proposal(&proposal())),
        ("digest-config", context.config(&config())),
        ("digest-change", context.change(&change())),
        ("log-hash-start", context.genesis_hash()),
        ("log-hash", context.log_hash(hash, sn, B256::repeat_byte(9))),
    ]
}

/// Forces a fixture for every kind that is added later.
fn is_frozen(message: &Message, record: &Record, statement: &Statement) -> bool {
    match message {
        Message::PrePrepare { .. } | Message::Prepare { .. } | Message::Commit { .. } | Message::Checkpoint { .. } => {}
        Message::StableCheckpoint(_) | Message::EpochChange(_) | Message::NewEpoch(_) | Message::FetchChanges { .. } => {}
        Message::Echo { .. } | Message::Epoch(_) | Message::Status(_) | Message::Committed(_) => {}
        Message::FetchBody { .. } | Message::Body(_) => {}
    }
    match record {
        Record::Promises(_) | Record::Accepted { .. } | Record::Body(_) | Record::Prepared(_) | Record::Committed { .. } => {}
        Record::Left(_) | Record::Echoed { .. } | Record::Entered(_) | Record::Stable(_) => {}
    }
    match statement {
        Statement::Prepare { .. } | Statement::Checkpoint { .. } | Statement::EpochChange(_) | Statement::Echo { .. } => true,
    }
}

#[test]
fn wire_formats_are_frozen() {
    assert!(is_frozen(&Message::Body(proposal()), &Record::Left(EPOCH), &Statement::EpochChange(HASH)));
    let digests = digests().into_iter().map(|(name, digest)| (name, digest.to_vec())).collect();
    assert_frozen(FROZEN, [encodings(messages()), encodings(records()), digests].concat());
}

/// The elements of a list may take more memory than bytes, so one that is too long is not decoded.
#[test]
fn lists_longer_than_a_committee_are_refused() {
    let lists = |count: usize| {
        let votes = vec![(ValidatorIndex(1), SIGNATURE); count];
        [
            Message::StableCheckpoint(CheckpointCertificate { votes: votes.clone(), ..checkpoint() }),
            Message::Epoch(Box::new(EpochCertificate { votes, ..certificate() })),
            Message::FetchChanges { epoch: EPOCH, members: vec![ValidatorIndex(1); count] },
        ]
    };
    for message in lists(MAX_VALIDATORS) {
        assert_eq!(wire::decode(&message.encode()).as_ref(), Ok(&message));
    }
    for message in lists(MAX_VALIDATORS + 1) {
        assert!(wire::decode::<Message>(&message.encode()).is_err());
    }
}
