//! The thread of a replica.

use crate::journal::Journal;
use crate::mail::{Counters, Mail, Post, receive};
use corniche_basil::attestation::Decision;
use corniche_basil::copy::StateCopy;
use corniche_basil::record::Record;
use corniche_basil::replica::{Input, Output, Replica, Ticket};
use corniche_service::now;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

/// Messages between two syncs of the journal.
const MAX_AT_ONCE: usize = 256;

/// Copies the state of the shard from its other replicas. Returns the records from which this one starts, or `None` if it was stopped
/// meanwhile.
pub fn copy_state(mut copy: StateCopy, post: &mut Post, mail: &Receiver<Mail<()>>) -> Option<Vec<Record>> {
    loop {
        while let Some((to, message)) = copy.poll() {
            post.send(to, message);
        }
        if let Some(records) = copy.records() {
            return Some(records);
        }
        match receive(mail, now(), Some(copy.deadline())) {
            Some(Mail::Message { from, bytes }) => {
                if let Some(checked) = post.open(from, &bytes) {
                    copy.handle(now(), checked);
                }
            }
            Some(Mail::Stop) => return None,
            Some(Mail::Own(())) => {}
            None => copy.tick(now()),
        }
    }
}

/// State of a replica, for metrics.
#[derive(Debug, Default)]
pub struct Progress {
    pub committed: AtomicU64,
    pub aborted: AtomicU64,
    /// Transactions, keys and ongoing reads in memory.
    pub footprint: AtomicU64,
    /// Everything below is decided, and known here; µs.
    pub complete_us: AtomicU64,
    pub journal_bytes: AtomicU64,
}

/// A replica, its journal, and its end of the network.
pub struct ReplicaThread {
    pub replica: Replica,
    pub journal: Journal,
    pub post: Post,
    pub progress: Arc<Progress>,
}

/// Why a replica's thread ended.
pub enum End {
    Stopped,
    /// The others forgot what it misses: it must copy the state.
    Behind(Box<(Journal, Post)>),
}

impl ReplicaThread {
    /// Runs until [`Mail::Stop`].
    ///
    /// # Errors
    ///
    /// The journal cannot be written. The replica must not go on.
    pub fn run(mut self, mail: &Receiver<Mail<()>>) -> anyhow::Result<End> {
        loop {
            if self.carry_out()? {
                return Ok(End::Behind(Box::new((self.journal, self.post))));
            }
            let mut next = receive(mail, now(), self.replica.deadline());
            if next.is_none() {
                self.replica.handle(now(), Input::Deadline);
            }
            let mut count = 0;
            while let Some(one) = next {
                match one {
                    Mail::Message { from, bytes } => {
                        if let Some(checked) = self.post.open(from, &bytes) {
                            self.replica.handle(now(), Input::Message(Box::new(checked)));
                        }
                    }
                    Mail::Own(()) => {}
                    Mail::Stop => return self.journal.sync().map(|()| End::Stopped),
                }
                count += 1;
                next = if count < MAX_AT_ONCE { mail.try_recv().ok() } else { None };
            }
            if self.journal.is_due() {
                self.journal.replace(&self.replica.snapshot())?;
            }
            self.progress.footprint.store(self.replica.footprint() as u64, Ordering::Relaxed);
            self.progress.complete_us.store(self.replica.complete_us(), Ordering::Relaxed);
            self.progress.journal_bytes.store(self.journal.bytes(), Ordering::Relaxed);
        }
    }

    /// Carries out everything that the replica asks for, with one sync for all records that wait. Returns true if it is behind.
    fn carry_out(&mut self) -> anyhow::Result<bool> {
        loop {
            let mut newest: Option<Ticket> = None;
            while let Some(output) = self.replica.poll() {
                match output {
                    Output::Send { to, message } => self.post.send(to, message),
                    Output::Persist(ticket, records) => {
                        self.journal.append(records);
                        newest = Some(ticket);
                    }
                    Output::Behind => return Ok(true),
                    Output::Decided(decided) => Counters::add(match decided.decision() {
                        Decision::Commit => &self.progress.committed,
                        Decision::Abort => &self.progress.aborted,
                    }),
                }
            }
            let Some(ticket) = newest else { return Ok(false) };
            self.journal.sync()?;
            self.replica.handle(now(), Input::Durable(ticket));
        }
    }
}
