//! Native tests on the SDK's host in memory, where delegate calls return mocked results.

use super::*;
use alloy_primitives::{keccak256, U256};
use alloy_sol_types::{SolError, SolEvent};
use erc1967::{ERC1967NonPayable, Upgraded, IMPLEMENTATION_SLOT};
use stylus_sdk::testing::*;

const CODE: Address = Address::repeat_byte(0xcc);

fn proxy() -> (TestVM, Proxy) {
    let vm = TestVM::default();
    vm.set_code(CODE, vec![1]);
    let proxy = Proxy::from(&vm);
    (vm, proxy)
}

/// The error data.
fn refused(result: Result<(), Erc1967Error>) -> Vec<u8> {
    result.expect_err("it is refused").into()
}

#[test]
fn implementation_slot_matches_erc_1967() {
    let hash = U256::from_be_bytes(keccak256("eip1967.proxy.implementation").0);
    assert_eq!(U256::from_be_bytes(IMPLEMENTATION_SLOT.0), hash - U256::ONE);
}

#[test]
fn constructor_sets_implementation_and_emits() {
    let (vm, mut proxy) = proxy();
    assert!(proxy.constructor(CODE, Bytes::new()).is_ok());
    assert_eq!(vm.get_storage(IMPLEMENTATION_SLOT.into()), CODE.into_word(), "as a word, so that tools can read it");
    assert_eq!(vm.get_emitted_logs()[0].0, [Upgraded::SIGNATURE_HASH, CODE.into_word()]);
}

#[test]
fn rejects_implementation_without_code() {
    let (_, mut proxy) = proxy();
    let implementation = Address::repeat_byte(1);
    let error = ERC1967InvalidImplementation { implementation };
    assert_eq!(refused(proxy.constructor(implementation, Bytes::new())), error.abi_encode());
}

#[test]
fn rejects_value_without_call() {
    let (vm, mut proxy) = proxy();
    vm.set_value(U256::from(5));
    assert_eq!(refused(proxy.constructor(CODE, Bytes::new())), ERC1967NonPayable {}.abi_encode());
    vm.mock_delegate_call(CODE, vec![7], Ok(Vec::new()));
    assert!(proxy.constructor(CODE, vec![7].into()).is_ok());
}

#[test]
fn forwards_revert_of_initialization() {
    let (vm, mut proxy) = proxy();
    vm.mock_delegate_call(CODE, vec![7], Err(vec![1, 2, 3]));
    assert_eq!(refused(proxy.constructor(CODE, vec![7].into())), [1, 2, 3]);
}

#[test]
fn delegates_and_returns_unchanged() {
    let (vm, mut proxy) = proxy();
    assert!(proxy.constructor(CODE, Bytes::new()).is_ok());
    for input in [vec![], vec![1], vec![1, 2, 3, 4, 5]] {
        vm.mock_delegate_call(CODE, input.clone(), Ok(vec![9; 40]));
        assert_eq!(proxy.fallback(&input), Ok(vec![9; 40]));
        vm.mock_delegate_call(CODE, input.clone(), Err(vec![8; 3]));
        assert_eq!(proxy.fallback(&input), Err(vec![8; 3]));
        vm.mock_delegate_call(CODE, input.clone(), Err(vec![]));
        assert_eq!(proxy.fallback(&input), Err(vec![]));
    }
}

#[test]
fn unconstructed_proxy_rejects_calls() {
    let (_, mut proxy) = proxy();
    let error = ERC1967InvalidImplementation { implementation: Address::ZERO };
    assert_eq!(proxy.fallback(&[1, 2, 3, 4]), Err(error.abi_encode()));
}
