//! Decoding of revert data.

use alloy_dyn_abi::{DynSolType, DynSolValue, JsonAbiExt};
use alloy_json_abi::{Error, JsonAbi};

/// Decoded revert data.
#[derive(Clone, Debug, PartialEq)]
pub enum Revert<'a> {
    /// `Error(string)`
    Text(String),
    /// `Panic(uint256)`
    Panic(DynSolValue),
    /// An error of an ABI, with its arguments.
    Custom(&'a Error, Vec<DynSolValue>),
}

impl<'a> Revert<'a> {
    /// Returns `None` if the data has none of these forms. The first interface with a matching error is used.
    pub fn decode(data: &[u8], interfaces: impl IntoIterator<Item = &'a JsonAbi>) -> Option<Self> {
        let (selector, body) = data.split_first_chunk::<4>()?;
        let one = |kind: DynSolType| kind.abi_decode(body).ok();
        let standard = match selector {
            [0x08, 0xc3, 0x79, 0xa0] => one(DynSolType::String).and_then(|text| Some(Self::Text(text.as_str()?.into()))),
            [0x4e, 0x48, 0x7b, 0x71] => one(DynSolType::Uint(256)).map(Self::Panic),
            _ => None,
        };
        standard.or_else(|| {
            let mut errors = interfaces.into_iter().flat_map(|abi| abi.errors()).filter(|error| error.selector() == *selector);
            errors.find_map(|error| Some(Self::Custom(error, error.abi_decode_input(body).ok()?)))
        })
    }
}
