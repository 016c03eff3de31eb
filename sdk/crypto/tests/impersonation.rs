//! Impersonation.

use alloy_consensus::TxEip1559;
use corniche_crypto::{EthereumKey, ImpersonationPermit, SignatureError, VerifiedTransaction, impersonate, recover};
use corniche_types::{Address, B256, Transaction, U256};

#[test]
fn impersonation_is_off_by_default() {
    let transaction = TxEip1559 { chain_id: 7, gas_limit: 21_000, ..TxEip1559::default() };
    let verify = |sender| {
        let raw = impersonate(transaction.clone(), sender);
        VerifiedTransaction::verify(Transaction::decode(raw).unwrap(), 7)
    };
    let sender = Address::repeat_byte(0x11);
    assert_eq!(verify(sender).unwrap_err(), SignatureError::Invalid);
    let permit = ImpersonationPermit::new(7);
    for sender in [sender, Address::ZERO, Address::repeat_byte(0xff)] {
        let transaction = verify(sender).unwrap();
        assert_eq!((transaction.sender(), transaction.is_impersonated()), (sender, true));
    }
    let key = EthereumKey::from_bytes(&[3; 32]).unwrap();
    let signed = Transaction::decode(key.sign(transaction.clone())).unwrap();
    let signed = VerifiedTransaction::verify(signed, 7).unwrap();
    assert_eq!((signed.sender(), signed.is_impersonated()), (key.address(), false), "here as well");
    assert!(impersonate(transaction.clone(), Address::ZERO).len() >= 64, "the pool's batches take nothing shorter");
    assert_ne!(verify(sender).unwrap().hash(), verify(Address::ZERO).unwrap().hash());
    let on_curve = [false, true]
        .into_iter()
        .any(|odd| recover(B256::repeat_byte(3), U256::from_be_bytes([0x55; 32]), U256::ONE, odd).is_some());
    assert!(!on_curve, "no signature looks like that");
    drop(permit);
    assert_eq!(verify(sender).unwrap_err(), SignatureError::Invalid, "permitted until then");
}

#[test]
fn permit_is_for_one_chain() {
    let verify = |chain_id| {
        let raw = impersonate(TxEip1559 { chain_id, ..TxEip1559::default() }, Address::repeat_byte(0x11));
        VerifiedTransaction::verify(Transaction::decode(raw).unwrap(), chain_id).is_ok()
    };
    let first = ImpersonationPermit::new(21);
    let second = ImpersonationPermit::new(21);
    let other = ImpersonationPermit::new(22);
    assert_eq!([21, 22, 23].map(verify), [true, true, false]);
    drop((first, other));
    assert_eq!([21, 22, 23].map(verify), [true, false, false], "one permit is left for 21");
    drop(second);
    assert_eq!([21, 22, 23].map(verify), [false; 3]);
}
