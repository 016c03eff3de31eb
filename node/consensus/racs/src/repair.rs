//! Deliveries, retention, and what a validator needs after a restart, a lost disk or a lost connection.

use crate::{
    config::{MAX_ROUNDS_AHEAD, blocks_at_once},
    engine::{AfterDurable, Racs},
    message::{Block, BlockId, Context, Message, Round, View},
    record::{Record, RecordKey},
    rules::{Output as RulesOutput, Silence, State},
};
use corniche_engine::{Journal, Output, Ticket};
use corniche_lanes::{Lanes, Next, retention_floor};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, wire};

/// State from the records.
pub(crate) struct Recovered {
    context: Context,
    pub is_empty: bool,
    pub state: Option<State>,
    pub blocks: Vec<Block>,
    pub commit: Option<BlockId>,
    pub lanes: Lanes,
    pub silence: Silence,
}

impl Recovered {
    pub fn new(context: Context, mut records: Vec<(Ticket, Bytes)>, journal: &mut Journal<RecordKey>, lanes: Lanes) -> Self {
        records.sort_unstable_by_key(|(ticket, _)| *ticket);
        let (state, commit, silence) = (None, None, Silence::Nowhere);
        let mut recovered = Self { context, is_empty: records.is_empty(), state, blocks: Vec::new(), commit, lanes, silence };
        for (ticket, record) in records {
            let record = wire::decode(&record).expect("a record was encoded by this engine, and its log verifies checksums");
            let key = recovered.apply(record);
            journal.recovered(ticket, key);
        }
        recovered
    }

    fn apply(&mut self, record: Record) -> RecordKey {
        match record {
            Record::Started => RecordKey::Started,
            Record::State(state) => {
                self.state = Some(*state);
                RecordKey::State
            }
            Record::Block(block) => {
                let key = RecordKey::Block(self.context.id(&block));
                self.blocks.push(block);
                key
            }
            Record::Commit(block) => {
                self.commit = Some(block);
                RecordKey::Commit
            }
            Record::Batch(batch) => {
                let author = batch.author;
                RecordKey::Batch(author, self.lanes.recover(batch))
            }
            Record::Silent(view) => {
                self.silence = Silence::recovered(view);
                RecordKey::Silent
            }
        }
    }
}

/// Deliveries.
impl Racs {
    /// After a start: the log, the lanes, and what was said before.
    pub(crate) fn resume(&mut self) {
        self.exchange.lanes.find_ends(self.order.tips());
        self.floor = self.chain.first().map_or(self.delivered_round(), |first| Round(first.0.saturating_sub(1)));
        for block in self.chain.decided_from(self.delivered_round().next()).cloned().collect::<Vec<_>>() {
            corniche_lanes::advance(&mut self.covered, &block.value.tips);
        }
        let learned = self.replica.learn(self.chain.committed());
        let learned: Vec<_> = learned.into_iter().filter(|output| !matches!(output, RulesOutput::Commit(..))).collect();
        self.dispatch(learned);
        self.resume_lanes();
        self.say_again();
    }

    /// D6: committed blocks in order, once all their batches are here.
    pub(crate) fn deliver(&mut self) {
        while let Some(block) = self.chain.decided(self.delivered_round().next()).cloned() {
            // I4, theorem 2: one block per position, and no gaps.
            assert_eq!(block.parent, self.order.at(), "blocks are executed in order");
            let batches = self.exchange.lanes.next_batches(&block.value.tips, self.order.tips());
            let Ok(batches) = batches else { return self.want_next_batches() };
            let at = self.chain.id(&block);
            let next = Next { at, value: &block.value, digest: at.digest, leader: block.proposer };
            self.outputs.extend(self.order.deliver(&mut self.exchange, next, batches));
            self.follow_delivered();
        }
    }

    /// Asks for the missing batches of the next blocks.
    fn want_next_batches(&mut self) {
        let next = self.chain.decided_from(self.delivered_round().next()).map(|block| &block.value);
        let missing = self.exchange.lanes.missing_next(next, self.order.tips());
        for (author, tip) in missing {
            let action = self.exchange.want(author, tip, author);
            self.outputs.extend(self.earlier_runs.check(&self.exchange, author, tip));
            self.perform(action);
        }
    }

    /// D9: forgets old rounds, and the records that nobody needs.
    pub(crate) fn release(&mut self) {
        let floor = Round(retention_floor(self.delivered_round().0, self.certified.0, self.config.retain_rounds));
        while self.floor < floor {
            self.floor = self.floor.next();
            if let Some(block) = self.chain.forget(self.floor) {
                self.exchange.release(&block.value.tips);
            }
        }
        self.exchange.release_wanted();
        self.release_records();
    }

