//! Errors of the client, by cause.

use corniche_api::ErrorCode;
use corniche_crypto::Conflict;
use corniche_types::{B256, Bytes, TrustExpired};
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// Error of a client call.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No response, or an incomplete one. The request may have been executed.
    #[error("{url}: {problem}")]
    Unreachable {
        /// URL of the node.
        url: String,
        /// Description of the failure.
        problem: String,
    },
    /// The response is invalid.
    #[error("{method}: invalid response: {problem}")]
    InvalidResponse {
        /// Method of the request.
        method: String,
        /// Description of what is invalid.
        problem: String,
    },
    /// The node rejected the request. It will reject the same request again until the state changes.
    #[error("{method}: {refusal}")]
    Refused {
        /// Method of the request.
        method: String,
        /// The node's error.
        refusal: Refusal,
    },
    /// A call or an estimate reverted. The data is the contract's return data, usually an ABI-encoded error.
    #[error("{message}")]
    Reverted {
        /// The node's message.
        message: String,
        /// Revert data.
        data: Bytes,
    },
    /// The node's responses do not prove its claim. It is faulty or dishonest, or belongs to another chain than the
    /// genesis.
    #[error("block {number} is not proven: {problem}")]
    Unproven {
        /// Number of the block.
        number: u64,
        /// Description of the failed check.
        problem: String,
    },
    /// The newest block that the light client trusts is too old. Begin at a trust point ([`crate::Client::light_client`]), or accept the
    /// old one ([`corniche_crypto::LightClient::accept_expired_trust`]).
    #[error(transparent)]
    TrustExpired(#[from] TrustExpired),
    /// Quorums have certified two chains. The light client stops; the error has both certificates.
    #[error(transparent)]
    Conflict(#[from] Box<Conflict>),
    /// No receipt within the deadline. The transaction may still be executed.
    #[error("transaction {hash} has no receipt after {waited:?}; it may still be executed")]
    Deadline {
        /// Transaction hash.
        hash: B256,
        /// The deadline.
        waited: Duration,
    },
    /// The transaction left the pool and will not be executed.
    #[error("transaction {hash} will not be executed: {reason}")]
    Dropped {
        /// Transaction hash.
        hash: B256,
        /// The node's reason.
        reason: String,
    },
    /// The draft is incomplete or invalid.
    #[error("cannot sign: {0}")]
    Unsignable(String),
}

/// The error object of a JSON-RPC response.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct Refusal {
    /// Numeric value of a [`corniche_api::ErrorCode`].
    pub code: i64,
    /// Message, with geth's phrases.
    pub message: String,
    /// Revert data, if the call reverted.
    #[serde(default)]
    pub data: Option<Value>,
}

impl Refusal {
    /// Converts it to the error of a request with `method`.
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
    fn revert_keeps_data_and_code() {
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
