//! Stores values of certified headers: randomness and state root of past blocks, for contracts that need them after more than
//! 8,255 blocks.
//!
//! The caller of `witness` is not trusted: the contract reads the header's hash from the chain.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::vec::Vec;
use alloy_primitives::{B256, U256};
use alloy_sol_types::sol;
use corniche_contract::{CertifiedHeader, HeaderError};
use stylus_sdk::{abi::Bytes, prelude::*};

corniche_contract::abi!();

sol! {
    event Witnessed(uint256 indexed number, bytes32 hash, bytes32 randomness, bytes32 stateRoot);

    /// The bytes are not a header of this chain.
    #[derive(Debug, PartialEq, Eq)]
    error Malformed();
    /// The header is less than 65 blocks old, or more than 8,255.
    #[derive(Debug, PartialEq, Eq)]
    error OutOfReach(uint256 number);
    /// The block with this number has another header.
    #[derive(Debug, PartialEq, Eq)]
    error Another(uint256 number);
}

sol_storage! {
    #[entrypoint]
    pub struct Witness {
        mapping(uint256 => Header) headers;
    }

    pub struct Header {
        bytes32 hash;
        uint256 timestamp;
        bytes32 randomness;
        bytes32 state_root;
    }
}

#[derive(Debug, PartialEq, Eq, SolidityError)]
pub enum WitnessError {
    Malformed(Malformed),
    OutOfReach(OutOfReach),
    Another(Another),
}

impl From<HeaderError> for WitnessError {
    fn from(error: HeaderError) -> Self {
        match error {
            HeaderError::Malformed => Malformed {}.into(),
            HeaderError::OutOfReach { number } => OutOfReach { number: U256::from(number) }.into(),
            HeaderError::Mismatch { number } => Another { number: U256::from(number) }.into(),
        }
    }
}

#[public]
impl Witness {
    /// Stores a header in RLP and returns its number. Any account may call.
    pub fn witness(&mut self, header: Bytes) -> Result<U256, WitnessError> {
        let CertifiedHeader { hash, timestamp, randomness, state_root, number, .. } = CertifiedHeader::check(&header)?;
        let number = U256::from(number);
        let mut kept = self.headers.setter(number);
        kept.hash.set(hash);
        kept.timestamp.set(U256::from(timestamp));
        kept.randomness.set(randomness);
        kept.state_root.set(state_root);
        self.vm().log(Witnessed { number, hash, randomness, stateRoot: state_root });
        Ok(number)
    }

    /// Returns hash, time, randomness and state root of a block, or zeros if its header is not stored.
    pub fn header(&self, number: U256) -> (B256, U256, B256, B256) {
        let kept = self.headers.get(number);
        (kept.hash.get(), kept.timestamp.get(), kept.randomness.get(), kept.state_root.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stylus_sdk::testing::*;

    #[test]
    fn rejects_uncertified_header() {
        let vm = TestVM::default();
        let mut witness = Witness::from(&vm);
        for junk in [&b""[..], b"anything", &[0xc0]] {
            assert_eq!(witness.witness(junk.to_vec().into()), Err(Malformed {}.into()));
        }
        assert_eq!(witness.header(U256::ZERO), Default::default());
    }
}
