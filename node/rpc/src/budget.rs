//! Memory that all clients share: bodies being read, answers being fetched.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes are counted in pieces of this size.
const UNIT: usize = 1 << 10;

/// A number of bytes, lent out and given back.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

/// Bytes lent; dropping gives them back.
#[derive(Debug, Default)]
pub(crate) struct Reservation(Option<OwnedSemaphorePermit>);

impl Budget {
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes / UNIT).min(Semaphore::MAX_PERMITS))))
    }

    /// `None` when not that much is left.
    pub fn reserve(&self, bytes: usize) -> Option<Reservation> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).ok()?;
        Arc::clone(&self.0).try_acquire_many_owned(units).ok().map(|permit| Reservation(Some(permit)))
    }
}

impl Reservation {
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |permit| permit.num_permits() * UNIT)
    }

    /// Both, of one budget.
    pub fn join(&mut self, other: Self) {
        match (&mut self.0, other.0) {
            (Some(mine), Some(more)) => mine.merge(more),
            (mine @ None, more) => *mine = more,
            (Some(_), None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_comes_back() {
        let budget = Budget::new(10 * UNIT);
        let mut first = budget.reserve(4 * UNIT).unwrap();
        first.join(budget.reserve(5 * UNIT + 1).unwrap());
        assert_eq!(first.bytes(), 10 * UNIT);
        assert!(budget.reserve(1).is_none());
        drop(first);
        assert!(budget.reserve(10 * UNIT).is_some());
    }
}
