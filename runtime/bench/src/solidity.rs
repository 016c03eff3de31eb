//! Calls and storage in the layout of the Solidity ABI, which `stylus-sdk` contracts use.

use alloy_dyn_abi::DynSolValue;
use corniche_types::{Address, B256, Bytes, U256, keccak256};

/// Argument of a call; a vector of them is an array.
pub type Value = DynSolValue;

/// Input of a call: selector of `signature` and arguments, which must match it.
pub fn call(signature: &str, arguments: &[Value]) -> Bytes {
    [&keccak256(signature)[..4], &encode(arguments)].concat().into()
}

/// Encoded arguments, as they follow a selector or stand alone for a constructor.
pub fn encode(arguments: &[Value]) -> Vec<u8> {
    Value::Tuple(arguments.to_vec()).abi_encode_params()
}

/// Slot of the value for `key` in the mapping at slot `mapping`.
pub fn slot_of(mapping: u64, key: U256) -> B256 {
    keccak256([key.to_be_bytes::<32>(), U256::from(mapping).to_be_bytes()].concat())
}

/// Address as the key of a mapping.
pub fn address_key(address: &Address) -> U256 {
    U256::from_be_slice(address.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::hex;

    #[test]
    fn calls_are_abi_encoded() {
        let transfer = call("transfer(address,uint256)", &[Address::ZERO.into(), 1u64.into()]);
        assert_eq!((&transfer[..4], transfer.len()), (&hex!("a9059cbb")[..], 4 + 64));
        let words = [3, 7, 64, 1, 9].map(|word| U256::from(word).to_be_bytes::<32>());
        assert_eq!(encode(&[3u64.into(), 7u64.into()]), words[..2].concat());
        // Offset of the array from the start of the arguments; its length; its elements.
        let [_, second, place, length, only] = words;
        assert_eq!(encode(&[Value::Array(vec![9u64.into()]), 7u64.into()]), [place, second, length, only].concat());
    }

    #[test]
    fn mapping_slots_match_solidity() {
        let expected = keccak256(hex!(
            "000000000000000000000000000000000000000000000000000000000000000a"
            "0000000000000000000000000000000000000000000000000000000000000002"
        ));
        assert_eq!(slot_of(2, U256::from(10)), expected);
    }
}
