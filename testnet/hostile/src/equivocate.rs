//! Takes the place of a stopped validator and signs two proposals for one position: two blocks of one round (Mahi-Mahi), or two
//! PREPAREs of one slot (Autobahn). It shows both to all members, again and again, until the chain has convicted it.
//!
//! It has no engine: it hears what the others propose, and signs contradictions on top of that. So it works in any epoch.

mod keys;

use anyhow::{Context as _, bail};
use clap::Parser;
use corniche_api::{CommitteeInfo, CommitteeSeat};
use corniche_autobahn::{
    Config, Signer as _,
    crypto::ValidatorKeys as AutobahnKeys,
    message::{CommitQc, Context as AutobahnContext, Cut, Message as AutobahnMessage, SignedPrepare, Slot, View},
    rules::Schedule,
};
use corniche_client::Client;
use corniche_engine::{Committee, Member};
use corniche_mahi_mahi::{
    Signer as _,
    crypto::ValidatorKeys as MahiMahiKeys,
    message::{BlockRef, Content, Context as MahiMahiContext, Message as MahiMahiMessage, Round, SignedBlock},
};
use corniche_network::{Channel, Event, Network, NetworkConfig};
use corniche_pipeline::PeerMessage;
use corniche_types::{Bytes, Epoch, Genesis, TimestampMs, ValidatorIndex, Votes, wire};
use keys::Keys;
use serde_json::json;
use std::{
    collections::BTreeMap,
    io::Write as _,
    path::PathBuf,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::time::interval;

/// How often it asks for the running committee and for its conviction.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of rounds or slots of which it remembers what the others said.
const REMEMBERED: usize = 64;

/// Sign two proposals for one position with the keys of a stopped validator, until the chain has convicted it
#[derive(Parser, Debug)]
#[command(name = "corniche-equivocate")]
struct Options {
    /// Genesis of the network
    #[arg(long, value_name = "FILE")]
    genesis: PathBuf,
    /// Keys of the validator
    #[arg(long, value_name = "DIR")]
    keys: PathBuf,
    /// Number of the validator in the staking contract
    #[arg(long, value_name = "ID")]
    id: u64,
    /// JSON-RPC of an honest node
    #[arg(long, value_name = "URL")]
    rpc: String,
    /// Addresses of honest validators
    #[arg(value_name = "MULTIADDR", required = true)]
    peers: Vec<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let genesis = Genesis::from_json(&std::fs::read_to_string(&options.genesis)?)?;
    let keys = Keys::load(&options.keys)?;
    let mut config = NetworkConfig::from_genesis(keys.network.clone(), &genesis);
    for peer in &options.peers {
        config = config.with_bootstrap(peer)?;
    }
    let (network, mut events) = Network::start(config).await?;
    let mut polls = interval(POLL_INTERVAL);
    let (mut equivocator, mut first): (Option<Equivocator>, Option<Instant>) = (None, None);
    loop {
        let messages = tokio::select! {
            _ = polls.tick() => {
                let (client, id) = (Client::new(&options.rpc), options.id);
                let (is_convicted, committee) = tokio::task::spawn_blocking(move || ask(&client, id)).await??;
                if is_convicted && let Some(first) = first {
                    let result = json!({ "convictedAfterMs": first.elapsed().as_millis() as u64 });
                    writeln!(std::io::stdout(), "{result}")?;
                    return Ok(());
                }
                // After the epoch in which it equivocated it may be no member.
                if first.is_none() && equivocator.as_ref().is_none_or(|known| known.epoch.0 != committee.epoch) {
                    equivocator = Some(Equivocator::new(&genesis, committee, &keys)?);
                }
                // Members send the messages of an epoch to peers that say they are in it.
                equivocator.iter().map(|known| PeerMessage::Epoch { epoch: known.epoch, wants_answer: false }).collect()
            }
            event = events.recv() => match (event.context("the network ended")?, &mut equivocator) {
                (Event::Message { bytes, .. }, Some(equivocator)) => equivocator.contradict(&bytes),
                _ => Vec::new(),
            },
        };
        if messages.len() > 1 {
            first.get_or_insert_with(Instant::now);
        }
        for message in messages {
            network.broadcast(network.peers().iter().map(|peer| peer.id), Channel::Bulk, message.encode());
        }
    }
}

/// Returns true if the validator is convicted, and the running committee.
fn ask(client: &Client, id: u64) -> anyhow::Result<(bool, CommitteeInfo)> {
    let staking = client.staking()?.context("the chain has no staking")?;
    let is_convicted = staking.validators.iter().any(|validator| validator.id == id && validator.jailed_until > 0);
    let committee: Option<CommitteeInfo> = client.transport().request("corniche_getCommittee", json!(["latest"]))?;
    Ok((is_convicted, committee.context("the running committee")?))
}

/// A member of one committee that contradicts itself.
trait Contradict: Send {
    /// Hears a message of the engine, and returns contradictory ones.
    fn contradict(&mut self, message: &[u8]) -> Vec<Bytes>;
}

/// The member of the running committee that has these keys.
struct Equivocator {
    epoch: Epoch,
    behaviour: Box<dyn Contradict>,
}

impl Equivocator {
    fn new(genesis: &Genesis, info: CommitteeInfo, keys: &Keys) -> anyhow::Result<Self> {
        let epoch = Epoch(info.epoch);
        let members =
            info.members.into_iter().map(member).collect::<Option<_>>().context("members of the running committee")?;
        let committee = Committee::of_epoch(genesis, epoch, info.committee_hash, members);
        let behaviour: Box<dyn Contradict> = match genesis.engine.name.as_str() {
            "mahi-mahi" => Box::new(Blocks::new(committee, keys)?),
            "autobahn" => Box::new(Prepares::new(genesis, &committee, keys)?),
            other => bail!("unsupported engine {other}"),
        };
        Ok(Self { epoch, behaviour })
    }

    /// Two contradictory proposals after a message of this epoch on which they can build; none after others.
    fn contradict(&mut self, message: &[u8]) -> Vec<PeerMessage> {
        let message = match PeerMessage::decode(message) {
            Ok(PeerMessage::Engine(message)) if self.epoch == Epoch(0) => message,
            Ok(PeerMessage::EpochEngine(epoch, message)) if self.epoch == epoch => message,
            _ => return Vec::new(),
        };
        let proposals = self.behaviour.contradict(&message);
        proposals.into_iter().map(|proposal| PeerMessage::engine(self.epoch, proposal)).collect()
    }
}

fn member(seat: CommitteeSeat) -> Option<Member> {
    Some(Member {
        consensus_key: seat.consensus_key?,
        bls_key: seat.bls_key,
        bls_proof: Bytes::new(),
        network_key: seat.network_key?,
        fee_address: seat.fee_address?,
        votes: Votes(u32::try_from(seat.votes).ok()?),
        stake: None,
    })
}

/// Mahi-Mahi: two blocks of one round, on a quorum of blocks of the round before.
struct Blocks {
    context: MahiMahiContext,
    signer: MahiMahiKeys,
    committee: Committee,
    heard: BTreeMap<Round, BTreeMap<ValidatorIndex, BlockRef>>,
}

impl Blocks {
    fn new(committee: Committee, keys: &Keys) -> anyhow::Result<Self> {
        Ok(Self {
            context: MahiMahiContext::new(&committee),
            signer: keys.mahi_mahi(&committee)?,
            committee,
            heard: BTreeMap::new(),
        })
    }
}

impl Contradict for Blocks {
    fn contradict(&mut self, message: &[u8]) -> Vec<Bytes> {
        let Ok(MahiMahiMessage::Block(SignedBlock { content, .. })) = wire::decode(message) else { return Vec::new() };
        let (me, author, round) = (self.signer.index(), content.author, content.round);
        let parents = self.heard.entry(round).or_default();
        parents.insert(author, BlockRef { round, author, digest: self.context.digest(&content) });
        let has_quorum = self.committee.weigh(parents.keys().copied()) >= self.committee.quorum();
        // The first parent has to be an own block. The genesis block always exists.
        let parents: Vec<_> = std::iter::once(self.context.genesis(me)).chain(parents.values().copied()).collect();
        while self.heard.len() > REMEMBERED {
            self.heard.pop_first();
        }
        if !has_quorum {
            return Vec::new();
        }
        let coin_shares = vec![[0; 48]; self.committee.votes(me).as_usize()];
        let block = |timestamp| {
            let content = Content {
                author: me,
                round: round + 1,
                timestamp,
                parents: parents.clone(),
                coin_shares: coin_shares.clone(),
                batch: Bytes::new(),
            };
            let signature = self.signer.sign_digest(&self.context.digest(&content));
            MahiMahiMessage::Block(SignedBlock { content, signature }).encode()
        };
        two_times().map(block).into()
    }
}

/// Autobahn: two PREPAREs of a slot that it leads, both with the tips that were committed last.
struct Prepares {
    context: AutobahnContext,
    signer: AutobahnKeys,
    schedule: Schedule,
    open_slots: u64,
    cuts: BTreeMap<Slot, Cut>,
}

impl Prepares {
    fn new(genesis: &Genesis, committee: &Committee, keys: &Keys) -> anyhow::Result<Self> {
        let config = Config::from_genesis(genesis).map_err(anyhow::Error::msg)?;
        Ok(Self {
            context: AutobahnContext::new(committee),
            signer: keys.autobahn(committee, config.bls)?,
            schedule: Schedule::new(committee, &config),
            open_slots: config.open_slots,
            cuts: BTreeMap::new(),
        })
    }

    fn prepares(&self, anchor: &CommitQc) -> Vec<Bytes> {
        let (slot, view) = (Slot(anchor.slot.0 + self.open_slots), View(0));
        let committed = self.cuts.get(&anchor.slot).filter(|cut| self.context.cut(cut) == anchor.cut);
        let Some(committed) = committed.filter(|_| self.schedule.leader(slot, view) == self.signer.index()) else {
            return Vec::new();
        };
        let prepare = |time| {
            let cut = Cut { slot, anchor: anchor.cut, time, tips: committed.tips.clone() };
            let signature = self.signer.sign_digest(&self.context.prepare(slot, view, self.context.cut(&cut)));
            let previous = Some(anchor.clone());
            AutobahnMessage::Prepare(SignedPrepare { view, cut, signature, available: Vec::new(), previous, timeouts: None })
                .encode()
        };
        two_times().map(prepare).into()
    }
}

impl Contradict for Prepares {
    fn contradict(&mut self, message: &[u8]) -> Vec<Bytes> {
        match wire::decode(message) {
            Ok(AutobahnMessage::Prepare(prepare)) => {
                let prepares = prepare.previous.as_ref().map(|anchor| self.prepares(anchor)).unwrap_or_default();
                self.cuts.insert(prepare.cut.slot, prepare.cut);
                while self.cuts.len() > REMEMBERED {
                    self.cuts.pop_first();
                }
                prepares
            }
            Ok(AutobahnMessage::Commit(anchor)) => self.prepares(&anchor),
            _ => Vec::new(),
        }
    }
}

/// The only difference between two proposals.
fn two_times() -> [TimestampMs; 2] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    [TimestampMs(now), TimestampMs(now - 1)]
}
