//! The thread of a gateway: drives wallets' transactions, makes blocks of closed ranges, and collects their certificates.

use crate::keys::MemberKeys;
use crate::ledger::{Entry, Ledger, Way};
use crate::live::Early;
use crate::mail::{Mail, Post, receive};
use crate::sections::{Fetcher, Own, Section};
use crate::shared::{Counts, Shared};
use anyhow::Context;
use corniche_basil::attestation::Decision;
use corniche_basil::certificate::Decided;
use corniche_basil::shards::ClientId;
use corniche_basil::shared::Shared as SharedValue;
use corniche_basil_contracts::chain;
use corniche_basil_contracts::gateway::{Gateway, GatewayError, Output};
use corniche_crypto::VerifiedTransaction;
use corniche_rpc::ChainEvent;
use corniche_service::now;
use corniche_types::{Address, B256, Height, Receipt, TimestampMs};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// Messages between two looks at the timers.
const MAX_AT_ONCE: usize = 64;
/// Blocks of one export, for a gateway that was away.
const MAX_BLOCKS: u64 = 256;
/// Transactions after which a certificate's range ends, so that it fits into a message to another gateway.
const MAX_TRANSACTIONS: usize = 512;
/// Interval of questions to other gateways, ms.
const FETCH_MS: u64 = 2_000;
/// Time for the replicas to close a watermark before the first question, ms.
const GRACE_MS: u64 = 20;
/// An export that takes longer is reported, ms.
const SLOW_EXPORT_MS: u64 = 60_000;

/// A gateway, its ledger, and its end of the network.
pub struct GatewayThread {
    pub gateway: Gateway,
    pub ledger: Ledger,
    pub post: Post,
    pub shared: Arc<Shared>,
    /// Name of this gateway among clients.
    client: ClientId,
    /// End of the range that is being exported, and the time at which it is reported as slow.
    exporting: Option<(u64, TimestampMs)>,
    /// The last block of the range whose certificate is being collected.
    certifying: Option<Height>,
    fetcher: Fetcher,
    /// Time of the next question to other gateways.
    fetch_at: TimestampMs,
}

impl GatewayThread {
    pub fn new(gateway: Gateway, ledger: Ledger, post: Post, shared: Arc<Shared>, fetcher: Fetcher) -> Self {
        let (client, fetch_at) = (fetcher.own, TimestampMs(0));
        Self { client, gateway, ledger, post, shared, exporting: None, certifying: None, fetcher, fetch_at }
    }

    /// Runs until [`Mail::Stop`].
    ///
    /// # Errors
    ///
    /// The ledger cannot be written, or a committed transaction does not run here. The gateway must not go on.
    pub fn run(mut self, mail: &Receiver<Mail<Own>>) -> anyhow::Result<()> {
        loop {
            let time = now();
            let deadlines = [self.gateway.deadline(), Some(self.next_export())];
            let mut next = receive(mail, time, deadlines.into_iter().flatten().min());
            let mut count = 0;
            while let Some(one) = next {
                match one {
                    Mail::Message { from, bytes } => {
                        if let Some(checked) = self.post.open(from, &bytes) {
                            self.gateway.handle(now(), checked);
                        }
                    }
                    Mail::Own(Own::Submit(transaction)) => self.submit(transaction),
                    Mail::Own(Own::Fetched(section)) => self.fetched(*section)?,
                    Mail::Stop => return Ok(()),
                }
                self.carry_out()?;
                count += 1;
                next = if count < MAX_AT_ONCE { mail.try_recv().ok() } else { None };
            }
            let time = now();
            if self.gateway.deadline().is_some_and(|deadline| deadline <= time) {
                self.gateway.tick(time);
            }
            self.export(time);
            self.certify(time);
            self.carry_out()?;
        }
    }

    fn submit(&mut self, transaction: VerifiedTransaction) {
        let (hash, sender) = (transaction.hash(), transaction.sender());
        match self.gateway.submit_verified(now(), transaction) {
            Ok(_) | Err(GatewayError::Known) => {}
            Err(error) => self.drop_transaction(hash, sender, &error),
        }
    }

