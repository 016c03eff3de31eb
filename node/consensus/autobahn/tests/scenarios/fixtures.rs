//! Frozen encodings on the wire, on disk and in signatures. A change of any of these bytes changes the protocol
//! version.

use borsh::BorshDeserialize;
use corniche_autobahn::{
    message::{
        Availability, Car, CommitKind, CommitQc, Context, Cut, DiskId, Message, Position, PrepareQc, Proof, Report, SignedCar,
        SignedPrepare, Slot, Statement, Status, Timeout, TimeoutQc, Tip, View, Vote,
    },
    order::Checkpoint,
    record::{Abstention, Record},
    slots::SlotRecord,
};
use corniche_autobahn_testing::committee;
use corniche_testkit::{assert_frozen, encodings};
use corniche_types::{B256, Bytes, MAX_VALIDATORS, TimestampMs, ValidatorIndex, wire};

const FROZEN: &str = include_str!("../fixtures/wire.hex");
const VALUE: B256 = B256::repeat_byte(9);
const SLOT: Slot = Slot(5);

fn tip(lane: u16) -> Tip {
    Tip { lane: ValidatorIndex(lane), position: Position(3), digest: B256::with_last_byte(8) }
}

fn proof(signers: u16) -> Proof {
    Proof { signers: (0..signers).map(ValidatorIndex).collect(), seal: Bytes::from_static(b"seal") }
}

fn availability() -> Availability {
    Availability { tip: tip(1), proof: proof(2) }
}

fn car() -> SignedCar {
    let (lane, position) = (ValidatorIndex(1), Position(4));
    let car = Car { lane, position, parent: tip(1).digest, batch: Bytes::from_static(b"batch") };
    SignedCar { car, signature: [7; 64], certificate: Some(availability()) }
}

fn cut() -> Cut {
    Cut { slot: SLOT, anchor: B256::with_last_byte(1), time: TimestampMs(1_700_000_000_000), tips: (0..4).map(tip).collect() }
}

fn prepared() -> PrepareQc {
    PrepareQc { slot: SLOT, view: View(1), cut: VALUE, weak: vec![ValidatorIndex(2)], proof: proof(3) }
}

fn commit(kind: CommitKind) -> CommitQc {
    CommitQc { kind, slot: SLOT, view: View(1), cut: VALUE, proof: proof(3) }
}

fn report() -> Report {
    Report { confirmed: Some((View(1), VALUE)), voted: Some((View(0), VALUE)) }
}

fn timed_out() -> TimeoutQc {
    let reports = vec![report(), Report::default(), report()];
    TimeoutQc { slot: SLOT, view: View(1), reports, proof: proof(3), confirmed: Some(prepared()) }
}

fn disk_id() -> DiskId {
    DiskId { validator: ValidatorIndex(2), disk: 6, signature: [5; 64] }
}

fn messages() -> Vec<(&'static str, Message)> {
    let share = Bytes::from_static(b"share");
    let vote = Vote { slot: SLOT, view: View(1), cut: VALUE, share: share.clone() };
    let (slot, view) = (SLOT, View(1));
    let prepare = SignedPrepare {
        view: View(2),
        cut: cut(),
        signature: [7; 64],
        available: vec![availability()],
        previous: Some(commit(CommitKind::Fast)),
        timeouts: Some(timed_out()),
    };
    let timeout =
        Timeout { slot, view, report: report(), share: share.clone(), confirmed: Some(prepared()), cuts: vec![cut()] };
    let status = Status {
        nonce: 4,
        wants_response: true,
        committed: Some(commit(CommitKind::Slow)),
        receiver_car: Some(car()),
        lanes: (0..4).map(Position).collect(),
        disk_id: Some(disk_id()),
        peer_disk: None,
    };
    vec![
        ("car", Message::Car(car())),
        ("held", Message::CarVote { tip: tip(1), share }),
        ("available", Message::Available(availability())),
        ("prepare", Message::Prepare(prepare)),
        ("prepared", Message::PrepareVote { vote: vote.clone(), strong: true }),
        ("confirm", Message::Confirm(prepared())),
        ("confirmed", Message::ConfirmAck(vote)),
        ("commit", Message::Commit(commit(CommitKind::Slow))),
        ("timeout", Message::Timeout(timeout)),
        ("timed-out", Message::TimeoutQc(timed_out())),
        ("fetch-cars", Message::FetchCars { tip: tip(1), above: Position(2) }),
        ("cars", Message::Cars { tip: tip(1), cars: vec![car()] }),
        ("fetch-cut", Message::FetchCut { slot, cut: VALUE }),
        ("cut", Message::Cut(cut())),
        ("standing", Message::Status(status)),
        ("fetch-commits", Message::FetchCommits { above: slot }),
        ("commits", Message::Commits(vec![(cut(), commit(CommitKind::Fast))])),
    ]
}

fn records() -> Vec<(&'static str, Record)> {
    let slot = SlotRecord {
        slot: SLOT,
        view: View(2),
        timed_out: true,
        entered: Some(timed_out()),
        proposed: Some(View(0)),
        voted: Some((View(2), VALUE)),
        prop: Some((View(1), cut())),
        conf: Some(prepared()),
    };
    vec![
        ("record-born", Record::Started),
        ("record-car", Record::Car { car: car(), voted: true }),
        ("record-vote", Record::Vote(tip(1))),
        ("record-slot", Record::Slot(Box::new(slot))),
        ("record-commit", Record::Commit(cut(), commit(CommitKind::Fast))),
        ("record-birth", Record::DiskId(disk_id())),
        ("record-met", Record::PeerDisk(disk_id())),
        ("record-silence", Record::Abstention(Abstention { slots: SLOT, lanes: vec![Position(2)] })),
        ("record-first-disk", Record::FirstDisk(disk_id())),
    ]
}

