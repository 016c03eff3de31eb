//! Builds blocks in the node's response format.

use alloy_primitives::{Address, B256, Bytes, U64, U256, keccak256};
use corniche_api::{BatchRange, Ordering, SkippedTransaction};
use corniche_web::{
    indexer::events::{self, Standard, TokenEvent},
    node::{Block, Log, Receipt, Transaction, WholeBlock},
};

/// Returns a hash of these numbers.
pub fn hash(parts: &[u64]) -> B256 {
    keccak256(parts.iter().flat_map(|part| part.to_be_bytes()).collect::<Vec<_>>())
}

/// Header fields and ordering of a block.
pub struct Head {
    /// Block number.
    pub number: u64,
    /// Block hash.
    pub hash: B256,
    /// Hash of the parent block.
    pub parent: B256,
    /// Block time in Unix milliseconds.
    pub time_ms: u64,
    /// Committee index of the leader.
    pub leader: u64,
    /// Authors, each with the number of its transactions, both executed and skipped.
    pub batches: Vec<(u64, u64)>,
    /// Positions of skipped transactions, counted over all batches, in ascending order.
    pub skipped: Vec<u64>,
}

/// Builds a block. Block 0 has no ordering.
pub fn block(head: &Head, transactions: Vec<(Transaction, Receipt)>) -> WholeBlock {
    let Head { number, time_ms, .. } = *head;
    let part = |what: u64| hash(&[number, time_ms, what]);
    let (transactions, receipts): (Vec<_>, Vec<_>) = transactions.into_iter().unzip();
    let gas_used: u64 = receipts.iter().map(|receipt: &Receipt| receipt.gas_used.to::<u64>()).sum();
    let ordering = Ordering {
        protocol_version: 2,
        engine: "mahi-mahi".into(),
        epoch: 0,
        committee_hash: B256::ZERO,
        next_committee_hash: B256::ZERO,
        first_commit: number,
        last_commit: number,
        last_commit_consumed: 0,
        leader: head.leader,
        timestamp_ms: time_ms,
        randomness: part(1),
        batches: head
            .batches
            .iter()
            .map(|(author, count)| BatchRange { author: *author, digest: part(100 + author), first: 0, count: *count })
            .collect(),
        transactions_hash: part(2),
        skipped: head
            .skipped
            .iter()
            .map(|position| SkippedTransaction {
                position: *position,
                hash: part(1_000 + position),
                reason: "nonce too low".into(),
            })
            .collect(),
        resume_hash: B256::ZERO,
        encoded: Bytes::new(),
        encoded_tail: None,
    };
    let block = Block {
        number: U64::from(number),
        hash: head.hash,
        parent_hash: head.parent,
        timestamp: U64::from(time_ms / 1_000),
        miner: Address::from_word(part(3)),
        gas_used: U64::from(gas_used),
        gas_limit: U64::from(100_000_000),
        base_fee_per_gas: U256::from(1_000_000_000),
        size: U64::from(600 + 200 * transactions.len()),
        state_root: part(4),
        transactions_root: part(5),
        receipts_root: part(6),
        mix_hash: part(1),
        extra_data: Bytes::from(part(7)),
        transactions,
    };
    WholeBlock { block, receipts, ordering: (number > 0).then_some(ordering) }
}

/// Content of a transaction and its receipt, without the hash.
pub struct Call {
    /// Sender.
    pub from: Address,
    /// Recipient; `None` for a contract creation.
    pub to: Option<Address>,
    pub nonce: u64,
    /// Calldata.
    pub input: Bytes,
    pub gas_used: u64,
    /// `false` if it reverted.
    pub succeeded: bool,
    /// Address of the created contract.
    pub created: Option<Address>,
    pub logs: Vec<Log>,
}

/// Builds a transaction and its receipt.
pub fn transaction(hash: B256, call: Call) -> (Transaction, Receipt) {
    let transaction = Transaction {
        hash,
        from: call.from,
        to: call.to,
        nonce: U64::from(call.nonce),
        value: U256::from(call.nonce),
        input: call.input,
        gas: U64::from(call.gas_used * 2),
        kind: U64::from(2),
        max_fee_per_gas: Some(U256::from(3_000_000_000u64)),
        max_priority_fee_per_gas: Some(U256::ZERO),
    };
    let receipt = Receipt {
        transaction_hash: hash,
        status: U64::from(call.succeeded),
        gas_used: U64::from(call.gas_used),
        effective_gas_price: U256::from(1_000_000_000),
        contract_address: call.created,
        logs: call.logs,
    };
    (transaction, receipt)
}

/// Builds the log of one event. Several events become one ERC-1155 batch, so they must have the same token and the same
/// accounts.
pub fn log(moved: &[TokenEvent]) -> Log {
    let topic = |address: Address| address.into_word();
    let word = |number: U256| B256::from(number);
    let log =
        |token: Address, topics: Vec<B256>, words: Vec<B256>| Log { address: token, topics, data: Bytes::from(words.concat()) };
    match moved {
        [TokenEvent::Transfer { token, standard: Standard::Erc20, from, to, amount, .. }] => {
            log(*token, vec![events::TRANSFER, topic(*from), topic(*to)], vec![word(*amount)])
        }
        [TokenEvent::Transfer { token, standard: Standard::Erc721, from, to, id, .. }] => {
            log(*token, vec![events::TRANSFER, topic(*from), topic(*to), word(id.unwrap_or_default())], vec![])
        }
        [TokenEvent::Transfer { token, from, to, id, amount, .. }] => {
            let topics = vec![events::TRANSFER_SINGLE, topic(*token), topic(*from), topic(*to)];
            log(*token, topics, vec![word(id.unwrap_or_default()), word(*amount)])
        }
        [TokenEvent::Approval { token, owner, spender, id: None, amount }] => {
            log(*token, vec![events::APPROVAL, topic(*owner), topic(*spender)], vec![word(*amount)])
        }
        [TokenEvent::Approval { token, owner, spender, id: Some(id), .. }] => {
            log(*token, vec![events::APPROVAL, topic(*owner), topic(*spender), word(*id)], vec![])
        }
        several => batch(several),
    }
}

fn batch(several: &[TokenEvent]) -> Log {
    let items: Vec<_> = several
        .iter()
        .filter_map(|moved| match moved {
            TokenEvent::Transfer { token, from, to, id, amount, .. } => {
                Some((*token, *from, *to, id.unwrap_or_default(), *amount))
            }
            TokenEvent::Approval { .. } => None,
        })
        .collect();
    let (token, from, to, ..) = items.first().copied().unwrap_or_default();
    let length = U256::from(items.len());
    let mut words = vec![U256::from(64), U256::from(96 + 32 * items.len()), length];
    words.extend(items.iter().map(|(.., id, _)| *id));
    words.push(length);
    words.extend(items.iter().map(|(.., amount)| *amount));
    let data: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes::<32>()).collect();
    let topics = vec![events::TRANSFER_BATCH, token.into_word(), from.into_word(), to.into_word()];
    Log { address: token, topics, data: Bytes::from(data) }
}
