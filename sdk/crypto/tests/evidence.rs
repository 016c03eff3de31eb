//! Contradictions: which pairs of signed statements prove an offence, and which do not.
#![allow(clippy::unwrap_used)] // also in helpers

use corniche_crypto::{
    BlsSecretKey, ConsensusKey, Domain, Signed,
    evidence::{
        Contradiction, Evidence, EvidenceError, Heading, SlotReport, SlotVote, VoteKind, check as check_with, share_message,
        signing_hash, tags,
    },
};
use corniche_types::{B256, Bytes, Certificate, Epoch, FaultModel, Height, TimestampMs, ValidatorIndex, wire};

const CHAIN_ID: u64 = 7;
const EPOCH: Epoch = Epoch(3);
const COMMITTEE: B256 = B256::repeat_byte(9);
const OFFENDER: ValidatorIndex = ValidatorIndex(2);

fn key() -> ConsensusKey {
    ConsensusKey::from_seed([1; 32])
}

fn bls() -> BlsSecretKey {
    BlsSecretKey::from_seed([2; 32])
}

fn domain(tag: &'static str) -> Domain {
    Domain { tag, chain_id: CHAIN_ID, epoch: EPOCH, committee_hash: COMMITTEE }
}

fn sign(tag: &'static str, digest: B256) -> [u8; 64] {
    Signed::sign(digest, &key(), &domain(tag)).signature
}

fn cut(byte: u8) -> B256 {
    B256::repeat_byte(byte)
}

fn evidence(contradiction: Contradiction) -> Evidence {
    let (consensus_key, bls_key) = (key().public(), bls().public().to_bytes());
    Evidence { chain_id: CHAIN_ID, epoch: EPOCH, offender: OFFENDER, consensus_key, bls_key, contradiction }
}

fn check(contradiction: Contradiction) -> Result<(), EvidenceError> {
    let evidence = evidence(contradiction);
    check_with(&evidence, COMMITTEE, signing_hash(&evidence.consensus_key, &evidence.bls_key))
}

fn heading(round: u64, batch: u8) -> (Heading, [u8; 64]) {
    let heading = Heading {
        author: OFFENDER,
        round,
        timestamp: TimestampMs(5),
        parents: B256::ZERO,
        coin_shares: B256::ZERO,
        batch: cut(batch),
    };
    (heading, sign(tags::BLOCK, domain(tags::BLOCK).digest(&heading)))
}

fn header(height: u64, hash: u8) -> (B256, [u8; 48]) {
    let (height, hash) = (Height(height), cut(hash));
    let message = Certificate::signed_bytes(CHAIN_ID, EPOCH, COMMITTEE, height, hash, FaultModel::Byzantine);
    (hash, bls().sign(&message).to_bytes())
}

/// A share of either kind under a statement's digest.
fn share(digest: B256, is_bls: bool) -> Bytes {
    match is_bls {
        true => bls().sign(&share_message(&domain(tags::AUTOBAHN_SHARE), &digest)).to_bytes().to_vec().into(),
        false => sign(tags::AUTOBAHN_SHARE, digest).to_vec().into(),
    }
}

fn vote(kind: VoteKind, slot: u64, view: u32, value: u8, is_bls: bool) -> SlotVote {
    let tag = match kind {
        VoteKind::Prepared => tags::PREPARED,
        VoteKind::PreparedWeakly => tags::PREPARED_WEAKLY,
        VoteKind::Confirmed => tags::CONFIRMED,
    };
    SlotVote { kind, cut: cut(value), share: share(domain(tag).digest(&(slot, view, cut(value))), is_bls) }
}

