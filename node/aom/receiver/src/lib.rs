//! Receiver of the authenticated ordered multicast: turns datagrams of one group into a sequence of packets and drops.
//!
//! The receiver has no socket and no clock. The caller passes datagrams ([`Receiver::handle`]) and time
//! ([`Receiver::tick`]), and takes the sequence: [`Receiver::peek`] shows what the next number holds, and
//! [`Receiver::advance`] moves on. The caller decides what a drop means, so a dropped number stays next until the caller
//! moves on.
//!
//! ```text
//!   datagrams ──▶ group, epoch, digest ──▶ tag and vector, or signature and chain ──▶ (CONFIRM) ──▶ ready ──▶ peek
//!                    L1      L1      L2            L3                  L3                 L4                  L5
//! ```
//!
//! - **Certificates.** A ready packet is an [`OrderingCertificate`], which other receivers can check. So a vector of tags
//!   counts only when it is complete, and an unsigned packet only when a signature covers it (L3).
//! - **Byzantine network.** With [`Config::byzantine`], a packet is ready when members with a quorum of votes confirmed its
//!   digest. The receiver asks the caller to sign and send its own CONFIRMs ([`Output::Confirm`]).
//! - **Bounds.** At most [`Config::max_buffered`] sequence numbers and as many datagrams of the next epoch are held, with few
//!   variants per number. Their bytes are bounded as well, see [`Receiver::held_bytes`].
//!
//! Rule numbers L1 to L7 are those of the specification; the README of `corniche-neobft` lists them. Source: NeoBFT
//! (SIGCOMM 2023), sections 3.2, 4.2 to 4.4.

mod assembly;
mod certificate;
mod confirm;
mod receiver;

pub use certificate::{ConfirmVote, Link, OrderingCertificate, Proof};
pub use receiver::{Config, Counters, Delivery, EpochKey, Output, Receiver, Suspicion};

/// Maximum number of digests in one CONFIRM.
pub const MAX_CONFIRMED: usize = 16;
pub use corniche_aom_wire::MAX_CHAIN;
