//! Execution statistics of the newest blocks. They describe this run of the node, not the chain, so they are
//! kept only in memory, and bounded.

use corniche_api::Execution;
use corniche_types::Height;
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

/// Maximum number of blocks, and of their transactions in all.
const MAX_BLOCKS: usize = 1_024;
const MAX_TRANSACTIONS: usize = 2 << 20;

/// Ascending by height.
#[derive(Default)]
pub struct ExecutionStats(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    blocks: VecDeque<(Height, Execution)>,
    transactions: usize,
}

impl ExecutionStats {
    /// Stores the statistics of the block at this height. Drops those at this height and above, whose
    /// blocks were undone.
    pub fn put(&self, height: Height, execution: Execution) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Kept { blocks, transactions } = &mut *kept;
        while let Some((_, reverted)) = blocks.pop_back_if(|(at, _)| *at >= height) {
            *transactions -= reverted.runs_of.len();
        }
        *transactions += execution.runs_of.len();
        blocks.push_back((height, execution));
        while blocks.len() > MAX_BLOCKS || *transactions > MAX_TRANSACTIONS {
            let Some((_, oldest)) = blocks.pop_front() else { return };
            *transactions -= oldest.runs_of.len();
        }
    }

    /// Statistics of a block, if they are kept.
    pub fn get(&self, height: Height) -> Option<Execution> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.blocks.binary_search_by_key(&height, |(at, _)| *at).ok()?;
        Some(kept.blocks[at].1.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execution(runs: u64, transactions: usize) -> Execution {
        Execution { runs, runs_of: vec![1; transactions].into(), ..Execution::default() }
    }

    fn kept(executions: &ExecutionStats, heights: std::ops::RangeInclusive<u64>) -> Vec<u64> {
        heights.filter(|height| executions.get(Height(*height)).is_some()).collect()
    }

    #[test]
    fn kept_blocks_are_bounded() {
        let executions = ExecutionStats::default();
        (1..=3_000).for_each(|height| executions.put(Height(height), execution(height, 1)));
        assert_eq!(kept(&executions, 0..=4_000), (3_000 - 1_023..=3_000).collect::<Vec<_>>());
        assert_eq!(executions.get(Height(2_500)).unwrap().runs, 2_500);
    }

    #[test]
    fn large_blocks_are_fewer() {
        let executions = ExecutionStats::default();
        (1..=10).for_each(|height| executions.put(Height(height), execution(height, MAX_TRANSACTIONS / 4)));
        assert_eq!(kept(&executions, 0..=20), [7, 8, 9, 10]);
        executions.put(Height(11), execution(11, MAX_TRANSACTIONS + 1));
        assert!(kept(&executions, 0..=20).is_empty(), "one that is too large is not kept either");
    }

    #[test]
    fn reverted_blocks_are_replaced() {
        let executions = ExecutionStats::default();
        (1..=10).for_each(|height| executions.put(Height(height), execution(height, 5)));
        executions.put(Height(4), execution(99, 7));
        assert_eq!(kept(&executions, 0..=20), [1, 2, 3, 4]);
        assert_eq!(executions.get(Height(4)).unwrap().runs, 99);
        assert_eq!(executions.0.lock().unwrap().transactions, 22);
    }
}
