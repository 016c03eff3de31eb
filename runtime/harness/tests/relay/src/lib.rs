//! Forwards a call along a path of contracts; the last one fails in a chosen way. Used by tests of traces.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::vec::Vec;
use alloy_primitives::{Address, U256};
use alloy_sol_types::{sol, SolCall};
use stylus_sdk::call::RawCall;
use stylus_sdk::console;
use stylus_sdk::prelude::*;

corniche_contract::abi!();

sol! {
    /// The call passed through this contract.
    event Passed(uint256 left);

    /// The balance is too small.
    error NothingLeft(uint256 have, uint256 need);

    function pass(address[] way, uint8 how) external;
}

sol_storage! {
    #[entrypoint]
    pub struct Relay {
        uint256 have;
    }
}

#[public]
impl Relay {
    /// Calls the first of `way`. The last contract fails by `how`: 0 error, 1 panic, 2 trap, more: KiB of stack to use.
    pub fn pass(&mut self, way: Vec<Address>, how: u8) -> Result<(), Vec<u8>> {
        console!("{} to go", way.len());
        let Some((next, rest)) = way.split_first() else { return self.fail(how) };
        self.vm().log(Passed { left: U256::from(rest.len()) });
        let call = passCall { way: rest.to_vec(), how }.abi_encode();
        // SAFETY: nothing of the storage was read before, and nothing is read afterwards.
        unsafe { RawCall::new(self.vm()).call(*next, &call) }.map(|_| ())
    }
}

impl Relay {
    fn fail(&self, how: u8) -> Result<(), Vec<u8>> {
        use alloy_sol_types::SolError;
        let have = self.have.get();
        match how {
            0 => Err(NothingLeft { have, need: U256::from(7) }.abi_encode()),
            1 => Err(alloc::vec![1; spend(have)]),
            2 => stop(),
            steps if descend(steps) => Ok(()),
            _ => Err(b"written over".to_vec()),
        }
    }
}

/// Panics, because the balance is 0.
#[inline(never)]
fn spend(have: U256) -> usize {
    have.to::<usize>().checked_sub(7).expect("the purse holds 7")
}

#[inline(never)]
fn stop() -> ! {
    #[cfg(target_arch = "wasm32")]
    core::arch::wasm32::unreachable();
    #[cfg(not(target_arch = "wasm32"))]
    unreachable!()
}

/// Uses 1 KiB of stack per step; checks on return that this and the module's data are unchanged.
#[inline(never)]
fn descend(steps: u8) -> bool {
    use core::hint::black_box;
    static DATA: [u8; 1024] = [7; 1024];
    let taken = black_box([steps; 1024]);
    let below = steps == 0 || descend(steps - 1);
    below && black_box(&taken).iter().all(|byte| *byte == steps) && black_box(&DATA).iter().all(|byte| *byte == 7)
}