    fn drop_transaction(&self, hash: B256, sender: Address, error: &GatewayError) {
        self.shared.leave_pool(&[(hash, sender)], self.ledger.chain().base_fee);
        self.shared.note_dropped(hash, error.to_string());
    }

    fn carry_out(&mut self) -> anyhow::Result<()> {
        while let Some(output) = self.gateway.poll() {
            match output {
                Output::Send { to, message } => self.post.send(to, message),
                Output::Committed { hash, receipt, decided, attempts } => self.committed(hash, *receipt, &decided, attempts),
                Output::Dropped { hash, error } => {
                    let sender = self.shared.pool().get(&hash).map(VerifiedTransaction::sender);
                    self.drop_transaction(hash, sender.unwrap_or_default(), &error);
                }
                Output::Late { below_us } => self.late(below_us),
                Output::Recovered(decided) => self.recovered(&decided)?,
                Output::Exported { below_us, transactions, .. } => self.exported(below_us, transactions)?,
                Output::Certified { certificate, .. } => {
                    let height = self.certifying.take().context("invariant: this range was asked for")?;
                    self.ledger.certify(height, &certificate)?;
                    self.shared.set_certified(height);
                }
            }
        }
        Ok(())
    }

    /// A wallet's transaction has its certificate. Its block comes later.
    fn committed(&mut self, hash: B256, receipt: Receipt, decided: &SharedValue<Decided>, attempts: u32) {
        let is_own = decided.transaction.timestamp.client == self.client;
        let entry = Entry::of(decided, &self.post.members, Some(attempts), !is_own);
        let counts = &self.shared.counts;
        Counts::add(
            match entry.way {
                Way::Fast => &counts.fast,
                Way::Logged(0) => &counts.logged,
                Way::Logged(_) => &counts.reconciled,
            },
            1,
        );
        Counts::add(&counts.retries, u64::from(attempts.saturating_sub(1)));
        self.show(hash, receipt, decided, entry);
    }

    fn recovered(&mut self, decided: &SharedValue<Decided>) -> anyhow::Result<()> {
        Counts::add(&self.shared.counts.recovered, 1);
        let hash = chain::hash(&decided.transaction.call);
        let is_over = decided.transaction.timestamp.time_us < self.ledger.exported_us();
        if decided.decision() == Decision::Abort || is_over || self.shared.live().get(&hash).is_some() {
            return Ok(());
        }
        let receipt = crate::ledger::receipt(self.ledger.chain(), decided)?;
        let entry = Entry::of(decided, &self.post.members, None, true);
        self.show(hash, receipt, decided, entry);
        Ok(())
    }

    /// Shows a committed transaction to wallets before its block.
    fn show(&mut self, hash: B256, receipt: Receipt, decided: &SharedValue<Decided>, entry: Entry) {
        let sender = receipt.sender;
        if decided.transaction.timestamp.time_us >= self.ledger.exported_us() {
            let early = Early {
                block: self.ledger.chain().block(decided.transaction.timestamp).number,
                raw: decided.transaction.call.clone(),
                receipt: Receipt { cumulative_gas_used: receipt.gas_used, ..receipt },
                writes: decided.transaction.writes.clone(),
                entry,
            };
            self.shared.live().insert(hash, early);
        }
        self.shared.leave_pool(&[(hash, sender)], self.ledger.chain().base_fee);
        self.shared.send(ChainEvent::Committed(hash));
    }

    /// Time at which the next range can be exported.
    fn next_export(&self) -> TimestampMs {
        let config = &self.post.members.config;
        TimestampMs(self.ledger.exported_us() / 1_000 + config.close_ms + config.close_after_ms + GRACE_MS)
    }

