//! Decodes creation data: a pure function of the bytes.
//!
//! Three forms are accepted, everything else is refused with a reason:
//!
//! | form | stored code | constructor |
//! |---|---|---|
//! | `00 61 73 6d` … | the data | none |
//! | `ef f0 00`, a dictionary byte, brotli | the data | none |
//! | 43-byte prelude, `ef f0 00` …, the rest | as long as the prelude specifies | if the rest is not empty |
//!
//! The prelude is the short EVM program that deployment tools prepend (`PUSH32 length, DUP1, PUSH1 43, PUSH1 0,
//! CODECOPY, PUSH1 0, RETURN, 00`). It is matched byte by byte and never executed. It contains the code's length, so
//! constructor arguments can follow, where Ethereum's tools append them.
//!
//! The rest is either only the ABI-encoded arguments (a multiple of 32 bytes) or the constructor's selector and the
//! arguments. The second form permits a constructor without arguments. The forms cannot be confused, because their
//! lengths differ by four modulo 32.

use super::validate::MAX_MODULE_BYTES;
use alloy_primitives::{Bytes, hex};
use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

type Decoder = BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>;

/// First four bytes of keccak-256 of `stylus_constructor()`.
pub const CONSTRUCTOR_SELECTOR: [u8; 4] = hex!("5585258d");

/// Prefix of compressed code; the next byte is the dictionary (00: none).
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

/// Decoded creation data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creation {
    /// The account's code, exactly as sent; its keccak-256 is the code hash.
    pub stored_code: Bytes,
    /// The module, uncompressed and not yet validated.
    pub wasm: Vec<u8>,
    /// Input of the constructor's call in the same transaction: selector and arguments. `None`: no constructor runs.
    pub constructor_input: Option<Bytes>,
}

/// Why creation data was refused. The developer sees the text in the failed receipt.
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

/// Decodes creation data. Work and memory are bounded by the data's length and [`MAX_MODULE_BYTES`].
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

/// Returns the number of compressed bytes in creation data, which are charged before [`parse_creation`] unpacks them.
pub fn compressed_bytes(data: &[u8]) -> usize {
    let code = match after_prelude(data) {
        Some((announced, following)) => following.get(..announced).unwrap_or_default(),
        None => data,
    };
    if code.starts_with(&EOF_PREFIX) { code.len() } else { 0 }
}

/// Returns the module in an account's code.
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

