//! Overview of the contract: what the calls and the calendar did.
#![allow(clippy::unwrap_used)] // also in helpers

mod support;

use alloy_primitives::{Address, B256, U256};
use corniche_staking::{
    Overview, ReadError, Slots, StateSlots, ValidatorId, ValidatorOverview,
    interface::Staking::*,
    record::{Phase, Registry, Role, Status, Validator},
};
use corniche_state::EmptyState;
use corniche_types::{Epoch, Height, StakingParameters, TimestampMs, Votes};
use support::{Chain, Secrets, account, short_epochs, votes};

const NOTHING: U256 = U256::ZERO;

fn overview(chain: &mut Chain) -> Overview {
    Overview::load(&mut chain.memory, &chain.parameters).unwrap()
}

#[test]
fn validators_and_epoch_are_those_of_the_contract() {
    let mut chain = Chain::new(short_epochs(), &[2, 1, 1, 1, 1]);
    chain.send(account(0), NOTHING, &unbondCall { id: 0, amount: votes(1) }).unwrap();
    chain.send(account(1), NOTHING, &transferOwnershipCall { id: 1, to: account(7) }).unwrap();
    chain.send(account(1), NOTHING, &setEndpointsCall { id: 1, endpoints: b"a\nb".into() }).unwrap();
    chain.send(account(2), NOTHING, &setOperatorCall { id: 2, operator: account(8) }).unwrap();
    for _ in 0..4 {
        chain.next_epoch();
    }
    let Overview { header, announcements, freeze, end, unit, validators } = overview(&mut chain);
    assert_eq!((header.epoch, header.start, header.start_height), (Epoch(4), TimestampMs(1_004_000), Height(40)));
    assert_eq!((announcements, freeze), (Some(TimestampMs(1_004_500)), Some(TimestampMs(1_004_750))));
    assert_eq!((end, unit), (Some(TimestampMs(1_005_000)), votes(1)));
    assert_eq!(
        validators[0],
        ValidatorOverview {
            id: ValidatorId(0),
            owner: account(0),
            next_owner: None,
            operator: account(0),
            fee: account(0),
            bonded: votes(1),
            queued: votes(1),
            free: votes(1),
            jailed_until: Epoch(0),
            keys: Secrets::new(0).keys,
            endpoints: vec![],
            votes: Votes(1),
            next_votes: None,
            is_announced: false,
        }
    );
    assert_eq!((validators[1].next_owner, &validators[1].endpoints[..]), (Some(account(7)), &["a".into(), "b".into()][..]));
    assert_eq!((validators[2].owner, validators[2].operator), (account(2), account(8)));
    for validator in &validators {
        let id = validator.id.0;
        let record = chain.read(&validatorCall { id });
        assert_eq!((validator.bonded, validator.queued), (record.bonded, record.queued));
        assert_eq!(validator.free, chain.read(&freeCall { id }));
    }
}

#[test]
fn next_votes_exist_between_freeze_and_end() {
    let mut chain = Chain::new(short_epochs(), &[1, 1, 1, 1]);
    let owner = account(9);
    chain.send(owner, votes(1), &Secrets::new(9).register(owner)).unwrap();
    let votes = |chain: &mut Chain| -> Vec<(u32, Option<u32>)> {
        overview(chain).validators.iter().map(|one| (one.votes.0, one.next_votes.map(|votes| votes.0))).collect()
    };
    assert_eq!(votes(&mut chain)[4], (0, None), "not seated yet");
    let ids = chain.registered();
    for id in &ids[1..] {
        chain.announce(*id);
    }
    let announced: Vec<_> = overview(&mut chain).validators.iter().map(|one| one.is_announced).collect();
    assert_eq!(announced, [false, true, true, true, true]);
    chain.freeze();
    assert_eq!(votes(&mut chain), [(1, Some(0)), (1, Some(1)), (1, Some(1)), (1, Some(1)), (0, Some(1))]);
    chain.activate();
    assert_eq!(votes(&mut chain), [(0, None), (1, None), (1, None), (1, None), (1, None)]);
    assert!(overview(&mut chain).validators.iter().all(|one| !one.is_announced), "announcements are for one epoch");
    chain.freeze();
    assert_eq!((overview(&mut chain).header.phase, votes(&mut chain)[0]), (Phase::Kept, (0, None)));
}

#[test]
fn jailed_validator_is_shown() {
    let mut chain = Chain::new(short_epochs(), &[1, 1, 1, 1]);
    let validator = Validator::new(ValidatorId(3));
    let status = validator.status(&mut chain.memory).unwrap().unwrap();
    validator.set_status(&mut chain.memory, Status { jailed_until: Epoch(31), ..status }).unwrap();
    assert_eq!(overview(&mut chain).validators.iter().map(|one| one.jailed_until.0).collect::<Vec<_>>(), [0, 0, 0, 31]);
}

#[test]
fn epochs_without_end_have_no_times() {
    let mut chain = Chain::new(StakingParameters { epoch_ms: 0, ..short_epochs() }, &[1]);
    let overview = overview(&mut chain);
    assert_eq!((overview.announcements, overview.freeze, overview.end), (None, None, None));
}

#[test]
fn state_is_read_only() {
    let mut slots = StateSlots(&EmptyState);
    assert!(Overview::load(&mut slots, &short_epochs()).unwrap().validators.is_empty());
    assert_eq!(slots.store(B256::ZERO, B256::ZERO), Err(ReadError::ReadOnly));
    assert_eq!(slots.has_code(Address::ZERO), Ok(false));
    let written = Validator::new(ValidatorId(0)).set_account(&mut slots, Role::Owner, account(1));
    assert_eq!(written, Err(ReadError::ReadOnly));
    assert_eq!(Registry::load(&mut slots).unwrap().insert(&mut slots), Err(ReadError::ReadOnly));
}
