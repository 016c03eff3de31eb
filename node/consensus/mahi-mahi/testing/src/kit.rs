//! The engine with one committee and modelled keys.

use crate::{BadShares, FakeCoin, FakeKeys, FakeSignatures, NAME, committee, committee_of, sign};
use corniche_engine::{Committee, Verifier, VertexId};
use corniche_mahi_mahi::{
    Coin, Config, MahiMahi, MahiVerifier, Setup, Signer,
    message::{Context, Message, SignedBlock},
};
use corniche_testkit::{Forgery, Kit, Measured, MeasuredEngine, Random, derive_bytes, unequal_votes};
use corniche_types::{B256, Bytes, ValidatorIndex, wire};
use std::{rc::Rc, sync::Arc};

/// Mahi-Mahi with one committee and modelled keys.
pub struct MahiKit {
    pub config: Config,
    committee: Committee,
    coin: Arc<dyn Coin>,
}

impl MahiKit {
    /// A committee of this size with fast pacing, so that short runs cover many rounds.
    pub fn quick(size: usize) -> Rc<dyn Kit> {
        Self::quick_with(committee(size))
    }

    /// Like [`Self::quick`], with unequal votes.
    pub fn quick_weighted(size: usize) -> Rc<dyn Kit> {
        Self::quick_with(committee_of(&unequal_votes(size)))
    }

    fn quick_with(committee: Committee) -> Rc<dyn Kit> {
        let config = Config {
            min_round_ms: 10,
            parent_grace_ms: 2,
            heartbeat_ms: 1_000,
            gc_depth: 30,
            retain_rounds: 60,
            ..Config::default()
        };
        Rc::new(Self::new(committee, config))
    }

    pub fn new(committee: Committee, config: Config) -> Self {
        Self { config, committee, coin: Arc::new(FakeCoin::default()) }
    }

    fn context(&self) -> Context {
        Context::new(&self.committee)
    }

    fn vertex(&self, block: &SignedBlock) -> VertexId {
        let digest = self.context().digest(&block.content);
        VertexId { round: block.content.round.0, author: block.content.author, digest }
    }
}

impl Kit for MahiKit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn committee(&self) -> &Committee {
        &self.committee
    }

    fn start(&self, setup: corniche_testkit::Setup) -> Box<dyn Measured> {
        let corniche_testkit::Setup { me, seed, records, unsigned, resume, now, forgery } = setup;
        let signer: Arc<dyn Signer> = match forgery {
            Some(Forgery::Share) => Arc::new(BadShares(me, self.committee.votes(me))),
            _ => Arc::new(FakeKeys(me, self.committee.votes(me))),
        };
        let (config, committee, coin) = (self.config.clone(), self.committee.clone(), self.coin.clone());
        let (signer, signatures) = (Some(signer), Arc::new(FakeSignatures));
        let setup = Setup { config, committee, signer, signatures, coin, seed, records, unsigned, resume, now };
        Box::new(MeasuredEngine {
            engine: MahiMahi::new(setup),
            footprint: |engine| engine.footprint().iter().sum(),
            describe: |_| String::new(),
        })
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        Arc::new(MahiVerifier::new(self.config.clone(), self.committee.clone(), Arc::new(FakeSignatures)))
    }

    fn published_proposal(&self, message: &Bytes) -> Option<VertexId> {
        match wire::decode(message) {
            Ok(Message::Block(block)) => Some(self.vertex(&block)),
            _ => None,
        }
    }

    fn recorded_proposal(&self, record: &Bytes) -> Option<VertexId> {
        wire::decode(record).ok().map(|block| self.vertex(&block))
    }

    fn forge(&self, author: ValidatorIndex, forgery: Forgery, message: &Bytes, random: &mut Random) -> Option<Bytes> {
        let Ok(Message::Block(mut block)) = wire::decode(message) else { return None };
        let content = &mut block.content;
        match forgery {
            Forgery::Share => {
                let forger = BadShares(author, self.committee.votes(author));
                content.coin_shares = forger.coin_shares(&self.context().coin_message(content.round));
            }
            Forgery::Parents => {
                let place = random.below(content.parents.len() as u64) as usize;
                match random.below(4) {
                    // No validator ever has this block.
                    0 => {
                        content.parents[place].digest =
                            B256::from(derive_bytes("nowhere", author.0, &random.draw().to_le_bytes()))
                    }
                    1 => content.parents.push(content.parents[place]),
                    2 => content.parents.truncate(place),
                    // Valid, but casts other votes.
                    _ => content.parents[1..].reverse(),
                }
            }
        }
        block.signature = sign(author, &self.context().digest(&block.content));
        Some(Message::Block(block).encode())
    }

    /// A round commits at most ℓ leaders, and blocks `retain_rounds` below the floor are pruned.
    fn max_lag(&self) -> u64 {
        self.config.retain_rounds
    }

    fn max_footprint(&self) -> usize {
        self.config.max_footprint(self.committee.size())
    }
}
