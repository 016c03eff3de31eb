//! From block plans to certified blocks.

use super::{AHEAD_OF_CERTIFICATION, Mode, Ordering, Pipeline};
use crate::execution::Executed;
use crate::io::{Halted, Output, Plan};
use crate::message::PeerMessage;
use corniche_certify::Output as CertifierOutput;
use corniche_engine::{Input as EngineInput, Offence, Recipients};
use corniche_types::{B256, Certificate, Height, TimestampMs};

/// Number of empty commits after which the resume point is stored without a block.
const PROGRESS_COMMITS: u64 = 64;
/// Minimum interval at which validators send each other their newest certificate, so that lagging ones learn
/// it.
const ANNOUNCE_MS: u64 = 1_000;
/// Time without a certificate after which validators send their shares again; [`ANNOUNCE_MS`] if they are
/// blocked by it.
const UNCERTIFIED_MS: u64 = 2_000;

impl Pipeline {
    /// Cuts blocks from the ordered commits, while the backlog has room.
    pub(super) fn plan_blocks(&mut self) {
        while let Some(ordering) = self.mode.ordering_mut().filter(|_| !self.backlog.is_full()) {
            let Some(block) = ordering.builder.poll() else { return };
            self.planned = self.planned.next();
            self.backlog.push(Plan { height: self.planned, block });
        }
    }

    pub(super) fn dispatch_plans(&mut self) {
        let through = self.may_execute_through();
        while let Some(plan) = self.backlog.start(|height| height <= through) {
            self.executing = plan.height;
            self.out.push_back(Output::Execute(plan));
        }
        // Taking a plan makes room.
        self.plan_blocks();
    }

    /// Highest block whose ancestor [`AHEAD_OF_CERTIFICATION`] below it is certified.
    pub(super) fn may_execute_through(&self) -> Height {
        let followed = self.followed_certificates.keys().next_back().copied().unwrap_or_default();
        Height(self.certified.max(followed).0 + AHEAD_OF_CERTIFICATION)
    }

    pub(super) fn executed(&mut self, executed: Executed) {
        let height = executed.committed.block.height();
        assert_eq!(height, self.executed.next(), "invariant: execution answers in order");
        let expected = self.mode.following_mut().and_then(|following| following.expected.remove(&height));
        if let Some(expected) = expected.filter(|expected| *expected != executed.hash) {
            let certificate = self.followed_certificates.pop_last().filter(|(at, _)| *at >= height);
            return match certificate {
                Some((_, certificate)) => self.diverged(height, executed.hash, expected, certificate.into_inner()),
                None => self.diverged_from_signers(height, executed.hash, expected),
            };
        }
        self.executed = height;
        self.executed_hash = executed.hash;
        let committed = executed.committed;
        // Updated first, so that clients that use the new base fee are not rejected against the old one.
        self.base_fee = committed.block.header.base_fee_per_gas.unwrap_or(1);
        if let Some(extension) = &mut self.extension {
            extension.executed(&committed.block.ordered);
        }
        self.appending_info.insert(height, (executed.hash, executed.returned));
        self.appending.push_back(committed.clone());
        self.out.push_back(Output::Append(committed));
    }

    pub(super) fn appended(&mut self, now: TimestampMs, height: Height) {
        while self.appending.front().is_some_and(|block| block.block.height() <= height) {
            let committed = self.appending.pop_front().expect("front was there");
            let height = committed.block.height();
            self.appended = height;
            self.share_check_at = None;
            if let Some(ordering) = self.mode.ordering_mut() {
                ordering.stuck_since = None;
            }
            // The last block of an epoch resumes in the next one, and its engine may have to be built again (E14).
            if committed.resume.epoch == self.epoch.epoch {
                self.uncertified_commits.insert(height, committed.resume.index);
                self.progress = self.progress.max(committed.resume.index);
                self.resume = committed.resume.clone();
            }
            let (hash, returned) = self.appending_info.remove(&height).unwrap_or_default();
            self.update_reputation(now, &committed.block, &committed.receipts);
            self.next_rotation(now, &committed.block.header);
            let executed: Vec<_> =
                committed.receipts.iter().map(|receipt| (receipt.transaction_hash, receipt.sender)).collect();
            let own = self.own;
            let returned: Vec<_> =
                returned.into_iter().filter(|(author, _)| Some(*author) == own).map(|(_, transaction)| transaction).collect();
            let executed = self.with_changed_accounts(executed, &committed.block.ordered);
            self.pool.on_block(&self.view(), self.base_fee(), &executed, &returned);
            if let Some(extension) = &mut self.extension {
                extension.appended(&committed.block.ordered, hash);
            }
            self.certifier.executed(height, hash);
            if let Some(certificate) = self.followed_certificates.remove(&height) {
                self.certifier.certificate(certificate);
            }
            if let Some(certificate) = self.early_certificate.take_if(|early| early.height <= height) {
                self.certifier.certificate(certificate);
            }
            self.appended_ordering = Some(committed.block.ordering.clone());
        }
        self.forget_notices();
        self.forget_evidence();
        self.report_seats();
        self.warn_of_upgrade();
        self.backlog.appended(self.appended);
        self.state.prune_below(Height(self.appended.0.saturating_sub(self.recent_states)));
        self.release();
    }

