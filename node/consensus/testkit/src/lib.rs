//! Shared test tools for ordering engines: virtual time, links, disks, faults, and the suite that every engine must
//! pass.
//!
//! Three layers, each usable without the next:
//!
//! - [`World`] runs [`Process`]es on virtual time: messages over [`Links`], disk writes, power cuts, partitions. It
//!   knows no engine; whole pipelines run on it too.
//! - [`Kit`] is the part that an engine's author writes: how to start the engine with modelled keys, and how to parse
//!   and forge its messages. [`EngineProcess`] runs an engine alone as a process. [`Arena`] is a committee of them with
//!   users, Byzantine [`Double`]s and a [`Ledger`] that checks safety at every step. An engine may add a [`Gang`] of
//!   its own doubles, and a [`Judge`] that checks the messages of its correct validators.
//! - [`schedule`] makes fault schedules from seeds; [`suite`] contains the tests that every engine must pass.
//!
//! # For an engine's author
//!
//! Implement [`Kit`] behind a feature of the engine's crate, and let `tests/suite.rs` be
//!
//! ```ignore
//! use corniche_my_engine::kit::MyKit;
//! corniche_testkit::suite!(|size| std::rc::Rc::new(MyKit::new(size)));
//! ```
//!
//! Every run is a function of the kit, the committee's size and a seed. A failure prints one line that repeats it.

mod adversary;
mod arena;
mod doubles;
mod gang;
mod kit;
pub mod ledger;
mod links;
mod modelled;
pub mod mutate;
mod process;
mod random;
pub mod schedule;
mod solo;
pub mod suite;
pub mod tally;
mod time;
mod world;

pub use adversary::{Adversary, Fate, View};
pub use arena::Arena;
pub use doubles::{Double, LATE};
pub use gang::{Act, Gang, Judge};
pub use kit::{Forgery, Kit, Measured, Setup};
pub use ledger::Ledger;
pub use links::{DiskModel, Jitter, Links, Port};
pub use modelled::{committee, genesis, stretch};
pub use process::{Action, Event, Process};
pub use random::Random;
pub use solo::{EngineProcess, Packet, Solo, SoloDisk};
pub use time::Micros;
pub use world::{Start, Statistics, World};
