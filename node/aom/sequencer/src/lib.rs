//! Software sequencer of the authenticated ordered multicast: stamps requests and sends them to all receivers of their group.
//!
//! ```text
//!   senders ──UDP──▶ writer thread: read a batch ─▶ Core (counters, chains, keys) ─▶ BackEnd ──UDP──▶ receivers
//!                                                      │ Metrics
//!                    admin thread: /health, /metrics ◀─┘
//! ```
//!
//! One thread owns all counters and chains and makes all tags and signatures; so numbers have no gaps and chains no forks.
//! It reads up to [`BATCH`] requests, stamps them, and then sends. [`Core`] does no I/O and keeps no clock.
//!
//! With the back end `xdp`, a program in the kernel stamps and sends, and the writer thread controls it: it begins epochs, sends
//! heartbeats and reads counters.
//!
//! # Epochs
//!
//! Sequencer e mod count of the genesis' list serves epoch e of its group. It is on standby until the receivers ask for an epoch
//! ([`EpochStart`](corniche_aom_wire::EpochStart)); until then it drops requests. It begins an epoch only if it has the epoch's
//! position in the list, never used this epoch or a later one, and the group's [`Authority`] accepts the certificate. Epoch 0 has
//! an empty certificate. A later epoch replaces the one that it serves.
//!
//! There is no reply. A heartbeat, signed for PK, is the first packet of an epoch. The receivers ask until they see it; each
//! further datagram gets another heartbeat, at most one every 50 ms.
//!
//! A sequencer that lost its counter could give one number to two requests. So it never resumes an epoch (Q5): before the first
//! stamp, [`EpochMarks`] records the epoch durably. A crash after that wastes the epoch; the receivers then suspect the sequencer
//! and agree on the next epoch. Never copy or restore the data directory. The record cannot protect against two sequencers with one key
//! and two data directories.
//!
//! # Signatures and heartbeats
//!
//! PK: the epoch's first packet, then each k-th since the last signed one, and each heartbeat are signed. If the newest packet is
//! unsigned and nothing follows within t, a signed heartbeat follows at once; no packet is held back. After 1 ms without
//! a packet, a heartbeat reveals a lost tail; at most three follow each other, the signed one included.
//!
//! # Departures from `protocols/neobft.md`
//!
//! - Q1: a request with a wrong digest gets no number. A switch cannot check this, and receivers do (L2); but each such packet
//!   would cost the replicas one gap agreement.
//! - E3: no configuration service. The genesis lists all sequencers, and the certificate of the receivers starts an epoch.
//! - §7.1: no worker threads. Tags cost far less than the system's UDP stack, and k reduces the cost of signatures.
//! - Q3: no coprocessor, so no number is lost on purpose.
//!
//! # Bounds
//!
//! 64 groups, 64 receivers with tags or 256 with signatures, [`BATCH`] requests in memory, 50 checks of certificates a second, and 16
//! connections to the admin interface. Bad datagrams are counted by reason and never logged. A full send buffer blocks a batch for at most 10 ms
//! without progress; then packets count as send errors, which receivers see as loss.

#![warn(missing_docs)]

mod admin;
mod back_end;
mod config;
mod core;
mod epochs;
mod group;
mod metrics;
mod server;
#[cfg(feature = "xdp")]
mod xdp;

pub use back_end::BackEnd;
pub use config::{Config, GroupConfig, MulticastConfig, XdpConfig, XdpMode};
pub use core::{Core, DropReason, Handled, Outbox, Run, Timing};
pub use epochs::{EpochMarks, GroupEpoch};
pub use group::{Authority, Group, public_key};
pub use metrics::Metrics;
pub use server::{BATCH, Sequencer, StopHandle};

use std::{io, path::PathBuf};

/// Reason why a sequencer does not start, or why an epoch does not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is not usable.
    #[error("{0}")]
    Config(String),
    /// Another process uses the data directory.
    #[error("lock {path}: another sequencer uses this data directory; stop it first")]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The record of used epochs is damaged.
    #[error(
        "read {path}: line {line}: expected `CHAIN_ID GROUP EPOCH` and a line end; find the last epoch of each group at its validators, and write the lines again"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
    },
    /// The operating system reports an error.
    #[error("{operation} {subject}: {source}")]
    Io {
        /// Failed operation.
        operation: &'static str,
        /// File or address.
        subject: String,
        /// The error.
        source: io::Error,
    },
}

impl StartError {
    fn io(operation: &'static str, subject: impl ToString) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { operation, subject: subject.to_string(), source }
    }
}
