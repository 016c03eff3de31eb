//! Attacks of doubles in slots: as leaders, as voters, and by complaints.

use super::{ByzantineCoalition, Misbehaviour, index, knowledge::Knowledge};
use crate::FakeKeys;
use corniche_autobahn::{
    message::{
        Availability, CommitQc, Cut, Message, Position, Report, SignedPrepare, Slot, Statement, Status, Timeout, TimeoutQc,
        Tip, View,
    },
    rules::{is_fresh, select},
};
use corniche_testkit::{MemberContext, Micros};
use corniche_types::{B256, TimestampMs, ValidatorIndex, Votes};
use std::collections::BTreeMap;

/// Number of ways to end a view that are tried.
const MAX_TRIES: usize = 16;

/// The attack on a view that a member leads.
pub struct LeaderAttack {
    /// Proposals and their audiences.
    shown: Vec<(Vec<usize>, Message)>,
    /// True while the proposals wait for a complaint.
    is_late: bool,
    /// The value shown to the second half.
    conflicting: Option<B256>,
    /// True if certificates are withheld.
    withholds_certificates: bool,
    confirm: Audience,
    is_confirmed: bool,
    is_committed: bool,
}

/// Audience of a certificate.
#[derive(Clone)]
enum Audience {
    Some(Vec<usize>),
    /// All validators, after a complaint.
    Late,
}

impl ByzantineCoalition {
    /// Returns true if the engine receives the message too.
    pub(super) fn on_receive_slots(&mut self, ctx: &mut MemberContext<'_>, from: ValidatorIndex, message: &Message) -> bool {
        let me = index(ctx.me);
        match message {
            Message::PrepareVote { vote, .. } => self.count(ctx, vote.slot, vote.view),
            Message::ConfirmAck(vote) => self.count(ctx, vote.slot, vote.view),
            Message::Timeout(timeout) if !self.is_member(from) => self.on_timeout(ctx, timeout.slot, timeout.view),
            Message::Commit(certificate) if self.has(me, Misbehaviour::StaleTips) => self.propose_early(ctx, certificate),
            // Excludes messages that other members forward; otherwise forwarding would never end.
            Message::Prepare(prepare)
                if self.has(me, Misbehaviour::StripProofs) && !self.is_member(from) && ctx.random.one_in(2) =>
            {
                let mut copy = prepare.clone();
                copy.available.retain(|_| ctx.random.one_in(2));
                copy.timeouts = copy.timeouts.filter(|_| !ctx.random.one_in(4));
                ctx.send(self.all_validators(), Message::Prepare(copy).encode());
            }
            Message::FetchCut { .. } => return !(self.has(me, Misbehaviour::WithholdCars) && ctx.random.one_in(2)),
            _ => {}
        }
        true
    }

    /// Returns true if the message itself must not be sent.
    pub(super) fn on_send_slots(&mut self, ctx: &mut MemberContext<'_>, to: &[usize], message: &Message) -> bool {
        let me = index(ctx.me);
        match message {
            Message::Prepare(prepare) if self.schedule.leader(prepare.cut.slot, prepare.view) == me => {
                self.propose(ctx, prepare)
            }
            Message::PrepareVote { vote, .. } | Message::ConfirmAck(vote) => {
                let leader = self.schedule.leader(vote.slot, vote.view);
                return self.has(me, Misbehaviour::WithholdCertificates) && !self.is_member(leader) && ctx.random.one_in(4);
            }
            Message::Confirm(certificate) => {
                return self
                    .attacks
                    .get(&(certificate.slot, certificate.view))
                    .is_some_and(|attack| attack.withholds_certificates);
            }
            Message::Commit(certificate) => {
                self.count(ctx, certificate.slot, certificate.view);
                return self.withheld_commits.contains(&certificate.slot);
            }
            Message::Timeout(timeout) if self.has(me, Misbehaviour::FalseTimeouts) => {
                self.send_false_timeouts(ctx, timeout.slot, timeout.view)
            }
            Message::TimeoutQc(_) => return self.has(me, Misbehaviour::FalseTimeouts) && ctx.random.one_in(2),
            Message::Commits(_) => return !self.withheld_commits.is_empty(),
            Message::Status(status) if !self.withheld_commits.is_empty() => {
                let status = Status { committed: None, ..status.clone() };
                ctx.send(to.iter().copied(), Message::Status(status).encode());
            }
            _ => return false,
        }
        true
    }

