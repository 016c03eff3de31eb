//! What the data of a creation means: a pure function from bytes.
//!
//! Three shapes are taken, everything else is refused with a reason:
//!
//! | shape | stored code | constructor |
//! |---|---|---|
//! | `00 61 73 6d` … | the data | none |
//! | `ef f0 00`, a dictionary byte, brotli | the data | none |
//! | 43-byte prelude, `ef f0 00` …, the rest | as long as the prelude says | when the rest is not empty |
//!
//! The prelude is the little EVM program that deployment tools put in front (`PUSH32 length, DUP1, PUSH1 43, PUSH1 0, CODECOPY, PUSH1 0, RETURN, 00`).
//! It is matched byte by byte, never executed; since it holds the code's length, constructor arguments can follow, which is where
//! Ethereum's tools append them.
//!
//! The rest is either the ABI-encoded arguments alone (a multiple of 32 bytes) or the constructor's selector and the arguments. The second
//! form is how a constructor without arguments is asked for; the two cannot be confused, their lengths differ by four modulo 32.

use super::validate::MAX_MODULE_BYTES;
use alloy_primitives::{Bytes, hex};
use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

/// The first four bytes of keccak-256 of `stylus_constructor()`.
pub const CONSTRUCTOR_SELECTOR: [u8; 4] = hex!("5585258d");

/// Marks compressed code; the byte after it names the dictionary (00: none).
pub const EOF_PREFIX: [u8; 3] = hex!("eff000");

/// The prelude with a length of zero.
pub const PRELUDE: [u8; 43] = {
    let mut prelude = [0; 43];
    prelude[0] = 0x7f;
    let tail = hex!("80602b6000396000f300");
    let mut at = 0;
    while at < tail.len() {
        prelude[33 + at] = tail[at];
        at += 1;
    }
    prelude
};

const WASM_MAGIC: [u8; 4] = *b"\0asm";

/// A creation that can be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creation {
    /// The account's code, exactly as sent; its keccak-256 is the code hash.
    pub stored_code: Bytes,
    /// The module in it, not yet validated.
    pub wasm: Vec<u8>,
    /// Input of the call that runs the constructor in the same transaction: selector and arguments. `None`: nothing runs.
    pub constructor_input: Option<Bytes>,
}

/// Why creation data was refused. The texts reach the developer with the failed receipt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreationError {
    #[error("creation data is empty")]
    Empty,
    #[error(
        "creation data is EVM bytecode; this chain runs WebAssembly contracts (send the compiled wasm, compressed or raw, as described in the documentation)"
    )]
    EvmCode,
    #[error("creation data is not WebAssembly: it starts with {0}")]
    Unknown(String),
    #[error("code in several fragments (ef f0 01, ef f0 02) is not supported; up to {MAX_MODULE_BYTES} bytes fit into one")]
    Fragments,
    #[error("compressed code with dictionary {0} is not supported; use none (00)")]
    Dictionary(u8),
    #[error("the prelude announces {announced} bytes of code, only {present} follow")]
    Truncated { announced: usize, present: usize },
    #[error("constructor arguments have {0} bytes: neither ABI-encoded arguments nor the constructor's selector with them")]
    Arguments(usize),
    #[error("the compressed code is damaged")]
    Damaged,
    #[error("the code unpacks to more than {MAX_MODULE_BYTES} bytes")]
    TooLarge,
}

/// Reads creation data. Work and memory are bounded by the data's length and [`MAX_MODULE_BYTES`].
pub fn parse_creation(data: &[u8]) -> Result<Creation, CreationError> {
    let (code, rest) = match after_prelude(data) {
        Some((announced, following)) => {
            if announced > following.len() {
                return Err(CreationError::Truncated { announced, present: following.len() });
            }
            following.split_at(announced)
        }
        None => (data, &[][..]),
    };
    Ok(Creation { stored_code: Bytes::copy_from_slice(code), wasm: unpack(code)?, constructor_input: constructor_input(rest)? })
}

/// Compressed bytes in creation data, to be paid for before [`parse_creation`] unpacks them.
pub fn compressed_bytes(data: &[u8]) -> usize {
    let code = match after_prelude(data) {
        Some((announced, following)) => following.get(..announced).unwrap_or_default(),
        None => data,
    };
    if code.starts_with(&EOF_PREFIX) { code.len() } else { 0 }
}

