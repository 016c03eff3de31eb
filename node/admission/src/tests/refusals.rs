//! Every refusal, with the text that wallets match.

use super::world::*;
use crate::{Refusal, batch, check};
use alloy_consensus::TxEip1559;
use corniche_types::{Address, B256, Bytes, U256};

/// Phrases that viem, ethers, cast and MetaMask look for.
#[track_caller]
fn says(result: Result<(), Refusal>, phrase: &str) -> Refusal {
    let refusal = result.expect_err("must be refused");
    assert!(refusal.to_string().contains(phrase), "{refusal}");
    refusal
}

#[test]
fn malformed_transactions_are_refused() {
    let refused = |raw: Vec<u8>| check(raw.into(), CHAIN_ID).map(|_| ());
    says(refused(vec![]), "rlp");
    says(refused(vec![0xc0]), "rlp");
    says(refused(vec![3, 0xc0]), "transaction type not supported");
    says(refused(vec![0xf8; (128 << 10) + 1]), "oversized data");
    says(check(draft(1, 0).raw(), CHAIN_ID + 1).map(|_| ()), "invalid chain id");
    let never = check(Bytes::new(), CHAIN_ID).unwrap_err();
    assert!(!never.may_become_valid());
}

#[test]
fn gas_below_intrinsic_cost() {
    let mut world = World::new();
    let refusal = says(world.admit(&draft(1, 0).gas(20_999)), "intrinsic gas too low: gas 20999, minimum needed 21000");
    assert!(!refusal.may_become_valid());
    let with_data = Draft { input: vec![1; 10], ..draft(1, 0) };
    says(world.admit(&with_data), "minimum needed 21160");
    let creation = Draft { create: true, ..draft(1, 0) };
    says(world.admit(&creation), "minimum needed 53000");
}

#[test]
fn gas_above_batch_limit() {
    let mut world = World::new();
    says(world.admit(&draft(1, 0).gas(10_000_001)), "exceeds block gas limit");
    world.admit(&draft(1, 0).gas(10_000_000)).unwrap();
}

#[test]
fn tip_above_max_fee() {
    let upside_down = draft(1, 0).max_fee(1_000).tip(1_001);
    says(World::new().admit(&upside_down), "max priority fee per gas higher than max fee per gas");
}

#[test]
fn fee_below_base_fee() {
    let mut world = World::new();
    let refusal = says(world.admit(&draft(1, 0).max_fee(99)), "max fee per gas less than block base fee");
    assert!(refusal.to_string().contains("maxFeePerGas: 99, baseFee: 100"), "{refusal}");
    assert!(refusal.may_become_valid(), "the base fee moves");
    world.admit(&draft(1, 0).max_fee(100)).unwrap();
}

#[test]
fn nonce_too_low() {
    let mut world = World::new();
    world.account(1).nonce = 5;
    says(world.admit(&draft(1, 4)), "nonce too low: next nonce 5, tx nonce 4");
    world.admit(&draft(1, 5)).unwrap();
}

#[test]
fn nonce_too_high() {
    let mut world = World::new();
    world.admit(&draft(1, 64)).unwrap();
    says(world.admit(&draft(1, 65)), "nonce too high: next nonce 0, tx nonce 65");
}

#[test]
fn maximum_nonce() {
    let mut world = World::new();
    world.account(1).nonce = u64::MAX - 1;
    says(world.admit(&draft(1, u64::MAX)), "nonce has max value");
    world.admit(&draft(1, u64::MAX - 1)).unwrap();
    assert_eq!(world.pending_nonce(1), u64::MAX);
    assert_eq!(world.cut(), [(1, u64::MAX - 1)], "and nothing overflows");
}

#[test]
fn insufficient_funds() {
    let mut world = World::new();
    world.account(1).balance = U256::from(21_000_000 + 5);
    says(world.admit(&draft(1, 0).value(6)), "insufficient funds for gas * price + value");
    world.admit(&draft(1, 0).value(5)).unwrap();
    // The balance covers the second one alone, but not both together.
    let refusal = says(world.admit(&draft(1, 1)), "insufficient funds for gas * price + value");
    let (have, want) = (U256::from(21_000_005), U256::from(42_000_005));
    assert_eq!(refusal, Refusal::InsufficientFunds { sender: address(1), have, want });
    says(world.admit(&draft(0xaa, 0)), "insufficient funds");
}

