//! Faulty validators request all executed blocks up to the greatest height from every victim, with the maximum concurrency. A
//! node refuses such requests of strangers.
//!
//! Requirement: a request costs no more reads than its response may hold, so these cost none; little effect on honest users.

use super::{Attack, By, SHORT_MESSAGES};
use crate::{
    context::AttackContext,
    insider::{self, Behaviour},
};
use corniche_pipeline::Request;
use corniche_types::{Bytes, Height, wire};

pub const ATTACK: Attack = Attack {
    name: "endless-executed",
    item: "B8",
    about: "validators request all executed blocks up to the greatest height",
    by: By::Validators,
    engine: None,
    signatures: None,
    restart: None,
    few: SHORT_MESSAGES,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    insider::run(context, |_| Ok(Box::new(Endless))).await
}

struct Endless;

impl Behaviour for Endless {
    fn request(&self) -> Option<Bytes> {
        let request = Request::Executed { from: Height(1), through: Height(u64::MAX), offset: 0 };
        Some(wire::encode(&request).into())
    }
}
