//! Faulty proposers order transactions that each declare a whole block's gas: one batch makes about nine thousand blocks of one
//! transaction, each of which is hashed, signed, certified, stored and announced.
//!
//! Requirement: blocks waiting for execution are bounded, and so is memory; honest transfers succeed.

use super::{Attack, By};
use crate::{context::AttackContext, forge};

pub const ATTACK: Attack = Attack {
    name: "one-transaction-blocks",
    item: "B4",
    about: "validators propose thousands of transactions that declare a block's gas each",
    by: By::Validators,
    engine: None,
    signatures: None,
    restart: None,
    // A single batch makes a few thousand blocks.
    few: 1,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    forge::propose_declaring(context, context.victims.genesis().block_gas_limit).await
}
