//! Blocks: executed transactions, skipped transactions, and the roots over them.

mod support;

use alloy_consensus::{TxEip1559, TxEnvelope, TxLegacy};
use alloy_eips::eip2718::Decodable2718;
use alloy_primitives::{Address, Bytes, TxKind, U256, keccak256};
use corniche_types::{Receipt, SkipReason};
use support::*;

const BOB: Address = Address::repeat_byte(0xb0);

fn transfer(nonce: u64, wei: u64) -> TxEip1559 {
    TxEip1559 { value: U256::from(wei), ..draft(nonce, BOB) }
}

#[test]
fn empty_block() {
    let output = Node::new().execute(&[]);
    assert_eq!(output.transactions_root, alloy_consensus::EMPTY_ROOT_HASH);
    assert_eq!(output.receipts_root, alloy_consensus::EMPTY_ROOT_HASH);
    assert_eq!((output.gas_used, output.changes), (0, Default::default()));
}

#[test]
fn transactions_see_earlier_writes() {
    let mut node = Node::new();
    let raws: Vec<Bytes> = (0..3).map(|nonce| key(0).sign(transfer(nonce, 5))).collect();
    let (output, root) = node.append(&raws);
    assert!(output.skipped.is_empty());
    assert_eq!(output.gas_used, 63_000);
    let sums: Vec<u64> = output.receipts.iter().map(|receipt| receipt.cumulative_gas_used).collect();
    assert_eq!(sums, [21_000, 42_000, 63_000]);
    assert_eq!(node.account(&BOB).balance, U256::from(15));
    assert_eq!(node.account(&FEE_ADDRESSES[0]).balance, U256::from(2 * 42_000), "first and third");
    assert_eq!(node.account(&FEE_ADDRESSES[1]).balance, U256::from(2 * 21_000));
    assert_eq!(root, node.tree.root());
}

/// The roots equal those that any Ethereum client computes over the executed transactions.
#[test]
fn roots_match_ethereum() {
    let node = Node::new();
    let legacy = TxLegacy {
        chain_id: Some(CHAIN_ID),
        nonce: 0,
        gas_price: 30,
        gas_limit: 21_000,
        to: TxKind::Call(BOB),
        value: U256::from(1),
        input: Bytes::new(),
    };
    let raws = vec![
        key(0).sign(transfer(0, 1)),
        Bytes::from_static(b"junk"),
        key(1).sign(legacy),
        key(2).sign(transfer(9, 1)),
        key(0).sign(transfer(1, 1)),
    ];
    let output = node.execute(&raws);
    let executed: Vec<TxEnvelope> =
        [0, 2, 4].iter().map(|position| TxEnvelope::decode_2718(&mut raws[*position].as_ref()).unwrap()).collect();
    assert_eq!(output.transactions_root, alloy_consensus::proofs::calculate_transaction_root(&executed));
    assert_eq!(output.receipts_root, Receipt::root(&output.receipts));
    assert_eq!(output.receipts.iter().map(|receipt| receipt.type_byte).collect::<Vec<_>>(), [2, 0, 2]);
    assert_eq!(output.receipts[1].effective_gas_price, 30, "a gas price is paid in full");
}

#[test]
fn skipped_transaction_is_recorded() {
    let node = Node::new();
    let mut wrong_chain = transfer(0, 1);
    wrong_chain.chain_id = 8;
    let other_type = Bytes::from_static(&[3, 0xc0]);
    let unprotected = TxLegacy { gas_limit: 21_000, gas_price: 30, to: TxKind::Call(BOB), ..TxLegacy::default() };
    let mut damaged = key(1).sign(transfer(0, 1)).to_vec();
    let s = damaged.len() - 32;
    damaged[s..].fill(0xff);
    let raws = vec![
        Bytes::from_static(b"junk"),
        key(0).sign(wrong_chain),
        key(0).sign(transfer(1, 1)),
        key(0).sign(transfer(0, 1)),
        key(0).sign(transfer(0, 1)),
        key(4).sign(transfer(0, u64::MAX)),
        other_type,
        key(0).sign(unprotected),
        damaged.into(),
    ];
    let output = node.execute(&raws);
    let found: Vec<(u32, SkipReason)> = output.skipped.iter().map(|skipped| (skipped.position, skipped.reason)).collect();
    use SkipReason::*;
    let expected = [
        (0, Undecodable),
        (1, WrongChain),
        (2, NonceTooHigh),
        (4, NonceTooLow),
        (5, Underfunded),
        (6, Undecodable),
        (7, WrongChain),
        (8, BadSignature),
    ];
    assert_eq!(found, expected);
    assert!(output.skipped.iter().all(|skipped| skipped.hash == keccak256(&raws[skipped.position as usize])));
    assert_eq!(output.receipts.len(), 1);
    assert_eq!(output, Node::new().execute(&raws));
    let only = node.execute(&[Bytes::new(), Bytes::new(), Bytes::new(), raws[3].clone()]);
    assert_eq!(only.changes, output.changes, "as if the skipped ones had not been there");
}

#[test]
fn deploy_and_call_in_one_block() {
    let mut node = Node::new();
    let contract = key(0).address().create(0);
    let raws = vec![
        key(0).sign(deployment(0)),
        key(0).sign(addition(1, contract, 0, 1, 5)),
        key(1).sign(addition(0, contract, 1, 1, 50)),
        key(1).sign(addition(1, contract, 2, 1, 50)),
        key(0).sign(addition(2, contract, 0, 1, 2)),
    ];
    let (output, _) = node.append(&raws);
    assert!(output.skipped.is_empty());
    let successes: Vec<bool> = output.receipts.iter().map(|receipt| receipt.success).collect();
    assert_eq!(successes, [true, true, false, false, true], "{:?}", output.receipts);
    assert_eq!(output.receipts[0].contract_address, Some(contract));
    assert_eq!(output.receipts[4].output.last(), Some(&7), "what reverted and what trapped added nothing");
    assert_eq!(output.receipts[2].output.last(), Some(&55), "revert data");
    assert!(output.receipts[2].gas_used < 200_000, "a revert gives unused gas back");
    assert_eq!(output.receipts[3].gas_used, 200_000, "a trap does not");
    let logs: Vec<usize> = output.receipts.iter().map(|receipt| receipt.logs.len()).collect();
    assert_eq!(logs, [0, 1, 0, 0, 1]);
    assert!(output.logs_bloom.contains_input(alloy_primitives::BloomInput::Raw(contract.as_slice())));
    let account = node.account(&contract);
    assert_eq!(
        (account.nonce, account.abi_version, account.gas_version),
        (1, 1, corniche_types::ProtocolRules::LATEST.gas_version)
    );
    assert_eq!(account.code_hash, keccak256(adder()));
}

#[test]
fn evm_bytecode_fails_with_reason() {
    let node = Node::new();
    let evm = TxEip1559 { input: Bytes::from_static(&[0x60, 0x80, 0x60, 0x40, 0x52]), ..draft(0, TxKind::Create) };
    let output = node.execute(&[key(0).sign(evm)]);
    let receipt = &output.receipts[0];
    assert!(!receipt.success);
    let text = String::from_utf8(receipt.output.to_vec()).unwrap();
    assert!(text.contains("EVM") && text.contains("WebAssembly"), "{text}");
    assert!(receipt.gas_used < 60_000);
}
