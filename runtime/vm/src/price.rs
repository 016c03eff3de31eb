//! Prices of state accesses in gas: Ethereum's numbers as of EIP-3529 and EIP-3651. `wasm` prices the guest's
//! instructions.

/// Access to a warm account or slot (EIP-2929).
pub const WARM: u64 = 100;
/// Access to a cold account (EIP-2929).
pub const COLD_ACCOUNT: u64 = 2_600;
/// Access to a cold slot (EIP-2929).
pub const COLD_SLOT: u64 = 2_100;
/// Store of a non-zero value into a zero slot (EIP-2200).
pub const STORE_SET: u64 = 20_000;
/// Store of any value into a non-zero slot, without the cold surcharge (EIP-2929).
pub const STORE_RESET: u64 = 5_000 - COLD_SLOT;
/// Counter call on a non-zero slot, without the cold surcharge. Higher than the stipend, which must not write.
pub const COUNT: u64 = STORE_RESET;
/// Additional price of an addition to zero: together, the price of a store that creates a slot.
pub const COUNT_FROM_ZERO: u64 = STORE_SET - STORE_RESET;
/// With this much gas or less, a store fails: the stipend must not write (EIP-2200).
pub const STORE_SENTRY: u64 = 2_300;
/// Refund for clearing a slot (EIP-3529).
pub const STORE_CLEAR_REFUND: u64 = 4_800;
/// Refunds are at most 1/5 of the used gas (EIP-3529).
pub const REFUND_QUOTIENT: u64 = 5;
/// TLOAD and TSTORE (EIP-1153).
pub const TRANSIENT: u64 = 100;
/// Log, and each of its topics.
pub const LOG: u64 = 375;
pub const LOG_TOPIC: u64 = 375;
pub const LOG_BYTE: u64 = 8;
/// Call with a value.
pub const CALL_VALUE: u64 = 9_000;
/// Call whose value creates an account (EIP-161).
pub const CALL_NEW_ACCOUNT: u64 = 25_000;
/// Additional gas for the callee of a call with a value.
pub const CALL_STIPEND: u64 = 2_300;
/// CREATE and CREATE2.
pub const CREATE: u64 = 32_000;
/// CREATE2 hashes its code (EIP-1014).
pub const KECCAK_WORD: u64 = 6;
/// Price per byte of stored code. A new slot (20,000) makes a node store 340 bytes: 59 per byte. Compilation is charged
/// separately.
pub const CODE_DEPOSIT_BYTE: u64 = 60;

/// Maximum gas that a caller can pass on: all but 1/64 (EIP-150).
pub fn all_but_one_64th(gas: u64) -> u64 {
    gas - gas / 64
}

/// Returns the price and the change of the refund for writing `new` over `current`. `original` is the value at the
/// transaction's start. The cold surcharge is separate (EIP-2200 with the numbers of EIP-2929 and EIP-3529).
pub fn store<T: PartialEq + Default>(original: &T, current: &T, new: &T) -> (u64, i64) {
    let zero = &T::default();
    if new == current {
        return (WARM, 0);
    }
    let clear = STORE_CLEAR_REFUND as i64;
    if current == original {
        return match (original == zero, new == zero) {
            (true, _) => (STORE_SET, 0),
            (false, true) => (STORE_RESET, clear),
            (false, false) => (STORE_RESET, 0),
        };
    }
    let mut refund = 0;
    if original != zero {
        if current == zero {
            refund -= clear;
        } else if new == zero {
            refund += clear;
        }
    }
    if new == original {
        let paid = if original == zero { STORE_SET } else { STORE_RESET };
        refund += (paid - WARM) as i64;
    }
    (WARM, refund)
}

const _: () = assert!(COUNT > STORE_SENTRY);

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a sequence of writes on a warm slot; returns gas and refund as in EIP-3529's table.
    fn run(original: u8, writes: &[u8]) -> (u64, i64) {
        let mut current = original;
        writes.iter().fold((0, 0), |(gas, refund), new| {
            let (cost, change) = store(&original, &current, new);
            current = *new;
            (gas + cost, refund + change)
        })
    }

    #[test]
    fn eip_3529_table() {
        assert_eq!(run(0, &[0, 0]), (200, 0));
        assert_eq!(run(0, &[0, 1]), (20_100, 0));
        assert_eq!(run(0, &[1, 0]), (20_100, 19_900));
        assert_eq!(run(0, &[1, 2]), (20_100, 0));
        assert_eq!(run(0, &[1, 1]), (20_100, 0));
        assert_eq!(run(1, &[0, 0]), (3_000, 4_800));
        assert_eq!(run(1, &[0, 1]), (3_000, 2_800));
        assert_eq!(run(1, &[0, 2]), (3_000, 0));
        assert_eq!(run(1, &[2, 0]), (3_000, 4_800));
        assert_eq!(run(1, &[2, 3]), (3_000, 0));
        assert_eq!(run(1, &[2, 1]), (3_000, 2_800));
        assert_eq!(run(1, &[2, 2]), (3_000, 0));
        assert_eq!(run(1, &[1, 0]), (3_000, 4_800));
        assert_eq!(run(1, &[1, 2]), (3_000, 0));
        assert_eq!(run(1, &[1, 1]), (200, 0));
        assert_eq!(run(0, &[1, 0, 1]), (40_100, 19_900));
        assert_eq!(run(1, &[0, 1, 0]), (5_900, 7_600));
    }
}
