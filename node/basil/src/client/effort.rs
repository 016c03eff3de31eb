//! The way of one transaction from its proposal to its certificate (§3.4), also that of another client (§3.7).

use super::{Client, MAX_FINISHED, MAX_HELPED, Output};
use crate::attestation::{Attestation, Decision, Statement, View};
use crate::certificate::{Certificate, Decided, Justification, Proposal, view_of};
use crate::config::Config;
use crate::message::Message;
use crate::shards::{ReplicaId, ShardId, Shards};
use crate::shared::Shared;
use crate::tally::{Tallied, Tally};
use crate::transaction::{Read, SignedTransaction, TransactionId};
use corniche_types::TimestampMs;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A transaction that this client drives.
pub(super) struct Effort {
    pub(super) transaction: Shared<SignedTransaction>,
    pub(super) logging_shard: ShardId,
    pub(super) is_own: bool,
    pub(super) tally: Tally,
    involved: BTreeSet<ShardId>,
    /// The newest ST2R, or bare view, of each member of the logging shard.
    logged: BTreeMap<ReplicaId, Attestation>,
    /// The ST2 that was sent.
    proposal: Option<Shared<Proposal>>,
    /// Decisions differ, and InvokeFB was sent.
    is_divergent: bool,
    /// Missing votes are not waited for after this time. It starts when every shard has 4f + 1.
    votes_until: Option<TimestampMs>,
    /// Missing decisions of the logging shard are not waited for after this time.
    logged_until: Option<TimestampMs>,
    resend_at: TimestampMs,
    resend_ms: u64,
    /// Transactions that this one read from are helped after this time.
    help_at: Option<TimestampMs>,
    /// Number of writers that were helped; the next ones come next.
    helped: usize,
    /// Writers of values that no certificate proved; `None` for another client's transaction.
    pub(super) prepared: Option<BTreeSet<TransactionId>>,
}

/// State of the logging shard's replies (F2, F3).
enum LoggedResult {
    Certificate(Certificate),
    /// f + 1 replicas logged it, so it may be proposed to the others.
    Justified(Decision, Vec<Attestation>),
    Divergent,
    Pending,
}

impl Effort {
    pub(super) fn new(
        now: TimestampMs,
        id: TransactionId,
        transaction: Shared<SignedTransaction>,
        shards: &Shards,
        config: &Config,
        is_own: bool,
    ) -> Self {
        let involved = transaction.involved(shards);
        let resend_ms = config.resend_ms.max(1);
        Self {
            logging_shard: transaction.logging_shard(&id, shards),
            is_own,
            tally: Tally::new(id, &involved),
            involved,
            logged: BTreeMap::new(),
            proposal: None,
            is_divergent: false,
            votes_until: None,
            logged_until: None,
            resend_at: TimestampMs(now.0 + resend_ms),
            resend_ms,
            help_at: (!transaction.reads.is_empty()).then_some(TimestampMs(now.0 + config.recover_ms)),
            helped: 0,
            prepared: None,
            transaction,
        }
    }

    /// True if the transaction read a value of `writer`.
    pub(super) fn has_read_from(&self, writer: &TransactionId) -> bool {
        self.transaction.reads.iter().any(|read| read.version.writer == *writer)
    }

    pub(super) fn insert_logged(&mut self, attestation: Attestation) {
        if attestation.replica.shard != self.logging_shard {
            return;
        }
        let rank = |attestation: &Attestation| match attestation.statement {
            Statement::Logged { decision_view, current_view, .. } => (1, current_view, decision_view),
            Statement::View { view, .. } => (0, view, 0),
            _ => (0, 0, 0),
        };
        let is_newer = self.logged.get(&attestation.replica).is_none_or(|known| rank(known) < rank(&attestation));
        if is_newer {
            self.logged.insert(attestation.replica, attestation);
        }
    }

    pub(super) fn deadline(&self) -> Option<TimestampMs> {
        let votes_until = self.votes_until.filter(|_| self.proposal.is_none());
        let logged_until = self.logged_until.filter(|_| !self.is_divergent);
        [Some(self.resend_at), votes_until, logged_until, self.help_at].into_iter().flatten().min()
    }

    /// Number of members that logged a decision.
    fn logged_count(&self) -> usize {
        self.logged.values().filter(|attestation| matches!(attestation.statement, Statement::Logged { .. })).count()
    }

