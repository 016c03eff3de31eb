//! The thread of a gateway: drives wallets' transactions, makes blocks of closed ranges, and collects their certificates.

use crate::archive::{Entry, Way};
use crate::block;
use crate::certified_blocks::{CertifiedBlocks, Fetcher, Request};
use crate::keys::MemberSignatures;
use crate::ledger::Ledger;
use crate::live::Early;
use crate::mail::{Mail, Post, receive};
use crate::state::{Counts, GatewayState};
use corniche_basil::certificate::Decided;
use corniche_basil::shared::Shared;
use corniche_basil_contracts::chain;
use corniche_basil_contracts::gateway::{Gateway, GatewayError, Output};
use corniche_crypto::VerifiedTransaction;
use corniche_rpc::ChainEvent;
use corniche_service::now;
use corniche_types::{Address, B256, Receipt, TimestampMs};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// Messages between two looks at the timers.
const MAX_AT_ONCE: usize = 64;
/// Blocks of one export, for a gateway that was away.
const MAX_BLOCKS: u64 = 256;
/// Interval of questions to other gateways, ms.
const FETCH_MS: u64 = 2_000;
/// Time for the replicas to close a watermark before the first question, ms.
const GRACE_MS: u64 = 20;
/// An export that takes longer is reported, ms.
const SLOW_EXPORT_MS: u64 = 60_000;

/// A gateway, its ledger, and its end of the network.
pub struct GatewayThread {
    gateway: Gateway,
    ledger: Ledger,
    post: Post,
    shared: Arc<GatewayState>,
    /// End of the range that is being exported, and the time at which it is reported as slow.
    exporting: Option<(u64, TimestampMs)>,
    /// The blocks whose certificate is being collected.
    certifying: Option<RangeInclusive<u64>>,
    fetcher: Fetcher,
    /// Time of the next question to other gateways.
    fetch_at: TimestampMs,
}

impl GatewayThread {
    pub fn new(gateway: Gateway, ledger: Ledger, post: Post, shared: Arc<GatewayState>, fetcher: Fetcher) -> Self {
        let fetch_at = TimestampMs(0);
        Self { gateway, ledger, post, shared, exporting: None, certifying: None, fetcher, fetch_at }
    }

