//! View changes and failover of the sequencer (V1–V8, E1–E5, §5.5 and appendix B.1).

use crate::{
    engine::{AfterDurable, Neobft, first_number},
    keys::Signature,
    message::{Confirmed, Message, Slot, Statement, View, ViewCertificate, ViewChange, Votes},
    record::Record,
    rules::{self, Invalid, Merged, is_quorum, votes_for},
};
use corniche_engine::Output;
use corniche_types::ValidatorIndex;

/// Reasons to suspect the sequencer of the current epoch that last (E1). Undelivered requests are known elsewhere.
#[derive(Default)]
pub(crate) struct SequencerFaults {
    /// Two authentic packets had one number.
    pub equivocates: bool,
    /// A number too far ahead, until the log is near it.
    pub jump: Option<u64>,
    /// Too many packets were lost in the last window.
    pub loses: bool,
}

/// The longest wait until logs are sent again is 2 to this power times `query_ms`.
const MAX_DOUBLINGS: u32 = 8;

impl Neobft {
    /// E1: the sequencer seems to be faulty.
    pub(crate) fn suspect_sequencer(&mut self, reason: String) {
        self.suspect(self.view().next_epoch(), reason);
    }

    fn suspect_leader(&mut self, reason: String) {
        self.suspect(self.view().next_leader(), reason);
    }

    /// V1: says that this replica would move to a view. It moves when members with F + 1 votes would.
    fn suspect(&mut self, view: View, reason: String) {
        let known = self.suspects.get(&self.me).copied().unwrap_or_default();
        if view > known {
            self.note("suspect", format!("{view}: {reason}"));
            self.suspects.insert(self.me, view);
            self.broadcast(&Message::Suspect { view });
            self.join();
        }
    }

    pub(crate) fn handle_suspect(&mut self, from: ValidatorIndex, view: View) {
        if view == self.view() && self.is_normal() {
            // The sender takes its suspicion back.
            self.suspects.remove(&from);
            return;
        }
        if view <= self.view() {
            // The sender missed this view.
            self.send_progress(from, false);
            return;
        }
        let known = self.suspects.entry(from).or_insert(view);
        *known = view.max(*known);
        self.join();
    }

    /// The leader made progress after all.
    pub(crate) fn trust_leader(&mut self) {
        let view = self.view();
        if self.is_normal() && self.suspects.get(&self.me) == Some(&view.next_leader()) {
            self.suspects.remove(&self.me);
            self.broadcast(&Message::Suspect { view });
        }
    }

    /// The reasons to suspect the sequencer are gone: this replica caught up after a jump, or the request came.
    fn trust_sequencer(&mut self) {
        let reached = self.receiver.highest().max(self.receiver.next()).saturating_add(self.config.max_jump);
        self.faults.jump.take_if(|seq| *seq <= reached);
        let SequencerFaults { equivocates, jump, loses } = self.faults;
        let view = self.view();
        let suspects = self.suspects.get(&self.me) == Some(&view.next_epoch());
        if self.is_normal() && suspects && !equivocates && jump.is_none() && !loses {
            self.suspects.remove(&self.me);
            self.broadcast(&Message::Suspect { view });
        }
    }

    /// V1: joins the highest view that members with F + 1 votes would move to.
    fn join(&mut self) {
        if self.is_forgetful() {
            // S5: it stays in its view, in silence, until the next one has a certificate.
            return;
        }
        let suspects = self.suspects.iter().map(|(member, view)| (*member, *view));
        let Some(view) = self.committee.weights().reached(suspects, self.committee.validity()) else { return };
        let current = self.promises.target.unwrap_or_else(|| self.view());
        if view > current {
            self.leave(view);
        }
    }

