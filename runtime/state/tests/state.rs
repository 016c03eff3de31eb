//! The values in memory: each height reads like a plain map of that height.

use corniche_state::{Account, Changes, EmptyState, Overlay, Snapshot, State, StateView};
use corniche_types::{Address, B256, Bytes, Height, U256, keccak256};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn address(number: u8) -> Address {
    Address::with_last_byte(number)
}

fn slot(number: u8) -> B256 {
    B256::with_last_byte(number)
}

fn balance(wei: u64) -> Account {
    Account { balance: U256::from(wei), ..Account::default() }
}

#[derive(Clone, Debug, Default)]
struct Model {
    accounts: BTreeMap<Address, Account>,
    storage: BTreeMap<(Address, B256), B256>,
}

impl Model {
    fn apply(&mut self, changes: &Changes) {
        for (address, account) in &changes.accounts {
            match account.clone().filter(|account| !account.is_empty()) {
                Some(account) => self.accounts.insert(*address, account),
                None => self.accounts.remove(address),
            };
        }
        self.storage.extend(changes.storage.iter().map(|(key, value)| (*key, *value)));
    }

    fn check(&self, view: &dyn StateView) {
        for number in 0..8 {
            assert_eq!(view.account(&address(number)), self.accounts.get(&address(number)).cloned());
            for index in 0..8 {
                let expected = self.storage.get(&(address(number), slot(index))).copied().unwrap_or_default();
                assert_eq!(view.storage(&address(number), &slot(index)), expected);
            }
        }
    }
}

fn any_changes() -> impl Strategy<Value = Changes> {
    let accounts = prop::collection::btree_map((0u8..8).prop_map(address), prop::option::of((0u64..4).prop_map(balance)), 0..4);
    let storage = prop::collection::btree_map((0u8..8, 0u8..8), 0u8..3, 0..8)
        .prop_map(|map| map.into_iter().map(|((a, s), value)| ((address(a), slot(s)), slot(value))).collect());
    (accounts, storage).prop_map(|(accounts, storage)| Changes { accounts, storage, ..Changes::default() })
}

#[derive(Clone, Debug)]
enum Step {
    Apply(Changes, u64),
    Prune(u64),
    Hold(u64),
    Release(prop::sample::Index),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any_changes(), 1u64..3).prop_map(|(changes, gap)| Step::Apply(changes, gap)),
        1 => (0u64..40).prop_map(Step::Prune),
        1 => (0u64..40).prop_map(Step::Hold),
        1 => any::<prop::sample::Index>().prop_map(Step::Release),
    ]
}

proptest! {
    /// Applies blocks, takes and drops snapshots, and prunes. Every readable height and every held snapshot keeps its
    /// values.
    #[test]
    fn readable_heights_match_map_model(steps in prop::collection::vec(any_step(), 1..40), seed in any::<u64>()) {
        let state = State::with_seed(seed);
        let mut models: BTreeMap<Height, Model> = BTreeMap::new();
        let mut held: Vec<Snapshot> = Vec::new();
        let mut pruned = Height(0);
        for step in steps {
            match step {
                Step::Apply(changes, gap) => {
                    let (last, mut model) = models.last_key_value().map(|(h, m)| (h.0, m.clone())).unwrap_or_default();
                    model.apply(&changes);
                    let height = Height(last + gap);
                    // A height without a block reads as the one below it.
                    for between in last + 1..height.0 {
                        if let Some(model) = models.get(&Height(last)).cloned() {
                            models.insert(Height(between), model);
                        }
                    }
                    models.insert(height, model);
                    state.apply(height, &changes);
                }
                Step::Prune(height) => {
                    state.prune_below(Height(height));
                    pruned = pruned.max(Height(height));
                }
                Step::Hold(height) => held.extend(state.at(Height(height))),
                Step::Release(index) if !held.is_empty() => {
                    held.swap_remove(index.index(held.len()));
                }
                Step::Release(_) => {}
            }
            for snapshot in &held {
                models[&snapshot.height()].check(snapshot);
            }
            for (height, model) in &models {
                match state.at(*height) {
                    Some(snapshot) => model.check(&snapshot),
                    None => assert!(*height < pruned, "only pruning forgets"),
                }
            }
            if let Some((head, model)) = models.last_key_value() {
                let latest = state.latest();
                assert_eq!(latest.height(), *head);
                model.check(&latest);
            }
        }
    }
}

fn with_balance(wei: u64) -> Changes {
    Changes { accounts: [(address(1), Some(balance(wei)))].into(), ..Changes::default() }
}

