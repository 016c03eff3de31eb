//! Calls and storage as the Solidity ABI lays them out: what `stylus-sdk` contracts read.

use corniche_types::{Address, B256, Bytes, U256, keccak256};

/// One argument of a call.
pub enum Value<'a> {
    Word(U256),
    Words(&'a [U256]),
}

impl From<U256> for Value<'_> {
    fn from(word: U256) -> Self {
        Self::Word(word)
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Word(U256::from(number))
    }
}

impl From<bool> for Value<'_> {
    fn from(truth: bool) -> Self {
        Self::Word(U256::from(u8::from(truth)))
    }
}

impl From<Address> for Value<'_> {
    fn from(address: Address) -> Self {
        Self::Word(U256::from_be_slice(address.as_slice()))
    }
}

impl<'a> From<&'a [U256]> for Value<'a> {
    fn from(words: &'a [U256]) -> Self {
        Self::Words(words)
    }
}

/// The input of a call: the selector of `signature` and the arguments, which the caller makes fit it.
pub fn call(signature: &str, arguments: &[Value<'_>]) -> Bytes {
    [&keccak256(signature)[..4], &encode(arguments)].concat().into()
}

/// ABI encoding of static words and arrays of them.
pub fn encode(arguments: &[Value<'_>]) -> Vec<u8> {
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    for argument in arguments {
        match argument {
            Value::Word(word) => push(&mut head, *word),
            Value::Words(words) => {
                push(&mut head, U256::from(32 * arguments.len() + tail.len()));
                push(&mut tail, U256::from(words.len()));
                words.iter().for_each(|word| push(&mut tail, *word));
            }
        }
    }
    [head, tail].concat()
}

fn push(bytes: &mut Vec<u8>, word: U256) {
    bytes.extend(word.to_be_bytes::<32>());
}

/// Where the mapping that stands in slot `mapping` keeps the value of `key`.
pub fn slot_of(mapping: u64, key: U256) -> B256 {
    keccak256([key.to_be_bytes::<32>(), U256::from(mapping).to_be_bytes()].concat())
}

/// An address as a mapping's key.
pub fn address_key(address: &Address) -> U256 {
    U256::from_be_slice(address.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_dyn_abi::DynSolValue;
    use alloy_primitives::hex;

    #[test]
    fn calls_are_encoded_as_libraries_encode_them() {
        let words = [U256::from(7), U256::from(8)];
        let by_library = DynSolValue::Tuple(vec![
            DynSolValue::Bool(true),
            DynSolValue::Array(words.map(|word| DynSolValue::Uint(word, 256)).to_vec()),
            DynSolValue::Address(Address::repeat_byte(3)),
            DynSolValue::Array(vec![]),
        ]);
        let ours = encode(&[true.into(), words.as_slice().into(), Address::repeat_byte(3).into(), [].as_slice().into()]);
        assert_eq!(ours, by_library.abi_encode_params());
        let transfer = call("transfer(address,uint256)", &[Address::ZERO.into(), 1.into()]);
        assert_eq!(transfer[..4], hex!("a9059cbb"));
    }

    #[test]
    fn a_mapping_lies_where_solidity_puts_it() {
        let expected = keccak256(hex!(
            "000000000000000000000000000000000000000000000000000000000000000a"
            "0000000000000000000000000000000000000000000000000000000000000002"
        ));
        assert_eq!(slot_of(2, U256::from(10)), expected);
    }
}
