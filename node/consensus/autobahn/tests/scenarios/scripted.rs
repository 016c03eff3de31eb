//! Validator 0 under the test's control: cars of its lane, its votes, its proposals.

use crate::cluster::{Cluster, index};
use corniche_autobahn::{
    Config, Signatures,
    message::{
        Availability, Car, CommitQc, Context, Cut, Message, Proof, SignedCar, SignedPrepare, Slot, Statement, Tip, View,
    },
};
use corniche_autobahn_testing::{FakeKeys, FakeSignatures};
use corniche_types::ValidatorIndex;

pub const FORKER: ValidatorIndex = ValidatorIndex(0);

/// Plays the owner of lane 0, whose node is off.
#[derive(Clone)]
pub struct ScriptedValidator {
    pub context: Context,
    nonce: u64,
}

impl ScriptedValidator {
    pub fn new(context: Context) -> Self {
        Self { context, nonce: 0 }
    }

    pub fn car(&mut self, parent: Tip, certificate: Option<Availability>, bytes: usize) -> SignedCar {
        self.nonce += 1;
        let batch = format!("{:0>bytes$}", self.nonce).into_bytes().into();
        let car = Car { lane: FORKER, position: parent.position.next(), parent: parent.digest, batch };
        let signature = FakeKeys(FORKER).sign_digest(&self.context.car(&car));
        SignedCar { car, signature, certificate }
    }

    pub fn tip(&self, car: &SignedCar) -> Tip {
        Tip { lane: FORKER, position: car.car.position, digest: self.context.car(&car.car) }
    }

    /// The certificate from the votes of these validators, which must have voted.
    pub fn certificate(&self, cluster: &Cluster, tip: Tip, voters: &[usize]) -> Availability {
        let digest = self.context.statement(&Statement::CarVote(tip));
        let mut shares = vec![(FORKER, FakeKeys(FORKER).share_digest(&digest))];
        for voter in voters {
            let voted = |message: &Message| matches!(message, Message::CarVote { tip: voted, .. } if *voted == tip);
            assert!(cluster.seen(*voter).count(voted) > 0, "{voter} voted for {tip:?}");
            shares.push((index(*voter), FakeKeys(index(*voter)).share_digest(&digest)));
        }
        let seal = FakeSignatures.combine(&shares).unwrap();
        Availability { tip, proof: Proof { signers: shares.into_iter().map(|(signer, _)| signer).collect(), seal } }
    }

    /// PREPARE of a first view that it leads.
    pub fn prepare(&self, cut: Cut, available: Vec<Availability>, previous: Option<CommitQc>) -> Message {
        let digest = self.context.prepare(cut.slot, View(0), self.context.cut(&cut));
        let signature = FakeKeys(FORKER).sign_digest(&digest);
        Message::Prepare(SignedPrepare { view: View(0), cut, signature, available, previous, timeouts: None })
    }

    /// The next slot that it leads: a cut without news, and the certificate of its anchor.
    pub fn next_cut(&self, cluster: &Cluster) -> (Cut, Option<CommitQc>) {
        let committed = cluster.seen(1).log.last().map_or(0, |(_, ordered)| ordered.index.0);
        let slot = Slot(committed + 4 - committed % 4);
        let sent = || (1..4).flat_map(|node| cluster.seen(node).sent.iter().map(|(_, _, message)| message));
        let of_anchor = |message: &Message| match message {
            Message::Commit(commit) if commit.slot.0 + 4 == slot.0 => Some(commit.clone()),
            _ => None,
        };
        let previous = sent().find_map(of_anchor);
        let value = previous.as_ref().map(|commit| commit.cut).unwrap_or_default();
        let cut = |message: &Message| match message {
            Message::Prepare(prepare) if self.context.cut(&prepare.cut) == value => Some(prepare.cut.tips.clone()),
            _ => None,
        };
        let start = || cluster.committee.indices().map(|lane| self.context.start(lane)).collect();
        let tips = sent().find_map(cut).unwrap_or_else(start);
        (Cut { slot, anchor: value, time: cluster.simulation.now().timestamp(), tips }, previous)
    }
}

pub fn tell(cluster: &mut Cluster, to: usize, message: &Message) {
    cluster.tell(FORKER.as_usize(), to, message);
}

/// All nodes except the forker's own, and a scripted validator for the forker.
pub fn without_owner(config: Config) -> (Cluster, ScriptedValidator) {
    let mut cluster = Cluster::new(4, config);
    cluster.simulation.crash(0);
    let context = Context::new(&cluster.committee);
    (cluster, ScriptedValidator::new(context))
}
