//! The module's entry point, in place of the one `#[entrypoint]` makes. That one refuses every call that arrives while the contract is
//! calling somebody, and this contract needs two of them: its own, by which its owners change, and coins that a contract it calls
//! sends back. Copy this file to a contract with the same needs.

#[cfg(target_arch = "wasm32")]
#[no_mangle]
pub extern "C" fn user_entrypoint(length: usize) -> usize {
    use alloy_sol_types::SolError;
    use stylus_sdk::host::{WasmVM, VM};
    use stylus_sdk::prelude::*;

    let host = VM { host: WasmVM {} };
    host.pay_for_memory_grow(0); // A module that never names this call could not grow its memory.
    let input = host.read_args(length);
    let welcome = !host.msg_reentrant() || input.is_empty() || host.msg_sender() == host.contract_address();
    let answer = if welcome {
        stylus_sdk::abi::router_entrypoint::<crate::Multisig, crate::Multisig>(input, host.clone())
    } else {
        Err(crate::Busy {}.abi_encode())
    };
    let (data, status) = match answer {
        Ok(data) => (data, 0),
        Err(data) => (data, 1),
    };
    host.flush_cache(false);
    host.write_result(&data);
    status
}
