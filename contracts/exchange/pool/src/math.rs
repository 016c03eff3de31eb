//! The arithmetic of a constant-product pool, without storage and tokens. Every division rounds in favour of the pool, so
//! a trade, deposit or withdrawal never takes from the remaining owners.
//!
//! Reserves are at most [`MAX_RESERVE`]. The square root of their product bounds the first shares, and shares only grow in
//! proportion, so nothing here overflows: a product of two such numbers and 1,000 fits into 234 bits.

use alloy_primitives::U256;

/// 2^112 - 1, so that both reserves share one storage slot.
pub const MAX_RESERVE: U256 = U256::from_limbs([u64::MAX, (1 << 48) - 1, 0, 0]);

/// Shares without an owner from the first deposit on. To raise a share's price so far that the next deposit rounds to no shares,
/// an attacker has to pay this many times the victim's loss.
pub const LOCKED_SHARES: U256 = U256::from_limbs([1_000, 0, 0, 0]);

const fn number(value: u64) -> U256 {
    U256::from_limbs([value, 0, 0, 0])
}

/// Result of paying `paid`, of which 0.3 % stay as a fee: always less than the reserve. All are at most [`MAX_RESERVE`].
pub fn received(paid: U256, reserve_in: U256, reserve_out: U256) -> U256 {
    let after_fee = paid * number(997);
    let divisor = reserve_in * number(1_000) + after_fee;
    quotient(after_fee * reserve_out, divisor)
}

/// Shares of the first deposit, including the locked ones: the geometric mean, so that their number does not depend on the
/// depositor's price.
pub fn first_shares(first: U256, second: U256) -> U256 {
    root(first * second)
}

/// Shares for a deposit into a pool with `supply` shares, by the token with the lower relative amount. The excess of the
/// other token is a gift to the pool, so the router computes amounts that fit.
pub fn further_shares(deposit: (U256, U256), reserves: (U256, U256), supply: U256) -> U256 {
    let by = |paid: U256, reserve: U256| quotient(paid * supply, reserve);
    by(deposit.0, reserves.0).min(by(deposit.1, reserves.1))
}

/// Part of both reserves for these shares.
pub fn redeemed(shares: U256, reserves: (U256, U256), supply: U256) -> (U256, U256) {
    let part = |reserve: U256| quotient(reserve * shares, supply);
    (part(reserves.0), part(reserves.1))
}

/// Integer square root, by Newton's method from above.
fn root(square: U256) -> U256 {
    if square.is_zero() {
        return square;
    }
    // Between the root and twice the root.
    let mut root = U256::ONE << square.bit_len().div_ceil(2);
    loop {
        let next = (root + quotient(square, root)) >> 1;
        if next >= root {
            return root;
        }
        root = next;
    }
}

