//! Evidence: what convicts, and what a conviction costs.
#![allow(clippy::unwrap_used)] // also in helpers

mod support;

use alloy_primitives::{B256, U256};
use alloy_sol_types::SolEvent;
use corniche_crypto::{
    Domain, Signed,
    evidence::{Contradiction, Evidence, tags},
};
use corniche_staking::{
    Notice, NoticeBody, Statement, ValidatorId,
    interface::Staking,
    record::{KeyOwner, PastCommittee, RING_EPOCHS, Validator, ring_epochs},
};
use corniche_types::{Epoch, StakingParameters, TimestampMs, ValidatorIndex, keccak256, wire};
use support::{CHAIN_ID, Chain, Secrets, account, committee_hash, short_epochs, votes};

/// A twentieth of the stake is lost, and a validator is jailed for two epochs.
fn parameters() -> StakingParameters {
    StakingParameters { slash_bps: 500, jail_epochs: 2, ..short_epochs() }
}

/// Ten votes, of which three may be faulty.
fn chain() -> Chain {
    Chain::new(parameters(), &[3, 3, 3, 1])
}

fn domain(tag: &'static str, epoch: Epoch) -> Domain {
    Domain { tag, chain_id: CHAIN_ID, epoch, committee_hash: committee_hash(epoch) }
}

/// A PREPARE of a validator for slot 7, view 1 with this value.
fn prepare(secrets: &Secrets, epoch: Epoch, cut: u8) -> (B256, [u8; 64]) {
    let cut = B256::repeat_byte(cut);
    let digest = domain(tags::PREPARE, epoch).digest(&(7u64, 1u32, cut));
    (cut, Signed::sign(digest, &secrets.consensus, &domain(tags::AUTOBAHN, epoch)).signature)
}

/// Evidence that a validator signed two PREPAREs.
fn evidence(number: u64, epoch: u64) -> Evidence {
    let (secrets, epoch) = (Secrets::new(number), Epoch(epoch));
    let pair = [2, 1].map(|cut| prepare(&secrets, epoch, cut));
    Evidence {
        chain_id: CHAIN_ID,
        epoch,
        offender: ValidatorIndex(number as u16),
        consensus_key: secrets.keys.consensus,
        bls_key: secrets.keys.bls.into(),
        contradiction: Contradiction::of_prepares(7, 1, pair[0], pair[1]).unwrap(),
    }
}

fn report(evidence: &Evidence) -> Staking::reportCall {
    Staking::reportCall { evidence: wire::encode(evidence).into() }
}

/// Reports evidence, and returns what the event says that the validator lost.
fn convict(chain: &mut Chain, evidence: &Evidence) -> U256 {
    chain.send(account(99), U256::ZERO, &report(evidence)).unwrap();
    let event = Staking::Convicted::decode_log_data(chain.logs.last().unwrap()).unwrap();
    assert_eq!((event.epoch, event.kind), (evidence.epoch.0, 1));
    event.slashed
}

fn refuse(chain: &mut Chain, evidence: &Evidence, reason: &str) {
    chain.refuse(account(99), U256::ZERO, &report(evidence), &Staking::NoEvidence { reason: reason.into() });
}

fn stake(chain: &mut Chain, id: u32) -> (U256, U256) {
    let validator = chain.read(&Staking::validatorCall { id });
    (validator.bonded, validator.queued)
}

#[test]
fn conviction_costs_a_part_of_what_voted() {
    let mut chain = chain();
    // Stake added later did not vote.
    chain.send(account(0), votes(100), &Staking::addCall { id: 0 }).unwrap();
    let part = votes(3) / U256::from(20);
    assert_eq!(convict(&mut chain, &evidence(0, 0)), part);
    assert_eq!(stake(&mut chain, 0), (votes(103) - part, U256::ZERO));
    chain.check_balance();
    chain.refuse(account(99), U256::ZERO, &report(&evidence(0, 0)), &Staking::AlreadyConvicted {});
    // It is no candidate for two epochs after this one, and its keys never again.
    let jailed_until = Validator::new(ValidatorId(0)).status(&mut chain.memory).unwrap().unwrap().jailed_until;
    assert_eq!(jailed_until, Epoch(3));
    let is_banned = |chain: &mut Chain, key: B256| KeyOwner::load(&mut chain.memory, key).unwrap().unwrap().is_banned;
    let keys = Secrets::new(0).keys;
    assert!(is_banned(&mut chain, keccak256(keys.consensus)) && is_banned(&mut chain, keccak256(keys.bls)));
    assert!(!is_banned(&mut chain, keccak256(keys.network)) && !is_banned(&mut chain, keccak256(Secrets::new(1).keys.bls)));
    // An offence in another epoch costs again.
    chain.silent_epoch();
    assert_eq!(convict(&mut chain, &evidence(0, 1)), part);
    assert_eq!(Validator::new(ValidatorId(0)).status(&mut chain.memory).unwrap().unwrap().jailed_until, Epoch(4));
}