    // ---- leading -------------------------------------------------------------------------------------------------------

    /// The engine of this view's leader proposes, or repeats its proposal.
    fn propose(&mut self, ctx: &mut MemberContext<'_>, prepare: &SignedPrepare) {
        let place = (prepare.cut.slot, prepare.view);
        if !self.attacks.contains_key(&place) {
            let attack = self.plan_attack(ctx, prepare);
            self.attacks.insert(place, attack);
        }
        let attack = &self.attacks[&place];
        if !attack.is_late {
            attack.shown.iter().for_each(|(to, message)| ctx.send(to.iter().copied(), message.encode()));
        }
    }

    fn plan_attack(&mut self, ctx: &mut MemberContext<'_>, prepare: &SignedPrepare) -> LeaderAttack {
        let me = index(ctx.me);
        let mut prepare = self.with_chosen_timeout_qc(prepare).unwrap_or_else(|| prepare.clone());
        let place = (prepare.cut.slot, prepare.view);
        let is_fresh = is_fresh(&prepare, &self.committee);
        if is_fresh && self.has(me, Misbehaviour::StaleTips) && ctx.random.one_in(2) {
            prepare = self.with_stale_tips(ctx, &prepare);
        }
        let members = self.members.keys().map(|member| member.as_usize());
        let mut conflicting = None;
        let mut shown = Vec::new();
        // If a member leads next, a value committed in secret is worth more than two values that are not.
        let is_followed = self.is_member(self.schedule.leader(place.0, View(place.1.0.saturating_add(1))));
        let splits = self.has(me, Misbehaviour::EquivocatePrepares) && ctx.random.one_in(3) == is_followed;
        if is_fresh && splits {
            let second = self.conflicting(ctx, &prepare);
            let order = self.random_correct(ctx, usize::MAX);
            let first = self.committee.take_votes(order.iter().copied().map(index), self.missing_votes()).len();
            let (first, others) = order.split_at(first);
            conflicting = Some(self.context.cut(&second.cut));
            shown.push((first.iter().copied().chain(members).collect(), Message::Prepare(prepare)));
            shown.push((others.to_vec(), Message::Prepare(second)));
        } else if self.has(me, Misbehaviour::WithholdCertificates)
            && (ctx.random.one_in(4) || self.withheld_commits.contains(&place.0) && !ctx.random.one_in(4))
        {
            // Shows it to some: too few to continue, unless another validator is faulty.
            let overlap = self.committee.overlap(self.committee.quorum());
            let votes = Votes(ctx.random.between(1, u64::from(overlap.0)) as u32);
            shown.push((self.random_correct_with(ctx, votes).into_iter().chain(members).collect(), Message::Prepare(prepare)));
        } else if !is_fresh && self.has(me, Misbehaviour::FalseTimeouts) && ctx.random.one_in(4) {
            // P24: differs from the value that the TC requires. No correct validator may vote for it.
            shown.push((self.all_validators(), Message::Prepare(self.conflicting(ctx, &prepare))));
        } else {
            shown.push((self.all_validators(), Message::Prepare(prepare)));
        }
        for (_, message) in &shown {
            self.knowledge.learn(me, message);
        }
        let confirm = match ctx.random.below(6) {
            0 => Audience::Some(Vec::new()),
            1 => Audience::Some(self.all_validators()),
            2 => Audience::Late,
            _ => Audience::Some(self.random_correct_with(ctx, self.missing_votes())),
        };
        let is_late = self.has(me, Misbehaviour::LatePrepares) && ctx.random.one_in(3);
        let withholds_certificates = self.has(me, Misbehaviour::WithholdCertificates);
        LeaderAttack { shown, is_late, conflicting, withholds_certificates, confirm, is_confirmed: false, is_committed: false }
    }

