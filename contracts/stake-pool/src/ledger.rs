//! The arithmetic of the pool, without storage and calls.
//!
//! All wei of the ledger belong either to shares or to exits. Both kinds are partly here and partly at the staking contract:
//!
//! | | in this contract | at the staking contract |
//! |---|---|---|
//! | of shares | `idle` | `staked` |
//! | of exits | `freed` | `exiting` |
//!
//! Only wei at the staking contract can be slashed, and a slash lowers `staked` and `exiting` in proportion. It does not matter
//! whether the staking contract takes it from bonded or from queued stake.
//!
//! Every division rounds in favour of those who stay. Nothing overflows: wei are below 2^127, because no chain has more, and
//! shares and units are at most [`MAX_SHARES`].

use alloy_primitives::U256;

/// Shares that exist only in the price. To raise it so far that a deposit rounds to no shares, an attacker has to donate a
/// thousand times that deposit, and loses half of it.
pub const VIRTUAL_SHARES: U256 = U256::from_limbs([1_000, 0, 0, 0]);

/// 2^128 - 1. Reached only by deposits after the loss of almost everything.
pub const MAX_SHARES: U256 = U256::from_limbs([u64::MAX, u64::MAX, 0, 0]);

/// Stake of the validator, as the staking contract reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stake {
    pub bonded: U256,
    pub queued: U256,
}

impl Stake {
    pub fn total(&self) -> U256 {
        self.bonded + self.queued
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// All shares.
    pub supply: U256,
    pub idle: U256,
    pub staked: U256,
    /// Shares of exits in `freed` and `exiting`. Until a slash, a unit is one wei.
    pub units: U256,
    pub freed: U256,
    pub exiting: U256,
}

impl Ledger {
    /// Wei of all shares.
    pub fn assets(&self) -> U256 {
        self.idle + self.staked
    }

    /// Wei of some shares.
    pub fn worth(&self, shares: U256) -> U256 {
        quotient(shares * (self.assets() + U256::ONE), self.supply + VIRTUAL_SHARES)
    }

    /// Wei of some units of exits.
    pub fn worth_of_units(&self, units: U256) -> U256 {
        quotient(units * (self.freed + self.exiting), self.units)
    }

    /// Adds wei and returns the shares for them; `None` if there would be too many.
    pub fn deposit(&mut self, wei: U256) -> Option<U256> {
        let shares = quotient(wei * (self.supply + VIRTUAL_SHARES), self.assets() + U256::ONE);
        self.supply = within_limit(self.supply + shares)?;
        self.idle += wei;
        Some(shares)
    }

    /// Turns shares into units of exits, at most as many as exist. Returns their wei and the units; `None` if there would be too
    /// many units. An exit takes its part of idle and of staked wei, so it is as liable as the shares that stay.
    pub fn exit(&mut self, shares: U256) -> Option<(U256, U256)> {
        let wei = self.worth(shares);
        let idle = quotient(wei * self.idle, self.assets());
        let units = if self.units.is_zero() { wei } else { quotient(wei * self.units, self.freed + self.exiting) };
        self.units = within_limit(self.units + units)?;
        self.supply -= shares;
        self.idle -= idle;
        self.freed += idle;
        self.staked -= wei - idle;
        self.exiting += wei - idle;
        Some((wei, units))
    }

    /// Records that this much is left at the staking contract. Returns the loss.
    pub fn lose(&mut self, left: U256) -> U256 {
        let before = self.staked + self.exiting;
        if left >= before {
            return U256::ZERO;
        }
        self.exiting = quotient(self.exiting * left, before);
        self.staked = left - self.exiting;
        before - left
    }

    /// Records wei that came back from the staking contract. Exits come first.
    pub fn receive(&mut self, wei: U256) {
        let of_exits = wei.min(self.exiting);
        self.exiting -= of_exits;
        self.freed += of_exits;
        self.staked -= wei - of_exits;
        self.idle += wei - of_exits;
    }

