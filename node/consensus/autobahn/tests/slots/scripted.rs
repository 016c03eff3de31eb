//! Messages that a Byzantine validator can make: anything with its own key, and certificates from shares that it
//! received.

use crate::net::{Net, index, tip};
use corniche_autobahn::{
    Signatures,
    message::{
        CommitKind, CommitQc, Context, Cut, Message, PrepareQc, Proof, Report, SignedPrepare, Slot, Statement, Timeout,
        TimeoutQc, View, Vote,
    },
};
use corniche_autobahn_testing::{FakeKeys, FakeSignatures};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

pub type Shares = BTreeMap<ValidatorIndex, corniche_autobahn::Share>;

#[derive(Clone, Copy)]
pub struct ScriptedValidator {
    pub me: ValidatorIndex,
    pub context: Context,
    pub size: usize,
}

impl ScriptedValidator {
    pub fn of(net: &Net, node: usize) -> Self {
        Self { me: index(node), context: net.context, size: net.nodes.len() }
    }

    pub fn share(&self, statement: &Statement) -> corniche_autobahn::Share {
        FakeKeys(self.me).share_digest(&self.context.statement(statement))
    }

    pub fn vote(&self, slot: Slot, view: View, cut: B256) -> Message {
        let share = self.share(&Statement::PrepareVote { slot, view, cut });
        Message::PrepareVote { vote: Vote { slot, view, cut, share }, strong: true }
    }

    pub fn ack(&self, slot: Slot, view: View, cut: B256) -> Message {
        let share = self.share(&Statement::ConfirmAck { slot, view, cut });
        Message::ConfirmAck(Vote { slot, view, cut, share })
    }

    pub fn timeout(&self, slot: Slot, view: View, voted: Option<(View, B256)>, confirmed: Option<PrepareQc>) -> Timeout {
        let report = Report { confirmed: confirmed.as_ref().map(|certificate| (certificate.view, certificate.cut)), voted };
        let share = self.share(&Statement::Timeout { slot, view, report });
        Timeout { slot, view, report, share, confirmed, cuts: Vec::new() }
    }

    /// A cut of empty lanes; `time` distinguishes two of them.
    pub fn cut(&self, slot: u64, anchor: B256, time: u64) -> Cut {
        let tips = (0..self.size).map(|lane| tip(&self.context, lane, 0)).collect();
        Cut { slot: Slot(slot), anchor, time: TimestampMs(time), tips }
    }

    pub fn prepare(&self, view: View, cut: Cut, previous: Option<CommitQc>, timeouts: Option<TimeoutQc>) -> Message {
        let digest = self.context.prepare(cut.slot, view, self.context.cut(&cut));
        let signature = FakeKeys(self.me).sign_digest(&digest);
        Message::Prepare(SignedPrepare { view, cut, signature, available: Vec::new(), previous, timeouts })
    }

    pub fn prepare_certificate(slot: Slot, view: View, cut: B256, shares: &Shares) -> PrepareQc {
        PrepareQc { slot, view, cut, weak: Vec::new(), proof: proof(shares) }
    }

    pub fn commit_certificate(kind: CommitKind, slot: Slot, view: View, cut: B256, shares: &Shares) -> CommitQc {
        CommitQc { kind, slot, view, cut, proof: proof(shares) }
    }

    /// A TC of exactly these TIMEOUTs.
    pub fn timeouts(slot: Slot, view: View, timeouts: &BTreeMap<ValidatorIndex, Timeout>) -> TimeoutQc {
        let shares = timeouts.iter().map(|(sender, timeout)| (*sender, timeout.share.clone())).collect();
        let confirmed = timeouts.values().filter_map(|timeout| timeout.confirmed.clone()).max_by_key(|it| it.view);
        let reports = timeouts.values().map(|timeout| timeout.report).collect();
        TimeoutQc { slot, view, reports, proof: proof(&shares), confirmed }
    }
}

pub fn proof(shares: &Shares) -> Proof {
    let list: Vec<_> = shares.iter().map(|(signer, share)| (*signer, share.clone())).collect();
    Proof { signers: shares.keys().copied().collect(), seal: FakeSignatures.combine(&list).expect("well-formed") }
}
