//! Errors: one table of codes and phrases.
//!
//! Wallet libraries match the code *and* regular expressions over the message, both as geth defines them, so the phrases
//! below are part of the interface. geth uses code −32000 for every reason to reject a transaction.

use crate::Method;
use alloy_primitives::{B256, Bytes};
use corniche_types::{DecodeError, SkipReason};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Error codes of JSON-RPC 2.0, EIP-1474 and geth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum ErrorCode {
    /// The body is not JSON.
    Parse = -32700,
    /// JSON, but not a request; also an empty or oversized batch.
    InvalidRequest = -32600,
    /// Unknown method, or one that this node does not serve.
    MethodNotFound = -32601,
    /// A parameter is missing, superfluous or invalid.
    InvalidParams = -32602,
    /// Internal error of this node.
    Internal = -32603,
    /// The request is valid but refused; the message contains the reason.
    Refused = -32000,
    /// The response would exceed the size limit.
    ResponseTooLarge = -32003,
    /// A limit of this node, not of the chain: retry later or request less.
    LimitExceeded = -32005,
    /// A call reverted; `data` contains its return data.
    Reverted = 3,
    /// No receipt within the requested timeout; `data` contains the transaction hash (EIP-7966).
    NotProcessedInTime = 4,
}

impl ErrorCode {
    /// Every code, in the order of the table in the documentation.
    pub const ALL: &'static [Self] = &[
        Self::Parse,
        Self::InvalidRequest,
        Self::MethodNotFound,
        Self::InvalidParams,
        Self::Internal,
        Self::Refused,
        Self::ResponseTooLarge,
        Self::LimitExceeded,
        Self::Reverted,
        Self::NotProcessedInTime,
    ];

    /// Message without details.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Parse => "parse error",
            Self::InvalidRequest => "invalid request",
            Self::MethodNotFound => "the method … does not exist/is not available",
            Self::InvalidParams => {
                "invalid argument, with its position counted from 0; missing value for required argument; too many arguments"
            }
            Self::Internal => "internal error",
            Self::Refused => "what a transaction or a request is refused for, in geth's words where it has any",
            Self::ResponseTooLarge => "response too large",
            Self::LimitExceeded => "a limit of this node, not of the chain",
            Self::Reverted => "execution reverted",
            Self::NotProcessedInTime => {
                "The transaction was added to the mempool but wasn't processed in …, with its hash as data"
            }
        }
    }

    /// Number in a response.
    pub const fn number(self) -> i32 {
        self as i32
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = ($code:ident, $phrase:literal),)*) => {
        /// Reason why a node refuses a request, with its code and the phrase that clients match.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[$doc])* $variant,)*
        }

        impl Reason {
            /// Every reason, in the order of the table below.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its error code.
            pub const fn code(self) -> ErrorCode {
                match self {
                    $(Self::$variant => ErrorCode::$code,)*
                }
            }

            /// The start of the message; detail may follow a colon.
            pub const fn phrase(self) -> &'static str {
                match self {
                    $(Self::$variant => $phrase,)*
                }
            }
        }
    };
}

