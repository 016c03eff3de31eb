//! Data that the doubles have seen, and the certificates that they can make from it.

use crate::{FakeKeys, FakeSignatures};
use corniche_autobahn::{
    Share, Signatures,
    message::{
        Availability, CommitKind, CommitQc, Context, Cut, Message, PrepareQc, Proof, Slot, Statement, Timeout, TimeoutQc, Tip,
        View,
    },
};
use corniche_engine::Committee;
use corniche_types::{B256, ValidatorIndex, Votes};
use std::collections::{BTreeMap, BTreeSet};

/// Number of past slots that are remembered.
pub const RETAINED_SLOTS: u64 = 24;
/// Number of remembered car certificates.
const RETAINED_TIPS: usize = 512;

pub type Shares = BTreeMap<ValidatorIndex, Share>;
type Place = (Slot, View, B256);

pub struct Knowledge {
    committee: Committee,
    context: Context,
    members: BTreeSet<ValidatorIndex>,
    pub cuts: BTreeMap<(Slot, B256), Cut>,
    pub available: BTreeMap<Tip, Availability>,
    held: BTreeMap<Tip, Shares>,
    votes: BTreeMap<Place, Shares>,
    acks: BTreeMap<Place, Shares>,
    /// Certificates of views: all of one view name one value.
    pub prepared: BTreeMap<(Slot, View), PrepareQc>,
    /// Certificates of slots: all of one slot name one value.
    pub commits: BTreeMap<Slot, CommitQc>,
    /// TIMEOUTs of correct validators.
    pub timeouts: BTreeMap<(Slot, View), BTreeMap<ValidatorIndex, Timeout>>,
    /// The highest slot seen.
    pub top: Slot,
    /// Set if two certificates contradict each other.
    pub contradiction: Option<String>,
}

impl Knowledge {
    pub fn new(committee: &Committee, members: BTreeSet<ValidatorIndex>) -> Self {
        Self {
            committee: committee.clone(),
            context: Context::new(committee),
            members,
            cuts: BTreeMap::new(),
            available: BTreeMap::new(),
            held: BTreeMap::new(),
            votes: BTreeMap::new(),
            acks: BTreeMap::new(),
            prepared: BTreeMap::new(),
            commits: BTreeMap::new(),
            timeouts: BTreeMap::new(),
            top: Slot(0),
            contradiction: None,
        }
    }

    /// Learns from a message of `from`.
    pub fn learn(&mut self, from: ValidatorIndex, message: &Message) {
        match message {
            Message::Car(car) => self.learn_available(car.certificate.as_ref()),
            Message::Available(certificate) => self.learn_available(Some(certificate)),
            Message::CarVote { tip, share } => {
                let shares = self.held.entry(*tip).or_default();
                shares.insert(from, share.clone());
            }
            Message::Prepare(prepare) => {
                self.learn_cut(&prepare.cut);
                prepare.available.iter().for_each(|certificate| self.learn_available(Some(certificate)));
                self.learn_commit(prepare.previous.as_ref());
                self.learn_prepared(prepare.timeouts.as_ref().and_then(|reason| reason.confirmed.as_ref()));
            }
            Message::PrepareVote { vote, strong: true } => {
                let place = (vote.slot, vote.view, vote.cut);
                self.votes.entry(place).or_default().insert(from, vote.share.clone());
                self.learn_prepared(self.prepare_certificate(place).as_ref());
                self.learn_commit(self.commit_certificate(CommitKind::Fast, place).as_ref());
            }
            Message::Confirm(certificate) => self.learn_prepared(Some(certificate)),
            Message::ConfirmAck(vote) => {
                let place = (vote.slot, vote.view, vote.cut);
                self.acks.entry(place).or_default().insert(from, vote.share.clone());
                self.learn_commit(self.commit_certificate(CommitKind::Slow, place).as_ref());
            }
            Message::Commit(certificate) => self.learn_commit(Some(certificate)),
            Message::Timeout(timeout) => {
                timeout.cuts.iter().for_each(|cut| self.learn_cut(cut));
                self.learn_prepared(timeout.confirmed.as_ref());
                if !self.members.contains(&from) {
                    let of_view = self.timeouts.entry((timeout.slot, timeout.view)).or_default();
                    of_view.entry(from).or_insert_with(|| timeout.clone());
                }
            }
            Message::TimeoutQc(reason) => self.learn_prepared(reason.confirmed.as_ref()),
            Message::Cut(cut) => self.learn_cut(cut),
            Message::Status(status) => self.learn_commit(status.committed.as_ref()),
            Message::Commits(commits) => {
                for (cut, certificate) in commits {
                    self.learn_cut(cut);
                    self.learn_commit(Some(certificate));
                }
            }
            _ => {}
        }
        self.forget();
    }

    fn learn_available(&mut self, certificate: Option<&Availability>) {
        self.available.extend(certificate.map(|certificate| (certificate.tip, certificate.clone())));
    }

    pub fn learn_cut(&mut self, cut: &Cut) {
        self.top = self.top.max(cut.slot);
        self.cuts.insert((cut.slot, self.context.cut(cut)), cut.clone());
    }

