//! A committee of one real engine and scripted others.

use crate::allocations;
use corniche_crypto::{CoinPublicKeys, ConsensusKey, deal_coin};
use corniche_engine::{Batch, Committee, Engine, Input, Output, Resume, Verifier};
use corniche_mahi_mahi::{
    Coin, CoinShare, CoinValue, Config, MahiMahi, MahiVerifier, Setup, Signature, Signatures, Signer, kit,
    message::{BlockRef, CoinHelp, Content, Context, Message, Round, SignedBlock, Welcome},
    real::{CommitteeSignatures, ThresholdCoin, ValidatorKeys},
};
use corniche_types::{Address, B256, Bytes, FaultModel, TimestampMs, ValidatorIndex, ValidatorInfo, wire};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Which coins stay closed until [`Net::open_coins`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Coins {
    Open,
    /// Only the first that elects anybody.
    FirstWithheld,
    AllWithheld,
}

pub struct Setting {
    pub n: usize,
    pub batch_bytes: usize,
    pub config: Config,
    pub coins: Coins,
    pub real: bool,
}

impl Default for Setting {
    fn default() -> Self {
        Self { n: 4, batch_bytes: 0, config: Config::default(), coins: Coins::Open, real: false }
    }
}

/// What the engine did and what it took.
#[derive(Default)]
pub struct Cost {
    pub blocks: u64,
    pub commits: u64,
    pub committed_bytes: usize,
    /// One entry a round.
    pub engine: Vec<Duration>,
    /// Likewise.
    pub verifier: Vec<Duration>,
    pub allocations: u64,
    pub allocated_bytes: u64,
}

impl Cost {
    pub fn micros_per_block(&self) -> f64 {
        micros(&self.engine) * self.engine.len() as f64 / self.blocks as f64
    }

    pub fn verifier_micros_per_block(&self) -> f64 {
        micros(&self.verifier) * self.verifier.len() as f64 / self.blocks as f64
    }

    pub fn committed_per_second(&self, transaction_bytes: usize) -> f64 {
        (self.committed_bytes / transaction_bytes) as f64 * 1e6 / (micros(&self.engine) * self.engine.len() as f64)
    }
}

/// The first quartile, in microseconds.
fn micros(rounds: &[Duration]) -> f64 {
    let mut sorted = rounds.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 4].as_secs_f64() * 1e6
}

/// Validator 0 is the engine.
pub struct Net {
    setting: Setting,
    context: Context,
    signers: Vec<Arc<dyn Signer>>,
    verifier: MahiVerifier,
    engine: MahiMahi,
    withheld: Arc<AtomicBool>,
    round: u64,
    /// Everybody's block of the round before.
    last: Vec<BlockRef>,
    /// The engine's own blocks, the genesis block first.
    own: Vec<BlockRef>,
    batch: Bytes,
    /// Of one input; kept for its room.
    outputs: Vec<Output>,
    /// In this round so far.
    working: Duration,
    verifying: Duration,
    cost: Cost,
}

struct Keys {
    committee: Committee,
    signers: Vec<Arc<dyn Signer>>,
    signatures: Arc<dyn Signatures>,
    coin: Arc<dyn Coin>,
}

impl Net {
    pub fn new(setting: Setting) -> Self {
        let withheld = Arc::new(AtomicBool::new(setting.coins != Coins::Open));
        let keys = if setting.real { real(setting.n) } else { modelled(&setting, withheld.clone()) };
        let Keys { committee, signers, signatures, coin } = keys;
        let context = Context::new(&committee);
        let verifier = MahiVerifier::new(setting.config.clone(), committee.clone(), signatures);
        let engine = MahiMahi::new(Setup {
            config: setting.config.clone(),
            committee,
            signer: Some(signers[0].clone()),
            coin,
            seed: 1,
            records: Vec::new(),
            resume: Resume::default(),
            now: TimestampMs(1_000),
        });
        let last = (0..setting.n).map(|author| context.genesis(index(author))).collect();
        let own = vec![context.genesis(index(0))];
        let batch = vec![7; setting.batch_bytes].into();
        let cost = Cost::default();
        let (working, verifying) = Default::default();
        let mut net = Self {
            setting,
            context,
            signers,
            verifier,
            engine,
            withheld,
            round: 0,
            last,
            own,
            batch,
            outputs: Vec::new(),
            working,
            verifying,
            cost,
        };
        net.greet();
        net
    }

