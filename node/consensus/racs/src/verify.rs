//! The only place that turns peers' bytes into [`Checked`] messages. No result depends on state, so it runs on any thread.
//!
//! Peers crash, but do not lie. These checks keep a damaged or foreign message from doing harm.

use crate::{
    config::Config,
    message::{Block, BlockId, Message, Rank},
    rules::leader,
};
use corniche_engine::{Committee, PeerFault, Verified, Verifier};
use corniche_lanes::{check_batch, check_member, check_number, check_value, ensure};
use corniche_types::{Bytes, ValidatorIndex, wire};
use std::sync::Arc;

const READ_US: u64 = 5;
/// Bytes decoded and hashed per µs.
const READ_BYTES_PER_US: u64 = 512;

/// A peer's message after all stateless checks.
#[derive(Clone, Debug)]
pub struct Checked(pub Message);

/// The stateless part of the engine.
pub struct RacsVerifier {
    config: Config,
    committee: Committee,
}

impl Verifier for RacsVerifier {
    fn cost(&self, bytes: &[u8]) -> u64 {
        READ_US + bytes.len() as u64 / READ_BYTES_PER_US
    }

    fn verify(&self, from: ValidatorIndex, bytes: &Bytes) -> Result<Verified, PeerFault> {
        self.check(from, bytes).map(|message| Verified(Arc::new(Checked(message)))).map_err(PeerFault)
    }
}

impl RacsVerifier {
    pub fn new(config: Config, committee: Committee) -> Self {
        Self { config, committee }
    }

    fn check(&self, from: ValidatorIndex, bytes: &Bytes) -> Result<Message, String> {
        self.check_member(from)?;
        let limit = self.config.max_message_bytes(self.committee.size());
        ensure(bytes.len() <= limit, || format!("message: expected at most {limit} bytes, got {}", bytes.len()))?;
        let message: Message = wire::decode(bytes).map_err(|error| error.to_string())?;
        match &message {
            Message::Batch(batch) => check_batch(&self.committee, batch, self.config.batch_bytes)?,
            Message::FetchBatch { author, tip } => {
                self.check_member(*author)?;
                check_number(tip.number)?;
            }
            Message::BatchVote { tip } | Message::Completed { tip } => check_number(tip.number)?,
            Message::Propose { block, commit } => {
                self.check_block(block)?;
                self.check_id(commit)?;
                check_proposal(from, block, block.rank.level == 0)?;
            }
            Message::ProposeAsync { block, parent } => {
                self.check_block(block)?;
                parent.iter().try_for_each(|parent| self.check_block(parent))?;
                check_proposal(from, block, block.rank.level > 0)?;
                ensure((block.rank.level == 2) == parent.is_some(), || "level 2 comes with its parent".into())?;
            }
            Message::Vote { block, time } => {
                self.check_id(block)?;
                check_number(time.0)?;
            }
            Message::Commit { block } | Message::VoteAsync { block } | Message::Complete { block } => self.check_id(block)?,
            Message::Timeout { view, high } | Message::NewView { view, high } | Message::Ahead { view, high } => {
                check_number(view.0)?;
                self.check_id(high)?;
                ensure(high.rank.view <= *view, || format!("view {}: block_high is of view {}", view.0, high.rank.view.0))?;
            }
            Message::FetchBlocks { block, above } => {
                self.check_id(block)?;
                check_number(above.0)?;
            }
            Message::Blocks(blocks) | Message::Decided(blocks) => {
                blocks.iter().try_for_each(|block| self.check_block(block))?
            }
            Message::Progress { round, view, delivered, time } => {
                [round.0, view.0, *delivered, time.0].into_iter().try_for_each(check_number)?;
            }
            Message::InView { view, round, time, .. } => {
                [view.0, round.unwrap_or_default().0, time.0].into_iter().try_for_each(check_number)?;
            }
            Message::Leave { through } => check_number(through.0)?,
            Message::AskView { .. } => {}
        }
        Ok(message)
    }

    fn check_member(&self, member: ValidatorIndex) -> Result<(), String> {
        check_member(&self.committee, member)
    }

    fn check_id(&self, id: &BlockId) -> Result<(), String> {
        let Rank { view, level, round } = id.rank;
        check_number(view.0)?;
        check_number(round.0)?;
        ensure(level <= 2, || format!("block: expected level 0 to 2, got {level}"))?;
        self.check_member(id.proposer)
    }

    /// A block is one round above its parent, and has a higher rank. A level-0 block is the leader's. Level 2 is on level 1.
    fn check_block(&self, block: &Block) -> Result<(), String> {
        let Block { rank, proposer, parent, value } = block;
        let id = BlockId { rank: *rank, proposer: *proposer, ..BlockId::default() };
        self.check_id(&id)?;
        self.check_id(parent)?;
        ensure(rank.round == parent.rank.round.next() && *rank > parent.rank, || {
            format!("block: expected a rank above {:?} by one round, got {rank:?}", parent.rank)
        })?;
        let leader = leader(rank.view, &self.committee);
        ensure(rank.level > 0 || *proposer == leader, || format!("block: expected one of leader {leader}, got {proposer}"))?;
        let is_on_level1 = (parent.rank.view, parent.rank.level) == (rank.view, 1);
        ensure((rank.level == 2) == is_on_level1, || "block: level 2 is on level 1 of its view".into())?;
        check_value(&self.committee, value)
    }
}

fn check_proposal(from: ValidatorIndex, block: &Block, has_level: bool) -> Result<(), String> {
    ensure(block.proposer == from, || format!("block of {}, proposed by {from}", block.proposer))?;
    ensure(has_level, || format!("level {} has another message", block.rank.level))
}
