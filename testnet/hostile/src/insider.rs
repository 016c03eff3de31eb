//! A faulty validator: a real engine with a real validator's keys, resumed at the network's current state, and a [`Mischief`]
//! that proposes batches, changes the engine's messages and adds its own.
//!
//! It executes and stores nothing: records count as durable at once.

use crate::{field::Field, keys::Keys};
use anyhow::{Context, anyhow, bail, ensure};
use corniche_admission::batch;
use corniche_crypto::CoinPublicKeys;
use corniche_engine::{Batch, Committee, Engine, Input, Output, Recipients, Resume, Verifier};
use corniche_network::{Channel, Event, Events, Network, NetworkConfig, NetworkHandle, PeerKey};
use corniche_pipeline::{PeerMessage, Request, Response};
use corniche_types::{Bytes, Height, TimestampMs, ValidatorIndex, wire};
use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Interval of deadlines and of the mischief's own messages.
const TICK: Duration = Duration::from_millis(5);
/// Number of users' transactions that wait for a batch; honest users here send far fewer.
const PASSED_ON: usize = 1_000;
/// Timeout for links and for the block to resume after.
const JOIN: Duration = Duration::from_secs(10);

/// Faulty behaviour in addition to the protocol, or instead of it. The default has none.
pub trait Mischief: Send {
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
}

/// A validator that the attacker replaces.
pub struct Seat {
    pub committee: Committee,
    pub index: ValidatorIndex,
    pub keys: Keys,
}

/// Runs every insider of the field with its own mischief until the budget is spent.
pub async fn run(field: &Field, mischief: impl Fn(&Seat) -> anyhow::Result<Box<dyn Mischief>>) -> anyhow::Result<()> {
    let mut insiders = Vec::new();
    for index in &field.insiders {
        let seat = Seat {
            committee: Committee::from_genesis(&field.victims.genesis),
            index: ValidatorIndex(u16::try_from(*index)?),
            keys: Keys::load(&field.victims.members[*index].keys)?,
        };
        let mischief = mischief(&seat)?;
        insiders.push(Insider::join(field, seat, mischief).await?);
    }
    futures::future::join_all(insiders.into_iter().map(Insider::run)).await;
    Ok(())
}

struct Insider<'a> {
    field: &'a Field,
    network: NetworkHandle,
    events: Events,
    engine: Box<dyn Engine>,
    verifier: Arc<dyn Verifier>,
    mischief: Box<dyn Mischief>,
    wants_batch: bool,
    /// Transactions that others forwarded, for the next batch.
    passed_on: Vec<Bytes>,
}

impl<'a> Insider<'a> {
    /// Connects to the honest validators and creates the engine at the newest certified block.
    async fn join(field: &'a Field, seat: Seat, mischief: Box<dyn Mischief>) -> anyhow::Result<Self> {
        let mut config = NetworkConfig::from_genesis(seat.keys.network.clone(), &field.victims.genesis);
        config.bootstrap = field.honest().into_iter().map(|index| field.address(index)).collect();
        let (network, mut events) = Network::start(config).await?;
        let joined = timeout(JOIN, resume(&network, &mut events, field.honest().len()));
        let (resume, up) = joined.await.map_err(|_| anyhow!("no certified block to resume after within {JOIN:?}"))??;
        let (engine, verifier) = engine(field, &seat, resume)?;
        let mut insider =
            Self { field, network, events, engine, verifier, mischief, wants_batch: false, passed_on: Vec::new() };
        for index in up {
            insider.give(Input::PeerUp(index));
        }
        Ok(insider)
    }

