//! Between ordering and following.

use super::{AHEAD_OF_CERTIFICATION, Mode, Pipeline};
use crate::blocks::{BlockBuilder, BlockPlan};
use crate::follow::Problem;
use crate::message::{FollowedBlock, Request, Response};
use crate::words::{Fault, NodeKey, Output, Plan};
use corniche_certify::VerifiedCertificate;
use corniche_engine::{Input as EngineInput, Ticket, TraceEvent};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex};

/// A validator that lacks certified blocks and gets none from its engine for this long follows.
const PATIENCE_MS: u64 = 1_000;

impl Pipeline {
    /// Decides between ordering and following, and asks for blocks.
    pub(super) fn follow(&mut self, now: TimestampMs) {
        let lag = self.follower.target().0.saturating_sub(self.appended.0);
        // While ordered blocks are on their way through execution and disk, following would only start them over.
        let at_rest = self.is_idle() || self.is_blocked();
        if lag == 0 || !at_rest {
            self.stuck_since = None;
        } else {
            self.stuck_since.get_or_insert(now);
        }
        let patience_over = self.patience_ends().is_some_and(|ends| now >= ends);
        if self.mode == Mode::Ordering && at_rest && (lag > AHEAD_OF_CERTIFICATION || patience_over) {
            self.start_following();
        }
        if self.mode != Mode::Following {
            return;
        }
        let idle = self.is_idle();
        if idle && lag == 0 && self.engine_factory.is_some() {
            self.mode = Mode::Rejoining;
            self.out.push_back(Output::ReadSafetyLog);
        } else if idle && lag > 0 {
            let from = self.planned.next();
            if let Some((peer, offset)) = self.follower.ask(now, from) {
                self.out.push_back(Output::Request { to: peer, request: Request::Blocks { from, offset } });
            }
        }
    }

    /// Ordered blocks wait, and none is on its way: the first needs a certificate that this node does not have. Others dropped
    /// our shares or we dropped theirs, which nobody sends again, so only a later certificate and the blocks below it help.
    pub(super) fn is_blocked(&self) -> bool {
        let waits = self.backlog.front().is_some_and(|plan| plan.height > self.may_execute_through());
        waits && self.appended == self.executing
    }

    /// When an ordering validator gives up waiting for its engine.
    pub(super) fn patience_ends(&self) -> Option<TimestampMs> {
        let since = self.stuck_since.filter(|_| self.mode == Mode::Ordering)?;
        Some(TimestampMs(since.0 + PATIENCE_MS))
    }

    pub(super) fn start_following(&mut self) {
        self.mode = Mode::Following;
        self.engine = None;
        self.builder = self.builder_after_head();
        self.wanted = None;
        // What the engine held may be lost; proposed twice, the second is skipped. Meanwhile others are told of it.
        self.pool.requeue_all();
        self.releases.clear();
        // What execution has taken already is finished; the rest comes again with the certified blocks.
        self.backlog.clear();
        self.planned = self.executing;
        let detail = format!("at {}, others certified {}", self.appended, self.follower.target());
        self.out.push_back(Output::Trace(TraceEvent::note("following", detail)));
    }

    /// Continues after the newest appended block.
    fn builder_after_head(&self) -> BlockBuilder {
        let (head, resume) = (self.appended_ordering.as_ref(), self.appended_resume.clone());
        BlockBuilder::new(&self.genesis, self.appended, head, resume).obeying_words(self.dev.is_some())
    }

    pub(super) fn response(&mut self, now: TimestampMs, from: NodeKey, response: Option<Response>) {
        let Some(response) = response else { return self.follower.failed(now, &from) };
        if self.mode != Mode::Following || self.planned != self.appended {
            return self.follower.late(now, &from, &response);
        }
        let (next, certificates) = ((self.planned.next(), self.executed_hash), &self.certificates);
        match self.follower.receive(now, from, response, next, |certificate| certificates.verify(certificate)) {
            Ok(None) | Err(Problem::Late) => {}
            Ok(Some((blocks, certificate))) => match self.other_rules(&blocks) {
                Some(reason) => self.halt(reason, None),
                None => self.follow_blocks(blocks, certificate),
            },
            Err(problem) => {
                self.follower.failed(now, &from);
                if let Problem::Fault(fault) = problem {
                    self.out.push_back(Output::Penalise { peer: from, fault: Fault(fault) });
                }
            }
        }
    }

    /// A quorum certified a block under rules that our genesis does not name for its height: executing it would only diverge.
    fn other_rules(&self, blocks: &[FollowedBlock]) -> Option<String> {
        let mut blocks = blocks.iter().map(|followed| &followed.block);
        let block = blocks.find(|block| block.ordering.protocol_version != self.genesis.rules_at(block.height()).version)?;
        let (height, certified) = (block.height(), block.ordering.protocol_version);
        let ours = self.genesis.rules_at(height).version;
        Some(format!(
            "block {height}: certified under protocol version {certified}, got {ours} from the genesis; correct \"upgrades\" in the \
             genesis file, or install a build that knows version {certified}"
        ))
    }

    pub(super) fn follow_blocks(&mut self, blocks: Vec<FollowedBlock>, certificate: VerifiedCertificate) {
        self.followed_certificates.insert(certificate.height, certificate);
        for followed in blocks {
            self.planned = self.planned.next();
            self.expected.insert(self.planned, followed.block.hash());
            let block = BlockPlan::of_block(&followed.block, followed.resume);
            self.backlog.push(Plan { height: self.planned, block });
        }
    }

    /// Builds the engine anew where the last block ends. Its records keep us from proposing twice in one round.
    pub(super) fn rejoin(&mut self, now: TimestampMs, records: Vec<(Ticket, Bytes)>) {
        let Some(build) = self.engine_factory.as_ref().filter(|_| self.mode == Mode::Rejoining) else { return };
        let resume = self.appended_resume.clone();
        self.builder = self.builder_after_head();
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
