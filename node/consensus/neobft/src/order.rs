//! Execution of the final log: entries to commits (N2). Everything here is a function of the log, so the checkpoint is equal at
//! every member.

use crate::{
    config::{Config, MAX_CLOCK_AHEAD_MS, REMEMBERED_BATCHES},
    keys::Signatures,
    message::{BodyId, Content, Context, Entry, Request, RequestId, Slot, Statement},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Batch, Committee, Ordered, Resume};
use corniche_types::{B256, Bytes, CommitIndex, TimestampMs, ValidatorIndex, Votes, wire};
use std::{collections::BTreeSet, sync::Arc};

/// Content of [`Ordered::checkpoint`].
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Checkpoint {
    pub slot: Slot,
    /// Log-hash after `slot`.
    pub hash: B256,
    /// Epoch of the last packet in the log, and the last slot before that epoch.
    pub epoch: (u32, Slot),
    /// Time of the last commit.
    pub time: TimestampMs,
    /// Per member: what the log says about it.
    pub authors: Vec<AuthorState>,
}

/// State of one author.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct AuthorState {
    /// The latest time that it claimed.
    pub time: TimestampMs,
    /// Batches up to this number count as repeated.
    pub floor: RequestId,
    /// Newest batches that had an effect.
    pub batches: BTreeSet<RequestId>,
}