    fn signed(&self, leader: ValidatorIndex, mut prepare: SignedPrepare) -> SignedPrepare {
        let digest = self.context.prepare(prepare.cut.slot, prepare.view, self.context.cut(&prepare.cut));
        prepare.signature = FakeKeys(leader).sign_digest(&digest);
        prepare
    }

    /// Makes another equally valid value.
    fn conflicting(&self, ctx: &mut MemberContext<'_>, prepare: &SignedPrepare) -> SignedPrepare {
        let conflicting = self.with_stale_tips(ctx, prepare);
        let mut conflicting = if ctx.random.one_in(2) { conflicting } else { prepare.clone() };
        conflicting.cut.time = TimestampMs(conflicting.cut.time.0.saturating_sub(1));
        self.signed(index(ctx.me), conflicting)
    }

    /// Uses tips of an earlier cut, or of the other branch of a fork, for some lanes. Shows only necessary
    /// certificates, and the ticket that was known first.
    fn with_stale_tips(&self, ctx: &mut MemberContext<'_>, prepare: &SignedPrepare) -> SignedPrepare {
        let slot = prepare.cut.slot;
        let anchor = self.anchor(&prepare.cut);
        let floor = |lane: usize| anchor.as_ref().map_or(Position(0), |anchor| anchor.tips[lane].position);
        let earlier: Vec<&Cut> = self.knowledge.cuts.values().filter(|cut| cut.slot < slot).collect();
        let source = (!earlier.is_empty() && !ctx.random.one_in(4))
            .then(|| earlier[ctx.random.below(earlier.len() as u64) as usize].clone());
        let mut old = prepare.clone();
        let mut available: BTreeMap<ValidatorIndex, Availability> =
            prepare.available.iter().map(|certificate| (certificate.tip.lane, certificate.clone())).collect();
        for lane in self.committee.indices() {
            let tip = source.as_ref().map_or(self.context.start(lane), |cut| cut.tips[lane.as_usize()]);
            let place = &mut old.cut.tips[lane.as_usize()];
            let certificate = self.knowledge.available.get(&tip);
            if tip.position > place.position || ctx.random.one_in(3) {
                continue;
            }
            if tip.position <= floor(lane.as_usize()) {
                *place = tip;
                available.remove(&lane);
            } else if let Some(certificate) = certificate {
                *place = tip;
                available.insert(lane, certificate.clone());
            }
        }
        let me = index(ctx.me);
        if self.has(me, Misbehaviour::ForkLanes)
            && let Some(fork) = self.certified_sibling(me).filter(|fork| fork.tip.position > floor(ctx.me))
        {
            old.cut.tips[ctx.me] = fork.tip;
            available.insert(me, fork);
        }
        old.available = available.into_values().collect();
        old.previous = prepare.previous.as_ref().map(|given| self.knowledge.commits.get(&given.slot).unwrap_or(given).clone());
        self.signed(me, old)
    }

    fn anchor(&self, cut: &Cut) -> Option<Cut> {
        let slot = cut.slot.0.checked_sub(self.config.open_slots)?;
        self.knowledge.cuts.get(&(Slot(slot), cut.anchor)).cloned()
    }

    /// Proposes as soon as the ticket exists, although no PREPARE of the previous slot was seen.
    fn propose_early(&mut self, ctx: &mut MemberContext<'_>, ticket: &CommitQc) {
        let slot = Slot(ticket.slot.0 + self.config.open_slots);
        let place = (slot, View(0));
        let me = index(ctx.me);
        let Some(cut) = self.knowledge.cuts.get(&(ticket.slot, ticket.cut)) else { return };
        if self.schedule.leader(slot, View(0)) != me || self.attacks.contains_key(&place) || ctx.random.one_in(2) {
            return;
        }
        let cut = Cut { slot, anchor: ticket.cut, time: ctx.now.timestamp(), tips: cut.tips.clone() };
        let (available, previous) = (Vec::new(), Some(ticket.clone()));
        let prepare = SignedPrepare { view: View(0), cut, signature: [0; 64], available, previous, timeouts: None };
        let prepare = self.signed(me, prepare);
        self.propose(ctx, &prepare);
    }

