//! What an implementation has so that it can be replaced: UUPS (ERC-1822). The file of all implementations of this folder.
//!
//! An implementation knows by its storage whether it runs behind a proxy: only a proxy's holds an implementation. So what is for proxies alone
//! refuses direct calls without a constructor or a flag, and nobody can initialise, own or replace the implementation itself.

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

    /// This is for calls through a proxy only, or for none of them.
    error UUPSUnauthorizedCallContext();
    /// The new implementation is for proxies that keep theirs in that slot.
    error UUPSUnsupportedProxiableUUID(bytes32 slot);
    /// That has been done, or it is not its turn.
    error InvalidInitialization();
}

#[derive(SolidityError)]
pub enum UupsError {
    Context(UUPSUnauthorizedCallContext),
    Uuid(UUPSUnsupportedProxiableUUID),
    Initialization(InvalidInitialization),
    Erc1967(Erc1967Error),
}

/// So that it can be one of the cases of a contract's own error.
impl MethodError for UupsError {
    fn encode(self) -> Vec<u8> {
        self.into()
    }
}

/// Refuses what does not come through a proxy.
pub fn only_proxy(contract: &impl HostAccess<Host = VM>) -> Result<(), UupsError> {
    match erc1967::implementation(contract).is_zero() {
        true => Err(UUPSUnauthorizedCallContext {}.into()),
        false => Ok(()),
    }
}

/// The slot of proxies that this can be behind. A proxy never answers it, so none can become the implementation of another.
pub fn proxiable_uuid(contract: &impl HostAccess<Host = VM>) -> Result<B256, UupsError> {
    match only_proxy(contract) {
        Ok(()) => Err(UUPSUnauthorizedCallContext {}.into()),
        Err(_) => Ok(IMPLEMENTATION_SLOT),
    }
}

/// Goes on from one version to a later one, once.
pub fn initialize(initialized: &mut StorageU64, from: u64, to: u64) -> Result<Initialized, UupsError> {
    if initialized.get() != U64::from(from) {
        return Err(InvalidInitialization {}.into());
    }
    initialized.set(U64::from(to));
    Ok(Initialized { version: to })
}

/// Replaces the implementation by one that can be replaced again. That it is a proxy's, and who may, is for the contract to say beforehand.
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
