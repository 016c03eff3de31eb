//! Switches between ordering and following.

use super::{AHEAD_OF_CERTIFICATION, Following, Mode, Peer, Pipeline};
use crate::blocks::{BlockBuilder, BlockPlan, KNOWN};
use crate::follow::{ExpectedBlock, MissingBlocks, Proof, ResponseError};
use crate::io::{Fault, NodeKey, Output, Plan};
use crate::message::{FollowedBlock, Response};
use crate::safety::History;
use corniche_certify::WeakCertificate;
use corniche_engine::{Ticket, TraceEvent};
use corniche_types::{Block, Bytes, Certificate, Height, TimestampMs};

/// Timeout after which a validator follows: it lacks blocks that are certified, or that f + 1 others
/// executed, and its engine delivers none.
const ENGINE_TIMEOUT_MS: u64 = 1_000;

impl Pipeline {
    /// Decides between ordering and following, and requests blocks.
    pub(super) fn follow(&mut self, now: TimestampMs) {
        if self.upgrade.is_stopping() {
            return;
        }
        self.note_later_epochs(now);
        let lag = self.follower.target().0.saturating_sub(self.appended.0);
        let lacks_blocks = lag > 0 || self.follower.has_claimants();
        // While ordered blocks are being executed or appended, following would only start them over.
        let is_settled = self.is_idle() || self.is_blocked();
        if let Some(ordering) = self.mode.ordering_mut() {
            let is_stuck = lacks_blocks && is_settled;
            ordering.stuck_since = is_stuck.then(|| ordering.stuck_since.unwrap_or(now));
        }
        let engine_timed_out = self.engine_timeout().is_some_and(|ends| now >= ends);
        if self.mode.is_ordering() && is_settled && (lag > AHEAD_OF_CERTIFICATION || engine_timed_out) {
            self.start_following(self.follower.target(), Following::default());
        }
        self.check_shares(now, is_settled);
        if !self.mode.is_following() || !self.is_idle() {
            return;
        }
        match self.missing() {
            Some(missing) => {
                if let Some((to, request)) = self.follower.next_request(now, missing) {
                    self.out.push_back(Output::Request { to, request });
                }
            }
            // At the end of the epoch, too, unless the next one begins at once: others may need our engine to get there (E8).
            None if self.engine_factory.is_some()
                && self.own.is_some()
                && self.may_vote
                && !(self.is_at_end() && self.certified >= self.appended) =>
            {
                self.mode = Mode::Rejoining;
                self.out.push_back(Output::ReadSafetyLog);
            }
            None => {}
        }
    }

    /// Blocks that a follower lacks. A weak certificate has priority: it exists because nothing moved, and an
    /// honest peer has its blocks. A certificate may be known only to a faulty validator that does not serve
    /// the blocks.
    pub(super) fn missing(&self) -> Option<MissingBlocks> {
        if self.is_at_end() {
            // Only the certificate of our newest block is missing, unless it is being stored. It comes with the block.
            let is_missing = self.certified < self.appended && self.follower.has_claimants();
            return is_missing.then_some(MissingBlocks { from: self.appended, through: None });
        }
        let from = self.planned.next();
        let weak = self.weak_certificate().map(WeakCertificate::height);
        let through = weak.filter(|through| *through >= from && self.follower.has_signer(*through));
        let is_known = self.follower.target() >= from || self.follower.has_claimants();
        (through.is_some() || is_known).then_some(MissingBlocks { from, through })
    }

    /// The next block, if this node follows and no peer has it any more. Then only a snapshot helps.
    pub fn unavailable_block(&self) -> Option<Height> {
        let missing = self.missing().filter(|missing| self.mode.is_following() && missing.through.is_none())?;
        self.follower.is_unavailable(missing.from).then_some(missing.from)
    }

    /// Decides to follow uncertified blocks: f + 1 others executed them, and neither this node's engine nor a
    /// certificate delivers them. Without this node the others may be too few to certify, and may have
    /// forgotten the data that its engine lacks (decision 0019).
    fn check_shares(&mut self, now: TimestampMs, is_settled: bool) {
        let may_follow = self.own.is_some() && (self.mode.is_ordering() || self.mode.is_following());
        if !(is_settled && may_follow && self.certifier.newest_share().is_some()) {
            self.share_check_at = None;
            return;
        }
        let share_check_at = *self.share_check_at.get_or_insert(TimestampMs(now.0 + ENGINE_TIMEOUT_MS));
        if now < share_check_at {
            return;
        }
        self.share_check_at = Some(TimestampMs(now.0 + ENGINE_TIMEOUT_MS));
        // A weak certificate that is being followed stays, because responses may be on their way; meanwhile
        // more validators may have signed it. Beyond the height that may be executed, certificates are needed
        // first.
        let followed = self.weak_certificate().map(WeakCertificate::height).filter(|height| *height > self.appended);
        let through = followed.unwrap_or_else(|| self.may_execute_through());
        let Some(weak) = self.certifier.weak_certificate(through) else { return };
        let (height, signers) = (weak.height(), weak.signers(self.committee.size()));
        for (peer, Peer { validator, .. }) in &self.peers {
            if validator.is_some_and(|validator| signers.contains(&validator)) {
                self.follower.record_signer(peer, height);
            }
        }
        match self.mode.following_mut() {
            Some(following) => following.weak_certificate = Some(weak),
            None => self.start_following(height, Following { weak_certificate: Some(weak), ..Following::default() }),
        }
    }

    fn weak_certificate(&self) -> Option<&WeakCertificate> {
        self.mode.following()?.weak_certificate.as_ref()
    }

