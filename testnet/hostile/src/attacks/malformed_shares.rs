//! Faulty validators send malformed certificate shares, and shares of the next blocks that do not verify.
//!
//! Requirement: shares cost at most one check per height, they do not flood the log, and certificates come as before.

use super::{Attack, By, FEW};
use crate::{
    field::Field,
    insider::{self, Mischief, Seat},
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
    restart: None,
    few: FEW,
    run: |field| Box::pin(run(field)),
};

async fn run(field: &Field) -> anyhow::Result<()> {
    insider::run(field, |seat| Ok(Box::new(Shares { epoch: seat.committee.epoch(), spoiled: spoiled(seat), next: 0 }))).await
}

/// A curve point that signs something else.
fn spoiled(seat: &Seat) -> [u8; 48] {
    seat.keys.bls.sign(b"something else").to_bytes()
}

struct Shares {
    epoch: Epoch,
    spoiled: [u8; 48],
    next: u64,
}

impl Mischief for Shares {
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
