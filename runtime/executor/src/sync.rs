//! Locks and atomics of the scheduler, behind one name. `tests/loom.rs` compiles `schedule.rs` a second time with
//! loom's types in their place; loom then tries every order of events.

pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
