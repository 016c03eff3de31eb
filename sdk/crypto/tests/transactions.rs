//! Senders of transactions: published vectors, then invalid transactions.

use alloy_consensus::{TxEip1559, TxEip2930, TxLegacy};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, address, b256, hex, keccak256, uint};
use corniche_crypto::{EthereumKey, Known, SignatureError, VerifiedTransaction, recover};
use corniche_types::Transaction;
use proptest::prelude::*;

const ORDER: U256 = uint!(0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141_U256);

fn verify(raw: &[u8], chain_id: u64) -> Result<VerifiedTransaction, SignatureError> {
    let transaction = Transaction::decode(Bytes::copy_from_slice(raw)).expect("it decodes");
    VerifiedTransaction::verify(transaction, chain_id)
}

fn key(seed: u8) -> EthereumKey {
    EthereumKey::from_bytes(&[seed; 32]).expect("below the order")
}

fn legacy(chain_id: Option<u64>) -> TxLegacy {
    TxLegacy {
        chain_id,
        nonce: 9,
        gas_price: 20_000_000_000,
        gas_limit: 21_000,
        to: TxKind::Call(address!("3535353535353535353535353535353535353535")),
        value: U256::from(1_000_000_000_000_000_000u64),
        input: Bytes::new(),
    }
}

fn eip1559(chain_id: u64) -> TxEip1559 {
    TxEip1559 {
        chain_id,
        nonce: 1,
        gas_limit: 21_000,
        max_fee_per_gas: 10,
        max_priority_fee_per_gas: 1,
        to: TxKind::Call(Address::repeat_byte(7)),
        value: U256::from(1),
        ..TxEip1559::default()
    }
}

/// The result never depends on `known`, and never is another transaction.
#[test]
fn cache_never_validates_other_transaction() {
    let decode = |raw: &Bytes| Transaction::decode(raw.clone()).expect("it decodes");
    let signed = key(1).sign(eip1559(7));
    // The last byte belongs to `s`; a change of it gives another sender, or none.
    let tampered = |byte: usize| {
        let mut raw = signed.to_vec();
        raw[byte] ^= 1;
        Bytes::from(raw)
    };
    let other_chain = key(1).sign(eip1559(8));
    let last = signed.len() - 1;
    let candidates = [signed.clone(), tampered(last), tampered(last - 40), other_chain.clone(), key(2).sign(eip1559(7))];
    let verified = [verify(&signed, 7).unwrap(), verify(&other_chain, 8).unwrap()];
    for raw in &candidates {
        let honest = verify(raw, 7).map(|verified| (verified.sender(), verified.hash()));
        for liar in &verified {
            let answer = VerifiedTransaction::verify_cached(decode(raw), 7, |_| Some(Known::Verified(liar.clone())));
            assert_eq!(answer.map(|verified| (verified.sender(), verified.hash())), honest, "{raw}");
        }
    }
    let again = VerifiedTransaction::verify_cached(decode(&signed), 7, |hash| {
        assert_eq!(*hash, keccak256(&signed));
        Some(Known::Verified(verified[0].clone()))
    });
    let again = again.unwrap();
    assert!(std::ptr::eq(again.transaction(), verified[0].transaction()), "it was not checked again");
}

/// An attested sender replaces only the recovery: the form of a signature is checked by everybody.
#[test]
fn attested_sender_needs_right_form() {
    let sender = key(1).address();
    let attested = |raw: &Bytes| {
        let transaction = Transaction::decode(raw.clone()).expect("it decodes");
        VerifiedTransaction::verify_cached(transaction, 7, |_| Some(Known::Attested(sender))).map(|known| known.sender())
    };
    // Signed by another key: nobody recovers it.
    assert_eq!(attested(&key(2).sign(eip1559(7))), Ok(sender));
    assert_eq!(attested(&key(1).sign(eip1559(8))), Err(SignatureError::InvalidChainId { have: 8, want: 7 }));
    assert_eq!(attested(&key(1).sign(legacy(None))), Err(SignatureError::Unprotected));
    let high = Signature::new(U256::from(1), (ORDER >> 1) + U256::from(1), false);
    assert_eq!(attested(&encoded(eip1559(7), high).into()), Err(SignatureError::HighS));
}

#[test]
fn eip_155_example() {
    let raw = key(0x46).sign(legacy(Some(1)));
    let expected = hex!(
        "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc\
         2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"
    );
    assert_eq!(raw, Bytes::from(expected));
    let verified = verify(&raw, 1).unwrap();
    assert_eq!(verified.sender(), address!("9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F"));
    assert_eq!(
        verified.transaction().signature_hash(),
        b256!("daf5a779ae972f972197303d7b574746c7ef83eadac0f2791ad23db92e4c8e53")
    );
}

#[test]
fn mainnet_eip_1559_transaction() {
    let transaction = TxEip1559 {
        chain_id: 1,
        nonce: 0x42,
        gas_limit: 44_386,
        max_fee_per_gas: 20_000_000_000,
        max_priority_fee_per_gas: 0x3b9a_ca00,
        to: TxKind::Call(address!("6069a6c32cf691f5982febae4faf8a6f3ab2f0f6")),
        value: U256::ZERO,
        access_list: Default::default(),
        input: hex!("a22cb4650000000000000000000000005eee75727d804a2b13038928d36f8b188945a57a0000000000000000000000000000000000000000000000000000000000000000").into(),
    };
    let signature = Signature::from_scalars_and_parity(
        b256!("840cfc572845f5786e702984c2a582528cad4b49b2a10b9db1be7fca90058565"),
        b256!("25e7109ceb98168d95b09b18bbf6b685130e0562f233877d492b94eee0c5b6d1"),
        false,
    );
    let raw = encoded(transaction, signature);
    let verified = verify(&raw, 1).unwrap();
    assert_eq!(verified.sender(), address!("dd6b8b3dc6b7ad97db52f08a275ff4483e024cea"));
    assert_eq!(verified.hash(), b256!("0ec0b6a2df4d87424e5f6ad2a654e27aaeb7dac20ae9e8385cc09087ad532ee0"));
}

