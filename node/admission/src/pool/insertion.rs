//! Adding a transaction: checks, replacement and eviction.

use super::{Pool, entry_bytes};
use crate::{
    DropReason, Event, Refusal, Responsibility, batch,
    order::EvictionValue,
    sender::{Entry, Fees, SenderQueue},
};
use corniche_crypto::VerifiedTransaction;
use corniche_state::{Account, StateView};
use corniche_types::{Address, B256, U256, intrinsic::MAX_INIT_CODE_BYTES, intrinsic_gas};

/// Maximum number of transactions evicted for one new transaction.
const MAX_EVICTIONS: usize = 64;
/// A replacement must raise both fees by at least 1/`REPLACEMENT_DIVISOR`.
const REPLACEMENT_DIVISOR: u128 = 10;

impl Pool {
    /// Checks that need no state: failures are never valid on this chain.
    pub(super) fn check_stateless(&self, transaction: &VerifiedTransaction) -> Result<(), Refusal> {
        let (bytes, min) = (transaction.transaction().raw().len(), batch::MIN_TRANSACTION_BYTES);
        if bytes < min {
            return Err(Refusal::TooShort { bytes, min });
        }
        let (gas, limit) = (transaction.gas_limit(), self.config.gas_limit);
        if gas > limit {
            return Err(Refusal::GasLimit { gas, limit });
        }
        let (tip, max_fee) = (transaction.max_priority_fee_per_gas(), transaction.max_fee_per_gas());
        if tip > max_fee {
            return Err(Refusal::TipAboveFee { tip, max_fee });
        }
        let creation = transaction.kind().is_create();
        let (size, limit) = (transaction.input().len(), MAX_INIT_CODE_BYTES);
        if creation && size > limit {
            return Err(Refusal::InitCodeSize { size, limit });
        }
        let needed = intrinsic_gas(creation, transaction.input(), &transaction.access_list());
        if gas < needed {
            return Err(Refusal::IntrinsicGas { gas, needed });
        }
        if transaction.nonce() == u64::MAX {
            return Err(Refusal::NonceMax { sender: transaction.sender(), nonce: transaction.nonce() });
        }
        Ok(())
    }

    /// Checks against state and pool, then inserts a transaction that is not pooled yet. If it is refused,
    /// only stale transactions are removed.
    pub(super) fn insert(
        &mut self,
        transaction: VerifiedTransaction,
        responsibility: Responsibility,
        view: &dyn StateView,
    ) -> Result<(), Refusal> {
        let (hash, sender, nonce) = (transaction.hash(), transaction.sender(), transaction.nonce());
        let account = view.account(&sender).unwrap_or_default();
        if !self.is_fresh(&sender, &account) {
            self.refresh(sender, &account);
        }
        let cost = self.check_account(&transaction, &account)?;
        let replaced = self.check_replacement(&transaction)?;
        self.check_funds(&transaction, cost, &account)?;
        let own_tail = self.own_tail_to_drop(sender, nonce, replaced.is_some())?;
        let evictions = self.evictions(&transaction, &account, replaced, own_tail)?;

        for (victim, nonce) in evictions {
            self.drop_entry(victim, nonce, DropReason::Evicted);
            self.reindex(victim);
        }
        if let Some(tail) = own_tail {
            self.drop_entry(sender, tail, DropReason::AccountLimit);
        }
        if let Some(replaced) = replaced {
            self.remove(sender, nonce);
            self.events.push_back(Event::Replaced { hash: replaced, by: hash });
        }
        self.bytes += entry_bytes(&transaction);
        self.by_hash.insert(hash, (sender, nonce));
        let (arrival, arrived_at) = (self.next_arrival, self.now);
        self.next_arrival += 1;
        let queue = self.senders.entry(sender).or_default();
        queue.set_nonce(account.nonce);
        queue.insert(
            nonce,
            Entry {
                transaction,
                arrival,
                arrived_at,
                responsibility,
                recipients: Vec::new(),
                cut_after: None,
                cost,
                in_flight_since: None,
                lost: 0,
            },
        );
        self.reindex(sender);
        Ok(())
    }

    /// Adds a transaction that a block skipped, if it is not pooled any more.
    pub(super) fn readmit(&mut self, transaction: VerifiedTransaction, view: &dyn StateView) {
        let hash = transaction.hash();
        let taken = self.check_stateless(&transaction).and_then(|()| self.insert(transaction, Responsibility::ALONE, view));
        if let Err(refusal) = taken {
            self.events.push_back(Event::Dropped { hash, reason: DropReason::Refused(refusal) });
        }
    }

