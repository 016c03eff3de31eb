//! Upgrade functions of an implementation: UUPS (ERC-1822). All implementations of this folder include this file.
//!
//! An implementation detects by the storage whether it runs behind a proxy: only a proxy's storage has an implementation. So
//! proxy functions refuse direct calls without a constructor or a flag: the implementation itself has no owner and no upgrades.

use crate::erc1967::{self, Erc1967Error, IMPLEMENTATION_SLOT};
use alloc::vec::Vec;
use alloy_primitives::{Address, B256, U64};
use alloy_sol_types::{sol, SolCall};
use stylus_sdk::call::static_call;
use stylus_sdk::host::VM;
use stylus_sdk::prelude::*;
use stylus_sdk::storage::StorageU64;
use stylus_sdk::stylus_core::calls::errors::MethodError;

mod erc1822 {
    use super::sol;

    sol! {
        function proxiableUUID() returns (bytes32);
    }
}

sol! {
    event Initialized(uint64 version);

    /// The function requires a call through a proxy, or a direct call.
    error UUPSUnauthorizedCallContext();
    /// The new implementation is for proxies with another slot.
    error UUPSUnsupportedProxiableUUID(bytes32 slot);
    /// The version is initialised already, or it is not the next one.
    error InvalidInitialization();
}

#[derive(SolidityError)]
pub enum UupsError {
    Context(UUPSUnauthorizedCallContext),
    Uuid(UUPSUnsupportedProxiableUUID),
    Initialization(InvalidInitialization),
    Erc1967(Erc1967Error),
}

/// Makes it usable as a variant of a contract's error.
impl MethodError for UupsError {
    fn encode(self) -> Vec<u8> {
        self.into()
    }
}

/// Refuses calls that do not come through a proxy.
pub fn only_proxy(contract: &impl HostAccess<Host = VM>) -> Result<(), UupsError> {
    match erc1967::implementation(contract).is_zero() {
        true => Err(UUPSUnauthorizedCallContext {}.into()),
        false => Ok(()),
    }
}

/// The slot of proxies for this implementation. It reverts through a proxy, so no proxy can become another's implementation.
pub fn proxiable_uuid(contract: &impl HostAccess<Host = VM>) -> Result<B256, UupsError> {
    match only_proxy(contract) {
        Ok(()) => Err(UUPSUnauthorizedCallContext {}.into()),
        Err(_) => Ok(IMPLEMENTATION_SLOT),
    }
}

/// Advances from one version to a later one, once.
pub fn initialize(initialized: &mut StorageU64, from: u64, to: u64) -> Result<Initialized, UupsError> {
    if initialized.get() != U64::from(from) {
        return Err(InvalidInitialization {}.into());
    }
    initialized.set(U64::from(to));
    Ok(Initialized { version: to })
}

/// Replaces the implementation by an upgradeable one. The contract must check the proxy context and the caller before.
pub fn upgrade_to_and_call<C>(contract: &mut C, implementation: Address, data: &[u8]) -> Result<(), UupsError>
where
    C: HostAccess<Host = VM> + TopLevelStorage,
{
    let invalid = || Erc1967Error::from(erc1967::ERC1967InvalidImplementation { implementation });
    let answer = static_call(contract.vm(), Call::new(), implementation, &erc1822::proxiableUUIDCall {}.abi_encode());
    let answer = answer.map_err(|_| invalid())?;
    let slot = erc1822::proxiableUUIDCall::abi_decode_returns(&answer).map_err(|_| invalid())?;
    if slot != IMPLEMENTATION_SLOT {
        return Err(UUPSUnsupportedProxiableUUID { slot }.into());
    }
    Ok(erc1967::upgrade_to_and_call(contract, implementation, data)?)
}
