//! Remote signer: a process that holds a validator's consensus (ed25519) and BLS keys, and refuses what would be a double signature.
//!
//! The node asks for each signature over a Unix socket and abstains if it gets none. Marks on disk outlive the node's own memory:
//! a node that is restored from a backup, or started twice, cannot sign twice.
//!
//! ```text
//!   node                                  signer
//!   RemoteSigner ── Request ──▶ socket ──▶ Server ──▶ Marks: may it be signed?
//!        ▲                                   │            │ record
//!        │                                   │            ▼
//!        └────────── Response ◀────────────────┴──◀── MarkFile: durable first
//! ```
//!
//! # Protocol
//!
//! Each message is a frame: length (u32, little-endian, at most 128 KiB), version byte 1, borsh. Each request gets one answer, in
//! order. The first request is [`Request::Hello`]. There is one client; a second one gets [`Response::Busy`]. Clients run as one user.
//! Both sides check the user at the other end, and the client verifies each signature. After a failure it pauses ([`BACK_OFF`]).
//! The signer closes the connection after a malformed or oversized frame, after [`Response::Unsupported`], after a request before
//! Hello, and when a client leaves its answers unread.
//!
//! Requests have fields, and the signer makes all digests. The exception is a notice, whose content is never an offence.
//!
//! # Rules
//!
//! | Rule | Statements | Signed if |
//! |---|---|---|
//! | Chain | all | the chain id is that of the marks; Hello also compares the genesis |
//! | Epoch | all | the epoch is not below the greatest signed one; a later one resets rounds, cars and slots |
//! | Start | all but notices | without marks on disk, the epoch is after the first one that was asked about, or opened by the operator |
//! | Block | Block | the round is above the mark, or the heading is the last one again |
//! | Car | Car | the position is not below the mark |
//! | Slot | Prepare, Vote, Timeout | the slot is one of the 64 newest |
//! | Once | Prepare, Vote, Timeout | the view has no other value of this kind, and no later view has one |
//! | Given up | Vote | no TIMEOUT was signed in this view or a later one, or the vote is the last one of its kind again |
//! | Report | Timeout | the report names the last strong vote and the last CONFIRM-ACK, or later ones |
//! | Header | Header | the height is above the mark, or the header was signed before (last 64) |
//! | Unmarked | CarVote, DiskId, Notice | always, after the rules above: two of them are no offence |
//!
//! Marks are exact, and durable before the signature leaves. So a restart of the signer, even after a power cut, changes no outcome.
//! If an answer was lost, the same statement is signed again. An exact repeat changes no mark and needs no sync.
//!
//! Strong and weak PREP-VOTEs are one kind for different values. The kind of a share (ed25519 or BLS) has no effect on the rules.
//! [`Contradiction::holds`](corniche_types::evidence::Contradiction::holds) accepts no two statements that these rules admit.
//!
//! Notices neither need nor raise the epoch of the marks. A node that catches up makes them for an old state, which says nothing
//! about the epochs that the validator has signed.
//!
//! # Departures from `protocols/validators.md` §5
//!
//! - Coin keys stay with the node: what they sign is not punishable, and dealings would have to pass the socket. So there are no
//!   requests for coin shares and dealings.
//! - Nothing is reserved. A record that covers 16 rounds, slots or heights in advance would save syncs, but after a crash the signer
//!   must refuse all of them for ever. A power cut that stops the signers of more than F validators would stop the chain: all of
//!   them would refuse the same rounds, and Mahi-Mahi needs a quorum of blocks in each round, Autobahn a quorum in each slot.
//!   The cost is one sync for each signature. Repeats and unmarked statements need none.
//! - The last position of a car may be signed again with other content: a node that lost power between the signature and its own
//!   record needs it, because a lane may not skip a position. Two such cars are no offence.
//! - Views of a slot never go back. The engine never enters a view again, and one statement of each kind suffices as memory.
//!
//! # Limits
//!
//! A client can make the signer useless, but not dangerous: a statement for the highest epoch, round or height closes all lower
//! ones for ever. Chains before protocol version 5 sign blocks without headings, which the signer does not know.
//!
//! A node that loses power after the signature of a block, and before its own record of that block, has no block in that round: it
//! would make another heading. It continues in the next round if a quorum of others has blocks in this one. Likewise it takes no further
//! part in the view of a slot after a vote that it has no record of.

#![warn(missing_docs)]

mod client;
mod keys;
mod log_limit;
mod mark_file;
mod marks;
mod request;
mod server;
mod socket;

pub use client::{BACK_OFF, ClientError, RESPONSE_BUCKETS_US, RESPONSE_TIMEOUT, RemoteSigner, SignerStats, Unsigned};
pub use keys::SecretKeys;
pub use mark_file::{FILE_NAME, MarkError};
pub use request::{
    FrameError, MAX_FRAME_BYTES, PublicKeys, Refusal, Request, Response, Scope, Statement, StatementKind, encode_frame,
    take_frame,
};
pub use server::{Server, ServerError, ServerOptions, StopHandle};
