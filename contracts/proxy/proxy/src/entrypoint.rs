//! The module's entry point, instead of the one from `#[entrypoint]`. That one refuses every incoming call during outgoing
//! calls. Here the implementation decides, whose entry point sees the call too and may accept some.

#[cfg(target_arch = "wasm32")]
#[no_mangle]
pub extern "C" fn user_entrypoint(length: usize) -> usize {
    use stylus_sdk::host::{WasmVM, VM};
    use stylus_sdk::prelude::*;

    let host = VM { host: WasmVM {} };
    host.pay_for_memory_grow(0); // A module must import this function, or its memory cannot grow.
    let input = host.read_args(length);
    let (data, status) = match stylus_sdk::abi::router_entrypoint::<crate::Proxy, crate::Proxy>(input, host.clone()) {
        Ok(data) => (data, 0),
        Err(data) => (data, 1),
    };
    host.flush_cache(false);
    host.write_result(&data);
    status
}
