//! Faulty validators send unsolicited responses: as many signed blocks as one response may hold, always different ones.
//!
//! Requirement: unsolicited responses are dropped before verification, or their sender waits for its turn; none of it is kept.

use super::{Attack, By, FEW};
use crate::{
    field::Field,
    forge::{Forge, MADE_AHEAD},
    insider::{self, Mischief},
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
    about: "validators send answers full of signed blocks that nobody asked for",
    by: By::Validators,
    engine: Some("mahi-mahi"),
    restart: None,
    few: FEW,
    run: |field| Box::pin(run(field)),
};

async fn run(field: &Field) -> anyhow::Result<()> {
    let config = Config::from_genesis(&field.victims.genesis).map_err(anyhow::Error::msg)?;
    insider::run(field, |seat| Ok(Box::new(Answers { forge: Forge::new(seat)?, blocks: config.fetch_blocks.into(), next: 0 })))
        .await
}

struct Answers {
    forge: Forge,
    /// Per response.
    blocks: u64,
    next: u64,
}

impl Mischief for Answers {
    fn extra(&mut self) -> Option<Bytes> {
        let first = MADE_AHEAD + self.next * self.blocks;
        self.next += 1;
        let blocks = (first..first + self.blocks).map(|round| self.forge.block(Round(round), Bytes::new())).collect();
        Some(PeerMessage::Engine(Message::Found(Found { blocks, missing: Vec::new() }).encode()).encode())
    }
}