reasons! {
    // transactions
    /// The sender's nonce is already higher: a block contains a transaction with this nonce.
    NonceTooLow = (Refused, "nonce too low"),
    /// The nonce is too far above the sender's next nonce.
    NonceTooHigh = (Refused, "nonce too high"),
    /// The nonce has its maximum value (EIP-2681).
    NonceMax = (Refused, "nonce has max value"),
    /// The balance does not cover gas limit × max fee + value.
    InsufficientFunds = (Refused, "insufficient funds for gas * price + value"),
    /// The pool has a transaction with this nonce, and the new one does not raise both fees by at least 10 %.
    ReplacementUnderpriced = (Refused, "replacement transaction underpriced"),
    /// The pool already contains the transaction.
    AlreadyKnown = (Refused, "already known"),
    /// The gas limit does not cover the intrinsic gas.
    IntrinsicGasTooLow = (Refused, "intrinsic gas too low"),
    /// The max fee is below the base fee.
    FeeCapBelowBaseFee = (Refused, "max fee per gas less than block base fee"),
    /// The priority fee is above the max fee.
    TipAboveFeeCap = (Refused, "max priority fee per gas higher than max fee per gas"),
    /// The fees are too low for a place in the pool.
    Underpriced = (Refused, "transaction underpriced"),
    /// It was signed for another chain.
    InvalidChainId = (Refused, "invalid chain id for signer"),
    /// Without a chain id, the transaction could be replayed on any chain (EIP-155).
    Unprotected = (Refused, "only replay-protected (EIP-155) transactions allowed over RPC"),
    /// The signature is invalid, or the malleable twin of a valid one (EIP-2).
    InvalidSender = (Refused, "invalid sender"),
    /// The sender has contract code (EIP-3607).
    SenderNotEoa = (Refused, "sender not an eoa"),
    /// The transaction exceeds the size limit.
    OversizedData = (Refused, "oversized data"),
    /// Types 3, 4 and unknown ones (EIP-2718).
    TypeNotSupported = (Refused, "transaction type not supported"),
    /// Not the canonical RLP of a transaction.
    Malformed = (Refused, "rlp"),
    /// The gas limit exceeds that of a proposer's batch or of a block.
    ExceedsBlockGasLimit = (Refused, "exceeds block gas limit"),
    /// The creation data exceeds the size limit (EIP-3860 with Corniche's limit).
    InitCodeSize = (Refused, "max initcode size exceeded"),
    /// The pool has no room, for this account or in total.
    PoolFull = (Refused, "txpool is full"),
    /// The sender has the maximum number of transactions in the pool.
    AccountLimit = (Refused, "account limit exceeded"),
    /// The disk is nearly full, the node is stopping or catching up.
    NotAccepting = (LimitExceeded, "node does not accept transactions now"),
    /// The transaction was dropped while its sender waited for the receipt.
    TransactionDropped = (Refused, "transaction dropped"),
    /// The transaction was replaced by another one with the same nonce while its sender waited for the receipt.
    TransactionReplaced = (Refused, "transaction replaced"),
    // calls
    /// The contract reverted; its return data is in `data`.
    ExecutionReverted = (Reverted, "execution reverted"),
    /// The call needs more gas than its gas limit.
    OutOfGas = (Refused, "out of gas"),
    /// The transaction fails with every permitted gas limit.
    GasRequiredExceedsAllowance = (Refused, "gas required exceeds allowance"),
    /// A trap, or another end that is neither success nor a revert.
    ExecutionFailed = (Refused, "execution failed"),
    /// The call exceeded the time limit of a request. The message gives the limit in brackets, as geth does.
    ExecutionAborted = (Refused, "execution aborted"),
    // blocks, state, logs, filters
    /// The node has no block yet, because it fetches a snapshot of the state. The message gives its progress.
    FetchingSnapshot = (LimitExceeded, "the node fetches a snapshot"),
    /// Unknown block.
    HeaderNotFound = (Refused, "header not found"),
    /// The block exists, but this node does not have it: it deleted old blocks, or began with a snapshot of the state. The message gives
    /// the first block that it has.
    BlockNotAvailable = (Refused, "block not available"),
    /// The block exists, but this node does not keep its state, or cannot prove it.
    StateNotAvailable = (Refused, "state not available"),
    /// The filter never existed, was uninstalled, expired after five minutes without a poll, or is of the wrong kind for the method.
    FilterNotFound = (Refused, "filter not found"),
    /// This connection has no such subscription.
    SubscriptionNotFound = (Refused, "subscription not found"),
    /// The last requested block does not exist yet.
    RequestBeyondHead = (Refused, "request beyond head block"),
    /// The first block is after the last.
    InvalidBlockRange = (InvalidParams, "invalid block range params"),
    /// More blocks than one request may search.
    BlockRangeTooLarge = (InvalidParams, "exceed maximum block range"),
    /// More addresses than one filter may have.
    TooManyAddresses = (InvalidParams, "exceed max addresses"),
    /// More alternatives for one topic than a filter may have.
    TooManyTopics = (InvalidParams, "exceed max topics"),
    /// No block has this hash.
    UnknownBlock = (Refused, "unknown block"),
    /// The search exceeded the time limit of a request; the message gives the blocks searched so far.
    QueryTooLong = (LimitExceeded, "query exceeds maximum time"),
    /// More results than fit in one response; the message gives the limit.
    TooManyResults = (LimitExceeded, "query returned more than"),
    /// More slots than one request may read.
    TooManySlots = (InvalidParams, "exceed max storage slots"),
    // traces
    /// No block contains the transaction.
    TransactionNotFound = (Refused, "transaction not found"),
    /// Block 0 has no execution to trace.
    GenesisNotTraceable = (Refused, "genesis is not traceable"),
    /// No tracer of this name, or tracing is not available for the request.
    TracerNotAvailable = (Refused, "tracer not available"),
    /// The trace exceeds the size limit of a response.
    TraceTooLarge = (LimitExceeded, "trace too large"),
    // the DAG
    /// The node is a full node, or is configured to keep no DAG data.
    DagNotAvailable = (Refused, "this node has no DAG to show"),
    /// The first round is after the last, or after the newest one.
    InvalidRoundRange = (InvalidParams, "invalid round range"),
    /// More rounds than fit in one response.
    RoundRangeTooLarge = (InvalidParams, "exceed maximum round range"),
    // development chains
    /// `eth_sendTransaction` from an account that is not impersonated and whose key the node does not have.
    UnknownAccount = (Refused, "unknown account"),
    /// Development methods are not available on this chain.
    NotDevelopment = (Refused, "not a development chain"),
    /// The development chain cannot execute the command.
    NotObeyed = (Refused, "cannot do that"),
    // limits of the server
    /// The node's budget of time, connections or memory for requests is used up.
    ServerBusy = (LimitExceeded, "server busy"),
    /// More requests per second than one client may send.
    RateLimited = (LimitExceeded, "rate limit exceeded"),
    /// The maximum number of filters, of this node or of the client, is open.
    TooManyFilters = (LimitExceeded, "too many filters"),
    /// The filters and log subscriptions of this node, or those of one client, have the maximum number of addresses and topics.
    TooManyLogCriteria = (LimitExceeded, "too many log criteria"),
    /// The connection has its maximum number of subscriptions.
    TooManySubscriptions = (LimitExceeded, "too many subscriptions"),
    /// The response would exceed the size limit.
    ResponseTooLarge = (ResponseTooLarge, "response too large"),
    /// More requests in a batch than allowed.
    BatchTooLarge = (InvalidRequest, "batch too large"),
    /// A batch without a request.
    EmptyBatch = (InvalidRequest, "empty batch"),
    /// The body exceeds the size limit.
    RequestTooLarge = (InvalidRequest, "request body too large"),
    /// Subscriptions require a WebSocket connection.
    NotificationsNotSupported = (MethodNotFound, "notifications not supported"),
}

