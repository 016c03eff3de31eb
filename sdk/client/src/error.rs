//! Whose fault it was when a call failed.

use corniche_api::ErrorCode;
use corniche_types::{B256, Bytes};
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// Why a call of the client failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing answered, or the answer did not come through. What was asked may have happened.
    #[error("{url}: {problem}")]
    Unreachable {
        /// Of the node.
        url: String,
        /// What went wrong on the way.
        problem: String,
    },
    /// Something answered that is not a node of ours.
    #[error("{method}: the answer makes no sense: {problem}")]
    Nonsense {
        /// What was asked.
        method: String,
        /// What is wrong with the answer.
        problem: String,
    },
    /// The node said no. Asking the same again gets the same answer until the state changes.
    #[error("{method}: {refusal}")]
    Refused {
        /// What was asked.
        method: String,
        /// In the node's words.
        refusal: Refusal,
    },
    /// A call or an estimate reverted. The data is what the contract returned, usually an ABI-encoded error.
    #[error("{message}")]
    Reverted {
        /// In the node's words.
        message: String,
        /// What the contract returned.
        data: Bytes,
    },
    /// The node's answers do not prove what they claim. It lies, or is on another network than the genesis at hand.
    #[error("block {number} is not proven: {problem}")]
    Unproven {
        /// The block in question.
        number: u64,
        /// What does not hold.
        problem: String,
    },
    /// No receipt within the time given. The transaction may still be executed.
    #[error("transaction {hash} has no receipt after {waited:?}; it may still come")]
    Deadline {
        /// The transaction.
        hash: B256,
        /// The deadline.
        waited: Duration,
    },
    /// The transaction left the pool and will not be executed.
    #[error("transaction {hash} will not come: {reason}")]
    Gone {
        /// The transaction.
        hash: B256,
        /// In the node's words.
        reason: String,
    },
    /// The draft cannot be signed as it is.
    #[error("cannot sign: {0}")]
    Unsignable(String),
}

/// The error object of a JSON-RPC answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct Refusal {
    /// One of [`corniche_api::ErrorCode`].
    pub code: i64,
    /// A sentence for people; its phrases are geth's.
    pub message: String,
    /// With a revert, what the contract returned.
    #[serde(default)]
    pub data: Option<Value>,
}

impl Refusal {
    /// The error that a caller of `method` gets.
    pub(crate) fn into_error(self, method: &str) -> ClientError {
        let reverted = self.code == i64::from(ErrorCode::Reverted.number());
        let data = self.data.as_ref().and_then(Value::as_str).and_then(|text| text.parse::<Bytes>().ok());
        match reverted {
            true => ClientError::Reverted { message: self.message, data: data.unwrap_or_default() },
            false => ClientError::Refused { method: method.to_owned(), refusal: self },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revert_keeps_its_data_and_other_refusals_their_code() {
        let revert = Refusal { code: 3, message: "execution reverted".into(), data: Some("0x1234".into()) };
        match revert.into_error("eth_call") {
            ClientError::Reverted { data, .. } => assert_eq!(data.as_ref(), [0x12, 0x34]),
            other => panic!("{other}"),
        }
        let low = Refusal { code: -32000, message: "nonce too low".into(), data: None };
        let error = low.into_error("eth_sendRawTransaction");
        assert_eq!(error.to_string(), "eth_sendRawTransaction: nonce too low (code -32000)");
    }
}
