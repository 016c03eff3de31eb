//! Token events, recognized by their shape: ERC-20, ERC-721 and ERC-1155. Any contract may emit such logs.

use crate::node::Log;
use alloy_primitives::{Address, B256, U256, b256};

/// `Transfer(address,address,uint256)`: ERC-20 with two more topics, ERC-721 with three.
pub const TRANSFER: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
/// `Approval(address,address,uint256)`: ERC-20 with two more topics, ERC-721 with three.
pub const APPROVAL: B256 = b256!("8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925");
/// `ApprovalForAll(address,address,bool)`.
pub const APPROVAL_FOR_ALL: B256 = b256!("17307eab39ab6107e8899845ad3d59bd9653f200f220920489ca2b5937696c31");
/// `TransferSingle(address,address,address,uint256,uint256)`.
pub const TRANSFER_SINGLE: B256 = b256!("c3d58168c5ae7397731d063d5bbf3d657854427343f4c083240f7aacaa2d0f62");
/// `TransferBatch(address,address,address,uint256[],uint256[])`.
pub const TRANSFER_BATCH: B256 = b256!("4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb");

/// Maximum number of items of one batch that are read. A log of 128 KiB has space for half of them.
const MAX_ITEMS: usize = 4_096;

/// Token standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standard {
    /// Fungible amounts.
    Erc20,
    /// Unique ids.
    Erc721,
    /// An amount for each id.
    Erc1155,
}

impl Standard {
    /// Returns the number in the database.
    pub fn number(self) -> u64 {
        match self {
            Self::Erc20 => 20,
            Self::Erc721 => 721,
            Self::Erc1155 => 1155,
        }
    }
}

/// A token event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenEvent {
    /// A transfer between accounts. A transfer from the zero address is a mint, one to it a burn.
    Transfer {
        /// Contract that emitted the log.
        token: Address,
        /// Standard, from the shape of the log.
        standard: Standard,
        /// Sender; zero for a mint.
        from: Address,
        /// Recipient; zero for a burn.
        to: Address,
        /// Token id; `None` for ERC-20.
        id: Option<U256>,
        /// Amount; 1 for ERC-721.
        amount: U256,
    },
    /// A change of an allowance.
    Approval {
        /// Contract that emitted the log.
        token: Address,
        /// Owner of the tokens.
        owner: Address,
        /// Approved account; zero for an ERC-721 token whose approval ended.
        spender: Address,
        /// Token id; `None` for all tokens.
        id: Option<U256>,
        /// Allowance; 1 or 0 for tokens with ids.
        amount: U256,
    },
}

/// Returns the token events of a log; empty for a log of another shape.
pub fn read(log: &Log) -> Vec<TokenEvent> {
    let token = log.address;
    let topic = |at: usize| log.topics.get(at).map(|topic| Address::from_word(*topic));
    let words = || -> Vec<U256> { log.data.chunks_exact(32).map(U256::from_be_slice).collect() };
    let event = (log.topics.first().copied().unwrap_or_default(), log.topics.len(), log.data.len());
    let (Some(first), Some(second)) = (topic(1), topic(2)) else { return Vec::new() };
    let id = || log.topics.get(3).map(|id| U256::from_be_bytes(id.0));
    let transfer = |standard, from, to, id, amount| TokenEvent::Transfer { token, standard, from, to, id, amount };
    match event {
        (TRANSFER, 3, 32) => vec![transfer(Standard::Erc20, first, second, None, words()[0])],
        (TRANSFER, 4, 0) => vec![transfer(Standard::Erc721, first, second, id(), U256::ONE)],
        (APPROVAL, 3, 32) => vec![TokenEvent::Approval { token, owner: first, spender: second, id: None, amount: words()[0] }],
        (APPROVAL, 4, 0) => {
            let amount = U256::from(u8::from(!second.is_zero()));
            vec![TokenEvent::Approval { token, owner: first, spender: second, id: id(), amount }]
        }
        (APPROVAL_FOR_ALL, 3, 32) => {
            vec![TokenEvent::Approval { token, owner: first, spender: second, id: None, amount: words()[0] }]
        }
        (TRANSFER_SINGLE, 4, 64) => {
            let (Some(to), words) = (topic(3), words()) else { return Vec::new() };
            vec![transfer(Standard::Erc1155, second, to, Some(words[0]), words[1])]
        }
        (TRANSFER_BATCH, 4, _) => {
            let (Some(to), words) = (topic(3), words()) else { return Vec::new() };
            let items = pairs(&words).unwrap_or_default();
            items.into_iter().map(|(id, amount)| transfer(Standard::Erc1155, second, to, Some(id), amount)).collect()
        }
        _ => Vec::new(),
    }
}