impl Reason {
    /// Error with the phrase as its message.
    pub fn error(self) -> RpcError {
        RpcError::new(self.code(), self.phrase())
    }

    /// Error with the message `phrase: detail`.
    pub fn with(self, detail: impl std::fmt::Display) -> RpcError {
        RpcError::new(self.code(), format!("{}: {detail}", self.phrase()))
    }
}

/// Detail of [`Reason::BlockNotAvailable`], before the number.
const PRUNED_BELOW: &str = "pruned below ";

/// First block that a node has, by the message of [`RpcError::pruned_below`]. `None` for other messages.
pub fn first_available_block(message: &str) -> Option<u64> {
    let detail = message.strip_prefix(Reason::BlockNotAvailable.phrase())?.strip_prefix(": ")?;
    detail.strip_prefix(PRUNED_BELOW)?.parse().ok()
}

impl From<SkipReason> for Reason {
    /// Reason in the response for a transaction that would be skipped for `reason`.
    fn from(reason: SkipReason) -> Self {
        match reason {
            // A client never gets these two for a transaction.
            SkipReason::Undecodable | SkipReason::Notice | SkipReason::NoticeRefused => Self::Malformed,
            SkipReason::BadSignature => Self::InvalidSender,
            SkipReason::WrongChain => Self::InvalidChainId,
            SkipReason::NonceTooLow => Self::NonceTooLow,
            SkipReason::NonceTooHigh => Self::NonceTooHigh,
            SkipReason::Underfunded => Self::InsufficientFunds,
            SkipReason::Underpriced => Self::FeeCapBelowBaseFee,
            SkipReason::IntrinsicGas => Self::IntrinsicGasTooLow,
            SkipReason::GasLimit => Self::ExceedsBlockGasLimit,
            SkipReason::TipAboveFee => Self::TipAboveFeeCap,
            SkipReason::SenderNotEoa => Self::SenderNotEoa,
            SkipReason::InitCodeSize => Self::InitCodeSize,
            SkipReason::NonceMax => Self::NonceMax,
        }
    }
}

impl From<DecodeError> for RpcError {
    fn from(error: DecodeError) -> Self {
        // The error's message starts with the phrase.
        Self::new(ErrorCode::Refused, error.to_string())
    }
}

/// The `error` member of a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct RpcError {
    /// Number of an [`ErrorCode`]; `eth_simulateV1` has additional codes.
    pub code: i32,
    /// Message for people and for the expressions of wallets. Starts with the phrase of a [`Reason`] if there is one.
    pub message: String,
    /// Revert data of a reverted call, or the hash of a transaction that was not processed in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Bytes>,
}

