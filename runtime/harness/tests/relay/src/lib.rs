//! Passes a call on, and fails at its end in every way there is: what tests of traces are about.
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
    /// It went through here.
    event Passed(uint256 left);

    /// There is nothing to give at the end of the way.
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
    /// Hands on to the first of the way; who is at its end fails: 0 by an error, 1 by a panic, 2 by a trap, more by that many KiB of stack.
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

/// Of an empty purse.
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

/// Takes a KiB of stack for each step, and looks on the way back whether that and the module's data are as they were.
#[inline(never)]
fn descend(steps: u8) -> bool {
    use core::hint::black_box;
    static DATA: [u8; 1024] = [7; 1024];
    let taken = black_box([steps; 1024]);
    let below = steps == 0 || descend(steps - 1);
    below && black_box(&taken).iter().all(|byte| *byte == steps) && black_box(&DATA).iter().all(|byte| *byte == 7)
}
