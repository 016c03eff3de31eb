//! Epochs: who becomes a member, who is kept, and when stake is free.
#![allow(clippy::unwrap_used)] // also in helpers

mod support;

use alloy_primitives::U256;
use corniche_staking::{
    ValidatorId,
    calendar::{self, Announcement, Frozen},
    interface::Staking::*,
    record::{Attendance, FreezeNumber, Header, KeyOwner, PastCommittee, Phase, Role, Validator, is_convicted, set_convicted},
};
use corniche_types::{Epoch, Height, StakingParameters, TimestampMs, Votes};
use support::{Chain, Secrets, account, short_epochs, votes};

const NOTHING: U256 = U256::ZERO;

fn chain() -> Chain {
    Chain::new(short_epochs(), &[2, 2, 2, 2])
}

fn ids(frozen: &Frozen) -> Vec<u32> {
    match frozen {
        Frozen::Next(committee) => committee.members.iter().map(|member| member.id.0).collect(),
        Frozen::Kept => Vec::new(),
    }
}

fn announce_all(chain: &mut Chain) {
    for id in chain.registered() {
        assert_eq!(chain.announce(id), Announcement::Taken);
    }
}

fn add_validator(chain: &mut Chain, number: u64, stake: U256) -> ValidatorId {
    let owner = account(number);
    ValidatorId(chain.send(owner, stake, &Secrets::new(number).register(owner)).unwrap())
}

#[test]
fn genesis_is_the_first_committee() {
    let mut chain = chain();
    assert_eq!(chain.balance, votes(8));
    chain.check_balance();
    let header = chain.header();
    let (start, start_height) = (TimestampMs(1_000_000), Height(0));
    let expected = Header { epoch: Epoch(0), start, start_height, frozen_in: FreezeNumber::GENESIS, phase: Phase::Open };
    assert_eq!(header, expected);
    let committee = PastCommittee::load(&mut chain.memory, Epoch(0)).unwrap().unwrap();
    assert_eq!((committee.members, committee.total, committee.unit), (4, Votes(8), votes(1)));
    let seat = committee.seat(&mut chain.memory, 3).unwrap().unwrap();
    assert_eq!((seat.id, seat.votes), (ValidatorId(3), Votes(2)));
    assert_eq!(committee.seat(&mut chain.memory, 4), Ok(None));
    assert_eq!(Validator::new(ValidatorId(1)).account(&mut chain.memory, Role::Operator), Ok(account(1)));
}

#[test]
fn announcements_have_a_window() {
    let mut chain = chain();
    let parameters = chain.parameters.clone();
    let mut at =
        |id, ms: u64| calendar::announce(&mut chain.memory, &parameters, ValidatorId(id), 3, TimestampMs(1_000_000 + ms));
    assert_eq!(at(0, 499), Ok(Announcement::OutsideWindow));
    assert_eq!(at(0, 500), Ok(Announcement::Taken));
    assert_eq!(at(0, 501), Ok(Announcement::Repeated));
    assert_eq!(at(1, 749), Ok(Announcement::Taken));
    assert_eq!(at(2, 750), Ok(Announcement::OutsideWindow));
    assert_eq!(at(9, 600), Ok(Announcement::Unknown));
    assert_eq!(Attendance::load(&mut chain.memory, ValidatorId(1)).unwrap().version, 3);
    chain.freeze();
    assert_eq!(chain.announce(ValidatorId(3)), Announcement::OutsideWindow, "the block that froze was late");
}

#[test]
fn silent_validators_are_out_and_come_back() {
    let mut chain = chain();
    let newcomer = add_validator(&mut chain, 4, votes(2));
    announce_all(&mut chain);
    assert_eq!(ids(&chain.freeze()), [0, 1, 2, 3, 4]);
    chain.activate();
    for id in [0, 1, 2, 3].map(ValidatorId) {
        chain.announce(id);
    }
    assert_eq!(ids(&chain.freeze()), [0, 1, 2, 3]);
    assert_eq!(chain.activate().committee.members.len(), 4);
    announce_all(&mut chain);
    assert_eq!(ids(&chain.freeze()), [0, 1, 2, 3, newcomer.0]);
}

