//! Reads during writes and pruning: a snapshot always shows one complete, unchanging height.
#![allow(clippy::disallowed_methods)] // threads are what is tested

use corniche_state::{Account, Changes, State, StateView};
use corniche_types::{Address, B256, Height, U256};
use std::sync::atomic::{AtomicBool, Ordering};

const KEYS: u64 = 300;
const HEIGHTS: u64 = 1_500;
/// Number of heights kept below the head.
const KEPT: u64 = 8;

fn address(number: u64) -> Address {
    Address::from_word(U256::from(number + 1).into())
}

/// Every value contains the height, except for the accounts and slots that are deleted at this height.
fn block(height: u64) -> Changes {
    let gone = |number: u64| (number + height).is_multiple_of(7);
    let account = Account { nonce: height, ..Account::default() };
    Changes {
        accounts: (0..KEYS).map(|number| (address(number), (!gone(number)).then(|| account.clone()))).collect(),
        storage: (0..KEYS)
            .map(|number| {
                let value = if gone(number + 3) { B256::ZERO } else { U256::from(height).into() };
                ((address(number), B256::ZERO), value)
            })
            .collect(),
        ..Changes::default()
    }
}

fn check(view: &dyn StateView, height: u64, step: u64) {
    let expected = block(height);
    for number in (0..KEYS).step_by(step as usize) {
        assert_eq!(view.account(&address(number)), expected.accounts[&address(number)], "account {number} at {height}");
        let key = (address(number), B256::ZERO);
        assert_eq!(view.storage(&key.0, &key.1), expected.storage[&key], "slot {number} at {height}");
    }
}

#[test]
fn snapshots_are_consistent_during_writes() {
    let state = State::with_seed(5);
    state.apply(Height(1), &block(1));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..3u64 {
            let (state, done) = (&state, &done);
            scope.spawn(move || {
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let latest = state.latest();
                    let height = latest.height().0;
                    assert!(last <= height, "the head never goes back");
                    last = height;
                    check(&latest, height, 1 + reader * 4);
                    if let Some(older) = state.at(Height(height.saturating_sub(KEPT / 2))) {
                        check(&older, older.height().0, 11);
                    }
                    // Meanwhile other blocks were applied, and heights below this one pruned.
                    check(&latest, height, 7);
                }
            });
        }
        for height in 2..=HEIGHTS {
            state.apply(Height(height), &block(height));
            state.prune_below(Height(height.saturating_sub(KEPT)));
        }
        done.store(true, Ordering::Relaxed);
    });
    check(&state.latest(), HEIGHTS, 1);
}
