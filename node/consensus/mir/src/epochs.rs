//! Changes of epochs: gracious ones (3.5) and ungracious ones (3.6).
//!
//! A primary offers a configuration. Members vote for it with ECHO, at most once for each epoch, and an epoch begins with the
//! ECHOs of a quorum (X7). The certificate convinces latecomers by itself.

use crate::{
    engine::Mir,
    journal::AfterDurable,
    keys::Signature,
    message::{EpochCertificate, EpochChange, EpochConfig, EpochNumber, Message, NewEpoch, Sn, Statement},
    record::Record,
    rules,
};
use corniche_engine::{Output, Recipients};
use corniche_types::{B256, ValidatorIndex};
use std::{collections::BTreeMap, sync::Arc};

/// Maximum distance of an epoch from the current one, or from the one that this member left for: of those that it wants to move to,
/// and of offers. So it bounds the number of offers that are kept.
pub(crate) const MAX_AHEAD: u64 = 4;
/// Maximum of the pause, in `resend_ms`, until a member asks for missing EPOCH-CHANGEs again.
const MAX_PAUSE: u32 = 16;

enum Verdict {
    Acceptable,
    /// Something is missing here.
    NotYet,
    /// It does not follow from its EPOCH-CHANGEs.
    Never,
}

/// Progress towards the next epoch.
#[derive(Default)]
pub(crate) struct Changes {
    /// The newest EPOCH-CHANGE of each member, with its digest.
    received: BTreeMap<ValidatorIndex, (Arc<EpochChange>, B256)>,
    /// EPOCH-CHANGEs that the offers refer to.
    relayed: BTreeMap<(ValidatorIndex, B256), Arc<EpochChange>>,
    /// EPOCH-CHANGEs that the own offer refers to.
    used: BTreeMap<ValidatorIndex, Arc<EpochChange>>,
    /// The newest epoch that this member left for, on disk.
    left: Option<EpochNumber>,
    /// The own EPOCH-CHANGE for the target, once it is visible.
    own: Option<Arc<EpochChange>>,
    /// The newest offer for each later epoch.
    offers: BTreeMap<EpochNumber, NewEpoch>,
    /// The newest ECHO of each member.
    echoes: BTreeMap<ValidatorIndex, (EpochNumber, B256, Signature)>,
    /// The newest epoch that this member voted for a configuration of, on disk.
    echoed: Option<EpochNumber>,
    /// The own ECHO is visible.
    has_echoed: bool,
    /// The newest configuration that this member computed from EPOCH-CHANGEs itself.
    pub checked: Option<(EpochNumber, B256)>,
    /// M11: suspects when this member left the current epoch, first ones first. None if it suspected nobody itself.
    suspects: Vec<ValidatorIndex>,
    /// Times that this change was found unfinished. After 1, 2, 4, 8... of them, at most [`MAX_PAUSE`], others are asked for their
    /// EPOCH-CHANGEs.
    attempts: u32,
}

impl Changes {
    /// Forgets everything about epochs up to this one.
    fn forget(&mut self, epoch: EpochNumber) {
        self.received.retain(|_, (change, _)| change.target > epoch);
        self.offers.retain(|of, _| *of > epoch);
        self.echoes.retain(|_, (of, ..)| *of > epoch);
        self.own.take_if(|own| own.target <= epoch);
        self.relayed.clear();
        self.used.clear();
        self.suspects.clear();
        (self.has_echoed, self.attempts) = (false, 0);
    }

    fn find(&self, member: ValidatorIndex, digest: B256) -> Option<&EpochChange> {
        let received = self.received.get(&member).filter(|(_, of)| *of == digest).map(|(change, _)| change);
        received.or_else(|| self.relayed.get(&(member, digest))).map(|change| &**change)
    }

    fn is_referred_to(&self, member: ValidatorIndex, digest: B256) -> bool {
        self.offers.values().any(|offer| offer.changes.contains(&(member, digest)))
    }

    /// Keeps an offer, and forgets EPOCH-CHANGEs that only an earlier one referred to.
    fn insert_offer(&mut self, offer: NewEpoch) {
        self.offers.insert(offer.config.epoch, offer);
        let mut relayed = std::mem::take(&mut self.relayed);
        relayed.retain(|(member, digest), _| self.is_referred_to(*member, *digest));
        self.relayed = relayed;
    }

    pub fn has_echoed(&self) -> bool {
        self.has_echoed
    }