/// Long division, bit by bit; zero divided by zero is zero. The divisor is below 2^255. The library's division is faster, but
/// takes a tenth of the module, for which every call pays.
fn quotient(dividend: U256, divisor: U256) -> U256 {
    let (mut quotient, mut rest) = (U256::ZERO, U256::ZERO);
    if divisor.is_zero() {
        return quotient;
    }
    for at in (0..dividend.bit_len()).rev() {
        rest = rest.wrapping_add(rest);
        rest.set_bit(0, dividend.bit(at));
        if rest >= divisor {
            rest = rest.wrapping_sub(divisor);
            quotient.set_bit(at, true);
        }
    }
    quotient
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U512;
    use proptest::prelude::*;

    fn wide(value: U256) -> U512 {
        U512::from(value)
    }

    /// Any size up to the largest reserve; small numbers as often as large ones.
    fn amount() -> impl Strategy<Value = U256> {
        (0..=111_usize, any::<[u64; 2]>()).prop_map(|(bits, [low, high])| {
            let random = U256::from_limbs([low, high, 0, 0]);
            (random & ((U256::ONE << bits) - U256::ONE)) | (U256::ONE << bits)
        })
    }

    /// A pool as numbers. The value of all shares is the square root of the product, per share.
    #[derive(Clone, Copy, Debug)]
    struct Pool {
        reserves: (U256, U256),
        supply: U256,
    }

    impl Pool {
        fn product(&self) -> U512 {
            wide(self.reserves.0) * wide(self.reserves.1)
        }

        /// True if a share kept its value: k / supply², cross-multiplied.
        fn worth_as_much_as(&self, before: &Self) -> bool {
            // Reserves and supplies are below 2^112, so the products are below 2^448.
            let squared = |supply: U256| wide(supply) * wide(supply);
            self.product() * squared(before.supply) >= before.product() * squared(self.supply)
        }

        fn trade(mut self, paid: U256, first_in: bool) -> Self {
            let (first, second) = self.reserves;
            let (reserve_in, reserve_out) = if first_in { (first, second) } else { (second, first) };
            let after = (reserve_in + paid, reserve_out - received(paid, reserve_in, reserve_out));
            self.reserves = if first_in { after } else { (after.1, after.0) };
            self
        }

        fn join(mut self, deposit: (U256, U256)) -> Self {
            self.supply += further_shares(deposit, self.reserves, self.supply);
            self.reserves = (self.reserves.0 + deposit.0, self.reserves.1 + deposit.1);
            self
        }

        fn leave(mut self, shares: U256) -> Self {
            let (first, second) = redeemed(shares, self.reserves, self.supply);
            self.reserves = (self.reserves.0 - first, self.reserves.1 - second);
            self.supply -= shares;
            self
        }

        fn fits(&self) -> bool {
            self.reserves.0 <= MAX_RESERVE && self.reserves.1 <= MAX_RESERVE
        }
    }

    #[derive(Clone, Debug)]
    enum Deed {
        Trade(U256, bool),
        Join(U256, U256),
        /// This many 2^16ths of the shares that are not locked.
        Leave(u16),
    }

    fn deed() -> impl Strategy<Value = Deed> {
        prop_oneof![
            (amount(), any::<bool>()).prop_map(|(paid, first_in)| Deed::Trade(paid, first_in)),
            (amount(), amount()).prop_map(|(first, second)| Deed::Join(first, second)),
            any::<u16>().prop_map(Deed::Leave),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn trade_preserves_product_and_reserves(
            paid in amount(), reserve_in in amount(), reserve_out in amount(),
        ) {
            let out = received(paid, reserve_in, reserve_out);
            prop_assert!(out < reserve_out);
            prop_assert!(wide(reserve_in + paid) * wide(reserve_out - out) >= wide(reserve_in) * wide(reserve_out));
            // The fee is effective for all sizes: 0.3 % of the payment buys nothing.
            let free = wide(paid) * wide(reserve_out) / (wide(reserve_in) + wide(paid));
            prop_assert!(wide(out) <= free);
        }

        #[test]
        fn round_trip_trade_never_gains(paid in amount(), reserve_in in amount(), reserve_out in amount()) {
            let out = received(paid, reserve_in, reserve_out);
            let back = received(out, reserve_out - out, reserve_in + paid);
            prop_assert!(back <= paid);
        }

        #[test]
        fn share_value_never_decreases(
            first in amount(), second in amount(), deeds in prop::collection::vec(deed(), 1..24),
        ) {
            let supply = first_shares(first, second);
            prop_assume!(supply > LOCKED_SHARES);
            let mut pool = Pool { reserves: (first, second), supply };
            for deed in deeds {
                let next = match deed {
                    Deed::Trade(paid, first_in) => pool.trade(paid, first_in),
                    Deed::Join(first, second) => pool.join((first, second)),
                    Deed::Leave(part) => {
                        pool.leave(((pool.supply - LOCKED_SHARES) * U256::from(part)) >> 16)
                    }
                };
                if !next.fits() {
                    continue;
                }
                prop_assert!(next.worth_as_much_as(&pool), "{deed:?}: {pool:?} to {next:?}");
                prop_assert!(next.supply >= LOCKED_SHARES && next.supply <= MAX_RESERVE);
                pool = next;
            }
        }

        #[test]
        fn instant_withdrawal_gains_nothing(
            first in amount(), second in amount(), deposit in (amount(), amount()),
        ) {
            let supply = first_shares(first, second);
            prop_assume!(supply > LOCKED_SHARES);
            let pool = Pool { reserves: (first, second), supply };
            let joined = pool.join(deposit);
            prop_assume!(joined.fits());
            let (back, other) = redeemed(joined.supply - pool.supply, joined.reserves, joined.supply);
            prop_assert!(back <= deposit.0 && other <= deposit.1);
        }

        #[test]
        fn division_matches_library(dividend in any::<[u64; 4]>(), divisor in amount(), bits in 0..=255_usize) {
            let dividend = U256::from_limbs(dividend) >> bits;
            prop_assert_eq!(quotient(dividend, divisor), dividend / divisor);
        }

        #[test]
        fn integer_sqrt_is_floor(low in any::<[u64; 4]>(), bits in 4..=256_usize) {
            let square = U256::from_limbs(low) >> bits.min(255);
            let root = root(square);
            prop_assert!(wide(root) * wide(root) <= wide(square));
            prop_assert!((wide(root) + U512::ONE) * (wide(root) + U512::ONE) > wide(square));
        }
    }

    #[test]
    fn known_values() {
        let n = number;
        assert_eq!(received(n(10_000), n(1_000_000), n(2_000_000)), n(19_743));
        assert_eq!(received(U256::ZERO, n(1), n(1)), U256::ZERO);
        assert_eq!(received(n(1), U256::ZERO, U256::ZERO), U256::ZERO, "an empty pool has no price");
        assert_eq!(first_shares(n(4_000_000), n(1_000_000)), n(2_000_000));
        assert_eq!(further_shares((n(10), n(1)), (n(100), n(100)), n(100)), n(1), "the smaller part counts");
        assert_eq!(redeemed(n(1), (n(199), n(99)), n(100)), (n(1), U256::ZERO), "rounded down");
        assert_eq!(MAX_RESERVE, (U256::ONE << 112) - U256::ONE);
    }

    /// Nothing overflows at the limits.
    #[test]
    fn largest_values_fit() {
        assert!(received(MAX_RESERVE, MAX_RESERVE, MAX_RESERVE) < MAX_RESERVE);
        assert_eq!(first_shares(MAX_RESERVE, MAX_RESERVE), MAX_RESERVE);
        assert_eq!(redeemed(MAX_RESERVE, (MAX_RESERVE, MAX_RESERVE), MAX_RESERVE), (MAX_RESERVE, MAX_RESERVE));
    }
}
