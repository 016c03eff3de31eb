//! Faulty validators sign full blocks of far future rounds, with nonexistent parents. Each block waits for its parents, and the
//! victim requests each parent from all peers.
//!
//! Requirement: stored blocks of future rounds are bounded in bytes and requests in number; memory does not grow with the attack.

use super::{Attack, By, SHORT_MESSAGES};
use crate::{
    context::AttackContext,
    forge::{FORGED_ROUND_OFFSET, Forge},
    insider::{self, Behaviour},
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
    signatures: None,
    restart: None,
    few: SHORT_MESSAGES,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    let junk = Bytes::from(vec![0xff; context.victims.genesis().batch_bytes as usize]);
    insider::run(context, |identity| {
        Ok(Box::new(Far { forge: Forge::new(identity)?, junk: junk.clone(), next: FORGED_ROUND_OFFSET }))
    })
    .await
}

struct Far {
    forge: Forge,
    junk: Bytes,
    next: u64,
}

impl Behaviour for Far {
    fn extra(&mut self) -> Option<Bytes> {
        self.next += 2;
        let block = self.forge.block(Round(self.next), self.junk.clone());
        Some(PeerMessage::Engine(Message::Block(block).encode()).encode())
    }
}
