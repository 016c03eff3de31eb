//! All messages between validators, and the digests that they sign.
//!
//! Cars are the data layer: one chain per validator, certified by F + 1 votes. Slots agree on cuts: one tip of every lane. A
//! digest never covers a certificate, because different signers can certify the same car (P7).

use crate::keys::{Authored, Share, Signature, Signer};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Committee, Scope, Unsigned, Vertex, VertexId, batch_digest};
use corniche_types::evidence::{Contradiction, tags};
use corniche_types::{B256, Bytes, MAX_VALIDATORS, TimestampMs, ValidatorIndex, wire};

/// A position in a lane, starting at 1 without gaps; 0 is the lane's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Position(pub u64);

impl Position {
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Saturates at the lane's beginning.
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

/// One instance of agreement, starting at 1 without gaps. Slot s becomes commit s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Slot(pub u64);

/// An attempt to decide a slot, starting at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct View(pub u32);

// ---- lanes -------------------------------------------------------------------------------------------------------------

/// One element of a lane (the paper's data proposal).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Car {
    pub lane: ValidatorIndex,
    pub position: Position,
    /// Digest of the previous car; at position 1: [`Context::lane_start`].
    pub parent: B256,
    /// Opaque to the engine; empty if a validator only waits for a later commit.
    pub batch: Bytes,
}

/// PROP: a car from its lane's owner.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct SignedCar {
    pub car: Car,
    pub signature: Signature,
    /// Certificate of the previous car, or with pipelined cars of one up to `cars_ahead` positions below (D2); absent
    /// if none exists. Not signed: a car has one digest, whichever validators certified the cars below it (P7).
    pub certificate: Option<Availability>,
}

/// A signed car with its computed tip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashedCar {
    signed: SignedCar,
    tip: Tip,
    batch_digest: B256,
}

/// Identifies a car, certified or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, BorshSerialize, BorshDeserialize)]
pub struct Tip {
    pub lane: ValidatorIndex,
    pub position: Position,
    pub digest: B256,
}

/// PoA: validators with F + 1 votes hold this car and everything below it.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Availability {
    pub tip: Tip,
    pub proof: Proof,
}

/// Combined shares of several validators.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Proof {
    /// Distinct, ascending.
    #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
    pub signers: Vec<ValidatorIndex>,
    /// Shares combined by [`Signatures::combine`](crate::Signatures::combine).
    pub seal: Bytes,
}

// ---- slots -------------------------------------------------------------------------------------------------------------

/// The value of a slot. It contains neither the view nor a certificate, so that its digest is unchanged when it is
/// proposed again (P1).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Cut {
    pub slot: Slot,
    /// Digest of the cut committed k slots before; zero in the first k slots (P14).
    pub anchor: B256,
    /// The proposer's clock. Others vote for it if it is at most 500 ms ahead of theirs.
    pub time: TimestampMs,
    /// One tip per lane, in lane order; position 0 and [`Context::lane_start`] for a lane without cars.
    #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
    pub tips: Vec<Tip>,
}

/// PREPARE, signed by the leader of (slot, view) over (slot, view, digest of the cut).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct SignedPrepare {
    pub view: View,
    pub cut: Cut,
    pub signature: Signature,
    /// For each tip above the anchor's: its certificate, or for an optimistic tip that of its parent. In lane order.
    #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
    pub available: Vec<Availability>,
    /// The certificate of the anchor's commit; absent in the first k slots.
    pub previous: Option<CommitQc>,
    /// Proof that the previous view was given up; absent in view 0.
    pub timeouts: Option<TimeoutQc>,
}

/// PREP-VOTEs with Q votes: no other value can be prepared in this view.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct PrepareQc {
    pub slot: Slot,
    pub view: View,
    pub cut: B256,
    /// The signers that voted weakly, ascending; the others have at least F + 1 votes. None if weak votes are disabled (P5).
    #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
    pub weak: Vec<ValidatorIndex>,
    pub proof: Proof,
}

/// Decides the value of a slot for good. All certificates of one slot name one value, for any views and kinds
/// (row 40 of the checklist).
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
    /// The PREP-VOTEs of all members.
    Fast,
    /// CONFIRM-ACKs with Q votes.
    Slow,
}

