//! A faulty validator: a real engine with a real validator's keys, resumed at the network's current state, and a [`Behaviour`]
//! that proposes batches, changes the engine's messages and adds its own.
//!
//! It executes and stores nothing: records count as durable at once.

use crate::{context::AttackContext, keys::Keys, requests};
use anyhow::{Context, anyhow, bail, ensure};
use corniche_admission::batch;
use corniche_crypto::CoinPublicKeys;
use corniche_engine::{Batch, Committee, Engine, Input, Output, Recipients, Resume, Verifier};
use corniche_network::{Channel, Event, Events, Network, NetworkConfig, NetworkHandle, PeerKey};
use corniche_pipeline::{PeerMessage, Request, Response};
use corniche_types::{Bytes, Height, TimestampMs, ValidatorIndex, wire};
use futures::future::join;
use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Interval of deadlines and of the mischief's own messages.
const TICK_INTERVAL: Duration = Duration::from_millis(5);
/// Number of users' transactions that wait for a batch; honest users here send far fewer.
const MAX_FORWARDED: usize = 1_000;
/// Timeout for links and for the block to resume after.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Faulty behaviour in addition to the protocol, or instead of it. The default has none.
pub trait Behaviour: Send {
    /// The next batch to propose; `None` means nothing to propose.
    fn batch(&mut self) -> Option<Bytes> {
        None
    }

    /// True if it proposes transactions that other validators forward to it, as an honest validator does.
    fn serves_users(&self) -> bool {
        true
    }

    /// Called for each message of the engine. Returns further messages for its receivers.
    fn after(&mut self, _message: &Bytes) -> Vec<Bytes> {
        Vec::new()
    }

    /// Maximum number of own messages per turn; the protocol continues in between.
    fn extras_per_tick(&self) -> usize {
        16
    }

    /// An encoded [`PeerMessage`] for all victims. Called until it returns none, the budget is spent, or all queues are full.
    fn extra(&mut self) -> Option<Bytes> {
        None
    }

    /// A request to repeat to every victim; none by default.
    fn request(&self) -> Option<Bytes> {
        None
    }
}

/// A validator that the attacker replaces.
pub struct InsiderIdentity {
    pub committee: Committee,
    pub index: ValidatorIndex,
    pub keys: Keys,
}

/// Runs every insider of the field with its own mischief until the budget is spent.
pub async fn run(
    context: &AttackContext,
    behaviour: impl Fn(&InsiderIdentity) -> anyhow::Result<Box<dyn Behaviour>>,
) -> anyhow::Result<()> {
    let mut insiders = Vec::new();
    for index in &context.insiders {
        let identity = InsiderIdentity {
            committee: Committee::from_genesis(context.victims.genesis()),
            index: ValidatorIndex(u16::try_from(*index)?),
            keys: Keys::load(&context.victims.members[*index].keys)?,
        };
        let behaviour = behaviour(&identity)?;
        insiders.push(Insider::join(context, identity, behaviour).await?);
    }
    futures::future::join_all(insiders.into_iter().map(Insider::run)).await;
    Ok(())
}

struct Insider<'a> {
    context: &'a AttackContext,
    network: NetworkHandle,
    events: Events,
    engine: Box<dyn Engine>,
    verifier: Arc<dyn Verifier>,
    behaviour: Box<dyn Behaviour>,
    wants_batch: bool,
    /// Transactions that others forwarded, for the next batch.
    forwarded: Vec<Bytes>,
}

impl<'a> Insider<'a> {
    /// Connects to the honest validators and creates the engine at the newest certified block.
    async fn join(
        context: &'a AttackContext,
        identity: InsiderIdentity,
        behaviour: Box<dyn Behaviour>,
    ) -> anyhow::Result<Self> {
        let mut config = NetworkConfig::from_genesis(identity.keys.network.clone(), context.victims.genesis());
        config.bootstrap = context.honest().into_iter().map(|index| context.address(index)).collect();
        let (network, mut events) = Network::start(config).await?;
        let joined = timeout(JOIN_TIMEOUT, resume(context, &network, &mut events, context.honest().len()));
        let (resume, up) =
            joined.await.map_err(|_| anyhow!("no certified block to resume after within {JOIN_TIMEOUT:?}"))??;
        let (engine, verifier) = engine(context, &identity, resume)?;
        let mut insider =
            Self { context, network, events, engine, verifier, behaviour, wants_batch: false, forwarded: Vec::new() };
        for index in up {
            insider.handle_input(Input::PeerUp(index));
        }
        Ok(insider)
    }