    fn release_records(&mut self) {
        let Self { journal, chain, exchange, replica, .. } = self;
        let is_needed = |key: &RecordKey| match key {
            RecordKey::Started | RecordKey::State | RecordKey::Commit => true,
            RecordKey::Block(id) => chain.get(id).is_some(),
            RecordKey::Batch(author, tip) => exchange.lanes.get(*author, tip).is_some(),
            RecordKey::Silent => replica.silence() != Silence::Nowhere,
        };
        let rewritten = journal.records_to_rewrite(is_needed);
        let released = journal.release(is_needed);
        for key in rewritten {
            self.persist(key, None);
        }
        let Some(released) = released else { return };
        // The state on disk may still need them: its blocks, and its silence.
        match self.writing {
            Some(ticket) => self.waiting.entry(ticket).or_default().push(AfterDurable::Release(released)),
            None => self.outputs.push_back(Output::ReleaseBelow(released)),
        }
    }
}

/// Peers.
impl Racs {
    pub(crate) fn greet(&mut self, peer: ValidatorIndex) {
        self.send_progress(peer);
        if self.earlier_runs.needs_reports() {
            self.send(peer, &Message::AskView { run: self.run });
        }
        self.send_own_batch(Some(peer));
        let tip = self.completed[self.me.as_usize()];
        if tip.number > self.order.tip(self.me).number {
            self.send(peer, &Message::Completed { tip });
        }
        for output in self.replica.current() {
            match output {
                RulesOutput::SendAll(statement) => self.dispatch(vec![RulesOutput::Send(peer, statement)]),
                RulesOutput::Send(to, _) if to == peer => self.dispatch(vec![output]),
                _ => {}
            }
        }
    }

    /// Sends again all that others may have missed.
    fn say_again(&mut self) {
        let outputs = self.replica.current();
        self.dispatch(outputs);
    }

    pub(crate) fn send_progress(&mut self, to: ValidatorIndex) {
        self.send(to, &self.progress());
    }

    fn progress(&self) -> Message {
        let (round, view, delivered) = (self.committed_round(), self.view(), self.order.tip(self.me).number);
        Message::Progress { round, view, delivered, time: self.now }
    }

    pub(crate) fn note_clock(&mut self, from: ValidatorIndex, time: TimestampMs) {
        self.clocks.note(from, time, self.now);
    }

    /// Time that this validator proposes. `None` before it knows the clocks of a majority.
    pub(crate) fn proposed_time(&self) -> Option<TimestampMs> {
        self.clocks.time(&self.committee, self.now)
    }

    /// The peer with more blocks sends them, and the one in the later view says so.
    pub(crate) fn handle_progress(&mut self, from: ValidatorIndex, round: Round, view: View, delivered: u64) {
        let actions = self.exchange.handle_delivered(from, delivered);
        self.perform(actions);
        let committed = self.committed_round();
        if round < committed {
            let blocks = self.chain.decided_from(round.next()).take(blocks_at_once(self.committee.size()));
            let blocks: Vec<Block> = blocks.cloned().collect();
            if !blocks.is_empty() {
                self.send(from, &Message::Decided(blocks));
            }
        }
        if view < self.view() {
            self.help(from);
        }
        // Once between two timers: each of two validators may be ahead of the other in something that it cannot pass on.
        if (round > committed || view > self.view()) && self.answered.insert(from) {
            self.send_progress(from);
        }
    }

    pub(crate) fn handle_decided(&mut self, from: ValidatorIndex, blocks: Vec<Block>) {
        let is_full = blocks.len() == blocks_at_once(self.committee.size());
        let before = self.committed_round();
        let mut last = self.chain.committed();
        for block in blocks {
            let id = self.chain.id(&block);
            let fits = id.rank.round.0 <= self.delivered_round().0 + MAX_ROUNDS_AHEAD;
            if block.parent != last {
                continue;
            }
            if fits {
                self.add_block(&block);
                last = id;
            } else {
                self.more_from = Some(from);
            }
        }
        if self.chain.holds(&last) {
            let outputs = self.replica.learn(last);
            self.dispatch(outputs);
        }
        // A response that adds nothing must not ask for the next one.
        if is_full && self.committed_round() > before {
            self.send_progress(from);
        }
    }

    /// Asks for the blocks that had no room, once half of those before them are delivered.
    pub(crate) fn ask_for_more(&mut self) {
        if self.committed_round().0 <= self.delivered_round().0 + MAX_ROUNDS_AHEAD / 2
            && let Some(peer) = self.more_from.take()
        {
            self.send_progress(peer);
        }
    }