/// Decodes two ABI-encoded arrays of equal length.
fn pairs(words: &[U256]) -> Option<Vec<(U256, U256)>> {
    let array = |at: usize| -> Option<&[U256]> {
        let offset: usize = words.get(at)?.try_into().ok().filter(|offset: &usize| offset.is_multiple_of(32))?;
        let rest = words.get(offset / 32..)?;
        let length: usize = rest.first()?.try_into().ok().filter(|length| *length <= MAX_ITEMS)?;
        rest.get(1..length + 1)
    };
    let (ids, amounts) = (array(0)?, array(1)?);
    (ids.len() == amounts.len()).then(|| ids.iter().copied().zip(amounts.iter().copied()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Bytes, keccak256};

    const TOKEN: Address = Address::repeat_byte(1);
    const ALICE: Address = Address::repeat_byte(2);
    const BOB: Address = Address::repeat_byte(3);

    fn log(topics: &[B256], words: &[u64]) -> Log {
        let data: Vec<u8> = words.iter().flat_map(|word| U256::from(*word).to_be_bytes::<32>()).collect();
        Log { address: TOKEN, topics: topics.to_vec(), data: Bytes::from(data) }
    }

    fn moves(log: &Log) -> Vec<(Standard, Address, Address, Option<u64>, u64)> {
        let plain = |moved| match moved {
            TokenEvent::Transfer { standard, from, to, id, amount, .. } => {
                (standard, from, to, id.map(|id| id.to()), amount.to())
            }
            TokenEvent::Approval { .. } => panic!("an approval"),
        };
        read(log).into_iter().map(plain).collect()
    }

    #[test]
    fn event_topics_match_signatures() {
        for (name, hash) in [
            ("Transfer(address,address,uint256)", TRANSFER),
            ("Approval(address,address,uint256)", APPROVAL),
            ("ApprovalForAll(address,address,bool)", APPROVAL_FOR_ALL),
            ("TransferSingle(address,address,address,uint256,uint256)", TRANSFER_SINGLE),
            ("TransferBatch(address,address,address,uint256[],uint256[])", TRANSFER_BATCH),
        ] {
            assert_eq!(keccak256(name), hash, "{name}");
        }
    }

    #[test]
    fn token_standard_follows_from_event_shape() {
        let (alice, bob) = (ALICE.into_word(), BOB.into_word());
        let id = B256::from(U256::from(9));
        let (from, to) = (ALICE, BOB);
        assert_eq!(moves(&log(&[TRANSFER, alice, bob], &[5])), [(Standard::Erc20, from, to, None, 5)]);
        assert_eq!(moves(&log(&[TRANSFER, alice, bob, id], &[])), [(Standard::Erc721, from, to, Some(9), 1)]);
        assert_eq!(moves(&log(&[TRANSFER_SINGLE, bob, alice, bob], &[9, 4])), [(Standard::Erc1155, from, to, Some(9), 4)]);
        let batch = log(&[TRANSFER_BATCH, bob, alice, bob], &[64, 160, 2, 7, 8, 2, 70, 80]);
        let expected = [(Standard::Erc1155, from, to, Some(7), 70), (Standard::Erc1155, from, to, Some(8), 80)];
        assert_eq!(moves(&batch), expected);
    }

    #[test]
    fn malformed_events_are_ignored() {
        let (alice, bob) = (ALICE.into_word(), BOB.into_word());
        for odd in [
            log(&[], &[5]),
            log(&[TRANSFER], &[1, 2, 3]),
            log(&[TRANSFER, alice, bob], &[5, 6]),
            log(&[TRANSFER_SINGLE, bob, alice, bob], &[9]),
            log(&[TRANSFER_BATCH, bob, alice, bob], &[64, 128, u64::MAX, 7, 1, 70]),
            log(&[TRANSFER_BATCH, bob, alice, bob], &[65, 128, 1, 7, 1, 70]),
            log(&[TRANSFER_BATCH, bob, alice, bob], &[64, 160, 2, 7, 8, 1, 70]),
            log(&[TRANSFER_BATCH, bob, alice, bob], &[]),
        ] {
            assert_eq!(read(&odd), [], "{odd:?}");
        }
    }
}
