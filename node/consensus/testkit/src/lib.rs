//! What tests of ordering engines share: virtual time, links, disks, faults, and the suite that every engine must pass.

mod adversary;
mod links;
mod process;
mod random;
mod time;
mod world;

pub use adversary::{Adversary, Fate, View};
pub use links::{DiskModel, Jitter, Links, Port};
pub use process::{Action, Event, Process};
pub use random::Random;
pub use time::Micros;
pub use world::{Start, Statistics, World};
