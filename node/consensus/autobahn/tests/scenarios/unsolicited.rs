//! Verification costs a bounded number of signature checks for any message; unsolicited responses cost almost none.

use crate::{
    cluster::{Cluster, index, plain},
    scripted::{FORKER, ScriptedValidator, tell, without_owner},
};
use corniche_autobahn::{
    AutobahnVerifier, Config, Share, Signature, Signatures, Signer,
    message::{
        Availability, CommitKind, CommitQc, Context, Cut, Message, Position, Proof, SignedCar, Slot, Statement, Status, Tip,
        View,
    },
};
use corniche_autobahn_testing::{FakeKeys, FakeSignatures, committee};
use corniche_engine::{Recipients, Verifier};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Counts single signature checks.
pub struct Counting(Arc<dyn Signatures>, AtomicUsize);

impl Counting {
    pub fn new(signatures: Arc<dyn Signatures>) -> Arc<Self> {
        Arc::new(Self(signatures, AtomicUsize::new(0)))
    }

    fn add(&self, checks: usize) {
        self.1.fetch_add(checks, Ordering::Relaxed);
    }

    pub fn take(&self) -> usize {
        self.1.swap(0, Ordering::Relaxed)
    }
}

impl Signatures for Counting {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        self.add(1);
        self.0.verify(author, digest, signature)
    }

    fn verify_share(&self, signer: ValidatorIndex, digest: &B256, share: &Share) -> bool {
        self.add(1);
        self.0.verify_share(signer, digest, share)
    }

    fn combine(&self, shares: &[(ValidatorIndex, Share)]) -> Option<Bytes> {
        self.0.combine(shares)
    }

    fn verify_seal(&self, signed: &[(ValidatorIndex, B256)], seal: &Bytes) -> bool {
        self.add(signed.len());
        self.0.verify_seal(signed, seal)
    }
}

fn proof(context: &Context, statement: &Statement, signers: usize) -> Proof {
    let digest = context.statement(statement);
    let shares: Vec<_> = (0..signers).map(|node| (index(node), FakeKeys(index(node)).share_digest(&digest))).collect();
    Proof { seal: FakeSignatures.combine(&shares).unwrap(), signers: shares.into_iter().map(|(signer, _)| signer).collect() }
}

/// A chain of cars of lane 0.
fn chain(scripted: &mut ScriptedValidator, mut tip: Tip, cars: usize) -> (Vec<SignedCar>, Tip) {
    let mut chain = Vec::new();
    for _ in 0..cars {
        let car = scripted.car(tip, None, 10);
        tip = scripted.tip(&car);
        chain.push(car);
    }
    (chain, tip)
}

fn commits(context: &Context, size: usize, count: u64) -> Vec<(Cut, CommitQc)> {
    let tips: Vec<_> = (0..size).map(|node| context.start(index(node))).collect();
    let commit = |slot: u64| {
        let cut = Cut { slot: Slot(slot), anchor: B256::ZERO, time: TimestampMs(slot), tips: tips.clone() };
        let (slot, view, name) = (cut.slot, View(0), context.cut(&cut));
        let proof = proof(context, &Statement::ConfirmAck { slot, view, cut: name }, size - (size - 1) / 3);
        (cut, CommitQc { kind: CommitKind::Slow, slot, view, cut: name, proof })
    };
    (1..=count).map(commit).collect()
}

#[test]
fn responses_cost_bounded_signature_checks() {
    for size in [4, 50] {
        let (context, counting) = (Context::new(&committee(size)), Counting::new(Arc::new(FakeSignatures)));
        let verifier = AutobahnVerifier::new(Config::default(), committee(size), counting.clone());
        let checks = |message: &Message| {
            verifier.verify(FORKER, &message.encode()).unwrap();
            counting.take()
        };
        let mut scripted = ScriptedValidator::new(context);
        let (mut cars, tip) = chain(&mut scripted, context.start(FORKER), 10_000);
        let parent = Tip { position: Position(9_999), digest: cars[9_999].car.parent, ..tip };
        let validity = (size - 1) / 3 + 1;
        cars[9_999].certificate =
            Some(Availability { tip: parent, proof: proof(&context, &Statement::CarVote(parent), validity) });
        let found = checks(&Message::Cars { tip, cars });
        assert!(found <= size, "{found} checks of 10,000 cars");
        let found = checks(&Message::Commits(commits(&context, size, 256)));
        assert!((100..=512).contains(&found), "{found} checks of 256 commits");
    }
}

/// A response about `tip` that is invalid after the tip.
fn unreadable(tip: Tip) -> Bytes {
    let head = Message::Cars { tip, cars: Vec::new() }.encode();
    Bytes::from([&head[..head.len() - 4], &[0xff; 1_000][..]].concat())
}

