//! The locks and atomics of the scheduler, by one name: `tests/loom.rs` compiles [`crate::schedule`] a second time with
//! loom's in their place, which try every order of events.

pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