    pub fn count(&self) -> usize {
        self.received.len() + self.relayed.len() + self.used.len() + self.echoes.len()
    }

    pub fn describe(&self) -> String {
        let changes: Vec<_> = self.received.iter().map(|(member, (change, _))| (member.0, change.target.0)).collect();
        let echoes: Vec<_> = self.echoes.iter().map(|(member, (epoch, ..))| (member.0, epoch.0)).collect();
        let offers: Vec<_> = self.offers.iter().map(|(epoch, offer)| (epoch.0, offer.changes.len())).collect();
        format!("changes {changes:?}, offers {offers:?}, echoes {echoes:?}")
    }
}

impl Mir {
    // ---- leaving an epoch ----------------------------------------------------------------------------------------------------

    /// U3, and a departure: a member leaves when members with F + 1 votes, itself included, want to.
    pub(crate) fn consider_leaving(&mut self) {
        let mut wants = self.sync.wants();
        wants.insert(self.me, self.wants());
        let Some(target) = self.committee.weights().reached(wants, self.committee.validity()) else { return };
        if target > self.epoch.epoch && self.promises.target.is_none_or(|before| target > before) {
            self.leave(target);
        }
    }

    /// U1: stops voting in this epoch. The EPOCH-CHANGE leaves when this is on disk.
    fn leave(&mut self, target: EpochNumber) {
        if self.is_normal() {
            self.changes.suspects = self.suspects();
        }
        self.note("epoch-left", format!("{} for {target}", self.epoch.epoch));
        self.promises.target = Some(target);
        self.timers.begin_change(&self.config);
        (self.changes.own, self.changes.attempts) = (None, 0);
        self.persist(&Record::Left(target), Some(AfterDurable::Left(target)));
    }

    /// The record of [`Self::leave`] is on disk.
    pub(crate) fn handle_left(&mut self, target: EpochNumber) {
        self.changes.left = Some(target);
        self.send_change();
    }

    /// U2.
    pub(crate) fn send_change(&mut self) {
        let Some(target) = self.promises.target.filter(|target| self.changes.left == Some(*target)) else { return };
        if !self.may_change(target) || self.changes.own.is_some() {
            return;
        }
        let mut change = self.promises.change(self.me, target, &self.prepared);
        let digest = self.context.change(&change);
        let Some(signature) = self.sign(&Statement::EpochChange(digest)) else { return };
        change.signature = signature;
        self.broadcast(&Message::EpochChange(Box::new(change.clone())));
        let change = Arc::new(change);
        self.changes.own = Some(change.clone());
        self.changes.received.insert(self.me, (change, digest));
    }

    pub(crate) fn handle_change(&mut self, from: ValidatorIndex, change: EpochChange, digest: B256) {
        change.checkpoint.iter().for_each(|checkpoint| self.learn_checkpoint(checkpoint.clone()));
        change.certificate.iter().for_each(|certificate| self.handle_certificate(certificate.clone()));
        if change.target <= self.epoch.epoch {
            return;
        }
        let (sender, target) = (change.sender, change.target);
        if from == sender {
            self.sync.note_wants(sender, target);
            // One for a much later epoch is only a want: this member asks for it when it is on its way to that epoch.
            let is_near = target <= self.highest_offer();
            if is_near && self.changes.received.get(&sender).is_none_or(|(known, _)| known.target <= target) {
                self.changes.received.insert(sender, (Arc::new(change), digest));
            }
        } else if self.changes.is_referred_to(sender, digest) {
            self.changes.relayed.insert((sender, digest), Arc::new(change));
        }
    }

    /// U4: members with a quorum of votes left for the target or a later epoch. Only then the next primary can offer a configuration,
    /// so a member that left before the others does not run ahead of them.
    pub(crate) fn is_change_backed(&self) -> bool {
        let Some(target) = self.promises.target else { return false };
        let left = self.changes.received.iter().filter(|(_, (change, _))| change.target >= target);
        self.committee.weigh(left.map(|(member, _)| *member)) >= self.committee.quorum()
    }

    // ---- offering a configuration --------------------------------------------------------------------------------------------

    /// Everything that may have become possible.
    pub(crate) fn drive_changes(&mut self) {
        self.offer_gracious();
        self.offer_ungracious();
        self.echo();
        self.certify();
    }

