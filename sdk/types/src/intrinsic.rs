//! Intrinsic gas: the cost of a transaction before its execution. Admission, the executor and the virtual machine all
//! use this function.

use crate::{Address, B256};

/// Cost of every transaction, and the total cost of a plain transfer.
pub const TRANSACTION_GAS: u64 = 21_000;
/// Additional cost of a creation (EIP-2).
pub const CREATION_GAS: u64 = 32_000;
/// Cost per zero byte of the input.
pub const ZERO_BYTE_GAS: u64 = 4;
/// Cost per non-zero byte of the input (EIP-2028).
pub const NONZERO_BYTE_GAS: u64 = 16;
/// Cost per 32-byte word of a creation's input (EIP-3860).
pub const INIT_CODE_WORD_GAS: u64 = 2;
/// Cost per address in the access list (EIP-2930).
pub const ACCESS_LIST_ADDRESS_GAS: u64 = 2_400;
/// Cost per storage key in the access list (EIP-2930).
pub const ACCESS_LIST_KEY_GAS: u64 = 1_900;

/// Maximum size of creation data (EIP-3860 with our number): the maximum that a transaction can carry. So contracts and
/// transactions can create the same contracts.
pub const MAX_INIT_CODE_BYTES: usize = crate::MAX_TRANSACTION_BYTES;

/// Returns the gas charged before execution. It cannot overflow: memory bounds the input, and each byte costs a few
/// gas.
pub fn intrinsic_gas(creation: bool, input: &[u8], access_list: &[(Address, Vec<B256>)]) -> u64 {
    let zeros = input.iter().filter(|&&byte| byte == 0).count() as u64;
    let length = input.len() as u64;
    let keys: u64 = access_list.iter().map(|(_, keys)| keys.len() as u64).sum();
    let creation_gas = if creation { CREATION_GAS + INIT_CODE_WORD_GAS * length.div_ceil(32) } else { 0 };
    TRANSACTION_GAS
        + creation_gas
        + ZERO_BYTE_GAS * zeros
        + NONZERO_BYTE_GAS * (length - zeros)
        + ACCESS_LIST_ADDRESS_GAS * access_list.len() as u64
        + ACCESS_LIST_KEY_GAS * keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intrinsic_gas_matches_ethereum() {
        assert_eq!(intrinsic_gas(false, &[], &[]), 21_000);
        assert_eq!(intrinsic_gas(false, &[0, 0, 1], &[]), 21_000 + 4 + 4 + 16);
        assert_eq!(intrinsic_gas(true, &[], &[]), 53_000);
        assert_eq!(intrinsic_gas(true, &[1; 32], &[]), 53_000 + 32 * 16 + 2);
        assert_eq!(intrinsic_gas(true, &[1; 33], &[]), 53_000 + 33 * 16 + 4);
        let list = [(Address::ZERO, vec![B256::ZERO, B256::ZERO]), (Address::ZERO, vec![])];
        assert_eq!(intrinsic_gas(false, &[], &list), 21_000 + 2 * 2_400 + 2 * 1_900);
    }
}
