//! Checks that no honest validator can be convicted, whatever crashes: everything that it sends is compared with all that it sent before.

use corniche_autobahn::message::{Context, Message, Report, Slot, Timeout, View, Vote};
use corniche_engine::Committee;
use corniche_types::evidence::{Contradiction, SlotReport, SlotVote, VoteKind};
use corniche_types::{B256, Bytes, ValidatorIndex};
use std::collections::BTreeMap;

/// Statements of each validator for each slot, over all its lives.
pub struct Accuser {
    context: Context,
    sent: BTreeMap<(usize, Slot), Sent>,
}

/// Statements of one validator for one slot, with their views.
#[derive(Default)]
struct Sent {
    prepares: Vec<(u32, B256)>,
    votes: Vec<(u32, SlotVote)>,
    timeouts: Vec<(u32, SlotReport)>,
}

impl Accuser {
    pub fn new(committee: &Committee) -> Self {
        Self { context: Context::new(committee), sent: BTreeMap::new() }
    }

    /// Compares a message of an honest validator with its earlier ones.
    pub fn check(&mut self, from: usize, message: &Message) {
        match message {
            Message::Prepare(prepare) => {
                let cut = self.context.cut(&prepare.cut);
                self.slot(from, prepare.cut.slot).prepares.push((prepare.view.0, cut));
                self.compare(from, prepare.cut.slot);
            }
            Message::PrepareVote { vote, strong } => {
                self.vote(from, vote, if *strong { VoteKind::Prepared } else { VoteKind::PreparedWeakly });
            }
            Message::ConfirmAck(vote) => self.vote(from, vote, VoteKind::Confirmed),
            Message::Timeout(timeout) => {
                self.slot(from, timeout.slot).timeouts.push((timeout.view.0, report(&timeout.report)));
                self.compare(from, timeout.slot);
            }
            _ => {}
        }
    }

    fn vote(&mut self, from: usize, vote: &Vote, kind: VoteKind) {
        let (view, vote_of_slot) = (vote.view.0, SlotVote { kind, cut: vote.cut, share: Bytes::new() });
        let sent = self.slot(from, vote.slot);
        if !sent.votes.contains(&(view, vote_of_slot.clone())) {
            sent.votes.push((view, vote_of_slot));
            self.compare(from, vote.slot);
        }
    }

    fn slot(&mut self, from: usize, slot: Slot) -> &mut Sent {
        self.sent.entry((from, slot)).or_default()
    }

    /// Compares the newest PREPARE with the others, and each vote with all votes and TIMEOUTs of the slot.
    fn compare(&self, from: usize, slot: Slot) {
        let Sent { prepares, votes, timeouts } = &self.sent[&(from, slot)];
        let mut pairs = Vec::new();
        if let Some((view, cut)) = prepares.last() {
            let others = prepares.iter().filter(|(other, _)| other == view);
            pairs.extend(
                others.filter_map(|(_, other)| Contradiction::of_prepares(slot.0, *view, (*cut, [0; 64]), (*other, [0; 64]))),
            );
        }
        for (view, vote) in votes {
            let others = votes.iter().filter(|(other, _)| other == view);
            pairs.extend(others.map(|(_, other)| Contradiction::Votes {
                slot: slot.0,
                view: *view,
                votes: [vote.clone(), other.clone()],
            }));
            pairs.extend(timeouts.iter().map(|(timed_out, report)| Contradiction::ForgottenVote {
                slot: slot.0,
                voted_in: *view,
                vote: vote.clone(),
                view: *timed_out,
                report: *report,
                share: Bytes::new(),
            }));
        }
        let found = pairs.iter().find(|pair| pair.holds(ValidatorIndex(0)));
        assert!(found.is_none(), "validator {from} contradicts itself: {found:?}");
    }
}

fn report(report: &Report) -> SlotReport {
    let plain = |named: Option<(View, B256)>| named.map(|(view, cut)| (view.0, cut));
    SlotReport { confirmed: plain(report.confirmed), voted: plain(report.voted) }
}

#[test]
#[should_panic(expected = "validator 2 contradicts itself")]
fn forgotten_vote_is_found() {
    let mut accuser = Accuser::new(&corniche_autobahn_testing::committee_of(&[1; 4]));
    let (slot, view, share) = (Slot(5), View(1), Bytes::new());
    let vote = Vote { slot, view, cut: B256::ZERO, share: share.clone() };
    accuser.check(2, &Message::PrepareVote { vote, strong: true });
    let report = Report::default();
    accuser.check(2, &Message::Timeout(Timeout { slot, view, report, share, confirmed: None, cuts: Vec::new() }));
}