    /// V2: stops normal processing. The promise is durable before anything about the new view is sent.
    fn leave(&mut self, target: View) {
        if !self.is_normal() || self.entered_at == self.log.finalized() {
            self.failed_views = self.failed_views.saturating_add(1);
        }
        self.promises.leave(target);
        self.has_left = false;
        (self.changing_since, self.joined_since) = (self.now, self.now);
        self.logs_sent = 0;
        self.start = None;
        self.changes.retain(|_, change| change.target >= target);
        self.relayed.clear();
        if self.goal.as_ref().is_some_and(|goal| goal.slot <= self.log.finalized()) {
            self.goal = None;
        }
        if self.suspects.get(&self.me).is_none_or(|view| *view < target) {
            self.suspects.insert(self.me, target);
            self.broadcast(&Message::Suspect { view: target });
        }
        self.note("view-change", format!("from {} to {target}", self.view()));
        self.persist(&Record::Leaving(target), Some(AfterDurable::Left(target)));
    }

    /// After a restart in the middle of a view change.
    pub(crate) fn resume_view_change(&mut self) {
        if let Some(target) = self.promises.target {
            self.suspects.insert(self.me, target);
            self.handle_left(target);
        }
    }

    pub(crate) fn handle_left(&mut self, target: View) {
        if self.promises.target == Some(target) {
            self.has_left = true;
            self.send_view_change(target);
        }
    }

    fn send_view_change(&mut self, target: View) {
        let Some(change) = self.view_change(target) else { return };
        let leader = rules::leader(target, &self.committee);
        if leader == self.me {
            self.changes.insert(self.me, change);
        } else {
            self.send(leader, Message::ViewChange(Box::new(change)));
        }
    }

    /// The slot after which the log of a VIEW-CHANGE begins: the checkpoint, or a later one if the replica followed certified
    /// commits.
    pub(crate) fn log_start(&self) -> Slot {
        self.promises.checkpoint.as_ref().map(|checkpoint| checkpoint.slot).unwrap_or_default().max(self.log.floor())
    }

    /// The own VIEW-CHANGE. `None` while a checkpoint is missing without which it would be too long.
    fn view_change(&self, target: View) -> Option<ViewChange> {
        let (checkpoint, after) = (self.promises.checkpoint.clone(), self.log_start());
        let last = after.0 + self.config.max_log();
        if self.log.end().0 > last {
            return None;
        }
        let mut change = ViewChange {
            sender: self.me,
            target,
            certificate: self.promises.certificate.clone(),
            checkpoint,
            after,
            after_hash: self.log.hash(after)?,
            entries: self.log.after(after).map(|(_, entry)| entry.clone()).collect(),
            prepared: self
                .promises
                .prepared
                .values()
                .filter(|proof| proof.slot > after && proof.slot.0 <= last)
                .cloned()
                .collect(),
            signature: [0; 64],
        };
        change.signature = self.sign(&self.context.view_change(&change))?;
        Some(change)
    }

    pub(crate) fn handle_view_change(&mut self, from: ValidatorIndex, change: ViewChange) {
        let leader = rules::leader(change.target, &self.committee);
        if from == leader && leader != self.me {
            // V6: only for the own target, so that leaders of other views cannot displace it.
            if self.promises.target == Some(change.target) {
                self.relayed.insert(change.sender, change);
            }
            return;
        }
        let is_late = change.target <= self.view();
        if is_late || leader != self.me {
            return self.send_progress(change.sender, false);
        }
        self.handle_suspect(change.sender, change.target);
        change.checkpoint.iter().for_each(|checkpoint| self.learn_checkpoint(checkpoint.clone()));
        let known = self.changes.get(&change.sender);
        if known.is_none_or(|known| known.target <= change.target) {
            self.changes.insert(change.sender, change);
        }
    }

    /// V4: the leader of the target merges at a quorum of VIEW-CHANGEs, its own included.
    pub(crate) fn try_start_view(&mut self) {
        let Some(target) = self.promises.target.filter(|target| rules::leader(*target, &self.committee) == self.me) else {
            return;
        };
        while self.has_left && self.start.is_none() && self.changes.contains_key(&self.me) {
            let changes: Vec<ViewChange> = self.changes.values().filter(|change| change.target == target).cloned().collect();
            if self.committee.weigh(changes.iter().map(|change| change.sender)) < self.committee.quorum() {
                return;
            }
            match self.merge(&changes) {
                Ok(merged) => {
                    if !self.has_base_of(&merged) {
                        return;
                    }
                    self.send_view_start(target, &changes);
                    self.start = Some((target, changes));
                    self.adopt(merged);
                }
                Err(Invalid { sender, reason }) => {
                    self.note("view-change", format!("VIEW-CHANGE of {sender} refused: {reason}"));
                    if sender == self.me {
                        return;
                    }
                    self.changes.remove(&sender);
                }
            }
        }
    }