fn tell_bytes(cluster: &mut Cluster, to: usize, message: &Bytes) {
    cluster.receive(FORKER.as_usize(), to, message);
}

/// Decoding and hashing 10,000 cars takes ten milliseconds, so it would show as a fault that the bytes are invalid.
#[test]
fn unsolicited_cars_are_not_read() {
    let (mut cluster, mut scripted) = without_owner(plain());
    let start = scripted.context.start(FORKER);
    let (cars, tip) = chain(&mut scripted, start, 10_000);
    let verifier = AutobahnVerifier::new(plain(), committee(4), Arc::new(FakeSignatures));
    assert!(verifier.cost(&Message::Cars { tip, cars }.encode()) < 50, "less than one signature check");
    let before = cluster.engine(1).footprint();
    for _ in 0..10 {
        tell_bytes(&mut cluster, 1, &unreadable(tip));
    }
    assert!(cluster.seen(1).refused.is_empty() && cluster.engine(1).footprint() == before);
    // The tip is checked.
    let nobodys = Tip { lane: index(9), ..tip };
    assert!(verifier.verify(FORKER, &unreadable(nobodys)).is_err());
}

#[test]
fn an_unreadable_answer_counts_as_an_empty_one() {
    let (mut cluster, scripted, cars, certificate) = behind(plain());
    let asked = |cluster: &Cluster| cluster.seen(1).count(|message| matches!(message, Message::FetchCars { .. }));
    let next = scripted.clone().car(certificate.tip, Some(certificate.clone()), 10);
    tell(&mut cluster, 1, &Message::Car(next));
    assert_eq!(asked(&cluster), 1);
    tell_bytes(&mut cluster, 1, &unreadable(certificate.tip));
    assert_eq!(asked(&cluster), 2, "the other signer is asked at once");
    tell(&mut cluster, 1, &Message::Cars { tip: certificate.tip, cars });
    assert!(cluster.position(1, 0)[2] < 6, "it had its answer");
    cluster.run_for(50);
    assert_eq!(cluster.position(1, 0)[2], 6);
}

#[cfg(feature = "real-crypto")]
#[test]
fn stated_costs_cover_signature_checks() {
    use crate::{cluster::DELAY, real_crypto};
    use corniche_testkit::{Links, Micros};
    const CHECK_US: u64 = 50;
    let committee = real_crypto::committee(4);
    let (signers, signatures) = real_crypto::keys(&committee, false);
    let signers = signers.into_iter().map(|signer| signer as Arc<dyn Signer>).collect();
    let links = Links::uniform(4, Micros::from_millis(DELAY));
    let config = Config { view_timeout_ms: 200, ..plain() };
    let mut cluster = Cluster::with_keys(links, config.clone(), committee.clone(), signers, signatures.clone());
    cluster.simulation.start_all();
    cluster.run_for(5 * DELAY);
    cluster.load([0, 1], true);
    cluster.run_for(1_000);
    cluster.simulation.crash(2);
    cluster.run_for(2_000);
    cluster.simulation.restart(2);
    cluster.run_for(1_000);
    let mut kinds = std::collections::BTreeSet::new();
    for node in 0..4 {
        for (_, _, message) in &cluster.seen(node).sent {
            let (bytes, counting) = (message.encode(), Counting::new(signatures.clone()));
            let verifier = AutobahnVerifier::new(config.clone(), committee.clone(), counting.clone());
            let cost = verifier.cost(&bytes);
            verifier.verify(index(node), &bytes).unwrap();
            let checks = counting.take() as u64;
            assert!(cost >= CHECK_US * checks, "{cost} for {checks} checks of {message:?}");
            assert!(checks != 1 || cost < 10 * CHECK_US, "{cost} for {message:?}");
            kinds.insert(bytes[1]);
        }
    }
    assert!(kinds.len() > 12, "{kinds:?}");
    assert!(AutobahnVerifier::new(config, committee, signatures).cost(&[]) > 0);
}

/// Validator 0's lane. Only validator 2 holds the first cars and only 0 and 2 voted for them: all others fetch them.
fn behind(config: Config) -> (Cluster, ScriptedValidator, Vec<SignedCar>, Availability) {
    let (mut cluster, mut scripted) = without_owner(config);
    let (mut cars, mut certificate) = (Vec::new(), None);
    let mut tip = scripted.context.start(FORKER);
    for _ in 0..5 {
        let car = scripted.car(tip, certificate.clone(), 10);
        tip = scripted.tip(&car);
        tell(&mut cluster, 2, &Message::Car(car.clone()));
        cluster.run_for(1);
        certificate = Some(scripted.certificate(&cluster, tip, &[2]));
        cars.push(SignedCar { certificate: None, ..car });
    }
    (cluster, scripted, cars, certificate.unwrap())
}