#[test]
fn committee_is_kept_without_a_quorum_of_it() {
    let mut chain = chain();
    for number in 4..8 {
        add_validator(&mut chain, number, votes(2));
    }
    // Eight votes: a quorum has six.
    for id in [0, 1, 4, 5, 6, 7].map(ValidatorId) {
        chain.announce(id);
    }
    assert_eq!(chain.freeze(), Frozen::Kept);
    assert_eq!(chain.freeze(), Frozen::Kept, "a second freeze repeats the first one");
    let started = chain.activate();
    assert!(started.kept && started.epoch == Epoch(1));
    assert_eq!((started.committee.members.len(), started.committee.frozen_in), (4, FreezeNumber::GENESIS));
    // Kept three times: the committee moves between both places.
    chain.silent_epoch();
    assert_eq!(chain.silent_epoch().committee, started.committee);
    for id in [0, 1, 2, 4, 5, 6].map(ValidatorId) {
        chain.announce(id);
    }
    assert_eq!(ids(&chain.freeze()), [0, 1, 2, 4, 5, 6]);
    assert_eq!(chain.activate().committee.frozen_in, FreezeNumber(4));
}

#[test]
fn frozen_votes_and_keys_do_not_change() {
    let mut chain = chain();
    announce_all(&mut chain);
    let frozen = chain.freeze();
    chain.send(account(0), NOTHING, &unbondCall { id: 0, amount: votes(2) }).unwrap();
    chain.send(account(1), NOTHING, &Secrets::new(30).rotate(1, account(1))).unwrap();
    chain.send(account(2), NOTHING, &setFeeCall { id: 2, fee: account(60) }).unwrap();
    assert_eq!(chain.freeze(), frozen);
    assert_eq!(Frozen::Next(chain.activate().committee), frozen);
}

#[test]
fn jailed_banned_and_excluded_validators_are_no_candidates() {
    let mut chain = chain();
    let jailed = add_validator(&mut chain, 4, votes(2));
    let banned = add_validator(&mut chain, 5, votes(2));
    let record = Validator::new(jailed);
    let status = record.status(&mut chain.memory).unwrap().unwrap();
    record.set_status(&mut chain.memory, corniche_staking::record::Status { jailed_until: Epoch(1), ..status }).unwrap();
    let hash = Secrets::new(5).keys.hashes()[1];
    KeyOwner { id: banned, is_banned: true }.store(&mut chain.memory, hash).unwrap();
    announce_all(&mut chain);
    assert_eq!(ids(&chain.freeze()), [0, 1, 2, 3]);
    chain.activate();

    announce_all(&mut chain);
    assert_eq!(ids(&chain.freeze()), [0, 1, 2, 3, jailed.0]);
    calendar::keep(&mut chain.memory, &[jailed]).unwrap();
    assert_eq!(chain.freeze(), Frozen::Kept);
    assert!(chain.activate().kept);
    chain.send(account(5), NOTHING, &Secrets::new(6).rotate(banned.0, account(5))).unwrap();
    announce_all(&mut chain);
    assert_eq!(ids(&chain.freeze()), [0, 1, 2, 3, banned.0], "new keys are not banned");
    chain.activate();
    announce_all(&mut chain);
    assert_eq!(ids(&chain.freeze()), [0, 1, 2, 3, jailed.0, banned.0], "excluded once");
}

/// S10 for an unbonding before or after the freeze of epoch 1, with U = 3.
#[test]
fn stake_is_free_after_the_committees_with_it() {
    for (after_freeze, free_in) in [(false, 5), (true, 6)] {
        let mut chain = chain();
        chain.next_epoch();
        announce_all(&mut chain);
        if after_freeze {
            chain.freeze();
        }
        chain.send(account(0), NOTHING, &unbondCall { id: 0, amount: votes(1) }).unwrap();
        chain.freeze();
        assert_eq!(chain.activate().epoch, Epoch(2));
        loop {
            let epoch = chain.header().epoch.0;
            let expected = if epoch >= free_in { votes(1) } else { NOTHING };
            assert_eq!(chain.read(&freeCall { id: 0 }), expected, "after the freeze: {after_freeze}, epoch {epoch}");
            if epoch >= free_in {
                break;
            }
            chain.next_epoch();
        }
        assert_eq!(chain.send(account(0), NOTHING, &withdrawCall { id: 0 }), Ok(votes(1)));
        chain.check_balance();
    }
}