fn encoded<T>(transaction: T, signature: Signature) -> Vec<u8>
where
    T: alloy_consensus::SignableTransaction<Signature>,
    alloy_consensus::TxEnvelope: From<alloy_consensus::Signed<T>>,
{
    use alloy_eips::eip2718::Encodable2718;
    alloy_consensus::TxEnvelope::from(transaction.into_signed(signature)).encoded_2718()
}

#[test]
fn development_key_has_known_address() {
    let key = EthereumKey::from_hex("0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80\n").unwrap();
    assert_eq!(key.address(), address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266"));
    assert_eq!(format!("{key:?}"), "EthereumKey(0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266)", "the secret is never printed");
}

#[test]
fn all_types_recover_signer() {
    let key = key(3);
    let access_list = TxEip2930 { chain_id: 5, gas_limit: 30_000, gas_price: 7, ..TxEip2930::default() };
    for raw in [key.sign(legacy(Some(5))), key.sign(access_list), key.sign(eip1559(5))] {
        assert_eq!(verify(&raw, 5).unwrap().sender(), key.address());
    }
}

#[test]
fn wrong_chain_is_rejected() {
    for raw in [key(1).sign(legacy(Some(7))), key(1).sign(eip1559(7))] {
        let refusal = verify(&raw, 8).unwrap_err();
        assert_eq!(refusal, SignatureError::InvalidChainId { have: 7, want: 8 });
        assert_eq!(refusal.to_string(), "invalid chain id for signer: have 7 want 8");
    }
}

#[test]
fn rejects_unprotected_legacy_transaction() {
    let refusal = verify(&key(1).sign(legacy(None)), 1).unwrap_err();
    assert_eq!(refusal, SignatureError::Unprotected);
    assert!(refusal.to_string().contains("replay-protected (EIP-155)"), "{refusal}");
}

#[test]
fn rejects_high_s_signature() {
    let transaction = eip1559(1);
    let hash = alloy_consensus::SignableTransaction::signature_hash(&transaction);
    let signature = key(1).sign_hash(hash);
    let twin = Signature::new(signature.r(), ORDER - signature.s(), !signature.v());
    // It recovers to the same signer: only this rule prevents a second hash of the same transaction.
    assert_eq!(recover(hash, twin.r(), twin.s(), twin.v()), Some(key(1).address()));
    assert_eq!(verify(&encoded(transaction, twin), 1).unwrap_err(), SignatureError::HighS);
}

#[test]
fn largest_low_s_is_accepted() {
    let half = ORDER >> 1;
    let at = Signature::new(U256::from(1), half, false);
    let above = Signature::new(U256::from(1), half + U256::from(1), false);
    assert_ne!(verify(&encoded(eip1559(1), at), 1).err(), Some(SignatureError::HighS));
    assert_eq!(verify(&encoded(eip1559(1), above), 1).err(), Some(SignatureError::HighS));
}

#[test]
fn rejects_degenerate_signatures() {
    let one = U256::from(1);
    for (r, s) in [(U256::ZERO, one), (one, U256::ZERO), (ORDER, one), (U256::MAX, one), (U256::ZERO, U256::ZERO)] {
        assert_eq!(
            verify(&encoded(eip1559(1), Signature::new(r, s, false)), 1).unwrap_err(),
            SignatureError::Invalid,
            "r {r} s {s}"
        );
    }
    assert_eq!(recover(B256::ZERO, one, ORDER, false), None);
}

#[test]
fn rejects_zero_and_order_as_keys() {
    assert!(EthereumKey::from_bytes(&[0; 32]).is_err());
    assert!(EthereumKey::from_bytes(&ORDER.to_be_bytes()).is_err());
    assert!(EthereumKey::from_hex("0x1234").is_err());
}

proptest! {
    #[test]
    fn sign_and_verify_round_trip(secret: [u8; 32], nonce: u64, fee: u64, value: u128, input: Vec<u8>) {
        prop_assume!(EthereumKey::from_bytes(&secret).is_ok());
        let key = EthereumKey::from_bytes(&secret).unwrap();
        let transaction = TxEip1559 { nonce, max_fee_per_gas: fee.into(), value: U256::from(value), input: input.into(), ..eip1559(3) };
        let raw = key.sign(transaction);
        let verified = verify(&raw, 3).unwrap();
        prop_assert_eq!(verified.sender(), key.address());
        prop_assert_eq!(verified.hash(), keccak256(&raw));
        prop_assert_eq!(EthereumKey::from_hex(&key.to_hex()).unwrap().address(), key.address());
    }

    /// After a flip of any bit, the transaction is refused or has another sender.
    #[test]
    fn changed_bit_changes_sender(bit in 0usize..100 * 8) {
        let key = key(9);
        let mut raw = key.sign(eip1559(3)).to_vec();
        let bit = bit % (raw.len() * 8);
        raw[bit / 8] ^= 1 << (bit % 8);
        if let Ok(transaction) = Transaction::decode(raw.into())
            && let Ok(verified) = VerifiedTransaction::verify(transaction, 3)
        {
            prop_assert_ne!(verified.sender(), key.address());
        }
    }
}
