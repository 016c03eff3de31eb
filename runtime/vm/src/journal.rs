//! State changes of one transaction, with undo information.
//!
//! Every value is read from the view once, on first use, and then changed in memory; an account's code may be read once
//! before the account. Each change appends the previous value to a list of undo entries. A checkpoint is a length of
//! that list. Reverting to it undoes all later entries in reverse order. Warm keys, refunds, transient storage and logs
//! are undone in the same way (EIP-2929, EIP-1153, EIP-3529).
//!
//! A credit does not load its account, and a call loads only the called account's code. So payments to one account do
//! not depend on each other (D8 of Basil's rules; see `corniche_state::Additions`). A loaded account stays loaded, with
//! earlier credits included in its balance, and is never in the additions.
//!
//! Invariant: after a revert everything readable through the journal is as it was at the checkpoint.

mod counters;

use crate::{indexed_map::IndexedMap, price, trace};
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_state::{Account, AccountCode, Additions, Changes, Delta, KECCAK_EMPTY, StateView};
use corniche_types::Log;
use std::collections::BTreeMap;

type SlotKey = (Address, B256);

pub(crate) struct Journal<'a> {
    view: &'a dyn StateView,
    /// Nothing is ever removed from these two tables: undo entries refer to positions in them.
    accounts: IndexedMap<Address, Access<AccountEntry>>,
    storage: IndexedMap<SlotKey, Access<Slot>>,
    transient: BTreeMap<SlotKey, B256>,
    /// Code of creations, including reverted ones.
    code: BTreeMap<B256, Bytes>,
    logs: Vec<Log>,
    /// Never negative at the end of a frame: only earlier refunds are subtracted.
    refund: i64,
    undo: Vec<Undo>,
    /// Code of accounts that were not loaded when it was read.
    account_codes: IndexedMap<Address, AccountCode>,
    /// Additions to accounts and slots that are not loaded. Counters with a sum of zero are removed; payments that were
    /// undone remain as zero, so that a trace shows their recipient.
    additions: Additions,
}

/// A key's access status and value.
struct Access<T> {
    warm: bool,
    /// Read once, on first use.
    loaded: Option<T>,
}

impl<T> Access<T> {
    fn new() -> Self {
        Self { warm: false, loaded: None }
    }
}

/// An account's value at the transaction's start and its current one. A missing account is the default value.
struct AccountEntry {
    original: Account,
    current: Account,
}

/// A slot's value at the transaction's start and its current one.
struct Slot {
    original: B256,
    current: B256,
    /// Reference value for the price of stores: the original, or the result of the last counter call.
    priced: B256,
}

enum Undo {
    Account(usize, Account),
    /// A credit to an account that is not loaded: the previous sum.
    Credit(Address, U256),
    Slot(usize, B256),
    /// A counter call on a loaded slot: position, previous value, previous reference value.
    Counted(usize, B256, B256),
    /// A counter call on a slot that is not loaded: its previous sum.
    Counter(SlotKey, Delta),
    Transient(SlotKey, B256),
    WarmAccount(usize),
    WarmSlot(usize),
    Refund(i64),
    Log,
}

/// A point to revert to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checkpoint(usize);

