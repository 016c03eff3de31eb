//! Inputs, effects and records of the slots, and their queries to the lanes.

use crate::{
    config::Config,
    keys::{Signatures, Signer},
    message::{Availability, CommitQc, Cut, Message, PrepareQc, SignedPrepare, Slot, TimeoutQc, Tip, View},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Committee, Recipients, TraceEvent};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::sync::Arc;

/// The slots' queries to the lanes. Results may change only between inputs. After a relevant change (a higher certified
/// or optimistic tip, a body that arrived), the caller passes [`Input::Lanes`].
pub trait Lanes {
    /// The highest certified car of a lane, held here or not; `None` before the first (D7).
    fn certified(&self, lane: ValidatorIndex) -> Option<&Availability>;

    /// The highest car of a lane that is held here, voted for, above [`Lanes::certified`], and has a certified parent;
    /// with the parent's certificate, which is absent only at position 1 (C3, rows 19 and 20).
    fn optimistic(&self, lane: ValidatorIndex) -> Option<(Tip, Option<&Availability>)>;

    /// Returns true if a certificate of this tip, or of a car above it, is known here.
    fn is_certified(&self, tip: &Tip) -> bool;

    /// Returns true if a strong vote for this tip is allowed (N6): it is certified here, or its body is held (also in
    /// the side store, P21) and its parent is certified.
    fn may_vote_strongly(&self, tip: &Tip) -> bool;

    /// Stores a verified certificate from a PREPARE (D7).
    fn learn(&mut self, certificate: &Availability);
}

/// Arguments of [`Slots::new`](super::Slots::new).
pub struct Setup {
    pub config: Config,
    pub committee: Committee,
    /// Without keys the machine only follows: it never votes, proposes or complains.
    pub signer: Option<Arc<dyn Signer>>,
    pub signatures: Arc<dyn Signatures>,
    /// Every slot up to this one is committed and was delivered in an earlier incarnation; 0 at the beginning.
    pub committed: Slot,
    /// The cuts of the last k slots up to `committed` (fewer at the beginning), ascending: the anchors of the next k
    /// slots (P14).
    pub anchors: Vec<Cut>,
    /// Commits of an earlier incarnation, in any order. Those above `committed` are emitted as [`Effect::Committed`] again.
    /// Those below provide the certificates of the anchors, and serve laggards.
    pub commits: Vec<(Cut, CommitQc)>,
    /// The last record of each slot that is not committed, in any order. Older records of a slot may precede the newer
    /// ones.
    pub records: Vec<SlotRecord>,
    pub now: TimestampMs,
}

/// Events for the slots.
#[derive(Debug)]
pub enum Input {
    /// A verified message of a peer about slots: PREPARE (also forwarded), PREP-VOTE, CONFIRM, CONFIRM-ACK, COMMIT,
    /// TIMEOUT, TC, CUT-REQ, CUT-REPLY. Others are ignored. `from` is the sender; for votes and TIMEOUTs also the
    /// signer.
    Message { from: ValidatorIndex, message: Box<Message> },
    /// The results of lane queries may have changed.
    Lanes,
    /// This peer is connected again; earlier messages to it may be lost.
    PeerUp(ValidatorIndex),
    /// The connection to this peer ended: as a leader it gets a short timer.
    PeerDown(ValidatorIndex),
    /// The record is on disk.
    Durable(RecordId),
    /// [`Slots::deadline`](super::Slots::deadline) passed.
    Deadline,
    /// Verified commits from catching up.
    CaughtUp(Vec<(Cut, CommitQc)>),
}

/// Identifies a record of this incarnation. Ascending; records become durable in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordId(pub u64);

/// Outputs of the slots.
#[derive(Debug)]
pub enum Effect {
    /// Append, sync, then pass [`Input::Durable`]. Messages that rely on the record are sent after that. A record
    /// replaces every earlier one of its slot. It is not needed any more once its slot is committed durably.
    Persist {
        id: RecordId,
        record: Box<SlotRecord>,
    },
    /// To others; never to this validator itself, and not to all in a committee of one.
    Send {
        to: Recipients,
        message: Box<Message>,
    },
    /// The final value of a slot. Emitted once per slot and incarnation, in any order (P27). Persist cut and certificate
    /// before executing.
    Committed {
        cut: Arc<Cut>,
        certificate: CommitQc,
    },
    /// A vote in this slot waits for the body of this tip, whose parent is certified: request it from `from`, the
    /// leader that proposed it (TIP-REQ), as long as [`Slots::awaits_bodies`](super::Slots::awaits_bodies). May repeat for one tip. Pass
    /// [`Input::Lanes`] when the body is held.
    FetchTip {
        slot: Slot,
        tip: Tip,
        from: ValidatorIndex,
    },
    /// A valid PREPARE names this cut: start to fetch the histories of its certified tips (Y2, C4). `available`
    /// contains the certificates that came with it.
    Sync {
        cut: Arc<Cut>,
        available: Vec<Availability>,
    },
    /// A peer requests something, or shows that it lacks it: respond with the result of [`Slots::response`](super::Slots::response) when it is
    /// the peer's turn. The response is small, and the peer may repeat the request.
    Requested {
        peer: ValidatorIndex,
        request: Request,
    },
    /// Two PREPAREs of one leader for one view of a slot (N10).
    Accuse {
        validator: ValidatorIndex,
        evidence: Box<[SignedPrepare; 2]>,
    },
    /// This slot is known to be committed, but so far ahead that this validator must request commits.
    Behind {
        slot: Slot,
    },
    /// The commit of a slot contains this validator's signature, but its records contain no vote: an incarnation was lost (R5).
    LostVote {
        slot: Slot,
    },
    /// The peer complains about a slot that was committed long ago: it needs the commits from that slot on.
    Lagging {
        peer: ValidatorIndex,
        slot: Slot,
    },
    /// Two values of one slot are certified: validators with more than F votes are faulty. The machine stops here.
    ConflictingCommits {
        certificates: Box<[CommitQc; 2]>,
    },
    Trace(TraceEvent),
}

/// Requests of peers about a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The cut with this digest (P6).
    Cut { slot: Slot, cut: B256 },
    /// The certificate of its commit (row 34).
    Commit { slot: Slot },
    /// Proof that this view was left (P12).
    View { slot: Slot, view: View },
    /// This validator's vote in its current view, again (R4, P12).
    Vote { slot: Slot },
    /// This validator's acknowledgement in its current view, again.
    Acknowledgement { slot: Slot },
}

/// Durable state of an open slot (R1, R4).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct SlotRecord {
    pub slot: Slot,
    /// The current view; all lower views are closed.
    pub view: View,
    /// True if `view` was given up: no vote in it any more (V2, N2).
    pub timed_out: bool,
    /// Proof for `view`; shown to validators in lower views.
    pub entered: Option<TimeoutQc>,
    /// The highest view for which it signed a PREPARE (N10).
    pub proposed: Option<View>,
    /// The highest view in which it voted, and the value; includes weak votes (N1).
    pub voted: Option<(View, B256)>,
    /// prop: its last strong vote.
    pub prop: Option<(View, Cut)>,
    /// conf: the highest certificate seen; the last acknowledgement is for this one.
    pub conf: Option<PrepareQc>,
}