    // ---- certificates --------------------------------------------------------------------------------------------------

    /// A vote arrived: sends new certificates as planned.
    fn count(&mut self, ctx: &mut MemberContext<'_>, slot: Slot, view: View) {
        let Some(attack) = self.attacks.get_mut(&(slot, view)).filter(|attack| attack.withholds_certificates) else { return };
        if let Some(certificate) = self.knowledge.prepared.get(&(slot, view))
            && !attack.is_confirmed
            && let Audience::Some(audience) = &attack.confirm
        {
            attack.is_confirmed = true;
            ctx.send(audience.iter().copied(), Message::Confirm(certificate.clone()).encode());
            if let Some(pretended) = self.knowledge.false_commit(slot, view) {
                let to = self.random_correct(ctx, 1);
                ctx.send(to, Message::Commit(pretended).encode());
            }
        }
        let Some(attack) = self.attacks.get_mut(&(slot, view)) else { return };
        if let Some(certificate) = self.knowledge.commits.get(&slot).cloned()
            && certificate.view == view
            && !std::mem::replace(&mut attack.is_committed, true)
        {
            self.withhold_commit(ctx, certificate);
        }
    }

    /// Sends the commit to one validator or none now, and to others later.
    fn withhold_commit(&mut self, ctx: &mut MemberContext<'_>, certificate: CommitQc) {
        self.withheld_commits.insert(certificate.slot);
        if ctx.random.one_in(4) {
            let to = self.random_correct(ctx, 1);
            ctx.send(to, Message::Commit(certificate.clone()).encode());
        }
        let at = ctx.now + Micros::from_millis(ctx.random.between(200, 5_000));
        let count = ctx.random.between(1, self.correct().len() as u64) as usize;
        let to = self.random_correct(ctx, count);
        self.send_later(at, to, Message::Commit(certificate));
    }

    // ---- complaints ----------------------------------------------------------------------------------------------------

    fn on_timeout(&mut self, ctx: &mut MemberContext<'_>, slot: Slot, view: View) {
        if let Some(attack) = self.attacks.get_mut(&(slot, view)) {
            if std::mem::take(&mut attack.is_late) {
                attack.shown.iter().for_each(|(to, message)| ctx.send(to.iter().copied(), message.encode()));
            }
            if let Some(certificate) = self.knowledge.prepared.get(&(slot, view))
                && attack.withholds_certificates
                && matches!(attack.confirm, Audience::Late)
                && !std::mem::replace(&mut attack.is_confirmed, true)
            {
                ctx.send(0..self.committee.size(), Message::Confirm(certificate.clone()).encode());
            }
        }
        let me = index(ctx.me);
        if self.has(me, Misbehaviour::FalseTimeouts) {
            if self.timeouts_sent.insert((me, slot, view)) {
                self.send_false_timeouts(ctx, slot, view);
            }
            self.choose_timeout_qc(ctx, slot, view);
        }
    }

    /// Sends a different complaint to every validator.
    fn send_false_timeouts(&mut self, ctx: &mut MemberContext<'_>, slot: Slot, view: View) {
        for to in self.correct() {
            let false_timeout = self.false_timeout(ctx, index(ctx.me), slot, view);
            ctx.send([to], Message::Timeout(false_timeout).encode());
        }
    }

