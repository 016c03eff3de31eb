//! Status of a transaction: `corniche_getTransactionStatus`.

use crate::{TransactionTimes, quantity};
use alloy_primitives::B256;
use serde::{Deserialize, Serialize};

/// Status names of RPC, logs and explorer. A transaction goes through the first four in this order and may end in one of the
/// last two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum TransactionStatus {
    /// In this node's pool, or proposed.
    Pending,
    /// Ordered, not executed yet.
    Ordered,
    /// In a durable block; the receipt is available.
    Executed {
        /// Hash of its block.
        block_hash: B256,
        /// Height of its block.
        #[serde(with = "quantity")]
        block_number: u64,
    },
    /// In a block that is certified: a quorum signed it or a descendant.
    Certified {
        /// Hash of its block.
        block_hash: B256,
        /// Height of its block.
        #[serde(with = "quantity")]
        block_number: u64,
    },
    /// Permanently removed from the pool.
    Dropped {
        /// Phrase of a [`Reason`](crate::Reason), if it has one.
        reason: String,
    },
    /// Replaced by another transaction.
    Replaced {
        /// Hash of the replacement: same sender, same nonce, higher fees.
        by: B256,
    },
}

/// Status of a transaction, with times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionReport {
    /// Current status.
    #[serde(flatten)]
    pub status: TransactionStatus,
    /// Times that this node knows.
    #[serde(flatten)]
    pub times: TransactionTimes,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn report_flattens_status_and_times() {
        let times = TransactionTimes { received_ms: Some(16), left_ms: Some(17), ordered_ms: None };
        let report = TransactionReport { status: TransactionStatus::Dropped { reason: "nonce too low".into() }, times };
        let expected = json!({"status": "dropped", "reason": "nonce too low", "receivedMs": "0x10", "leftMs": "0x11"});
        assert_eq!(serde_json::to_value(&report).unwrap(), expected);
        assert_eq!(serde_json::from_value::<TransactionReport>(expected.clone()).unwrap(), report);
        assert_eq!(
            serde_json::from_value::<TransactionStatus>(expected).unwrap(),
            report.status,
            "who wants no times ignores them"
        );
        assert_eq!(
            serde_json::from_value::<TransactionReport>(json!({"status": "pending"})).unwrap().times,
            Default::default()
        );
    }

    #[test]
    fn json_format_is_stable() {
        let hash = B256::repeat_byte(1);
        let table = [
            (TransactionStatus::Pending, json!({"status": "pending"})),
            (
                TransactionStatus::Certified { block_hash: hash, block_number: 16 },
                json!({"status": "certified", "blockHash": hash, "blockNumber": "0x10"}),
            ),
            (
                TransactionStatus::Dropped { reason: "nonce too low".into() },
                json!({"status": "dropped", "reason": "nonce too low"}),
            ),
            (TransactionStatus::Replaced { by: hash }, json!({"status": "replaced", "by": hash})),
        ];
        for (status, expected) in table {
            assert_eq!(serde_json::to_value(&status).unwrap(), expected);
            assert_eq!(serde_json::from_value::<TransactionStatus>(expected).unwrap(), status);
        }
    }
}