#[test]
fn two_blocks_of_a_round() {
    let pair = Contradiction::of_blocks(heading(4, 2), heading(4, 1)).unwrap();
    assert_eq!(check(pair.clone()), Ok(()));
    assert_eq!(Contradiction::of_blocks(heading(4, 1), heading(4, 2)), Some(pair), "in either order");
    assert_eq!(Contradiction::of_blocks(heading(4, 1), heading(5, 1)), None);
    assert_eq!(Contradiction::of_blocks(heading(4, 1), heading(4, 1)), None);
    // A second signature of one block is no offence.
    let (block, signature) = heading(4, 1);
    let mut other = signature;
    other[0] ^= 1;
    assert_eq!(Contradiction::of_blocks((block, signature), (block, other)), None);
    let (mut foreign, signature) = heading(4, 2);
    foreign.author = ValidatorIndex(1);
    assert_eq!(Contradiction::of_blocks(heading(4, 1), (foreign, signature)), None);
    let (unsigned, _) = heading(4, 3);
    let pair = Contradiction::of_blocks((unsigned, heading(4, 1).1), heading(4, 2)).unwrap();
    assert_eq!(check(pair), Err(EvidenceError::Signature));
}

#[test]
fn two_votes_for_a_slot_and_view() {
    use VoteKind::*;
    let votes = |one, other| check(Contradiction::Votes { slot: 5, view: 1, votes: [one, other] });
    for is_bls in [false, true] {
        let vote = |kind, value| vote(kind, 5, 1, value, is_bls);
        assert_eq!(votes(vote(Prepared, 1), vote(Prepared, 2)), Ok(()));
        assert_eq!(votes(vote(Prepared, 1), vote(PreparedWeakly, 2)), Ok(()));
        assert_eq!(votes(vote(PreparedWeakly, 1), vote(Prepared, 2)), Ok(()));
        assert_eq!(votes(vote(Confirmed, 1), vote(Confirmed, 2)), Ok(()));
        let honest = Err(EvidenceError::NoContradiction);
        assert_eq!(votes(vote(PreparedWeakly, 1), vote(Prepared, 1)), honest, "a weak vote may become a strong one");
        assert_eq!(votes(vote(Prepared, 1), vote(Confirmed, 2)), honest);
        assert_eq!(votes(vote(Prepared, 2), vote(Prepared, 1)), honest, "wrong order");
    }
    assert_eq!(votes(vote(Prepared, 5, 1, 1, false), vote(Prepared, 5, 2, 2, false)), Err(EvidenceError::Signature));
    assert_eq!(votes(vote(Prepared, 5, 1, 1, true), vote(Prepared, 6, 1, 2, true)), Err(EvidenceError::Signature));
}

#[test]
fn two_headers_of_one_height() {
    let pair = |one, other| Contradiction::of_headers(Height(6), FaultModel::Byzantine, one, other);
    let contradiction = pair(header(6, 2), header(6, 1)).unwrap();
    assert_eq!(pair(header(6, 1), header(6, 2)), Some(contradiction.clone()), "in either order");
    assert_eq!(check(contradiction), Ok(()));
    assert_eq!(pair(header(6, 1), header(6, 1)), None);
    assert_eq!(check(pair(header(6, 1), header(7, 2)).unwrap()), Err(EvidenceError::Signature), "different heights");
    let crash = Contradiction::of_headers(Height(6), FaultModel::Crash, header(6, 1), header(6, 2)).unwrap();
    assert_eq!(check(crash), Err(EvidenceError::Signature));
    let Contradiction::Headers { height, fault_model, headers: [one, other] } = pair(header(6, 2), header(6, 1)).unwrap()
    else {
        panic!("headers");
    };
    let turned = Contradiction::Headers { height, fault_model, headers: [other, one] };
    assert_eq!(check(turned), Err(EvidenceError::NoContradiction), "wrong order");
}

