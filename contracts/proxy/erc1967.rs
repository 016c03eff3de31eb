//! The storage slot of a proxy's implementation, and its replacement: ERC-1967. All contracts of this folder include this file.

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

    /// The address has no code, or its code cannot be behind this proxy.
    error ERC1967InvalidImplementation(address implementation);
    /// Coins were sent without a call that receives them.
    error ERC1967NonPayable();
}

#[derive(SolidityError)]
pub enum Erc1967Error {
    InvalidImplementation(ERC1967InvalidImplementation),
    NonPayable(ERC1967NonPayable),
    /// The implementation's error is passed on.
    Call(CallError),
}

/// Makes it usable as a variant of a contract's error.
impl MethodError for Erc1967Error {
    fn encode(self) -> Vec<u8> {
        self.into()
    }
}

/// keccak-256 of `eip1967.proxy.implementation`, minus one: no compiler-assigned field and no mapping value uses this slot.
pub const IMPLEMENTATION_SLOT: B256 = b256!("360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc");

/// Address of the running code. Zero in storage that is not a proxy's.
pub fn implementation(contract: &impl HostAccess<Host = VM>) -> Address {
    slot(contract).get()
}

fn slot(contract: &impl HostAccess<Host = VM>) -> StorageAddress {
    // SAFETY: nothing else refers to this slot, and this value lives only for one access. An address fills the low 20 bytes.
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

/// Runs the code of another contract on this storage, with this balance, for the current caller and value. Returns its result
/// or revert data unchanged.
pub fn delegate<C>(contract: &mut C, to: Address, data: &[u8]) -> Result<Vec<u8>, Vec<u8>>
where
    C: HostAccess<Host = VM> + TopLevelStorage,
{
    // SAFETY: the contract is borrowed for the call, so no earlier reads are in use. Writes are flushed before the call, and the
    // cache is cleared, so later reads are fresh.
    unsafe { RawCall::new_delegate(contract.vm()).clear_storage_cache().call(to, data) }
}