    /// F2 and F3.
    fn logged_result(&self, shards: &Shards, patience_over: bool) -> LoggedResult {
        let mut groups: BTreeMap<(Decision, View), Vec<&Attestation>> = BTreeMap::new();
        for attestation in self.logged.values() {
            if let Statement::Logged { decision, decision_view, .. } = attestation.statement {
                groups.entry((decision, decision_view)).or_default().push(attestation);
            }
        }
        let largest = groups.iter().max_by_key(|(_, members)| members.len());
        let Some(((decision, _), members)) = largest else { return LoggedResult::Pending };
        if members.len() >= shards.reachable() {
            let members = members.iter().map(|one| (*one).clone()).collect();
            return LoggedResult::Certificate(Certificate::Logged(*decision, members));
        }
        let count: usize = groups.values().map(Vec::len).sum();
        let missing = shards.all() - count;
        // 4f + 1 replied, and no 4f + 1 of them agree, even with those that are missing or after waiting for them.
        let can_agree = members.len() + missing >= shards.reachable() && !patience_over;
        if count >= shards.reachable() && groups.len() > 1 && !can_agree {
            return LoggedResult::Divergent;
        }
        self.justified(shards).map_or(LoggedResult::Pending, |(decision, logged)| LoggedResult::Justified(decision, logged))
    }

    /// The decision that f + 1 members logged, with their replies: a correct one saw votes for it.
    fn justified(&self, shards: &Shards) -> Option<(Decision, Vec<Attestation>)> {
        let mut decisions: BTreeMap<Decision, Vec<&Attestation>> = BTreeMap::new();
        for attestation in self.logged.values() {
            if let Statement::Logged { decision, .. } = attestation.statement {
                decisions.entry(decision).or_default().push(attestation);
            }
        }
        let (decision, logged) = decisions.into_iter().max_by_key(|(_, members)| members.len())?;
        (logged.len() >= shards.validity()).then(|| (decision, logged.into_iter().cloned().collect()))
    }

    fn propose(&self, decision: Decision, justification: Justification) -> Shared<Proposal> {
        Shared::new(Proposal { transaction: self.transaction.clone(), decision, justification })
    }
}

impl Client {
    /// Takes the next step that the replies allow.
    pub(super) fn advance(&mut self, now: TimestampMs, id: TransactionId) {
        let shards = Arc::clone(&self.shards);
        let until = TimestampMs(now.0 + self.config.fast_path_ms);
        let Some(effort) = self.efforts.get_mut(&id) else { return };
        if effort.tally.is_settled(&shards) {
            effort.votes_until.get_or_insert(until);
        }
        if effort.logged_count() >= shards.reachable() {
            effort.logged_until.get_or_insert(until);
        }
        let is_over = |until: Option<TimestampMs>| until.is_some_and(|until| until <= now);
        match effort.logged_result(&shards, is_over(effort.logged_until)) {
            LoggedResult::Certificate(certificate) => {
                let transaction = Shared::clone(&effort.transaction);
                return self.finish(id, Shared::new(Decided { transaction, certificate }), true);
            }
            LoggedResult::Divergent if !effort.is_divergent => return self.invoke_fallback(id),
            // The timer repeats it.
            LoggedResult::Divergent => return,
            LoggedResult::Justified(decision, logged) if effort.proposal.is_none() => {
                return self.log(id, decision, Justification::Logged(logged));
            }
            LoggedResult::Justified(..) | LoggedResult::Pending => {}
        }
        if effort.proposal.is_some() {
            return;
        }
        match effort.tally.result(&shards, is_over(effort.votes_until)) {
            Tallied::Fast(certificate) => {
                let transaction = Shared::clone(&effort.transaction);
                self.finish(id, Shared::new(Decided { transaction, certificate }), true);
            }
            Tallied::Slow(decision, justification) => self.log(id, decision, justification),
            Tallied::Pending => {}
        }
    }

    /// P3: ST2 goes to one shard.
    fn log(&mut self, id: TransactionId, decision: Decision, justification: Justification) {
        let Some(effort) = self.efforts.get_mut(&id) else { return };
        let proposal = effort.propose(decision, justification);
        effort.proposal = Some(Shared::clone(&proposal));
        let shard = effort.logging_shard;
        self.broadcast(&BTreeSet::from([shard]), Message::Log(proposal));
    }