    /// True if this member may lead `epoch`: a silent one could not propose.
    fn may_offer(&self, epoch: EpochNumber) -> bool {
        let has_offered = self.changes.offers.contains_key(&epoch);
        rules::primary(epoch, &self.committee) == self.me && !has_offered && self.promises.remembers(epoch)
    }

    /// G1.
    fn offer_gracious(&mut self) {
        let is_finished = rules::is_finished(&self.epoch, self.order.sn());
        if !is_finished || !self.is_normal() || !self.may_offer(self.epoch.epoch.plus(1)) {
            return;
        }
        if let Some(config) = rules::gracious(&self.epoch, &self.committee, self.config.epoch_length) {
            self.offer(NewEpoch { config, changes: Vec::new() });
        }
    }

    /// U5.
    fn offer_ungracious(&mut self) {
        let Some(target) = self.promises.target.filter(|target| self.may_offer(*target)) else { return };
        let is_for_target = |(_, (change, _)): &(&ValidatorIndex, &(Arc<EpochChange>, B256))| change.target == target;
        let members = || self.changes.received.iter().filter(is_for_target);
        if self.committee.weigh(members().map(|(member, _)| *member)) < self.committee.quorum() {
            return;
        }
        let used: Vec<_> = members().map(|(_, (change, _))| &**change).collect();
        let selection = rules::select(&used, &self.committee);
        // Suspects of another epoch than the base are unknown.
        let suspects: &[_] = if selection.base.epoch == self.epoch.epoch { &self.changes.suspects } else { &[] };
        let leaders = rules::leaders_without(&selection.base, target, suspects, &self.committee);
        let config = rules::ungracious(&selection, target, leaders, &self.committee, self.config.epoch_length);
        let changes = members().map(|(member, (_, digest))| (*member, *digest)).collect();
        self.changes.used = members().map(|(member, (change, _))| (*member, change.clone())).collect();
        self.offer(NewEpoch { config, changes });
    }

    fn offer(&mut self, offer: NewEpoch) {
        self.note("epoch-offered", format!("{:?}", offer.config));
        self.broadcast(&Message::NewEpoch(Box::new(offer.clone())));
        self.changes.insert_offer(offer);
    }

    pub(crate) fn handle_fetch_changes(&mut self, from: ValidatorIndex, epoch: EpochNumber, members: &[ValidatorIndex]) {
        if epoch <= self.epoch.epoch || !self.may_respond(from) {
            return;
        }
        // The peer asks again for those that do not fit.
        let mut bytes = 0;
        for member in members {
            let used = self.changes.used.get(member).filter(|change| change.target == epoch);
            let own = self.changes.own.as_ref().filter(|change| *member == self.me && change.target >= epoch);
            let Some(change) = used.or(own).filter(|_| bytes <= self.config.fetch_bytes as usize) else { continue };
            let message = Message::EpochChange(Box::new((**change).clone())).encode();
            bytes += message.len();
            self.outputs.push_back(Output::Send { to: Recipients::One(from), message });
        }
        self.charge(from, bytes);
    }

    // ---- voting for a configuration ------------------------------------------------------------------------------------------

    pub(crate) fn handle_offer(&mut self, offer: NewEpoch) {
        let epoch = offer.config.epoch;
        let is_near = self.epoch.epoch < epoch && epoch <= self.highest_offer();
        if is_near && self.changes.offers.get(&epoch) != Some(&offer) {
            self.changes.insert_offer(offer);
            if self.changes.offers.len() > 2 * MAX_AHEAD as usize {
                self.changes.offers.pop_first();
            }
        }
    }

    /// The highest epoch about which offers and EPOCH-CHANGEs are kept.
    fn highest_offer(&self) -> EpochNumber {
        self.epoch.epoch.max(self.promises.target.unwrap_or_default()).plus(MAX_AHEAD)
    }

    /// Votes for the offer of the highest epoch that is valid and open (X2, X7).
    fn echo(&mut self) {
        let is_open = |epoch: &EpochNumber| self.promises.may_echo(*epoch);
        let open: Vec<_> = self.changes.offers.keys().copied().rev().filter(is_open).collect();
        let mut accepted = None;
        for epoch in open {
            match self.changes.offers.get(&epoch).map(|offer| (self.judge(offer), &offer.config)) {
                Some((Verdict::Acceptable, config)) => {
                    // T3: the list is complete without this member.
                    let changes = &self.changes.offers[&epoch].changes;
                    let counts = !changes.is_empty() && changes.iter().all(|(member, _)| *member != self.me);
                    accepted = Some((config.clone(), counts));
                    break;
                }
                Some((Verdict::Never, _)) => _ = self.changes.offers.remove(&epoch),
                Some((Verdict::NotYet, _)) | None => {}
            }
        }
        let Some((config, counts)) = accepted else { return };
        let (epoch, config) = (config.epoch, self.context.config(&config));
        self.promises.echoed = Some((epoch, config));
        self.changes.checked = counts.then_some((epoch, config));
        self.changes.has_echoed = false;
        self.persist(&Record::Echoed { epoch, config }, Some(AfterDurable::Echoed(epoch)));
    }

