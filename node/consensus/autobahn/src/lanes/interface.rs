//! Effects and records of the lanes.

use crate::{
    config::Config,
    keys::{Signatures, Signer},
    message::{HashedCar, Message, Tip},
};
use corniche_engine::{Batch, Committee, Recipients};
use corniche_types::ValidatorIndex;
use std::sync::Arc;

/// Outputs of the lanes.
#[derive(Debug)]
pub enum Effect {
    /// Append, sync, then pass it to [`Lanes::durable`](super::Lanes::durable). Records become durable in this order.
    Persist(Write),
    Send {
        to: Recipients,
        message: Box<Message>,
    },
    /// Respond with [`Lanes::handle_batch`](super::Lanes::handle_batch) when there are transactions. At most one is outstanding.
    WantBatch,
    /// The owner resent this car, which we hold: send it the result of [`Lanes::response_to_resent`](super::Lanes::response_to_resent) when its turn comes.
    CarResent(Tip),
    /// An own car was signed. It is not durable yet.
    Built(Arc<HashedCar>),
    /// A car was accepted, own ones included.
    Accepted(Arc<HashedCar>),
    /// A higher car of a lane than before is certified by these validators; it may be missing here.
    Certified {
        tip: Tip,
        signers: Vec<ValidatorIndex>,
    },
    /// An own batch that no car will carry.
    Requeue(Batch),
    /// The owner signed two cars for one position.
    Accuse(ValidatorIndex, [Arc<HashedCar>; 2]),
}

/// Data that must become durable.
#[derive(Clone, Debug)]
pub enum Write {
    /// An own car.
    Own(Arc<HashedCar>),
    /// A car and this validator's vote for it.
    Voted(Arc<HashedCar>),
    /// A car without a vote.
    Kept(Arc<HashedCar>),
    /// This validator's vote for a car stored before.
    Vote(Tip),
}

/// Records of earlier incarnations about the lanes.
#[derive(Clone, Debug)]
pub enum Recovered {
    Car { car: Arc<HashedCar>, voted: bool },
    Vote(Tip),
}

/// Arguments of [`Lanes::new`](super::Lanes::new).
pub struct Setup {
    pub config: Config,
    pub committee: Committee,
    /// Without keys the lanes are only followed: no own lane, no votes.
    pub signer: Option<Arc<dyn Signer>>,
    pub signatures: Arc<dyn Signatures>,
    /// The executed tip of every lane.
    pub executed: Vec<Tip>,
    /// In the order of recording.
    pub records: Vec<Recovered>,
}
