//! Everything validators send each other, and the digests of what they sign.
//!
//! Cars are the data layer: one chain a validator, certified by f + 1. Cuts are what slots agree on: one tip of every lane. A digest
//! never covers a certificate, because different signers can certify the same thing (P7).

use crate::keys::{Share, Signature};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Committee, Scope, Vertex, VertexId, batch_digest};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex, wire};

/// A place in a lane, from 1 without gaps; 0 is the lane's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Position(pub u64);

impl Position {
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Stops at the lane's beginning.
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

/// One instance of agreement, from 1 without gaps. Slot s becomes commit s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Slot(pub u64);

/// An attempt of a slot, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct View(pub u32);

// ---- lanes -------------------------------------------------------------------------------------------------------------

/// A lane's next piece (the paper's data proposal).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Car {
    pub lane: ValidatorIndex,
    pub position: Position,
    /// Digest of the car before; of position 1: [`Context::lane_start`].
    pub parent: B256,
    /// Opaque to the engine; empty when somebody only waits for a later commit.
    pub batch: Bytes,
}

/// PROP: a car from its lane's owner.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct SignedCar {
    pub car: Car,
    pub signature: Signature,
    /// Of the car before, or with pipelined cars of one up to `cars_ahead` before (D2); absent while there is none to have. Not
    /// signed: an author has one name for a car, whoever certified what is below it (P7).
    pub certificate: Option<Availability>,
}

/// A signed car with its name worked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCar {
    signed: SignedCar,
    tip: Tip,
    batch_digest: B256,
}

/// Names a car, certified or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Tip {
    pub lane: ValidatorIndex,
    pub position: Position,
    pub digest: B256,
}

/// PoA: f + 1 validators hold this car and everything below it.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Availability {
    pub tip: Tip,
    pub proof: Proof,
}

/// Shares of several validators as one.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Proof {
    /// Distinct, ascending.
    pub signers: Vec<ValidatorIndex>,
    /// What [`Signatures::combine`](crate::Signatures::combine) made of their shares.
    pub seal: Bytes,
}

// ---- slots -------------------------------------------------------------------------------------------------------------

/// What a slot agrees on. Neither the view nor a certificate is part of it, so that a value keeps its name when it is proposed again (P1).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Cut {
    pub slot: Slot,
    /// Digest of the cut committed k slots before; zero in the first k slots (P14).
    pub anchor: B256,
    /// The proposer's clock; voted when it is at most 500 ms ahead of the voter's.
    pub time: TimestampMs,
    /// One tip a lane, in the order of lanes; position 0 and [`Context::lane_start`] for a lane without cars.
    pub tips: Vec<Tip>,
}

/// PREPARE, signed by the leader of (slot, view) over (slot, view, digest of the cut).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct SignedPrepare {
    pub view: View,
    pub cut: Cut,
    pub signature: Signature,
    /// For each tip that stands above the one of the anchor: its certificate, or of an optimistic tip its parent's.
    pub available: Vec<Availability>,
    /// The certificate of the anchor's commit; absent in the first k slots.
    pub previous: Option<CommitQc>,
    /// Why the view before was given up; absent in view 0.
    pub timeouts: Option<TimeoutQc>,
}

/// n − f PREP-VOTEs: no other value can be prepared in this view.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct PrepareQc {
    pub slot: Slot,
    pub view: View,
    pub cut: B256,
    /// Those of the proof's signers who voted weakly, ascending: at most all but f + 1, and none where weak votes are off (P5).
    pub weak: Vec<ValidatorIndex>,
    pub proof: Proof,
}

/// The value of a slot, for good. Certificates of one slot name one value, whatever their views and kinds (row 40 of the checklist).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct CommitQc {
    pub kind: CommitKind,
    pub slot: Slot,
    pub view: View,
    pub cut: B256,
    pub proof: Proof,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum CommitKind {
    /// All n PREP-VOTEs.
    Fast,
    /// n − f CONFIRM-ACKs.
    Slow,
}

/// What a validator last saw of a slot when it gave a view up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Report {
    /// View and value of its highest [`PrepareQc`].
    pub confirmed: Option<(View, B256)>,
    /// View and value it last voted for.
    pub voted: Option<(View, B256)>,
}

