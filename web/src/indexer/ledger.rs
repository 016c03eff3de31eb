//! Token balances, summed up from events.
//!
//! Events are claims of the contract. A token whose events transfer more than a holder has is marked as inconsistent;
//! its numbers are then only sums of events. They saturate at zero and at 256 bits.

use super::events::{Standard, TokenEvent};
use alloy_primitives::{Address, U256};
use std::collections::{BTreeMap, BTreeSet};

/// Key of a balance: token, holder, id. Without an id it is the holder's total of all ids.
pub type Key = (Address, Address, Option<U256>);

/// Totals of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sums {
    /// Standard, from the shape of its first event.
    pub standard: Standard,
    /// Minted and not burned; for tokens with ids, the total of all ids.
    pub supply: U256,
    /// Number of accounts with a balance.
    pub holders: u64,
    /// Number of transfers.
    pub transfers: u64,
    /// `false` if a transfer exceeded the sender's balance.
    pub consistent: bool,
}

impl Sums {
    /// Totals of a token without any event.
    pub fn new(standard: Standard) -> Self {
        Self { standard, supply: U256::ZERO, holders: 0, transfers: 0, consistent: true }
    }
}

/// Loaded balances and totals, and their changes.
#[derive(Debug, Default)]
pub struct Ledger {
    balances: BTreeMap<Key, U256>,
    sums: BTreeMap<Address, Sums>,
    changed: BTreeSet<Key>,
}

/// Returns the keys of the balances that these events touch.
pub fn touched<'a>(moved: impl Iterator<Item = &'a TokenEvent>) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    for moved in moved {
        let TokenEvent::Transfer { token, from, to, id, .. } = moved else { continue };
        for holder in [from, to].into_iter().filter(|holder| !holder.is_zero()) {
            keys.extend([(*token, *holder, None), (*token, *holder, *id)]);
        }
    }
    keys
}

impl Ledger {
    /// Loads a balance from the database.
    pub fn load(&mut self, key: Key, amount: U256) {
        self.balances.insert(key, amount);
    }

    /// Loads totals from the database.
    pub fn load_sums(&mut self, token: Address, sums: Sums) {
        self.sums.insert(token, sums);
    }

    /// Applies a transfer.
    pub fn apply(&mut self, moved: &TokenEvent) {
        let TokenEvent::Transfer { token, standard, from, to, id, amount } = moved else { return };
        let mut sums = *self.sums.entry(*token).or_insert_with(|| Sums::new(*standard));
        sums.transfers += 1;
        let ids = if id.is_some() { &[None, *id][..] } else { &[None] };
        if from.is_zero() {
            sums.consistent &= sums.supply.checked_add(*amount).is_some();
            sums.supply = sums.supply.saturating_add(*amount);
        }
        if to.is_zero() {
            sums.consistent &= sums.supply >= *amount;
            sums.supply = sums.supply.saturating_sub(*amount);
        }
        for id in ids {
            if !from.is_zero() {
                self.change((*token, *from, *id), &mut sums, |had| had.checked_sub(*amount).ok_or(U256::ZERO));
            }
            if !to.is_zero() {
                self.change((*token, *to, *id), &mut sums, |had| had.checked_add(*amount).ok_or(U256::MAX));
            }
        }
        self.sums.insert(*token, sums);
    }

    fn change(&mut self, key: Key, sums: &mut Sums, change: impl FnOnce(U256) -> Result<U256, U256>) {
        let had = self.balances.get(&key).copied().unwrap_or_default();
        let has = change(had).unwrap_or_else(|bound| {
            sums.consistent = false;
            bound
        });
        if key.2.is_none() {
            let (gained, lost) = (had.is_zero() && !has.is_zero(), !had.is_zero() && has.is_zero());
            sums.holders = (sums.holders + u64::from(gained)).saturating_sub(lost.into());
        }
        self.balances.insert(key, has);
        self.changed.insert(key);
    }

    /// Returns the totals of all loaded tokens.
    pub fn sums(&self) -> &BTreeMap<Address, Sums> {
        &self.sums
    }

    /// Returns the balances that differ from the loaded ones. A zero balance is to be deleted.
    pub fn changes(&self) -> impl Iterator<Item = (Key, U256)> {
        self.changed.iter().map(|key| (*key, self.balances.get(key).copied().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Address = Address::repeat_byte(1);
    const ALICE: Address = Address::repeat_byte(2);
    const BOB: Address = Address::repeat_byte(3);

    fn moved(from: Address, to: Address, id: Option<u64>, amount: u64) -> TokenEvent {
        let standard = if id.is_some() { Standard::Erc1155 } else { Standard::Erc20 };
        TokenEvent::Transfer { token: TOKEN, standard, from, to, id: id.map(U256::from), amount: U256::from(amount) }
    }

    fn held(ledger: &Ledger) -> Vec<(Address, Option<u64>, u64)> {
        ledger.changes().map(|((_, holder, id), amount)| (holder, id.map(|id| id.to()), amount.to())).collect()
    }

    #[test]
    fn transfers_update_balances_and_supply() {
        let mut ledger = Ledger::default();
        for step in [moved(Address::ZERO, ALICE, None, 10), moved(ALICE, BOB, None, 10), moved(BOB, Address::ZERO, None, 4)] {
            ledger.apply(&step);
        }
        assert_eq!(held(&ledger), [(ALICE, None, 0), (BOB, None, 6)]);
        let sums = ledger.sums()[&TOKEN];
        assert_eq!((sums.supply, sums.holders, sums.transfers, sums.consistent), (U256::from(6), 1, 3, true));
    }

    #[test]
    fn holder_of_two_ids_counts_once() {
        let mut ledger = Ledger::default();
        for step in
            [moved(Address::ZERO, ALICE, Some(1), 1), moved(Address::ZERO, ALICE, Some(2), 5), moved(ALICE, BOB, Some(1), 1)]
        {
            ledger.apply(&step);
        }
        assert_eq!(
            held(&ledger),
            [(ALICE, None, 5), (ALICE, Some(1), 0), (ALICE, Some(2), 5), (BOB, None, 1), (BOB, Some(1), 1)]
        );
        assert_eq!(ledger.sums()[&TOKEN].holders, 2);
    }

    #[test]
    fn self_transfer_changes_nothing() {
        let mut ledger = Ledger::default();
        ledger.apply(&moved(Address::ZERO, ALICE, None, 10));
        ledger.apply(&moved(ALICE, ALICE, None, 10));
        assert_eq!((held(&ledger), ledger.sums()[&TOKEN].holders), (vec![(ALICE, None, 10)], 1));
    }

    #[test]
    fn overdraft_marks_token_inconsistent() {
        let mut ledger = Ledger::default();
        ledger.apply(&moved(ALICE, BOB, None, 10));
        assert_eq!(held(&ledger), [(ALICE, None, 0), (BOB, None, 10)]);
        assert!(!ledger.sums()[&TOKEN].consistent);

        let mut ledger = Ledger::default();
        let all = TokenEvent::Transfer {
            token: TOKEN,
            standard: Standard::Erc20,
            from: Address::ZERO,
            to: BOB,
            id: None,
            amount: U256::MAX,
        };
        ledger.apply(&all);
        ledger.apply(&all);
        assert!(!ledger.sums()[&TOKEN].consistent, "more than there are numbers");
    }
}
