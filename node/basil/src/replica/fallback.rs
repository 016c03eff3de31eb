//! The logging shard's part: decisions of the slow path, and the fallback that reconciles them (§3.5, §3.7).

use super::{Output, Replica};
use crate::attestation::{Attestation, Decision, Statement, View};
use crate::certificate::{Proposal, majority};
use crate::message::{Message, Peer};
use crate::record::Record;
use crate::shards::ReplicaId;
use crate::shared::Shared;
use crate::transaction::{SignedTransaction, TransactionId};
use crate::verify::leader;
use crate::views::next_view;
use corniche_types::TimestampMs;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A replica's decision and view for one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// The logged decision, and the view in which it was logged.
    logged: Option<(Decision, View)>,
    current_view: View,
    /// The view does not change before this time (B.4).
    view_until: TimestampMs,
}

impl State {
    pub(super) fn restore(&mut self, decision: Decision, decision_view: View, current_view: View) {
        *self = Self { logged: Some((decision, decision_view)), current_view, view_until: TimestampMs(0) };
    }

    /// `None` without a logged decision.
    pub(super) fn record(&self, transaction: &Shared<SignedTransaction>) -> Option<Record> {
        let (decision, decision_view) = self.logged?;
        let (transaction, current_view) = (transaction.clone(), self.current_view);
        Some(Record::Logged { transaction, decision, decision_view, current_view })
    }
}

/// Elections that this replica collects as a leader. Bounded for each sender.
#[derive(Default)]
pub(super) struct Elections {
    collected: BTreeMap<(TransactionId, View), BTreeMap<ReplicaId, (Decision, Attestation)>>,
    /// DecFb of elections that are complete: the first 4f + 1 that came.
    reconciled: BTreeMap<(TransactionId, View), Arc<Message>>,
    /// Elections of each sender, oldest first.
    order: BTreeMap<ReplicaId, VecDeque<(TransactionId, View)>>,
}

impl Elections {
    /// Returns false for a repeated one.
    fn insert(&mut self, id: TransactionId, view: View, decision: Decision, attestation: Attestation, max: usize) -> bool {
        let sender = attestation.replica;
        let votes = self.collected.entry((id, view)).or_default();
        if votes.contains_key(&sender) {
            return false;
        }
        votes.insert(sender, (decision, attestation));
        let order = self.order.entry(sender).or_default();
        order.push_back((id, view));
        if order.len() > max
            && let Some(oldest) = order.pop_front()
            && let Some(votes) = self.collected.get_mut(&oldest)
        {
            votes.remove(&sender);
            if votes.is_empty() {
                self.collected.remove(&oldest);
                self.reconciled.remove(&oldest);
            }
        }
        true
    }
}

impl Replica {
    /// ST2 (W1): logs the first justified decision. Afterwards the stored one is the reply, whatever was proposed.
    pub(super) fn receive_log(&mut self, now: TimestampMs, from: Peer, proposal: &Proposal) {
        if let Some(id) = self.adopt_proposal(now, from, proposal) {
            self.report_logged(now, from, id);
        }
    }

    /// Returns `None` if the transaction is decided, which the sender hears, or this shard does not log it.
    fn adopt_proposal(&mut self, now: TimestampMs, from: Peer, proposal: &Proposal) -> Option<TransactionId> {
        let id = proposal.transaction.id(&self.shards);
        if proposal.transaction.logging_shard(&id, &self.shards) != self.id.shard {
            return None;
        }
        let max = self.config.max_interested;
        if !self.learn(now, from, id, &proposal.transaction) {
            return None;
        }
        let entry = self.entry(id);
        if let Some(decided) = entry.decided.clone() {
            self.send(from, Message::Writeback(decided));
            return None;
        }
        entry.add_interested(from, max);
        // The view moves only with a decision, so view 0 is the current one here.
        if entry.fallback.logged.is_none() {
            entry.fallback.logged = Some((proposal.decision, 0));
            self.record_logged(now, id);
        }
        Some(id)
    }

    fn record_logged(&mut self, now: TimestampMs, id: TransactionId) {
        let entry = self.entry(id);
        let record = entry.transaction.as_ref().and_then(|transaction| entry.fallback.record(transaction));
        if let Some(record) = record {
            self.replies.record(now, &self.config, record);
        }
    }

