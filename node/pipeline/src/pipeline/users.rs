//! Transactions from users, and what a full node does with them.

use super::Pipeline;
use crate::execution::VerifiedTransaction;
use crate::message::PeerMessage;
use crate::words::{NodeKey, Output};
use corniche_types::TimestampMs;

/// A follower sends what is still in its pool to another validator after this long.
const FORWARD_MS: u64 = 3_000;
/// Most pooled transactions forwarded again at a time.
const FORWARD_AGAIN: usize = 256;

impl Pipeline {
    pub(super) fn submit(&mut self, now: TimestampMs, transaction: VerifiedTransaction, reply: Option<u64>) {
        let hash = transaction.hash();
        let result = self.pool.admit(transaction.clone(), &self.view(), self.base_fee, now);
        if result.is_ok() {
            self.out.push_back(Output::Pending(transaction.clone()));
            if self.own.is_none() {
                self.forward(&transaction);
                self.forward_at.get_or_insert(TimestampMs(now.0 + FORWARD_MS));
            }
        }
        if let Some(reply) = reply {
            self.out.push_back(Output::Submitted { reply, result: result.map(|()| hash) });
        }
    }

    /// A full node gives its users' transactions to one validator at a time: the same one for all of a sender's, so that
    /// they arrive in nonce order, and another one when nothing came of it.
    pub(super) fn forward(&mut self, transaction: &VerifiedTransaction) {
        let validators: Vec<NodeKey> = self.peers.iter().filter_map(|(peer, validator)| validator.map(|_| *peer)).collect();
        if validators.is_empty() {
            return;
        }
        let turn = usize::from(transaction.sender()[19]) + self.forward_turn;
        let to = validators[turn % validators.len()];
        let message = PeerMessage::Transactions(vec![transaction.transaction().raw().clone()]);
        self.out.push_back(Output::Send { to, message });
    }

    pub(super) fn forward_again(&mut self, now: TimestampMs) {
        if self.forward_at.is_none_or(|at| now < at) {
            return;
        }
        self.forward_turn += 1;
        let waiting = self.pool.waiting(FORWARD_AGAIN);
        for transaction in &waiting {
            self.forward(transaction);
        }
        self.forward_at = (!waiting.is_empty()).then_some(TimestampMs(now.0 + FORWARD_MS));
    }
}