/// Effect of a log entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// NO-OP, heartbeat, or a request that is not valid here (N2).
    None,
    /// A valid request without an effect besides its time: a clock, or an expired or repeated batch with its number.
    Clock {
        author: ValidatorIndex,
        time: TimestampMs,
        batch: Option<RequestId>,
    },
    Batch {
        author: ValidatorIndex,
        id: RequestId,
        time: TimestampMs,
        content: BatchContent,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchContent {
    Inline(Bytes),
    Body(BodyId, Vec<ValidatorIndex>),
}

/// Turns the final log into commits.
pub struct Order {
    config: Config,
    context: Context,
    committee: Committee,
    signatures: Arc<dyn Signatures>,
    state: Checkpoint,
}

impl Order {
    /// Starts from the genesis, or from a checkpoint that a certificate covers or that this node wrote.
    pub fn new(
        resume: &Resume,
        config: Config,
        context: Context,
        committee: Committee,
        signatures: Arc<dyn Signatures>,
    ) -> Self {
        let state = if resume.checkpoint.is_empty() {
            Checkpoint {
                slot: Slot(0),
                hash: context.genesis_hash(),
                epoch: (0, Slot(0)),
                time: config.genesis_time,
                authors: vec![AuthorState::default(); committee.size()],
            }
        } else {
            wire::decode(&resume.checkpoint).expect("a checkpoint was encoded by this engine, or a certificate covers its hash")
        };
        assert_eq!(state.slot.0, resume.index.0, "the checkpoint belongs to the commit it is stored with");
        assert_eq!(state.authors.len(), committee.size(), "the checkpoint belongs to this committee");
        Self { config, context, committee, signatures, state }
    }

    pub fn state(&self) -> &Checkpoint {
        &self.state
    }

    /// The last executed slot.
    pub fn slot(&self) -> Slot {
        self.state.slot
    }

    /// Returns true if a batch of this author can have an effect in a later slot.
    pub fn is_possible(&self, author: ValidatorIndex, id: RequestId, expires: TimestampMs) -> bool {
        let known = &self.state.authors[author.as_usize()];
        id > known.floor && !known.batches.contains(&id) && expires >= self.state.time
    }

    /// Checks a request by itself: author, signature, and the holders of a body.
    pub fn is_valid(&self, request: &Request) -> bool {
        let Request { author, content, time, signature } = request;
        if self.committee.member(*author).is_none() {
            return false;
        }
        let holders = match content {
            Content::Reference { body, holders } => {
                let statement = Statement::Holding(*body);
                let is_signed = |(member, signature): &(ValidatorIndex, _)| {
                    self.context.verify(*member, &statement, signature, &*self.signatures)
                };
                body.author == *author
                    && holders.windows(2).all(|pair| pair[0].0 < pair[1].0)
                    && self.committee.weigh(holders.iter().map(|(member, _)| *member)) >= self.committee.validity()
                    && holders.iter().all(is_signed)
            }
            Content::Inline { batch, .. } => batch.len() <= self.config.batch_bytes as usize,
            Content::Clock => true,
        };
        let statement = self.context.request(*author, content, *time);
        holders && self.context.verify(*author, &statement, signature, &*self.signatures)
    }

    /// N2: judges an entry from its bytes and the log before it. `is_valid` is [`Order::is_valid`], perhaps remembered.
    pub fn effect(&self, entry: &Entry, is_valid: impl FnOnce(&Request) -> bool) -> Effect {
        let Entry::Request(certificate) = entry else { return Effect::None };
        let Ok(request) = wire::decode::<Request>(&certificate.payload) else { return Effect::None };
        if !is_valid(&request) {
            return Effect::None;
        }
        let Request { author, content, time, .. } = request;
        let Some((id, expires)) = content.batch() else { return Effect::Clock { author, time, batch: None } };
        if !self.is_possible(author, id, expires) {
            return Effect::Clock { author, time, batch: Some(id) };
        }
        let content = match content {
            Content::Inline { batch, .. } => BatchContent::Inline(batch),
            Content::Reference { body, holders } => {
                BatchContent::Body(body, holders.into_iter().map(|(member, _)| member).collect())
            }
            Content::Clock => return Effect::Clock { author, time, batch: None },
        };
        Effect::Batch { author, id, time, content }
    }

    /// Executes the next slot. `batch` is the batch of an [`Effect::Batch`].
    pub fn execute(&mut self, slot: Slot, entry: &Entry, hash: B256, effect: &Effect, batch: Bytes) -> Ordered {
        assert_eq!(slot, self.state.slot.next(), "N3: slots are executed in order");
        (self.state.slot, self.state.hash) = (slot, hash);
        if let Entry::Request(certificate) = entry {
            self.state.epoch = (certificate.epoch, Slot(slot.0.saturating_sub(certificate.seq)));
        }
        let mut leader = ValidatorIndex((slot.0 % self.committee.size() as u64) as u16);
        let mut batches = Vec::new();
        if let Effect::Clock { author, time, .. } | Effect::Batch { author, time, .. } = effect {
            leader = *author;
            self.claim(*author, *time);
        }
        if let Effect::Batch { author, id, .. } = effect {
            let known = &mut self.state.authors[author.as_usize()];
            known.batches.insert(*id);
            while known.batches.len() > REMEMBERED_BATCHES {
                known.floor = known.floor.max(known.batches.pop_first().unwrap_or_default());
            }
            if !batch.is_empty() {
                batches.push((*author, Batch { bytes: batch }));
            }
        }
        Ordered {
            index: CommitIndex(slot.0),
            leader,
            time: self.state.time,
            randomness: randomness(self.config.genesis_randomness, hash),
            batches,
            checkpoint: wire::encode(&self.state).into(),
        }
    }

    /// Time of a commit: the author's, but at most 1,500 ms ahead of the median of all claims, and never earlier than the last.
    fn claim(&mut self, author: ValidatorIndex, time: TimestampMs) {
        let claimed = &mut self.state.authors[author.as_usize()].time;
        *claimed = time.max(*claimed);
        let claims = self.committee.indices().map(|member| (member, self.state.authors[member.as_usize()].time));
        let median = self.committee.weights().reached(claims, majority(&self.committee)).unwrap_or_default();
        let latest = TimestampMs(median.max(self.config.genesis_time).0.saturating_add(MAX_CLOCK_AHEAD_MS));
        self.state.time = self.state.time.max(time.min(latest));
    }
}

/// More than half of all votes: the median of what members claim lies between claims of honest ones.
fn majority(committee: &Committee) -> Votes {
    Votes(committee.total().0 / 2 + 1)
}

/// The sequencer and the authors choose the log: this randomness can be biased.
fn randomness(genesis: B256, hash: B256) -> B256 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"corniche-neobft-randomness").update(genesis.as_slice()).update(hash.as_slice());
    B256::from(*hasher.finalize().as_bytes())
}
