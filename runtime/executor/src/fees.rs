//! The base fee: EIP-1559 per second instead of per block (design, section 3).
//!
//! Several blocks may come in one second, or none for minutes, so the fee follows seconds, not blocks. It is constant
//! among blocks with the same header second. Each second that ends changes it once, by that second's gas relative to
//! the target. A step is EIP-1559's (an eighth of the relative distance from the target), limited to 1/50 of the fee.
//! When the target was exceeded, the fee rises by at least 1 wei.

use corniche_types::FeeRules;

/// EIP-1559's BASE_FEE_MAX_CHANGE_DENOMINATOR.
const CHANGE_DENOMINATOR: u128 = 8;
/// Maximum change per second: 1/50 of the fee, 2 %.
const STEP_LIMIT: u128 = 50;
/// Minimum fee: wallets treat a fee of zero specially.
const MIN_BASE_FEE: u64 = 1;

/// Returns the base fee of a block in header second `second`. `parent_base_fee` is its parent's fee in `parent_second`,
/// in which all blocks used `gas_in_parent_second` together. The fee stays if `second` is not later than
/// `parent_second`.
pub fn next_base_fee(
    rules: &FeeRules,
    parent_base_fee: u64,
    parent_second: u64,
    gas_in_parent_second: u64,
    second: u64,
) -> u64 {
    if second <= parent_second {
        return parent_base_fee.max(MIN_BASE_FEE);
    }
    let mut fee = step(rules, parent_base_fee, gas_in_parent_second);
    // Idle seconds in between. The loop ends at the first idle second that does not change the fee, after at most about
    // 2,000 steps.
    for _ in parent_second + 1..second {
        let lower = step(rules, fee, 0);
        if lower == fee {
            break;
        }
        fee = lower;
    }
    fee
}

/// Returns the fee after one second in which `gas` was used.
fn step(rules: &FeeRules, fee: u64, gas: u64) -> u64 {
    let target = u128::from(rules.target_gas_per_second.max(1));
    let gas = u128::from(gas);
    let change = |distance: u128| {
        let change = (u128::from(fee) * distance / target / CHANGE_DENOMINATOR).min(u128::from(fee) / STEP_LIMIT);
        u64::try_from(change).expect("at most a fiftieth of a 64-bit fee")
    };
    let next = if gas > target { fee.saturating_add(change(gas - target).max(1)) } else { fee - change(target - gas) };
    next.max(MIN_BASE_FEE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GWEI: u64 = 1_000_000_000;
    const RULES: FeeRules = FeeRules { initial_base_fee: GWEI, target_gas_per_second: 10_000_000 };

    #[test]
    fn base_fee_is_constant_within_second() {
        assert_eq!(next_base_fee(&RULES, GWEI, 100, 99_000_000, 100), GWEI);
        assert_eq!(next_base_fee(&RULES, GWEI, 100, 99_000_000, 99), GWEI, "a clock that stood still changes nothing");
    }

    #[test]
    fn base_fee_steps_once_per_second() {
        assert_eq!(next_base_fee(&RULES, GWEI, 100, 10_000_000, 101), GWEI, "at the target");
        // 4 % above the target: an eighth of 4 %.
        assert_eq!(next_base_fee(&RULES, GWEI, 100, 10_400_000, 101), GWEI + GWEI / 200);
        assert_eq!(next_base_fee(&RULES, GWEI, 100, 9_600_000, 101), GWEI - GWEI / 200);
        assert_eq!(next_base_fee(&RULES, GWEI, 100, u64::MAX, 101), GWEI + GWEI / 50, "at most 2 % up");
        assert_eq!(next_base_fee(&RULES, GWEI, 100, 0, 101), GWEI - GWEI / 50, "at most 2 % down");
    }

    #[test]
    fn idle_seconds_are_separate_steps() {
        let one = next_base_fee(&RULES, GWEI, 100, 20_000_000, 101);
        let two = next_base_fee(&RULES, one, 101, 0, 102);
        let three = next_base_fee(&RULES, two, 102, 0, 103);
        assert_eq!(next_base_fee(&RULES, GWEI, 100, 20_000_000, 103), three);
        assert!(three < two && two < one && one > GWEI);
    }

    #[test]
    fn base_fee_is_clamped() {
        assert_eq!(next_base_fee(&RULES, 0, 0, 0, 0), 1);
        assert_eq!(next_base_fee(&RULES, 1, 0, 0, 1_000), 1);
        assert_eq!(next_base_fee(&RULES, 1, 0, 10_000_001, 1), 2, "at least 1 wei up above the target");
        assert_eq!(next_base_fee(&RULES, u64::MAX, 0, u64::MAX, 1), u64::MAX);
        // After decades of idle seconds the loop still ends, and the fee is low.
        let low = next_base_fee(&RULES, u64::MAX, 0, 0, u64::MAX);
        assert!(low < 50, "{low}");
    }
}