    /// G2, G5 for a gracious change; U6 for an ungracious one.
    fn judge(&self, offer: &NewEpoch) -> Verdict {
        let length = self.config.epoch_length;
        if offer.changes.is_empty() {
            let follows = rules::is_gracious(&offer.config, &self.epoch, self.order.sn(), &self.committee, length);
            let is_acceptable = self.is_normal() && follows;
            return if is_acceptable { Verdict::Acceptable } else { Verdict::NotYet };
        }
        let changes = offer.changes.iter().map(|(member, digest)| self.changes.find(*member, *digest));
        let Some(changes) = changes.collect::<Option<Vec<_>>>() else { return Verdict::NotYet };
        if rules::is_selected(&offer.config, &changes, &self.committee, length) { Verdict::Acceptable } else { Verdict::Never }
    }

    /// The record of the own ECHO is on disk.
    pub(crate) fn handle_echoed(&mut self, epoch: EpochNumber) {
        self.changes.echoed = Some(epoch);
        self.send_echo();
    }

    /// Sends the own ECHO if it is on disk.
    pub(crate) fn send_echo(&mut self) {
        let is_due = |epoch| epoch > self.epoch.epoch && self.changes.echoed == Some(epoch);
        let Some((epoch, config)) = self.promises.echoed.filter(|(epoch, _)| is_due(*epoch)) else { return };
        if let Some(signature) = self.sign(&Statement::Echo { epoch, config }) {
            self.changes.has_echoed = true;
            self.changes.echoes.insert(self.me, (epoch, config, signature));
            self.broadcast(&Message::Echo { epoch, config, signature });
        }
    }

    pub(crate) fn handle_echo(&mut self, from: ValidatorIndex, epoch: EpochNumber, config: B256, signature: Signature) {
        let is_newer = self.changes.echoes.get(&from).is_none_or(|(known, ..)| *known < epoch);
        if epoch > self.epoch.epoch && is_newer {
            self.changes.echoes.insert(from, (epoch, config, signature));
        }
    }

    /// X7: a configuration counts with ECHOs of a quorum.
    fn certify(&mut self) {
        let certificate = self.changes.offers.values().rev().find_map(|offer| {
            let (epoch, config) = (offer.config.epoch, self.context.config(&offer.config));
            let matching = self.changes.echoes.iter().filter(|(_, (of, digest, _))| (*of, *digest) == (epoch, config));
            let votes: Vec<_> = matching.map(|(member, (.., signature))| (*member, *signature)).collect();
            let is_quorum = self.committee.weigh(votes.iter().map(|(member, _)| *member)) >= self.committee.quorum();
            is_quorum.then(|| EpochCertificate { config: offer.config.clone(), votes })
        });
        certificate.into_iter().for_each(|certificate| self.handle_certificate(certificate));
    }

    // ---- entering an epoch ---------------------------------------------------------------------------------------------------

    /// G2, U6, T5: a certified configuration begins its epoch. A member that left for a later one follows in silence.
    pub(crate) fn handle_certificate(&mut self, certificate: EpochCertificate) {
        let config = &certificate.config;
        if config.epoch <= self.epoch.epoch {
            return;
        }
        if let Some(sn) = self.contradiction(config) {
            return self.halt(format!("epoch {} begins with another batch {sn}", config.epoch));
        }
        self.note("epoch-entered", format!("{config:?}"));
        let before = std::mem::replace(&mut self.epoch, config.clone());
        self.absence.begin_epoch([&before.leaders, &self.epoch.leaders], self.now, &self.config);
        self.persist(&Record::Entered(certificate.clone()), None);
        self.promises.enter(certificate);
        self.instances.clear();
        self.unsigned.clear();
        self.changes.forget(self.epoch.epoch);
        if self.is_normal() {
            self.timers.enter_epoch();
        }
        self.begin_epoch();
        for (from, checked) in self.early.take() {
            let digest = checked.digest;
            if let Some(checked) = self.early.keep(from, checked, self.epoch.epoch, &self.config) {
                self.handle_timely(from, checked.message, digest);
            }
        }
    }