/// TIMEOUT of one validator.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Timeout {
    pub slot: Slot,
    pub view: View,
    pub report: Report,
    pub share: Share,
    /// What `report.confirmed` names.
    pub confirmed: Option<PrepareQc>,
    /// The bodies of the values in the report, as far as the sender holds them.
    pub cuts: Vec<Cut>,
}

/// TC: n − f TIMEOUTs.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct TimeoutQc {
    pub slot: Slot,
    pub view: View,
    /// In the order of the proof's signers.
    pub reports: Vec<Report>,
    pub proof: Proof,
    /// The certificate with the highest view among the reports, if any names one.
    pub confirmed: Option<PrepareQc>,
}

/// A share under a statement about a value of a slot.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Vote {
    pub slot: Slot,
    pub view: View,
    pub cut: B256,
    pub share: Share,
}

/// What shares are made under. Each kind has a tag of its own, and names its slot and view (P3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    /// VOTE: "I hold this car and everything below it."
    Held(Tip),
    /// PREP-VOTE, strong: "I vote for it, and hold what is not certified in it."
    Prepared { slot: Slot, view: View, cut: B256 },
    /// PREP-VOTE, weak: "I vote for it" (P5).
    PreparedWeakly { slot: Slot, view: View, cut: B256 },
    /// CONFIRM-ACK: "I hold its certificate."
    Confirmed { slot: Slot, view: View, cut: B256 },
    /// TIMEOUT.
    TimedOut { slot: Slot, view: View, report: Report },
}

// ---- the wire ----------------------------------------------------------------------------------------------------------

#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Message {
    Car(SignedCar),
    /// VOTE, to the lane's owner.
    Held {
        tip: Tip,
        share: Share,
    },
    Available(Availability),
    /// Also passed on to the next slot's leader (P11).
    Prepare(SignedPrepare),
    Prepared {
        vote: Vote,
        strong: bool,
    },
    Confirm(PrepareQc),
    Confirmed(Vote),
    Commit(CommitQc),
    Timeout(Timeout),
    /// TC, for the leader of the next view.
    TimedOut(TimeoutQc),
    /// Asks for the cars of a lane's chain that ends at `tip`, above `above`.
    FetchCars {
        tip: Tip,
        above: Position,
    },
    /// The answer: the end of that chain, ascending up to `tip`, as much as fits; the asker asks for the rest. Empty when the sender does
    /// not hold the tip.
    Cars {
        tip: Tip,
        cars: Vec<SignedCar>,
    },
    FetchCut {
        slot: Slot,
        cut: B256,
    },
    Cut(Cut),
    /// "Here I am": how far the sender has come. Asks for what it lacks when `nonce` is not 0, see [`Standing`].
    Standing(Standing),
    /// Asks for commits above this slot.
    FetchCommits {
        above: Slot,
    },
    /// The answer: ascending, without gaps.
    Commits(Vec<(Cut, CommitQc)>),
}

/// The name of a validator's disk, given before the first life on it signs anything else (R5). Signed, so that a liar cannot invent one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Birth {
    pub validator: ValidatorIndex,
    /// Different on every disk.
    pub disk: u64,
    pub signature: Signature,
}

/// How far a validator has come (STATUS), and what it remembers of the receiver.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Standing {
    /// Ties an answer to the question; 0 when nothing was asked.
    pub nonce: u64,
    /// Whether the receiver should answer with its own standing.
    pub answer: bool,
    /// The highest commit below which the sender knows all, with its certificate; absent before the first.
    pub committed: Option<CommitQc>,
    /// The highest car of the receiver's lane that the sender holds. A signed car rather than a number, so that a liar cannot push
    /// the receiver beyond what it signed.
    pub yours: Option<SignedCar>,
    /// Per lane, the highest position that the sender holds.
    pub lanes: Vec<Position>,
    /// In a question: the sender's disk, before its first life; the answer comes when the receiver has it on its own disk.
    pub birth: Option<Birth>,
    /// In an answer: the first disk of the receiver that the sender was told of.
    pub met: Option<Birth>,
}

impl NamedCar {
    /// Only for cars that this node signed, recorded or verified.
    pub fn trusted(signed: SignedCar, context: &Context) -> Self {
        let Car { lane, position, ref batch, .. } = signed.car;
        let batch_digest = batch_digest(batch);
        let tip = Tip { lane, position, digest: context.car_with(&signed.car, batch_digest) };
        Self { signed, tip, batch_digest }
    }

