//! Faulty validators send unsolicited responses: chains of ten thousand cars of their own lane, each with a valid signature.
//! Checking one message takes about half a second; creating it is done once.
//!
//! Requirement: unsolicited responses are dropped before verification, or their sender waits for its turn.

use super::{Attack, By};
use crate::{
    context::AttackContext,
    insider::{self, Behaviour, InsiderIdentity},
};
use corniche_autobahn::{
    message::{Car, Context, Message, Position, SignedCar, Tip},
    verify::MAX_CARS,
};
use corniche_pipeline::PeerMessage;
use corniche_types::Bytes;

pub const ATTACK: Attack = Attack {
    name: "unsolicited-cars",
    item: "B5",
    about: "validators send unsolicited chains of 10,000 signed cars",
    by: By::Validators,
    engine: Some("autobahn"),
    signatures: None,
    restart: None,
    few: 4,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    insider::run(context, |identity| Ok(Box::new(Cars(chain(identity)?)))).await
}

struct Cars(Bytes);

impl Behaviour for Cars {
    fn extra(&mut self) -> Option<Bytes> {
        Some(self.0.clone())
    }
}

/// The encoded message: a lane that no other validator has.
fn chain(identity: &InsiderIdentity) -> anyhow::Result<Bytes> {
    let context = Context::new(&identity.committee);
    let signer = identity.keys.autobahn(&identity.committee, false)?;
    let lane = identity.index;
    let mut tip = context.start(lane);
    let mut cars = Vec::with_capacity(MAX_CARS);
    for position in (1..=MAX_CARS as u64).map(Position) {
        let car = Car { lane, position, parent: tip.digest, batch: Bytes::new() };
        tip = Tip { lane, position, digest: context.car(&car) };
        cars.push(SignedCar { signature: signer.sign_digest(&tip.digest), car, certificate: None });
    }
    Ok(PeerMessage::Engine(Message::Cars { tip, cars }.encode()).encode())
}