    pub(super) fn release(&mut self) {
        let durable = self.progress;
        let Some(Ordering { releases, .. }) = self.mode.ordering_mut() else { return };
        while let Some((_, ticket)) = releases.pop_front_if(|(needed_until, _)| *needed_until <= durable) {
            self.out.push_back(Output::ReleaseBelow(self.history.stored(ticket)));
        }
    }

    /// Stores the resume point after many commits without a block. Appends are in order, so it is durable
    /// before later ones. Not where epochs end: at the end an engine may be built at the resume point of the block before, for
    /// which it needs its records. There idle blocks are enough.
    pub(super) fn store_progress(&mut self) {
        if self.epoch.end(&self.genesis).is_some() {
            return;
        }
        let Some(Ordering { builder, .. }) = self.mode.ordering() else { return };
        let complete = builder.complete().clone();
        let quiet = !builder.is_open() && self.is_idle();
        if quiet && complete.index.0 >= self.progress.0 + PROGRESS_COMMITS {
            self.progress = complete.index;
            self.resume = complete.clone();
            self.out.push_back(Output::AppendProgress(complete));
            self.release();
        }
    }

    pub(super) fn drain_certifier(&mut self, now: TimestampMs) {
        while let Some(output) = self.certifier.poll() {
            match output {
                CertifierOutput::Broadcast(share) => {
                    self.send_to_members(Recipients::All, PeerMessage::CertificateShare(share));
                }
                CertifierOutput::Certified(certificate) => self.certified(now, certificate),
                CertifierOutput::Diverged { ours, certificate } => {
                    self.diverged(certificate.height, ours, certificate.header_hash, certificate);
                }
                CertifierOutput::Contradicted { validator, shares, proof } => {
                    self.keep_evidence(proof);
                    let (offence, evidence) = (Offence::Equivocation, shares.into());
                    self.out.push_back(Output::Accuse { validator, offence, evidence });
                }
                CertifierOutput::Accuse { validator, evidence } => {
                    let offence = Offence::BadSignature;
                    self.out.push_back(Output::Accuse { validator, offence, evidence: vec![evidence] });
                }
            }
        }
    }

    pub(super) fn certified(&mut self, now: TimestampMs, certificate: Certificate) {
        if certificate.height <= self.certified {
            return;
        }
        self.certified = certificate.height;
        let uncertified = self.uncertified_commits.split_off(&certificate.height.next());
        let covered = std::mem::replace(&mut self.uncertified_commits, uncertified);
        if let Some(commit) = covered.into_values().next_back() {
            self.engine_input(now, EngineInput::Certified(commit));
        }
        self.newest_certificate = Some(certificate.clone());
        self.shares_at = None;
        self.announce_at.get_or_insert(TimestampMs(now.0 + ANNOUNCE_MS));
        // Validators make their own from the shares; followers get it at once.
        self.send_to_peers(|validator| validator.is_none(), PeerMessage::Certificate(certificate.clone()));
        self.out.push_back(Output::AppendCertificate(certificate));
    }

    pub(super) fn announce(&mut self, now: TimestampMs) {
        self.resend_shares(now);
        if self.is_blocked() || self.own.is_some() && !self.earlier_validators().is_empty() {
            self.announce_at.get_or_insert(TimestampMs(now.0 + ANNOUNCE_MS));
        }
        if self.announce_at.is_none_or(|at| now < at) {
            return;
        }
        self.announce_at = None;
        if let Some(certificate) = self.newest_certificate.clone() {
            self.send_to_validators(Recipients::All, PeerMessage::Certificate(certificate));
        }
        let earlier = self.earlier_validators();
        if !earlier.is_empty() {
            self.tell_epoch(&earlier, true);
        }
    }

    /// Shares may be lost. If all validators wait for each other's shares, one must begin. A lagging one
    /// needs the shares of a height that several have executed, which may be below our newest. A certificate
    /// restarts the timer, so this costs nothing while certificates arrive.
    fn resend_shares(&mut self, now: TimestampMs) {
        if self.own.is_none() || self.appended <= self.certified {
            self.shares_at = None;
            return;
        }
        let wait = if self.is_blocked() { ANNOUNCE_MS } else { UNCERTIFIED_MS };
        let latest = TimestampMs(now.0 + wait);
        let at = self.shares_at.map_or(latest, |at| at.min(latest));
        self.shares_at = Some(at);
        if now < at {
            return;
        }
        self.shares_at = Some(latest);
        for share in self.certifier.own_shares() {
            self.send_to_members(Recipients::All, PeerMessage::CertificateShare(share));
        }
    }

    fn diverged(&mut self, height: Height, ours: B256, certified: B256, certificate: Certificate) {
        self.halt(format!("divergence at height {height}: certified header {certified}, ours {ours}"), Some(certificate));
    }

    /// Handles a different result of an honest validator.
    fn diverged_from_signers(&mut self, height: Height, ours: B256, theirs: B256) {
        let weak = self.mode.following_mut().and_then(|following| following.weak_certificate.take());
        let weak = weak.expect("invariant: followed blocks come with a proof");
        let signers = weak.signers(self.committee.size()).len();
        let reason = format!("divergence at height {height}: {signers} validators signed header {theirs}, ours {ours}");
        self.halt(reason, Some(weak.into_evidence()));
    }

    pub(super) fn halt(&mut self, halted: impl Into<Halted>, certificate: Option<Certificate>) {
        self.mode = Mode::Halted;
        self.out.push_back(Output::Halt { halted: halted.into(), certificate });
    }
}