/// Returns the length in the prelude and the data after it, if there is a prelude.
fn after_prelude(data: &[u8]) -> Option<(usize, &[u8])> {
    let (head, following) = data.split_at_checked(PRELUDE.len())?;
    if head[0] != PRELUDE[0] || head[33..] != PRELUDE[33..] {
        return None;
    }
    // A length that does not fit into `usize` exceeds all data.
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

/// Returns whether the code starts like EVM code of Solidity, Vyper, hand-written deployers or minimal proxies.
fn looks_like_evm(code: &[u8]) -> bool {
    matches!(code[0], 0x30..=0x3f | 0x5f..=0x7f | 0x80..=0x9f)
}

fn unknown(code: &[u8]) -> CreationError {
    CreationError::Unknown(hex::encode_prefixed(&code[..code.len().min(8)]))
}

/// Bytes per call of the decoder. A block's length and its first byte of output are at least 49 bits apart. So the
/// decoder asks for more input in between, and the length can be checked.
const STEP: usize = 4;

/// Unpacks at most [`MAX_MODULE_BYTES`]; the stream must end exactly with the input. Stops at the length of a block
/// that would exceed the limit, because the decoder fills its whole window of up to 16 MiB before it returns any
/// output.
fn decompress(compressed: &[u8]) -> Result<Vec<u8>, CreationError> {
    decompress_by(&mut Decoder::new(StandardAlloc::default(), StandardAlloc::default(), StandardAlloc::default()), compressed)
}

fn decompress_by(state: &mut Decoder, compressed: &[u8]) -> Result<Vec<u8>, CreationError> {
    // One byte more than allowed, to detect excess.
    let mut output = vec![0; MAX_MODULE_BYTES + 1];
    let (mut input_offset, mut written) = (0, 0);
    let (mut available_out, mut output_offset) = (output.len(), 0);
    for step in compressed.chunks(STEP) {
        let start = input_offset;
        let (mut available_in, mut step_offset) = (step.len(), 0);
        let result = BrotliDecompressStream(
            &mut available_in,
            &mut step_offset,
            step,
            &mut available_out,
            &mut output_offset,
            &mut output,
            &mut written,
            state,
        );
        input_offset = start + step_offset;
        match result {
            BrotliResult::NeedsMoreInput if announced(state) > (MAX_MODULE_BYTES - output_offset.min(MAX_MODULE_BYTES)) => {
                return Err(CreationError::TooLarge);
            }
            BrotliResult::NeedsMoreInput => {}
            BrotliResult::ResultSuccess if output_offset > MAX_MODULE_BYTES => return Err(CreationError::TooLarge),
            BrotliResult::ResultSuccess if input_offset == compressed.len() => {
                output.truncate(output_offset);
                return Ok(output);
            }
            BrotliResult::NeedsMoreOutput => return Err(CreationError::TooLarge),
            _ => return Err(CreationError::Damaged),
        }
    }
    Err(CreationError::Damaged)
}

/// Minimum number of bytes that the open block still unpacks; 0 for metadata, which is skipped.
fn announced(state: &Decoder) -> usize {
    if state.is_metadata == 0 { usize::try_from(state.meta_block_remaining_len).unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::keccak256;
    use rand_xoshiro::{
        SplitMix64,
        rand_core::{Rng, SeedableRng},
    };

    /// Returns a brotli stream with uncompressed content: header bits for a 64 KiB window, one uncompressed meta-block,
    /// the empty last one.
    fn stored(content: &[u8]) -> Vec<u8> {
        assert!(!content.is_empty() && content.len() <= 1 << 16);
        // WBITS 16 (one zero bit), ISLAST 0, MNIBBLES 4 (00), MLEN-1 (16 bits), ISUNCOMPRESSED 1.
        let bits = ((content.len() as u32 - 1) << 4) | (1 << 20);
        let mut stream = bits.to_le_bytes()[..3].to_vec();
        stream.extend_from_slice(content);
        stream.push(0b11);
        stream
    }

    fn decoder() -> Decoder {
        Decoder::new(StandardAlloc::default(), StandardAlloc::default(), StandardAlloc::default())
    }

    /// Decodes a stream in one call.
    fn at_once(compressed: &[u8]) -> Option<Vec<u8>> {
        let mut output = vec![0; MAX_MODULE_BYTES + 1];
        let (mut in_left, mut in_at, mut out_left, mut out_at, mut written) = (compressed.len(), 0, output.len(), 0, 0);
        let result = BrotliDecompressStream(
            &mut in_left,
            &mut in_at,
            compressed,
            &mut out_left,
            &mut out_at,
            &mut output,
            &mut written,
            &mut decoder(),
        );
        output.truncate(out_at);
        (matches!(result, BrotliResult::ResultSuccess) && in_at == compressed.len() && out_at <= MAX_MODULE_BYTES)
            .then_some(output)
    }

    fn compressed(content: &[u8], quality: u32, window: u32) -> Vec<u8> {
        let mut stream = Vec::new();
        let mut writer = brotli::CompressorWriter::new(&mut stream, 4_096, quality, window);
        std::io::Write::write_all(&mut writer, content).unwrap();
        drop(writer);
        stream
    }

    /// Returns partly repetitive text.
    fn content(seed: u64, length: usize) -> Vec<u8> {
        let mut random = SplitMix64::seed_from_u64(seed);
        let mut next = move || random.next_u32() as usize;
        let mut bytes: Vec<u8> = Vec::new();
        while bytes.len() < length {
            if bytes.len() > 40 && next() % 3 == 0 {
                let from = next() % (bytes.len() - 30);
                bytes.extend_from_within(from..from + 1 + next() % 30);
            } else {
                bytes.push(next() as u8 % 61);
            }
        }
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn stepwise_unpacking_matches_one_shot() {
        let mut accepted = 0;
        for seed in 0..400u64 {
            let length = [1, 30, 3_000, 60_000, MAX_MODULE_BYTES, MAX_MODULE_BYTES + 1][seed as usize % 6];
            let mut stream = compressed(&content(seed, length), (seed % 10) as u32, 16 + (seed % 9) as u32);
            match seed % 4 {
                0 => stream.push(0),
                1 => {
                    let at = (seed as usize * 7_919) % stream.len();
                    stream[at] ^= 1 << (seed % 8);
                }
                _ => {}
            }
            let expected = at_once(&stream);
            accepted += u32::from(expected.is_some());
            assert!(decompress(&stream).ok() == expected, "seed {seed}");
        }
        assert!(accepted > 100, "{accepted}");
        assert_eq!(decompress(&[]), Err(CreationError::Damaged));
    }

    /// Otherwise a few bytes would make the decoder write a whole window.
    #[test]
    fn oversized_block_is_rejected_before_unpacking() {
        let zeros = vec![0; 20 << 20];
        for window in [16, 18, 22, 24] {
            let stream = compressed(&zeros, 9, window);
            let mut state = decoder();
            assert_eq!(decompress_by(&mut state, &stream), Err(CreationError::TooLarge), "window {window}");
            assert!(state.pos as usize <= MAX_MODULE_BYTES, "window {window}: {} bytes were unpacked", state.pos);
        }
        // Valid content before it makes no difference.
        let some = [content(1, 100_000), zeros].concat();
        let mut state = decoder();
        assert_eq!(decompress_by(&mut state, &compressed(&some, 5, 24)), Err(CreationError::TooLarge));
        assert!(state.pos as usize <= MAX_MODULE_BYTES, "{} bytes were unpacked", state.pos);
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
    fn constants_match_definitions() {
        assert_eq!(CONSTRUCTOR_SELECTOR, keccak256(corniche_abi::CONSTRUCTOR_SIGNATURE)[..4]);
        assert_eq!(PRELUDE[33..], hex!("80602b6000396000f300"));
    }

    #[test]
    fn all_three_formats_parse() {
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
        // The selector alone runs a constructor without arguments; a given selector is not prepended again.
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
    fn rejects_damaged_or_trailing_data() {
        let whole = packed(MODULE);
        for end in 5..whole.len() {
            assert_eq!(unpack(&whole[..end]), Err(CreationError::Damaged), "cut at {end}");
        }
        assert_eq!(unpack(&[&whole[..], &[0]].concat()), Err(CreationError::Damaged));
    }

    #[test]
    fn unpacked_size_is_limited() {
        // Nine uncompressed meta-blocks of 64 KiB: one above the limit. Real bombs compress better, but the same buffer
        // stops them.
        let mut stream = Vec::new();
        let block = vec![0; 1 << 16];
        // Only the first meta-block contains the window bits. Build the bits by hand: 1 + 1 + 2 + 16 + 1 = 21 bits,
        // then aligned.
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
        let mut random = SplitMix64::seed_from_u64(1);
        for length in 0..300 {
            let mut data = vec![0; length];
            random.fill_bytes(&mut data);
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
