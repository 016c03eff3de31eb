//! Protocol versions: the rules under which a block is built and executed.
//!
//! Every rule that affects results and has ever changed is a field of [`ProtocolRules`] (U1). The genesis defines the
//! version of block 1. Where epochs end, the last block of an epoch names the version of the next one (U2, decision 0037).
//! Elsewhere the genesis has the heights at which later versions activate ([`Upgrade`], decision 0018). Only
//! [`Genesis::version_at`](crate::Genesis::version_at) decides which version a block has. Old versions stay, because
//! nodes that start from genesis must execute their blocks again (U4).

use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};

/// The rules of one protocol version.
#[derive(Debug, PartialEq, Eq)]
pub struct ProtocolRules {
    /// Number of the version, from 1.
    pub version: u32,
    /// Gas table and instrumentation for code deployed under these rules. The account stores it as
    /// [`gas_version`](crate::Account::gas_version), so code keeps the version it was validated under.
    pub gas_version: u8,
    /// Maximum bytes of ordered transactions in one block. A block closes before the transaction that would exceed it.
    pub max_block_bytes: u64,
    /// Minimum gas that counts per byte of an ordered transaction, even if it cannot be decoded.
    pub gas_per_ordered_byte: u64,
    /// True if blocks omit transactions that no honest proposer orders: those of a batch after the first
    /// [`batch_gas`](crate::Genesis::batch_gas) of declared gas, and those above the size limit of transactions.
    pub drops_excess: bool,
    /// True if blocks omit ordered bytes that no transaction can be: those that cannot be decoded, and those that declare less
    /// gas than every transaction uses or more than a block has. A commit of which nothing is left makes an empty block.
    pub drops_malformed: bool,
    /// True if [`Genesis::committee_hash`](crate::Genesis::committee_hash) covers the whole genesis. Only the version
    /// of block 1 matters, because the committee hash is part of everything that was signed before an upgrade.
    pub committee_covers_genesis: bool,
    /// Bytes of transactions from which a block closes [`block_ms`](crate::Genesis::block_ms) after the previous one. With
    /// fewer it closes sooner, in proportion, but after a fifth of that time at the earliest. 0: never sooner.
    pub light_block_bytes: u64,
    /// True if validators sign the heading of a Mahi-Mahi block, with the hash of its batch instead of the batch. So two signatures
    /// for one round are evidence that fits a transaction. Only the version of block 1 counts, because rounds are not heights.
    pub signs_headings: bool,
    /// Highest [`block_gas_limit`](crate::Genesis::block_gas_limit) that a genesis may have. Only the version of block 1 counts, because
    /// an upgrade does not change the limit. A gas takes up to 16 ns, so the bound keeps every block within about 16 s.
    pub max_block_gas_limit: u64,
}

impl ProtocolRules {
    /// The first rules.
    pub const V1: Self = Self {
        version: 1,
        gas_version: 1,
        max_block_bytes: u64::MAX,
        gas_per_ordered_byte: 0,
        drops_excess: false,
        drops_malformed: false,
        committee_covers_genesis: false,
        light_block_bytes: 0,
        signs_headings: false,
        max_block_gas_limit: u64::MAX,
    };
    /// Counts compiled stack frames, has prices for older processors, bounds blocks in bytes, and binds signatures to
    /// the genesis.
    pub const V2: Self = Self {
        version: 2,
        gas_version: 2,
        max_block_bytes: 4 << 20,
        gas_per_ordered_byte: 4,
        drops_excess: true,
        drops_malformed: false,
        committee_covers_genesis: true,
        light_block_bytes: 0,
        signs_headings: false,
        max_block_gas_limit: 1_000_000_000,
    };
    /// Omits malformed transactions from blocks.
    pub const V3: Self = Self { version: 3, drops_malformed: true, ..Self::V2 };
    /// Closes blocks with few transactions sooner.
    pub const V4: Self = Self { version: 4, light_block_bytes: 4 << 10, ..Self::V3 };
    /// Divides the [ordering record](crate::OrderingRecord) into a head and a tail, and signs headings.
    pub const V5: Self = Self { version: 5, signs_headings: true, ..Self::V4 };
    /// Rules of new chains.
    pub const LATEST: &'static Self = &Self::V5;

    /// Returns the rules of a version; `None` if this build does not support it.
    pub fn of(version: u32) -> Option<&'static Self> {
        KnownVersions::default().rules(version)
    }
}

/// The versions that a build knows: the table of all rules (U1). Tests build older and newer ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownVersions(&'static [ProtocolRules]);

impl Default for KnownVersions {
    /// The versions of this build.
    fn default() -> Self {
        const TABLE: &[ProtocolRules] =
            &[ProtocolRules::V1, ProtocolRules::V2, ProtocolRules::V3, ProtocolRules::V4, ProtocolRules::V5];
        Self(TABLE)
    }
}

impl KnownVersions {
    /// The versions of a build with these rules, whose numbers ascend from 1.
    pub const fn of_build(rules: &'static [ProtocolRules]) -> Self {
        Self(rules)
    }

    /// Returns the rules of a version; `None` if the build does not know it.
    pub fn rules(self, version: u32) -> Option<&'static ProtocolRules> {
        self.0.iter().find(|rules| rules.version == version)
    }

    /// Returns the highest version, which validators announce.
    pub fn highest(self) -> u32 {
        self.0.iter().map(|rules| rules.version).max().unwrap_or_default()
    }
}

/// A change of rules on a running chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, BorshSerialize, BorshDeserialize)]
#[serde(deny_unknown_fields)]
pub struct Upgrade {
    /// First block under the new rules.
    pub height: u64,
    /// Version of the rules from that height on.
    pub protocol_version: u32,
}
