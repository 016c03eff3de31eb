//! Packets of the authenticated ordered multicast, format `aom/1`: encode, decode, stamp, verify.
//!
//! A sender makes a [`Request`]. The sequencer of the group stamps it: it takes the next sequence number and makes an
//! authenticator. Each receiver decodes a [`Packet`] and verifies its own tag or the signature.
//!
//! ```text
//!   sender                  sequencer                         receiver
//!   encode_request ──▶ Request::decode, Stamper::stamp ──▶ Packet::decode, verify_digest,
//!                                                          Header::verify_tag or verify_signature
//! ```
//!
//! # Header
//!
//! 160 bytes, integers big-endian, then 0 to 8,800 bytes of payload. S: written by the sender. Q: written by the sequencer,
//! which ignores and overwrites these fields of a request.
//!
//! | Offset | Bytes | Field | By | Rule |
//! |---|---|---|---|---|
//! | 0 | 2 | magic | S | 0xA04D |
//! | 2 | 1 | version | S | 1 |
//! | 3 | 1 | kind | S, Q | 0 request, 1 HM (keyed hashes), 2 PK (signature and hash chain), 3 [`EpochStart`] |
//! | 4 | 4 | group | S | |
//! | 8 | 4 | epoch | Q | never reused |
//! | 12 | 1 | subgroup | Q | HM: index i, for receivers 4i to 4i+3. PK: 0 |
//! | 13 | 1 | receivers | Q | HM: n, 1 to 64. PK: 0 |
//! | 14 | 1 | suite | Q | see [`Suite`] |
//! | 15 | 1 | reserved | | 0 |
//! | 16 | 8 | seq | Q | from 1 in each epoch |
//! | 24 | 32 | digest | S | [`payload_digest`] |
//! | 56 | 64 | authenticator | Q | tags or signature, then zeros |
//! | 120 | 8 | prev_seq | Q | PK: seq of the packet whose hash is prev_hash. HM: 0 |
//! | 128 | 32 | prev_hash | Q | PK: [`Header::hash`] of that packet. HM: 0 |
//!
//! A vector of HM has ⌈n/4⌉ packets with one seq; each holds four tags. Tags of receivers that do not exist are zero.
//!
//! # Invariants
//!
//! - Decoding and verifying never panic, whatever the bytes. Nothing here allocates more than the size of its input.
//! - A decoded packet encodes to the same bytes: every unused byte must be zero.
//! - A tag fits one chain, group, epoch, receiver and suite, because the key is derived from all of them.
//!
//! This crate keeps no clock and no socket. Gaps, incomplete vectors and hash chains belong to the receiver library.
//! Source: NeoBFT (SIGCOMM 2023), sections 4.1 to 4.4. The paper gives no field widths.

#![warn(missing_docs)]

mod error;
mod halfsip;
mod hash;
mod header;
mod signature;
mod stamper;
mod suite;
mod tag;

pub use error::Error;
pub use hash::{genesis_hash, header_hash, payload_digest};
pub use header::{EpochStart, Header, Packet, Request, encode_request};
pub use signature::{SigningKey, VerifyingKey};
pub use stamper::{Stamped, Stamper};
pub use suite::{Kind, Suite};
pub use tag::{ExchangeKey, TagKey, TagScope, derive_tag_key, exchange_public};

/// First two bytes of every packet.
pub const MAGIC: u16 = 0xA04D;
/// Version of the format.
pub const VERSION: u8 = 1;
/// Size of the header, in bytes.
pub const HEADER_BYTES: usize = 160;
/// Size of the part of the header that tags and hashes cover, in bytes.
pub const AUTHENTICATED_BYTES: usize = 56;
/// Size of the authenticator, in bytes.
pub const AUTHENTICATOR_BYTES: usize = 64;
/// Maximum size of a payload, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 8800;
/// Maximum size of a packet, in bytes.
pub const MAX_PACKET_BYTES: usize = HEADER_BYTES + MAX_PAYLOAD_BYTES;
/// Maximum number of receivers of a group with tags.
pub const MAX_RECEIVERS: usize = 64;
/// Maximum number of packets between a packet and the signature that covers it: twice the default of a sequencer (32). Packets
/// farther from a signature count as not received. A chain is part of each certificate, so it bounds the size of messages.
pub const MAX_CHAIN: usize = 64;
/// Number of tags in one packet.
pub const TAGS_PER_PACKET: usize = 4;
