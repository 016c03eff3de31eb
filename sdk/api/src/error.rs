//! Refusals: one table of codes and phrases.
//!
//! Wallet libraries decide by the code *and* by regular expressions over the message, and they learned both from geth:
//! a phrase below is part of the interface. Code −32000 is what geth answers to everything a transaction may be refused for.

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
    /// No such method, or none that this node serves.
    MethodNotFound = -32601,
    /// A parameter is missing, too many, or not what the method takes.
    InvalidParams = -32602,
    /// A fault of this node.
    Internal = -32603,
    /// The request is understood and refused; the message says why.
    Refused = -32000,
    /// The answer would exceed the size limit.
    ResponseTooLarge = -32003,
    /// A limit of this node, not of the chain: try again later or ask for less.
    LimitExceeded = -32005,
    /// A call reverted; `data` holds what the contract returned.
    Reverted = 3,
    /// A transaction has no receipt within the time its sender would wait; `data` holds its hash (EIP-7966).
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

    /// What it says by itself.
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

    /// As it stands in a response.
    pub const fn number(self) -> i32 {
        self as i32
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = ($code:ident, $phrase:literal),)*) => {
        /// Why a node refuses, with the code and the phrase clients match.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[$doc])* $variant,)*
        }

        impl Reason {
            /// Every reason, in the order of the table below.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code it is answered with.
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
    /// The sender has a newer transaction in a block.
    NonceTooLow = (Refused, "nonce too low"),
    /// It is too far ahead of the sender's nonce.
    NonceTooHigh = (Refused, "nonce too high"),
    /// The nonce could not grow any more (EIP-2681).
    NonceMax = (Refused, "nonce has max value"),
    /// The balance does not cover gas limit × max fee + value.
    InsufficientFunds = (Refused, "insufficient funds for gas * price + value"),
    /// One of the same nonce waits, and this one does not raise both of its fees by a tenth.
    ReplacementUnderpriced = (Refused, "replacement transaction underpriced"),
    /// It waits in the pool.
    AlreadyKnown = (Refused, "already known"),
    /// The gas limit does not cover what it costs before any of it runs.
    IntrinsicGasTooLow = (Refused, "intrinsic gas too low"),
    /// The max fee is below the base fee.
    FeeCapBelowBaseFee = (Refused, "max fee per gas less than block base fee"),
    /// The priority fee is above the max fee.
    TipAboveFeeCap = (Refused, "max priority fee per gas higher than max fee per gas"),
    /// Its fees are too low for a place in the pool.
    Underpriced = (Refused, "transaction underpriced"),
    /// It was signed for another chain.
    InvalidChainId = (Refused, "invalid chain id for signer"),
    /// Without a chain id, anybody could send it to any chain (EIP-155).
    Unprotected = (Refused, "only replay-protected (EIP-155) transactions allowed over RPC"),
    /// The signature is nobody's, or the malleable twin of one (EIP-2).
    InvalidSender = (Refused, "invalid sender"),
    /// The sender has contract code (EIP-3607).
    SenderNotEoa = (Refused, "sender not an eoa"),
    /// More bytes than a transaction may have.
    OversizedData = (Refused, "oversized data"),
    /// Types 3, 4 and unknown ones (EIP-2718).
    TypeNotSupported = (Refused, "transaction type not supported"),
    /// No canonical RLP of a transaction.
    Malformed = (Refused, "rlp"),
    /// It declares more gas than a proposer's batch may, or than a block has.
    ExceedsBlockGasLimit = (Refused, "exceeds block gas limit"),
    /// More creation data than a transaction may have (EIP-3860 with our number).
    InitCodeSize = (Refused, "max initcode size exceeded"),
    /// The pool has no room, for this account or at all.
    PoolFull = (Refused, "txpool is full"),
    /// As many of the sender's transactions wait as may.
    AccountLimit = (Refused, "account limit exceeded"),
    /// The disk is nearly full, the node is stopping or catching up.
    NotAccepting = (LimitExceeded, "node does not accept transactions now"),
    /// While its sender waited for the receipt.
    TransactionDropped = (Refused, "transaction dropped"),
    /// The same, by another one of its nonce.
    TransactionReplaced = (Refused, "transaction replaced"),
    // calls
    /// The contract undid the call; what it said about it is in the data.
    ExecutionReverted = (Reverted, "execution reverted"),
    /// The call needs more gas than it was given.
    OutOfGas = (Refused, "out of gas"),
    /// No gas limit that may be tried is enough for the transaction.
    GasRequiredExceedsAllowance = (Refused, "gas required exceeds allowance"),
    /// A trap, or another end that is neither success nor a revert by the contract.
    ExecutionFailed = (Refused, "execution failed"),
    /// It took longer than this node gives one request. In brackets, as geth writes it, how long that is.
    ExecutionAborted = (Refused, "execution aborted"),
    // blocks, state, logs, filters
    /// This node has no such block.
    HeaderNotFound = (Refused, "header not found"),
    /// There is such a block, and this node does not keep what the state was then, or cannot prove it.
    StateNotAvailable = (Refused, "state not available"),
    /// Never made, uninstalled, or dropped because nobody asked for it; or it is of another kind than the method.
    FilterNotFound = (Refused, "filter not found"),
    /// This connection has no such subscription.
    SubscriptionNotFound = (Refused, "subscription not found"),
    /// The newest block asked for is not there yet.
    RequestBeyondHead = (Refused, "request beyond head block"),
    /// The first block is after the last.
    InvalidBlockRange = (InvalidParams, "invalid block range params"),
    /// More blocks than this node searches for one request.
    BlockRangeTooLarge = (InvalidParams, "exceed maximum block range"),
    /// More addresses than are compared with each log.
    TooManyAddresses = (InvalidParams, "exceed max addresses"),
    /// More alternatives for one topic than are compared with each log.
    TooManyTopics = (InvalidParams, "exceed max topics"),
    /// No block has this hash.
    UnknownBlock = (Refused, "unknown block"),
    /// Searching took longer than one request may; the message says how far it came.
    QueryTooLong = (LimitExceeded, "query exceeds maximum time"),
    /// More is found than fits one answer; the message goes on with how much does.
    TooManyResults = (LimitExceeded, "query returned more than"),
    /// More slots than are read for one request.
    TooManySlots = (InvalidParams, "exceed max storage slots"),
    // traces
    /// No block holds it.
    TransactionNotFound = (Refused, "transaction not found"),
    /// Nothing was run for block 0.
    GenesisNotTraceable = (Refused, "genesis is not traceable"),
    /// There is no tracer of this name, or none at all for what was asked.
    TracerNotAvailable = (Refused, "tracer not available"),
    /// More happened than one answer may record.
    TraceTooLarge = (LimitExceeded, "trace too large"),
    // the DAG
    /// A full node, or one that was told to keep no trace.
    DagNotAvailable = (Refused, "this node has no DAG to show"),
    /// The first round is after the last, or after the newest there is.
    InvalidRoundRange = (InvalidParams, "invalid round range"),
    /// More rounds than fit one answer.
    RoundRangeTooLarge = (InvalidParams, "exceed maximum round range"),
    // development chains
    /// `eth_sendTransaction` from an account whose key the node does not have and that nobody impersonates.
    UnknownAccount = (Refused, "unknown account"),
    /// Nobody may tell this chain to change at a word.
    NotDevelopment = (Refused, "not a development chain"),
    /// What a development chain was told cannot be done.
    NotObeyed = (Refused, "cannot do that"),
    // limits of the server
    /// What this node lends to requests is lent out: time, connections or memory.
    ServerBusy = (LimitExceeded, "server busy"),
    /// More requests in a second than one client may send.
    RateLimited = (LimitExceeded, "rate limit exceeded"),
    /// As many filters are open as this node keeps, or as one client may have.
    TooManyFilters = (LimitExceeded, "too many filters"),
    /// As many as one connection may have.
    TooManySubscriptions = (LimitExceeded, "too many subscriptions"),
    /// The answer would have more bytes than one may.
    ResponseTooLarge = (ResponseTooLarge, "response too large"),
    /// More requests in a batch than are answered.
    BatchTooLarge = (InvalidRequest, "batch too large"),
    /// A batch without a request.
    EmptyBatch = (InvalidRequest, "empty batch"),
    /// The body has more bytes than are read.
    RequestTooLarge = (InvalidRequest, "request body too large"),
    /// Subscriptions need a connection that stays: WebSocket.
    NotificationsNotSupported = (MethodNotFound, "notifications not supported"),
}