impl RpcError {
    /// Error without data.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code: code.number(), message: message.into(), data: None }
    }

    /// Error of a reverted call. The message starts with "execution reverted"; the decoded reason may follow a colon.
    pub fn reverted(output: Bytes, reason: Option<&str>) -> Self {
        let phrase = Reason::ExecutionReverted.phrase();
        let message = reason.map_or_else(|| phrase.to_string(), |reason| format!("{phrase}: {reason}"));
        Self { code: ErrorCode::Reverted.number(), message, data: Some(output) }
    }

    /// [`ErrorCode::MethodNotFound`] with geth's message. Long names are truncated to 64 characters.
    pub fn method_not_found(name: &str) -> Self {
        // A name is the client's text of any length; clients match the code.
        let name: String = name.chars().take(64).collect();
        Self::new(ErrorCode::MethodNotFound, format!("the method {name} does not exist/is not available"))
    }

    /// Error of a timeout, with EIP-7966's message. The transaction stays in the pool.
    pub fn not_processed_in(patience: Duration, hash: B256) -> Self {
        let message = format!("The transaction was added to the mempool but wasn't processed in {patience:?}");
        Self { data: Some(Bytes::copy_from_slice(hash.as_slice())), ..Self::new(ErrorCode::NotProcessedInTime, message) }
    }

    /// Error for a method of this build that this node does not serve. Has the code of an unknown method, because clients probe
    /// for methods and handle that code.
    pub fn not_served(method: Method) -> Self {
        let mut error = Self::method_not_found(method.name());
        let namespace = method.config_name();
        error.message += &format!(
            ": this node does not serve the namespace \"{namespace}\"; its operator can enable it in node.toml \
             ([serve] namespaces) or with --namespaces"
        );
        error
    }

    /// [`Reason::BlockNotAvailable`] of a node whose first block, apart from the genesis, is `first`.
    pub fn pruned_below(first: u64) -> Self {
        Reason::BlockNotAvailable.with(format!("{PRUNED_BELOW}{first}"))
    }

    /// [`ErrorCode::InvalidParams`] with this message.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidParams, message)
    }

    /// [`ErrorCode::Internal`] with this message, which is sent to the client.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expressions of viem 2 and ethers 6, by the part of them that must occur in the message.
    #[test]
    fn phrases_match_wallet_libraries() {
        let table = [
            (Reason::NonceTooLow, "nonce too low"),
            (Reason::NonceTooHigh, "nonce too high"),
            (Reason::InsufficientFunds, "insufficient funds"),
            (Reason::ReplacementUnderpriced, "replacement transaction underpriced"),
            (Reason::AlreadyKnown, "already known"),
            (Reason::IntrinsicGasTooLow, "intrinsic gas too low"),
            (Reason::FeeCapBelowBaseFee, "max fee per gas less than block base fee"),
            (Reason::InvalidChainId, "invalid chain id"),
            (Reason::OversizedData, "oversized data"),
            (Reason::ExecutionReverted, "execution reverted"),
            (Reason::TipAboveFeeCap, "max priority fee per gas higher than max fee per gas"),
            (Reason::TypeNotSupported, "transaction type not supported"),
        ];
        for (reason, phrase) in table {
            assert!(reason.error().message.contains(phrase), "{reason:?}");
            assert!(reason.with("detail").message.starts_with(reason.phrase()), "{reason:?}");
        }
    }

    #[test]
    fn revert_has_code_3_and_hex_data() {
        let error = RpcError::reverted(Bytes::from_static(&[0x08, 0xc3]), Some("no"));
        let json = serde_json::to_value(&error).unwrap();
        assert_eq!(json, serde_json::json!({"code": 3, "message": "execution reverted: no", "data": "0x08c3"}));
    }

    /// The explorer begins with the block that this message names.
    #[test]
    fn pruned_block_names_first_available_one() {
        let error = RpcError::pruned_below(1_000_000);
        assert_eq!((error.code, &*error.message), (-32000, "block not available: pruned below 1000000"));
        assert_eq!(first_available_block(&error.message), Some(1_000_000));
        for other in ["header not found", "block not available", "block not available: pruned below 0x10"] {
            assert_eq!(first_available_block(other), None, "{other}");
        }
    }

    #[test]
    fn rejected_type_uses_documented_phrase() {
        let error = RpcError::from(DecodeError::TypeNotSupported { type_byte: 3 });
        assert_eq!(error, Reason::TypeNotSupported.error());
        let error = RpcError::from(DecodeError::Oversized { size: 200_000 });
        assert!(error.message.starts_with(Reason::OversizedData.phrase()));
    }
}