    /// ST2R, or the bare view.
    pub(super) fn report_logged(&mut self, now: TimestampMs, to: Peer, id: TransactionId) {
        let Some(statement) = self.logged_statement(id) else { return };
        self.reply(now, vec![to], statement, None);
    }

    fn logged_statement(&self, id: TransactionId) -> Option<Statement> {
        let entry = self.transactions.get(&id).filter(|entry| entry.decided.is_none())?;
        let State { logged, current_view, .. } = entry.fallback;
        Some(logged.map_or(Statement::View { id, view: current_view }, |(decision, decision_view)| Statement::Logged {
            id,
            decision,
            decision_view,
            current_view,
        }))
    }

    /// InvokeFB (F3 to F5).
    pub(super) fn invoke_fallback(
        &mut self,
        now: TimestampMs,
        from: Peer,
        proposal: &Proposal,
        views: &BTreeMap<ReplicaId, View>,
    ) {
        let Some(id) = self.adopt_proposal(now, from, proposal) else { return };
        let state = self.entry(id).fallback;
        let target = next_view(state.current_view, views, &self.shards);
        if target > state.current_view && now >= state.view_until {
            let view_until = TimestampMs(now.0.saturating_add(self.config.view_timer_ms(target)));
            let fallback = &mut self.entry(id).fallback;
            (fallback.current_view, fallback.view_until) = (target, view_until);
            self.record_logged(now, id);
        }
        let State { logged, current_view, .. } = self.entry(id).fallback;
        if let Some((decision, decision_view)) = logged
            && decision_view < current_view
        {
            // Repeated if the view is the same, so that a late leader still fills its quorum.
            let leader = leader(id, current_view, self.id.shard, &self.shards);
            self.reply(now, vec![Peer::Replica(leader)], Statement::Elect { id, decision, view: current_view }, None);
        }
        self.report_logged(now, from, id);
    }

    /// F6: the leader reconciles at 4f + 1 elections of one view, once.
    pub(super) fn receive_election(&mut self, now: TimestampMs, attestation: Attestation) {
        let Statement::Elect { id, decision, view } = attestation.statement else { return };
        if attestation.replica.shard != self.id.shard || leader(id, view, self.id.shard, &self.shards) != self.id {
            return;
        }
        let sender = attestation.replica;
        let is_new = self.elections.insert(id, view, decision, attestation, self.config.max_elections);
        if let Some(message) = self.elections.reconciled.get(&(id, view)) {
            // A sender that repeats its election may have lost the result.
            let (to, message) = (Peer::Replica(sender), Arc::clone(message));
            self.outputs.extend((!is_new).then_some(Output::Send { to, message }));
            return;
        }
        let Some(votes) = self.elections.collected.get(&(id, view)) else { return };
        if votes.len() < self.shards.reachable() {
            return;
        }
        let decision = majority(votes.values().map(|(decision, _)| *decision), &self.shards);
        let elections: Vec<_> = votes.values().map(|(_, attestation)| attestation.clone()).collect();
        let message = Arc::new(Message::Decide { id, decision, view, elections });
        self.elections.reconciled.insert((id, view), Arc::clone(&message));
        for peer in self.peers() {
            self.outputs.push_back(Output::Send { to: Peer::Replica(peer), message: Arc::clone(&message) });
        }
        self.receive_decide(now, id, decision, view);
    }

    /// DecFb (F7). A second one of the same view changes nothing (pitfall 6).
    pub(super) fn receive_decide(&mut self, now: TimestampMs, id: TransactionId, decision: Decision, view: View) {
        let is_open = |entry: &&mut super::Entry| entry.decided.is_none() && entry.transaction.is_some();
        let Some(entry) = self.transactions.get_mut(&id).filter(is_open) else { return };
        let state = &mut entry.fallback;
        let is_newer = state.logged.is_none_or(|(_, decision_view)| view > decision_view);
        if view < state.current_view || !is_newer {
            return;
        }
        if view > state.current_view {
            state.view_until = TimestampMs(now.0.saturating_add(self.config.view_timer_ms(view)));
        }
        (state.logged, state.current_view) = (Some((decision, view)), view);
        let interested: Vec<_> = entry.interested.iter().copied().collect();
        self.record_logged(now, id);
        if let Some(statement) = self.logged_statement(id) {
            self.reply(now, interested, statement, None);
        }
    }
}
