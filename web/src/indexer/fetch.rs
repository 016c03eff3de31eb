//! Fetches blocks in order and writes them in groups.

use super::{
    BLOCKS_AT_ONCE, IndexError, Indexer,
    contracts::Code,
    digest::{Digest, digest},
    group::Group,
    next_after, tokens,
    write::{self, FetchedMetadata, Tip},
};
use crate::{clock::now_ms, indexer_status::Halt, live::Tick, node::WholeBlock};
use futures::{StreamExt, TryStreamExt, stream};
use std::time::Instant;

/// Concurrent requests for blocks.
const REQUESTS_AT_ONCE: usize = 4;

/// Maximum number of contracts whose code is fetched in one request.
const CODES_AT_ONCE: usize = 16;

impl Indexer {
    /// Fetches blocks concurrently and writes them in order. Returns `true` if it stopped at blocks that are too large
    /// for one response, so that the next requests are smaller.
    pub(super) async fn fetch(&mut self, first: u64, count: u64) -> Result<bool, IndexError> {
        let (node, at_once) = (self.node.clone(), self.at_once);
        let starts = (first..first + count).step_by(at_once as usize);
        let pieces = starts.map(move |start| {
            let node = node.clone();
            let count = at_once.min(first + count - start);
            async move { node.whole_blocks(start, count).await }
        });
        let mut pieces = stream::iter(pieces).buffered(REQUESTS_AT_ONCE);
        let mut group = Group::default();
        self.at_once = BLOCKS_AT_ONCE.min(2 * at_once);
        // Bounded, so that the other tasks get their turn.
        for _ in 0..64 {
            let follow = match pieces.try_next().await {
                Ok(Some(blocks)) => self.collect(&mut group, blocks).await,
                Ok(None) => break,
                Err(error) if error.first_available_block().is_some() => {
                    self.write(group).await?;
                    self.begin_at(error.first_available_block().unwrap_or_default()).await?;
                    // Otherwise the node contradicts itself.
                    return if self.next() == first { Err(error.into()) } else { Ok(false) };
                }
                Err(error) if error.is_refusal() && at_once > 1 => {
                    self.at_once = 1;
                    break;
                }
                Err(error) => Err(error.into()),
            };
            match follow {
                Ok(Continuity::Tip) => {}
                Ok(Continuity::Later) => break,
                Ok(Continuity::Another) if self.development => return self.restart_from_genesis().await.map(|()| false),
                // Earlier blocks are valid, regardless of this one.
                other => {
                    self.write(group).await?;
                    let number = self.tip.map_or(0, |tip| tip.number);
                    return other.and(Err(IndexError::Halt(Halt::Contradiction { number })));
                }
            }
        }
        self.write(group).await?;
        Ok(self.at_once < at_once)
    }

    /// Adds blocks that extend the tip to the group, and writes the group when it is full.
    async fn collect(&mut self, group: &mut Group, blocks: Vec<WholeBlock>) -> Result<Continuity, IndexError> {
        let seen_ms = self.at_head.then(now_ms);
        for whole in &blocks {
            let one = digest(whole, seen_ms)?;
            if one.left_out > 0 {
                let Digest { number, left_out, .. } = &one;
                tracing::warn!(
                    "block {number} is too large to index completely: {left_out} transactions, logs and transfers are not listed"
                );
            }
            let tip = group.last().map(|last| Tip { number: last.number, hash: last.hash }).or(self.tip);
            match tip {
                // The node had fewer blocks when it answered the previous requests: it syncs or was reverted. The next
                // turn detects it.
                _ if one.number != next_after(tip, self.first) => return Ok(Continuity::Later),
                Some(tip) if tip.number + 1 == one.number && tip.hash != one.parent => return Ok(Continuity::Another),
                _ => group.push(one),
            }
            if group.is_full() {
                self.write(std::mem::take(group)).await?;
            }
        }
        Ok(Continuity::Tip)
    }

    async fn write(&mut self, group: Group) -> Result<(), IndexError> {
        let digests = group.into_digests();
        let Some(last) = digests.last() else { return Ok(()) };
        let (number, time_ms) = (last.number, last.time_ms);
        let tip = Tip { number, hash: last.hash };
        let ticks: Vec<_> = digests.iter().map(new_block).collect();
        let written = async {
            let metadata = self.fetch_metadata(&digests).await?;
            Ok(write::write(&mut self.connection, digests, &metadata).await?)
        };
        if let Err(error) = written.await {
            // Nothing of the group was written, unless by another process.
            self.tip = write::tip(&mut self.connection).await?;
            return Err(error);
        }
        self.tip = Some(tip);
        self.indexer_status.set_indexed(number, time_ms);
        self.log_progress(number);
        if self.at_head {
            ticks.into_iter().for_each(|tick| self.live.send(tick));
        }
        Ok(())
    }

    /// Logs progress from time to time during a long sync.
    fn log_progress(&mut self, number: u64) {
        let Some(per_second) = self.progress.advance(number, self.at_head, Instant::now()) else { return };
        let head = self.indexer_status.snapshot().heads.map_or(0, |heads| heads.executed.number);
        tracing::info!("read {number} of {head} blocks, {per_second:.0} a second");
    }

    /// Fetches data about tokens and contracts that the blocks mention but do not contain.
    async fn fetch_metadata(&mut self, digests: &[Digest]) -> Result<FetchedMetadata, IndexError> {
        let unknown = write::missing_metadata(&mut self.connection, digests).await?;
        let mut metadata = FetchedMetadata::default();
        let names = tokens::names(&self.node, &unknown.tokens).await?;
        metadata.tokens = unknown.tokens.into_iter().zip(names).collect();
        for addresses in unknown.contracts.chunks(CODES_AT_ONCE) {
            let codes = self.node.codes(addresses.to_vec()).await?;
            let codes = addresses.iter().zip(codes).filter(|(_, code)| !code.is_empty());
            metadata.contracts.extend(codes.map(|(address, code)| (*address, Code::read(&code))));
        }
        Ok(metadata)
    }
}

/// Relation of fetched blocks to the indexed ones.
enum Continuity {
    /// They extend the tip.
    Tip,
    /// There is a gap before them.
    Later,
    /// The parent hash of the first one differs from the tip.
    Another,
}

/// Returns the event for open pages about a new block.
fn new_block(digest: &Digest) -> Tick {
    Tick::Block {
        number: digest.number,
        hash: digest.hash,
        time_ms: digest.time_ms,
        transactions: digest.transactions,
        gas_used: digest.gas_used,
        leader: digest.leader,
    }
}
