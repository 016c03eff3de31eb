//! What running a block took, transaction by transaction. Differs from run to run and from node to node; no result depends on it.

use crate::Statistics;
use crate::schedule::{Position, Reader};
use corniche_types::Skipped;

/// What running one block took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// Threads that took part; each is a lane.
    pub threads: usize,
    /// Added up.
    pub statistics: Statistics,
    /// One for each executed transaction, in order.
    pub transactions: Vec<Run>,
}

/// What one transaction took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The thread that came to the result, from 0. All above the 255th have one number.
    pub lane: u8,
    /// How often the virtual machine ran it; 0: a recorded result was adopted.
    pub runs: u8,
}

/// An attempt that a worker ended.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub reader: Reader,
    /// By the virtual machine, and not by adopting.
    pub ran: bool,
}

/// Of a block of so many candidates, from what each worker ended.
pub(crate) fn runs<'w>(
    candidates: usize,
    skipped: &[Skipped],
    statistics: Statistics,
    workers: impl ExactSizeIterator<Item = &'w Vec<Taken>>,
) -> Runs {
    let threads = workers.len();
    // The newest attempt is the one that counts (D6).
    let mut all = vec![(0, Run::default()); candidates];
    for (worker, ended) in workers.enumerate() {
        let lane = u8::try_from(worker).unwrap_or(u8::MAX);
        for Taken { reader: Reader { position, incarnation }, ran } in ended.iter().copied() {
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

    /// Position 0 ran on both lanes, last on the first; 1 was adopted and then ran after all; 2 is skipped; 3 was adopted.
    #[test]
    fn the_newest_attempt_says_the_lane_and_all_runs_count() {
        let taken = |position, incarnation, ran| Taken { reader: Reader { position, incarnation }, ran };
        let first = vec![taken(0, 1, true), taken(1, 1, false), taken(0, 3, true)];
        let second = vec![taken(0, 2, true), taken(2, 1, true), taken(3, 1, false), taken(1, 2, true)];
        let skipped = [Skipped { position: 2, hash: B256::ZERO, reason: SkipReason::Undecodable }];
        let told = runs(4, &skipped, Statistics::default(), [&first, &second].into_iter());
        assert_eq!(told.threads, 2);
        let expected = [(0, 3), (1, 1), (1, 0)].map(|(lane, runs)| Run { lane, runs });
        assert_eq!(told.transactions, expected);
    }
}