    /// F3 and F8: asks the logging shard to reconcile its decisions.
    fn invoke_fallback(&mut self, id: TransactionId) {
        let Some(effort) = self.efforts.get_mut(&id) else { return };
        let proposal = effort.proposal.clone().or_else(|| {
            let (decision, logged) = effort.justified(&self.shards)?;
            Some(effort.propose(decision, Justification::Logged(logged)))
        });
        let Some(proposal) = proposal else { return };
        let views =
            effort.logged.values().filter(|attestation| view_of(&attestation.statement, id).is_some_and(|view| view > 0));
        // View 1 needs no proof (B.5).
        let views = views.cloned().collect();
        effort.is_divergent = true;
        effort.proposal = Some(Shared::clone(&proposal));
        let shard = effort.logging_shard;
        self.broadcast(&BTreeSet::from([shard]), Message::InvokeFallback { proposal, views });
    }

    /// Sends again after a timer, to those that did not respond.
    pub(super) fn repeat(&mut self, now: TimestampMs, id: TransactionId) {
        let Some(effort) = self.efforts.get_mut(&id) else { return };
        if effort.help_at.is_some_and(|at| at <= now) {
            effort.help_at = None;
            self.help_writers(now, id, false);
        }
        let Some(effort) = self.efforts.get_mut(&id) else { return };
        if effort.resend_at > now {
            return;
        }
        effort.resend_ms = effort.resend_ms.saturating_mul(2).min(60_000);
        effort.resend_at = TimestampMs(now.0 + effort.resend_ms);
        let transaction = Shared::clone(&effort.transaction);
        let (involved, logging_shard, proposal) = (effort.involved.clone(), effort.logging_shard, effort.proposal.clone());
        if effort.is_divergent {
            self.invoke_fallback(id);
        } else if let Some(proposal) = proposal {
            self.broadcast(&BTreeSet::from([logging_shard]), Message::Log(proposal));
        } else {
            self.broadcast(&involved, Message::Recover(transaction));
            self.help_writers(now, id, true);
        }
    }

    /// Replicas vote once the writers of what it read are decided. So those are finished first, also where a replica missed their
    /// certificate.
    /// `all`: also those whose certificate this client has.
    fn help_writers(&mut self, now: TimestampMs, id: TransactionId, all: bool) {
        let Some(effort) = self.efforts.get_mut(&id) else { return };
        let transaction = Shared::clone(&effort.transaction);
        let may_need_help = |read: &&Read| {
            let is_prepared = |prepared: &BTreeSet<TransactionId>| prepared.contains(&read.version.writer);
            !read.version.is_genesis() && (all || effort.prepared.as_ref().is_none_or(is_prepared))
        };
        let written: Vec<_> = transaction.reads.iter().filter(may_need_help).collect();
        // A few at a time: most of what a lying client claims to have read may not exist.
        let first = effort.helped % written.len().max(1);
        effort.helped = first + MAX_HELPED;
        for read in written.iter().cycle().skip(first).take(written.len().min(MAX_HELPED)) {
            self.help_writer(now, read);
        }
    }

    /// P4: the application hears the decision; replicas hear it afterwards (§4.3).
    pub(super) fn finish(&mut self, id: TransactionId, decided: Shared<Decided>, writeback: bool) {
        let Some(effort) = self.efforts.remove(&id) else { return };
        self.remember_finished(id, &decided);
        self.note_decided(id, &decided);
        let output = Shared::clone(&decided);
        self.outputs.push_back(match effort.is_own {
            true => Output::Finished { id, decided: output },
            false => Output::Recovered { id, decided: output, took_part: true },
        });
        if writeback {
            self.broadcast(&effort.involved, Message::Writeback(decided));
        }
    }

    fn remember_finished(&mut self, id: TransactionId, decided: &Shared<Decided>) {
        if self.finished.insert(id, decided.clone()).is_none() {
            self.finished_order.push_back(id);
        }
        if self.finished_order.len() > MAX_FINISHED
            && let Some(oldest) = self.finished_order.pop_front()
        {
            self.finished.remove(&oldest);
        }
    }
}
