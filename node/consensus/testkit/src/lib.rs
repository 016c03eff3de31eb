//! Shared test tools for ordering engines: virtual time, links, disks, faults, and the suite that every engine must
//! pass.
//!
//! Layers, each usable without the next:
//!
//! - [`Simulation`] runs [`Process`]es on virtual time: messages over [`Links`], disk writes, power cuts, partitions. It
//!   knows no engine; whole pipelines run on it too.
//! - [`EngineHost`] runs one engine as a process. Its [`Surroundings`] are its users, and whatever watches it.
//! - [`ScenarioCluster`] is a committee whose test knows the engine ([`Subject`]): it scripts messages, reads states, and
//!   sees all that every validator did.
//! - [`TestCluster`] is a committee of any engine. [`Kit`] is the part that an engine's author writes: how to start the
//!   engine with modelled keys, and how to parse and forge its messages. The cluster has users, Byzantine [`Double`]s and a
//!   [`SafetyChecker`] that checks safety at every step. An engine may add a [`Coalition`] of
//!   its own doubles, and a [`MessageChecker`] that checks the messages of its correct validators.
//! - [`Group`] is the multicast group of an engine that orders by a sequencer.
//! - [`FakeKeys`], [`FakeSignatures`]: modelled keys of engines that sign digests.
//! - [`crashes`]: the kit, the clusters and common scenarios of engines that tolerate crashes only.
//! - [`assert_frozen`] compares encodings with a fixture. [`encodings`] makes and checks those of messages and records.
//! - [`schedule`] makes fault schedules from seeds; [`suite`] contains the tests that every engine must pass.
//!
//! # For an engine's author
//!
//! Implement [`Kit`] in a crate of test support for the engine, and let the engine's `tests/suite.rs` be
//!
//! ```ignore
//! use corniche_my_engine_testing::MyKit;
//! corniche_testkit::suite!(|size| std::rc::Rc::new(MyKit::new(size)));
//! ```
//!
//! Every run is a function of the kit, the committee's size and a seed. A failure prints one line that repeats it.

mod adversary;
mod cluster;
mod coalition;
pub mod crashes;
mod doubles;
mod engine_host;
mod engine_process;
mod fake_keys;
pub mod fault_counts;
mod frozen;
mod group;
mod kit;
mod links;
mod modelled;
pub mod mutate;
mod process;
mod random;
pub mod safety;
mod scenario;
pub mod schedule;
mod simulation;
pub mod suite;
mod time;

pub use adversary::{Adversary, Delivery, View};
pub use cluster::TestCluster;
pub use coalition::{Coalition, MemberContext, MessageChecker};
pub use doubles::{Double, LATE};
pub use engine_host::{EngineDisk, EngineHost, HostSetup, Outbox, Packet, Records, Sending, Surroundings};
pub use engine_process::{CheckedSurroundings, EngineProcess, EngineSetup, MAX_BATCH_BYTES, ProcessNotes};
pub use fake_keys::{FakeKeys, FakeSignatures};
pub use frozen::{assert_frozen, encodings};
pub use group::Group;
pub use kit::{Forgery, Kit, Measured, MeasuredEngine, Setup};
pub use links::{DiskModel, Jitter, Links, Port};
pub use modelled::{committee, committee_of, derive_bytes, faulty_members, genesis, unequal_votes};
pub use process::{Action, Event, Process};
pub use random::Random;
pub use safety::SafetyChecker;
pub use scenario::{EngineStart, Observed, Recorder, ScenarioCluster, ScenarioDisk, ScenarioNode, Subject, texts};
pub use simulation::{Simulation, Start, Statistics};
pub use time::Micros;
