//! The slots: agreement on cuts, several slots at once. A state machine of its own, without bytes, disks or clocks.
//!
//! Driven like an engine: apply one [`Input`] with [`Slots::handle`], take every [`Effect`] with [`Slots::poll`] until `None`, wait
//! for the next input or for [`Slots::deadline`]. What it asks of the lanes below is the trait [`Lanes`], handed in with each input.
//! What it receives was checked by the verifier: signatures, quorums, the shape of certificates and of cuts. What needs the protocol
//! (tickets, `select`, views, one vote a view) is checked here, also where it could be checked without state.

mod commits;
pub(crate) mod desk;
mod leaders;
pub(crate) mod tally;
mod tickets;

use crate::{
    config::Config,
    keys::{Signatures, Signer},
    message::{Availability, CommitKind, CommitQc, Cut, Message, PrepareQc, SignedPrepare, Slot, TimeoutQc, Tip, View},
    rules::is_justified,
    slot::{SlotState, due},
};
use borsh::{BorshDeserialize, BorshSerialize};
use commits::Commits;
use corniche_engine::{Committee, Recipients, TraceEvent};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use desk::Desk;
use std::{collections::BTreeMap, sync::Arc};

/// What the slots ask of the lanes. Answers may change between inputs only; after a change that could matter (a higher certified or
/// optimistic tip, a body that came), the caller hands in [`Input::Lanes`].
pub trait Lanes {
    /// The highest certified car of a lane, whether held here or not; `None` before the first (D7).
    fn certified(&self, lane: ValidatorIndex) -> Option<&Availability>;

    /// The highest car of a lane that is held here, voted for, above [`Lanes::certified`], and whose parent is certified; with the
    /// parent's certificate, which is absent at position 1 only (C3, rows 19 and 20).
    fn optimistic(&self, lane: ValidatorIndex) -> Option<(Tip, Option<&Availability>)>;