/// State of a slot at a validator when it gave a view up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Report {
    /// View and value of its highest [`PrepareQc`].
    pub confirmed: Option<(View, B256)>,
    /// View and value of its last strong vote.
    pub voted: Option<(View, B256)>,
}

/// TIMEOUT of one validator.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Timeout {
    pub slot: Slot,
    pub view: View,
    pub report: Report,
    pub share: Share,
    /// The certificate named in `report.confirmed`.
    pub confirmed: Option<PrepareQc>,
    /// The values in the report, as far as the sender holds them.
    pub cuts: Vec<Cut>,
}

/// TC: TIMEOUTs with Q votes or more.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct TimeoutQc {
    pub slot: Slot,
    pub view: View,
    /// In the order of the proof's signers.
    #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
    pub reports: Vec<Report>,
    pub proof: Proof,
    /// The certificate with the highest view among the reports, if a report names one.
    pub confirmed: Option<PrepareQc>,
}

/// A share under a statement about the value of a slot.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Vote {
    pub slot: Slot,
    pub view: View,
    pub cut: B256,
    pub share: Share,
}

/// Statements that shares sign. Each kind has its own tag, and names its slot and view (P3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    /// VOTE: "I hold this car and everything below it."
    CarVote(Tip),
    /// PREP-VOTE, strong: "I vote for it, and hold its uncertified tips."
    PrepareVote { slot: Slot, view: View, cut: B256 },
    /// PREP-VOTE, weak: "I vote for it" (P5).
    WeakPrepareVote { slot: Slot, view: View, cut: B256 },
    /// CONFIRM-ACK: "I hold its certificate."
    ConfirmAck { slot: Slot, view: View, cut: B256 },
    /// TIMEOUT.
    Timeout { slot: Slot, view: View, report: Report },
}

// ---- the wire ----------------------------------------------------------------------------------------------------------

#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Message {
    Car(SignedCar),
    /// VOTE, to the lane's owner.
    CarVote {
        tip: Tip,
        share: Share,
    },
    Available(Availability),
    /// Also forwarded to the next slot's leader (P11).
    Prepare(SignedPrepare),
    PrepareVote {
        vote: Vote,
        strong: bool,
    },
    Confirm(PrepareQc),
    ConfirmAck(Vote),
    Commit(CommitQc),
    Timeout(Timeout),
    /// TC, for the leader of the next view.
    TimeoutQc(TimeoutQc),
    /// Requests the cars above `above` of the chain that ends at `tip`.
    FetchCars {
        tip: Tip,
        above: Position,
    },
    /// Response: the end of that chain, ascending up to `tip`, as much as fits; the asking peer requests the rest.
    /// Empty if the sender does not hold the tip.
    Cars {
        tip: Tip,
        cars: Vec<SignedCar>,
    },
    FetchCut {
        slot: Slot,
        cut: B256,
    },
    Cut(Cut),
    /// Status of the sender: how far it has come. If `nonce` is not 0, it also asks for the receiver's status, see
    /// [`Status`].
    Status(Status),
    /// Requests commits above this slot.
    FetchCommits {
        above: Slot,
    },
    /// Response: ascending, without gaps.
    Commits(Vec<(Cut, CommitQc)>),
}

/// Identifier of a validator's disk, announced before the first incarnation on it signs anything else (R5). Signed, so that a
/// liar cannot invent one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct DiskId {
    pub validator: ValidatorIndex,
    /// Different on every disk.
    pub disk: u64,
    pub signature: Signature,
}

/// Progress of a validator (STATUS), and what it remembers of the receiver.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Status {
    /// Ties a response to the request; 0 if nothing was requested.
    pub nonce: u64,
    /// True if the receiver should respond with its own status.
    pub wants_response: bool,
    /// Certificate of the highest commit up to which the sender knows all commits; absent before the first.
    pub committed: Option<CommitQc>,
    /// The highest car of the receiver's lane that the sender holds. A signed car rather than a number, so that a liar
    /// cannot push the receiver beyond what it signed.
    pub receiver_car: Option<SignedCar>,
    /// Per lane, the highest position that the sender holds.
    #[borsh(deserialize_with = "wire::at_most::<MAX_VALIDATORS, _, _>")]
    pub lanes: Vec<Position>,
    /// In a request: the sender's disk, before its first incarnation. The response comes when the receiver has stored it.
    pub disk_id: Option<DiskId>,
    /// In a response: the first disk that the receiver announced to the sender.
    pub peer_disk: Option<DiskId>,
}

