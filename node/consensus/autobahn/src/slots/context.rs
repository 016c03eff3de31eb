//! Shared context of all slots: keys, clock, outgoing messages, and the records that messages wait for.

use super::{Effect, RecordId, Request, SlotRecord, leaders::LeaderReputation};
use crate::{
    config::Config,
    keys::{Share, Signatures, Signer},
    message::{CommitQc, Context, Message, Slot, Statement, View},
    rules::Schedule,
};
use corniche_engine::{ClockLeads, Committee, Recipients, TraceEvent, Unsigned};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

/// After so many late last votes in a row, a leader stops waiting for them (P19).
const MAX_FAST_MISSES: u32 = 3;

pub(crate) struct SlotContext {
    pub config: Config,
    pub committee: Committee,
    pub context: Context,
    pub schedule: Schedule,
    pub signatures: Arc<dyn Signatures>,
    pub now: TimestampMs,
    pub effects: VecDeque<Effect>,
    /// Messages of this validator to itself. They are handled like a peer's, without delay.
    pub inbox: VecDeque<Message>,
    signer: Option<Arc<dyn Signer>>,
    /// R5: the validator signs nothing about slots up to this one.
    abstain: Slot,
    last_record: RecordId,
    durable: RecordId,
    /// Messages that rely on a record, with that record. Sent when it is durable.
    waiting: VecDeque<(RecordId, Recipients, Message)>,
    /// Number of times in a row that the last vote came after T_fast.
    fast_misses: u32,
    pub leaders: LeaderReputation,
    /// From PREPAREs with a new cut.
    pub clock_leads: ClockLeads,
}

impl SlotContext {
    pub fn new(
        config: Config,
        committee: Committee,
        signer: Option<Arc<dyn Signer>>,
        signatures: Arc<dyn Signatures>,
        now: TimestampMs,
    ) -> Self {
        Self {
            context: Context::new(&committee),
            schedule: Schedule::new(&committee, &config),
            leaders: LeaderReputation::new(committee.total()),
            clock_leads: ClockLeads::default(),
            config,
            committee,
            signatures,
            now,
            effects: VecDeque::new(),
            inbox: VecDeque::new(),
            signer,
            abstain: Slot(0),
            last_record: RecordId(0),
            durable: RecordId(0),
            waiting: VecDeque::new(),
            fast_misses: 0,
        }
    }

    pub fn me(&self) -> Option<ValidatorIndex> {
        self.signer.as_ref().map(|signer| signer.index())
    }

    /// Returns the keys; `None` if there are none, or if nothing may be signed about this slot.
    pub fn signer(&self, slot: Slot) -> Option<&dyn Signer> {
        self.signer.as_deref().filter(|_| slot > self.abstain)
    }

    pub fn share(&self, slot: Slot, statement: &Statement) -> Result<Share, Unsigned> {
        self.context.share(statement, self.signer(slot).ok_or(Unsigned::Refused)?)
    }

    /// Replaces the earlier limit, even a higher one.
    pub fn abstain(&mut self, through: Slot) {
        self.abstain = through;
    }

    pub fn is_leader(&self, slot: Slot, view: View) -> bool {
        self.me() == Some(self.schedule.leader(slot, view))
    }

    pub fn in_ms(&self, delay: u64) -> TimestampMs {
        TimestampMs(self.now.0.saturating_add(delay))
    }

    /// Timer of a view, ms. The full timer is long on purpose and doubles with each view of a slot (3.8). On a fast network timers
    /// are shorter ([`LeaderReputation`]), but only in the views of a slot before whose leaders have more than F votes together: one
    /// of these is honest. Liveness rests on the later views, whose timers depend neither on trust nor on measurements.
    pub fn view_timeout(&self, slot: Slot, view: View) -> u64 {
        let Config { view_timeout_ms, max_view_timeout_ms, .. } = self.config;
        let factor = 1u64.checked_shl(view.0).unwrap_or(u64::MAX);
        let full = view_timeout_ms.saturating_mul(factor).min(max_view_timeout_ms.max(view_timeout_ms));
        let leader = self.schedule.leader(slot, view);
        let short = self.is_early(slot, view).then(|| self.leaders.timeout(leader, view_timeout_ms)).flatten();
        short.map_or(full, |short| short.min(full))
    }

    /// Returns true while the leaders of a slot's views before this one may all be faulty.
    fn is_early(&self, slot: Slot, view: View) -> bool {
        let mut leaders = BTreeSet::new();
        let mut before = (0..view.0).map(|view| self.schedule.leader(slot, View(view)));
        before.all(|leader| {
            leaders.insert(leader);
            self.committee.weigh(leaders.iter().copied()) <= self.committee.max_faulty()
        })
    }