    /// Whether a certificate of this tip, or of a car on top of it, is known here.
    fn is_certified(&self, tip: &Tip) -> bool;

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
    /// This peer is connected again: what was sent to it meanwhile is lost.
    PeerUp(ValidatorIndex),
    /// The connection to this peer ended: as a leader it gets a short timer.
    PeerDown(ValidatorIndex),
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
    /// A vote in this slot waits for the body of this tip, whose parent is shown to be certified: ask `from`, the leader that proposed
    /// it (TIP-REQ), as long as [`Slots::awaits_bodies`]. May come again for the same tip; [`Input::Lanes`] when it is there.
    FetchTip {
        slot: Slot,
        tip: Tip,
        from: ValidatorIndex,
    },
    /// A valid PREPARE names this cut: begin to fetch the histories of its certified tips (Y2, C4). `available` holds the
    /// certificates that came with it.
    Sync {
        cut: Arc<Cut>,
        available: Vec<Availability>,
    },
    /// A peer asks for something, or shows that it lacks it: answer with what [`Slots::answer`] says when it is the peer's turn. The
    /// answer is small, and it may be asked for again.
    Asked {
        peer: ValidatorIndex,
        question: Question,
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
    /// This validator's signature is under the commit of a slot, and its records know of no vote: a life was lost (R5).
    LostVote {
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

/// What peers want to know of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The cut with this digest (P6).
    Cut { slot: Slot, cut: B256 },
    /// That it is committed (row 34).
    Commit { slot: Slot },
    /// Why this view was left (P12).
    View { slot: Slot, view: View },
    /// This validator's vote in the view it is in, again (R4, P12).
    Vote { slot: Slot },
    /// Its acknowledgement.
    Acknowledgement { slot: Slot },
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
    desk: Desk,
    commits: Commits,
    /// Slots that are not committed and of which something is known; at most up to [`Commits::horizon`].
    open: BTreeMap<Slot, SlotState>,
    /// The highest slot that is known to have been proposed.
    top: Slot,
    /// The highest slot that the caller was told it is behind of.
    behind: Slot,
    is_broken: bool,
}

impl Slots {
    /// Recovery is construction (R4).
    pub fn new(setup: Setup) -> Self {
        let Setup { config, committee, signer, signatures, committed, anchors, commits, records, now } = setup;
        let open_slots = config.open_slots;
        let desk = Desk::new(config, committee, signer, signatures, now);
        let anchors = anchors.into_iter().map(|cut| (desk.context.cut(&cut), cut)).collect();
        let mut slots = Self {
            commits: Commits::new(open_slots, committed, anchors),
            desk,
            open: BTreeMap::new(),
            top: committed,
            behind: Slot(0),
            is_broken: false,
        };
        for record in records {
            // A complaint alone does not say that the slot was ever proposed.
            if record.view > View(0) || record.proposed.is_some() || record.voted.is_some() || record.conf.is_some() {
                slots.top = slots.top.max(record.slot);
            }
            let digest = record.prop.as_ref().map(|(_, cut)| slots.desk.context.cut(cut));
            slots.open.insert(record.slot, SlotState::recovered(record, digest));
        }
        slots.catch_up(commits);
        slots.open = slots.open.split_off(&Slot(slots.commits.through().0 + 1));
        slots.open.values_mut().for_each(|state| state.resume(&slots.desk));
        slots
    }

    /// Applies one input.
    pub fn handle(&mut self, now: TimestampMs, lanes: &mut dyn Lanes, input: Input) {
        self.desk.now = self.desk.now.max(now);
        match input {
            Input::Message { from, message } => self.take(lanes, from, *message),
            Input::Lanes => {}
            Input::PeerUp(peer) => {
                self.desk.leaders.up(peer);
                let to = Recipients::One(peer);
                self.open.values().for_each(|state| state.send_open(&mut self.desk, to));
            }
            Input::PeerDown(peer) => {
                self.desk.leaders.down(peer);
                self.shorten_timers_of(peer);
            }
            Input::Durable(record) => self.desk.durable(record),
            Input::Deadline => self.take_deadline(),
            Input::CaughtUp(commits) => self.catch_up(commits),
        }
        self.settle(lanes);
    }

    /// The next thing the caller owes.
    pub fn poll(&mut self) -> Option<Effect> {
        self.desk.effects.pop_front()
    }

    /// When to hand in [`Input::Deadline`] if nothing else happens. `None` when nothing is open and the lanes have no news (P10).
    pub fn deadline(&self) -> Option<TimestampMs> {
        let timers = self.open.values().filter_map(|state| state.timers.next());
        timers.chain(self.commits.fetch).chain(self.commits.gap).min().filter(|_| !self.is_broken)
    }

    /// What a peer is told that [`Effect::Asked`]; nothing when it is not known any more.
    pub fn answer(&self, question: Question) -> Option<Message> {
        let open = |slot: Slot| self.open.get(&slot);
        match question {
            Question::Cut { slot, cut } => self.cut(slot, cut).map(|cut| Message::Cut(Cut::clone(&cut))),
            Question::Commit { slot } => self.commits.certificate(slot).cloned().map(Message::Commit),
            Question::View { slot, view } => open(slot)?.way_from(view),
            Question::Vote { slot } => open(slot)?.vote_again(&self.desk),
            Question::Acknowledgement { slot } => open(slot)?.acknowledge_again(&self.desk),
        }
    }

    /// R5: from now on signs nothing about slots up to this one.
    pub fn abstain(&mut self, through: Slot) {
        self.desk.abstain(through);
        // Views entered without a voice have no timer.
        self.open.values_mut().for_each(|state| state.resume(&self.desk));
    }

    /// Every slot up to this one is committed, and its cut was handed over.
    pub fn committed(&self) -> Slot {
        self.commits.through()
    }

    /// Whether a vote in this slot may wait for the bodies of tips.
    pub fn awaits_bodies(&self, slot: Slot) -> bool {
        self.open.get(&slot).is_some_and(SlotState::awaits_bodies)
    }

    /// Whether an open slot's proposal, or what this validator voted for there, names this tip.
    pub fn names(&self, tip: &Tip) -> bool {
        self.open.values().any(|state| state.names(tip))
    }

    /// How many things are held that could become too many.
    pub fn footprint(&self) -> usize {
        self.open.values().map(SlotState::footprint).sum::<usize>() + self.commits.len() + self.desk.waiting()
    }

    /// The open slots, for people who look into a failure.
    pub fn describe(&self) -> String {
        let open = self
            .open
            .values()
            .map(|state| format!("{}v{}{}", state.slot.0, state.view.0, if state.timed_out { "!" } else { "" }));
        format!("open {}, top {}", open.collect::<Vec<_>>().join(" "), self.top.0)
    }

    // ---- inputs ----------------------------------------------------------------------------------------------------

    /// Everything that follows from an input, this validator's mail to itself included.
    fn settle(&mut self, lanes: &mut dyn Lanes) {
        loop {
            while let (Some(me), Some(message)) = (self.desk.me(), self.desk.inbox.pop_front()) {
                self.take(lanes, me, message);
            }
            if self.is_broken {
                return;
            }
            let is_quiet = self.is_quiet(lanes);
            for (slot, state) in self.open.iter_mut().filter(|(_, state)| !is_quiet || state.view > View(0)) {
                state.vote_if_ready(&mut self.desk, lanes, self.commits.anchor(*slot));
            }
            self.pace(lanes);
            self.commits.watch_gap(&self.desk);
            if self.desk.inbox.is_empty() {
                return;
            }
        }
    }

    fn take(&mut self, lanes: &mut dyn Lanes, from: ValidatorIndex, message: Message) {
        if self.is_broken {
            return;
        }
        match message {
            Message::Prepare(prepare) => self.take_prepare(lanes, from, prepare),
            Message::Prepared { vote, strong } => {
                self.at(vote.slot, |state, desk| state.take_prepared(desk, from, vote, strong));
            }
            Message::Confirm(certificate) => {
                self.proposed(certificate.slot);
                self.at(certificate.slot, |state, desk| state.take_confirm(desk, certificate));
            }
            Message::Confirmed(vote) => self.at(vote.slot, |state, desk| state.take_confirmed(desk, from, vote)),
            Message::Commit(certificate) => self.commit(certificate, None),
            Message::Timeout(timeout) if self.commits.contains(timeout.slot) => self.help(from, timeout.slot),
            Message::Timeout(timeout) => self.at(timeout.slot, |state, desk| state.take_timeout(desk, from, timeout)),
            Message::TimedOut(certificate) => {
                self.proposed(certificate.slot);
                self.at(certificate.slot, |state, desk| state.take_timed_out(desk, &certificate));
            }
            Message::FetchCut { slot, cut } => self.take_fetch_cut(from, slot, cut),
            Message::Cut(cut) => self.take_cut(cut),
            _ => {}
        }
    }

    /// C2, and what a PREPARE shows besides.
    fn take_prepare(&mut self, lanes: &mut dyn Lanes, from: ValidatorIndex, prepare: SignedPrepare) {
        let slot = prepare.cut.slot;
        let digest = self.desk.context.cut(&prepare.cut);
        if !is_justified(&prepare, digest, &self.desk.config, &self.desk.committee) {
            return;
        }
        if let Some(anchor) = &prepare.previous {
            self.commit(anchor.clone(), None);
        }
        if self.commits.contains(slot) {
            if self.commits.wants(slot, digest) {
                self.commits.complete(&mut self.desk, &Arc::new(prepare.cut));
            }
            // Its leader has not heard of the commit.
            return self.help(from, slot);
        }
        self.proposed(slot);
        self.at(slot, |state, desk| state.take_prepare(desk, lanes, from, digest, prepare));
    }

    /// C8. `cut`: its value, if the caller has it.
    fn commit(&mut self, certificate: CommitQc, cut: Option<Arc<Cut>>) {
        let CommitQc { slot, view, .. } = certificate;
        if slot > self.commits.horizon() {
            if slot > self.behind {
                self.behind = slot;
                self.desk.effects.push_back(Effect::Behind { slot });
            }
            return;
        }
        let cut = cut.or_else(|| self.open.get(&slot)?.body(certificate.cut));
        let voted = self.desk.me().is_some_and(|me| certificate.proof.signers.contains(&me));
        let is_lost = voted && !self.open.get(&slot).is_some_and(SlotState::has_voted);
        let agreed = (!self.commits.contains(slot)).then(|| self.agreed(&certificate));
        match self.commits.insert(&mut self.desk, certificate, cut) {
            Ok(true) => {
                self.desk.effects.extend(agreed.map(Effect::Trace));
                self.judge_leaders(slot, view);
                self.open.remove(&slot);
                self.proposed(slot);
                if is_lost {
                    self.desk.effects.push_back(Effect::LostVote { slot });
                }
            }
            Ok(false) => {}
            Err(certificates) => {
                self.is_broken = true;
                self.desk.effects.push_back(Effect::Broken { certificates });
            }
        }
    }

    /// Learns from a commit which leaders are reliable, and how long a view takes.
    fn judge_leaders(&mut self, slot: Slot, view: View) {
        let state = self.open.get(&slot).filter(|state| state.view == view);
        if let Some(age) = state.and_then(|state| state.age(self.desk.now)) {
            self.desk.leaders.measure(age);
        }
        let schedule = self.desk.schedule;
        if view == View(0) {
            self.desk.leaders.judge(schedule.leader(slot, view), slot, true);
        }
        // After as many views as there are validators everybody has failed.
        for failed in (0..view.0).take(self.desk.committee.size()) {
            let leader = schedule.leader(slot, View(failed));
            self.desk.leaders.judge(leader, slot, false);
            self.shorten_timers_of(leader);
        }
    }

    fn shorten_timers_of(&mut self, leader: ValidatorIndex) {
        for state in self.open.values_mut().filter(|state| self.desk.schedule.leader(state.slot, state.view) == leader) {
            state.shorten_view_timer(&self.desk);
        }
    }

    /// Who made this commit, for those who look. What was voted in the first step of the slow way is known where CONFIRM was seen.
    fn agreed(&self, certificate: &CommitQc) -> TraceEvent {
        let CommitQc { kind, slot, view, cut, ref proof } = *certificate;
        let prepared = || self.open.get(&slot)?.prepared_by(view, cut);
        let (voters, confirmers) = match kind {
            CommitKind::Fast => (proof.signers.clone(), Vec::new()),
            CommitKind::Slow => (prepared().map(<[_]>::to_vec).unwrap_or_default(), proof.signers.clone()),
        };
        TraceEvent::Agreed { round: slot.0, rank: 0, voters, confirmers }
    }

    fn catch_up(&mut self, commits: Vec<(Cut, CommitQc)>) {
        for (cut, certificate) in commits {
            let (cut, value) = (Arc::new(cut), certificate.cut);
            self.commit(certificate, Some(cut.clone()));
            if self.commits.wants(cut.slot, value) {
                self.commits.complete(&mut self.desk, &cut);
            }
        }
    }

    /// Row 34: a peer works on a slot that is committed.
    fn help(&mut self, peer: ValidatorIndex, slot: Slot) {
        if self.commits.certificate(slot).is_some() {
            self.desk.ask(peer, Question::Commit { slot });
        } else if self.desk.me() != Some(peer) {
            self.desk.effects.push_back(Effect::Lagging { peer, slot });
        }
    }

    /// P6.
    fn take_fetch_cut(&mut self, from: ValidatorIndex, slot: Slot, cut: B256) {
        if self.cut(slot, cut).is_some() {
            self.desk.ask(from, Question::Cut { slot, cut });
        } else if self.commits.contains(slot) {
            self.help(from, slot);
        }
    }

    fn cut(&self, slot: Slot, digest: B256) -> Option<Arc<Cut>> {
        let committed = self.commits.body(slot, digest).cloned();
        committed.or_else(|| self.open.get(&slot)?.body(digest))
    }

    fn take_cut(&mut self, cut: Cut) {
        let digest = self.desk.context.cut(&cut);
        if self.commits.wants(cut.slot, digest) {
            self.commits.complete(&mut self.desk, &Arc::new(cut));
        } else if let Some(state) = self.open.get_mut(&cut.slot) {
            state.take_cut(digest, &cut);
        }
    }

    fn take_deadline(&mut self) {
        self.open.values_mut().for_each(|state| state.take_deadline(&mut self.desk));
        if due(&mut self.commits.fetch, self.desk.now) {
            self.commits.fetch_missing(&mut self.desk);
        }
        if due(&mut self.commits.gap, self.desk.now) {
            self.commits.ask_for_gap(&mut self.desk);
        }
    }

    /// Some validator proposed this slot, so it is the turn of the next (S1).
    fn proposed(&mut self, slot: Slot) {
        if slot <= self.commits.horizon() {
            self.top = self.top.max(slot);
        }
    }

    /// Works on a slot that is not committed and not out of reach.
    fn at(&mut self, slot: Slot, work: impl FnOnce(&mut SlotState, &mut Desk)) {
        if !self.commits.contains(slot) && slot <= self.commits.horizon() {
            work(self.open.entry(slot).or_insert_with(|| SlotState::new(slot)), &mut self.desk);
        }
    }
}
