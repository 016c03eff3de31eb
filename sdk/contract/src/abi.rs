//! The interface in the module.

/// Puts `abi.json`, which lies beside the contract's `Cargo.toml`, into the module: the custom section `corniche.abi`. Once, anywhere in
/// the contract's crate:
///
/// ```ignore
/// corniche_contract::abi!();
/// ```
///
/// The file is the bare JSON array that Solidity's compiler and `cargo stylus export-abi --json` write. It is stored as it is, so
/// whitespace in it is paid for, if hardly: code is stored compressed. `strip = true` and LTO leave the section alone; tools that
/// drop custom sections take it away, `cargo stylus deploy` among them.
#[macro_export]
macro_rules! abi {
    () => {
        $crate::abi!("abi.json");
    };
    ($file:literal) => {
        const _: () = {
            const INTERFACE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $file));
            assert!(matches!(INTERFACE, [b'[', ..]), "the interface has to be the bare array of the JSON ABI");
            #[cfg(target_arch = "wasm32")]
            #[unsafe(link_section = "corniche.abi")]
            static SECTION: [u8; INTERFACE.len()] = *include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $file));
            $crate::tell_panics!();
        };
    };
}

/// In debug builds: what runs at the beginning of every call, as the linker has it.
#[cfg(all(feature = "debug", target_arch = "wasm32"))]
#[doc(hidden)]
#[macro_export]
macro_rules! tell_panics {
    () => {
        #[used]
        #[unsafe(link_section = ".init_array")]
        static TELL_PANICS: extern "C" fn() = $crate::panic::tell;
    };
}

#[cfg(not(all(feature = "debug", target_arch = "wasm32")))]
#[doc(hidden)]
#[macro_export]
macro_rules! tell_panics {
    () => {};
}
