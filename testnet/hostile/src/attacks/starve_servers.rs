//! Strangers ask every validator for all blocks from the first on, as many times at once as it answers, and throw the answers away.
//!
//! Must hold: answers are metered in bytes and bounded in number at a time, so memory is bounded and honest users notice little.

use super::{Attack, By, FEW};
use crate::{
    field::Field,
    stranger::{Stranger, for_each_victim},
};
use corniche_pipeline::Request;
use corniche_types::{Bytes, Height, wire};
use futures::future::{join_all, try_join_all};
use std::time::Duration;
use tokio::time::sleep;

/// Per victim, of its 64 slots for guests.
const STRANGERS: u64 = 16;
/// Questions of one stranger under way; a node refuses more.
const AT_ONCE: usize = 8;
/// After a refusal.
const PAUSE: Duration = Duration::from_millis(50);

pub const ATTACK: Attack = Attack {
    name: "starve-servers",
    item: "B8",
    about: "strangers ask for all blocks, over and over, many at a time",
    by: By::Stranger,
    engine: None,
    restart: None,
    few: FEW,
    run: |field| Box::pin(run(field)),
};

async fn run(field: &Field) -> anyhow::Result<()> {
    try_join_all(for_each_victim(field, STRANGERS).map(|(number, victim)| ask(field, number, victim))).await.map(drop)
}

async fn ask(field: &Field, number: u64, victim: usize) -> anyhow::Result<()> {
    let Some(stranger) = Stranger::join(field, number, &[victim]).await? else { return Ok(()) };
    let request = Bytes::from(wire::encode(&Request::Blocks { from: Height(1), offset: 0 }));
    let target = stranger.targets[0];
    let asking = (0..AT_ONCE).map(|_| async {
        while field.budget.take() {
            if stranger.network.request(target, request.clone()).await.is_err() {
                sleep(PAUSE).await;
            }
        }
    });
    join_all(asking).await;
    stranger.leave().await;
    Ok(())
}