    /// A number that the configuration lists with another batch than the one that was committed in an earlier epoch. Batches learnt
    /// from others may be of later epochs, which need not agree with this configuration.
    fn contradiction(&self, config: &EpochConfig) -> Option<Sn> {
        let listed = (config.start.0 + 1..).map(Sn).zip(&config.listed);
        let is_earlier = |sn: &Sn| self.decided_in.get(sn).is_some_and(|epoch| *epoch < config.epoch);
        let differs =
            |(sn, digest): &(Sn, &B256)| is_earlier(sn) && self.log.get(sn).is_some_and(|committed| committed != *digest);
        listed.into_iter().find(differs).map(|(sn, _)| sn)
    }

    /// U8, U9: the listed batches count as proposed, and fresh ones may follow. Also after a restart.
    pub(crate) fn begin_epoch(&mut self) {
        let highest = self.instances.iter().rev().find(|(_, instance)| instance.offered.is_some()).map(|(sn, _)| *sn);
        self.restart_proposals(highest.unwrap_or_default());
        self.offer_listed();
        self.start_timers();
        self.accept_all();
    }

    /// U8: the listed batches within the window count as proposed.
    pub(crate) fn offer_listed(&mut self) {
        let listed = (self.epoch.start.0 + 1..).map(Sn).zip(self.epoch.listed.iter().copied());
        let kept: Vec<_> = listed.filter(|(sn, _)| self.is_kept(*sn)).collect();
        for (sn, digest) in kept {
            let instance = self.instances.entry(sn).or_default();
            instance.offered = instance.offered.or(Some(digest));
            self.proposer.note_offer(sn);
        }
    }

    // ---- repetition ----------------------------------------------------------------------------------------------------------

    /// Asks for EPOCH-CHANGEs that are missing, and repeats the own ECHO.
    pub(crate) fn resend_changes(&mut self) {
        self.changes.attempts = self.changes.attempts.saturating_add(1);
        if self.changes.attempts.is_power_of_two() || self.changes.attempts.is_multiple_of(MAX_PAUSE) {
            self.fetch_changes();
        }
        if self.changes.has_echoed {
            self.send_echo();
        }
    }

    /// Asks every member for its own EPOCH-CHANGE, and the primaries for those that they refer to. EPOCH-CHANGEs are large, so nobody
    /// repeats one unasked.
    fn fetch_changes(&mut self) {
        let mut wanted: BTreeMap<(EpochNumber, ValidatorIndex), Vec<ValidatorIndex>> = BTreeMap::new();
        if let Some(target) = self.promises.target {
            let is_known = |member| self.changes.received.get(&member).is_some_and(|(change, _)| change.target >= target);
            for member in self.committee.indices().filter(|member| !is_known(*member)) {
                wanted.insert((target, member), vec![member]);
            }
        }
        for offer in self.changes.offers.values() {
            let epoch = offer.config.epoch;
            let missing = offer.changes.iter().filter(|(member, digest)| self.changes.find(*member, *digest).is_none());
            let members = wanted.entry((epoch, rules::primary(epoch, &self.committee))).or_default();
            missing.for_each(|(member, _)| {
                if !members.contains(member) {
                    members.push(*member)
                }
            });
        }
        wanted.retain(|(_, peer), members| *peer != self.me && !members.is_empty());
        for ((epoch, peer), members) in wanted {
            self.send(peer, &Message::FetchChanges { epoch, members });
        }
    }

    /// Sends a peer of an earlier epoch what it needs to enter the next one.
    pub(crate) fn send_changes(&mut self, peer: ValidatorIndex, epoch: EpochNumber) {
        let offers =
            self.changes.offers.values().filter(|offer| rules::primary(offer.config.epoch, &self.committee) == self.me);
        let mut messages: Vec<_> =
            offers.filter(|offer| offer.config.epoch > epoch).map(|offer| Message::NewEpoch(Box::new(offer.clone()))).collect();
        if let Some((of, config, signature)) = self.changes.echoes.get(&self.me).copied().filter(|(of, ..)| *of > epoch) {
            messages.push(Message::Echo { epoch: of, config, signature });
        }
        messages.iter().for_each(|message| self.send(peer, message));
    }
}