    fn export(&mut self, now: TimestampMs) {
        if let Some((below_us, report_at)) = &mut self.exporting {
            if *report_at <= now {
                *report_at = TimestampMs(now.0 + SLOW_EXPORT_MS);
                tracing::warn!(
                    below_us,
                    "blocks are late: fewer than 4f + 1 replicas of a shard respond, or this gateway was away for longer than keep_ms"
                );
            }
            return;
        }
        if self.next_export() > now {
            return;
        }
        let config = &self.post.members.config;
        let closed = now.0.saturating_sub(config.close_after_ms + GRACE_MS) / config.close_ms * config.close_ms * 1_000;
        let from_us = self.ledger.exported_us();
        let below_us = closed.min(from_us + MAX_BLOCKS * config.close_ms * 1_000);
        if below_us > from_us && self.gateway.client().export(now, from_us, below_us) {
            self.exporting = Some((below_us, TimestampMs(now.0 + SLOW_EXPORT_MS)));
        }
    }

    /// The replicas forgot what this gateway asked about: another gateway may have the blocks.
    fn late(&mut self, below_us: u64) {
        let time = now();
        if self.ledger.exported_us() >= below_us {
            tracing::warn!("the clock of this gateway is late: the replicas forgot what was at its time; set the clock");
        } else if self.fetch_at <= time {
            self.fetch_at = TimestampMs(time.0 + FETCH_MS);
            tracing::info!(head = self.ledger.head().0, "the replicas forgot the next block; asking other gateways");
            self.fetcher.fetch(self.ledger.head().next());
        }
    }

    /// Blocks from another gateway.
    fn fetched(&mut self, section: Section) -> anyhow::Result<()> {
        let next = self.ledger.head().next();
        if !(section.first..section.first.saturating_add(section.blocks.len() as u64)).contains(&next.0) {
            return Ok(());
        }
        let signatures = MemberKeys::of(self.ledger.genesis());
        if let Err(error) = section.check(next.0, &self.post.members, &signatures, |number| self.ledger.start_us(number)) {
            tracing::warn!(error, "blocks of another gateway are refused");
            return Ok(());
        }
        if let Some((below_us, _)) = self.exporting.take() {
            self.gateway.client().cancel_export(below_us);
        }
        let hashes = self.ledger.append_section(section)?;
        self.advance(&hashes);
        self.shared.set_certified(self.ledger.certified());
        self.fetch_at = TimestampMs(0);
        self.fetcher.fetch(self.ledger.head().next());
        Ok(())
    }

    fn exported(&mut self, below_us: u64, transactions: Vec<SharedValue<Decided>>) -> anyhow::Result<()> {
        self.exporting = None;
        if below_us <= self.ledger.exported_us() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let note = |hash: &B256| Some(shared.live().get(hash)?.entry.clone());
        let hashes = self.ledger.append(below_us, transactions, note)?;
        self.advance(&hashes);
        Ok(())
    }

    /// Continues after new blocks with these transactions.
    fn advance(&mut self, hashes: &[B256]) {
        Counts::add(&self.shared.counts.exported, hashes.len() as u64);
        hashes.iter().for_each(|hash| self.gateway.settle(now(), hash));
        let state = self.ledger.state().latest();
        self.shared.live().advance(state, hashes);
        let reader = self.ledger.reader();
        let senders = hashes.iter().filter_map(|hash| {
            let (height, index) = reader.transaction(hash)?;
            Some((*hash, reader.block(height)?.receipts().get(index as usize)?.sender))
        });
        self.shared.leave_pool(&senders.collect::<Vec<_>>(), self.ledger.chain().base_fee);
        self.shared.send(ChainEvent::Head(self.ledger.head()));
    }

    fn certify(&mut self, now: TimestampMs) {
        let (certified, head) = (self.ledger.certified(), self.ledger.head());
        if self.certifying.is_some() || certified >= head {
            return;
        }
        let last = self.ledger.section_end(MAX_BLOCKS, MAX_TRANSACTIONS).min(head);
        let (from_us, below_us) = (self.ledger.start_us(certified.0 + 1), self.ledger.start_us(last.0 + 1));
        let lists = self.ledger.lists(certified.0 + 1..=last.0);
        if self.gateway.client().certify(now, from_us, below_us, lists) {
            self.certifying = Some(last);
        }
    }
}