/// Convictions are found by epoch until the ring has another committee in their place.
#[test]
fn convictions_are_listed_by_epoch() {
    let mut chain = chain();
    convict(&mut chain, &evidence(3, 0));
    convict(&mut chain, &evidence(1, 0));
    chain.silent_epoch();
    convict(&mut chain, &evidence(2, 1));
    let listed = |chain: &mut Chain, epoch: u64| {
        let committee = PastCommittee::load(&mut chain.memory, Epoch(epoch)).unwrap()?;
        let convicted = committee.convicted(&mut chain.memory).unwrap();
        Some(convicted.into_iter().map(|(index, seat)| (index, seat.id.0, seat.votes.0)).collect::<Vec<_>>())
    };
    assert_eq!(listed(&mut chain, 0).unwrap(), [(1, 1, 3), (3, 3, 1)]);
    assert_eq!(listed(&mut chain, 1).unwrap(), [(2, 2, 3)]);
    assert_eq!(listed(&mut chain, 2), None);
    for _ in 1..RING_EPOCHS {
        chain.silent_epoch();
    }
    assert_eq!((listed(&mut chain, 0), listed(&mut chain, 1)), (None, Some(vec![(2, 2, 3)])));
    assert_eq!(listed(&mut chain, RING_EPOCHS), Some(vec![]));
}

#[test]
fn ring_has_the_newest_epochs() {
    let ring = |running| ring_epochs(Epoch(running)).map(|epoch| epoch.0).collect::<Vec<_>>();
    assert_eq!((ring(0), ring(2)), (vec![0], vec![0, 1, 2]));
    assert_eq!((ring(63), ring(64)), ((0..=63).collect(), (1..=64).collect()));
}

#[test]
fn convicted_validator_sits_until_the_next_committee() {
    let mut chain = Chain::new(parameters(), &[1; 5]);
    convict(&mut chain, &evidence(2, 0));
    let members =
        |chain: &mut Chain| -> Vec<u32> { chain.next_epoch().committee.members.iter().map(|member| member.id.0).collect() };
    assert_eq!(members(&mut chain), [0, 1, 3, 4]);
    // It is out of jail in epoch 3, and needs other keys.
    (0..3).for_each(|_| assert_eq!(members(&mut chain), [0, 1, 3, 4]));
    let next = Secrets::mixed([21, 22, 2, 2]);
    chain.send(account(2), U256::ZERO, &next.rotate(2, account(2))).unwrap();
    chain.send(account(2), votes(1), &Staking::addCall { id: 2 }).unwrap();
    assert_eq!(members(&mut chain), [0, 1, 2, 3, 4]);
}

/// Unbonded stake that voted is lost first, the oldest entry first. Stake unbonded before the committee was made is not lost.
#[test]
fn queued_stake_is_liable() {
    let mut chain = Chain::new(StakingParameters { slash_bps: 10_000, ..parameters() }, &[3, 3, 3, 1]);
    chain.send(account(0), votes(2), &Staking::addCall { id: 0 }).unwrap();
    let unbond = |chain: &mut Chain, count| {
        chain.send(account(0), U256::ZERO, &Staking::unbondCall { id: 0, amount: votes(count) }).unwrap();
    };
    unbond(&mut chain, 1);
    chain.next_epoch();
    // Four votes are bonded at the freeze of epoch 0, three of which count. Two are unbonded after it.
    unbond(&mut chain, 2);
    assert_eq!(stake(&mut chain, 0), (votes(2), votes(3)));
    assert_eq!(convict(&mut chain, &evidence(0, 1)), votes(3));
    // The vote that was unbonded before epoch 1 was frozen is left in the queue.
    assert_eq!(stake(&mut chain, 0), (votes(1), votes(1)));
    chain.check_balance();
}

/// More convicted votes than may be faulty: each of these validators loses all that voted, also those convicted before and after.
#[test]
fn too_many_offenders_lose_all() {
    let mut chain = chain();
    let part = votes(3) / U256::from(20);
    assert_eq!(convict(&mut chain, &evidence(0, 0)), part);
    assert_eq!(stake(&mut chain, 0).0, votes(3) - part);
    // With four of ten votes.
    assert_eq!(convict(&mut chain, &evidence(3, 0)), votes(1));
    assert_eq!(stake(&mut chain, 0).0, U256::ZERO);
    chain.check_balance();
    assert_eq!(convict(&mut chain, &evidence(1, 0)), votes(3));
    assert_eq!(stake(&mut chain, 2).0, votes(3));
    chain.check_balance();
    // Other epochs do not count.
    let mut chain = Chain::new(parameters(), &[3, 3, 3, 1]);
    chain.silent_epoch();
    convict(&mut chain, &evidence(0, 0));
    assert_eq!(convict(&mut chain, &evidence(3, 1)), votes(1) / U256::from(20));
}