/// A TIMEOUT must report the last vote: an honest one reports it, or a later one.
#[test]
fn forgotten_vote() {
    use VoteKind::*;
    let timeout = |voted_in, vote, view, report: SlotReport| {
        let share = share(domain(tags::TIMED_OUT).digest(&(5u64, view, report)), false);
        check(Contradiction::ForgottenVote { slot: 5, voted_in, vote, view, report, share })
    };
    let vote = |kind| vote(kind, 5, 2, 1, false);
    let reports = |voted| SlotReport { voted, confirmed: None };
    let honest = Err(EvidenceError::NoContradiction);
    for forgot in [None, Some((1, cut(1))), Some((2, cut(3)))] {
        assert_eq!(timeout(2, vote(Prepared), 2, reports(forgot)), Ok(()), "{forgot:?}");
        assert_eq!(timeout(2, vote(Prepared), 4, reports(forgot)), Ok(()), "{forgot:?}");
        assert_eq!(timeout(2, vote(Prepared), 1, reports(forgot)), honest, "it voted later");
        assert_eq!(timeout(2, vote(PreparedWeakly), 2, reports(forgot)), honest);
        assert_eq!(timeout(2, vote(Confirmed), 2, SlotReport { voted: None, confirmed: forgot }), Ok(()));
    }
    for remembered in [Some((2, cut(1))), Some((3, cut(4)))] {
        assert_eq!(timeout(2, vote(Prepared), 4, reports(remembered)), honest, "{remembered:?}");
        assert_eq!(timeout(2, vote(Confirmed), 4, SlotReport { voted: None, confirmed: remembered }), honest);
    }
}

/// Evidence of each kind that convicts.
fn all_kinds() -> [Evidence; 5] {
    let prepare = |value| (cut(value), sign(tags::AUTOBAHN, domain(tags::PREPARE).digest(&(5u64, 1u32, cut(value)))));
    let vote = |view, value| vote(VoteKind::Prepared, 5, view, value, false);
    let report = SlotReport::default();
    let timeout = share(domain(tags::TIMED_OUT).digest(&(5u64, 3u32, report)), false);
    let contradictions = [
        Contradiction::of_blocks(heading(4, 2), heading(4, 1)).unwrap(),
        Contradiction::of_prepares(5, 1, prepare(1), prepare(2)).unwrap(),
        Contradiction::Votes { slot: 5, view: 1, votes: [vote(1, 1), vote(1, 2)] },
        Contradiction::ForgottenVote { slot: 5, voted_in: 2, vote: vote(2, 1), view: 3, report, share: timeout },
        Contradiction::of_headers(Height(6), FaultModel::Byzantine, header(6, 2), header(6, 1)).unwrap(),
    ];
    contradictions.map(evidence)
}

#[test]
fn evidence_is_for_one_validator_of_one_committee() {
    let [right, ..] = all_kinds();
    let keys = signing_hash(&right.consensus_key, &right.bls_key);
    assert_eq!(check_with(&right, COMMITTEE, keys), Ok(()));
    assert_eq!(check_with(&right, COMMITTEE, B256::ZERO), Err(EvidenceError::Keys));
    assert_eq!(check_with(&right, B256::ZERO, keys), Err(EvidenceError::Signature));
    assert_eq!(check_with(&Evidence { chain_id: 8, ..right.clone() }, COMMITTEE, keys), Err(EvidenceError::Signature));
    assert_eq!(check_with(&Evidence { epoch: Epoch(4), ..right.clone() }, COMMITTEE, keys), Err(EvidenceError::Signature));
    let other = Evidence { offender: ValidatorIndex(3), ..right.clone() };
    assert_eq!(check_with(&other, COMMITTEE, keys), Err(EvidenceError::NoContradiction));
    for right in all_kinds() {
        let kind = right.contradiction.kind();
        let bytes = wire::encode(&right);
        assert!(check_with(&right, COMMITTEE, keys).is_ok() && bytes.len() <= 600, "{kind}: {}", bytes.len());
        // Blocks name their author. For the other kinds the keys, which are those of one member, decide alone.
        let offender = if kind == 0 { 0..0 } else { 17..19 };
        for at in (0..bytes.len()).filter(|at| !offender.contains(at)) {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            let accepted = wire::decode::<Evidence>(&wrong).is_ok_and(|wrong| check_with(&wrong, COMMITTEE, keys).is_ok());
            assert!(!accepted, "{kind}, byte {at}");
        }
    }
}