fn digests() -> Vec<(&'static str, B256)> {
    let context = Context::new(&committee(4));
    let (slot, view, cut_digest) = (SLOT, View(1), VALUE);
    let statement = |statement: Statement| context.statement(&statement);
    vec![
        ("digest-car", context.car(&car().car)),
        ("digest-lane", context.lane_start(ValidatorIndex(3))),
        ("digest-cut", context.cut(&cut())),
        ("signed-prepare", context.prepare(slot, view, cut_digest)),
        ("signed-birth", context.disk_id(ValidatorIndex(2), 6)),
        ("signed-held", statement(Statement::CarVote(tip(1)))),
        ("signed-prepared", statement(Statement::PrepareVote { slot, view, cut: cut_digest })),
        ("signed-prepared-weakly", statement(Statement::WeakPrepareVote { slot, view, cut: cut_digest })),
        ("signed-confirmed", statement(Statement::ConfirmAck { slot, view, cut: cut_digest })),
        ("signed-timed-out", statement(Statement::Timeout { slot, view, report: report() })),
    ]
}

/// Forces a fixture for every kind that is added later.
fn is_frozen(message: &Message, record: &Record) -> bool {
    match message {
        Message::Car(_)
        | Message::CarVote { .. }
        | Message::Available(_)
        | Message::Prepare(_)
        | Message::PrepareVote { .. } => {}
        Message::Confirm(_) | Message::ConfirmAck(_) | Message::Commit(_) | Message::Timeout(_) | Message::TimeoutQc(_) => {}
        Message::FetchCars { .. } | Message::Cars { .. } | Message::FetchCut { .. } | Message::Cut(_) => {}
        Message::Status(_) | Message::FetchCommits { .. } | Message::Commits(_) => {}
    }
    match record {
        Record::Started | Record::Car { .. } | Record::Vote(_) | Record::Slot(_) | Record::Commit(..) => true,
        Record::DiskId(_) | Record::PeerDisk(_) | Record::Abstention(_) | Record::FirstDisk(_) => true,
    }
}

#[test]
fn wire_formats_are_frozen() {
    let (anchors, executed) = (vec![cut()], (0..4).map(tip).collect());
    let (time, randomness) = (TimestampMs(1_700_000_000_000), B256::repeat_byte(3));
    let checkpoint = Checkpoint { slot: SLOT, anchors, executed, time, randomness };
    let digests = digests().into_iter().map(|(name, digest)| (name, digest.to_vec())).collect();
    let checkpoints = encodings([("checkpoint", checkpoint)]);
    assert!(is_frozen(&messages()[0].1, &Record::Started));
    assert_frozen(FROZEN, [encodings(messages()), encodings(records()), checkpoints, digests].concat());
}

#[test]
fn message_kinds_have_fixed_first_bytes() {
    for (name, message) in messages() {
        let kind = match message {
            Message::Car(_) => Message::CAR,
            Message::Cars { .. } => Message::CARS,
            Message::Commits(_) => Message::COMMITS,
            Message::Prepare(_) => Message::PREPARE,
            Message::TimeoutQc(_) => Message::TIMEOUT_QC,
            Message::Status(_) => Message::STATUS,
            _ => continue,
        };
        assert_eq!(message.encode()[1], kind, "{name}");
    }
}

/// The elements of a list may take forty times more memory than bytes, so one that is too long is not decoded.
#[test]
fn lists_longer_than_a_committee_are_refused_unread() {
    let lists = |count: usize| {
        let members = vec![ValidatorIndex(1); count];
        let large = Proof { signers: members.clone(), ..proof(1) };
        let cut_of = |tips| Cut { tips, ..cut() };
        let Some((_, Message::Prepare(prepare))) = messages().into_iter().find(|(name, _)| *name == "prepare") else {
            panic!()
        };
        let Some((_, Message::Status(status))) = messages().into_iter().find(|(name, _)| *name == "standing") else { panic!() };
        [
            Message::Available(Availability { tip: tip(1), proof: large }),
            Message::Confirm(PrepareQc { weak: members, ..prepared() }),
            Message::Cut(cut_of(vec![tip(1); count])),
            Message::Prepare(SignedPrepare { cut: cut_of(Vec::new()), available: vec![availability(); count], ..prepare }),
            Message::TimeoutQc(TimeoutQc { reports: vec![Report::default(); count], ..timed_out() }),
            Message::Status(Status { committed: None, receiver_car: None, lanes: vec![Position(1); count], ..status }),
        ]
    };
    for (longest, longer) in lists(MAX_VALIDATORS).into_iter().zip(lists(MAX_VALIDATORS + 1)) {
        assert_eq!(wire::decode(&longest.encode()).as_ref(), Ok(&longest));
        let encoded = longer.encode();
        let mut rest = &encoded[1..];
        assert!(Message::deserialize(&mut rest).is_err());
        let read = encoded.len() - rest.len();
        assert!(read < 200, "{read} bytes read of {:?}", &encoded[..2]);
    }
}