    /// Each VIEW-CHANGE is a message of its own: together they could exceed a frame of the network.
    fn send_view_start(&mut self, view: View, changes: &[ViewChange]) {
        for change in changes {
            self.broadcast(&Message::ViewChange(Box::new(change.clone())));
        }
        let changes = changes.iter().map(|change| (change.sender, change.signature)).collect();
        self.broadcast(&Message::ViewStart { view, changes });
    }

    fn merge(&self, changes: &[ViewChange]) -> Result<Merged, Invalid> {
        rules::merge(&self.context, &self.committee, self.config.max_log(), changes, |certificate| {
            self.is_authentic(certificate)
        })
    }

    /// The merged log begins at a checkpoint, which `learn_checkpoint` fetches if it is missing.
    fn has_base_of(&self, merged: &Merged) -> bool {
        merged.after < self.log.floor() || self.log.hash(merged.after) == Some(merged.after_hash)
    }

    /// V6: checks everything again and computes the same merge.
    pub(crate) fn handle_view_start(&mut self, from: ValidatorIndex, view: View, changes: &Votes) {
        if view <= self.view() {
            return self.send_progress(from, false);
        }
        // A replica that did not leave its view yet does so when it hears of the others' suspicion; the leader repeats itself.
        if self.promises.target != Some(view) {
            return;
        }
        if let Some(confirmed) = self.promises.confirmed.filter(|confirmed| confirmed.view == view) {
            // V7, pitfall 3: only the first merge of a view. The leader repeats it because it misses confirmations.
            return self.send_view_confirm(confirmed);
        }
        let named = |(sender, signature): &(ValidatorIndex, Signature)| {
            self.relayed.get(sender).filter(|change| change.target == view && change.signature == *signature).cloned()
        };
        let Some(changes) = changes.iter().map(named).collect::<Option<Vec<_>>>() else { return };
        changes
            .iter()
            .filter_map(|change| change.checkpoint.as_ref())
            .for_each(|checkpoint| self.learn_checkpoint(checkpoint.clone()));
        if self.is_forgetful() {
            return;
        }
        match self.merge(&changes) {
            Ok(merged) => {
                if !self.has_base_of(&merged) {
                    return;
                }
                self.adopt(merged);
            }
            Err(Invalid { sender, reason }) => {
                self.note("view-change", format!("VIEW-START of {from} refused: VIEW-CHANGE of {sender}: {reason}"));
            }
        }
    }

    /// V6: takes over the merged log, and makes it durable before the confirmation.
    fn adopt(&mut self, merged: Merged) {
        let Merged { confirmed, certificate, mut after, mut entries, .. } = merged;
        // Slots up to the floor are final.
        while after < self.log.floor() && !entries.is_empty() {
            entries.remove(0);
            after = after.next();
        }
        if let Some(certificate) = certificate.clone()
            && self.promises.adopt(certificate)
        {
            self.gaps.clear();
            self.begin_replies();
            let view = self.view();
            self.goal.take_if(|goal| goal.view().is_some_and(|of| of <= view));
        }
        self.promises.confirmed = Some(confirmed);
        self.replace_log(after, entries, Some(confirmed), certificate);
        // Durable after the merged log.
        let record = Record::Leaving(confirmed.view);
        self.persist(&record, Some(AfterDurable::Confirm(confirmed)));
        self.end_covered_goal();
    }

