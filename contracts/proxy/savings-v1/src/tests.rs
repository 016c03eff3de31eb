//! Native tests on the SDK's host in memory. A slot marks a proxy's storage.

use super::*;
use alloy_sol_types::SolCall;
use erc1967::IMPLEMENTATION_SLOT;
use proptest::prelude::*;
use std::collections::BTreeMap;
use stylus_sdk::testing::*;

const HERE: Address = Address::repeat_byte(0xaa);
const NEXT: Address = Address::repeat_byte(0xbb);
const OWNER: Address = Address::repeat_byte(0x01);
const STRANGER: Address = Address::repeat_byte(0x02);

fn n(value: u64) -> U256 {
    U256::from(value)
}

/// A box in a proxy's storage.
fn savings() -> (TestVM, Savings) {
    let vm = TestVM::default();
    vm.set_storage(IMPLEMENTATION_SLOT.into(), HERE.into_word());
    let savings = Savings::from(&vm);
    (vm, savings)
}

fn owned() -> (TestVM, Savings) {
    let (vm, mut savings) = savings();
    vm.set_sender(OWNER);
    assert!(savings.initialize(OWNER).is_ok());
    (vm, savings)
}

fn refused<T>(result: Result<T, SavingsError>) -> SavingsError {
    result.err().expect("it is refused")
}

alloy_sol_types::sol! {
    function proxiableUUID() returns (bytes32);
}

/// Mocks another contract that returns this slot.
fn says(vm: &TestVM, contract: Address, slot: B256) {
    vm.set_code(contract, vec![1]);
    vm.mock_static_call(contract, proxiableUUIDCall {}.abi_encode(), Ok(slot.to_vec()));
}

#[test]
fn initializes_once_behind_proxy() {
    let (vm, mut savings) = savings();
    assert!(matches!(refused(savings.initialize(Address::ZERO)), SavingsError::BadOwner(_)));
    assert!(savings.initialize(OWNER).is_ok());
    assert_eq!((savings.owner(), savings.initialized.get().to()), (OWNER, 1));
    assert!(matches!(refused(savings.initialize(STRANGER)), SavingsError::Uups(UupsError::Initialization(_))));
    vm.set_storage(IMPLEMENTATION_SLOT.into(), B256::ZERO);
    let mut itself = Savings::from(&vm);
    assert!(matches!(refused(itself.initialize(STRANGER)), SavingsError::Uups(UupsError::Context(_))));
}

#[test]
fn owner_upgrades_to_uups() {
    let (vm, mut savings) = owned();
    says(&vm, NEXT, IMPLEMENTATION_SLOT);
    assert!(savings.upgrade_to_and_call(NEXT, Bytes::new()).is_ok());
    assert_eq!(vm.get_storage(IMPLEMENTATION_SLOT.into()), NEXT.into_word());
}

#[test]
fn rejects_unauthorized_upgrades() {
    let (vm, mut savings) = owned();
    says(&vm, NEXT, IMPLEMENTATION_SLOT);
    vm.set_sender(STRANGER);
    assert!(matches!(refused(savings.upgrade_to_and_call(NEXT, Bytes::new())), SavingsError::NotOwner(_)));
    vm.set_sender(OWNER);
    vm.set_storage(IMPLEMENTATION_SLOT.into(), B256::ZERO);
    let error = refused(savings.upgrade_to_and_call(NEXT, Bytes::new()));
    assert!(matches!(error, SavingsError::Uups(UupsError::Context(_))));
}

#[test]
fn rejects_target_without_uups() {
    let (vm, mut savings) = owned();
    let other = B256::repeat_byte(7);
    says(&vm, NEXT, other);
    let error = refused(savings.upgrade_to_and_call(NEXT, Bytes::new()));
    assert!(matches!(error, SavingsError::Uups(UupsError::Uuid(error)) if error.slot == other));
    for (contract, answer) in [(Address::repeat_byte(3), Err(vec![])), (Address::repeat_byte(4), Ok(vec![1]))] {
        vm.set_code(contract, vec![1]);
        vm.mock_static_call(contract, proxiableUUIDCall {}.abi_encode(), answer);
        let error = refused(savings.upgrade_to_and_call(contract, Bytes::new()));
        assert!(matches!(error, SavingsError::Uups(UupsError::Erc1967(_))));
    }
    assert_eq!(vm.get_storage(IMPLEMENTATION_SLOT.into()), HERE.into_word());
}

#[test]
fn proxiable_uuid_only_on_implementation() {
    let (vm, savings) = savings();
    assert!(matches!(refused(savings.proxiable_uuid()), SavingsError::Uups(UupsError::Context(_))));
    vm.set_storage(IMPLEMENTATION_SLOT.into(), B256::ZERO);
    assert_eq!(savings.proxiable_uuid().ok(), Some(IMPLEMENTATION_SLOT));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// Compares with a table of balances: no account withdraws more than it deposited, and the total is the sum.
    #[test]
    fn deposits_match_model(deeds in prop::collection::vec((any::<bool>(), 0..4_u8, 0..100_u64), 1..40)) {
        let (vm, mut savings) = savings();
        let mut table = BTreeMap::<u8, u64>::new();
        for (puts_in, who, value) in deeds {
            vm.set_sender(Address::with_last_byte(who + 1));
            let has = table.entry(who).or_default();
            if puts_in {
                vm.set_value(n(value));
                savings.deposit();
                *has += value;
            } else {
                vm.set_value(n(0));
                let done = savings.withdraw(n(value));
                prop_assert_eq!(done.is_ok(), value <= *has);
                *has -= if value <= *has { value } else { 0 };
            }
            for (who, has) in &table {
                prop_assert_eq!(savings.balance_of(Address::with_last_byte(*who + 1)), n(*has));
            }
            prop_assert_eq!(savings.total(), n(table.values().sum()));
        }
    }
}
