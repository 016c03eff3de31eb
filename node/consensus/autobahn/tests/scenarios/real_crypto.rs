//! Row 23: committees with real keys, whose certificates are lists of ed25519 signatures or sums of BLS signatures.
#![cfg(feature = "real-crypto")]

use crate::cluster::{Cluster, DELAY, plain};
use corniche_autobahn::{
    Config, Signatures, Signer,
    crypto::{BlsCertificates, Ed25519Certificates, ValidatorKeys},
    message::{Car, Context, Message, Report, SignedCar, Slot, Statement, View},
};
use corniche_crypto::evidence::{Contradiction, SlotReport, SlotVote, VoteKind, check, signing_hash};
use corniche_crypto::{BlsSecretKey, ConsensusKey};
use corniche_engine::{Committee, Offence, Ordered};
use corniche_testkit::{Links, Micros, genesis};
use corniche_types::{Address, B256, Bytes, ValidatorIndex, ValidatorInfo};
use std::{collections::BTreeSet, sync::Arc};

fn secrets(size: usize) -> Vec<(ConsensusKey, BlsSecretKey)> {
    let seed = |position: usize, kind: u8| [u8::try_from(position).unwrap() * 2 + kind + 1; 32];
    (0..size).map(|position| (ConsensusKey::from_seed(seed(position, 0)), BlsSecretKey::from_seed(seed(position, 1)))).collect()
}

pub fn committee(size: usize) -> Committee {
    let validator = |(consensus, bls): &(ConsensusKey, BlsSecretKey)| ValidatorInfo {
        consensus_key: consensus.public(),
        bls_key: bls.public().to_bytes().to_vec().into(),
        bls_proof: Bytes::new(),
        network_key: B256::ZERO,
        fee_address: Address::ZERO,
        votes: corniche_types::Votes(1),
        stake: None,
    };
    Committee::from_genesis(&genesis("autobahn", secrets(size).iter().map(validator).collect()))
}

pub fn keys(committee: &Committee, bls: bool) -> (Vec<Arc<ValidatorKeys>>, Arc<dyn Signatures>) {
    let signer = |(consensus, share): (ConsensusKey, BlsSecretKey)| {
        Arc::new(ValidatorKeys::new(committee, consensus, bls.then_some(share)).unwrap())
    };
    let signers = secrets(committee.size()).into_iter().map(signer).collect();
    let signatures: Arc<dyn Signatures> = if bls {
        Arc::new(BlsCertificates::new(committee).unwrap())
    } else {
        Arc::new(Ed25519Certificates::new(committee).unwrap())
    };
    (signers, signatures)
}

/// Returns the commits, and the sizes of all certificates.
fn run(size: usize, bls: bool) -> (Vec<(Micros, Ordered)>, BTreeSet<usize>) {
    let committee = committee(size);
    let (signers, signatures) = keys(&committee, bls);
    let signers = signers.into_iter().map(|signer| signer as Arc<dyn Signer>).collect();
    let links = Links::uniform(size, Micros::from_millis(DELAY));
    let config = Config { view_timeout_ms: 200, bls, ..plain() };
    let mut cluster = Cluster::with_keys(links, config, committee, signers, signatures);
    cluster.simulation.start_all();
    cluster.run_for(5 * DELAY);
    for round in 0..8 {
        cluster.submit(1 + round % (size - 1), &format!("t{round}"));
        cluster.run_for(60);
        if round == 3 {
            // Views without a leader: certificates of differing complaints.
            cluster.simulation.crash(0);
        }
    }
    cluster.run_for(3_000);
    cluster.check();
    let is_complaint = |message: &Message| matches!(message, Message::TimeoutQc(_));
    assert!((1..size).any(|node| cluster.seen(node).count(is_complaint) > 0), "there was a view change");
    assert!((0..8).all(|round| cluster.seen(1).delivered_at(&format!("t{round}")).is_some()));
    let seal = |message: &Message| match message {
        Message::Commit(certificate) => Some(certificate.proof.seal.len()),
        Message::TimeoutQc(certificate) => Some(certificate.proof.seal.len()),
        Message::Available(certificate) => Some(certificate.proof.seal.len()),
        _ => None,
    };
    let sent = (1..size).flat_map(|node| cluster.seen(node).sent.iter());
    let seals = sent.filter_map(|(_, _, message)| seal(message)).collect();
    (cluster.seen(1).log.clone(), seals)
}

#[test]
fn row_23_ed25519_and_bls_give_same_run() {
    for size in [4, 7] {
        let ((with_lists, lists), (with_sums, sums)) = (run(size, false), run(size, true));
        assert_eq!(with_lists, with_sums);
        assert_eq!(sums, BTreeSet::from([48]), "whoever signs, however many");
        assert!(lists.iter().all(|bytes| bytes % 64 == 0) && lists.len() >= 2);
    }
}