#[test]
fn kept_committees_never_free_voting_stake() {
    let mut chain = chain();
    chain.send(account(0), NOTHING, &unbondCall { id: 0, amount: votes(2) }).unwrap();
    for _ in 0..70 {
        assert!(chain.silent_epoch().kept);
        assert_eq!(chain.read(&freeCall { id: 0 }), NOTHING);
    }
    // Validator 0 has no stake left for the next committee, which is large enough with another one.
    add_validator(&mut chain, 4, votes(2));
    let started = chain.next_epoch();
    assert_eq!(started.committee.members.iter().map(|member| member.id.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
    for _ in 0..2 {
        chain.next_epoch();
        assert_eq!(chain.read(&freeCall { id: 0 }), NOTHING);
    }
    chain.next_epoch();
    assert_eq!(chain.read(&freeCall { id: 0 }), votes(2));
}

#[test]
fn ring_forgets_after_64_epochs() {
    let mut chain = chain();
    set_convicted(&mut chain.memory, Epoch(0), ValidatorId(1)).unwrap();
    assert_eq!(is_convicted(&mut chain.memory, Epoch(0), ValidatorId(1)), Ok(true));
    assert_eq!(is_convicted(&mut chain.memory, Epoch(64), ValidatorId(1)), Ok(false));
    for _ in 0..63 {
        chain.next_epoch();
    }
    assert!(PastCommittee::load(&mut chain.memory, Epoch(0)).unwrap().is_some());
    chain.next_epoch();
    assert_eq!(PastCommittee::load(&mut chain.memory, Epoch(0)), Ok(None));
    assert!(PastCommittee::load(&mut chain.memory, Epoch(64)).unwrap().is_some());
}

#[test]
fn rewards_are_for_votes_without_conviction() {
    let mut chain = chain();
    assert_eq!(chain.next_epoch().rewards, []);
    chain.parameters.reward_wei = U256::from(5);
    set_convicted(&mut chain.memory, Epoch(1), ValidatorId(2)).unwrap();
    // Rewards go to those who sat in epoch 1, at the addresses of its freeze.
    chain.send(account(0), NOTHING, &setFeeCall { id: 0, fee: account(60) }).unwrap();
    let newcomer = add_validator(&mut chain, 4, votes(2));
    let started = chain.next_epoch();
    assert_eq!(started.rewards, [0, 1, 3].map(|owner| (account(owner), U256::from(10))));
    assert_eq!(started.committee.members[4].id, newcomer);
}

#[test]
#[should_panic(expected = "invariant: an epoch ends after its other steps")]
fn epochs_do_not_end_without_a_freeze() {
    chain().activate();
}

/// Equal stakes: the lowest numbers have the seats, and a banned one leaves its seat to the next.
#[test]
fn seats_go_to_the_first_equal_stakes() {
    let parameters = StakingParameters { most_votes: Votes(2), max_validators: 5, ..short_epochs() };
    let mut chain = Chain::new(parameters, &[1, 1, 1, 1]);
    for number in 4..8 {
        add_validator(&mut chain, number, votes(1));
    }
    announce_all(&mut chain);
    assert_eq!(ids(&chain.freeze()), [0, 1, 2, 3, 4]);
    chain.activate();
    KeyOwner { id: ValidatorId(1), is_banned: true }.store(&mut chain.memory, Secrets::new(1).keys.hashes()[0]).unwrap();
    chain.send(account(7), votes(1), &addCall { id: 7 }).unwrap();
    announce_all(&mut chain);
    assert_eq!(ids(&chain.freeze()), [0, 2, 3, 4, 7]);
}

#[test]
fn epoch_without_end_has_no_calendar() {
    let mut chain = Chain::new(StakingParameters { epoch_ms: 0, ..StakingParameters::default() }, &[1]);
    let header = chain.header();
    assert_eq!(calendar::end_time(header.start, &chain.parameters), None);
    assert_eq!(calendar::freeze_time(header.start, &chain.parameters), None);
    let announced = calendar::announce(&mut chain.memory, &chain.parameters, ValidatorId(0), 1, TimestampMs(u64::MAX));
    assert_eq!(announced, Ok(Announcement::OutsideWindow));
}
