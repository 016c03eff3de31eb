//! Faulty validators stay connected and propose nothing of what users and other validators give them. One that is down has no connection
//! and is passed over; one that is connected owns its share of the users until its turn is over. The validators of all other attacks serve
//! users, so their rows are read beside this one.
//!
//! Must hold: others propose what the silent ones own before users notice much.

use super::{Attack, By, FEW};
use crate::{
    field::Field,
    insider::{self, Mischief},
};
use corniche_pipeline::PeerMessage;
use corniche_types::Bytes;

pub const ATTACK: Attack = Attack {
    name: "silence",
    item: "-",
    about: "validators stay connected and propose nothing that users send",
    by: By::Validators,
    engine: None,
    restart: None,
    few: FEW,
    run: |field| Box::pin(run(field)),
};

async fn run(field: &Field) -> anyhow::Result<()> {
    insider::run(field, |_| Ok(Box::new(Silence { ticks: 0 }))).await
}

struct Silence {
    ticks: u64,
}

impl Mischief for Silence {
    fn serves_users(&self) -> bool {
        false
    }

    /// A sign of life now and then, which is also what the budget counts.
    fn extra(&mut self) -> Option<Bytes> {
        self.ticks += 1;
        self.ticks.is_multiple_of(16).then(|| PeerMessage::Transactions(Vec::new()).encode())
    }
}