/// The module in an account's code.
pub fn unpack(code: &[u8]) -> Result<Vec<u8>, CreationError> {
    if code.starts_with(&WASM_MAGIC) {
        if code.len() > MAX_MODULE_BYTES {
            return Err(CreationError::TooLarge);
        }
        return Ok(code.to_vec());
    }
    match code {
        [] => Err(CreationError::Empty),
        [0xef, 0xf0, 0x00, 0x00, compressed @ ..] => {
            let wasm = decompress(compressed)?;
            if wasm.starts_with(&WASM_MAGIC) { Ok(wasm) } else { Err(unknown(&wasm)) }
        }
        [0xef, 0xf0, 0x00, dictionary, ..] => Err(CreationError::Dictionary(*dictionary)),
        [0xef, 0xf0, 0x01 | 0x02, ..] => Err(CreationError::Fragments),
        _ if looks_like_evm(code) => Err(CreationError::EvmCode),
        _ => Err(unknown(code)),
    }
}

/// The announced length and what follows the prelude, when there is one.
fn after_prelude(data: &[u8]) -> Option<(usize, &[u8])> {
    let (head, following) = data.split_at_checked(PRELUDE.len())?;
    if head[0] != PRELUDE[0] || head[33..] != PRELUDE[33..] {
        return None;
    }
    // A length that does not fit is larger than any data.
    let length = if head[1..25].iter().all(|byte| *byte == 0) {
        u64::from_be_bytes(head[25..33].try_into().expect("eight bytes"))
    } else {
        u64::MAX
    };
    Some((usize::try_from(length).unwrap_or(usize::MAX), following))
}

fn constructor_input(rest: &[u8]) -> Result<Option<Bytes>, CreationError> {
    match rest.len() % 32 {
        _ if rest.is_empty() => Ok(None),
        0 => Ok(Some([&CONSTRUCTOR_SELECTOR, rest].concat().into())),
        4 if rest.starts_with(&CONSTRUCTOR_SELECTOR) => Ok(Some(Bytes::copy_from_slice(rest))),
        _ => Err(CreationError::Arguments(rest.len())),
    }
}

/// The first instruction of what Solidity, Vyper and hand-written deployers send: a push, or what minimal proxies begin with.
fn looks_like_evm(code: &[u8]) -> bool {
    matches!(code[0], 0x30..=0x3f | 0x5f..=0x7f | 0x80..=0x9f)
}

fn unknown(code: &[u8]) -> CreationError {
    CreationError::Unknown(hex::encode_prefixed(&code[..code.len().min(8)]))
}