    // ---- messages --------------------------------------------------------------------------------------------------

    /// Sends a message now. Recipients may include this validator.
    pub fn send(&mut self, to: Recipients, message: Message) {
        let me = self.me();
        let (own, others) = match to {
            Recipients::All => (me.is_some(), self.committee.size() > 1),
            Recipients::One(peer) => (me == Some(peer), me != Some(peer)),
        };
        if own {
            self.inbox.push_back(message.clone());
        }
        if others {
            self.effects.push_back(Effect::Send { to, message: Box::new(message) });
        }
    }

    /// Queues a request of a peer. The caller limits the rate of the responses.
    pub fn queue_request(&mut self, peer: ValidatorIndex, request: Request) {
        if self.me() != Some(peer) {
            self.effects.push_back(Effect::Requested { peer, request });
        }
    }

    /// Returns true if the record is on disk, so that messages that rely on it may be sent.
    pub fn is_durable(&self, record: RecordId) -> bool {
        record <= self.durable
    }

    pub fn record(&mut self, record: SlotRecord) -> RecordId {
        self.last_record.0 += 1;
        self.effects.push_back(Effect::Persist { id: self.last_record, record: Box::new(record) });
        self.last_record
    }

    /// Durable before visible: sends the message once `record` is on disk.
    pub fn send_after(&mut self, record: RecordId, to: Recipients, message: Message) {
        if record <= self.durable {
            self.send(to, message);
        } else {
            self.waiting.push_back((record, to, message));
        }
    }

