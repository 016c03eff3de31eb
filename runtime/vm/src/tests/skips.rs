//! Skipped transactions: each reason alone, and the order of the reasons.

use super::scripts::*;
use crate::NotExecuted;
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, Bytes, TxKind, U256};
use corniche_crypto::VerifiedTransaction;
use corniche_state::Account;
use corniche_types::{
    SkipReason::{self, *},
    Transaction,
};

const BOB: Address = Address::repeat_byte(0xb0);

fn skipped(chain: &Chain, change: impl FnOnce(&mut TxEip1559)) -> Option<SkipReason> {
    let mut draft = chain.draft(BOB);
    change(&mut draft);
    match chain.run(draft) {
        Ok(_) => None,
        Err(NotExecuted::Skipped(reason)) => Some(reason),
        Err(other) => panic!("{other:?}"),
    }
}

fn chain_at_nonce(nonce: u64) -> Chain {
    let mut chain = Chain::new();
    let sender = chain.sender();
    chain.state.accounts.get_mut(&sender).unwrap().as_mut().unwrap().nonce = nonce;
    chain
}

#[test]
fn every_skip_reason() {
    let chain = chain_at_nonce(5);
    let balance = chain.balance(chain.sender());
    assert_eq!(skipped(&chain, |_| {}), None);
    assert_eq!(skipped(&chain, |draft| draft.nonce = 4), Some(NonceTooLow));
    assert_eq!(skipped(&chain, |draft| draft.nonce = 6), Some(NonceTooHigh));
    assert_eq!(skipped(&chain, |draft| draft.max_fee_per_gas = 9), Some(Underpriced));
    assert_eq!(skipped(&chain, |draft| draft.gas_limit = 20_999), Some(IntrinsicGas));
    assert_eq!(skipped(&chain, |draft| draft.gas_limit = BLOCK_GAS + 1), Some(GasLimit));
    assert_eq!(skipped(&chain, |draft| draft.max_priority_fee_per_gas = 101), Some(TipAboveFee));

    // The balance must cover the whole gas limit at the maximum fee, although less is charged.
    let most = balance - 1_000_000 * 100;
    assert_eq!(skipped(&chain, |draft| draft.value = U256::from(most)), None);
    assert_eq!(skipped(&chain, |draft| draft.value = U256::from(most + 1)), Some(Underfunded));
    assert_eq!(skipped(&chain, |draft| draft.value = U256::MAX), Some(Underfunded), "a cost beyond 256 bits");
}

#[test]
fn intrinsic_gas_of_creation() {
    let chain = Chain::new();
    let create = |gas_limit| {
        skipped(&chain, |draft| {
            draft.to = TxKind::Create;
            draft.input = Bytes::from_static(&[1; 33]);
            draft.gas_limit = gas_limit;
        })
    };
    let needed = 21_000 + 32_000 + 33 * 16 + 2 * 2;
    assert_eq!(create(needed - 1), Some(IntrinsicGas));
    assert_eq!(create(needed), None);
}

#[test]
fn contract_accounts_cannot_send() {
    let mut chain = Chain::new();
    let sender = chain.sender();
    let code_hash = alloy_primitives::B256::repeat_byte(1);
    let account = chain.account(sender);
    chain.state.accounts.insert(sender, Some(Account { code_hash, ..account }));
    assert_eq!(skipped(&chain, |_| {}), Some(SenderNotEoa));
    // Nor if unsigned transactions are permitted: this one is signed, which its bytes show.
    let _permit = corniche_crypto::ImpersonationPermit::new(CHAIN_ID);
    assert_eq!(skipped(&chain, |_| {}), Some(SenderNotEoa));
    let raw = corniche_crypto::impersonate(chain.draft(BOB), sender);
    let unsigned = VerifiedTransaction::verify(Transaction::decode(raw).unwrap(), CHAIN_ID).unwrap();
    let executed = crate::transact::transact(&chain.scripts, &chain.view(), &chain.env, &unsigned, chain.sender()).unwrap();
    assert_eq!((executed.receipt.success, executed.receipt.sender), (true, sender));
}

#[test]
fn last_nonce() {
    assert_eq!(skipped(&chain_at_nonce(u64::MAX - 1), |_| {}), None);
    assert_eq!(skipped(&chain_at_nonce(u64::MAX), |_| {}), Some(NonceMax));
}

/// Removes one reason.
type Repair = fn(&mut Chain, &mut TxEip1559);

/// All reasons apply at first. Removing them one by one shows them in the order of their numbers.
#[test]
fn order_of_skip_reasons() {
    let mut chain = chain_at_nonce(u64::MAX);
    let sender = chain.sender();
    let code_hash = alloy_primitives::B256::repeat_byte(1);
    let account = chain.account(sender);
    chain.state.accounts.insert(sender, Some(Account { code_hash, ..account }));
    chain.env.gas_limit = 20_000;
    let repairs: [(SkipReason, Repair); 7] = [
        (NonceTooLow, |_, draft| draft.nonce = u64::MAX),
        (Underfunded, |_, draft| draft.value = U256::ZERO),
        (Underpriced, |_, draft| draft.max_fee_per_gas = 10),
        (IntrinsicGas, |_, draft| draft.gas_limit = 21_000),
        (GasLimit, |chain, _| chain.env.gas_limit = 21_000),
        (TipAboveFee, |_, draft| draft.max_priority_fee_per_gas = 0),
        (SenderNotEoa, |chain, _| {
            let sender = chain.sender();
            let account = Account { code_hash: corniche_state::KECCAK_EMPTY, ..chain.account(sender) };
            chain.state.accounts.insert(sender, Some(account));
        }),
    ];
    let mut draft = chain.draft(BOB);
    draft.nonce = 0;
    draft.value = U256::MAX;
    draft.max_fee_per_gas = 1;
    draft.max_priority_fee_per_gas = 100;
    draft.gas_limit = 20_999;
    for (reason, repair) in repairs {
        assert_eq!(chain.run(draft.clone()), Err(NotExecuted::Skipped(reason)));
        repair(&mut chain, &mut draft);
    }
    assert_eq!(chain.run(draft), Err(NotExecuted::Skipped(NonceMax)));
}
