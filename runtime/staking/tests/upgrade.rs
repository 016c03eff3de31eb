//! Upgrades by announcements: whose votes count, and how many are needed.
#![allow(clippy::unwrap_used)] // also in helpers

mod support;

use corniche_staking::{
    ValidatorId,
    calendar::{Announcement, Frozen},
    upgrade::{VersionVotes, next_version},
};
use corniche_types::Votes;
use support::{Chain, Secrets, account, short_epochs, votes};

/// Version of the running epoch.
const RUNNING: u32 = 5;

/// Announces these versions, by number of the validator; 0: the validator is silent.
fn announce(chain: &mut Chain, versions: &[u32]) {
    for (id, version) in (0..).map(ValidatorId).zip(versions) {
        if *version > 0 {
            assert_eq!(chain.announce_version(id, *version), Announcement::Taken);
        }
    }
}

/// Version of the next epoch after these announcements, if the running one ended now.
fn next_after(genesis_votes: &[u32], versions: &[u32]) -> u32 {
    let mut chain = Chain::new(short_epochs(), genesis_votes);
    announce(&mut chain, versions);
    chain.freeze();
    next_version(&mut chain.memory, RUNNING).unwrap()
}

fn add_validator(chain: &mut Chain, number: u64, stake: u64) -> ValidatorId {
    let owner = account(number);
    ValidatorId(chain.send(owner, votes(stake), &Secrets::new(number).register(owner)).unwrap())
}

/// W = 7, F = 2: six votes are needed (U2). W = 4, F = 1: all four.
#[test]
fn upgrade_needs_all_votes_but_half_of_the_faulty() {
    assert_eq!(next_after(&[1; 7], &[6, 6, 6, 6, 6, 5, 5]), 5);
    assert_eq!(next_after(&[1; 7], &[6, 6, 6, 6, 6, 6, 5]), 6);
    assert_eq!(next_after(&[1; 4], &[6, 6, 6, 5]), 5);
    assert_eq!(next_after(&[1; 4], &[6; 4]), 6);
    // Validators with two votes: W = 8, F = 2, and seven votes are those of all four.
    assert_eq!(next_after(&[2; 4], &[6, 6, 6, 5]), 5);
    // W = 7: the one vote of the last one is not needed, two votes are.
    assert_eq!(next_after(&[2, 2, 2, 1], &[6, 6, 6, 5]), 6);
    assert_eq!(next_after(&[2, 2, 2, 1], &[5, 6, 6, 6]), 5);
}

/// Whatever builds know, an epoch is at most one version above the one before.
#[test]
fn one_step_an_epoch() {
    assert_eq!(next_after(&[1; 4], &[9, 8, 7, 6]), 6);
    let mut chain = Chain::new(short_epochs(), &[1; 4]);
    announce(&mut chain, &[7; 4]);
    chain.freeze();
    assert_eq!(next_version(&mut chain.memory, 6), Ok(7));
    assert_eq!(next_version(&mut chain.memory, 7), Ok(7), "nobody knows 8");
    assert_eq!(next_version(&mut chain.memory, u32::MAX), Ok(u32::MAX));
}

/// A committee that is kept decides itself. Newcomers that announced a version are no members of it (B37).
#[test]
fn kept_committee_decides_alone() {
    let mut chain = Chain::new(short_epochs(), &[1; 4]);
    let newcomers: Vec<_> = (4..8).map(|number| add_validator(&mut chain, number, 1)).collect();
    announce(&mut chain, &[6, 6, 0, 0]);
    for id in newcomers {
        assert_eq!(chain.announce_version(id, 6), Announcement::Taken);
    }
    assert_eq!(chain.freeze(), Frozen::Kept);
    assert_eq!(next_version(&mut chain.memory, RUNNING), Ok(5));
    let counted = VersionVotes::of_next_epoch(&mut chain.memory).unwrap();
    assert_eq!((counted.at_least(6), counted.needed, counted.total), (Votes(2), Votes(4), Votes(4)));

    // Too few candidates for another committee, and all members of the kept one know the version.
    let mut parameters = short_epochs();
    parameters.min_validators = 7;
    let mut chain = Chain::new(parameters, &[1; 7]);
    announce(&mut chain, &[6, 6, 6, 6, 6, 6, 0]);
    assert_eq!(chain.freeze(), Frozen::Kept);
    assert_eq!(next_version(&mut chain.memory, RUNNING), Ok(6));
}

/// The next committee decides, not the running one: a member that leaves does not count, a newcomer does.
#[test]
fn next_committee_decides() {
    for (newcomer, expected) in [(5, 5), (6, 6)] {
        let mut chain = Chain::new(short_epochs(), &[1; 4]);
        let id = add_validator(&mut chain, 4, 1);
        announce(&mut chain, &[6, 6, 6, 0]);
        assert_eq!(chain.announce_version(id, newcomer), Announcement::Taken);
        assert!(matches!(chain.freeze(), Frozen::Next(committee) if committee.members.len() == 4));
        assert_eq!(next_version(&mut chain.memory, RUNNING), Ok(expected));
    }
}

/// Registered validators without a seat do not count, on either side of the fraction (B37).
#[test]
fn registered_without_a_seat_do_not_count() {
    let mut parameters = short_epochs();
    parameters.max_validators = 4;
    // They have less stake than the members.
    for (versions, others, expected) in [([6, 6, 6, 5], 6, 5), ([6; 4], 5, 6)] {
        let mut chain = Chain::new(parameters.clone(), &[2; 4]);
        let without_seat: Vec<_> = (4..8).map(|number| add_validator(&mut chain, number, 1)).collect();
        announce(&mut chain, &versions);
        for id in without_seat {
            assert_eq!(chain.announce_version(id, others), Announcement::Taken);
        }
        assert!(matches!(chain.freeze(), Frozen::Next(committee) if committee.members.len() == 4));
        assert_eq!(next_version(&mut chain.memory, RUNNING), Ok(expected));
    }
}

/// Announcements of earlier epochs show what a build knows, but do not decide.
#[test]
fn announcements_count_in_their_epoch() {
    let mut chain = Chain::new(short_epochs(), &[1; 4]);
    announce(&mut chain, &[6; 4]);
    chain.freeze();
    chain.activate();
    let running = VersionVotes::of_next_epoch(&mut chain.memory).unwrap();
    assert!(running.by_version.is_empty() && !running.activates(6));
    let last = VersionVotes::of_last_announcements(&mut chain.memory).unwrap();
    assert_eq!(last.by_version, [(6, Votes(4))].into());
    announce(&mut chain, &[6, 6, 6, 0]);
    chain.freeze();
    assert_eq!(next_version(&mut chain.memory, RUNNING), Ok(5));
}
