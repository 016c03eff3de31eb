//! Real processes on this machine, for programs that measure or attack them: a network that `corniche testnet up` creates
//! in a temporary directory ([`LocalNetwork`]), and users, which are `corniche load` ([`Load`]).

mod interrupt;
mod load;
mod metrics;
mod network;
mod usage;

pub use interrupt::end_networks_on_interrupt;
pub use load::{LatencyReport, Load, LoadReport, RunningLoad};
pub use metrics::Metrics;
pub use network::{LocalNetwork, NetworkOptions, Node};
pub use usage::{Memory, ThreadTimes, steal_time, thread_times};
