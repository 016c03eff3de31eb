//! Checkpoints and garbage (3.10).

use crate::{
    engine::Mir,
    journal::AfterDurable,
    keys::Signature,
    message::{CheckpointCertificate, Message, Sn, Statement},
    record::Record,
};
use corniche_types::{B256, ValidatorIndex};

/// Numbers by which the floor rises at once.
const RELEASE_STEP: u64 = 16;

/// Checkpoints on disk.
#[derive(Clone, Copy, Default)]
pub(crate) struct DurableCheckpoints {
    /// The last one up to which all commits are on disk.
    pub delivered: Sn,
    /// The stable one.
    pub stable: Sn,
}

impl Mir {
    /// K1: after every C numbers, when their commits are on disk. Otherwise a stable checkpoint could exist of which nobody has the
    /// batches after a power cut: members forget certificates below it.
    ///
    /// T3: not above the window of the stable checkpoint on disk. So a member that lost its disk learns how far it voted.
    fn may_sign_checkpoint(&self, sn: Sn) -> bool {
        sn > self.stable() && sn <= self.durable.delivered && sn <= self.durable.stable.plus(self.config.window)
    }

    /// Sends the own votes that became possible, perhaps because more is on disk.
    pub(crate) fn vote_checkpoints(&mut self, durable: DurableCheckpoints) {
        self.durable = durable;
        for (sn, hash) in self.order.marks() {
            let has_voted = self.checkpoint_votes.get(&sn).is_some_and(|votes| votes.contains_key(&self.me));
            if !has_voted
                && self.may_sign_checkpoint(sn)
                && let Some(signature) = self.sign(&Statement::Checkpoint { sn, hash })
            {
                self.broadcast(&Message::Checkpoint { sn, hash, signature });
                self.handle_checkpoint(self.me, sn, hash, signature);
            }
        }
    }

    /// Sends all own votes above the stable checkpoint of a peer.
    pub(crate) fn send_checkpoints(&mut self, peer: ValidatorIndex, stable: Sn) {
        if let Some(checkpoint) = self.promises.stable.clone().filter(|checkpoint| checkpoint.sn > stable) {
            self.send(peer, &Message::StableCheckpoint(checkpoint));
        }
        let votes = self.checkpoint_votes.range(stable.next()..).filter_map(|(sn, votes)| Some((*sn, *votes.get(&self.me)?)));
        for (sn, (hash, signature)) in votes.collect::<Vec<_>>() {
            self.send(peer, &Message::Checkpoint { sn, hash, signature });
        }
    }

    /// K2: stable with the votes of a quorum, the own one included if this member has reached it.
    pub(crate) fn handle_checkpoint(&mut self, from: ValidatorIndex, sn: Sn, hash: B256, signature: Signature) {
        if !self.is_kept(sn) || !sn.0.is_multiple_of(self.config.checkpoint_interval) {
            return;
        }
        let votes = self.checkpoint_votes.entry(sn).or_default();
        votes.insert(from, (hash, signature));
        let matching = votes.iter().filter(|(_, (of, _))| *of == hash);
        let votes: Vec<_> = matching.map(|(member, (_, signature))| (*member, *signature)).collect();
        if self.committee.weigh(votes.iter().map(|(member, _)| *member)) >= self.committee.quorum() {
            self.learn_checkpoint(CheckpointCertificate { sn, hash, votes });
        }
    }

    /// K2: the window moves. Batches up to the checkpoint are decided, perhaps not here yet.
    pub(crate) fn learn_checkpoint(&mut self, checkpoint: CheckpointCertificate) {
        let CheckpointCertificate { sn, hash, .. } = checkpoint;
        if sn <= self.stable() {
            return;
        }
        if self.order.mark(sn).is_some_and(|own| own != hash) {
            return self.halt(format!("another checkpoint of {sn} is stable"));
        }
        self.persist(&Record::Stable(checkpoint.clone()), Some(AfterDurable::Stable(sn)));
        self.promises.stable = Some(checkpoint);
        self.instances = self.instances.split_off(&sn.next());
        self.sync.forget_sent_through(sn);
        self.prepared = self.prepared.split_off(&sn.next());
        self.checkpoint_votes = self.checkpoint_votes.split_off(&sn.next());
        // T3: a silent member may send its EPOCH-CHANGE from some checkpoint on.
        self.send_change();
        self.offer_listed();
        self.start_timers();
        self.accept_all();
        self.collect_garbage();
    }

    pub(crate) fn handle_certified(&mut self, sn: Sn) {
        self.sync.certified = self.sync.certified.max(sn);
        self.collect_garbage();
    }

    /// K4: delivered numbers more than `retain` below the last one are not needed; four times as many while no certificate shows
    /// that a quorum executed them.
    pub(crate) fn floor_now(&self) -> Sn {
        let (delivered, retain) = (self.order.sn(), self.config.retain);
        let certified = self.sync.certified.max(delivered.minus(4 * retain));
        delivered.minus(retain).min(certified).min(self.stable())
    }

    pub(crate) fn collect_garbage(&mut self) {
        let floor = self.floor_now();
        if floor < self.floor.plus(RELEASE_STEP) {
            return;
        }
        self.floor = floor;
        self.log = self.log.split_off(&floor.next());
        self.decided_in = self.decided_in.split_off(&floor.next());
        self.bodies.release(floor);
        self.persist_promises(AfterDurable::Promises);
    }
}
