//! The module's entry point, instead of the one from `#[entrypoint]`. That one refuses every incoming call during outgoing calls,
//! and this contract needs two of them: its calls to itself, which change owners, and coins that a called contract
//! sends back. Copy this file to contracts with this requirement.

#[cfg(target_arch = "wasm32")]
#[no_mangle]
pub extern "C" fn user_entrypoint(length: usize) -> usize {
    use alloy_sol_types::SolError;
    use stylus_sdk::host::{WasmVM, VM};
    use stylus_sdk::prelude::*;

    let host = VM { host: WasmVM {} };
    host.pay_for_memory_grow(0); // A module must import this function, or its memory cannot grow.
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