/// Copies of these cars with false signatures.
fn false_signatures(cars: &[SignedCar]) -> Vec<SignedCar> {
    cars.iter().map(|car| SignedCar { signature: [7; 64], ..car.clone() }).collect()
}

#[test]
fn certified_chain_needs_no_car_signatures() {
    let (mut cluster, scripted, cars, certificate) = behind(plain());
    // Validator 1 asks the signers; 0 is the first of them and responds with false signatures.
    let next = scripted.clone().car(certificate.tip, Some(certificate.clone()), 10);
    tell(&mut cluster, 1, &Message::Car(next.clone()));
    tell(&mut cluster, 1, &Message::Cars { tip: certificate.tip, cars: false_signatures(&cars) });
    assert_eq!(cluster.position(1, 0)[2], 6, "held, and voted for");
    cluster.run_for(5);
    // Validator 3 gets it from validator 1, which is not blamed for that.
    let newest = scripted.tip(&next);
    let certified = scripted.certificate(&cluster, newest, &[1]);
    tell(&mut cluster, 3, &Message::Available(certified.clone()));
    let after = scripted.clone().car(newest, Some(certified), 11);
    cluster.set_rule(
        |_, from, to, _| if from == 2 && to == 3 { crate::cluster::LOST } else { corniche_testkit::Delivery::Normal },
    );
    tell(&mut cluster, 3, &Message::Car(after));
    cluster.run_for(3_000);
    assert_eq!(cluster.position(3, 0)[2], 7);
    assert!((1..4).all(|node| cluster.seen(node).refused.is_empty() && cluster.seen(node).accused.is_empty()));
    // The owner is not shown any car as its own that it did not sign.
    let lanes = vec![Position(0); 4];
    let request =
        Status { nonce: 9, wants_response: true, committed: None, receiver_car: None, lanes, disk_id: None, peer_disk: None };
    let message = Message::Status(request).encode();
    for node in 1..4 {
        cluster.receive(0, node, &message);
        let shown = cluster.seen(node).sent.iter().rev().find_map(|(_, _, message)| match message {
            Message::Status(status) if status.nonce == 9 => status.receiver_car.clone(),
            _ => None,
        });
        let signed = |car: &SignedCar| FakeSignatures.verify(FORKER, &scripted.context.car(&car.car), &car.signature);
        assert!(shown.is_none_or(|car| signed(&car)), "validator {node}");
    }
}

#[test]
fn uncertified_body_needs_owner_signature() {
    for signed in [false, true] {
        let (mut cluster, mut scripted) = without_owner(Config { optimistic_tips: false, view_timeout_ms: 300, ..plain() });
        let first = scripted.car(scripted.context.start(FORKER), None, 10);
        let parent = scripted.tip(&first);
        (1..4).for_each(|to| tell(&mut cluster, to, &Message::Car(first.clone())));
        cluster.run_for(50);
        let certificate = scripted.certificate(&cluster, parent, &[1]);
        let car = scripted.car(parent, None, 10);
        let tip = scripted.tip(&car);
        let (mut cut, previous) = scripted.next_cut(&cluster);
        cut.tips[FORKER.as_usize()] = tip;
        tell(&mut cluster, 1, &scripted.prepare(cut, vec![certificate], previous));
        let asked = |message: &Message| matches!(message, Message::FetchCars { tip: asked, .. } if *asked == tip);
        assert_eq!(cluster.seen(1).count(asked), 1);
        let voted = |message: &Message| matches!(message, Message::PrepareVote { .. } | Message::CarVote { .. });
        let before = cluster.seen(1).count(voted);
        let cars = if signed { vec![car] } else { false_signatures(&[car]) };
        tell(&mut cluster, 1, &Message::Cars { tip, cars });
        cluster.run_for(5);
        assert_eq!(cluster.seen(1).count(voted) > before, signed);
    }
}

#[test]
fn fork_report_needs_two_signatures() {
    let (mut cluster, mut scripted, cars, certificate) = behind(plain());
    // Validator 1 holds another car at position 1, then fetches the certified chain with false signatures.
    let fork = scripted.car(scripted.context.start(FORKER), None, 12);
    tell(&mut cluster, 1, &Message::Car(fork));
    let next = scripted.car(certificate.tip, Some(certificate.clone()), 10);
    tell(&mut cluster, 1, &Message::Car(next));
    let asked = |message: &Message| matches!(message, Message::FetchCars { tip, .. } if *tip == certificate.tip);
    assert_eq!(cluster.seen(1).count(asked), 1);
    tell(&mut cluster, 1, &Message::Cars { tip: certificate.tip, cars: false_signatures(&cars) });
    assert!(cluster.seen(1).accused.is_empty(), "nothing is proven");
    assert!(cluster.seen(1).sent.iter().all(|(_, to, _)| *to != Recipients::One(index(1))));
}
