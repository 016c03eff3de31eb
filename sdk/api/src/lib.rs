//! Definition of the JSON-RPC interface: methods, Corniche's own results, error codes. Server, clients and documents all use it,
//! so each name and code is defined once.
//!
//! Ethereum's parameter and result types are `alloy_rpc_types_eth`'s; only what this chain adds (`corniche_*`) is
//! defined here. Nothing here performs I/O.
//!
//! - [`Method`]: every method of a node; [`Namespaces`]: the served ones; [`openrpc`]: all of it as a document;
//! - [`RpcError`], [`ErrorCode`] and [`Reason`]: errors, with the phrases that wallets match;
//! - [`TransactionReport`], [`Ordering`], [`Certificate`], [`Dag`], [`Heads`], [`Validators`], [`EpochInfo`],
//!   [`CommitteeInfo`], [`Staking`], [`Offences`], [`SyncStatus`], [`Peers`], [`Statistics`], [`Execution`], [`Shards`], [`ShardedTransaction`],
//!   [`ShardCertificate`]: results of `corniche_*` methods;
//!   [`DagGrowth`] and [`EpochInfo`]: notifications of subscriptions;
//! - [`ProvenAccount`]: verified result of `eth_getProof`.

#![warn(missing_docs)]

mod certificate;
mod chain;
mod dag;
mod epoch;
mod epoch_change;
mod error;
mod method;
mod namespace;
mod not_served;
pub mod openrpc;
mod ordering;
mod peers;
mod proof;
mod shards;
mod staking;
mod status;
mod sync;

pub use alloy_rpc_types_eth as eth;
pub use certificate::{Certificate, CertificateError};
pub use chain::{Execution, HeadBlock, Heads, Statistics, TransactionTimes, Validator, Validators};
pub use dag::{Dag, DagGrowth, DagRange, DagVertex, FirstRound, Latest, LeaderSlot, SlotStatus};
pub use epoch::{CommitteeFormatError, CommitteeInfo, CommitteeSeat, EpochId, EpochInfo, FollowingEpoch};
pub use epoch_change::{CommitteeMember, EpochChange, EpochChangeFormatError, MAX_EPOCH_CHANGES};
pub use error::{ErrorCode, Reason, RpcError, first_available_block};
pub use method::{Method, SUBSCRIPTION};
pub use namespace::{NamespaceError, Namespaces};
pub use not_served::NOT_SERVED;
pub use ordering::{BatchRange, Ordering, SkippedTransaction};
pub use peers::{Peer, Peers};
pub use proof::{ProvenAccount, ProvenSlot, StorageKey};
pub use shards::{
    Dependency, GatewayInfo, GatewayStatistics, ReplicaInfo, ShardCertificate, ShardInfo, ShardedTransaction, Shards,
    TransactionWay,
};
pub use staking::{EpochPhase, MAX_OFFENCES, Offence, Offences, StakedValidator, Staking, StakingRules};
pub use status::{TransactionReport, TransactionStatus};
pub use sync::{FetchStatus, OfferedSnapshot, SyncStatus};

/// Quantities as Ethereum writes them: hexadecimal without leading zeros.
pub(crate) mod quantity {
    use alloy_primitives::U64;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        U64::from(*value).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        U64::deserialize(deserializer).map(|value| value.to())
    }

    /// For fields that are omitted if they have no value.
    pub mod optional {
        use super::{Deserialize, Deserializer, Serialize, Serializer, U64};

        pub fn serialize<S: Serializer>(value: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
            value.map(U64::from).serialize(serializer)
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
            Option::<U64>::deserialize(deserializer).map(|value| value.map(|value| value.to()))
        }
    }

    /// For lists.
    pub mod list {
        use super::{Deserialize, Deserializer, Serializer, U64};

        pub fn serialize<S: Serializer>(values: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(values.iter().copied().map(U64::from))
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
            Vec::<U64>::deserialize(deserializer).map(|values| values.into_iter().map(|value| value.to()).collect())
        }
    }
}