impl<'a> Journal<'a> {
    pub fn new(view: &'a dyn StateView) -> Self {
        Self {
            view,
            accounts: IndexedMap::default(),
            storage: IndexedMap::default(),
            transient: BTreeMap::new(),
            code: BTreeMap::new(),
            logs: Vec::new(),
            refund: 0,
            undo: Vec::new(),
            account_codes: IndexedMap::default(),
            additions: Additions::default(),
        }
    }

    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint(self.undo.len())
    }

    pub fn revert(&mut self, to: Checkpoint) {
        while self.undo.len() > to.0 {
            match self.undo.pop().expect("longer than the checkpoint") {
                Undo::Account(at, before) => {
                    if let Some(account) = &mut self.accounts.value_at(at).loaded {
                        account.current = before;
                    }
                }
                Undo::Credit(address, before) => self.uncredit(address, before),
                Undo::Slot(at, before) => {
                    if let Some(slot) = &mut self.storage.value_at(at).loaded {
                        slot.current = before;
                    }
                }
                Undo::Counted(at, before, priced) => {
                    if let Some(slot) = &mut self.storage.value_at(at).loaded {
                        (slot.current, slot.priced) = (before, priced);
                    }
                }
                Undo::Counter(key, before) => self.uncount(key, before),
                Undo::Transient(key, before) => {
                    self.transient.insert(key, before);
                }
                Undo::WarmAccount(at) => self.accounts.value_at(at).warm = false,
                Undo::WarmSlot(at) => self.storage.value_at(at).warm = false,
                Undo::Refund(before) => self.refund = before,
                Undo::Log => {
                    self.logs.pop();
                }
            }
        }
    }

    // Accounts

    pub fn account(&mut self, address: &Address) -> &Account {
        &self.loaded(address).1.current
    }

    fn update(&mut self, address: &Address, change: impl FnOnce(&mut Account)) {
        let (at, account) = self.loaded(address);
        let before = account.current.clone();
        change(&mut account.current);
        self.undo.push(Undo::Account(at, before));
    }

    /// Returns the code of an account, without loading the account.
    pub fn account_code(&mut self, address: &Address) -> AccountCode {
        if let Some(account) = self.known_account(address) {
            return AccountCode::of(Some(&account.current));
        }
        let view = self.view;
        let at = self.account_codes.index_or_insert(address, || view.account_code(address));
        *self.account_codes.value_at(at)
    }

    /// Adds wei to an account, without loading it.
    pub fn credit(&mut self, address: &Address, wei: U256) {
        if wei.is_zero() {
            return;
        }
        if self.known_account(address).is_some() {
            return self.update(address, |account| *account = std::mem::take(account).credited(wei));
        }
        let before = self.additions.balances.get(address).copied().unwrap_or_default();
        self.undo.push(Undo::Credit(*address, before));
        self.additions.balances.insert(*address, before.saturating_add(wei));
    }

    /// Undoes a credit. `before` is the sum before it, when the account was not loaded; it may be loaded now.
    fn uncredit(&mut self, address: Address, before: U256) {
        match self.known_account(&address) {
            Some(account) => account.current = account.original.clone().credited(before),
            None => _ = self.additions.balances.insert(address, before),
        }
    }

    /// Returns whether the account has this much. Reads nothing if the amount is zero.
    pub fn can_pay(&mut self, address: &Address, wei: U256) -> bool {
        wei.is_zero() || self.account(address).balance >= wei
    }

    /// Subtracts wei; returns false, without a change, if the balance is too low.
    #[must_use]
    pub fn debit(&mut self, address: &Address, wei: U256) -> bool {
        let can_pay = self.can_pay(address, wei);
        if can_pay && !wei.is_zero() {
            self.update(address, |account| account.balance = account.balance.saturating_sub(wei));
        }
        can_pay
    }

    /// Returns false, without a change, if the nonce is at its maximum (EIP-2681).
    #[must_use]
    pub fn bump_nonce(&mut self, address: &Address) -> bool {
        match self.account(address).nonce.checked_add(1) {
            None => false,
            Some(next) => {
                self.update(address, |account| account.nonce = next);
                true
            }
        }
    }

    pub fn set_code(&mut self, address: &Address, hash: B256, code: Bytes, abi_version: u8, gas_version: u8) {
        self.update(address, |account| {
            account.code_hash = hash;
            account.abi_version = abi_version;
            account.gas_version = gas_version;
        });
        self.code.insert(hash, code);
    }

    /// Returns code by its hash. The empty hash has empty code; `None` for any other hash is a broken invariant.
    pub fn code(&self, hash: &B256) -> Option<Bytes> {
        if *hash == KECCAK_EMPTY {
            return Some(Bytes::new());
        }
        self.code.get(hash).cloned().or_else(|| self.view.code(hash))
    }

    /// Like [`code`](Self::code), as a closure that does not borrow the journal.
    pub fn lazy_code(&self, hash: B256) -> impl Fn() -> Option<Bytes> + use<'a> {
        let (created, view) = (self.code.get(&hash).cloned(), self.view);
        move || created.clone().or_else(|| view.code(&hash))
    }

    // Storage

    pub fn storage(&mut self, address: &Address, slot: &B256) -> B256 {
        self.slot(&(*address, *slot)).1.current
    }

    /// Writes a slot and returns the price without the cold surcharge. Updates the refund.
    pub fn store(&mut self, address: &Address, slot: &B256, value: B256) -> u64 {
        let key = (*address, *slot);
        let (at, loaded) = self.slot(&key);
        let before = loaded.current;
        let (gas, refund) = price::store(&loaded.priced, &before, &value);
        if value != before {
            loaded.current = value;
            self.undo.push(Undo::Slot(at, before));
        }
        if refund != 0 {
            self.undo.push(Undo::Refund(self.refund));
            self.refund += refund;
        }
        gas
    }

    pub fn transient(&self, address: &Address, slot: &B256) -> B256 {
        self.transient.get(&(*address, *slot)).copied().unwrap_or_default()
    }

    pub fn store_transient(&mut self, address: &Address, slot: &B256, value: B256) {
        let before = self.transient.insert((*address, *slot), value).unwrap_or_default();
        self.undo.push(Undo::Transient((*address, *slot), before));
    }

    // Access

    /// Marks an account as warm; returns true if it was cold.
    pub fn warm_account(&mut self, address: &Address) -> bool {
        let at = self.accounts.index_or_insert(address, Access::new);
        let cold = !std::mem::replace(&mut self.accounts.value_at(at).warm, true);
        if cold {
            self.undo.push(Undo::WarmAccount(at));
        }
        cold
    }

    /// Marks a slot as warm; returns true if it was cold.
    pub fn warm_slot(&mut self, address: &Address, slot: &B256) -> bool {
        let at = self.storage.index_or_insert(&(*address, *slot), Access::new);
        let cold = !std::mem::replace(&mut self.storage.value_at(at).warm, true);
        if cold {
            self.undo.push(Undo::WarmSlot(at));
        }
        cold
    }

    // Results

    /// Returns whether the view's earlier answers are invalid.
    pub fn interrupted(&self) -> bool {
        self.view.interrupted()
    }

    pub fn log(&mut self, log: Log) {
        self.logs.push(log);
        self.undo.push(Undo::Log);
    }

    /// Gas refund, before the cap.
    pub fn refund(&self) -> u64 {
        u64::try_from(self.refund).unwrap_or(0)
    }

    /// State accesses for a trace; the caller adds `reached`.
    pub fn touched(&self) -> trace::Touched {
        let account = |(address, touched): (&Address, &Access<AccountEntry>)| {
            let AccountEntry { original, current } = touched.loaded.as_ref()?;
            Some((*address, (original.clone(), current.clone())))
        };
        let slot = |(key, touched): (&SlotKey, &Access<Slot>)| {
            (*key, touched.loaded.as_ref().map(|slot| (slot.original, slot.current)))
        };
        let mut touched = trace::Touched {
            accounts: self.accounts.entries().filter_map(account).collect(),
            slots: self.storage.entries().map(slot).collect(),
            reached: Default::default(),
            code: self.code.clone(),
        };
        // The transaction has ended, so reading now creates no dependency.
        for (address, _) in self.account_codes.entries() {
            touched.accounts.entry(*address).or_insert_with(|| {
                let account = self.view.account(address).unwrap_or_default();
                (account.clone(), account)
            });
        }
        for (address, wei) in &self.additions.balances {
            let before = self.view.account(address).unwrap_or_default();
            touched.accounts.insert(*address, (before.clone(), before.credited(*wei)));
        }
        for (key, sum) in &self.additions.counters {
            let before = self.view.storage(&key.0, &key.1);
            touched.slots.insert(*key, Some((before, counters::add(before, *sum))));
        }
        touched
    }

    /// Returns all changes relative to the view, additions to unread values, and logs.
    pub fn finish(mut self) -> (Changes, Additions, Vec<Log>) {
        self.additions.balances.retain(|_, wei| !wei.is_zero());
        let mut changes = Changes::default();
        for (address, touched) in self.accounts.into_entries() {
            let Some(AccountEntry { original, current }) = touched.loaded.filter(|account| account.original != account.current)
            else {
                continue;
            };
            if current.code_hash != original.code_hash
                && let Some(code) = self.code.get(&current.code_hash)
            {
                changes.code.insert(current.code_hash, code.clone());
            }
            changes.accounts.insert(address, (!current.is_empty()).then_some(current));
        }
        let slots = self.storage.into_entries().into_iter();
        let changed = slots.filter_map(|(key, touched)| {
            touched.loaded.filter(|slot| slot.original != slot.current).map(|slot| (key, slot.current))
        });
        changes.storage = changed.collect();
        (changes, self.additions, self.logs)
    }

    /// Loads an account, and returns its position too. Credits to the unread account become part of its balance.
    fn loaded(&mut self, address: &Address) -> (usize, &mut AccountEntry) {
        let at = self.accounts.index_or_insert(address, Access::new);
        let account = self.accounts.value_at(at).loaded.get_or_insert_with(|| {
            let credit = self.additions.balances.remove(address).unwrap_or_default();
            let original = self.view.account(address).unwrap_or_default();
            AccountEntry { current: original.clone().credited(credit), original }
        });
        (at, account)
    }

    /// Returns an account, if it is loaded.
    fn known_account(&mut self, address: &Address) -> Option<&mut AccountEntry> {
        let at = self.accounts.index_of(address)?;
        self.accounts.value_at(at).loaded.as_mut()
    }

    /// Loads a slot, and returns its position too. Additions to the unread slot become part of its value.
    fn slot(&mut self, key: &SlotKey) -> (usize, &mut Slot) {
        let at = self.storage.index_or_insert(key, Access::new);
        let slot = self.storage.value_at(at).loaded.get_or_insert_with(|| {
            let added = self.additions.counters.remove(key).unwrap_or(Delta::ZERO);
            Slot::counted(self.view.storage(&key.0, &key.1), added)
        });
        (at, slot)
    }

    /// Returns a slot and its position, if it is loaded.
    fn known_slot(&mut self, key: &SlotKey) -> Option<(usize, &mut Slot)> {
        let at = self.storage.index_of(key)?;
        self.storage.value_at(at).loaded.as_mut().map(|slot| (at, slot))
    }
}
