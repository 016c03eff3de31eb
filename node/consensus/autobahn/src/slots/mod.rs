//! The slots: agreement on cuts, several slots at once. A state machine of its own, without bytes, disks or clocks.
//!
//! Driven like an engine: apply one [`Input`] with [`Slots::handle`], take every [`Effect`] with [`Slots::poll`] until `None`, wait
//! for the next input or for [`Slots::deadline`]. What it asks of the lanes below is the trait [`Lanes`], handed in with each input.
//! What it receives was checked by the verifier: signatures, quorums, the shape of certificates and of cuts. What needs the protocol
//! (tickets, `select`, views, one vote a view) is checked here, also where it could be checked without state.

use crate::{
    config::Config,
    keys::{Signatures, Signer},
    message::{Availability, CommitQc, Context, Cut, Message, PrepareQc, SignedPrepare, Slot, TimeoutQc, Tip, View},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Committee, Recipients, TraceEvent};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::{collections::VecDeque, sync::Arc};

/// What the slots ask of the lanes. Answers may change between inputs only; after a change that could matter (a higher certified or
/// optimistic tip, a body that came), the caller hands in [`Input::Lanes`].
pub trait Lanes {
    /// The highest certified car of a lane, whether held here or not; `None` before the first (D7).
    fn certified(&self, lane: ValidatorIndex) -> Option<&Availability>;

    /// The highest car of a lane that is held here, voted for, above [`Lanes::certified`], and whose parent is certified; with the
    /// parent's certificate, which is absent at position 1 only (C3, rows 19 and 20).
    fn optimistic(&self, lane: ValidatorIndex) -> Option<(Tip, Option<&Availability>)>;

    /// Whether a strong vote may be given for this tip (N6): it is certified here, or its body is held (also in the side store, P21)
    /// and its parent is certified.
    fn vouches(&self, tip: &Tip) -> bool;

    /// A certificate that a PREPARE carried, verified (D7).
    fn learn(&mut self, certificate: &Availability);
}

/// What the slots are built from.
pub struct Setup {
    pub config: Config,
    pub committee: Committee,
    /// Without keys the machine follows: it never votes, proposes or complains.
    pub signer: Option<Arc<dyn Signer>>,
    pub signatures: Arc<dyn Signatures>,
    /// Every slot up to this one is committed and was handed over in an earlier life; 0 at the beginning.
    pub committed: Slot,
    /// The cuts of the last k slots up to `committed` (fewer at the beginning), ascending: the anchors of the next k (P14).
    pub anchors: Vec<Cut>,
    /// Commits of an earlier life, any order. Those above `committed` come out as [`Effect::Committed`] again; those below give the
    /// anchors their certificates and answer laggards.
    pub commits: Vec<(Cut, CommitQc)>,
    /// The last record of each slot that is not committed, any order; older records of a slot may be among them, before the newer.
    pub records: Vec<SlotRecord>,
    pub now: TimestampMs,
}

/// What happens to the slots.
#[derive(Debug)]
pub enum Input {
    /// A verified message of a peer about slots: PREPARE (also passed on), PREP-VOTE, CONFIRM, CONFIRM-ACK, COMMIT, TIMEOUT, TC,
    /// CUT-REQ, CUT-REPLY. Others are ignored. `from` is who sent it, and for votes and TIMEOUTs who signed it.
    Message { from: ValidatorIndex, message: Box<Message> },
    /// The lanes' answers may have changed.
    Lanes,
    /// The record is on disk.
    Durable(RecordId),
    /// [`Slots::deadline`] passed.
    Deadline,
    /// Commits got by catching up, verified.
    CaughtUp(Vec<(Cut, CommitQc)>),
}

/// Names a record of this life. Ascending, and records become durable in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordId(pub u64);

/// What the slots owe.
#[derive(Debug)]
pub enum Effect {
    /// Append, sync, then hand in [`Input::Durable`]. What relies on the record leaves after that. A record replaces every earlier
    /// one of its slot, and is not needed any more once its slot is committed durably.
    Persist {
        id: RecordId,
        record: Box<SlotRecord>,
    },
    /// To others; never to oneself, and not to all when there is nobody else.
    Send {
        to: Recipients,
        message: Box<Message>,
    },
    /// This slot's value, for good. Each slot once a life, in any order (P27); persist cut and certificate before executing.
    Committed {
        cut: Arc<Cut>,
        certificate: CommitQc,
    },
    /// A vote waits for the body of this tip: ask `from`, the leader that proposed it (TIP-REQ). May come again for the same tip;
    /// [`Input::Lanes`] when it is there.
    FetchTip {
        tip: Tip,
        from: ValidatorIndex,
    },
    /// A valid PREPARE names this cut: begin to fetch the histories of its certified tips (Y2, C4). `available` holds the
    /// certificates that came with it.
    Sync {
        cut: Arc<Cut>,
        available: Vec<Availability>,
    },
    /// Two PREPAREs of one leader for one view of a slot (N10).
    Accuse {
        validator: ValidatorIndex,
        evidence: Box<[SignedPrepare; 2]>,
    },
    /// This slot is known to be committed, but so far ahead that this validator must catch up by asking for commits.
    Behind {
        slot: Slot,
    },
    /// This validator complains about a slot that was committed long ago: it needs the commits from that slot on.
    Lagging {
        peer: ValidatorIndex,
        slot: Slot,
    },
    /// Two values of one slot are certified: more than f validators are faulty. The machine stands still from here on.
    Broken {
        certificates: Box<[CommitQc; 2]>,
    },
    Trace(TraceEvent),
}

/// What a validator must not forget of an open slot (R1, R4).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct SlotRecord {
    pub slot: Slot,
    /// The view it is in; all below are closed.
    pub view: View,
    /// It gave `view` up: no vote in it any more (V2, N2).
    pub timed_out: bool,
    /// Why it is in `view`; shown to those who are not yet.
    pub entered: Option<TimeoutQc>,
    /// The highest view it signed a PREPARE for (N10).
    pub proposed: Option<View>,
    /// The highest view it voted in, and for what, weakly too (N1).
    pub voted: Option<(View, B256)>,
    /// prop: what it last voted for strongly.
    pub prop: Option<(View, Cut)>,
    /// conf: the highest certificate it has seen; what it acknowledged last is this one.
    pub conf: Option<PrepareQc>,
}

/// See the module documentation.
pub struct Slots {
    #[expect(dead_code)]
    setup: Setup,
    #[expect(dead_code)]
    context: Context,
    effects: VecDeque<Effect>,
}

impl Slots {
    /// Recovery is construction (R4).
    pub fn new(setup: Setup) -> Self {
        Self { context: Context::new(&setup.committee), setup, effects: VecDeque::new() }
    }

    /// Applies one input.
    pub fn handle(&mut self, _now: TimestampMs, _lanes: &mut dyn Lanes, _input: Input) {}

    /// The next thing the caller owes.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to hand in [`Input::Deadline`] if nothing else happens. `None` when nothing is open and the lanes have no news (P10).
    pub fn deadline(&self) -> Option<TimestampMs> {
        None
    }

    /// R5: signs nothing about slots up to this one.
    pub fn abstain(&mut self, _through: Slot) {}

    /// Every slot up to this one is committed, and its cut known.
    pub fn committed(&self) -> Slot {
        Slot(0)
    }

    /// How many things are held that could become too many.
    pub fn footprint(&self) -> usize {
        0
    }
}
