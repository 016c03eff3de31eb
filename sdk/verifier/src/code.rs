//! The WebAssembly module and the ABI in a contract's code.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use corniche_abi::interface;
use std::borrow::Cow;

/// Most bytes of a decompressed module: four times the current limit of the chain.
const MAX_MODULE_BYTES: usize = 2 << 20;

/// Returns the module in an account's code: the code itself, or the brotli-compressed module after `ef f0 00 00`. Does
/// not check whether it is valid WebAssembly.
pub fn module(code: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    match code {
        [0xef, 0xf0, 0x00, 0x00, compressed @ ..] => unpack(compressed).map(Cow::Owned),
        _ => Ok(Cow::Borrowed(code)),
    }
}

/// Returns the ABI in a module's custom section; `None` if it has none.
pub fn interface(code: &[u8]) -> Result<Option<String>, String> {
    let text = interface::embedded(&module(code)?).map(<[u8]>::to_vec);
    text.map(String::from_utf8).transpose().map_err(|_| "code: its interface is not UTF-8".into())
}

fn unpack(compressed: &[u8]) -> Result<Vec<u8>, String> {
    let mut state = BrotliState::new(StandardAlloc::default(), StandardAlloc::default(), StandardAlloc::default());
    let mut module = vec![0; MAX_MODULE_BYTES];
    let (mut available_in, mut input_offset) = (compressed.len(), 0);
    let (mut available_out, mut output_offset, mut written) = (module.len(), 0, 0);
    let result = BrotliDecompressStream(
        &mut available_in,
        &mut input_offset,
        compressed,
        &mut available_out,
        &mut output_offset,
        &mut module,
        &mut written,
        &mut state,
    );
    match result {
        BrotliResult::ResultSuccess => {
            module.truncate(output_offset);
            Ok(module)
        }
        BrotliResult::NeedsMoreOutput => Err(format!("code: it unpacks to more than {MAX_MODULE_BYTES} bytes")),
        _ => Err("code: it is damaged".into()),
    }
}
