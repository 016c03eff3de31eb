//! A gateway's knowledge beyond its blocks: transactions that are committed, and whose interval is not closed yet.

use crate::archive::Entry;
use corniche_basil::transaction::{Timestamp, TransactionId, Write};
use corniche_basil_contracts::keys;
use corniche_state::{AccountCode, Changes, Overlay, Snapshot, StateView};
use corniche_types::{Account, Address, B256, Bytes, Receipt};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A committed transaction before its block.
#[derive(Clone, Debug)]
pub struct Early {
    pub entry: Entry,
    /// Number of the block that will contain it.
    pub block: u64,
    /// Unix seconds of that block.
    pub time: u64,
    pub raw: Bytes,
    pub receipt: Receipt,
    pub writes: Vec<Write>,
}

/// State after the newest block and the transactions that are committed since, as far as this gateway knows them.
#[derive(Clone)]
pub struct LiveState {
    base: Snapshot,
    changes: Changes,
}

impl LiveState {
    fn overlay(&self) -> Overlay<'_> {
        Overlay { base: &self.base, changes: &self.changes }
    }

    fn apply(&mut self, writes: &[Write]) {
        let made = keys::changes(writes, &self.overlay());
        self.changes.merge(made);
    }
}

impl StateView for LiveState {
    fn account(&self, address: &Address) -> Option<Account> {
        self.overlay().account(address)
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        self.overlay().storage(address, slot)
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        self.overlay().code(hash)
    }

    fn account_code(&self, address: &Address) -> AccountCode {
        self.overlay().account_code(address)
    }

    fn interrupted(&self) -> bool {
        self.base.interrupted()
    }
}

/// Early transactions, and the state after them.
pub struct Live {
    base: Snapshot,
    early: BTreeMap<B256, Early>,
    /// Hashes in the serial order.
    order: BTreeMap<(Timestamp, TransactionId), B256>,
    /// `None` after a block, or a transaction before another one.
    state: Option<Arc<LiveState>>,
}

impl Live {
    pub fn new(base: Snapshot) -> Self {
        Self { base, early: BTreeMap::new(), order: BTreeMap::new(), state: None }
    }

    pub fn state(&mut self) -> Arc<LiveState> {
        let Self { base, early, order, state } = self;
        let build = || {
            let mut state = LiveState { base: base.clone(), changes: Changes::default() };
            order.values().filter_map(|hash| early.get(hash)).for_each(|early| state.apply(&early.writes));
            Arc::new(state)
        };
        Arc::clone(state.get_or_insert_with(build))
    }

    pub fn get(&self, hash: &B256) -> Option<&Early> {
        self.early.get(hash)
    }

    /// Adds a committed transaction. Certificates need not come in the serial order.
    pub fn insert(&mut self, hash: B256, early: Early) {
        let position = early.entry.position();
        let is_last = self.order.last_key_value().is_none_or(|(last, _)| *last < position);
        match &mut self.state {
            // Most come in order, and nobody else holds the state: then one more costs its own writes.
            Some(state) if is_last => Arc::make_mut(state).apply(&early.writes),
            state => *state = None,
        }
        self.order.insert(position, hash);
        self.early.insert(hash, early);
    }

    /// Continues on the state after a new block, which contains some of the transactions.
    pub fn advance(&mut self, base: Snapshot, contained: impl IntoIterator<Item = B256>) {
        for hash in contained {
            if let Some(early) = self.early.remove(&hash) {
                self.order.remove(&early.entry.position());
            }
        }
        (self.base, self.state) = (base, None);
    }

    pub fn len(&self) -> usize {
        self.early.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::Way;
    use corniche_state::State;
    use corniche_types::{Height, U256};

    fn early(time_us: u64, balance: u64) -> (B256, Early) {
        let account = Account { balance: U256::from(balance), ..Account::default() };
        let changes = Changes { accounts: [(Address::ZERO, Some(account))].into(), ..Changes::default() };
        let values = keys::values(&changes);
        let receipt = Receipt {
            transaction_hash: B256::ZERO,
            type_byte: 2,
            success: true,
            gas_used: 0,
            cumulative_gas_used: 0,
            effective_gas_price: 1,
            sender: Address::ZERO,
            to: None,
            contract_address: None,
            logs: Vec::new(),
            output: Bytes::new(),
        };
        let entry = Entry {
            id: B256::ZERO,
            timestamp: Timestamp { time_us, client: B256::ZERO },
            way: Way::Fast,
            shards: Vec::new(),
            reads: 0,
            writes: 1,
            writers: Default::default(),
            attempts: None,
            recovered: false,
        };
        let writes = values.into_iter().map(|(key, value)| Write { key, value }).collect();
        let hash = B256::with_last_byte(u8::try_from(time_us).unwrap());
        (hash, Early { entry, block: 1, time: 1, raw: Bytes::new(), receipt, writes })
    }

    #[test]
    fn later_timestamps_win_in_any_order_of_arrival() {
        let state = State::default();
        state.apply(Height(0), &Changes::default());
        let balance = |live: &mut Live| live.state().account(&Address::ZERO).map(|account| account.balance.to::<u64>());
        let (first, second, third) = (early(1, 10), early(2, 20), early(3, 30));
        let mut live = Live::new(state.latest());
        assert_eq!(balance(&mut live), None);
        for ((hash, early), expected) in [(second, 20), (third.clone(), 30), (first, 30)] {
            live.insert(hash, early);
            assert_eq!(balance(&mut live), Some(expected), "with the state that was asked for before");
        }
        assert_eq!((balance(&mut live), live.len()), (Some(30), 3));
        let contained = [1, 2].map(B256::with_last_byte);
        state.apply(Height(1), &Changes::default());
        live.advance(state.latest(), contained);
        assert_eq!((balance(&mut live), live.len()), (Some(30), 1));
        live.advance(state.latest(), [third.0]);
        assert_eq!((balance(&mut live), live.len()), (None, 0), "the block's own state counts");
    }
}
