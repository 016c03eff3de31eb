//! Faulty validators sign many proposals for one position: siblings of each block (Mahi-Mahi), forks of each car (Autobahn).
//!
//! Requirement: unneeded siblings are not kept, equivocation is reported once, honest transfers succeed.

use super::{Attack, By, FEW};
use crate::{
    field::Field,
    forge::Forge,
    insider::{self, Mischief, Seat},
};
use anyhow::bail;
use corniche_autobahn::{
    Signer as _,
    message::{Context, Message as AutobahnMessage, SignedCar},
    real::ValidatorKeys,
};
use corniche_mahi_mahi::message::Message as MahiMahiMessage;
use corniche_types::{Bytes, TimestampMs, wire};

/// Per proposal.
const SIBLINGS: u64 = 16;

pub const ATTACK: Attack = Attack {
    name: "siblings",
    item: "B7",
    about: "validators sign sixteen further proposals for each of their own",
    by: By::Validators,
    engine: None,
    restart: None,
    few: FEW,
    run: |field| Box::pin(run(field)),
};

async fn run(field: &Field) -> anyhow::Result<()> {
    let engine = field.victims.genesis.engine.name.as_str();
    insider::run(field, |seat| match engine {
        "mahi-mahi" => Ok(Box::new(Blocks(Forge::new(seat)?))),
        "autobahn" => Ok(Box::new(Cars::new(seat)?)),
        other => bail!("no siblings are known for the engine {other}"),
    })
    .await
}

/// One entry that is not a transaction: enough for a proposal.
fn something() -> Option<Bytes> {
    corniche_admission::batch::encode(&[Bytes::from(vec![0xff; 256])]).ok()
}

struct Blocks(Forge);

impl Mischief for Blocks {
    fn batch(&mut self) -> Option<Bytes> {
        something()
    }

    fn after(&mut self, message: &Bytes) -> Vec<Bytes> {
        let Ok(MahiMahiMessage::Block(block)) = wire::decode(message) else { return Vec::new() };
        let sibling = |number: u64| {
            let mut content = block.content.clone();
            content.timestamp = TimestampMs(content.timestamp.0.saturating_sub(number));
            MahiMahiMessage::Block(self.0.sign(content)).encode()
        };
        (1..=SIBLINGS).map(sibling).collect()
    }
}

struct Cars {
    context: Context,
    signer: ValidatorKeys,
}

impl Cars {
    fn new(seat: &Seat) -> anyhow::Result<Self> {
        Ok(Self { context: Context::new(&seat.committee), signer: seat.keys.autobahn(&seat.committee, false)? })
    }
}

impl Mischief for Cars {
    fn batch(&mut self) -> Option<Bytes> {
        something()
    }

    fn after(&mut self, message: &Bytes) -> Vec<Bytes> {
        let Ok(AutobahnMessage::Car(signed)) = wire::decode(message) else { return Vec::new() };
        let fork = |number: u64| {
            let mut car = signed.car.clone();
            car.batch = Bytes::from([&car.batch[..], &number.to_le_bytes()].concat());
            let signature = self.signer.sign(&self.context.car(&car));
            AutobahnMessage::Car(SignedCar { car, signature, certificate: signed.certificate.clone() }).encode()
        };
        (1..=SIBLINGS).map(fork).collect()
    }
}