#[test]
fn cost_overflow() {
    let mut world = World::new();
    world.account(1).balance = U256::MAX;
    let draft = draft(1, 0).max_fee(u128::MAX);
    world.admit(&draft).expect("2^128 wei of fee fit into 256 bits");
    let huge = Draft { nonce: 1, value: u128::MAX, ..draft };
    world.admit(&huge).expect("and a sum of such costs does too");
}

#[test]
fn duplicate_transaction() {
    let mut world = World::new();
    world.admit(&draft(1, 0)).unwrap();
    says(world.admit(&draft(1, 0)), "already known");
    assert_eq!(world.cut(), [(1, 0)]);
    world.base_fee = 2_000;
    says(world.admit(&draft(1, 0)), "already known");
}

#[test]
fn sender_with_code() {
    let mut world = World::new();
    world.account(1).code_hash = corniche_types::B256::repeat_byte(1);
    says(world.admit(&draft(1, 0)), "sender not an eoa");
}

#[test]
fn account_limit() {
    let mut world = World::new();
    (0..16).for_each(|nonce| world.admit(&draft(1, nonce)).unwrap());
    says(world.admit(&draft(1, 16)), "account limit exceeded");
    world.admit(&draft(2, 0)).expect("others are not concerned");
}

#[test]
fn a_full_pool() {
    let mut world = World::with(crate::PoolConfig { max_transactions: 2, ..config() });
    world.admit_all(&[draft(1, 0).tip(50), draft(2, 0).tip(50)]);
    let refusal = says(world.admit(&draft(3, 0).tip(50)), "txpool is full");
    assert!(refusal.may_become_valid());
    assert!(world.events().is_empty(), "a refusal evicts nobody");
}

/// With small numbers as the signature, the sender follows from them, and anybody can fund it.
#[test]
fn transaction_too_short_for_batch() {
    use alloy_consensus::{SignableTransaction, TxEnvelope, TxLegacy};
    use alloy_eips::eip2718::Encodable2718;
    use alloy_primitives::{Signature, TxKind};
    let mut world = World::new();
    let short = |nonce| {
        let transaction = TxLegacy {
            chain_id: Some(CHAIN_ID),
            nonce,
            gas_price: 1_000,
            gas_limit: 21_000,
            to: TxKind::Call(Address::ZERO),
            ..TxLegacy::default()
        };
        let signature = Signature::new(U256::ONE, U256::ONE, false);
        let raw = TxEnvelope::from(transaction.into_signed(signature)).encoded_2718();
        crate::check(raw.into(), CHAIN_ID).unwrap()
    };
    let made = short(0);
    world.accounts.0.entry(made.sender()).or_default().balance = U256::from(ETHER);
    let bytes = made.transaction().raw().len();
    let result = world.pool.admit(made, &world.accounts, BASE_FEE, world.now);
    assert_eq!(result, Err(Refusal::TooShort { bytes, min: batch::MIN_TRANSACTION_BYTES }));
    // Encoding fails: without this check the proposer would get no batch because of one transaction.
    let together = [draft(1, 0).raw(), short(0).transaction().raw().clone()];
    assert_eq!(batch::encode(&together), Err(batch::InvalidEntry { index: 1, bytes }));
}

/// EIP-3607, except for unsigned transactions on development chains.
#[test]
fn impersonated_sender_with_code_is_accepted() {
    let mut world = World::new();
    world.admit(&draft(1, 0)).unwrap();
    world.account(1).code_hash = B256::repeat_byte(1);
    says(world.admit(&draft(1, 1)), "sender not an eoa");
    let _permit = corniche_crypto::ImpersonationPermit::new(CHAIN_ID);
    says(world.admit(&draft(1, 1)), "sender not an eoa");
    let transaction = TxEip1559 {
        chain_id: CHAIN_ID,
        nonce: 1,
        gas_limit: 21_000,
        max_fee_per_gas: 1_000,
        to: Address::ZERO.into(),
        ..TxEip1559::default()
    };
    let unsigned = check(corniche_crypto::impersonate(transaction, address(1)), CHAIN_ID).unwrap();
    let hash = unsigned.hash();
    world.pool.admit(unsigned, &world.accounts, world.base_fee, world.now).unwrap();
    world.account(1).nonce = 1;
    world.on_block(&[(B256::ZERO, address(1))], &[]);
    assert!(world.pool.get(&hash).is_some(), "and it stays");
    assert_eq!(world.cut(), vec![(1, 1)]);
}
