//! Faulty validators sign full blocks of rounds that are far ahead, on parents that do not exist. Each waits for its parents, and each
//! parent is wanted from everybody.
//!
//! Must hold: what is kept of rounds ahead is bounded in bytes, what is asked for in number; memory does not follow the attack.

use super::{Attack, By, FEW};
use crate::{
    field::Field,
    insider::{self, Mischief, Seat, now},
};
use corniche_engine::Committee;
use corniche_mahi_mahi::{
    Signer,
    message::{BlockRef, Content, Context, Message, Round, SignedBlock},
    real::ValidatorKeys,
};
use corniche_pipeline::PeerMessage;
use corniche_types::{B256, Bytes};

/// First round that is made up: a network needs weeks to get there.
pub const MADE_AHEAD: u64 = 1 << 32;

pub const ATTACK: Attack = Attack {
    name: "far-rounds",
    item: "B7",
    about: "validators sign full blocks of far rounds on parents that do not exist",
    by: By::Validators,
    engine: Some("mahi-mahi"),
    restart: None,
    few: FEW,
    run: |field| Box::pin(run(field)),
};

async fn run(field: &Field) -> anyhow::Result<()> {
    let junk = Bytes::from(vec![0xff; field.victims.genesis.batch_bytes as usize]);
    insider::run(field, |seat| Ok(Box::new(Far { forge: Forge::new(seat)?, junk: junk.clone(), next: MADE_AHEAD }))).await
}

struct Far {
    forge: Forge,
    junk: Bytes,
    next: u64,
}

impl Mischief for Far {
    fn extra(&mut self) -> Option<Bytes> {
        self.next += 2;
        let block = self.forge.block(Round(self.next), self.junk.clone());
        Some(PeerMessage::Engine(Message::Block(block).encode()).encode())
    }
}

/// Signs blocks that no engine would make.
pub struct Forge {
    committee: Committee,
    context: Context,
    signer: ValidatorKeys,
}

impl Forge {
    pub fn new(seat: &Seat) -> anyhow::Result<Self> {
        let signer = seat.keys.mahi_mahi(&seat.committee)?;
        Ok(Self { committee: seat.committee.clone(), context: Context::new(&seat.committee), signer })
    }

    /// A block that passes every check of its own bytes; its parents are made up.
    pub fn block(&self, round: Round, batch: Bytes) -> SignedBlock {
        let me = self.signer.index();
        let others = self.committee.indices().filter(|index| *index != me);
        let parents = std::iter::once(me).chain(others).take(self.committee.quorum()).map(|author| {
            let name = [round.0.to_le_bytes(), u64::from(author.0).to_le_bytes()].concat();
            BlockRef { round: round - 1, author, digest: B256::from(corniche_crypto::digest(&name).0) }
        });
        let (parents, coin_share) = (parents.collect(), [0; 48]);
        self.sign(Content { author: me, round, timestamp: now(), parents, coin_share, batch })
    }

    pub fn sign(&self, content: Content) -> SignedBlock {
        let signature = self.signer.sign(&self.context.digest(&content));
        SignedBlock { content, signature }
    }
}
