//! Batches of signed replies: collect, persist, sign, send (B1, A7).

use super::{Output, Replica, Ticket};
use crate::attestation::{Statement, attest};
use crate::config::Config;
use crate::message::{Conflict, Message, Peer};
use crate::record::Record;
use crate::transaction::TransactionId;
use corniche_types::TimestampMs;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of replies that wait for their signature or for the disk.
const MAX_WAITING: usize = 65_536;

/// Replies that wait for their signature.
#[derive(Default)]
pub(super) struct Replies {
    records: Vec<Record>,
    waiting: Vec<Reply>,
    /// Time at which the waiting replies are signed at the latest.
    due: Option<TimestampMs>,
    /// Batches whose records are being written.
    writing: BTreeMap<Ticket, Vec<Reply>>,
    next: Ticket,
}

pub(super) struct Reply {
    to: Vec<Peer>,
    statement: Statement,
    conflict: Option<Conflict>,
    /// The list of a closed watermark.
    listed: Vec<TransactionId>,
}

impl Replies {
    /// The record is written with the next batch of replies, which it starts if there is none.
    pub(super) fn record(&mut self, now: TimestampMs, config: &Config, record: Record) {
        self.records.push(record);
        self.due.get_or_insert(TimestampMs(now.0 + config.reply_delay_ms));
    }

    pub(super) fn deadline(&self) -> Option<TimestampMs> {
        self.due
    }
}

impl Replica {
    /// Sends at once. For replies that no record and no signature belongs to.
    pub(super) fn send(&mut self, to: Peer, message: Message) {
        self.outputs.push_back(Output::Send { to, message: Arc::new(message) });
    }

    /// Signs and sends with the next batch.
    pub(super) fn reply(&mut self, now: TimestampMs, to: Vec<Peer>, statement: Statement, conflict: Option<Conflict>) {
        if to.is_empty() {
            return;
        }
        self.wait(now, Reply { to, statement, conflict, listed: Vec::new() });
    }

    /// As `reply`, with the transactions of a closed watermark.
    pub(super) fn reply_listed(&mut self, now: TimestampMs, to: Peer, statement: Statement, listed: Vec<TransactionId>) {
        self.wait(now, Reply { to: vec![to], statement, conflict: None, listed });
    }

    /// Beyond the limit the reply is dropped: those who asked ask again.
    fn wait(&mut self, now: TimestampMs, reply: Reply) {
        let writing: usize = self.replies.writing.values().map(Vec::len).sum();
        let is_list_waiting = |other: &Reply| !other.listed.is_empty() && other.to == reply.to;
        let is_repeated = !reply.listed.is_empty() && self.replies.waiting.iter().any(is_list_waiting);
        if self.replies.waiting.len() + writing >= MAX_WAITING || is_repeated {
            return;
        }
        self.replies.waiting.push(reply);
        let due = TimestampMs(now.0 + self.config.reply_delay_ms);
        self.replies.due.get_or_insert(due);
    }

    /// Starts a batch if enough replies wait, or the oldest waited `reply_delay_ms`.
    pub(super) fn flush(&mut self, now: TimestampMs) {
        let batch = self.config.batch();
        loop {
            let replies = &mut self.replies;
            let is_due = replies.due.is_some_and(|due| due <= now);
            // A transaction has several records for one reply, so records alone fill a batch only if no reply waits.
            let is_full = replies.waiting.len() >= batch || replies.waiting.is_empty() && replies.records.len() >= batch;
            if !is_full && !is_due {
                return;
            }
            if replies.waiting.is_empty() && replies.records.is_empty() {
                replies.due = None;
                return;
            }
            let count = batch.min(replies.waiting.len());
            let replies_of_batch: Vec<_> = replies.waiting.drain(..count).collect();
            if replies.waiting.is_empty() {
                replies.due = None;
            }
            let records = std::mem::take(&mut replies.records);
            if records.is_empty() && replies.writing.is_empty() {
                self.sign(now, replies_of_batch);
                continue;
            }
            let ticket = replies.next;
            replies.next = Ticket(ticket.0 + 1);
            replies.writing.insert(ticket, replies_of_batch);
            self.outputs.push_back(Output::Persist(ticket, records));
        }
    }

    /// The records up to this ticket are on disk.
    pub(super) fn sign_durable(&mut self, now: TimestampMs, ticket: Ticket) {
        while let Some(first) = self.replies.writing.first_entry().filter(|first| *first.key() <= ticket) {
            let replies = first.remove();
            self.sign(now, replies);
        }
    }

    fn sign(&mut self, now: TimestampMs, replies: Vec<Reply>) {
        if replies.is_empty() {
            return;
        }
        let statements = replies.iter().map(|reply| reply.statement.clone()).collect();
        let attestations = attest(&self.shards, self.id, &*self.signer, statements);
        for (Reply { to, conflict, listed, .. }, attestation) in replies.into_iter().zip(attestations) {
            for peer in to {
                if peer == Peer::Replica(self.id) {
                    self.receive_election(now, attestation.clone());
                    continue;
                }
                let message = match &attestation.statement {
                    Statement::Vote { .. } => Message::Vote { vote: attestation.clone(), conflict: conflict.clone() },
                    Statement::Elect { .. } => Message::Elect(attestation.clone()),
                    Statement::Closed { .. } => Message::Closed { closed: attestation.clone(), transactions: listed.clone() },
                    Statement::Logged { .. } | Statement::View { .. } => Message::Logged(attestation.clone()),
                };
                self.send(peer, message);
            }
        }
    }
}
