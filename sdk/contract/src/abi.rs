//! The ABI in the module.

/// Embeds `abi.json`, from the folder of the contract's `Cargo.toml`, in the module as the custom section `corniche.abi`. Use it
/// once, anywhere in the contract's crate:
///
/// ```ignore
/// corniche_contract::abi!();
/// ```
///
/// The file is the bare JSON array that Solidity's compiler and `cargo stylus export-abi --json` write. It is stored unchanged,
/// so whitespace costs a little gas; code is stored compressed. `strip = true` and LTO keep the section. Tools that
/// drop custom sections remove it, for instance `cargo stylus deploy`.
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

/// In debug builds: runs at the beginning of every call, in the form that the linker requires.
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