    /// Takes out the oldest exits, if freed wei pay for them. Returns these wei.
    pub fn settle(&mut self, units: U256) -> Option<U256> {
        let wei = self.worth_of_units(units);
        self.freed = self.freed.checked_sub(wei)?;
        self.units -= units;
        if self.units.is_zero() {
            // Nobody is left to whom rounded amounts belong.
            self.idle += core::mem::take(&mut self.freed);
            self.staked += core::mem::take(&mut self.exiting);
        }
        Some(wei)
    }

    /// Stake to unbond, so that the queue has all wei of exits. All of it, if the rest would be less than a vote.
    pub fn shortfall(&self, stake: &Stake, vote: U256) -> U256 {
        let lacking = self.exiting.saturating_sub(stake.queued);
        let rest = stake.bonded.saturating_sub(lacking);
        if lacking.is_zero() || rest >= vote {
            lacking
        } else {
            stake.bonded
        }
    }

    /// Moves idle wei to the stake, if at least a vote is bonded then. Returns them.
    pub fn bond(&mut self, bonded: U256, vote: U256) -> U256 {
        if bonded + self.idle < vote {
            return U256::ZERO;
        }
        self.staked += self.idle;
        core::mem::take(&mut self.idle)
    }
}

fn within_limit(shares: U256) -> Option<U256> {
    (shares <= MAX_SHARES).then_some(shares)
}

/// Anything divided by zero is zero.
pub fn quotient(dividend: U256, divisor: U256) -> U256 {
    dividend.checked_div(divisor).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U512;
    use proptest::prelude::*;

    fn n(value: u128) -> U256 {
        U256::from(value)
    }

    /// Amounts with a uniform number of bits, so that small ones are as frequent as large ones.
    fn amount() -> impl Strategy<Value = U256> {
        (0..90_u32, any::<u128>()).prop_map(|(bits, random)| n((random & ((1 << bits) - 1)) | (1 << bits)))
    }

    #[derive(Clone, Debug)]
    enum Deed {
        Deposit(U256),
        Donate(U256),
        /// This many 2^16ths of all shares.
        Exit(u16),
        /// This many 2^16ths of what is bonded and of what is queued.
        Slash(u16, u16),
        /// This many 2^16ths of the queue.
        Free(u16),
    }

    fn deed() -> impl Strategy<Value = Deed> {
        prop_oneof![
            amount().prop_map(Deed::Deposit),
            amount().prop_map(Deed::Donate),
            any::<u16>().prop_map(Deed::Exit),
            (0..1_u16 << 12, any::<u16>()).prop_map(|(bonded, queued)| Deed::Slash(bonded, queued)),
            any::<u16>().prop_map(Deed::Free),
        ]
    }

    /// A pool and the staking contract as numbers.
    #[derive(Clone, Debug, Default)]
    struct World {
        ledger: Ledger,
        stake: Stake,
        rounds: Vec<U256>,
        /// Wei that came in, less those that were slashed or paid.
        left: U256,
    }

    impl World {
        fn part(of: U256, part: u16) -> U256 {
            (of * U256::from(part)) >> 16
        }

        fn act(&mut self, deed: &Deed) {
            match deed {
                Deed::Deposit(wei) => {
                    let Some(_) = self.ledger.deposit(*wei) else { return };
                    self.left += *wei;
                }
                Deed::Donate(wei) => {
                    self.ledger.idle += *wei;
                    self.left += *wei;
                }
                Deed::Exit(part) => {
                    let Some((_, units)) = self.ledger.exit(Self::part(self.ledger.supply, *part)) else { return };
                    self.rounds.push(units);
                }
                Deed::Slash(bonded, queued) => {
                    let before = self.stake.total();
                    self.stake.bonded -= Self::part(self.stake.bonded, *bonded);
                    self.stake.queued -= Self::part(self.stake.queued, *queued);
                    let lost = self.ledger.lose(self.stake.total());
                    assert_eq!(lost, before - self.stake.total());
                    self.left -= lost;
                }
                Deed::Free(part) => {
                    let wei = Self::part(self.stake.queued, *part);
                    self.stake.queued -= wei;
                    self.ledger.receive(wei);
                }
            }
            let vote = n(1 << 60);
            while let Some(wei) = self.rounds.first().and_then(|units| self.ledger.settle(*units)) {
                self.rounds.remove(0);
                self.left -= wei;
            }
            let unbonded = self.ledger.shortfall(&self.stake, vote);
            self.stake.bonded -= unbonded;
            self.stake.queued += unbonded;
            self.stake.bonded += self.ledger.bond(self.stake.bonded, vote);
            assert!(unbonded.is_zero() || self.stake.bonded.is_zero() || self.stake.bonded >= vote);
        }

        fn check(&self) {
            let Ledger { idle, staked, units, freed, exiting, .. } = self.ledger;
            assert_eq!(idle + staked + freed + exiting, self.left, "no wei is made or lost");
            assert_eq!(staked + exiting, self.stake.total(), "the staking contract has what the ledger says");
            assert!(exiting <= self.stake.queued, "exits wait for stake that is queued");
            assert_eq!(self.rounds.iter().sum::<U256>(), units);
            assert!(freed + exiting <= units, "a unit is worth one wei at most, so rounding takes one at most");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn random_history_conserves_wei_and_price(deeds in prop::collection::vec(deed(), 1..40)) {
            let mut world = World::default();
            for deed in &deeds {
                let before = world.clone();
                world.act(deed);
                world.check();
                // (assets + 1) / (supply + virtual shares), cross-multiplied.
                let price = |ledger: &Ledger, other: &Ledger| {
                    U512::from(ledger.assets() + U256::ONE) * U512::from(other.supply + VIRTUAL_SHARES)
                };
                let (old, new) = (&before.ledger, &world.ledger);
                prop_assert!(matches!(deed, Deed::Slash(..)) || price(new, old) >= price(old, new), "{deed:?}: {before:?} to {world:?}");
            }
        }

        #[test]
        fn deposit_and_exit_never_gain(ledger in (amount(), amount(), amount()), wei in amount()) {
            let (supply, idle, staked) = ledger;
            let mut ledger = Ledger { supply, idle, staked, ..Ledger::default() };
            if let Some(shares) = ledger.deposit(wei) {
                prop_assert!(ledger.worth(shares) <= wei);
            }
        }
    }

    #[test]
    fn slash_hits_shares_and_exits_alike() {
        let mut ledger =
            Ledger { staked: n(600), exiting: n(300), units: n(400), idle: n(50), freed: n(100), ..Ledger::default() };
        assert_eq!(ledger.lose(n(900)), U256::ZERO);
        assert_eq!(ledger.lose(n(810)), n(90));
        assert_eq!((ledger.staked, ledger.exiting, ledger.idle, ledger.freed), (n(540), n(270), n(50), n(100)));
        assert_eq!(ledger.lose(U256::ZERO), n(810), "everything");
        assert_eq!((ledger.assets(), ledger.settle(n(400))), (n(50), Some(n(100))));
    }

    #[test]
    fn less_than_a_vote_is_not_left_bonded() {
        let ledger = Ledger { staked: n(60), exiting: n(40), ..Ledger::default() };
        let stake = |bonded, queued| Stake { bonded: n(bonded), queued: n(queued) };
        assert_eq!(ledger.shortfall(&stake(100, 0), n(60)), n(40));
        assert_eq!(ledger.shortfall(&stake(100, 0), n(61)), n(100));
        assert_eq!(ledger.shortfall(&stake(70, 30), n(60)), n(10), "what is queued already counts");
        assert_eq!(ledger.shortfall(&stake(20, 80), n(60)), U256::ZERO);
        let mut idle = Ledger { idle: n(5), ..Ledger::default() };
        assert_eq!((idle.bond(n(0), n(6)), idle.bond(n(1), n(6))), (U256::ZERO, n(5)));
    }
}
