//! Committed batches to commits (N7). Everything here is a function of the log, so the checkpoint is equal at every member.

use crate::{
    config::Config,
    message::{Context, Proposal, Sn},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Batch, Ordered, Resume};
use corniche_types::{B256, CommitIndex, TimestampMs, ValidatorIndex, wire};
use std::collections::BTreeMap;

/// Content of [`Ordered::checkpoint`].
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Checkpoint {
    /// The last delivered number.
    pub sn: Sn,
    /// Hash of the log up to `sn`.
    pub hash: B256,
    /// Time of the last commit.
    pub time: TimestampMs,
    /// Hashes at the last checkpoints within a window, so that a restarted member can vote for them again (K1).
    pub marks: BTreeMap<Sn, B256>,
}

/// Turns the committed log into commits.
pub struct Order {
    config: Config,
    context: Context,
    committee_size: usize,
    state: Checkpoint,
}

impl Order {
    /// Starts from the genesis, or from a checkpoint that a certificate covers or that this node wrote.
    pub fn new(resume: &Resume, config: Config, context: Context, committee_size: usize) -> Self {
        let state = if resume.checkpoint.is_empty() {
            let (hash, time) = (context.genesis_hash(), config.genesis_time);
            Checkpoint { sn: Sn(0), hash, time, marks: BTreeMap::new() }
        } else {
            wire::decode(&resume.checkpoint).expect("a checkpoint was encoded by this engine, or a certificate covers its hash")
        };
        assert_eq!(state.sn.0, resume.index.0, "the checkpoint belongs to the commit it is stored with");
        Self { config, context, committee_size, state }
    }

    /// The last delivered number.
    pub fn sn(&self) -> Sn {
        self.state.sn
    }

    /// Hash of the log at a checkpoint within the last window.
    pub fn mark(&self, sn: Sn) -> Option<B256> {
        self.state.marks.get(&sn).copied()
    }

    pub fn marks(&self) -> impl DoubleEndedIterator<Item = (Sn, B256)> + use<> {
        self.state.marks.clone().into_iter()
    }

    /// Delivers the next number (N7). `None`: the null batch.
    pub fn deliver(&mut self, sn: Sn, digest: B256, proposal: Option<&Proposal>) -> Ordered {
        assert_eq!(sn, self.state.sn.next(), "X6: numbers are delivered in order");
        let state = &mut self.state;
        state.sn = sn;
        state.hash = self.context.log_hash(state.hash, sn, digest);
        // Members vote only for times that are close to their clocks, so no leader can move time far ahead.
        state.time = proposal.map_or(state.time, |proposal| proposal.time.max(state.time));
        if sn.0.is_multiple_of(self.config.checkpoint_interval) {
            state.marks.insert(sn, state.hash);
            state.marks = state.marks.split_off(&sn.minus(2 * self.config.window));
        }
        // Nobody leads a null batch, and members may not know the epoch that lists it.
        let turn = ValidatorIndex((sn.0 % self.committee_size as u64) as u16);
        let full = proposal.filter(|proposal| !proposal.batch.is_empty());
        Ordered {
            index: CommitIndex(sn.0),
            leader: proposal.map_or(turn, |proposal| proposal.author),
            time: state.time,
            randomness: randomness(self.config.genesis_randomness, state.hash),
            batches: full.map(|full| (full.author, Batch { bytes: full.batch.clone() })).into_iter().collect(),
            checkpoint: wire::encode(&self.state).into(),
        }
    }
}

/// Leaders choose the log: this randomness can be biased.
fn randomness(genesis: B256, hash: B256) -> B256 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"corniche-mir-randomness").update(genesis.as_slice()).update(hash.as_slice());
    B256::from(*hasher.finalize().as_bytes())
}
