//! Names, symbols and decimals of tokens, as their untrusted contracts report them.

use crate::{
    format::clean,
    node::{Node, NodeError},
};
use alloy_primitives::{Address, Bytes, U256};

/// Maximum number of characters of a name and of a symbol.
const MAX_NAME: usize = 64;
const MAX_SYMBOL: usize = 24;

/// Maximum number of tokens of one request.
const AT_ONCE: usize = 16;

/// A token's metadata, truncated. Fields are empty if the contract returns nothing valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenMetadata {
    /// `name()`.
    pub name: String,
    /// `symbol()`.
    pub symbol: String,
    /// `decimals()`; 0 if the call fails or exceeds 77.
    pub decimals: u64,
}

/// Selectors of `name()`, `symbol()` and `decimals()`.
const METADATA_CALLS: [[u8; 4]; 3] = [[0x06, 0xfd, 0xde, 0x03], [0x95, 0xd8, 0x9b, 0x41], [0x31, 0x3c, 0xe5, 0x67]];

/// Calls tokens for their metadata.
pub async fn names(node: &Node, tokens: &[Address]) -> Result<Vec<TokenMetadata>, NodeError> {
    let mut names = Vec::with_capacity(tokens.len());
    for tokens in tokens.chunks(AT_ONCE) {
        let calls = tokens.iter().flat_map(|token| METADATA_CALLS.map(|selector| (*token, Bytes::from(selector))));
        let responses = node.calls(calls.collect()).await?;
        for responses in responses.chunks(METADATA_CALLS.len()) {
            let response = |at: usize| responses.get(at).and_then(Option::as_ref).map_or(&[][..], |response| response);
            let name = text(response(0), MAX_NAME);
            names.push(TokenMetadata { name, symbol: text(response(1), MAX_SYMBOL), decimals: decimals(response(2)) });
        }
    }
    Ok(names)
}

/// Decodes a `string`, or a `bytes32` as old contracts return. Removes characters that [`clean`] removes.
fn text(response: &[u8], most: usize) -> String {
    let word = |at: usize| response.get(at..at + 32).map(U256::from_be_slice);
    let string = || -> Option<&[u8]> {
        let offset: usize = word(0)?.try_into().ok().filter(|offset| *offset < response.len())?;
        let length: usize = word(offset)?.try_into().ok().filter(|length| *length <= response.len())?;
        response.get(offset + 32..offset + 32 + length)
    };
    let bytes = match response.len() {
        32 => response.split(|byte| *byte == 0).next().unwrap_or_default(),
        _ => string().unwrap_or_default(),
    };
    // Enough bytes for `most` characters. A character that is cut in two yields only one replacement character.
    let bytes = &bytes[..bytes.len().min(4 * most)];
    clean(&String::from_utf8_lossy(bytes)).chars().take(most).collect()
}

fn decimals(response: &[u8]) -> u64 {
    let number = response.get(..32).map(U256::from_be_slice).unwrap_or_default();
    number.try_into().ok().filter(|decimals| *decimals <= 77).unwrap_or(0)
}

/// Returns the search key of a name: lower case, so that the search ignores case.
pub fn key(name: &str) -> Vec<u8> {
    name.to_lowercase().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &[u8]) -> Vec<u8> {
        let mut response = [U256::from(32), U256::from(text.len())].map(|word| word.to_be_bytes::<32>()).concat();
        response.extend_from_slice(text);
        response.resize(response.len().next_multiple_of(32), 0);
        response
    }

    #[test]
    fn string_and_bytes32_names_are_decoded() {
        assert_eq!(text(&string("Gold".as_bytes()), 64), "Gold");
        let mut old = [0; 32];
        old[..3].copy_from_slice(b"GLD");
        assert_eq!(text(&old, 64), "GLD");
    }

    #[test]
    fn untrusted_metadata_is_sanitized() {
        assert_eq!(text(&string(&vec![b'x'; 1 << 20]), 24), "x".repeat(24));
        assert_eq!(text(&string("a\u{202e}b\u{0}c\nd".as_bytes()), 64), "abcd");
        assert_eq!(text(&string(&[b'a', 0xff, 0xfe]), 64), "a\u{fffd}\u{fffd}");
        assert_eq!(text(&[0xff; 64], 64), "");
        assert_eq!(text(&[0xff; 63], 64), "");
        assert_eq!(text(&[], 64), "");
        assert_eq!(decimals(&[0xff; 32]), 0);
        assert_eq!(decimals(&U256::from(18).to_be_bytes::<32>()), 18);
    }
}