#[test]
fn unavailable_heights_return_none() {
    let state = State::default();
    assert!(state.at(Height(0)).is_none());
    for height in 0..5 {
        state.apply(Height(height), &with_balance(height + 1));
    }
    assert!(state.at(Height(5)).is_none(), "still to come");
    state.prune_below(Height(3));
    assert!(state.at(Height(2)).is_none(), "pruned");
    assert_eq!(state.at(Height(3)).unwrap().account(&address(1)), Some(balance(4)));
    state.prune_below(Height(100));
    assert_eq!(state.latest().account(&address(1)), Some(balance(5)), "the head is never pruned");
}

#[test]
fn snapshot_blocks_pruning() {
    let state = State::default();
    state.apply(Height(0), &with_balance(1));
    let old = state.latest();
    let clone = old.clone();
    state.apply(Height(1), &with_balance(2));
    state.prune_below(Height(1));
    assert_eq!(old.account(&address(1)), Some(balance(1)));
    drop(old);
    state.prune_below(Height(1));
    assert_eq!(clone.account(&address(1)), Some(balance(1)), "a clone holds as well");
    drop(clone);
    state.prune_below(Height(1));
    assert!(state.at(Height(0)).is_none());
}

#[test]
#[should_panic(expected = "ascending order")]
fn height_is_applied_once() {
    let state = State::default();
    state.apply(Height(3), &Changes::default());
    state.apply(Height(3), &Changes::default());
}

#[test]
fn overlay_prefers_its_changes() {
    let state = State::default();
    let code = Bytes::from_static(b"code");
    let mut changes = with_balance(1);
    changes.storage.insert((address(1), slot(1)), slot(7));
    changes.code.insert(keccak256(&code), code.clone());
    state.apply(Height(0), &changes);
    let base = state.latest();
    let gone = Changes { accounts: [(address(1), None)].into(), ..Changes::default() };
    let overlay = Overlay { base: &base, changes: &gone };
    assert_eq!(overlay.account(&address(1)), None, "removed on top");
    assert_eq!(overlay.storage(&address(1), &slot(1)), slot(7), "untouched below");
    assert_eq!(overlay.code(&keccak256(&code)), Some(code));
    assert_eq!(EmptyState.account(&address(1)), None);
}

#[test]
fn empty_snapshot_stays_empty() {
    let state = State::default();
    let nothing = state.latest();
    state.apply(Height(0), &with_balance(1));
    assert_eq!((nothing.height(), nothing.account(&address(1))), (Height(0), None));
    assert_eq!(state.latest().account(&address(1)), Some(balance(1)));
}

/// Memory depends on the existing keys and the kept heights, not on the age of the node.
#[test]
fn deleted_entries_free_memory() {
    let state = State::default();
    let block = |height: u64| {
        let number = |index: u64| (height * 3 + index) % 40;
        let account = |index| (Address::from_word(U256::from(number(index)).into()), Some(balance(height)));
        let gone = |index| (Address::from_word(U256::from((number(index) + 20) % 40).into()), None);
        Changes { accounts: (0..5).map(gone).chain((0..5).map(account)).collect(), ..Changes::default() }
    };
    let mut early = 0;
    for height in 0..600 {
        state.apply(Height(height), &block(height));
        state.prune_below(Height(height.saturating_sub(10)));
        if height == 100 {
            early = state.size().1;
        }
    }
    assert_eq!(state.size().1, early);
    let accounts = (0..40u64).map(|number| (Address::from_word(U256::from(number).into()), None)).collect();
    state.apply(Height(600), &Changes { accounts, ..Changes::default() });
    assert!(state.size().0 >= 15, "history is kept");
    state.prune_below(Height(600));
    assert_eq!(state.size().0, 0);
}

#[test]
fn code_in_use_matches_accounts() {
    let state = State::default();
    assert!(state.code_in_use().is_empty());
    let [first, second, unused] = [&b"first"[..], b"second", b"unused"].map(Bytes::from_static);
    let account = |code: &Bytes, gas_version| {
        Some(Account { nonce: 1, code_hash: keccak256(code), abi_version: 1, gas_version, ..Account::default() })
    };
    let mut changes = Changes::default();
    changes.code.extend([&first, &second, &unused].map(|code| (keccak256(code), code.clone())));
    let accounts = [account(&first, 1), account(&first, 1), account(&second, 1), account(&second, 2), Some(balance(1))];
    changes.accounts.extend((0..).map(address).zip(accounts));
    state.apply(Height(0), &changes);
    let expected = |codes: &[(&Bytes, u8)]| -> BTreeMap<(B256, u8), Bytes> {
        codes.iter().map(|(code, version)| ((keccak256(code), *version), (*code).clone())).collect()
    };
    assert_eq!(state.code_in_use(), expected(&[(&first, 1), (&second, 1), (&second, 2)]));
    // The newest height counts, even while an older one is readable.
    let changes = Changes { accounts: [(address(0), None), (address(1), None)].into(), ..Changes::default() };
    state.apply(Height(1), &changes);
    assert_eq!(state.code_in_use(), expected(&[(&second, 1), (&second, 2)]));
}