    /// Everybody answers the engine's first question, so that it may propose.
    fn greet(&mut self) {
        let mut nonces = Vec::new();
        while let Some(output) = self.engine.poll() {
            if let Output::Send { message, .. } = output
                && let Ok(Message::Hello(hello)) = wire::decode(&message)
            {
                nonces.push(hello.nonce);
            }
        }
        for nonce in nonces.into_iter().take(self.setting.n - 1) {
            // As at the birth of a network: nobody has a block yet.
            let named = Some(self.context.genesis(index(0)));
            let welcome = Message::Welcome(Welcome { nonce, latest: None, named });
            (1..self.setting.n).for_each(|from| self.tell(from, &welcome));
        }
    }

    fn tell(&mut self, from: usize, message: &Message) {
        let bytes = message.encode();
        let start = Instant::now();
        let message = self.verifier.verify(index(from), &bytes).unwrap();
        self.verifying += start.elapsed();
        self.input(Input::Message { from: index(from), message });
    }

    /// One input, on the engine's bill, and the answers to what it asks for.
    fn input(&mut self, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let now = TimestampMs(1_000 + self.round * 20);
            let (count, bytes) = allocations::so_far();
            let start = Instant::now();
            self.engine.handle(now, input);
            while let Some(output) = self.engine.poll() {
                self.outputs.push(output);
            }
            self.working += start.elapsed();
            let (count_now, bytes_now) = allocations::so_far();
            self.cost.allocations += count_now - count;
            self.cost.allocated_bytes += bytes_now - bytes;
            next = self.take_outputs();
        }
    }

    /// At most one of them asks for an answer.
    fn take_outputs(&mut self) -> Option<Input> {
        let mut answer = None;
        for output in self.outputs.drain(..) {
            match output {
                Output::WantBatch { .. } => answer = Some(Input::Batch(Batch { bytes: self.batch.clone() })),
                Output::Persist(ticket, record) => {
                    if let Some(own) = own_block(&record, &self.context) {
                        self.own.push(own);
                        self.cost.blocks += 1;
                        answer = Some(Input::Durable(ticket));
                    }
                }
                Output::Deliver(ordered) => {
                    self.cost.commits += 1;
                    self.cost.committed_bytes += ordered.batches.iter().map(|(_, batch)| batch.bytes.len()).sum::<usize>();
                }
                Output::Accuse { .. } => panic!("nobody misbehaves here"),
                _ => {}
            }
        }
        answer
    }

    pub fn run(&mut self, rounds: u64) {
        for _ in 0..rounds {
            self.one_round();
            self.end_of_round();
        }
    }

    /// Everybody references everybody's block of the round before; the engine's is there already, because it proposes as
    /// soon as it has all of these.
    fn one_round(&mut self) {
        self.round += 1;
        self.input(Input::Deadline);
        self.last[0] = *self.own.get(self.round as usize - 1).expect("the engine proposes in every round");
        let parents = self.last.clone();
        for author in 1..self.setting.n {
            let block = self.sign(author, &parents);
            let digest = self.context.digest(&block.content);
            self.last[author] = BlockRef { round: Round(self.round), author: index(author), digest };
            self.cost.blocks += 1;
            self.tell(author, &Message::Block(block));
        }
    }

    fn sign(&self, author: usize, parents: &[BlockRef]) -> SignedBlock {
        let mut parents = parents.to_vec();
        parents[..=author].rotate_right(1);
        let content = Content {
            author: index(author),
            round: Round(self.round),
            timestamp: TimestampMs(1_000 + self.round * 20),
            parents,
            coin_share: self.signers[author].coin_share(&self.context.coin_message(Round(self.round))),
            batch: self.batch.clone(),
        };
        let signature = self.signers[author].sign(&self.context.digest(&content));
        SignedBlock { content, signature }
    }

    /// Somebody opened the coins and passes them on, oldest first.
    pub fn open_coins(&mut self) {
        self.withheld.store(false, Relaxed);
        let rounds: Vec<_> = (1..=self.round).map(Round).collect();
        for part in rounds.chunks(64) {
            let values = part.iter().map(|round| (*round, value(&self.context.coin_message(*round)))).collect();
            self.tell(1, &Message::Coins(CoinHelp { values, shares: Vec::new() }));
        }
        self.end_of_round();
    }

    fn end_of_round(&mut self) {
        self.cost.engine.push(std::mem::take(&mut self.working));
        self.cost.verifier.push(std::mem::take(&mut self.verifying));
    }

    /// Since the last call.
    pub fn take_cost(&mut self) -> Cost {
        std::mem::take(&mut self.cost)
    }
}

