//! Randomness that is unknown before the block is ordered.

use alloy_primitives::B256;

/// The randomness of the current block, equal for all of its transactions: the header's `mixHash`, Solidity's
/// `block.prevrandao`. To draw several numbers, hash it with another value (for instance `keccak256` with an id).
///
/// **Predictability.** Under Mahi-Mahi it is the validators' threshold coin: unknown before the block's transactions are fixed,
/// unless more than a third of the validators collude. Under Autobahn it is a hash of the order, and a leader can try several.
/// `corniche dev` the only validator draws it alone, and `hardhat_setPrevRandao` sets it.
///
/// **Reverting draws.** A transaction sees the randomness of its own block. A caller can revert an unfavourable draw, by
/// calling from a contract, and try again in the next block. So place stakes in one transaction and draw in a later one that
/// any account may send. The winner has every reason to send it.
pub fn block_randomness() -> B256 {
    host::block_randomness()
}

#[cfg(not(target_arch = "wasm32"))]
pub use host::set_block_randomness;

#[cfg(target_arch = "wasm32")]
mod host {
    use alloy_primitives::B256;

    #[link(wasm_import_module = "corniche")]
    extern "C" {
        #[link_name = "block_randomness"]
        fn load(destination: *mut u8);
    }

    pub fn block_randomness() -> B256 {
        let mut randomness = B256::ZERO;
        // SAFETY: the call writes 32 bytes, and the buffer has 32.
        unsafe { load(randomness.as_mut_ptr()) };
        randomness
    }
}

/// The SDK's `TestVM` has no randomness, so tests set it.
#[cfg(not(target_arch = "wasm32"))]
mod host {
    use alloy_primitives::B256;
    use std::cell::Cell;

    thread_local! {
        static RANDOMNESS: Cell<B256> = const { Cell::new(B256::ZERO) };
    }

    pub fn block_randomness() -> B256 {
        RANDOMNESS.get()
    }

    /// For native tests: sets the result of [`block_randomness`](super::block_randomness) on this thread. The default is zero.
    pub fn set_block_randomness(randomness: B256) {
        RANDOMNESS.set(randomness);
    }
}
