//! Creation data: the input of a transaction that deploys a WebAssembly contract.
//!
//! | form | bytes |
//! |---|---|
//! | raw | the module as `cargo build` left it |
//! | compressed | `EF F0 00`, dictionary byte `00`, brotli of the module |
//! | with arguments | a 43-byte prelude with the length of the compressed form, the compressed form, ABI-encoded arguments |
//!
//! The prelude is the EVM init code that other tools write for such contracts: it returns the next n bytes. Here it is
//! matched as a pattern and never executed. Its length field makes arguments possible.

use corniche_types::MAX_TRANSACTION_BYTES;
use std::io::Write;

/// `EF F0 00`, then dictionary byte 0: no dictionary.
const COMPRESSED: [u8; 4] = [0xef, 0xf0, 0x00, 0x00];

/// Error: the creation data does not fit into a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("creation data: expected less than {limit} bytes, got {bytes}; try `opt-level = \"z\"`, LTO and wasm-opt")]
pub struct TooLarge {
    pub bytes: usize,
    pub limit: usize,
}

/// Returns the compressed form.
pub fn compressed(wasm: &[u8]) -> Result<Vec<u8>, TooLarge> {
    let mut out = COMPRESSED.to_vec();
    // Buffer size, quality and window: best compression, as it runs once per deployment.
    let mut writer = brotli::CompressorWriter::new(&mut out, 4096, 11, 22);
    writer.write_all(wasm).and_then(|()| writer.flush()).expect("writing into memory cannot fail");
    drop(writer);
    fits(out)
}

/// Returns the form that runs the constructor with these ABI-encoded arguments.
pub fn with_arguments(wasm: &[u8], arguments: &[u8]) -> Result<Vec<u8>, TooLarge> {
    let code = compressed(wasm)?;
    fits([prelude(code.len()).as_slice(), &code, arguments].concat())
}

/// PUSH32 length, DUP1, PUSH1 43, PUSH1 0, CODECOPY, PUSH1 0, RETURN, STOP.
fn prelude(length: usize) -> [u8; 43] {
    let mut prelude = [0; 43];
    prelude[0] = 0x7f;
    prelude[25..33].copy_from_slice(&(length as u64).to_be_bytes());
    prelude[33..].copy_from_slice(&[0x80, 0x60, 0x2b, 0x60, 0x00, 0x39, 0x60, 0x00, 0xf3, 0x00]);
    prelude
}

fn fits(data: Vec<u8>) -> Result<Vec<u8>, TooLarge> {
    let (bytes, limit) = (data.len(), MAX_TRANSACTION_BYTES);
    if bytes < limit { Ok(data) } else { Err(TooLarge { bytes, limit }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U256;
    use std::io::Read;

    fn unpack(compressed: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        brotli::Decompressor::new(compressed, 4096).read_to_end(&mut out).unwrap();
        out
    }

    #[test]
    fn compressed_code_unpacks_to_module() {
        let wasm = [b"\0asm\x01\0\0\0".as_slice(), &[7; 10_000]].concat();
        let form = compressed(&wasm).unwrap();
        assert_eq!(form[..4], [0xef, 0xf0, 0x00, 0x00]);
        assert!(form.len() < 200, "{} bytes", form.len());
        assert_eq!(unpack(&form[4..]), wasm);
    }

    #[test]
    fn prelude_contains_length() {
        let wasm = b"\0asm\x01\0\0\0";
        let data = with_arguments(wasm, &[0xaa; 32]).unwrap();
        assert_eq!(data[0], 0x7f);
        let length = U256::from_be_slice(&data[1..33]).to::<usize>();
        assert_eq!(data.len(), 43 + length + 32);
        assert_eq!(unpack(&data[43 + 4..43 + length]), wasm);
        assert_eq!(data[43 + length..], [0xaa; 32]);
    }

    #[test]
    fn oversized_creation_data_is_rejected() {
        let mut state = 1u32;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        let wasm: Vec<u8> = noise.take(140_000).collect();
        assert!(compressed(&wasm).unwrap_err().to_string().contains("bytes"));
    }
}