    pub fn durable(&mut self, record: RecordId) {
        self.durable = self.durable.max(record);
        // The queue is not sorted by record if a vote was repeated before its record was durable.
        let (ready, waiting): (VecDeque<_>, _) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(needed, ..)| *needed <= self.durable);
        self.waiting = waiting;
        ready.into_iter().for_each(|(_, to, message)| self.send(to, message));
    }

    /// Handles a commit that was certified here: the leader sends it to all, others pass it to themselves only (C5, C7).
    pub fn announce_commit(&mut self, certificate: CommitQc) {
        if self.is_leader(certificate.slot, certificate.view) {
            self.send(Recipients::All, Message::Commit(certificate));
        } else {
            self.inbox.push_back(Message::Commit(certificate));
        }
    }

    /// Sends CUT-REQ to peers with F + 1 votes, `holders` first, and to the next ones at each attempt (P6).
    pub fn request_cut(&mut self, slot: Slot, cut: B256, holders: &[ValidatorIndex], attempt: usize) {
        self.request_from(&Message::FetchCut { slot, cut }, holders, attempt);
    }

    /// Sends a request to peers with F + 1 votes, `holders` first, and to the next ones at each attempt.
    pub fn request_from(&mut self, request: &Message, holders: &[ValidatorIndex], attempt: usize) {
        let me = self.me();
        let mut peers: Vec<_> =
            holders.iter().copied().chain(self.committee.indices()).filter(|peer| Some(*peer) != me).collect();
        let mut named = BTreeSet::new();
        peers.retain(|peer| named.insert(*peer));
        // A peer has a place for each vote, so successive attempts may both ask the peer at their border.
        let places: Vec<_> =
            peers.into_iter().flat_map(|peer| std::iter::repeat_n(peer, self.committee.votes(peer).as_usize())).collect();
        let count = self.committee.validity().as_usize();
        let mut asked = BTreeSet::new();
        for place in places.iter().cycle().skip(attempt * count % places.len().max(1)).take(count.min(places.len())) {
            if asked.insert(*place) {
                self.send(Recipients::One(*place), request.clone());
            }
        }
    }

    /// Rows 19 and 20: returns true if the leader of a slot's first view may name this lane's tip before it is certified.
    pub fn may_be_optimistic(&self, slot: Slot, lane: ValidatorIndex) -> bool {
        self.config.optimistic_tips || self.config.leader_tips && lane == self.schedule.leader(slot, View(0))
    }

    pub fn note(&mut self, name: &str, slot: Slot, view: View) {
        let detail = format!("slot {} view {}", slot.0, view.0);
        self.effects.push_back(Effect::Trace(TraceEvent::note(name, detail)));
    }

    // ---- the fast path (P19) ---------------------------------------------------------------------------------------

    /// Time to wait for the last votes after the quorum, ms. `None` if the fast path is off, or if they were late too often.
    pub fn fast_wait(&self) -> Option<u64> {
        (self.config.fast_path && self.fast_misses < MAX_FAST_MISSES).then_some(self.config.fast_wait_ms)
    }

    pub fn fast_missed(&mut self) {
        self.fast_misses += 1;
    }

    /// Records that all votes came, `after_ms` after the quorum. Votes are counted even if the leader does not wait for them, so
    /// the fast path comes back by itself.
    pub fn fast_complete(&mut self, after_ms: u64) {
        if after_ms <= self.config.fast_wait_ms {
            self.fast_misses = 0;
        }
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Signature;
    use corniche_testkit::committee_of;
    use corniche_types::Bytes;

    struct NoSignatures;

    impl Signatures for NoSignatures {
        fn verify(&self, _: ValidatorIndex, _: &B256, _: &Signature) -> bool {
            false
        }

        fn verify_share(&self, _: ValidatorIndex, _: &B256, _: &Share) -> bool {
            false
        }

        fn combine(&self, _: &[(ValidatorIndex, Share)]) -> Option<Bytes> {
            None
        }

        fn verify_seal(&self, _: &[(ValidatorIndex, B256)], _: &Bytes) -> bool {
            false
        }
    }

    fn context(votes: &[u32]) -> SlotContext {
        SlotContext::new(Config::default(), committee_of("autobahn", votes), None, Arc::new(NoSignatures), TimestampMs(0))
    }

    /// The peers that an attempt asks, in order.
    fn asked(ctx: &mut SlotContext, holders: &[u16], attempt: usize) -> Vec<u16> {
        let holders: Vec<_> = holders.iter().copied().map(ValidatorIndex).collect();
        ctx.request_cut(Slot(1), B256::ZERO, &holders, attempt);
        let peer = |effect| match effect {
            Effect::Send { to: Recipients::One(peer), .. } => peer.0,
            effect => panic!("{effect:?}"),
        };
        ctx.effects.drain(..).map(peer).collect()
    }

    #[test]
    fn requests_go_to_peers_with_honest_votes() {
        for votes in [&[2, 2, 2, 1][..], &[3, 2, 2, 1, 1, 1], &[9, 1], &[1]] {
            let mut ctx = context(votes);
            let mut all = BTreeSet::new();
            for attempt in 0..10 {
                let peers = asked(&mut ctx, &[0], attempt);
                let distinct: BTreeSet<_> = peers.iter().copied().collect();
                assert_eq!(distinct.len(), peers.len(), "{votes:?}: {peers:?} in attempt {attempt}");
                let weight = ctx.committee.weigh(peers.into_iter().map(ValidatorIndex));
                assert!(weight >= ctx.committee.validity(), "{votes:?}, attempt {attempt}: {weight}");
                all.extend(distinct);
            }
            assert_eq!(all.len(), votes.len(), "{votes:?}: each is asked");
        }
    }

    #[test]
    fn equal_votes_ask_f_plus_one_peers() {
        let mut ctx = context(&[1; 7]);
        let attempts: Vec<_> = (0..4).map(|attempt| asked(&mut ctx, &[5, 2], attempt)).collect();
        assert_eq!(attempts, [[5, 2, 0], [1, 3, 4], [6, 5, 2], [0, 1, 3]]);
    }

    #[test]
    fn rotation_has_a_slot_for_each_vote() {
        let mut ctx = context(&[3, 2, 2, 1, 1, 1]);
        for slots in 0..10 {
            assert_eq!(ctx.view_timeout(Slot(1), View(0)), 1_000, "{slots} slots are measured");
            ctx.leaders.record_duration(20);
        }
        assert_eq!(ctx.view_timeout(Slot(1), View(0)), 250);
    }

    #[test]
    fn short_timers_end_when_an_honest_leader_had_its_view() {
        // Last views with a short timer: the leaders before have at most F votes together.
        for (votes, last) in [(&[1; 7][..], 2), (&[2, 2, 2, 1], 1), (&[3, 2, 2, 1, 1, 1], 1), (&[16; 4], 1)] {
            for slot in (1..40).map(Slot) {
                let mut ctx = context(votes);
                ctx.committee.indices().for_each(|peer| ctx.leaders.peer_down(peer));
                let is_short = |view: u32| ctx.view_timeout(slot, View(view)) < 1_000u64 << view;
                let short = (0..).take_while(|view| is_short(*view)).count();
                let before = |view: usize| (0..view).map(|view| ctx.schedule.leader(slot, View(view as u32)));
                let weigh = |view: usize| ctx.committee.weigh(before(view).collect::<BTreeSet<_>>());
                assert!(short > last && weigh(short) > ctx.committee.max_faulty(), "{votes:?}, {slot:?}: {short}");
                assert!(weigh(short - 1) <= ctx.committee.max_faulty(), "{votes:?}, {slot:?}: {short}");
            }
        }
    }
}
