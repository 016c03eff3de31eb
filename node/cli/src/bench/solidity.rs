//! Calls and storage as the Solidity ABI lays them out: what `stylus-sdk` contracts read.

use alloy_dyn_abi::DynSolValue;
use corniche_types::{Address, B256, Bytes, U256, keccak256};

/// One argument of a call; a vector of them is an array.
pub type Value = DynSolValue;

/// The input of a call: the selector of `signature` and the arguments, which the caller makes fit it.
pub fn call(signature: &str, arguments: &[Value]) -> Bytes {
    [&keccak256(signature)[..4], &encode(arguments)].concat().into()
}

/// The arguments as they stand behind a selector, or by themselves for a constructor.
pub fn encode(arguments: &[Value]) -> Vec<u8> {
    Value::Tuple(arguments.to_vec()).abi_encode_params()
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
    use alloy_primitives::hex;

    #[test]
    fn calls_have_their_selector_and_arrays_their_place() {
        let transfer = call("transfer(address,uint256)", &[Address::ZERO.into(), 1u64.into()]);
        assert_eq!((&transfer[..4], transfer.len()), (&hex!("a9059cbb")[..], 4 + 64));
        let words = [3, 7, 64, 1, 9].map(|word| U256::from(word).to_be_bytes::<32>());
        assert_eq!(encode(&[3u64.into(), 7u64.into()]), words[..2].concat());
        // The place of the array, from where the arguments begin; its length; what is in it.
        let [_, second, place, length, only] = words;
        assert_eq!(encode(&[Value::Array(vec![9u64.into()]), 7u64.into()]), [place, second, length, only].concat());
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
