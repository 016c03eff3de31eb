//! Attacks of doubles in slots: as leaders, as voters, and by complaints.

use super::{Doubles, Vice, index, known::Known};
use crate::{
    Signer,
    kit::FakeKeys,
    message::{
        Availability, CommitQc, Cut, Message, Position, Report, SignedPrepare, Slot, Statement, Timeout, TimeoutQc, Tip, View,
    },
    rules::{is_fresh, select},
};
use corniche_testkit::{Act, Micros};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

/// Number of ways to end a view that are tried.
const TRIES: usize = 16;

/// The attack on a view that a member leads.
pub struct Plan {
    /// Proposals and their audiences.
    shown: Vec<(Vec<usize>, Message)>,
    /// True while the proposals wait for a complaint.
    lingers: bool,
    /// The value shown to the second half.
    rival: Option<B256>,
    /// True if certificates are withheld.
    hoards: bool,
    confirm: Show,
    is_confirmed: bool,
    is_committed: bool,
}

/// Audience of a certificate.
#[derive(Clone)]
enum Show {
    Some(Vec<usize>),
    /// All validators, after a complaint.
    Late,
}

impl Doubles {
    /// Returns true if the engine receives the message too.
    pub(super) fn hear_of_slots(&mut self, act: &mut Act<'_>, from: ValidatorIndex, message: &Message) -> bool {
        let me = index(act.me);
        match message {
            Message::Prepared { vote, .. } => self.count(act, vote.slot, vote.view),
            Message::Confirmed(vote) => self.count(act, vote.slot, vote.view),
            Message::Timeout(timeout) if !self.is_member(from) => self.hear_complaint(act, timeout.slot, timeout.view),
            Message::Commit(certificate) if self.has(me, Vice::Repeats) => self.propose_early(act, certificate),
            // Excludes messages that other members forward; otherwise forwarding would never end.
            Message::Prepare(prepare) if self.has(me, Vice::Strips) && !self.is_member(from) && act.random.once_in(2) => {
                let mut copy = prepare.clone();
                copy.available.retain(|_| act.random.once_in(2));
                copy.timeouts = copy.timeouts.filter(|_| !act.random.once_in(4));
                act.send(self.everybody(), Message::Prepare(copy).encode());
            }
            Message::FetchCut { .. } => return !(self.has(me, Vice::Hides) && act.random.once_in(2)),
            _ => {}
        }
        true
    }

    /// Returns true if the message itself must not be sent.
    pub(super) fn say_of_slots(&mut self, act: &mut Act<'_>, to: &[usize], message: &Message) -> bool {
        let me = index(act.me);
        match message {
            Message::Prepare(prepare) if self.schedule.leader(prepare.cut.slot, prepare.view) == me => self.lead(act, prepare),
            Message::Prepared { vote, .. } | Message::Confirmed(vote) => {
                let leader = self.schedule.leader(vote.slot, vote.view);
                return self.has(me, Vice::Hoards) && !self.is_member(leader) && act.random.once_in(4);
            }
            Message::Confirm(certificate) => {
                return self.plans.get(&(certificate.slot, certificate.view)).is_some_and(|plan| plan.hoards);
            }
            Message::Commit(certificate) => {
                self.count(act, certificate.slot, certificate.view);
                return self.secret.contains(&certificate.slot);
            }
            Message::Timeout(timeout) if self.has(me, Vice::Lies) => self.complain(act, timeout.slot, timeout.view),
            Message::TimedOut(_) => return self.has(me, Vice::Lies) && act.random.once_in(2),
            Message::Commits(_) => return !self.secret.is_empty(),
            Message::Standing(standing) if !self.secret.is_empty() => {
                let standing = crate::message::Standing { committed: None, ..standing.clone() };
                act.send(to.iter().copied(), Message::Standing(standing).encode());
            }
            _ => return false,
        }
        true
    }

    // ---- leading -------------------------------------------------------------------------------------------------------

    /// The engine of this view's leader proposes, or repeats its proposal.
    fn lead(&mut self, act: &mut Act<'_>, prepare: &SignedPrepare) {
        let place = (prepare.cut.slot, prepare.view);
        if !self.plans.contains_key(&place) {
            let plan = self.plan(act, prepare);
            self.plans.insert(place, plan);
        }
        let plan = &self.plans[&place];
        if !plan.lingers {
            plan.shown.iter().for_each(|(to, message)| act.send(to.iter().copied(), message.encode()));
        }
    }

