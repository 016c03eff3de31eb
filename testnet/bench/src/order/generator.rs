//! Transactions that a validator makes itself, at a fixed rate.

use super::TRANSACTION_BYTES;
use corniche_engine::Batch;
use std::{collections::VecDeque, time::Duration};

/// Transactions that may wait for a proposal; more are refused, as by a full pool.
const MAX_WAITING: usize = 100_000;

/// Makes transactions on schedule. Times are durations since one common start.
pub struct Generator {
    /// Interval between two transactions.
    interval: Duration,
    /// Creation times of transactions that wait, oldest first.
    waiting: VecDeque<Duration>,
    made: u64,
    pub refused: u64,
    /// Own transactions in batches that were not ordered yet.
    pub unordered: u64,
}

impl Generator {
    /// `rate`: transactions per second, above 0.
    pub fn new(rate: f64) -> Self {
        let interval = Duration::from_secs_f64(1.0 / rate);
        Self { interval, waiting: VecDeque::new(), made: 0, refused: 0, unordered: 0 }
    }

    /// Makes the transactions that are due.
    pub fn advance(&mut self, now: Duration) {
        while self.next_due() <= now {
            let due = self.next_due();
            self.made += 1;
            if self.waiting.len() < MAX_WAITING {
                self.waiting.push_back(due);
            } else {
                self.refused += 1;
            }
        }
    }

    /// Creation time of the next transaction.
    pub fn next_due(&self) -> Duration {
        self.interval.mul_f64(self.made as f64)
    }

    /// Next batch of at most this size. Empty while own transactions wait for their order; `None` if nothing waits.
    pub fn batch(&mut self, max_bytes: usize) -> Option<Batch> {
        let count = self.waiting.len().min(max_bytes / TRANSACTION_BYTES);
        if count == 0 {
            return (self.unordered > 0).then(Batch::default);
        }
        let mut bytes = vec![0; count * TRANSACTION_BYTES];
        for (transaction, created) in bytes.chunks_exact_mut(TRANSACTION_BYTES).zip(self.waiting.drain(..count)) {
            transaction[..8].copy_from_slice(&microseconds(created).to_be_bytes());
        }
        self.unordered += count as u64;
        Some(Batch { bytes: bytes.into() })
    }

    /// Returns transactions of an own batch that will not be ordered.
    pub fn requeue(&mut self, batch: &Batch) {
        let created: Vec<_> = creation_times(batch).collect();
        self.unordered = self.unordered.saturating_sub(created.len() as u64);
        created.into_iter().rev().for_each(|time| self.waiting.push_front(Duration::from_micros(time)));
    }
}

/// Creation times of a batch's transactions in µs.
pub fn creation_times(batch: &Batch) -> impl Iterator<Item = u64> + '_ {
    let time = |transaction: &[u8]| u64::from_be_bytes(transaction[..8].try_into().expect("eight bytes"));
    batch.bytes.chunks_exact(TRANSACTION_BYTES).map(time)
}

pub fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_made_on_schedule() {
        let mut generator = Generator::new(1_000.0);
        assert_eq!(generator.batch(1 << 20), None);
        generator.advance(Duration::from_millis(2));
        let batch = generator.batch(1 << 20).unwrap();
        assert_eq!(creation_times(&batch).collect::<Vec<_>>(), [0, 1_000, 2_000]);
        assert_eq!(generator.next_due(), Duration::from_millis(3));
        assert_eq!(generator.batch(1 << 20), Some(Batch::default()), "own transactions are still to be ordered");
    }

    #[test]
    fn batch_is_limited_and_requeued_in_order() {
        let mut generator = Generator::new(1_000.0);
        generator.advance(Duration::from_millis(9));
        let first = generator.batch(3 * TRANSACTION_BYTES + 1).unwrap();
        assert_eq!(creation_times(&first).count(), 3);
        generator.requeue(&first);
        assert_eq!(generator.unordered, 0);
        let all = generator.batch(1 << 20).unwrap();
        assert_eq!(creation_times(&all).collect::<Vec<_>>(), (0..10).map(|ms| ms * 1_000).collect::<Vec<_>>());
    }

    #[test]
    fn full_queue_refuses() {
        let mut generator = Generator::new(1_000_000.0);
        generator.advance(Duration::from_secs(1));
        assert_eq!(generator.refused, 1_000_001 - MAX_WAITING as u64);
    }
}