#[test]
fn wrong_evidence_is_refused() {
    let mut chain = chain();
    let right = evidence(1, 0);
    let changed = |change: &dyn Fn(&mut Evidence)| {
        let mut wrong = right.clone();
        change(&mut wrong);
        wrong
    };
    let pair = [1, 2].map(|cut| prepare(&Secrets::new(1), Epoch(0), cut));
    let prepares = |view, values| Contradiction::Prepares { slot: 7, view, values };
    let (keys, signature) =
        ("the keys are not those of the validator in this epoch", "a signature does not match its statement");
    let order = "the statements do not contradict each other, or are in the wrong order";
    let epoch = "the evidence is for an epoch that is too old";
    for (wrong, reason) in [
        (changed(&|it| it.chain_id += 1), "the evidence is for another chain"),
        (changed(&|it| it.epoch = Epoch(1)), "the evidence is for an epoch that has not begun"),
        (changed(&|it| it.offender = ValidatorIndex(4)), "the committee of this epoch had no member with this index"),
        (changed(&|it| it.offender = ValidatorIndex(2)), keys),
        (changed(&|it| it.consensus_key = Secrets::new(2).keys.consensus), keys),
        (changed(&|it| it.bls_key = Secrets::new(2).keys.bls.into()), keys),
        (changed(&|it| it.contradiction = prepares(2, pair)), signature),
        (changed(&|it| it.contradiction = prepares(1, [pair[1], pair[0]])), order),
        (changed(&|it| it.contradiction = prepares(1, [pair[0], pair[0]])), order),
        (changed(&|it| it.contradiction = prepares(1, [pair[0], (pair[1].0, pair[0].1)])), signature),
    ] {
        refuse(&mut chain, &wrong, reason);
    }
    assert_eq!(chain.balance, votes(10));
    // Signed in another epoch.
    chain.silent_epoch();
    refuse(&mut chain, &Evidence { epoch: Epoch(1), ..right.clone() }, signature);
    // Stake is liable for three epochs.
    (0..2).for_each(|_| _ = chain.silent_epoch());
    assert_eq!(chain.header().epoch, Epoch(3));
    convict(&mut chain, &right);
    chain.silent_epoch();
    refuse(&mut chain, &evidence(2, 0), epoch);
}

/// Validators report with notices, too. They need no account with money.
#[test]
fn notice_convicts() {
    let mut chain = chain();
    let parameters = chain.parameters.clone();
    let author = Secrets::new(2).author();
    let notice = author.report(&mut chain.memory, &parameters, &evidence(1, 0)).unwrap().unwrap();
    let verify = |chain: &mut Chain, entry: &[u8]| {
        Notice::decode(entry).unwrap().verify(&mut chain.memory, &parameters, CHAIN_ID).unwrap()
    };
    assert_eq!(verify(&mut chain, &notice.encode()), Some(notice.clone()));
    let burnt = notice.apply(&mut chain.memory, &parameters, TimestampMs(0)).unwrap();
    assert_eq!(burnt, Some(votes(3) / U256::from(20)));
    assert_eq!(notice.apply(&mut chain.memory, &parameters, TimestampMs(0)).unwrap(), None);
    assert!(!notice.is_missing(&mut chain.memory, &parameters).unwrap());
    assert_eq!(author.report(&mut chain.memory, &parameters, &evidence(1, 0)), Ok(None));
    // A notice with wrong evidence is as good as a wrong signature: its author checked it.
    let mut wrong = evidence(0, 0);
    wrong.offender = ValidatorIndex(3);
    assert_eq!(author.report(&mut chain.memory, &parameters, &wrong), Ok(None));
    let signed = |evidence: Evidence| {
        let statement = Statement { author: ValidatorId(2), body: NoticeBody::Evidence(Box::new(evidence)) };
        let signed = Signed::sign(statement, &Secrets::new(2).consensus, &domain("corniche-notice", Epoch(0)));
        [&[0x7e][..], &borsh::to_vec(&(CHAIN_ID, Epoch(0), signed)).unwrap()].concat()
    };
    assert!(verify(&mut chain, &signed(evidence(0, 0))).is_some());
    assert_eq!(verify(&mut chain, &signed(wrong)), None);
    // Somebody who is not registered cannot.
    assert_eq!(Secrets::new(9).author().report(&mut chain.memory, &parameters, &evidence(0, 0)), Ok(None));
}

/// Three validators tolerate no faulty one, and repairs of a lost disk rely on that.
#[test]
fn small_committees_punish_nobody() {
    let mut chain = Chain::new(StakingParameters { min_validators: 1, ..parameters() }, &[1; 3]);
    refuse(&mut chain, &evidence(0, 0), "the committee of this epoch tolerates no faulty validator, so nobody is punished");
}

/// A node that rebuilds its state keeps evidence for epochs to come.
#[test]
fn evidence_for_later_epochs_is_useful() {
    let mut chain = chain();
    let parameters = chain.parameters.clone();
    let is_useful = |chain: &mut Chain, it: &Evidence| {
        corniche_staking::evidence::is_useful(&mut chain.memory, &parameters, CHAIN_ID, it).unwrap()
    };
    let [now, later] = [evidence(0, 0), evidence(1, 2)];
    assert!(is_useful(&mut chain, &now) && is_useful(&mut chain, &later));
    convict(&mut chain, &now);
    assert!(!is_useful(&mut chain, &now));
    (0..2).for_each(|_| _ = chain.silent_epoch());
    convict(&mut chain, &later);
    assert!(!is_useful(&mut chain, &later));
}