    fn plan(&mut self, act: &mut Act<'_>, prepare: &SignedPrepare) -> Plan {
        let me = index(act.me);
        let mut prepare = self.chosen_reason(prepare).unwrap_or_else(|| prepare.clone());
        let place = (prepare.cut.slot, prepare.view);
        let is_fresh = is_fresh(&prepare, &self.committee);
        if is_fresh && self.has(me, Vice::Repeats) && act.random.once_in(2) {
            prepare = self.with_old_tips(act, &prepare);
        }
        let members = self.members.keys().map(|member| member.as_usize());
        let mut rival = None;
        let mut shown = Vec::new();
        // If a member leads next, a value committed in secret is worth more than two values that are not.
        let is_followed = self.is_member(self.schedule.leader(place.0, View(place.1.0.saturating_add(1))));
        let splits = self.has(me, Vice::Splits) && act.random.once_in(3) == is_followed;
        if is_fresh && splits {
            let second = self.rival(act, &prepare);
            let order = self.some(act, usize::MAX);
            let (first, others) = order.split_at(self.needed().min(order.len()));
            rival = Some(self.context.cut(&second.cut));
            shown.push((first.iter().copied().chain(members).collect(), Message::Prepare(prepare)));
            shown.push((others.to_vec(), Message::Prepare(second)));
        } else if self.has(me, Vice::Hoards)
            && (act.random.once_in(4) || self.secret.contains(&place.0) && !act.random.once_in(4))
        {
            // Shows it to some: too few to continue, unless another validator is faulty.
            let few = act.random.between(1, self.committee.overlap() as u64) as usize;
            shown.push((self.some(act, few).into_iter().chain(members).collect(), Message::Prepare(prepare)));
        } else if !is_fresh && self.has(me, Vice::Lies) && act.random.once_in(4) {
            // P24: differs from the value that the TC requires. No correct validator may vote for it.
            shown.push((self.everybody(), Message::Prepare(self.rival(act, &prepare))));
        } else {
            shown.push((self.everybody(), Message::Prepare(prepare)));
        }
        for (_, message) in &shown {
            self.known.learn(me, message);
        }
        let confirm = match act.random.below(6) {
            0 => Show::Some(Vec::new()),
            1 => Show::Some(self.everybody()),
            2 => Show::Late,
            _ => Show::Some(self.some(act, self.needed())),
        };
        let lingers = self.has(me, Vice::Lingers) && act.random.once_in(3);
        let hoards = self.has(me, Vice::Hoards);
        Plan { shown, lingers, rival, hoards, confirm, is_confirmed: false, is_committed: false }
    }

    fn signed(&self, leader: ValidatorIndex, mut prepare: SignedPrepare) -> SignedPrepare {
        let digest = self.context.prepare(prepare.cut.slot, prepare.view, self.context.cut(&prepare.cut));
        prepare.signature = FakeKeys(leader).sign(&digest);
        prepare
    }

    /// Makes another equally valid value.
    fn rival(&self, act: &mut Act<'_>, prepare: &SignedPrepare) -> SignedPrepare {
        let rival = self.with_old_tips(act, prepare);
        let mut rival = if act.random.once_in(2) { rival } else { prepare.clone() };
        rival.cut.time = TimestampMs(rival.cut.time.0.saturating_sub(1));
        self.signed(index(act.me), rival)
    }