/// Unpacks at most [`MAX_MODULE_BYTES`]; the stream must end exactly with the input. The window is allocated as the stream's header asks,
/// at most 16 MiB.
fn decompress(compressed: &[u8]) -> Result<Vec<u8>, CreationError> {
    let mut state = BrotliState::new(StandardAlloc::default(), StandardAlloc::default(), StandardAlloc::default());
    // One byte more than allowed, to see that there is more.
    let mut output = vec![0; MAX_MODULE_BYTES + 1];
    let (mut available_in, mut input_offset) = (compressed.len(), 0);
    let (mut available_out, mut output_offset, mut written) = (output.len(), 0, 0);
    let result = BrotliDecompressStream(
        &mut available_in,
        &mut input_offset,
        compressed,
        &mut available_out,
        &mut output_offset,
        &mut output,
        &mut written,
        &mut state,
    );
    match result {
        BrotliResult::ResultSuccess if output_offset > MAX_MODULE_BYTES => Err(CreationError::TooLarge),
        BrotliResult::ResultSuccess if input_offset == compressed.len() => {
            output.truncate(output_offset);
            Ok(output)
        }
        BrotliResult::NeedsMoreOutput => Err(CreationError::TooLarge),
        _ => Err(CreationError::Damaged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;

    /// Brotli stream that stores its content uncompressed: header bits for a 64 KiB window, one uncompressed meta-block, the empty last one.
    fn stored(content: &[u8]) -> Vec<u8> {
        assert!(!content.is_empty() && content.len() <= 1 << 16);
        // WBITS 16 (one zero bit), ISLAST 0, MNIBBLES 4 (00), MLEN-1 (16 bits), ISUNCOMPRESSED 1.
        let bits = ((content.len() as u32 - 1) << 4) | (1 << 20);
        let mut stream = bits.to_le_bytes()[..3].to_vec();
        stream.extend_from_slice(content);
        stream.push(0b11);
        stream
    }

    fn packed(content: &[u8]) -> Vec<u8> {
        [&EOF_PREFIX[..], &[0], &stored(content)].concat()
    }

    fn with_prelude(code: &[u8], rest: &[u8]) -> Vec<u8> {
        let mut prelude = PRELUDE;
        prelude[25..33].copy_from_slice(&(code.len() as u64).to_be_bytes());
        [&prelude[..], code, rest].concat()
    }

    const MODULE: &[u8] = b"\0asm\x01\0\0\0";

    #[test]
    fn the_constants_are_what_they_say() {
        assert_eq!(CONSTRUCTOR_SELECTOR, keccak256(corniche_abi::CONSTRUCTOR_SIGNATURE)[..4]);
        assert_eq!(PRELUDE[33..], hex!("80602b6000396000f300"));
    }

    #[test]
    fn all_three_shapes_are_read() {
        for code in [MODULE.to_vec(), packed(MODULE)] {
            let plain = parse_creation(&code).unwrap();
            assert_eq!((plain.wasm.as_slice(), plain.constructor_input.as_ref()), (MODULE, None));
            assert_eq!(plain.stored_code, code);
            let wrapped = parse_creation(&with_prelude(&code, &[])).unwrap();
            assert_eq!(wrapped, plain);
        }
    }

    #[test]
    fn constructor_arguments_follow_the_code() {
        let arguments = [7; 64];
        let creation = parse_creation(&with_prelude(&packed(MODULE), &arguments)).unwrap();
        assert_eq!(creation.stored_code, packed(MODULE));
        assert_eq!(creation.constructor_input.unwrap(), [&CONSTRUCTOR_SELECTOR[..], &arguments].concat());
        // The selector alone asks for a constructor without arguments; with arguments it is not doubled.
        for rest in [CONSTRUCTOR_SELECTOR.to_vec(), [&CONSTRUCTOR_SELECTOR[..], &arguments].concat()] {
            assert_eq!(parse_creation(&with_prelude(MODULE, &rest)).unwrap().constructor_input.unwrap(), rest);
        }
        assert_eq!(parse_creation(&with_prelude(MODULE, &[1; 5])), Err(CreationError::Arguments(5)));
        assert_eq!(parse_creation(&with_prelude(MODULE, &[1; 4])), Err(CreationError::Arguments(4)));
    }

    #[test]
    fn refusals_say_why() {
        assert_eq!(parse_creation(&[]), Err(CreationError::Empty));
        assert_eq!(parse_creation(&hex!("6080604052348015600e575f5ffd5b50")), Err(CreationError::EvmCode));
        assert_eq!(parse_creation(&hex!("3d602d80600a3d3981f3")), Err(CreationError::EvmCode));
        assert_eq!(parse_creation(b"\x01\x02\x03"), Err(CreationError::Unknown("0x010203".into())));
        assert_eq!(parse_creation(&hex!("eff00001ff")), Err(CreationError::Dictionary(1)));
        assert_eq!(parse_creation(&hex!("eff002")), Err(CreationError::Fragments));
        let mut data = with_prelude(MODULE, &[]);
        data.pop();
        assert_eq!(parse_creation(&data), Err(CreationError::Truncated { announced: 8, present: 7 }));
        let mut huge = PRELUDE;
        huge[1..33].fill(0xff);
        assert!(matches!(parse_creation(&huge), Err(CreationError::Truncated { present: 0, .. })));
        assert!(matches!(parse_creation(&packed(b"not wasm")), Err(CreationError::Unknown(_))));
        assert!(CreationError::EvmCode.to_string().contains("this chain runs WebAssembly"));
    }

    #[test]
    fn damaged_or_trailing_compressed_data_is_refused() {
        let whole = packed(MODULE);
        for end in 5..whole.len() {
            assert_eq!(unpack(&whole[..end]), Err(CreationError::Damaged), "cut at {end}");
        }
        assert_eq!(unpack(&[&whole[..], &[0]].concat()), Err(CreationError::Damaged));
    }

    #[test]
    fn a_small_stream_cannot_unpack_to_much() {
        // Nine uncompressed meta-blocks of 64 KiB: one over the limit. Real bombs compress better, but are stopped by the same buffer.
        let mut stream = Vec::new();
        let block = vec![0; 1 << 16];
        // Only the first meta-block carries the window bits, so build the bits by hand: 1 + 1 + 2 + 16 + 1 = 21 bits, then aligned.
        stream.extend_from_slice(&(((block.len() as u32 - 1) << 4) | (1 << 20)).to_le_bytes()[..3]);
        stream.extend_from_slice(&block);
        for _ in 0..8 {
            stream.extend_from_slice(&(((block.len() as u32 - 1) << 3) | (1 << 19)).to_le_bytes()[..3]);
            stream.extend_from_slice(&block);
        }
        stream.push(0b11);
        assert_eq!(unpack(&[&EOF_PREFIX[..], &[0], &stream].concat()), Err(CreationError::TooLarge));
    }

    #[test]
    fn garbage_never_panics() {
        let mut seed = 1u64;
        for length in 0..300 {
            let mut data: Vec<u8> = (0..length)
                .map(|_| {
                    seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (seed >> 56) as u8
                })
                .collect();
            let _ = parse_creation(&data);
            let code = [&EOF_PREFIX[..], &[0], &data].concat();
            let _ = parse_creation(&code);
            if let Some(first) = data.first_mut() {
                *first = 0;
            }
            let _ = parse_creation(&with_prelude(&code, &data));
        }
    }
}
