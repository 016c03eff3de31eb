//! Faulty validators sign full blocks of far future rounds, with nonexistent parents. Each block waits for its parents, and the
//! victim requests each parent from all peers.
//!
//! Requirement: stored blocks of future rounds are bounded in bytes and requests in number; memory does not grow with the attack.

use super::{Attack, By, FEW};
use crate::{
    field::Field,
    forge::{Forge, MADE_AHEAD},
    insider::{self, Mischief},
};
use corniche_mahi_mahi::message::{Message, Round};
use corniche_pipeline::PeerMessage;
use corniche_types::Bytes;

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