    /// A complaint that any validator would accept.
    fn false_timeout(&self, ctx: &mut MemberContext<'_>, member: ValidatorIndex, slot: Slot, view: View) -> Timeout {
        let known: Vec<_> =
            self.knowledge.cuts.range((slot, B256::ZERO)..=(slot, B256::repeat_byte(255))).map(|(key, _)| key.1).collect();
        let conflicting = self
            .attacks
            .range((slot, View(0))..=(slot, view))
            .rev()
            .find_map(|((_, of), attack)| Some((*of, attack.conflicting?)));
        let voted = match conflicting {
            Some((_, conflicting)) if !ctx.random.one_in(4) => Some((view, conflicting)),
            _ if known.is_empty() || ctx.random.one_in(2) => None,
            _ => {
                let value = known[ctx.random.below(known.len() as u64) as usize];
                Some((View(ctx.random.below(u64::from(view.0) + 1) as u32), value))
            }
        };
        let certificates = self.knowledge.prepared.range((slot, View(0))..=(slot, view)).map(|(_, certificate)| certificate);
        let confirmed = certificates.take(1 + ctx.random.below(2) as usize).last().filter(|_| ctx.random.one_in(4)).cloned();
        let report = Report { confirmed: confirmed.as_ref().map(|certificate| (certificate.view, certificate.cut)), voted };
        let share = self.knowledge.share(member, &Statement::Timeout { slot, view, report });
        let cuts = voted.and_then(|(_, value)| self.knowledge.cuts.get(&(slot, value))).cloned().into_iter().collect();
        Timeout { slot, view, report, share, confirmed, cuts }
    }

    /// Chooses the most harmful TC of the received complaints and of lies: one that forgets a committed value, or else
    /// one that requires the rival.
    fn choose_timeout_qc(&mut self, ctx: &mut MemberContext<'_>, slot: Slot, view: View) {
        let Some(timeouts) = self.knowledge.timeouts.get(&(slot, view)).filter(|_| !self.chosen.contains_key(&(slot, view)))
        else {
            return;
        };
        let mut senders: Vec<_> = timeouts.keys().copied().collect();
        if self.committee.weigh(senders.iter().copied()) < self.missing_votes() {
            return;
        }
        let committed = self.knowledge.commits.get(&slot).map(|certificate| certificate.cut);
        let conflicting = self.attacks.range((slot, View(0))..=(slot, view)).rev().find_map(|(_, attack)| attack.conflicting);
        let mut best: Option<(u32, TimeoutQc)> = None;
        for _ in 0..MAX_TRIES {
            ctx.random.shuffle(&mut senders);
            let chosen = self.committee.take_votes(senders.iter().copied(), self.missing_votes());
            let mut chosen: BTreeMap<_, _> = chosen.into_iter().map(|sender| (sender, timeouts[&sender].clone())).collect();
            for member in self.members.keys() {
                chosen.insert(*member, self.false_timeout(ctx, *member, slot, view));
            }
            let timeout_qc = Knowledge::timeout_certificate(slot, view, &chosen);
            let winner = select(&timeout_qc, &self.committee);
            let harm = if committed.is_some() && winner != committed {
                2
            } else {
                u32::from(winner.is_some() && winner == conflicting)
            };
            if best.as_ref().is_none_or(|(most, _)| harm > *most) {
                best = Some((harm, timeout_qc));
            }
        }
        let Some((_, timeout_qc)) = best else { return };
        if !ctx.random.one_in(4) {
            ctx.send(self.all_validators(), Message::TimeoutQc(timeout_qc.clone()).encode());
        }
        self.chosen.insert((slot, view), timeout_qc);
    }

    /// For the leader of the next view: the chosen TC, and the value it requires.
    fn with_chosen_timeout_qc(&self, prepare: &SignedPrepare) -> Option<SignedPrepare> {
        let slot = prepare.cut.slot;
        let timeout_qc = self.chosen.get(&(slot, View(prepare.view.0.checked_sub(1)?)))?;
        let mut other = SignedPrepare { timeouts: Some(timeout_qc.clone()), available: Vec::new(), ..prepare.clone() };
        match select(timeout_qc, &self.committee) {
            Some(winner) => other.cut = self.knowledge.cuts.get(&(slot, winner))?.clone(),
            None => {
                let anchor = self.anchor(&prepare.cut);
                let old =
                    |lane: ValidatorIndex| anchor.as_ref().map_or(self.context.start(lane), |cut| cut.tips[lane.as_usize()]);
                other.cut.tips = self.committee.indices().map(old).collect::<Vec<Tip>>();
            }
        }
        Some(self.signed(self.schedule.leader(slot, prepare.view), other))
    }
}
