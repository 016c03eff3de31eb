//! Table of all refusals.

use corniche_crypto::SignatureError;
use corniche_types::{Address, B256, DecodeError, U256};

/// Reason why a transaction does not enter the pool. The texts are geth's where geth has them, because
/// wallets match them.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refusal {
    // ---- never valid ----
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// Shorter than any signature made with a key: such a transaction is made by choosing `r` and `s`, and
    /// the sender follows from them. In a batch it would look like damage, and all other transactions of the
    /// batch would be lost.
    #[error("transaction too short: {bytes} bytes, at least {min}")]
    TooShort { bytes: usize, min: usize },
    #[error("intrinsic gas too low: gas {gas}, minimum needed {needed}")]
    IntrinsicGas { gas: u64, needed: u64 },
    /// Above the gas limit of a proposer's batch, which is at most a block's.
    #[error("exceeds block gas limit: transaction gas {gas}, limit {limit}")]
    GasLimit { gas: u64, limit: u64 },
    #[error("max priority fee per gas higher than max fee per gas: maxPriorityFeePerGas: {tip}, maxFeePerGas: {max_fee}")]
    TipAboveFee { tip: u128, max_fee: u128 },
    /// EIP-3860, with this chain's limit.
    #[error("max initcode size exceeded: code size {size}, limit {limit}")]
    InitCodeSize { size: usize, limit: usize },
    /// EIP-2681.
    #[error("nonce has max value: address {sender}, nonce: {nonce}")]
    NonceMax { sender: Address, nonce: u64 },
    /// EIP-3607.
    #[error("sender not an eoa: address {sender}, codehash: {code_hash}")]
    SenderNotEoa { sender: Address, code_hash: B256 },
    /// Gas limit × fee + value does not fit into 256 bits.
    #[error("insufficient funds for gas * price + value: the cost exceeds 256 bits")]
    CostOverflow,

    // ---- not valid here any more, or already here ----
    #[error("nonce too low: next nonce {next}, tx nonce {nonce}")]
    NonceTooLow { next: u64, nonce: u64 },
    #[error("already known")]
    AlreadyKnown { hash: B256 },
    /// A replacement must raise both fees by a tenth.
    #[error("replacement transaction underpriced: needs maxFeePerGas {needed_max_fee} and maxPriorityFeePerGas {needed_tip}")]
    ReplacementUnderpriced { needed_max_fee: u128, needed_tip: u128 },
    #[error("transaction with nonce {nonce} is being ordered already and cannot be replaced")]
    BeingOrdered { nonce: u64 },

    // ---- not valid yet: worth another try ----
    #[error("max fee per gas less than block base fee: address {sender}, maxFeePerGas: {max_fee}, baseFee: {base_fee}")]
    FeeTooLow { sender: Address, max_fee: u128, base_fee: u64 },
    #[error("insufficient funds for gas * price + value: address {sender} have {have} want {want}")]
    InsufficientFunds { sender: Address, have: U256, want: U256 },
    #[error("nonce too high: next nonce {next}, tx nonce {nonce}, at most {limit} ahead")]
    NonceTooHigh { next: u64, nonce: u64, limit: u64 },
    #[error("account limit exceeded: {limit} transactions of one sender")]
    AccountLimit { limit: usize },
    /// The pool is full of transactions that pay at least as much.
    #[error("txpool is full: transaction underpriced")]
    PoolFull,
}

impl Refusal {
    /// True if the same bytes may be accepted later.
    pub fn may_become_valid(&self) -> bool {
        matches!(
            self,
            Self::FeeTooLow { .. }
                | Self::InsufficientFunds { .. }
                | Self::NonceTooHigh { .. }
                | Self::AccountLimit { .. }
                | Self::PoolFull
                | Self::ReplacementUnderpriced { .. }
                | Self::BeingOrdered { .. }
        )
    }
}
