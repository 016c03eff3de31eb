//! Encodes permits for signing (EIP-712) and recovers their signers.

use alloc::vec::Vec;
use alloy_primitives::{address, b256, keccak256, Address, B256, U256};
use alloy_sol_types::SolValue;
use stylus_sdk::call::static_call;
use stylus_sdk::host::VM;
use stylus_sdk::prelude::*;

/// keccak-256 of `EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)`.
const DOMAIN_TYPE: B256 = b256!("8b73c3c69bb8fe3d512ecc4cf759cc79239f7b179b0ffacaa9a75d522b39400f");
/// keccak-256 of `Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)`.
const PERMIT_TYPE: B256 = b256!("6e71edae12b1b97f4d1f60370fef10105fa2faae0126114a169c64845d6126c9");
/// keccak-256 of `1`, the default version of a token.
const VERSION: B256 = b256!("c89efdaa54c0f20c7adf612882df0950f5a951637e0307cdcb4c672f298b8bc6");

/// The precompile that recovers signers, and its gas.
const RECOVER: Address = address!("0000000000000000000000000000000000000001");
const RECOVER_GAS: u64 = 8_000;

/// Half of the curve's order. Of two equivalent signatures only the lower one is accepted.
const HALF_ORDER: B256 = b256!("7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0");

pub fn domain_separator(name: &str, chain_id: u64, contract: Address) -> B256 {
    keccak256((DOMAIN_TYPE, keccak256(name), VERSION, U256::from(chain_id), contract).abi_encode())
}

pub struct Permit {
    pub owner: Address,
    pub spender: Address,
    pub value: U256,
    pub nonce: U256,
    pub deadline: U256,
}

impl Permit {
    /// Hash that the owner's key signs.
    pub fn digest(&self, domain: B256) -> B256 {
        let Self { owner, spender, value, nonce, deadline } = self;
        let permit = keccak256((PERMIT_TYPE, *owner, *spender, *value, *nonce, *deadline).abi_encode());
        keccak256([&b"\x19\x01"[..], domain.as_slice(), permit.as_slice()].concat())
    }
}

/// Recovers the signer. Returns `None` for an invalid signature.
pub fn signer(vm: &VM, digest: B256, v: u8, r: B256, s: B256) -> Option<Address> {
    if s > HALF_ORDER {
        return None;
    }
    let input: Vec<u8> = [digest, B256::with_last_byte(v), r, s].concat();
    // Passes only the price: a failed precompile consumes all its gas.
    let output = static_call(vm, Call::new().gas(RECOVER_GAS), RECOVER, &input).ok()?;
    let signer = Address::from_word(B256::try_from(&output[..]).ok()?);
    (!signer.is_zero()).then_some(signer)
}
