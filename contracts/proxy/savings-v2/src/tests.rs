//! Native tests on the SDK's host in memory. The first version's tests cover the common behaviour.

use super::*;
use erc1967::IMPLEMENTATION_SLOT;
use stylus_sdk::testing::*;

const OWNER: Address = Address::repeat_byte(0x01);
const SAVER: Address = Address::repeat_byte(0x02);

fn n(value: u64) -> U256 {
    U256::from(value)
}

/// A box behind a proxy of the first version, after the upgrade.
fn after_the_first() -> (TestVM, Savings) {
    let vm = TestVM::default();
    vm.set_storage(IMPLEMENTATION_SLOT.into(), Address::repeat_byte(0xaa).into_word());
    // Values of `address owner; uint64 initialized;` in the first version.
    let mut word = OWNER.into_word();
    word[11] = 1;
    vm.set_storage(n(0), word);
    let savings = Savings::from(&vm);
    (vm, savings)
}

#[test]
fn migrates_first_version_once() {
    let (vm, mut savings) = after_the_first();
    assert_eq!(savings.owner(), OWNER);
    vm.set_sender(SAVER);
    assert!(matches!(savings.migrate(60), Err(SavingsError::NotOwner(_))));
    vm.set_sender(OWNER);
    assert!(savings.migrate(60).is_ok());
    assert_eq!((savings.delay(), savings.owner(), savings.initialized.get().to()), (60, OWNER, 2));
    assert!(matches!(savings.migrate(0), Err(SavingsError::Uups(UupsError::Initialization(_)))));
    assert!(matches!(savings.initialize(SAVER, 0), Err(SavingsError::Uups(UupsError::Initialization(_)))));
}

#[test]
fn new_account_needs_no_migration() {
    let (vm, mut savings) = after_the_first();
    vm.set_storage(n(0), B256::ZERO);
    assert!(matches!(savings.initialize(Address::ZERO, 60), Err(SavingsError::BadOwner(_))));
    assert!(savings.initialize(OWNER, 60).is_ok());
    vm.set_sender(OWNER);
    assert!(matches!(savings.migrate(0), Err(SavingsError::Uups(UupsError::Initialization(_)))));
    assert_eq!(savings.delay(), 60);
}

#[test]
fn withdrawal_needs_elapsed_delay() {
    let (vm, mut savings) = after_the_first();
    vm.set_sender(OWNER);
    assert!(savings.migrate(60).is_ok());
    vm.set_sender(SAVER);
    vm.set_block_timestamp(1_000);
    vm.set_value(n(5));
    savings.deposit();
    vm.set_value(n(0));
    vm.set_block_timestamp(1_059);
    assert!(matches!(savings.withdraw(n(5)), Err(SavingsError::TooEarly(TooEarly { until: 1_060 }))));
    vm.set_block_timestamp(1_060);
    assert!(savings.withdraw(n(5)).is_ok());
    assert_eq!(savings.balance_of(SAVER), n(0));
}

#[test]
fn infinite_delay_never_elapses() {
    let (vm, mut savings) = after_the_first();
    vm.set_sender(OWNER);
    assert!(savings.migrate(u64::MAX).is_ok());
    vm.set_value(n(5));
    savings.deposit();
    assert!(matches!(savings.withdraw(n(5)), Err(SavingsError::TooEarly(TooEarly { until: u64::MAX }))));
}
