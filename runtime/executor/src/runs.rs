//! Counters of a block's execution per transaction. They differ from run to run and from node to node; no result
//! depends on them.

use crate::Statistics;
use crate::schedule::{Position, Reader};
use corniche_types::Skipped;

/// How one block was executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// Number of threads used; each is a lane.
    pub threads: usize,
    /// Sum over all workers.
    pub statistics: Statistics,
    /// One entry per executed transaction, in order.
    pub transactions: Vec<Run>,
}

/// How one transaction was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Index of the thread that produced the result, from 0; 255 for all higher ones.
    pub lane: u8,
    /// Number of runs of the virtual machine; 0 if a recorded result was adopted.
    pub runs: u8,
}

/// An attempt that a worker ended.
#[derive(Clone, Copy)]
pub(crate) struct EndedAttempt {
    pub reader: Reader,
    /// True if the virtual machine ran it, false if a recorded result was adopted.
    pub ran: bool,
}

/// Collects the runs of a block with `candidates` candidates from the attempts that each worker ended.
pub(crate) fn runs<'w>(
    candidates: usize,
    skipped: &[Skipped],
    statistics: Statistics,
    workers: impl ExactSizeIterator<Item = &'w Vec<EndedAttempt>>,
) -> Runs {
    let threads = workers.len();
    // Only the newest attempt counts (D6).
    let mut all = vec![(0, Run::default()); candidates];
    for (worker, ended) in workers.enumerate() {
        let lane = u8::try_from(worker).unwrap_or(u8::MAX);
        for EndedAttempt { reader: Reader { position, incarnation }, ran } in ended.iter().copied() {
            let (newest, run) = &mut all[position as usize];
            run.runs = run.runs.saturating_add(u8::from(ran));
            if incarnation > *newest {
                (*newest, run.lane) = (incarnation, lane);
            }
        }
    }
    let mut skipped = skipped.iter().map(|skipped| skipped.position as Position).peekable();
    let executed = (0..).zip(all).filter(|(position, _)| skipped.next_if_eq(position).is_none());
    Runs { threads, statistics, transactions: executed.map(|(_, (_, run))| run).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::{B256, SkipReason};

    /// Position 0 ran on both lanes, last on the first. 1 was adopted and then ran after all. 2 is skipped. 3 was
    /// adopted.
    #[test]
    fn newest_attempt_determines_lane() {
        let taken = |position, incarnation, ran| EndedAttempt { reader: Reader { position, incarnation }, ran };
        let first = vec![taken(0, 1, true), taken(1, 1, false), taken(0, 3, true)];
        let second = vec![taken(0, 2, true), taken(2, 1, true), taken(3, 1, false), taken(1, 2, true)];
        let skipped = [Skipped { position: 2, hash: B256::ZERO, reason: SkipReason::Undecodable }];
        let told = runs(4, &skipped, Statistics::default(), [&first, &second].into_iter());
        assert_eq!(told.threads, 2);
        let expected = [(0, 3), (1, 1), (1, 0)].map(|(lane, runs)| Run { lane, runs });
        assert_eq!(told.transactions, expected);
    }
}