    pub fn tip(&self) -> Tip {
        self.tip
    }

    pub fn lane(&self) -> ValidatorIndex {
        self.tip.lane
    }

    pub fn position(&self) -> Position {
        self.tip.position
    }

    /// The car before, or the lane's beginning.
    pub fn parent(&self) -> Tip {
        Tip { lane: self.tip.lane, position: self.tip.position.before(), digest: self.signed.car.parent }
    }

    pub fn batch(&self) -> &Bytes {
        &self.signed.car.batch
    }

    pub fn certificate(&self) -> Option<&Availability> {
        self.signed.certificate.as_ref()
    }

    pub fn signed(&self) -> &SignedCar {
        &self.signed
    }

    /// This car as a trace shows it.
    pub fn vertex(&self) -> Vertex {
        let parent = self.parent();
        let parents = if parent.position == Position(0) { Vec::new() } else { vec![parent.into()] };
        let batch_bytes = u32::try_from(self.batch().len()).unwrap_or(u32::MAX);
        let batch_digest = (batch_bytes > 0).then_some(self.batch_digest);
        Vertex { id: self.tip.into(), parents, batch_bytes, batch_digest }
    }
}

impl From<Tip> for VertexId {
    fn from(tip: Tip) -> Self {
        Self { round: tip.position.0, author: tip.lane, digest: tip.digest }
    }
}

impl Cut {
    /// Whether this is its tip of the lane.
    pub fn names(&self, tip: &Tip) -> bool {
        self.tips.get(tip.lane.as_usize()) == Some(tip)
    }
}

impl Message {
    /// First bytes of an encoding, after the version.
    pub(crate) const CAR: u8 = 0;
    pub(crate) const PREPARE: u8 = 3;
    pub(crate) const TIMED_OUT: u8 = 9;
    pub(crate) const STANDING: u8 = 14;
    pub(crate) const CARS: u8 = 11;
    pub(crate) const COMMITS: u8 = 16;

    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }
}

/// Digests of one committee of one chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(Scope);

impl Context {
    pub fn new(committee: &Committee) -> Self {
        Self(Scope::new(committee))
    }

    /// A car's identity, and what its owner signs.
    pub fn car(&self, car: &Car) -> B256 {
        self.car_with(car, batch_digest(&car.batch))
    }

    /// The same. The batch goes in by its hash, so that a header alone can be checked one day.
    fn car_with(&self, car: &Car, batch: B256) -> B256 {
        self.0.digest("corniche-autobahn-car", &(car.lane, car.position, car.parent, batch))
    }

    /// What stands below position 1 of a lane.
    pub fn lane_start(&self, lane: ValidatorIndex) -> B256 {
        self.0.digest("corniche-autobahn-lane", &lane)
    }

    /// The tip of a lane without cars.
    pub fn start(&self, lane: ValidatorIndex) -> Tip {
        Tip { lane, position: Position(0), digest: self.lane_start(lane) }
    }

    /// What a validator signs about its disk.
    pub fn birth(&self, validator: ValidatorIndex, disk: u64) -> B256 {
        self.0.digest("corniche-autobahn-birth", &(validator, disk))
    }

    /// A cut's identity.
    pub fn cut(&self, cut: &Cut) -> B256 {
        self.0.digest("corniche-autobahn-cut", cut)
    }

    /// What a leader signs.
    pub fn prepare(&self, slot: Slot, view: View, cut: B256) -> B256 {
        self.0.digest("corniche-autobahn-prepare", &(slot, view, cut))
    }

    /// What a share is made under.
    pub fn statement(&self, statement: &Statement) -> B256 {
        match *statement {
            Statement::Held(tip) => self.0.digest("corniche-autobahn-held", &tip),
            Statement::Prepared { slot, view, cut } => self.0.digest("corniche-autobahn-prepared", &(slot, view, cut)),
            Statement::PreparedWeakly { slot, view, cut } => {
                self.0.digest("corniche-autobahn-prepared-weakly", &(slot, view, cut))
            }
            Statement::Confirmed { slot, view, cut } => self.0.digest("corniche-autobahn-confirmed", &(slot, view, cut)),
            Statement::TimedOut { slot, view, report } => self.0.digest("corniche-autobahn-timed-out", &(slot, view, report)),
        }
    }
}
