//! Batches: decoding is unambiguous, also for batches of a malicious proposer.

use crate::batch::{InvalidEntry, MIN_TRANSACTION_BYTES, decode, encode};
use alloy_primitives::{hex, keccak256};
use corniche_types::Bytes;
use proptest::{collection::vec, prelude::*};

fn transaction(byte: u8, length: usize) -> Bytes {
    vec![byte; length].into()
}

#[test]
fn empty_batch_has_no_bytes() {
    assert_eq!(encode(&[]), Ok(Bytes::new()));
    assert!(decode(&Bytes::new()).is_empty());
}

#[test]
fn the_format_is_frozen() {
    let bytes = encode(&[transaction(0xaa, 64), transaction(0xbb, 65)]).unwrap();
    assert_eq!(hex::encode(&bytes[..6]), "0140000000aa");
    assert_eq!(bytes.len(), 1 + 4 + 64 + 4 + 65);
    assert_eq!(hex::encode(keccak256(&bytes)), "1d0d659b5a7a131129a9139fe43d33302a645a0ddf68b350712179fdd2652471");
}

#[test]
fn too_short_transactions_are_rejected() {
    for bytes in [0, 1, MIN_TRANSACTION_BYTES - 1] {
        assert_eq!(encode(&[transaction(0xaa, 64), transaction(0xbb, bytes)]), Err(InvalidEntry { index: 1, bytes }));
    }
}

#[test]
fn malformed_batch_is_one_skipped_transaction() {
    let good = encode(&[transaction(0xaa, 64)]).unwrap();
    let mut other_version = good.to_vec();
    other_version[0] = 2;
    let malformed: [Vec<u8>; 7] = [
        vec![1],
        vec![0],
        other_version,
        good[..good.len() - 1].to_vec(),
        [&good, &[0u8][..]].concat(),
        [&good, &[64, 0, 0, 0][..]].concat(),
        [&good, &[0xff; 4][..]].concat(),
    ];
    for bytes in malformed {
        let bytes = Bytes::from(bytes);
        assert_eq!(decode(&bytes), std::slice::from_ref(&bytes), "{bytes}");
    }
}

#[test]
fn short_entries_make_a_batch_malformed() {
    let dust: Vec<u8> = std::iter::once(1).chain(std::iter::repeat_n([1, 0, 0, 0, 7], 1_000).flatten()).collect();
    let empty: Vec<u8> = std::iter::once(1).chain(std::iter::repeat_n([0, 0, 0, 0], 1_000).flatten()).collect();
    for bytes in [dust, empty] {
        assert_eq!(decode(&bytes.into()).len(), 1);
    }
}

proptest! {
    #[test]
    fn batches_round_trip(transactions in vec(vec(any::<u8>(), MIN_TRANSACTION_BYTES..300), 0..20)) {
        let transactions: Vec<Bytes> = transactions.into_iter().map(Bytes::from).collect();
        prop_assert_eq!(decode(&encode(&transactions).unwrap()), transactions);
    }

    /// Any bytes decode to entries bounded by the bytes, and in only one way.
    #[test]
    fn any_bytes_decode(bytes in vec(any::<u8>(), 1..600), version: bool) {
        let mut bytes = bytes;
        bytes[0] = if version { 1 } else { bytes[0] };
        let bytes = Bytes::from(bytes);
        let transactions = decode(&bytes);
        prop_assert!(!transactions.is_empty());
        prop_assert!(transactions.len() <= 1 + bytes.len() / MIN_TRANSACTION_BYTES);
        prop_assert!(transactions == [bytes.clone()] || encode(&transactions) == Ok(bytes));
    }

    #[test]
    fn corrupted_length_loses_no_byte(lengths in vec(MIN_TRANSACTION_BYTES..200, 1..6), at: prop::sample::Index, byte: u8) {
        let transactions: Vec<Bytes> = lengths.into_iter().map(|length| transaction(0xaa, length)).collect();
        let mut bytes = encode(&transactions).unwrap().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let bytes = Bytes::from(bytes);
        let decoded = decode(&bytes);
        prop_assert!(decoded == [bytes.clone()] || encode(&decoded) == Ok(bytes));
    }
}
