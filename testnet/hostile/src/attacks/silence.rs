//! Faulty validators stay connected and propose no transactions of users and other validators. A disconnected validator is
//! skipped; a connected one owns its share of users until its turn ends. The validators of all other attacks serve users, so
//! this row is the baseline for theirs.
//!
//! Requirement: others propose the silent validators' transactions before users are much affected.

use super::{Attack, By, SHORT_MESSAGES};
use crate::{
    context::AttackContext,
    insider::{self, Behaviour},
};
use corniche_pipeline::PeerMessage;
use corniche_types::Bytes;

pub const ATTACK: Attack = Attack {
    name: "silence",
    item: "-",
    about: "validators stay connected and propose no users' transactions",
    by: By::Validators,
    engine: None,
    signatures: None,
    restart: None,
    few: SHORT_MESSAGES,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    insider::run(context, |_| Ok(Box::new(Silence { ticks: 0 }))).await
}

struct Silence {
    ticks: u64,
}

impl Behaviour for Silence {
    fn serves_users(&self) -> bool {
        false
    }

    /// An occasional sign of life, which also counts in the budget.
    fn extra(&mut self) -> Option<Bytes> {
        self.ticks += 1;
        self.ticks.is_multiple_of(16).then(|| PeerMessage::Transactions(Vec::new()).encode())
    }
}
