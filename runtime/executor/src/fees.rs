//! The base fee: EIP-1559 by the second (design, section 3).
//!
//! Blocks may come many times a second or not for minutes, so the fee follows seconds, not blocks: it is constant among
//! blocks with the same header second, and each second that ends moves it once, by that second's gas against the target.
//! A step is EIP-1559's (an eighth of the relative distance from the target), but at most a fiftieth of the fee, and up by
//! at least 1 wei when the target was exceeded.

use corniche_types::FeeRules;

/// EIP-1559's BASE_FEE_MAX_CHANGE_DENOMINATOR.
const CHANGE_DENOMINATOR: u128 = 8;
/// The fee moves by at most 1/50, 2 %, a second.
const STEP_LIMIT: u128 = 50;
/// The fee never gets lower; a fee of zero is handled specially by wallets.
const FLOOR: u64 = 1;

/// The base fee of a block in header second `second`, whose parent is in `parent_second` with `parent_base_fee`, when all
/// blocks of that second used `gas_in_parent_second`. The same second, or an earlier one, keeps the fee.
pub fn next_base_fee(
    rules: &FeeRules,
    parent_base_fee: u64,
    parent_second: u64,
    gas_in_parent_second: u64,
    second: u64,
) -> u64 {
    if second <= parent_second {
        return parent_base_fee.max(FLOOR);
    }
    let mut fee = step(rules, parent_base_fee, gas_in_parent_second);
    // The idle seconds in between. A fee that an idle second no longer moves stays where it is, so the loop ends after
    // some 2,000 steps however long nothing happened.
    for _ in parent_second + 1..second {
        let lower = step(rules, fee, 0);
        if lower == fee {
            break;
        }
        fee = lower;
    }
    fee
}

/// The fee after one second in which `gas` was used.
fn step(rules: &FeeRules, fee: u64, gas: u64) -> u64 {
    let target = u128::from(rules.target_gas_per_second.max(1));
    let gas = u128::from(gas);
    let change = |distance: u128| {
        let change = (u128::from(fee) * distance / target / CHANGE_DENOMINATOR).min(u128::from(fee) / STEP_LIMIT);
        u64::try_from(change).expect("at most a fiftieth of a 64-bit fee")
    };
    let next = if gas > target { fee.saturating_add(change(gas - target).max(1)) } else { fee - change(target - gas) };
    next.max(FLOOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GWEI: u64 = 1_000_000_000;
    const RULES: FeeRules = FeeRules { initial_base_fee: GWEI, target_gas_per_second: 10_000_000 };

    #[test]
    fn constant_within_a_second() {
        assert_eq!(next_base_fee(&RULES, GWEI, 100, 99_000_000, 100), GWEI);
        assert_eq!(next_base_fee(&RULES, GWEI, 100, 99_000_000, 99), GWEI, "a clock that stood still changes nothing");
    }

    #[test]
    fn one_step_into_the_next_second() {
        assert_eq!(next_base_fee(&RULES, GWEI, 100, 10_000_000, 101), GWEI, "at the target");
        // 4 % above the target: an eighth of 4 %.
        assert_eq!(next_base_fee(&RULES, GWEI, 100, 10_400_000, 101), GWEI + GWEI / 200);
        assert_eq!(next_base_fee(&RULES, GWEI, 100, 9_600_000, 101), GWEI - GWEI / 200);
        assert_eq!(next_base_fee(&RULES, GWEI, 100, u64::MAX, 101), GWEI + GWEI / 50, "at most 2 % up");
        assert_eq!(next_base_fee(&RULES, GWEI, 100, 0, 101), GWEI - GWEI / 50, "at most 2 % down");
    }

    #[test]
    fn idle_seconds_are_steps_of_their_own() {
        let one = next_base_fee(&RULES, GWEI, 100, 20_000_000, 101);
        let two = next_base_fee(&RULES, one, 101, 0, 102);
        let three = next_base_fee(&RULES, two, 102, 0, 103);
        assert_eq!(next_base_fee(&RULES, GWEI, 100, 20_000_000, 103), three);
        assert!(three < two && two < one && one > GWEI);
    }

    #[test]
    fn ends_at_its_floor_and_ceiling() {
        assert_eq!(next_base_fee(&RULES, 0, 0, 0, 0), 1);
        assert_eq!(next_base_fee(&RULES, 1, 0, 0, 1_000), 1);
        assert_eq!(next_base_fee(&RULES, 1, 0, 10_000_001, 1), 2, "at least 1 wei up above the target");
        assert_eq!(next_base_fee(&RULES, u64::MAX, 0, u64::MAX, 1), u64::MAX);
        // Decades of silence: ends, and ends low.
        let low = next_base_fee(&RULES, u64::MAX, 0, 0, u64::MAX);
        assert!(low < 50, "{low}");
    }
}