/// The reference of a record, when it is the engine's own. Reads only its head: author first, then round.
fn own_block(record: &Bytes, context: &Context) -> Option<BlockRef> {
    let head = record.get(..11)?;
    if head[1..3] != [0, 0] {
        return None;
    }
    let block: SignedBlock = wire::decode(record).ok()?;
    Some(BlockRef { round: block.content.round, author: block.content.author, digest: context.digest(&block.content) })
}

fn index(position: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(position).unwrap())
}

fn real(n: usize) -> Keys {
    let key = |position: usize| ConsensusKey::from_seed([u8::try_from(position).unwrap() + 1; 32]);
    let consensus: Vec<_> = (0..n).map(key).collect();
    let deal = deal_coin(n, FaultModel::Byzantine.quorum(n), [9; 32]);
    let validator = |key: &ConsensusKey| ValidatorInfo {
        consensus_key: key.public(),
        bls_key: Bytes::new(),
        bls_proof: Bytes::new(),
        network_key: B256::ZERO,
        fee_address: Address::ZERO,
    };
    let mut genesis = corniche_testkit::genesis("mahi-mahi", consensus.iter().map(validator).collect());
    (genesis.coin_public_key, genesis.coin_shares) = deal.public.to_genesis();
    let committee = Committee::from_genesis(&genesis);
    let signer = |(key, share)| Arc::new(ValidatorKeys::new(&committee, key, share).unwrap()) as Arc<dyn Signer>;
    let signers = consensus.into_iter().zip(deal.shares).map(signer).collect();
    let signatures = Arc::new(CommitteeSignatures::new(&committee).unwrap());
    let coin = Arc::new(ThresholdCoin::new(&committee, CoinPublicKeys::from_genesis(&genesis).unwrap()));
    Keys { committee, signers, signatures, coin }
}

/// Costs next to nothing, so that what is left is the engine's own.
fn modelled(setting: &Setting, withheld: Arc<AtomicBool>) -> Keys {
    let committee = kit::committee(setting.n);
    let first = Context::new(&committee).coin_message(Round(setting.config.wave_length));
    let only = (setting.coins == Coins::FirstWithheld).then_some(first);
    let signer = |position| Arc::new(Modelled(index(position))) as Arc<dyn Signer>;
    Keys {
        committee,
        signers: (0..setting.n).map(signer).collect(),
        signatures: Arc::new(Modelled(index(0))),
        coin: Arc::new(ModelledCoin { withheld, only }),
    }
}

struct Modelled(ValidatorIndex);

impl Signer for Modelled {
    fn index(&self) -> ValidatorIndex {
        self.0
    }
    fn sign(&self, _: &B256) -> Signature {
        [1; 64]
    }
    fn coin_share(&self, _: &[u8]) -> CoinShare {
        [2; 48]
    }
}

impl Signatures for Modelled {
    fn verify(&self, _: ValidatorIndex, _: &B256, _: &Signature) -> bool {
        true
    }
}

struct ModelledCoin {
    withheld: Arc<AtomicBool>,
    /// The one coin that is withheld; `None` for all.
    only: Option<Vec<u8>>,
}

fn value(message: &[u8]) -> CoinValue {
    let mut value = [0; 48];
    value[..32].copy_from_slice(B256::from(<[u8; 32]>::try_from(&message[message.len() - 32..]).unwrap()).as_slice());
    value
}

impl Coin for ModelledCoin {
    fn combine(&self, message: &[u8], _: &[(ValidatorIndex, CoinShare)]) -> Option<CoinValue> {
        let concerned = self.only.as_ref().is_none_or(|only| only == message);
        (!(concerned && self.withheld.load(Relaxed))).then(|| value(message))
    }
    fn verify(&self, _: &[u8], _: &CoinValue) -> bool {
        true
    }
    fn verify_share(&self, _: ValidatorIndex, _: &[u8], _: &CoinShare) -> bool {
        true
    }
}
