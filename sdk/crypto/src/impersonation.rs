//! Impersonation on development chains: a transaction names its sender in place of a signature.

use alloy_consensus::{SignableTransaction, Signed, TxEnvelope};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, Bytes, Signature, U256};
use std::{
    collections::BTreeMap,
    sync::{PoisonError, RwLock},
};

/// Prefix of a sender's address in the place of a signature: `r`, and the start of `s`. No point of the curve has this
/// `r` as its x coordinate, so it can never be a signature. Its length is that of a signature.
const IMPERSONATED: u8 = 0x55;

/// Number of permits by chain id. Global, because all readers of a transaction, from admission to a trace, must determine
/// the same sender. They have only the chain id in common.
static PERMITS: RwLock<BTreeMap<u64, usize>> = RwLock::new(BTreeMap::new());

/// While it exists, this process accepts transactions of [`impersonate`] for one chain. For development chains only: anyone
/// can create such transactions. Every reader of the chain's transactions must end before the last permit, or it would
/// refuse a transaction that others accepted.
///
/// The chain id identifies the chain. Do not run a node of another chain with the same id in the same process.
#[derive(Debug)]
pub struct ImpersonationPermit {
    chain_id: u64,
}

impl ImpersonationPermit {
    /// Permits impersonation on the chain with this id.
    pub fn new(chain_id: u64) -> Self {
        *PERMITS.write().unwrap_or_else(PoisonError::into_inner).entry(chain_id).or_default() += 1;
        Self { chain_id }
    }
}

impl Drop for ImpersonationPermit {
    fn drop(&mut self) {
        let mut permits = PERMITS.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = permits.get_mut(&self.chain_id) {
            *count -= 1;
            if *count == 0 {
                permits.remove(&self.chain_id);
            }
        }
    }
}

/// Creates a transaction that names its sender in place of a signature. The signature is invalid except on a
/// development chain.
pub fn impersonate<T>(transaction: T, sender: Address) -> Bytes
where
    T: SignableTransaction<Signature>,
    TxEnvelope: From<Signed<T>>,
{
    let mut s = [IMPERSONATED; 32];
    s[12..].copy_from_slice(sender.as_slice());
    let signature = Signature::new(U256::from_be_bytes([IMPERSONATED; 32]), U256::from_be_bytes(s), false);
    TxEnvelope::from(transaction.into_signed(signature)).encoded_2718().into()
}

/// Returns the sender that [`impersonate`] wrote, if the chain has a permit.
pub(crate) fn impersonated(chain_id: u64, r: U256, s: U256) -> Option<Address> {
    let (r, s) = (r.to_be_bytes::<32>(), s.to_be_bytes::<32>());
    let (mark, address) = s.split_at(12);
    let is_mark = r.iter().chain(mark).all(|byte| *byte == IMPERSONATED);
    let is_permitted = || PERMITS.read().unwrap_or_else(PoisonError::into_inner).contains_key(&chain_id);
    (is_mark && is_permitted()).then(|| Address::from_slice(address))
}