    async fn run(mut self) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !self.field.budget.is_over() {
            tokio::select! {
                _ = ticks.tick() => self.tick(),
                event = self.events.recv() => match event {
                    Some(event) => self.on_event(event),
                    None => break,
                },
            }
        }
        // Lets messages queued last still leave.
        tokio::time::sleep(TICK * 20).await;
        self.network.shutdown().await;
    }

    fn tick(&mut self) {
        if self.engine.deadline().is_some_and(|deadline| deadline <= now()) {
            self.give(Input::Deadline);
        }
        self.propose();
        for _ in 0..self.mischief.extras_per_tick() {
            let Some(bytes) = self.mischief.extra().filter(|_| self.field.budget.take()) else { break };
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
            self.give(Input::Batch(Batch { bytes }));
        }
    }

    /// Users first, so that a row of the table shows the attack and not the effect of [`Mischief::serves_users`].
    fn next_batch(&mut self) -> Option<Bytes> {
        match std::mem::take(&mut self.passed_on) {
            none if none.is_empty() => self.mischief.batch().filter(|_| self.field.budget.take()),
            some => batch::encode(&some).ok(),
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::PeerUp(peer) => peer.validator.map_or((), |index| self.give(Input::PeerUp(index))),
            Event::PeerDown(peer) => peer.validator.map_or((), |index| self.give(Input::PeerDown(index))),
            Event::Message { from, bytes, .. } => {
                if let Some(from) = from.validator {
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
                    self.give(Input::Message { from, message });
                }
            }
            Ok(PeerMessage::Transactions(raw)) if self.mischief.serves_users() && self.passed_on.len() < PASSED_ON => {
                self.passed_on.extend(raw);
            }
            _ => {}
        }
    }

    fn give(&mut self, input: Input) {
        self.engine.handle(now(), input);
        while let Some(output) = self.engine.poll() {
            match output {
                Output::WantBatch { .. } => self.wants_batch = true,
                Output::Persist(ticket, _) => self.engine.handle(now(), Input::Durable(ticket)),
                Output::Send { to, message } => {
                    let more = self.mischief.after(&message);
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
        let wanted = |index: ValidatorIndex| match to {
            Recipients::All => true,
            Recipients::One(one) => one == index,
        };
        let peers = self.network.peers().into_iter().filter(|peer| peer.validator.is_some_and(wanted));
        self.network.broadcast(peers.map(|peer| peer.id), Channel::Bulk, bytes.clone())
    }
}

/// Waits for links to all honest validators and finds the resume point after the newest certified block.
async fn resume(network: &NetworkHandle, events: &mut Events, links: usize) -> anyhow::Result<(Resume, Vec<ValidatorIndex>)> {
    let (mut up, mut newest): (Vec<ValidatorIndex>, Option<(PeerKey, Height)>) = (Vec::new(), None);
    while up.len() < links || newest.is_none() {
        match events.recv().await.context("the network ended")? {
            Event::PeerUp(peer) => up.extend(peer.validator),
            Event::PeerDown(peer) => up.retain(|index| Some(*index) != peer.validator),
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

fn engine(field: &Field, seat: &Seat, resume: Resume) -> anyhow::Result<(Box<dyn Engine>, Arc<dyn Verifier>)> {
    match field.victims.genesis.engine.name.as_str() {
        "mahi-mahi" => mahi_mahi(field, seat, resume),
        "autobahn" => autobahn(field, seat, resume),
        other => bail!("no insider knows the engine {other}"),
    }
}

fn mahi_mahi(field: &Field, seat: &Seat, resume: Resume) -> anyhow::Result<(Box<dyn Engine>, Arc<dyn Verifier>)> {
    use corniche_mahi_mahi::{Config, MahiMahi, MahiVerifier, Setup, Signatures, real};
    let (genesis, committee) = (&field.victims.genesis, seat.committee.clone());
    let config = Config::from_genesis(genesis).map_err(anyhow::Error::msg)?;
    let coins = CoinPublicKeys::from_genesis(genesis).context("the genesis' coin keys")?;
    let signatures = real::CommitteeSignatures::new(&committee).context("the genesis' consensus keys")?;
    let signatures: Arc<dyn Signatures> = Arc::new(signatures);
    let verifier = MahiVerifier::new(config.clone(), committee.clone(), signatures.clone());
    let engine = MahiMahi::new(Setup {
        config,
        signer: Some(Arc::new(seat.keys.mahi_mahi(&committee)?)),
        signatures,
        coin: Arc::new(real::ThresholdCoin::new(&committee, coins)),
        committee,
        seed: now().0,
        records: Vec::new(),
        unsigned: false,
        resume,
        now: now(),
    });
    Ok((Box::new(engine), Arc::new(verifier)))
}

fn autobahn(field: &Field, seat: &Seat, resume: Resume) -> anyhow::Result<(Box<dyn Engine>, Arc<dyn Verifier>)> {
    use corniche_autobahn::{Autobahn, AutobahnVerifier, Config, Setup, Signatures, real};
    let committee = seat.committee.clone();
    let config = Config::from_genesis(&field.victims.genesis).map_err(anyhow::Error::msg)?;
    ensure!(!config.bls, "insiders sign lists, not sums; leave the parameter `bls` off");
    let signatures: Arc<dyn Signatures> = Arc::new(real::Lists::new(&committee).context("the genesis' consensus keys")?);
    let verifier = AutobahnVerifier::new(config.clone(), committee.clone(), signatures.clone());
    let engine = Autobahn::new(Setup {
        config,
        signer: Some(Arc::new(seat.keys.autobahn(&committee, false)?)),
        signatures,
        committee,
        seed: now().0,
        records: Vec::new(),
        resume,
        now: now(),
    });
    Ok((Box::new(engine), Arc::new(verifier)))
}

pub fn now() -> TimestampMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimestampMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