impl Reason {
    /// The refusal in the bare phrase.
    pub fn error(self) -> RpcError {
        RpcError::new(self.code(), self.phrase())
    }

    /// The refusal as `phrase: detail`.
    pub fn with(self, detail: impl std::fmt::Display) -> RpcError {
        RpcError::new(self.code(), format!("{}: {detail}", self.phrase()))
    }
}

impl From<SkipReason> for Reason {
    /// What the one who sent a transaction is told when it would be skipped for `reason`.
    fn from(reason: SkipReason) -> Self {
        match reason {
            SkipReason::Undecodable => Self::Malformed,
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
        // The error's own words start with the phrase.
        Self::new(ErrorCode::Refused, error.to_string())
    }
}

/// The `error` member of a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct RpcError {
    /// The number of an [`ErrorCode`]; `eth_simulateV1` has some of its own.
    pub code: i32,
    /// For people, and for the expressions that wallets match: it begins with the phrase of a [`Reason`] where there is one.
    pub message: String,
    /// Revert data of a reverted call, or the hash of a transaction that was not processed in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Bytes>,
}

impl RpcError {
    /// Without data.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code: code.number(), message: message.into(), data: None }
    }

    /// `message` starts with "execution reverted"; a reason in words may follow a colon.
    pub fn reverted(output: Bytes, reason: Option<&str>) -> Self {
        let phrase = Reason::ExecutionReverted.phrase();
        let message = reason.map_or_else(|| phrase.to_string(), |reason| format!("{phrase}: {reason}"));
        Self { code: ErrorCode::Reverted.number(), message, data: Some(output) }
    }

    /// [`ErrorCode::MethodNotFound`], in geth's words. Of a long name the first 64 characters are repeated.
    pub fn method_not_found(name: &str) -> Self {
        // A name is the client's text of any length; clients match the code.
        let name: String = name.chars().take(64).collect();
        Self::new(ErrorCode::MethodNotFound, format!("the method {name} does not exist/is not available"))
    }

    /// It waits in the pool all the same; the words are EIP-7966's.
    pub fn not_processed_in(patience: Duration, hash: B256) -> Self {
        let message = format!("The transaction was added to the mempool but wasn't processed in {patience:?}");
        Self { data: Some(Bytes::copy_from_slice(hash.as_slice())), ..Self::new(ErrorCode::NotProcessedInTime, message) }
    }

    /// A method that this build has and this node does not serve. The code is that of an unknown one, which clients that probe for
    /// methods take for a no.
    pub fn not_served(method: Method) -> Self {
        let mut error = Self::method_not_found(method.name());
        let namespace = method.switch();
        error.message += &format!(
            ": this node does not serve the namespace \"{namespace}\"; who runs it can switch it on in node.toml \
             ([serve] namespaces) or with --namespaces"
        );
        error
    }

    /// [`ErrorCode::InvalidParams`] in these words.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidParams, message)
    }

    /// [`ErrorCode::Internal`] in these words, which whoever asked will read.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expressions of viem 2 and ethers 6, by the part of them that must occur in the message.
    #[test]
    fn phrases_are_the_ones_wallet_libraries_match() {
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
    fn a_revert_carries_code_3_and_data_as_hex() {
        let error = RpcError::reverted(Bytes::from_static(&[0x08, 0xc3]), Some("no"));
        let json = serde_json::to_value(&error).unwrap();
        assert_eq!(json, serde_json::json!({"code": 3, "message": "execution reverted: no", "data": "0x08c3"}));
    }

    #[test]
    fn a_refused_transaction_type_is_worded_as_in_the_table() {
        let error = RpcError::from(DecodeError::TypeNotSupported { type_byte: 3 });
        assert_eq!(error, Reason::TypeNotSupported.error());
        let error = RpcError::from(DecodeError::Oversized { size: 200_000 });
        assert!(error.message.starts_with(Reason::OversizedData.phrase()));
    }
}
