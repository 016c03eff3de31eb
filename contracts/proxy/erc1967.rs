//! Where a proxy keeps its implementation, and how that is replaced: ERC-1967. The file of all contracts of this folder.

use alloc::vec::Vec;
use alloy_primitives::{b256, Address, B256};
use alloy_sol_types::sol;
use stylus_sdk::call::RawCall;
use stylus_sdk::host::VM;
use stylus_sdk::prelude::*;
use stylus_sdk::storage::StorageAddress;
use stylus_sdk::stylus_core::calls::errors::{Error as CallError, MethodError};

sol! {
    event Upgraded(address indexed implementation);

    /// There is no code at that address, or none that can be behind this proxy.
    error ERC1967InvalidImplementation(address implementation);
    /// Coins came along with nothing to be called with them.
    error ERC1967NonPayable();
}

#[derive(SolidityError)]
pub enum Erc1967Error {
    InvalidImplementation(ERC1967InvalidImplementation),
    NonPayable(ERC1967NonPayable),
    /// The implementation's own error is handed on.
    Call(CallError),
}

/// So that it can be one of the cases of a contract's own error.
impl MethodError for Erc1967Error {
    fn encode(self) -> Vec<u8> {
        self.into()
    }
}

/// keccak-256 of `eip1967.proxy.implementation`, less one: no field that a compiler places, and no value of a mapping, lies there.
pub const IMPLEMENTATION_SLOT: B256 = b256!("360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc");

/// Whose code runs; zero in the storage of what is no proxy.
pub fn implementation(contract: &impl HostAccess<Host = VM>) -> Address {
    slot(contract).get()
}

fn slot(contract: &impl HostAccess<Host = VM>) -> StorageAddress {
    // SAFETY: nothing else is made for this slot, and this one lives no longer than a look at it. An address fills the low 20 bytes.
    unsafe { StorageAddress::new(IMPLEMENTATION_SLOT.into(), 12, contract.vm().clone()) }
}

/// Replaces the implementation, and runs it with `data` unless that is empty.
pub fn upgrade_to_and_call<C>(contract: &mut C, implementation: Address, data: &[u8]) -> Result<(), Erc1967Error>
where
    C: HostAccess<Host = VM> + TopLevelStorage,
{
    if contract.vm().code_size(implementation) == 0 {
        return Err(ERC1967InvalidImplementation { implementation }.into());
    }
    slot(contract).set(implementation);
    contract.vm().log(Upgraded { implementation });
    if !data.is_empty() {
        delegate(contract, implementation, data).map_err(CallError::Revert)?;
    } else if !contract.vm().msg_value().is_zero() {
        return Err(ERC1967NonPayable {}.into());
    }
    Ok(())
}

/// Runs the code of another contract here: on this storage, with this balance, for the same caller and value. What it returns or reverts with is
/// returned as it is.
pub fn delegate<C>(contract: &mut C, to: Address, data: &[u8]) -> Result<Vec<u8>, Vec<u8>>
where
    C: HostAccess<Host = VM> + TopLevelStorage,
{
    // SAFETY: the contract is borrowed for the call, so nobody holds what was read before; what was written is stored first, and what is read
    // afterwards is read anew.
    unsafe { RawCall::new_delegate(contract.vm()).clear_storage_cache().call(to, data) }
}