    /// V7.
    pub(crate) fn send_view_confirm(&mut self, confirmed: Confirmed) {
        let is_durable = self.has_confirmed == Some(confirmed);
        if !is_durable || self.promises.confirmed != Some(confirmed) || self.promises.target != Some(confirmed.view) {
            return;
        }
        let Some(signature) = self.sign(&Statement::ViewConfirm(confirmed)) else { return };
        self.broadcast(&Message::ViewConfirm { confirmed, signature });
        self.handle_view_confirm(self.me, confirmed, signature);
    }

    /// V7, pitfall 4: a quorum must confirm one length and one hash.
    pub(crate) fn handle_view_confirm(&mut self, from: ValidatorIndex, confirmed: Confirmed, signature: Signature) {
        if confirmed.view <= self.view() {
            if from != self.me {
                self.send_progress(from, false);
            }
            return;
        }
        if self.confirms.get(&from).is_some_and(|(known, _)| known.view > confirmed.view) {
            return;
        }
        self.confirms.insert(from, (confirmed, signature));
        let votes = votes_for(&self.confirms, &confirmed);
        if is_quorum(&votes, &self.committee) {
            self.handle_certificate(ViewCertificate { confirmed, votes });
        }
    }

    /// A view began. A replica with its log enters; another one fetches the log first.
    pub(crate) fn handle_certificate(&mut self, certificate: ViewCertificate) {
        let Confirmed { view, slot, hash, .. } = certificate.confirmed;
        if view <= self.view() {
            return;
        }
        if self.log.hash(slot) == Some(hash) || slot < self.log.floor() {
            // Final slots after the beginning of the view were learnt from a checkpoint.
            let end = slot.max(self.log.finalized());
            if self.roll_back(end) {
                self.persist(&Record::Entered { certificate: certificate.clone(), end }, None);
                self.enter(certificate);
            }
        } else if slot <= self.log.finalized() {
            self.halt(format!("{view} begins with another log up to slot {}", slot.0));
        } else {
            self.set_goal(slot, hash, Some(certificate), None);
        }
    }

    /// V8: normal again. The certificate's record was written before.
    pub(crate) fn enter(&mut self, certificate: ViewCertificate) {
        let view = certificate.confirmed.view;
        self.promises.enter(certificate);
        // REPLYs of this view wait until the certificate is on disk.
        self.has_entered = false;
        self.persist(&Record::Promises(Box::new(self.promises.clone())), Some(AfterDurable::Entered(view)));
        self.note("view", format!("entered {view} at slot {}", self.log.end().0));
        self.gaps.clear();
        self.goal = None;
        self.start = None;
        self.has_left = false;
        self.suspects.retain(|_, suspected| *suspected > view);
        self.changes.retain(|_, change| change.target > view);
        self.relayed.clear();
        self.confirms.retain(|_, (confirmed, _)| confirmed.view > view);
        (self.progress_at, self.heard) = (self.now, (0, self.now));
        self.entered_at = self.log.finalized();
        if self.receiver.epoch() == view.epoch {
            self.receiver.set_next(self.seq(self.log.end().next()).unwrap_or(1));
        } else {
            // E3–E5.
            self.faults = SequencerFaults::default();
            self.receiver.start_epoch(self.now, view.epoch, first_number(&self.log, self.base()));
            self.fill_receiver();
            self.resend_requests();
            self.ask_for_sequencer();
        }
        self.begin_replies();
    }

    /// REPLYs and attestations of earlier views do not count any more.
    fn begin_replies(&mut self) {
        for (member, slot, hash) in self.replies.enter(self.view()) {
            self.take_reply(member, slot, hash);
        }
        self.sync.attested.clear();
        self.sync.queried = Slot(0);
    }

    /// E2: the epoch is agreed first, then its sequencer is asked for, until a packet comes. A key alone shows nothing: members can
    /// derive it before a sequencer serves the epoch.
    pub(crate) fn ask_for_sequencer(&mut self) {
        let epoch = self.view().epoch;
        if self.receiver.epoch() != epoch || !self.receiver.has_started() {
            let certificate = self.epoch_certificate();
            self.outputs.push_back(Output::AskSequencer { epoch, certificate });
        }
    }

