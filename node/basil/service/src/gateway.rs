//! A gateway: how it starts, and its thread, which drives wallets' transactions, makes blocks of closed ranges, and collects their certificates.

use crate::archive::{Entry, Way};
use crate::backend::GatewayBackend;
use crate::block;
use crate::certified_blocks::{CertifiedBlocks, Fetcher, Request};
use crate::keys::{MemberKey, MemberSignatures};
use crate::ledger::Ledger;
use crate::live::{Early, Live};
use crate::mail::{self, Mail, Post, receive};
use crate::metrics::{MemberMetrics, Role};
use crate::state::GatewayState;
use crate::{Parts, Running, spawn};
use anyhow::{Context, ensure};
use corniche_admission::{Pool, PoolConfig};
use corniche_basil::certificate::Decided;
use corniche_basil::client::Client;
use corniche_basil::shards::ClientId;
use corniche_basil::shared::Shared;
use corniche_basil_contracts::chain;
use corniche_basil_contracts::gateway::{Gateway, GatewayError, Output};
use corniche_crypto::VerifiedTransaction;
use corniche_engine::Committee;
use corniche_network::Events;
use corniche_rpc::{ChainEvent, Metrics, RpcServer, ServerParts};
use corniche_service::{Faucet, NewestBlocks, fresh_seed, now};
use corniche_store::Options;
use corniche_types::{Address, B256, Height, Receipt, TimestampMs};
use prometheus_client::registry::Registry;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use tokio::net::TcpListener;

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

impl Parts {
    pub async fn start_gateway(self, id: ClientId, events: Events) -> anyhow::Result<Running> {
        ensure!(
            self.config.limits.pool_transactions > 0,
            "limits: expected room for at least one transaction in the pool; raise pool_transactions"
        );
        let rpc = self.config.rpc;
        let listener = TcpListener::bind(rpc).await.with_context(|| format!("cannot serve RPC on {rpc}"))?;
        let faucet = self.config.faucet.as_ref().map(Faucet::rpc).transpose()?;
        let options = Options { backend: self.config.index, history: self.config.state.history, ..Options::default() };
        let recent_states = self.config.limits.recent_states.max(options.checkpoint_lag);
        let (genesis, members) = (Arc::clone(&self.genesis), Arc::clone(&self.members));
        let ledger = Ledger::open(&self.data, genesis, members, options, recent_states)?;
        let (reader, state, chain) = (ledger.reader(), ledger.state(), ledger.chain().clone());
        let genesis_header = reader.header(Height(0)).context("invariant: the store has the header of block 0")?;
        let pool = PoolConfig {
            max_transactions: self.config.limits.pool_transactions,
            gas_limit: self.genesis.block_gas_limit,
            ..PoolConfig::from_genesis(&self.genesis)
        };
        let shared = Arc::new(GatewayState::new(Pool::new(pool), Live::new(state.latest()), ledger.certified()));
        let signer = Arc::new(MemberKey::new(self.consensus.clone(), self.genesis.chain_id));
        let config = self.members.config.clone();
        let client = Client::new(config, Arc::clone(&self.members.shards), id, signer, ledger.exported_us());
        let gateway = Gateway::new(chain.clone(), client, fresh_seed());
        let (mail, inbox) = mail::queue();
        let height = ledger.head();
        let backend = GatewayBackend {
            genesis: Arc::clone(&self.genesis),
            members: Arc::clone(&self.members),
            reader,
            state,
            tree: ledger.tree(),
            archive: ledger.archive(),
            newest_blocks: NewestBlocks::new(genesis_header),
            committee: Committee::from_genesis(&self.genesis),
            shared: Arc::clone(&shared),
            network: self.network.clone(),
            vm: chain.vm.clone(),
            mail: mail.clone(),
            client: id,
            rules: chain.rules,
        };
        let archive = ledger.archive();
        let fetcher = Fetcher {
            runtime: tokio::runtime::Handle::current(),
            network: self.network.clone(),
            members: Arc::clone(&self.members),
            mail: mail.clone(),
            own: id,
        };
        let thread = GatewayThread::new(gateway, ledger, self.post, Arc::clone(&shared), fetcher);
        let (ended, thread) = spawn("gateway", move || thread.run(&inbox))?;
        let answer = move |question: &[u8]| CertifiedBlocks::answer(&archive, question);
        tokio::spawn(mail::forward(events, self.members, mail.clone(), Arc::clone(&self.counters), answer));
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        registry.register_collector(Box::new(MemberMetrics { mail: self.counters, role: Role::Gateway(shared) }));
        let server = RpcServer::start(ServerParts {
            config: corniche_rpc::RpcConfig { faucet, ..self.config.serve.rpc() },
            listener,
            backend: Arc::new(backend),
            metrics,
            metrics_listener: self.metrics_listener,
            registry: Arc::new(registry),
            clock: Arc::new(now),
        })?;
        tracing::info!(rpc = %server.address(), metrics = ?server.metrics_address(), height = height.0, chain_id = self.genesis.chain_id, "gateway is up");
        let stop = Box::new(move || _ = mail.send(Mail::Stop));
        Ok(Running { server: Some(server), network: self.network, stop, ended, thread })
    }
}

/// A gateway, its ledger, and its end of the network.
struct GatewayThread {
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
    fn new(gateway: Gateway, ledger: Ledger, post: Post, shared: Arc<GatewayState>, fetcher: Fetcher) -> Self {
        let fetch_at = TimestampMs(0);
        Self { gateway, ledger, post, shared, exporting: None, certifying: None, fetcher, fetch_at }
    }

    /// Runs until [`Mail::Stop`].
    ///
    /// # Errors
    ///
    /// The ledger cannot be written, or a committed transaction does not run here. The gateway must not go on.
    fn run(mut self, mail: &Receiver<Mail<Request>>) -> anyhow::Result<()> {
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
        match self.gateway.submit(now(), transaction) {
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
            let way = match entry.way {
                Way::Fast => &counts.fast,
                Way::Logged(0) => &counts.logged,
                Way::Logged(_) => &counts.reconciled,
            };
            way.inc();
            counts.retries.inc_by(u64::from(attempts.saturating_sub(1)));
        }
        counts.recovered.inc_by(u64::from(recovered));
        self.show(hash, receipt, decided, entry);
    }

    /// Another gateway's transaction, which this one finished.
    fn recovered(&mut self, decided: &Shared<Decided>) -> anyhow::Result<()> {
        self.shared.counts.recovered.inc();
        // A state for a moment only: while somebody holds it, another transaction copies it.
        let state = self.shared.live().state();
        let receipt = block::receipt(self.ledger.chain(), decided, &*state)?;
        drop(state);
        // Somebody created the contract just now. The block brings both.
        let Some(receipt) = receipt else { return Ok(()) };
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
        let appended = self.ledger.append_certified(blocks)?;
        self.advance(&appended);
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
        let appended = self.ledger.append(below_us, transactions, note)?;
        self.advance(&appended);
        Ok(())
    }

    /// Continues after new blocks with these transactions and their senders.
    fn advance(&mut self, appended: &[(B256, Address)]) {
        self.shared.counts.exported.inc_by(appended.len() as u64);
        appended.iter().for_each(|(hash, _)| self.gateway.settle(now(), hash));
        self.gateway.give_up_below(now(), self.ledger.exported_us());
        let state = self.ledger.state().latest();
        self.shared.live().advance(state, appended.iter().map(|(hash, _)| *hash));
        self.leave_pool(appended);
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
