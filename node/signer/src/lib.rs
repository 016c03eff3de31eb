//! Remote signer: a process that holds a validator's consensus (ed25519) and BLS keys, and refuses what would be a double signature.

#![warn(missing_docs)]

mod keys;
mod mark_file;
mod marks;
mod request;

pub use keys::SecretKeys;
pub use mark_file::{FILE_NAME, MarkError, MarkFile};
pub use marks::{Marks, OPEN_SLOTS, RESERVED, Record, Verdict};
pub use request::{
    Answer, FrameError, MAX_FRAME_BYTES, PublicKeys, Refusal, Request, Scope, Statement, StatementKind, encode_frame,
    take_frame,
};
