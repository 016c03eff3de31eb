//! Bytes in storage, 32 per slot. The SDK's bytes are stored one by one and divide to find a slot, which alone makes the module a
//! tenth larger.

use alloc::vec::Vec;
use alloy_primitives::{B256, U256};
use stylus_sdk::prelude::*;

sol_storage! {
    pub struct Words {
        uint256 length;
        mapping(uint256 => bytes32) words;
    }
}

impl Words {
    pub fn get(&self) -> Vec<u8> {
        let length: usize = self.length.get().to();
        let mut bytes = Vec::with_capacity(length.next_multiple_of(32));
        for at in 0..length.div_ceil(32) {
            bytes.extend_from_slice(self.words.get(U256::from(at)).as_slice());
        }
        bytes.truncate(length);
        bytes
    }

    /// Requires empty storage.
    pub fn set(&mut self, bytes: &[u8]) {
        self.length.set(U256::from(bytes.len()));
        for (at, chunk) in bytes.chunks(32).enumerate() {
            self.words.insert(U256::from(at), B256::right_padding_from(chunk));
        }
    }
}