    async fn run(mut self) {
        let (context, network, request) = (self.context, self.network.clone(), self.behaviour.request());
        let targets: Vec<_> = network.peers().into_iter().filter(|peer| peer.is_validator).map(|peer| peer.id).collect();
        let requests = async {
            if let Some(request) = request {
                requests::repeat(context, &network, &targets, &request).await;
            }
        };
        join(self.participate(), requests).await;
        network.shutdown().await;
    }

    async fn participate(&mut self) {
        let mut ticks = interval(TICK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.context.budget.is_over() {
            tokio::select! {
                _ = ticks.tick() => self.tick(),
                event = self.events.recv() => match event {
                    Some(event) => self.on_event(event),
                    None => break,
                },
            }
        }
        // Lets messages queued last still leave.
        tokio::time::sleep(TICK_INTERVAL * 20).await;
    }

    fn tick(&mut self) {
        if self.engine.deadline().is_some_and(|deadline| deadline <= now()) {
            self.handle_input(Input::Deadline);
        }
        self.propose();
        for _ in 0..self.behaviour.extras_per_tick() {
            let Some(bytes) = self.behaviour.extra().filter(|_| self.context.budget.take()) else { break };
            if self.send(Recipients::All, &bytes) == 0 {
                break;
            }
        }
    }

    fn propose(&mut self) {
        if self.wants_batch
            && let Some(bytes) = self.next_batch()
        {
            self.wants_batch = false;
            self.handle_input(Input::Batch(Batch { bytes }));
        }
    }

    /// Users first, so that a row of the table shows the attack and not the effect of [`Behaviour::serves_users`].
    fn next_batch(&mut self) -> Option<Bytes> {
        match std::mem::take(&mut self.forwarded) {
            none if none.is_empty() => self.behaviour.batch().filter(|_| self.context.budget.take()),
            some => batch::encode(&some).ok(),
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::PeerUp(peer) => self.context.index_of(&peer).map_or((), |index| self.handle_input(Input::PeerUp(index))),
            Event::PeerDown(peer) => self.context.index_of(&peer).map_or((), |index| self.handle_input(Input::PeerDown(index))),
            Event::Message { from, bytes, .. } => {
                if let Some(from) = self.context.index_of(&from) {
                    self.on_message(from, &bytes);
                }
            }
            // Dropping the reply refuses the request.
            Event::Request { .. } => {}
        }
    }

    fn on_message(&mut self, from: ValidatorIndex, bytes: &[u8]) {
        match PeerMessage::decode(bytes) {
            Ok(PeerMessage::Engine(bytes)) => {
                if let Ok(message) = self.verifier.verify(from, &bytes) {
                    self.handle_input(Input::Message { from, message });
                }
            }
            Ok(PeerMessage::Transactions(raw)) if self.behaviour.serves_users() && self.forwarded.len() < MAX_FORWARDED => {
                self.forwarded.extend(raw);
            }
            _ => {}
        }
    }

    fn handle_input(&mut self, input: Input) {
        self.engine.handle(now(), input);
        while let Some(output) = self.engine.poll() {
            match output {
                Output::WantBatch { .. } => self.wants_batch = true,
                Output::Persist(ticket, _) => self.engine.handle(now(), Input::Durable(ticket)),
                Output::Send { to, message } => {
                    let more = self.behaviour.after(&message);
                    for message in std::iter::once(message).chain(more) {
                        self.send(to, &PeerMessage::Engine(message).encode());
                    }
                }
                _ => {}
            }
        }
        self.propose();
    }

    fn send(&self, to: Recipients, bytes: &Bytes) -> usize {
        let wanted = |validator| to.includes(validator);
        let peers = self.network.peers().into_iter().filter(|peer| self.context.index_of(peer).is_some_and(wanted));
        self.network.broadcast(peers.map(|peer| peer.id), Channel::Bulk, bytes.clone())
    }
}

/// Waits for links to all honest validators and finds the resume point after the newest certified block.
async fn resume(
    context: &AttackContext,
    network: &NetworkHandle,
    events: &mut Events,
    links: usize,
) -> anyhow::Result<(Resume, Vec<ValidatorIndex>)> {
    let (mut up, mut newest): (Vec<ValidatorIndex>, Option<(PeerKey, Height)>) = (Vec::new(), None);
    while up.len() < links || newest.is_none() {
        match events.recv().await.context("the network ended")? {
            Event::PeerUp(peer) => up.extend(context.index_of(&peer)),
            Event::PeerDown(peer) => up.retain(|index| Some(*index) != context.index_of(&peer)),
            Event::Message { from, bytes, .. } => {
                if let Ok(PeerMessage::Certificate(certificate)) = PeerMessage::decode(&bytes)
                    && newest.is_none_or(|(_, height)| certificate.height > height)
                {
                    newest = Some((from.id, certificate.height));
                }
            }
            Event::Request { .. } => {}
        }
    }
    let (holder, from) = newest.context("a certificate")?;
    let answer = network.request(holder, wire::encode(&Request::Blocks { from, offset: 0 }).into()).await?;
    let response: Response = wire::decode(&answer)?;
    let last = response.blocks.last().context("the newest certified block")?;
    Ok((last.resume.clone(), up))
}

fn engine(
    context: &AttackContext,
    identity: &InsiderIdentity,
    resume: Resume,
) -> anyhow::Result<(Box<dyn Engine>, Arc<dyn Verifier>)> {
    match context.victims.genesis().engine.name.as_str() {
        "mahi-mahi" => mahi_mahi(context, identity, resume),
        "autobahn" => autobahn(context, identity, resume),
        other => bail!("unsupported engine {other}"),
    }
}

fn mahi_mahi(
    context: &AttackContext,
    identity: &InsiderIdentity,
    resume: Resume,
) -> anyhow::Result<(Box<dyn Engine>, Arc<dyn Verifier>)> {
    use corniche_mahi_mahi::{Config, MahiMahi, MahiVerifier, Setup, Signatures, crypto};
    let (genesis, committee) = (context.victims.genesis(), identity.committee.clone());
    let config = Config::from_genesis(genesis).map_err(anyhow::Error::msg)?;
    let coins = CoinPublicKeys::from_genesis(genesis).context("the genesis' coin keys")?;
    let signatures = crypto::CommitteeSignatures::new(&committee).context("the genesis' consensus keys")?;
    let signatures: Arc<dyn Signatures> = Arc::new(signatures);
    let verifier = MahiVerifier::new(config.clone(), committee.clone(), signatures.clone());
    let engine = MahiMahi::new(Setup {
        config,
        signer: Some(Arc::new(identity.keys.mahi_mahi(&committee)?)),
        signatures,
        coin: Arc::new(crypto::ThresholdCoin::new(&committee, coins)),
        committee,
        seed: now().0,
        records: Vec::new(),
        unsigned: false,
        resume,
        now: now(),
    });
    Ok((Box::new(engine), Arc::new(verifier)))
}

fn autobahn(
    context: &AttackContext,
    identity: &InsiderIdentity,
    resume: Resume,
) -> anyhow::Result<(Box<dyn Engine>, Arc<dyn Verifier>)> {
    use corniche_autobahn::{Autobahn, AutobahnVerifier, Config, Setup, Signatures, crypto};
    let committee = identity.committee.clone();
    let config = Config::from_genesis(context.victims.genesis()).map_err(anyhow::Error::msg)?;
    ensure!(!config.bls, "insiders: BLS certificates are not supported; set the parameter `bls` to 0");
    let signatures: Arc<dyn Signatures> =
        Arc::new(crypto::Ed25519Certificates::new(&committee).context("the genesis' consensus keys")?);
    let verifier = AutobahnVerifier::new(config.clone(), committee.clone(), signatures.clone());
    let engine = Autobahn::new(Setup {
        config,
        signer: Some(Arc::new(identity.keys.autobahn(&committee, false)?)),
        signatures,
        committee,
        seed: now().0,
        records: Vec::new(),
        unsigned: false,
        resume,
        now: now(),
    });
    Ok((Box::new(engine), Arc::new(verifier)))
}

pub fn now() -> TimestampMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimestampMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