    pub(crate) fn handle_fetch_blocks(&mut self, from: ValidatorIndex, block: BlockId, above: Round) {
        let blocks = self.chain.ancestors(&block, above).into_iter().take(blocks_at_once(self.committee.size()));
        let blocks: Vec<Block> = blocks.cloned().collect();
        if !blocks.is_empty() {
            self.send(from, &Message::Blocks(blocks));
        }
    }

    pub(crate) fn handle_blocks(&mut self, from: ValidatorIndex, blocks: Vec<Block>) {
        let is_full = blocks.len() == blocks_at_once(self.committee.size());
        let before = self.chain.count();
        blocks.iter().for_each(|block| self.add_block(block));
        if is_full && self.chain.count() > before {
            self.ask_for_blocks();
        }
        if self.chain.count() == before {
            // The missing blocks are below: the log is ahead here.
            self.send_progress(from);
        }
    }

    pub(crate) fn handle_deadline(&mut self) {
        if self.expires_at().is_some_and(|at| at <= self.now) {
            self.expire();
        }
        if self.tail_at.is_some_and(|at| at <= self.now) {
            self.announce_completion();
        }
        if self.resend_at <= self.now {
            self.resend_at = TimestampMs(self.now.0.saturating_add(self.config.resend_ms));
            self.resend();
        }
        if self.status_at <= self.now {
            self.status_at = TimestampMs(self.now.0.saturating_add(self.config.status_ms));
            self.next_peer = (self.next_peer + 1) % self.committee.size();
            let peer = ValidatorIndex(u16::try_from(self.next_peer).unwrap_or_default());
            self.send_progress(peer);
        }
    }

    fn resend(&mut self) {
        self.helped.clear();
        self.answered.clear();
        let actions = self.exchange.ask_again();
        self.perform(actions);
        self.ask_for_blocks();
        self.repeat_own_batch();
        if self.is_stalled() {
            self.say_again();
            let progress = self.progress();
            self.broadcast(&progress);
        }
        // Blocks of others do not show that the leader knows of it.
        if self.completed[self.me.as_usize()].number > self.covered[self.me.as_usize()].number {
            self.announce_completion();
        }
        if self.earlier_runs.needs_reports() || self.proposed_time().is_none() {
            self.broadcast(&Message::AskView { run: self.run });
        }
        if let Silence::Through(through) = self.replica.silence() {
            self.broadcast(&Message::Leave { through });
        }
    }

    /// Something waits, and nothing moved since the last call.
    fn is_stalled(&mut self) -> bool {
        let mark = (self.replica.state().clone(), self.committed_round());
        let is_same = mark == self.mark;
        self.mark = mark;
        is_same && (self.is_pending() || self.replica.state().is_async)
    }

    /// A validator that lost its disk itself reports the highest view in which it may have taken part. It does not know the round.
    pub(crate) fn handle_ask_view(&mut self, from: ValidatorIndex, run: TimestampMs) {
        let silence = self.replica.silence();
        let Some(view) = silence.report(self.view()) else { return };
        let round = (silence == Silence::Nowhere).then(|| self.replica.highest_round());
        self.send(from, &Message::InView { run, view, round, time: self.now });
    }

    /// X14: the highest view in which a validator that lost its disk may have said anything.
    ///
    /// Nobody enters a view before a quorum completed the one before (A6), and a quorum of reports has one of these validators. So this
    /// validator was in no view above the next one after the highest report.
    pub(crate) fn handle_in_view(&mut self, from: ValidatorIndex, run: TimestampMs, view: View, round: Option<Round>) {
        if run != self.run {
            return;
        }
        if let Some(round) = round {
            // K5: a quorum voted for each committed block, so one report of a quorum is its round or a later one.
            self.earlier_runs.add(from, round, &self.committee);
        }
        if self.replica.silence() != Silence::Everywhere {
            return;
        }
        let Some(highest) = self.reports.add(from, view, &self.committee) else { return };
        let last = highest.next();
        self.replica.set_silence(Silence::Through(last));
        self.note("votes-regained", format!("after a lost disk, from view {} on", last.0 + 1));
        self.persist(RecordKey::Silent, None);
        self.broadcast(&Message::Leave { through: last });
    }

    /// X14: views end for a validator that lost its disk. Otherwise it would wait for the next bad time of the network.
    pub(crate) fn handle_leave(&mut self, through: View) {
        if self.view() > through {
            return;
        }
        if self.replica.is_following() {
            self.expire();
        } else {
            // The timeout may be lost, and on an idle chain nothing else sends it again.
            self.say_again();
        }
    }

    pub(crate) fn end_silence(&mut self) {
        if matches!(self.replica.silence(), Silence::Through(last) if self.view() > last) {
            self.replica.set_silence(Silence::Nowhere);
        }
    }
}
