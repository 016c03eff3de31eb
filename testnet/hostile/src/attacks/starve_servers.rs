//! Strangers request all blocks from the first on from every validator, with the maximum concurrency, and discard the responses.
//!
//! Requirement: responses are metered in bytes and limited in concurrency: bounded memory, little effect on honest users.

use super::{Attack, By, SHORT_MESSAGES};
use crate::{
    context::AttackContext,
    requests,
    stranger::{Stranger, for_each_victim},
};
use corniche_pipeline::Request;
use corniche_types::{Bytes, Height, wire};
use futures::future::try_join_all;

/// Per victim, of its 64 guest slots.
const STRANGERS: u64 = 16;

pub const ATTACK: Attack = Attack {
    name: "starve-servers",
    item: "B8",
    about: "strangers send many concurrent requests for all blocks",
    by: By::Stranger,
    engine: None,
    signatures: None,
    restart: None,
    few: SHORT_MESSAGES,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    try_join_all(for_each_victim(context, STRANGERS).map(|(number, victim)| ask(context, number, victim))).await.map(drop)
}

async fn ask(context: &AttackContext, number: u64, victim: usize) -> anyhow::Result<()> {
    let Some(stranger) = Stranger::join(context, number, &[victim]).await? else { return Ok(()) };
    let request = Bytes::from(wire::encode(&Request::Blocks { from: Height(1), offset: 0 }));
    requests::repeat(context, &stranger.network, &stranger.targets, &request).await;
    stranger.leave().await;
    Ok(())
}