    pub(crate) fn doubled(&self, milliseconds: u64) -> u64 {
        milliseconds.saturating_mul(1 << self.failed_views.min(16)).min(self.config.max_view_ms.max(milliseconds))
    }

    /// G11, V1, V2: timers.
    pub(crate) fn check_timers(&mut self) {
        self.check_drop_rate();
        if let Some(target) = self.promises.target {
            return self.check_target(target);
        }
        let next = self.log.end().next();
        let is_blocked = self.is_blocked(next) || self.seq(next).is_some_and(|seq| self.receiver.is_dropped(seq));
        let undelivered = self.undelivered_copy();
        let silence = self.silence();
        if self.log.finalized() == self.log.end() && !is_blocked && self.goal.is_none() {
            self.progress_at = self.now;
        } else if self.progress_at.0.saturating_add(self.doubled(self.config.gap_ms)) <= self.now.0 {
            let reason = format!("slot {} is not final", self.log.finalized().next().0);
            // Another leader did not help either, and requests do not come: perhaps nobody can resolve a number. A new
            // epoch ends before it.
            return match undelivered {
                Some(_) if self.failed_views > 0 => self.suspect_sequencer(reason),
                _ => self.suspect_leader(reason),
            };
        }
        match undelivered.or(silence) {
            // While a slot is unresolved, the log does not show what the group delivered.
            Some(reason) if !is_blocked => self.suspect_sequencer(reason),
            Some(_) => {}
            None => self.trust_sequencer(),
        }
    }

    /// V2: gives up a view that does not begin. Members may have left for different views. So those with the highest target wait
    /// until the others come, and the others find the way there: step by step through leaders, and into the next epoch if a
    /// member is there. One member is enough for that: it may be the one without which there is no quorum. A liar gains little: it
    /// can begin an epoch when a leader was to be replaced anyway, and never skip one.
    fn check_target(&mut self, target: View) {
        let joined = self.suspects.iter().filter(|(_, view)| **view >= target).map(|(member, _)| *member);
        if self.committee.weigh(joined) < self.committee.quorum() {
            self.joined_since = self.now;
        }
        if self.joined_since.0.saturating_add(self.doubled(self.config.view_ms)) > self.now.0 {
            return;
        }
        let is_ahead = |view: &View| view.epoch > target.epoch;
        let next = match target.epoch == self.view().epoch && self.suspects.values().any(is_ahead) {
            true => target.next_epoch(),
            false => target,
        };
        self.suspect(next.next_leader(), format!("{target} did not begin"));
    }

    /// V1: members claim their time regularly, so the group of a sequencer that works is never silent.
    fn silence(&mut self) -> Option<String> {
        let highest = self.receiver.highest();
        if highest > self.heard.0 {
            self.heard = (highest, self.now);
        }
        let wait = self.doubled(self.config.clock_ms.saturating_add(self.config.aom_ms));
        let is_silent = self.heard.1.0.saturating_add(wait) <= self.now.0;
        is_silent.then(|| format!("nothing came for {wait} ms"))
    }

    /// V2, V6: repeats the messages of a view change.
    pub(crate) fn resend_view_change(&mut self) {
        if let Some(view) = self.suspects.get(&self.me).copied().filter(|view| *view > self.view()) {
            self.broadcast(&Message::Suspect { view });
        }
        let Some(target) = self.promises.target.filter(|_| self.has_left) else { return };
        let confirmed = self.promises.confirmed.filter(|confirmed| confirmed.view == target);
        confirmed.into_iter().for_each(|confirmed| self.send_view_confirm(confirmed));
        // Checking logs takes long, so each wait for them is twice as long as the one before.
        let wait = self.config.query_ms << (self.logs_sent + 1).min(MAX_DOUBLINGS);
        if self.changing_since.0.saturating_add(wait) > self.now.0 {
            return;
        }
        self.logs_sent += 1;
        if confirmed.is_none() {
            self.send_view_change(target);
        }
        if let Some((view, changes)) = self.start.take() {
            self.send_view_start(view, &changes);
            self.start = Some((view, changes));
        }
    }
}