    /// Runs until [`Mail::Stop`].
    ///
    /// # Errors
    ///
    /// The ledger cannot be written, or a committed transaction does not run here. The gateway must not go on.
    pub fn run(mut self, mail: &Receiver<Mail<Request>>) -> anyhow::Result<()> {
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
                    Mail::Own(Request::Submit(transaction)) => self.submit(transaction),
                    Mail::Own(Request::Forget(hash)) => self.gateway.settle(now(), &hash),
                    Mail::Own(Request::Fetched(blocks)) => self.fetched(*blocks)?,
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
            self.certify(time)?;
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

    fn drop_transaction(&mut self, hash: B256, sender: Address, error: &GatewayError) {
        self.leave_pool(&[(hash, sender)]);
        self.shared.note_dropped(hash, error.to_string());
    }

    /// Takes transactions out of the pool: they are committed, or dropped. Those that cannot be executed any more leave, too.
    fn leave_pool(&mut self, transactions: &[(B256, Address)]) {
        let left = self.shared.leave_pool(transactions, self.ledger.chain().base_fee);
        left.iter().for_each(|hash| self.gateway.settle(now(), hash));
    }

    fn carry_out(&mut self) -> anyhow::Result<()> {
        while let Some(output) = self.gateway.poll() {
            match output {
                Output::Send { to, message } => self.post.send(to, message),
                Output::Committed { hash, receipt, decided, attempts, recovered } => {
                    self.committed(hash, *receipt, &decided, attempts, recovered);
                }
                Output::Dropped { hash, error } => {
                    let sender = self.shared.pool().get(&hash).map(VerifiedTransaction::sender);
                    self.drop_transaction(hash, sender.unwrap_or_default(), &error);
                }
                Output::Late { below_us } => self.late(below_us),
                Output::Recovered(decided) => self.recovered(&decided)?,
                Output::Exported { below_us, transactions, .. } => self.exported(below_us, transactions)?,
                Output::Certified { certificate, .. } => {
                    if let Some(blocks) = self.certifying.take() {
                        self.ledger.certify(blocks, &certificate)?;
                        self.shared.set_certified(self.ledger.certified());
                    }
                }
            }
        }
        Ok(())
    }

    /// A wallet's transaction has its certificate. Its block comes later.
    fn committed(&mut self, hash: B256, receipt: Receipt, decided: &Shared<Decided>, attempts: Option<u32>, recovered: bool) {
        let entry = Entry::of(decided, &self.post.members, attempts, recovered);
        let counts = &self.shared.counts;
        if let Some(attempts) = attempts {
            Counts::add(
                match entry.way {
                    Way::Fast => &counts.fast,
                    Way::Logged(0) => &counts.logged,
                    Way::Logged(_) => &counts.reconciled,
                },
                1,
            );
            Counts::add(&counts.retries, u64::from(attempts.saturating_sub(1)));
        }
        Counts::add(&counts.recovered, u64::from(recovered));
        self.show(hash, receipt, decided, entry);
    }

    /// Another gateway's transaction, which this one finished.
    fn recovered(&mut self, decided: &Shared<Decided>) -> anyhow::Result<()> {
        Counts::add(&self.shared.counts.recovered, 1);
        let receipt = block::receipt(self.ledger.chain(), decided)?;
        let entry = Entry::of(decided, &self.post.members, None, true);
        self.show(chain::hash(&decided.transaction.call), receipt, decided, entry);
        Ok(())
    }

    /// Shows a committed transaction to wallets before its block.
    fn show(&mut self, hash: B256, receipt: Receipt, decided: &Shared<Decided>, entry: Entry) {
        let sender = receipt.sender;
        if decided.transaction.timestamp.time_us >= self.ledger.exported_us() {
            let env = self.ledger.chain().block(decided.transaction.timestamp);
            let early = Early {
                block: env.number,
                time: env.timestamp,
                raw: decided.transaction.call.clone(),
                receipt: Receipt { cumulative_gas_used: receipt.gas_used, ..receipt },
                writes: decided.transaction.writes.clone(),
                entry,
            };
            self.shared.live().insert(hash, early);
        }
        self.leave_pool(&[(hash, sender)]);
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
        let (time, next) = (now(), self.ledger.certified().next());
        if self.fetch_at > time {
            return;
        }
        self.fetch_at = TimestampMs(time.0 + FETCH_MS);
        if self.ledger.start_us(next.0) >= below_us {
            return tracing::warn!(
                "the clock of this gateway is late: the replicas forgot what was at its time; set the clock"
            );
        }
        tracing::info!(block = next.0, "the replicas forgot a block without a certificate; asking other gateways");
        self.fetcher.fetch(next);
    }

    /// Blocks from another gateway.
    fn fetched(&mut self, blocks: CertifiedBlocks) -> anyhow::Result<()> {
        let next = self.ledger.certified().next();
        if !blocks.has(next) || blocks.first > self.ledger.head().0 + 1 {
            return Ok(());
        }
        let signatures = MemberSignatures::of(self.ledger.genesis(), &self.post.members);
        let checked = blocks.check(&self.post.members.shards, &signatures, |number| self.ledger.start_us(number));
        if let Err(error) = checked {
            tracing::warn!(error, "blocks of another gateway are refused");
            return Ok(());
        }
        if let Some((below_us, _)) = self.exporting.take() {
            self.gateway.client().cancel_export(below_us);
        }
        self.certifying = None;
        self.gateway.client().cancel_certify();
        let hashes = self.ledger.append_certified(blocks)?;
        self.advance(&hashes);
        self.shared.set_certified(self.ledger.certified());
        self.fetch_at = TimestampMs(0);
        Ok(())
    }

    fn exported(&mut self, below_us: u64, transactions: Vec<Shared<Decided>>) -> anyhow::Result<()> {
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
        self.gateway.give_up_below(now(), self.ledger.exported_us());
        let state = self.ledger.state().latest();
        self.shared.live().advance(state, hashes);
        let reader = self.ledger.reader();
        let senders = hashes.iter().filter_map(|hash| {
            let (height, index) = reader.transaction(hash)?;
            Some((*hash, reader.block(height)?.receipts().get(index as usize)?.sender))
        });
        let senders: Vec<_> = senders.collect();
        self.leave_pool(&senders);
        self.shared.send(ChainEvent::Head(self.ledger.head()));
    }

    fn certify(&mut self, now: TimestampMs) -> anyhow::Result<()> {
        if self.certifying.is_some() {
            return Ok(());
        }
        let blocks = self.ledger.next_certified(MAX_BLOCKS);
        if blocks.is_empty() {
            return Ok(());
        }
        let (from_us, below_us) = (self.ledger.start_us(*blocks.start()), self.ledger.start_us(blocks.end() + 1));
        let lists = self.ledger.lists(blocks.clone())?;
        if self.gateway.client().certify(now, from_us, below_us, lists) {
            self.certifying = Some(blocks);
        }
        Ok(())
    }
}
