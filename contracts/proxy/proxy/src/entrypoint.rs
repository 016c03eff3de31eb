//! The module's entry point, in place of the one `#[entrypoint]` makes. That one refuses every call that arrives while the contract is calling
//! somebody. Whether such calls are welcome is for the implementation to say, whose entry point sees them as well: it may be one that lets some in.

#[cfg(target_arch = "wasm32")]
#[no_mangle]
pub extern "C" fn user_entrypoint(length: usize) -> usize {
    use stylus_sdk::host::{WasmVM, VM};
    use stylus_sdk::prelude::*;

    let host = VM { host: WasmVM {} };
    host.pay_for_memory_grow(0); // A module that never names this call could not grow its memory.
    let input = host.read_args(length);
    let (data, status) = match stylus_sdk::abi::router_entrypoint::<crate::Proxy, crate::Proxy>(input, host.clone()) {
        Ok(data) => (data, 0),
        Err(data) => (data, 1),
    };
    host.flush_cache(false);
    host.write_result(&data);
    status
}