#[test]
fn shares_and_seals_bind_their_context() {
    for bls in [false, true] {
        let committee = committee(4);
        let (signers, signatures) = keys(&committee, bls);
        let (one, other) = (B256::with_last_byte(1), B256::with_last_byte(2));
        let indices: Vec<_> = committee.indices().collect();
        let shares: Vec<_> = (0..3).map(|node| (indices[node], signers[node].share_digest(&one))).collect();
        assert!(signatures.verify_share(indices[0], &one, &shares[0].1));
        assert!(!signatures.verify_share(indices[0], &other, &shares[0].1));
        assert!(!signatures.verify_share(indices[1], &one, &shares[0].1));
        // A share is not a signature, and a signature is not a share.
        assert!(!signatures.verify_share(indices[0], &one, &signers[0].sign_digest(&one).to_vec().into()));
        let seal = signatures.combine(&shares).unwrap();
        let signed = |digest: B256| -> Vec<_> { (0..3).map(|node| (indices[node], digest)).collect() };
        assert!(signatures.verify_seal(&signed(one), &seal));
        assert!(!signatures.verify_seal(&signed(other), &seal));
        assert!(!signatures.verify_seal(&signed(one)[..2], &seal));
        assert!(!signatures.verify_seal(&[], &seal) && !signatures.verify_seal(&signed(one), &Bytes::new()));
        let others: Vec<_> = vec![(indices[0], one), (indices[1], one), (indices[3], one)];
        assert!(!signatures.verify_seal(&others, &seal));
        // Different statements under one seal.
        let mixed: Vec<_> = vec![(indices[0], signers[0].share_digest(&one)), (indices[1], signers[1].share_digest(&other))];
        let seal = signatures.combine(&mixed).unwrap();
        assert!(signatures.verify_seal(&[(indices[0], one), (indices[1], other)], &seal));
        assert!(!signatures.verify_seal(&[(indices[0], other), (indices[1], one)], &seal));
        assert!(signatures.combine(&[(indices[0], Bytes::from_static(b"noise"))]).is_none());
        // Another chain's committee has other domains.
        let larger = self::committee(7);
        assert!(!keys(&larger, bls).1.verify_share(indices[0], &one, &shares[0].1));
    }
}

/// Votes and TIMEOUTs that validators sign are the statements of evidence.
#[test]
fn signed_votes_are_evidence() {
    use VoteKind::*;
    let (slot, view) = (Slot(5), View(2));
    let [one, other] = [1, 2].map(B256::with_last_byte);
    for bls in [false, true] {
        let committee = committee(4);
        let (signers, _) = keys(&committee, bls);
        let context = Context::new(&committee);
        let share = |statement| signers[1].share_digest(&context.statement(&statement));
        let vote = |kind, cut| {
            let statement = match kind {
                Prepared => Statement::PrepareVote { slot, view, cut },
                PreparedWeakly => Statement::WeakPrepareVote { slot, view, cut },
                Confirmed => Statement::ConfirmAck { slot, view, cut },
            };
            SlotVote { kind, cut, share: share(statement) }
        };
        let votes = |first, second| Contradiction::Votes { slot: 5, view: 2, votes: [vote(first, one), vote(second, other)] };
        let report = Report { confirmed: Some((View(1), other)), voted: None };
        let forgotten = Contradiction::ForgottenVote {
            slot: 5,
            voted_in: 2,
            vote: vote(Prepared, one),
            view: 3,
            report: SlotReport { confirmed: Some((1, other)), voted: None },
            share: share(Statement::Timeout { slot, view: View(3), report }),
        };
        for contradiction in [votes(Prepared, PreparedWeakly), votes(Confirmed, Confirmed), forgotten] {
            let evidence = committee.evidence(ValidatorIndex(1), contradiction).unwrap();
            let keys = signing_hash(&evidence.consensus_key, &evidence.bls_key);
            assert_eq!(check(&evidence, committee.hash(), keys), Ok(()));
        }
    }
}

/// Two cars at one position are shown, but they are no evidence: a validator that lost its disk may have signed them honestly.
#[test]
fn forked_lane_is_no_evidence() {
    const FORKER: ValidatorIndex = ValidatorIndex(0);
    let committee = committee(4);
    let (signers, signatures) = keys(&committee, false);
    let context = Context::new(&committee);
    let start = context.start(FORKER);
    let cars = [1, 2].map(|byte| {
        let (position, batch) = (start.position.next(), vec![byte; 100].into());
        let car = Car { lane: FORKER, position, parent: start.digest, batch };
        let signature = signers[0].sign_digest(&context.car(&car));
        SignedCar { car, signature, certificate: None }
    });
    let signers = signers.into_iter().map(|signer| signer as Arc<dyn Signer>).collect();
    let mut cluster =
        Cluster::with_keys(Links::uniform(4, Micros::from_millis(DELAY)), plain(), committee, signers, signatures);
    cluster.simulation.start_all();
    cluster.run_for(5 * DELAY);
    cluster.simulation.crash(0);
    for car in cars {
        cluster.tell(0, 1, &Message::Car(car));
        cluster.run_for(20);
    }
    let seen = cluster.seen(1);
    assert_eq!((seen.accused.as_slice(), seen.proven), (&[(FORKER, Offence::Equivocation)][..], 0));
}
