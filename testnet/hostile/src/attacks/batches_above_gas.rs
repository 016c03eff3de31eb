//! Faulty proposers declare far more gas in a batch than `batch_gas` allows: a full batch of transactions that declare half a
//! block each.
//!
//! Requirement: such a batch is refused or cut before it becomes thousands of blocks; honest transfers succeed.

use super::{Attack, By};
use crate::{context::AttackContext, forge};

pub const ATTACK: Attack = Attack {
    name: "batches-above-gas",
    item: "B4",
    about: "validators propose batches that declare hundreds of times batch_gas",
    by: By::Validators,
    engine: None,
    signatures: None,
    restart: None,
    // A single batch makes a few thousand blocks.
    few: 1,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    forge::propose_declaring(context, context.victims.genesis().block_gas_limit / 2).await
}
