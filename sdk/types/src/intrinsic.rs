//! Intrinsic gas: what a transaction costs before any of it runs. One function, because admission refuses by it, the
//! executor skips by it and the virtual machine charges it.

use crate::{Address, B256};

/// Every transaction; a plain transfer costs exactly this.
pub const TRANSACTION_GAS: u64 = 21_000;
/// Additionally for a creation (EIP-2).
pub const CREATION_GAS: u64 = 32_000;
/// Per input byte that is zero.
pub const ZERO_BYTE_GAS: u64 = 4;
/// Per input byte that is not (EIP-2028).
pub const NONZERO_BYTE_GAS: u64 = 16;
/// Per 32-byte word of a creation's input (EIP-3860).
pub const INIT_CODE_WORD_GAS: u64 = 2;
/// Per address in the access list (EIP-2930).
pub const ACCESS_LIST_ADDRESS_GAS: u64 = 2_400;
/// Per storage key in the access list (EIP-2930).
pub const ACCESS_LIST_KEY_GAS: u64 = 1_900;

/// The most creation data may have (EIP-3860 with our number): what a transaction can carry, so that a contract can create
/// exactly what a transaction can.
pub const MAX_INIT_CODE_BYTES: usize = crate::MAX_TRANSACTION_BYTES;

/// Gas charged before execution. No overflow is possible: the input is bounded by memory and each byte costs a few gas.
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
    fn every_term_counts_as_ethereum_counts_it() {
        assert_eq!(intrinsic_gas(false, &[], &[]), 21_000);
        assert_eq!(intrinsic_gas(false, &[0, 0, 1], &[]), 21_000 + 4 + 4 + 16);
        assert_eq!(intrinsic_gas(true, &[], &[]), 53_000);
        assert_eq!(intrinsic_gas(true, &[1; 32], &[]), 53_000 + 32 * 16 + 2);
        assert_eq!(intrinsic_gas(true, &[1; 33], &[]), 53_000 + 33 * 16 + 4);
        let list = [(Address::ZERO, vec![B256::ZERO, B256::ZERO]), (Address::ZERO, vec![])];
        assert_eq!(intrinsic_gas(false, &[], &list), 21_000 + 2 * 2_400 + 2 * 1_900);
    }
}