    /// True if ordered blocks wait and none is in progress: the first one needs a certificate that this node
    /// lacks. Shares were dropped on one side and are not sent again. So only a later certificate with the
    /// blocks below it helps.
    pub(super) fn is_blocked(&self) -> bool {
        let waits = self.backlog.front().is_some_and(|plan| plan.height > self.may_execute_through());
        waits && self.appended == self.executing
    }

    /// Time at which an ordering validator stops waiting for its engine.
    pub(super) fn engine_timeout(&self) -> Option<TimestampMs> {
        let since = self.mode.ordering()?.stuck_since?;
        Some(TimestampMs(since.0 + ENGINE_TIMEOUT_MS))
    }

    fn start_following(&mut self, target: Height, following: Following) {
        self.mode = Mode::Following(following);
        // Transactions that the engine held may be lost; if they are proposed twice, the second is skipped.
        // Meanwhile they are forwarded to others.
        self.pool.requeue_all();
        // Blocks already given to execution are finished; the rest comes again with the certified blocks.
        self.backlog.clear();
        self.planned = self.executing;
        let certified = self.follower.target();
        let detail = format!("at {}, others executed {target}, certified {certified}", self.appended);
        self.out.push_back(Output::Trace(TraceEvent::note("following", detail)));
    }

    /// Block builder that continues after the newest appended block.
    pub(super) fn builder_after_head(&self) -> BlockBuilder {
        let (head, resume) = (self.appended_ordering.as_ref(), self.resume.clone());
        let builder = BlockBuilder::of_build(&self.genesis, self.known, &self.epoch, self.appended, head, resume);
        let builder = builder.with_directives(self.directives());
        if self.is_at_end() { builder.ended() } else { builder }
    }

    pub(super) fn response(&mut self, now: TimestampMs, from: NodeKey, response: Option<Response>) {
        let Some(response) = response else { return self.follower.record_failure(now, &from) };
        if !self.mode.is_following() || self.planned != self.appended {
            return self.follower.record_late(now, &from, &response);
        }
        if self.is_at_end() {
            return self.receive_end(now, from, response);
        }
        let (height, parent, weak) = (
            self.planned.next(),
            self.executed_hash,
            self.mode.following().and_then(|following| following.weak_certificate.as_ref()),
        );
        let rules = self.epoch.rules(&self.genesis, height, self.known).expect(KNOWN);
        let (next, certificates) = (ExpectedBlock { height, parent, weak, rules }, &self.certificates);
        match self.follower.receive(now, from, response, next, |certificate| certificates.verify(certificate)) {
            Ok(None) | Err(ResponseError::Late) => {}
            Ok(Some((blocks, proof))) => match self.rules_mismatch(&blocks) {
                Some(reason) => self.halt(reason, None),
                None => self.follow_blocks(blocks, proof),
            },
            Err(problem) => {
                self.follower.record_failure(now, &from);
                if let ResponseError::Fault(fault) = problem {
                    self.out.push_back(Output::Penalise { peer: from, fault: Fault(fault) });
                }
            }
        }
    }

    /// Takes the certificate of the epoch's last block, which is our newest, from a response with that block.
    fn receive_end(&mut self, now: TimestampMs, from: NodeKey, response: Response) {
        let is_for_head = |certificate: &Certificate| certificate.height == self.appended;
        let certificate = response.certificate.clone().filter(is_for_head);
        match certificate.and_then(|certificate| self.certificates.verify(certificate)) {
            Some(certificate) => {
                self.follower.record_late(now, &from, &response);
                self.certifier.certificate(certificate);
            }
            None => self.follower.record_failure(now, &from),
        }
    }

    /// Detects a block certified under other rules than it has here: executing it would diverge.
    fn rules_mismatch(&self, blocks: &[FollowedBlock]) -> Option<String> {
        let expected = |block: &Block| self.genesis.version_at(block.height(), self.epoch.protocol_version);
        let mut blocks = blocks.iter().map(|followed| &followed.block);
        let block = blocks.find(|block| block.ordering.protocol_version != expected(block))?;
        let (height, certified, ours) = (block.height(), block.ordering.protocol_version, expected(block));
        if self.genesis.epochs().is_some() {
            let epoch = self.epoch.epoch;
            return Some(format!(
                "block {height}: certified under protocol version {certified}, got {ours} from the last block before epoch {epoch}; \
                 report it: validators certified a block that breaks the rules"
            ));
        }
        Some(format!(
            "block {height}: certified under protocol version {certified}, got {ours} from the genesis; correct \"upgrades\" in the \
             genesis file, or install a build that knows version {certified}"
        ))
    }

    fn follow_blocks(&mut self, blocks: Vec<FollowedBlock>, proof: Proof) {
        match proof {
            Proof::Certificate(certificate) => drop(self.followed_certificates.insert(certificate.height, certificate)),
            // The weak certificate covers them until the last one is executed; only then is the next one
            // searched.
            Proof::Weak => {}
        }
        for followed in blocks {
            self.planned = self.planned.next();
            if let Some(following) = self.mode.following_mut() {
                following.expected.insert(self.planned, followed.block.hash());
            }
            let block = BlockPlan::from_block(&followed.block, followed.resume);
            self.backlog.push(Plan { height: self.planned, block });
        }
    }

    /// Builds the engine anew at the resume point of the last block. Its records prevent a second proposal in
    /// one round.
    pub(super) fn rejoin(&mut self, now: TimestampMs, records: Vec<(Ticket, Bytes)>) {
        if !matches!(self.mode, Mode::Rejoining) {
            return;
        }
        let (history, records) = History::read(self.epoch.epoch, &records, self.history.has_never_signed());
        self.history = history;
        self.start_ordering(now, records);
        let detail = format!("after height {}, commit {}", self.appended, self.resume.index);
        self.out.push_back(Output::Trace(TraceEvent::note("rejoined", detail)));
    }
}