    /// Checks nonce, code and balance; returns the cost.
    fn check_account(&self, transaction: &VerifiedTransaction, account: &Account) -> Result<U256, Refusal> {
        let (sender, nonce, next) = (transaction.sender(), transaction.nonce(), account.nonce);
        if nonce < next {
            return Err(Refusal::NonceTooLow { next, nonce });
        }
        let limit = self.config.max_nonces_ahead;
        if nonce - next > limit {
            return Err(Refusal::NonceTooHigh { next, nonce, limit });
        }
        if account.has_code() && !transaction.is_impersonated() {
            return Err(Refusal::SenderNotEoa { sender, code_hash: account.code_hash });
        }
        transaction.max_cost().ok_or(Refusal::CostOverflow)
    }

    /// The balance must cover all pooled transactions of a sender together.
    fn check_funds(&self, transaction: &VerifiedTransaction, cost: U256, account: &Account) -> Result<(), Refusal> {
        let sender = transaction.sender();
        let others = self.senders.get(&sender).map(|queue| queue.cost_without(transaction.nonce())).unwrap_or_default();
        let want = cost.saturating_add(others);
        if want > account.balance {
            return Err(Refusal::InsufficientFunds { sender, have: account.balance, want });
        }
        Ok(())
    }

    /// Hash of the transaction that this one replaces, if it may.
    fn check_replacement(&self, transaction: &VerifiedTransaction) -> Result<Option<B256>, Refusal> {
        let nonce = transaction.nonce();
        let Some(old) = self.senders.get(&transaction.sender()).and_then(|queue| queue.entries().get(&nonce)) else {
            return Ok(None);
        };
        if !old.is_waiting() {
            return Err(Refusal::BeingOrdered { nonce });
        }
        let needed_max_fee = raised(old.transaction.max_fee_per_gas());
        let needed_tip = raised(old.transaction.max_priority_fee_per_gas());
        if transaction.max_fee_per_gas() < needed_max_fee || transaction.max_priority_fee_per_gas() < needed_tip {
            return Err(Refusal::ReplacementUnderpriced { needed_max_fee, needed_tip });
        }
        Ok(Some(old.transaction.hash()))
    }

    /// For a sender at its limit: its last transaction, which makes room for an earlier one only.
    fn own_tail_to_drop(&self, sender: Address, nonce: u64, replaces: bool) -> Result<Option<u64>, Refusal> {
        let limit = self.config.max_per_sender;
        let Some(queue) = self.senders.get(&sender).filter(|queue| !replaces && queue.entries().len() >= limit) else {
            return Ok(None);
        };
        let tail = queue.tail().map(|entry| entry.transaction.nonce()).filter(|&tail| tail > nonce);
        tail.map(Some).ok_or(Refusal::AccountLimit { limit })
    }

    /// Transactions to evict for this one: last ones of their senders, each of lower value.
    fn evictions(
        &self,
        transaction: &VerifiedTransaction,
        account: &Account,
        replaced: Option<B256>,
        own_tail: Option<u64>,
    ) -> Result<Vec<(Address, u64)>, Refusal> {
        let sender = transaction.sender();
        let queue = self.senders.get(&sender);
        let size_of = |nonce: u64| queue.and_then(|queue| queue.entries().get(&nonce)).map_or(0, Entry::size);
        let freed_bytes = replaced.map_or(0, |_| size_of(transaction.nonce())) + own_tail.map_or(0, size_of);
        let freed = usize::from(replaced.is_some()) + usize::from(own_tail.is_some());
        let mut count = self.by_hash.len() + 1 - freed;
        let mut bytes = self.bytes + entry_bytes(transaction) - freed_bytes;
        let fits = |count: usize, bytes: usize| count <= self.config.max_transactions && bytes <= self.config.max_bytes;

        let next_nonce = queue.map_or(account.nonce, SenderQueue::next_nonce);
        let own_tip = Fees::of(transaction).tip(self.base_fee);
        let chain_tip = match queue.and_then(SenderQueue::lowest_fees) {
            Some(lowest) => lowest.tip(self.base_fee).min(own_tip),
            None => own_tip,
        };
        let value = EvictionValue { ready: transaction.nonce() <= next_nonce, tip: chain_tip };
        let mut evictions = Vec::new();
        let by_value = self.evict_order.iter(self.base_fee);
        let mut cheaper = by_value.take_while(|key| key.value < value).filter(|key| key.sender != sender);
        while !fits(count, bytes) {
            let victim = cheaper.next().filter(|_| evictions.len() < MAX_EVICTIONS).ok_or(Refusal::PoolFull)?;
            let queue = self.senders.get(&victim.sender);
            let entry = queue.and_then(SenderQueue::tail).expect("invariant: only tails are in the order of eviction");
            count -= 1;
            bytes -= entry.size();
            evictions.push((victim.sender, entry.transaction.nonce()));
        }
        Ok(evictions)
    }
}

/// Raises a fee by a tenth, and at least by one wei.
fn raised(fee: u128) -> u128 {
    fee.saturating_add((fee / REPLACEMENT_DIVISOR + u128::from(!fee.is_multiple_of(REPLACEMENT_DIVISOR))).max(1))
}
