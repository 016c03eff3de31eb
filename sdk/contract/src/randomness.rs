//! What nobody knew before the block was ordered.

use alloy_primitives::B256;

/// The randomness of the block this runs in, the same for all of its transactions: the header's `mixHash`, Solidity's
/// `block.prevrandao`. Hash it with something of your own (`keccak256` with an id, say) to draw more than one number.
///
/// **Who may know it.** Under Mahi-Mahi it is the validators' threshold coin: nobody knows it before the block's transactions are fixed, short
/// of more than a third of them working together. Under Autobahn it is a hash of what was ordered, and a leader can try several orders. In
/// `corniche dev` the only validator draws it alone, and `hardhat_setPrevRandao` sets it.
///
/// **Who may wait for it.** A transaction sees the randomness of its own block. A caller who dislikes what was drawn can revert, by
/// calling from a contract of theirs, and try again in the next block. So stakes are placed in one transaction and drawn in a later one, which
/// anyone may send: whoever would win has every reason to.
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
        // SAFETY: the call writes 32 bytes, and there are 32.
        unsafe { load(randomness.as_mut_ptr()) };
        randomness
    }
}

/// The SDK's `TestVM` has no randomness, so a test says it.
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

    /// For native tests: what [`block_randomness`](super::block_randomness) answers on this thread from now on; zero until then.
    pub fn set_block_randomness(randomness: B256) {
        RANDOMNESS.set(randomness);
    }
}
