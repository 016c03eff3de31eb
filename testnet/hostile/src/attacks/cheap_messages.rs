//! Faulty validators send well-formed certificate shares of a block certified long ago, at the network's full rate. Checking one
//! costs almost nothing, so they arrive faster than a node can take them in.
//!
//! Requirement: other validators' votes and users' transactions do not wait behind them.

use super::{Attack, By};
use crate::{
    context::AttackContext,
    insider::{self, Behaviour},
};
use corniche_certify::Share;
use corniche_pipeline::PeerMessage;
use corniche_types::{B256, Bytes, Height};

/// Per turn; more than a link's queue holds.
const PER_TICK: usize = 4_096;

pub const ATTACK: Attack = Attack {
    name: "cheap-messages",
    item: "B5",
    about: "validators send certificate shares of an old block as fast as they can",
    by: By::Validators,
    engine: None,
    signatures: None,
    restart: None,
    few: PER_TICK as u64,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    insider::run(context, |identity| {
        let (epoch, signature) = (identity.committee.epoch(), identity.keys.bls.sign(b"old").to_bytes());
        let share = Share { epoch, height: Height(1), header_hash: B256::ZERO, signature };
        Ok(Box::new(Cheap(PeerMessage::CertificateShare(share.encode()).encode())))
    })
    .await
}

struct Cheap(Bytes);

impl Behaviour for Cheap {
    fn extra(&mut self) -> Option<Bytes> {
        Some(self.0.clone())
    }

    fn extras_per_tick(&self) -> usize {
        PER_TICK
    }
}