    /// Uses tips of an earlier cut, or of the other branch of a fork, for some lanes. Shows only necessary
    /// certificates, and the ticket that was known first.
    fn with_old_tips(&self, act: &mut Act<'_>, prepare: &SignedPrepare) -> SignedPrepare {
        let slot = prepare.cut.slot;
        let anchor = self.anchor(&prepare.cut);
        let floor = |lane: usize| anchor.as_ref().map_or(Position(0), |anchor| anchor.tips[lane].position);
        let earlier: Vec<&Cut> = self.known.cuts.values().filter(|cut| cut.slot < slot).collect();
        let source = (!earlier.is_empty() && !act.random.once_in(4))
            .then(|| earlier[act.random.below(earlier.len() as u64) as usize].clone());
        let mut old = prepare.clone();
        let mut available: BTreeMap<ValidatorIndex, Availability> =
            prepare.available.iter().map(|certificate| (certificate.tip.lane, certificate.clone())).collect();
        for lane in self.committee.indices() {
            let tip = source.as_ref().map_or(self.context.start(lane), |cut| cut.tips[lane.as_usize()]);
            let place = &mut old.cut.tips[lane.as_usize()];
            let certificate = self.known.available.get(&tip);
            if tip.position > place.position || act.random.once_in(3) {
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
        let me = index(act.me);
        if self.has(me, Vice::Forks)
            && let Some(fork) = self.certified_sibling(me).filter(|fork| fork.tip.position > floor(act.me))
        {
            old.cut.tips[act.me] = fork.tip;
            available.insert(me, fork);
        }
        old.available = available.into_values().collect();
        old.previous = prepare.previous.as_ref().map(|given| self.known.commits.get(&given.slot).unwrap_or(given).clone());
        self.signed(me, old)
    }

    fn anchor(&self, cut: &Cut) -> Option<Cut> {
        let slot = cut.slot.0.checked_sub(self.config.open_slots)?;
        self.known.cuts.get(&(Slot(slot), cut.anchor)).cloned()
    }

    /// Proposes as soon as the ticket exists, although no PREPARE of the previous slot was seen.
    fn propose_early(&mut self, act: &mut Act<'_>, ticket: &CommitQc) {
        let slot = Slot(ticket.slot.0 + self.config.open_slots);
        let place = (slot, View(0));
        let me = index(act.me);
        let Some(cut) = self.known.cuts.get(&(ticket.slot, ticket.cut)) else { return };
        if self.schedule.leader(slot, View(0)) != me || self.plans.contains_key(&place) || act.random.once_in(2) {
            return;
        }
        let cut = Cut { slot, anchor: ticket.cut, time: act.now.timestamp(), tips: cut.tips.clone() };
        let (available, previous) = (Vec::new(), Some(ticket.clone()));
        let prepare = SignedPrepare { view: View(0), cut, signature: [0; 64], available, previous, timeouts: None };
        let prepare = self.signed(me, prepare);
        self.lead(act, &prepare);
    }

    // ---- certificates --------------------------------------------------------------------------------------------------

    /// A vote arrived: sends new certificates as planned.
    fn count(&mut self, act: &mut Act<'_>, slot: Slot, view: View) {
        let Some(plan) = self.plans.get_mut(&(slot, view)).filter(|plan| plan.hoards) else { return };
        if let Some(certificate) = self.known.prepared.get(&(slot, view))
            && !plan.is_confirmed
            && let Show::Some(audience) = &plan.confirm
        {
            plan.is_confirmed = true;
            act.send(audience.iter().copied(), Message::Confirm(certificate.clone()).encode());
            if let Some(pretended) = self.known.pretended_commit(slot, view) {
                let to = self.some(act, 1);
                act.send(to, Message::Commit(pretended).encode());
            }
        }
        let Some(plan) = self.plans.get_mut(&(slot, view)) else { return };
        if let Some(certificate) = self.known.commits.get(&slot).cloned()
            && certificate.view == view
            && !std::mem::replace(&mut plan.is_committed, true)
        {
            self.keep_secret(act, certificate);
        }
    }

    /// Sends the commit to one validator or none now, and to others later.
    fn keep_secret(&mut self, act: &mut Act<'_>, certificate: CommitQc) {
        self.secret.insert(certificate.slot);
        if act.random.once_in(4) {
            let to = self.some(act, 1);
            act.send(to, Message::Commit(certificate.clone()).encode());
        }
        let at = act.now + Micros::from_millis(act.random.between(200, 5_000));
        let few = act.random.between(1, self.correct().len() as u64) as usize;
        let to = self.some(act, few);
        self.send_later(at, to, Message::Commit(certificate));
    }

    // ---- complaints ----------------------------------------------------------------------------------------------------

    fn hear_complaint(&mut self, act: &mut Act<'_>, slot: Slot, view: View) {
        if let Some(plan) = self.plans.get_mut(&(slot, view)) {
            if std::mem::take(&mut plan.lingers) {
                plan.shown.iter().for_each(|(to, message)| act.send(to.iter().copied(), message.encode()));
            }
            if let Some(certificate) = self.known.prepared.get(&(slot, view))
                && plan.hoards
                && matches!(plan.confirm, Show::Late)
                && !std::mem::replace(&mut plan.is_confirmed, true)
            {
                act.send(0..self.committee.size(), Message::Confirm(certificate.clone()).encode());
            }
        }
        let me = index(act.me);
        if self.has(me, Vice::Lies) {
            if self.complained.insert((me, slot, view)) {
                self.complain(act, slot, view);
            }
            self.steer(act, slot, view);
        }
    }

    /// Sends a different complaint to every validator.
    fn complain(&mut self, act: &mut Act<'_>, slot: Slot, view: View) {
        for to in self.correct() {
            let lie = self.lie(act, index(act.me), slot, view);
            act.send([to], Message::Timeout(lie).encode());
        }
    }

    /// A complaint that any validator would accept.
    fn lie(&self, act: &mut Act<'_>, member: ValidatorIndex, slot: Slot, view: View) -> Timeout {
        let known: Vec<_> =
            self.known.cuts.range((slot, B256::ZERO)..=(slot, B256::repeat_byte(255))).map(|(key, _)| key.1).collect();
        let rival = self.plans.range((slot, View(0))..=(slot, view)).rev().find_map(|((_, of), plan)| Some((*of, plan.rival?)));
        let voted = match rival {
            Some((_, rival)) if !act.random.once_in(4) => Some((view, rival)),
            _ if known.is_empty() || act.random.once_in(2) => None,
            _ => {
                let value = known[act.random.below(known.len() as u64) as usize];
                Some((View(act.random.below(u64::from(view.0) + 1) as u32), value))
            }
        };
        let certificates = self.known.prepared.range((slot, View(0))..=(slot, view)).map(|(_, certificate)| certificate);
        let confirmed = certificates.take(1 + act.random.below(2) as usize).last().filter(|_| act.random.once_in(4)).cloned();
        let report = Report { confirmed: confirmed.as_ref().map(|certificate| (certificate.view, certificate.cut)), voted };
        let share = self.known.share(member, &Statement::TimedOut { slot, view, report });
        let cuts = voted.and_then(|(_, value)| self.known.cuts.get(&(slot, value))).cloned().into_iter().collect();
        Timeout { slot, view, report, share, confirmed, cuts }
    }

    /// Chooses the most harmful TC of the received complaints and of lies: one that forgets a committed value, or else
    /// one that requires the rival.
    fn steer(&mut self, act: &mut Act<'_>, slot: Slot, view: View) {
        let Some(complaints) = self.known.timeouts.get(&(slot, view)).filter(|_| !self.chosen.contains_key(&(slot, view)))
        else {
            return;
        };
        let mut senders: Vec<_> = complaints.keys().copied().collect();
        if senders.len() < self.needed() {
            return;
        }
        let committed = self.known.commits.get(&slot).map(|certificate| certificate.cut);
        let rival = self.plans.range((slot, View(0))..=(slot, view)).rev().find_map(|(_, plan)| plan.rival);
        let mut best: Option<(u32, TimeoutQc)> = None;
        for _ in 0..TRIES {
            act.random.shuffle(&mut senders);
            let mut chosen: BTreeMap<_, _> =
                senders.iter().take(self.needed()).map(|sender| (*sender, complaints[sender].clone())).collect();
            for member in self.members.keys() {
                chosen.insert(*member, self.lie(act, *member, slot, view));
            }
            let reason = Known::timeout_certificate(slot, view, &chosen);
            let winner = select(&reason.reports, self.committee.overlap());
            let harm =
                if committed.is_some() && winner != committed { 2 } else { u32::from(winner.is_some() && winner == rival) };
            if best.as_ref().is_none_or(|(most, _)| harm > *most) {
                best = Some((harm, reason));
            }
        }
        let Some((_, reason)) = best else { return };
        if !act.random.once_in(4) {
            act.send(self.everybody(), Message::TimedOut(reason.clone()).encode());
        }
        self.chosen.insert((slot, view), reason);
    }

    /// For the leader of the next view: the chosen TC, and the value it requires.
    fn chosen_reason(&self, prepare: &SignedPrepare) -> Option<SignedPrepare> {
        let slot = prepare.cut.slot;
        let reason = self.chosen.get(&(slot, View(prepare.view.0.checked_sub(1)?)))?;
        let mut other = SignedPrepare { timeouts: Some(reason.clone()), available: Vec::new(), ..prepare.clone() };
        match select(&reason.reports, self.committee.overlap()) {
            Some(winner) => other.cut = self.known.cuts.get(&(slot, winner))?.clone(),
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