impl HashedCar {
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

    /// The previous car, or the lane's beginning.
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

    /// This car as shown in a trace.
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
    /// Returns true if this tip is part of the cut.
    pub fn contains_tip(&self, tip: &Tip) -> bool {
        self.tips.get(tip.lane.as_usize()) == Some(tip)
    }
}

impl Message {
    /// First byte of an encoding after the version, by kind.
    pub const CAR: u8 = 0;
    pub const PREPARE: u8 = 3;
    pub const TIMEOUT_QC: u8 = 9;
    pub const STATUS: u8 = 14;
    pub const CARS: u8 = 11;
    pub const COMMITS: u8 = 16;

    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }
}

/// Computes digests of one committee of one chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(Scope);

impl Context {
    pub fn new(committee: &Committee) -> Self {
        Self(Scope::new(committee))
    }

    /// A car's digest, which its owner signs.
    pub fn car(&self, car: &Car) -> B256 {
        self.car_with(car, batch_digest(&car.batch))
    }

    /// Signs a car. `None` if the signer does not.
    pub fn sign_car(&self, car: &Car, signer: &dyn Signer) -> Option<Signature> {
        let batch = batch_digest(&car.batch);
        signer.sign(&Authored::Car { position: car.position, parent: car.parent, batch }, &self.car_with(car, batch))
    }

    /// Same, from the batch's hash. The batch enters by its hash, so that a header alone could be checked later.
    fn car_with(&self, car: &Car, batch: B256) -> B256 {
        self.0.digest(tags::CAR, &(car.lane, car.position, car.parent, batch))
    }

    /// Signs a statement as a share. `None` if the signer does not.
    pub fn share(&self, statement: &Statement, signer: &dyn Signer) -> Result<Share, Unsigned> {
        signer.share(statement, &self.statement(statement))
    }

    /// Parent digest of position 1 of a lane.
    pub fn lane_start(&self, lane: ValidatorIndex) -> B256 {
        self.0.digest("corniche-autobahn-lane", &lane)
    }

    /// The tip of a lane without cars.
    pub fn start(&self, lane: ValidatorIndex) -> Tip {
        Tip { lane, position: Position(0), digest: self.lane_start(lane) }
    }

    /// Digest that a validator signs to announce its disk.
    pub fn disk_id(&self, validator: ValidatorIndex, disk: u64) -> B256 {
        self.0.digest(tags::DISK_ID, &(validator, disk))
    }

    /// A cut's digest.
    pub fn cut(&self, cut: &Cut) -> B256 {
        self.0.digest("corniche-autobahn-cut", cut)
    }

    /// Digest that a leader signs.
    pub fn prepare(&self, slot: Slot, view: View, cut: B256) -> B256 {
        self.0.digest(tags::PREPARE, &(slot, view, cut))
    }

    /// Two PREPAREs of one leader for one slot and view, as a contradiction. `None` for others.
    pub(crate) fn contradiction(&self, [one, other]: &[SignedPrepare; 2]) -> Option<Contradiction> {
        let is_one_attempt = (one.cut.slot, one.view) == (other.cut.slot, other.view);
        let signed = |prepare: &SignedPrepare| (self.cut(&prepare.cut), prepare.signature);
        is_one_attempt.then(|| Contradiction::of_prepares(one.cut.slot.0, one.view.0, signed(one), signed(other))).flatten()
    }

    /// Digest that a share signs.
    pub fn statement(&self, statement: &Statement) -> B256 {
        match *statement {
            Statement::CarVote(tip) => self.0.digest(tags::CAR_VOTE, &tip),
            Statement::PrepareVote { slot, view, cut } => self.0.digest(tags::PREPARED, &(slot, view, cut)),
            Statement::WeakPrepareVote { slot, view, cut } => self.0.digest(tags::PREPARED_WEAKLY, &(slot, view, cut)),
            Statement::ConfirmAck { slot, view, cut } => self.0.digest(tags::CONFIRMED, &(slot, view, cut)),
            Statement::Timeout { slot, view, report } => self.0.digest(tags::TIMED_OUT, &(slot, view, report)),
        }
    }
}