    fn learn_prepared(&mut self, certificate: Option<&PrepareQc>) {
        let Some(certificate) = certificate else { return };
        let (slot, view) = (certificate.slot, certificate.view);
        let first = self.prepared.entry((slot, view)).or_insert_with(|| certificate.clone());
        if first.cut != certificate.cut {
            self.contradiction = Some(format!("agreement: two values certified in slot {} view {}", slot.0, view.0));
        }
    }

    fn learn_commit(&mut self, certificate: Option<&CommitQc>) {
        let Some(certificate) = certificate else { return };
        let first = self.commits.entry(certificate.slot).or_insert_with(|| certificate.clone());
        if first.cut != certificate.cut {
            let (slot, views) = (certificate.slot.0, [first.view.0, certificate.view.0]);
            self.contradiction = Some(format!("agreement: slot {slot} has two values, of views {views:?}"));
        }
    }

    fn forget(&mut self) {
        let old = Slot(self.top.0.saturating_sub(RETAINED_SLOTS));
        if self.cuts.first_key_value().is_some_and(|((slot, _), _)| *slot < old) {
            self.cuts = self.cuts.split_off(&(old, B256::ZERO));
            self.votes = self.votes.split_off(&(old, View(0), B256::ZERO));
            self.acks = self.acks.split_off(&(old, View(0), B256::ZERO));
            self.prepared = self.prepared.split_off(&(old, View(0)));
            self.commits = self.commits.split_off(&old);
            self.timeouts = self.timeouts.split_off(&(old, View(0)));
        }
        while self.available.len() > RETAINED_TIPS {
            self.available.pop_first();
        }
        while self.held.len() > RETAINED_TIPS {
            self.held.pop_first();
        }
    }

    // ---- signatures of the members -------------------------------------------------------------------------------------

    pub fn share(&self, member: ValidatorIndex, statement: &Statement) -> Share {
        assert!(self.members.contains(&member), "only members' keys are available");
        FakeKeys(member).share_digest(&self.context.statement(statement))
    }

    /// Adds the shares of all members.
    fn with_member_shares(&self, shares: Option<&Shares>, statement: &Statement) -> Shares {
        let own = self.members.iter().map(|member| (*member, self.share(*member, statement)));
        shares.into_iter().flatten().map(|(signer, share)| (*signer, share.clone())).chain(own).collect()
    }

    fn weigh(&self, shares: &Shares) -> Votes {
        self.committee.weigh(shares.keys().copied())
    }

    /// Makes a car's certificate if enough validators voted for it.
    pub fn availability(&self, tip: Tip) -> Option<Availability> {
        let shares = self.with_member_shares(self.held.get(&tip), &Statement::CarVote(tip));
        (self.weigh(&shares) >= self.committee.validity()).then(|| Availability { tip, proof: proof(&shares) })
    }

    fn prepare_certificate(&self, place: Place) -> Option<PrepareQc> {
        let (slot, view, cut) = place;
        let shares = self.with_member_shares(self.votes.get(&place), &Statement::PrepareVote { slot, view, cut });
        let enough = self.weigh(&shares) >= self.committee.quorum();
        enough.then(|| PrepareQc { slot, view, cut, weak: Vec::new(), proof: proof(&shares) })
    }

    pub fn commit_certificate(&self, kind: CommitKind, place: Place) -> Option<CommitQc> {
        let (slot, view, cut) = place;
        let (shares, least) = match kind {
            CommitKind::Fast => {
                let statement = Statement::PrepareVote { slot, view, cut };
                (self.with_member_shares(self.votes.get(&place), &statement), self.committee.total())
            }
            CommitKind::Slow => {
                let statement = Statement::ConfirmAck { slot, view, cut };
                (self.with_member_shares(self.acks.get(&place), &statement), self.committee.quorum())
            }
        };
        (self.weigh(&shares) >= least).then(|| CommitQc { kind, slot, view, cut, proof: proof(&shares) })
    }

    /// P3: votes presented as acknowledgements. No correct validator may accept it.
    pub fn false_commit(&self, slot: Slot, view: View) -> Option<CommitQc> {
        let PrepareQc { cut, proof, .. } = self.prepared.get(&(slot, view))?.clone();
        Some(CommitQc { kind: CommitKind::Slow, slot, view, cut, proof })
    }

    /// Makes a TC of these complaints, which may be lies.
    pub fn timeout_certificate(slot: Slot, view: View, timeouts: &BTreeMap<ValidatorIndex, Timeout>) -> TimeoutQc {
        let shares = timeouts.iter().map(|(sender, timeout)| (*sender, timeout.share.clone())).collect();
        let confirmed = timeouts.values().filter_map(|timeout| timeout.confirmed.clone()).max_by_key(|it| (it.view, it.cut));
        let reports = timeouts.values().map(|timeout| timeout.report).collect();
        TimeoutQc { slot, view, reports, proof: proof(&shares), confirmed }
    }
}

fn proof(shares: &Shares) -> Proof {
    let list: Vec<_> = shares.iter().map(|(signer, share)| (*signer, share.clone())).collect();
    Proof { signers: shares.keys().copied().collect(), seal: FakeSignatures.combine(&list).expect("well-formed") }
}
