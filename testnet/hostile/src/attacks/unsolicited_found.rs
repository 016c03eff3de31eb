//! Faulty validators send unsolicited responses: as many signed blocks as one response may hold, always different ones.
//!
//! Requirement: unsolicited responses are dropped before verification, or their sender waits for its turn; none of it is kept.

use super::{Attack, By, SHORT_MESSAGES};
use crate::{
    context::AttackContext,
    forge::{FORGED_ROUND_OFFSET, Forge},
    insider::{self, Behaviour},
};
use corniche_mahi_mahi::{
    Config,
    message::{Found, Message, Round},
};
use corniche_pipeline::PeerMessage;
use corniche_types::Bytes;

pub const ATTACK: Attack = Attack {
    name: "unsolicited-found",
    item: "B5",
    about: "validators send unsolicited responses full of signed blocks",
    by: By::Validators,
    engine: Some("mahi-mahi"),
    signatures: None,
    restart: None,
    few: SHORT_MESSAGES,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    let config = Config::from_genesis(context.victims.genesis()).map_err(anyhow::Error::msg)?;
    insider::run(context, |identity| {
        Ok(Box::new(Answers { forge: Forge::new(identity)?, blocks: config.fetch_blocks.into(), next: 0 }))
    })
    .await
}

struct Answers {
    forge: Forge,
    /// Per response.
    blocks: u64,
    next: u64,
}

impl Behaviour for Answers {
    fn extra(&mut self) -> Option<Bytes> {
        let first = FORGED_ROUND_OFFSET + self.next * self.blocks;
        self.next += 1;
        let blocks = (first..first + self.blocks).map(|round| self.forge.block(Round(round), Bytes::new())).collect();
        Some(PeerMessage::Engine(Message::Found(Found { blocks, missing: Vec::new() }).encode()).encode())
    }
}
