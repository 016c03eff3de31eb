//! Types shared by all of Corniche: transactions, blocks, receipts, certificates, the genesis, and their canonical
//! encodings. Also proofs of the state ([`proof`]) and the location of certified headers in it ([`certified`]). This
//! crate performs no I/O, verifies no signatures and implements no protocol.
//!
//! Ethereum's own formats (transactions, headers, receipts) are `alloy`'s and are encoded as RLP. All other types are
//! encoded as a version byte followed by borsh, and decoded strictly ([`wire`]).

#![warn(missing_docs)]

mod account;
mod block;
mod certificate;
pub mod certified;
mod epoch_change;
pub mod evidence;
mod genesis;
mod ids;
pub mod intrinsic;
mod ordering;
pub mod proof;
mod protocol;
mod receipt;
mod snapshot;
mod staking;
mod transaction;
mod trust;
mod votes;
pub mod wire;

pub use account::{ABI_VERSION, Account, KECCAK_EMPTY};
pub use alloy_consensus::Header;
pub use alloy_primitives::{Address, B256, Bloom, Bytes, TxKind, U256, address, keccak256};
pub use block::{Block, EncodedHeader, OrderedTransaction, decode_header, encode_header, header_hash};
pub use certificate::{Certificate, FaultModel, SignerBitmap};
pub use epoch_change::{EpochChange, LightMember, RecordHead, light_root};
pub use genesis::{
    EngineConfig, FeeRules, Genesis, GenesisAccount, GenesisError, MAX_VALIDATORS, MulticastGroup, SHARDED_ENGINE,
    SHARDED_VALIDATORS, SignatureChecks, ValidatorInfo,
};
pub use ids::{CommitIndex, Epoch, Height, TimestampMs, ValidatorIndex};
pub use intrinsic::intrinsic_gas;
pub use ordering::{BatchRef, NextEpoch, OrderingRecord, Resume, SkipReason, Skipped};
pub use proof::{Proof, ProofError};
pub use protocol::{KnownVersions, ProtocolRules, Upgrade};
pub use receipt::{Log, Receipt};
pub use snapshot::SnapshotTail;
pub use staking::{GenesisStake, STAKING_ADDRESS, StakingError, StakingParameters};
pub use transaction::{DecodeError, MAX_TRANSACTION_BYTES, Transaction};
pub use trust::{STALE_HEAD_MS, TrustExpired, TrustPoint, TrustRoot, is_stale_head};
pub use votes::{MAX_VOTES, Votes, Weights};
