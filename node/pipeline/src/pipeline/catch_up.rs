//! Between ordering and following.

use super::{AHEAD_OF_CERTIFICATION, Mode, Pipeline};
use crate::blocks::{BlockBuilder, BlockPlan};
use crate::follow::check_response;
use crate::message::{FollowedBlock, Request, Response};
use crate::words::{Fault, NodeKey, Output, Plan};
use corniche_engine::{Input as EngineInput, Ticket, TraceEvent};
use corniche_types::{Bytes, Certificate, TimestampMs, ValidatorIndex};

/// A validator that lacks certified blocks and gets none from its engine for this long follows.
const PATIENCE_MS: u64 = 1_000;

impl Pipeline {
    /// Decides between ordering and following, and asks for blocks.
    pub(super) fn follow(&mut self, now: TimestampMs) {
        let lag = self.follower.target().0.saturating_sub(self.appended.0);
        // While ordered blocks are on their way through execution and disk, following would only start them over.
        let idle = self.is_idle();
        if lag == 0 || !idle {
            self.stuck_since = None;
        } else {
            self.stuck_since.get_or_insert(now);
        }
        let patience_over = self.patience_ends().is_some_and(|ends| now >= ends);
        if self.mode == Mode::Ordering && idle && (lag > AHEAD_OF_CERTIFICATION || patience_over) {
            self.start_following();
        }
        if self.mode != Mode::Following {
            return;
        }
        if idle && lag == 0 && self.engine_factory.is_some() {
            self.mode = Mode::Rejoining;
            self.out.push_back(Output::ReadSafetyLog);
        } else if idle && lag > 0 {
            let from = self.planned.next();
            if let Some(peer) = self.follower.ask(now, from) {
                self.out.push_back(Output::Request { to: peer, request: Request::Blocks { from } });
            }
        }
    }

    /// When an ordering validator gives up waiting for its engine.
    pub(super) fn patience_ends(&self) -> Option<TimestampMs> {
        let since = self.stuck_since.filter(|_| self.mode == Mode::Ordering)?;
        Some(TimestampMs(since.0 + PATIENCE_MS))
    }

    pub(super) fn start_following(&mut self) {
        self.mode = Mode::Following;
        self.engine = None;
        self.wanted = None;
        // What the engine held may be lost; proposed twice, the second is skipped. Meanwhile others are told of it.
        self.pool.requeue_all();
        self.releases.clear();
        // What execution has taken already is finished; the rest comes again with the certified blocks.
        self.plans.clear();
        self.planned = self.executing;
        let detail = format!("at {}, others certified {}", self.appended, self.follower.target());
        self.out.push_back(Output::Trace(TraceEvent::note("following", detail)));
    }

    pub(super) fn response(&mut self, now: TimestampMs, from: NodeKey, response: Option<Response>) {
        let first = |response: &Response| response.blocks.first().map(|followed| followed.block.height());
        let answer = response.and_then(|response| Some((first(&response)?, response)));
        let Some((first, response)) = answer else { return self.follower.failed(now, &from) };
        let next = self.planned.next();
        if self.mode != Mode::Following || self.planned != self.appended || first != next {
            // Several are asked for the same blocks, and another was quicker.
            return self.follower.late(now, &from, first);
        }
        match check_response(response, next, self.executed_hash, |certificate| self.certifier.is_valid(certificate)) {
            Ok((blocks, certificate)) => {
                self.follower.served(&from);
                self.follow_blocks(blocks, certificate);
            }
            Err(problem) => {
                self.follower.failed(now, &from);
                self.out.push_back(Output::Penalise { peer: from, fault: Fault(problem) });
            }
        }
    }

    pub(super) fn follow_blocks(&mut self, blocks: Vec<FollowedBlock>, certificate: Certificate) {
        self.followed_certificates.insert(certificate.height, certificate);
        for followed in blocks {
            self.planned = self.planned.next();
            self.expected.insert(self.planned, followed.block.hash());
            let block = BlockPlan::of_block(&followed.block, followed.resume);
            self.plans.push_back(Plan { height: self.planned, block });
        }
    }

    /// Builds the engine anew where the last block ends. Its records keep us from proposing twice in one round.
    pub(super) fn rejoin(&mut self, now: TimestampMs, records: Vec<(Ticket, Bytes)>) {
        let Some(build) = self.engine_factory.as_ref().filter(|_| self.mode == Mode::Rejoining) else { return };
        let resume = self.appended_resume.clone();
        self.builder =
            BlockBuilder::new(&self.genesis, self.appended_ordering.as_ref(), resume.clone()).obeying_words(self.dev.is_some());
        self.engine = Some(build(records, resume, now));
        self.mode = Mode::Ordering;
        self.stuck_since = None;
        let connected: Vec<ValidatorIndex> = self.peers.values().filter_map(|validator| *validator).collect();
        for validator in connected {
            self.engine_input(now, EngineInput::PeerUp(validator));
        }
        let detail = format!("after height {}, commit {}", self.appended, self.appended_resume.index);
        self.out.push_back(Output::Trace(TraceEvent::note("rejoined", detail)));
    }
}
