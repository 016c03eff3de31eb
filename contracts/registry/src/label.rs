//! Valid names. Each name has one spelling and no lookalikes: no capitals, no other alphabets, no hyphens at the ends or
//! adjacent. The last rule also excludes `xn--`, which some programs display in other alphabets.

use crate::{BadCharacter, BadHyphen, BadLength, RegistryError};
use alloc::string::String;
use alloy_primitives::{B256, U256};

const LEAST: usize = 3;
/// As many bytes as a word, so that a name is its own key.
const MOST: usize = 32;

/// A valid name: its characters, then zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(pub B256);

impl Label {
    pub fn of(name: &str) -> Result<Self, RegistryError> {
        // Checked first, so that later checks can count bytes as characters.
        let strange = |(_, one): &(usize, char)| !matches!(one, 'a'..='z' | '0'..='9' | '-');
        if let Some((at, one)) = name.char_indices().find(strange) {
            return Err(BadCharacter { position: U256::from(at), character: one.into(), codePoint: one.into() }.into());
        }
        let bytes = name.as_bytes();
        if !(LEAST..=MOST).contains(&bytes.len()) {
            let [length, least, most] = [bytes.len(), LEAST, MOST].map(U256::from);
            return Err(BadLength { length, least, most }.into());
        }
        let is_hyphen = |at: usize| bytes.get(at).is_none_or(|one| *one == b'-');
        let loose = |at: &usize| bytes[*at] == b'-' && (is_hyphen(at.wrapping_sub(1)) || is_hyphen(at + 1));
        match (0..bytes.len()).find(loose) {
            Some(at) => Err(BadHyphen { position: U256::from(at) }.into()),
            None => Ok(Self(B256::right_padding_from(bytes))),
        }
    }

    pub fn length(&self) -> usize {
        self.0.iter().position(|byte| *byte == 0).unwrap_or(MOST)
    }

    /// Converts back to the name.
    pub fn name(&self) -> String {
        String::from_utf8(self.0[..self.length()].into()).unwrap_or_default()
    }
}
