//! Faulty validators send malformed certificate shares, and shares of the next blocks that do not verify.
//!
//! Requirement: shares cost at most one check per height, they do not flood the log, and certificates come as before.

use super::{Attack, By, SHORT_MESSAGES};
use crate::{
    context::AttackContext,
    insider::{self, Behaviour, InsiderIdentity},
};
use corniche_certify::Share;
use corniche_pipeline::PeerMessage;
use corniche_types::{B256, Bytes, Epoch, Height};

pub const ATTACK: Attack = Attack {
    name: "malformed-shares",
    item: "B10",
    about: "validators send certificate shares that are malformed or do not verify",
    by: By::Validators,
    engine: None,
    signatures: None,
    restart: None,
    few: SHORT_MESSAGES,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    insider::run(context, |identity| {
        Ok(Box::new(Shares { epoch: identity.committee.epoch(), spoiled: spoiled(identity), next: 0 }))
    })
    .await
}

/// A curve point that signs something else.
fn spoiled(identity: &InsiderIdentity) -> [u8; 48] {
    identity.keys.bls.sign(b"something else").to_bytes()
}

struct Shares {
    epoch: Epoch,
    spoiled: [u8; 48],
    next: u64,
}

impl Behaviour for Shares {
    fn extra(&mut self) -> Option<Bytes> {
        self.next += 1;
        let share = match self.next % 2 {
            0 => Bytes::from(self.next.to_le_bytes().to_vec()),
            // Heights from 1 on, so that some are always the next ones.
            _ => Share { epoch: self.epoch, height: Height(self.next / 2), header_hash: B256::ZERO, signature: self.spoiled }
                .encode(),
        };
        Some(PeerMessage::CertificateShare(share).encode())
    }
}
