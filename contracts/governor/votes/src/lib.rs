//! A voting token: an ERC-20 whose balances are lists of checkpoints, one for each block that changed the balance. Bisection
//! finds the balance at the end of a past block, which never changes.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

#[path = "../../../multisig/src/words.rs"]
mod words;

use alloc::{string::String, vec::Vec};
use alloy_primitives::{
    aliases::{U192, U64},
    Address, U256, U8,
};
use alloy_sol_types::sol;
use stylus_sdk::prelude::*;
use words::Words;

corniche_contract::abi!();

sol! {
    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    /// A checkpoint holds at most 2^192 - 1.
    error TooMany(uint256 supply);
    /// The block is not over, so its final balances are unknown.
    error NotOver(uint64 block, uint64 height);
    error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
    error ERC20InvalidReceiver(address receiver);
    error ERC20InvalidSpender(address spender);
    error ERC20InsufficientAllowance(address spender, uint256 allowance, uint256 needed);
}

sol_storage! {
    #[entrypoint]
    pub struct Votes {
        Words name;
        Words symbol;
        /// Total supply.
        uint256 supply;
        mapping(address => History) histories;
        mapping(address => mapping(address => uint256)) allowances;
    }

    /// Ascending blocks, at most one checkpoint per block.
    pub struct History {
        uint256 length;
        mapping(uint256 => Checkpoint) checkpoints;
    }

    /// One slot.
    pub struct Checkpoint {
        uint64 block;
        /// Balance from this block's end on.
        uint192 balance;
    }
}

/// 2^192 - 1.
const MOST: U256 = U256::from_limbs([u64::MAX, u64::MAX, u64::MAX, 0]);

#[derive(SolidityError)]
pub enum VotesError {
    TooMany(TooMany),
    NotOver(NotOver),
    InsufficientBalance(ERC20InsufficientBalance),
    InvalidReceiver(ERC20InvalidReceiver),
    InvalidSpender(ERC20InvalidSpender),
    InsufficientAllowance(ERC20InsufficientAllowance),
}

#[public]
impl Votes {
    #[constructor]
    pub fn constructor(&mut self, name: String, symbol: String, supply: U256) -> Result<(), VotesError> {
        if supply > MOST {
            return Err(TooMany { supply }.into());
        }
        self.name.set(name.as_bytes());
        self.symbol.set(symbol.as_bytes());
        self.supply.set(supply);
        let creator = self.vm().msg_sender();
        self.put(creator, supply);
        self.vm().log(Transfer { from: Address::ZERO, to: creator, value: supply });
        Ok(())
    }

    /// Balance of an account at the end of a past block.
    pub fn balance_at(&self, account: Address, block: u64) -> Result<U256, VotesError> {
        let height = self.vm().block_number();
        if block >= height {
            return Err(NotOver { block, height }.into());
        }
        Ok(self.histories.getter(account).at(block))
    }

    pub fn balance_of(&self, account: Address) -> U256 {
        self.histories.getter(account).latest()
    }

    pub fn name(&self) -> String {
        String::from_utf8_lossy(&self.name.get()).into_owned()
    }

    pub fn symbol(&self) -> String {
        String::from_utf8_lossy(&self.symbol.get()).into_owned()
    }

    pub fn decimals(&self) -> U8 {
        U8::from(18)
    }

    pub fn total_supply(&self) -> U256 {
        self.supply.get()
    }

    pub fn allowance(&self, owner: Address, spender: Address) -> U256 {
        self.allowances.getter(owner).get(spender)
    }

    pub fn approve(&mut self, spender: Address, value: U256) -> Result<bool, VotesError> {
        if spender.is_zero() {
            return Err(ERC20InvalidSpender { spender }.into());
        }
        let owner = self.vm().msg_sender();
        self.allowances.setter(owner).insert(spender, value);
        self.vm().log(Approval { owner, spender, value });
        Ok(true)
    }

    pub fn transfer(&mut self, to: Address, value: U256) -> Result<bool, VotesError> {
        let from = self.vm().msg_sender();
        self.pay(from, to, value)
    }

    /// An allowance of 2^256 - 1 is not reduced.
    pub fn transfer_from(&mut self, from: Address, to: Address, value: U256) -> Result<bool, VotesError> {
        let spender = self.vm().msg_sender();
        let allowance = self.allowances.getter(from).get(spender);
        if allowance != U256::MAX {
            let Some(rest) = allowance.checked_sub(value) else {
                return Err(ERC20InsufficientAllowance { spender, allowance, needed: value }.into());
            };
            self.allowances.setter(from).insert(spender, rest);
        }
        self.pay(from, to, value)
    }
}

impl Votes {
    fn pay(&mut self, from: Address, to: Address, value: U256) -> Result<bool, VotesError> {
        if to.is_zero() {
            return Err(ERC20InvalidReceiver { receiver: to }.into());
        }
        let balance = self.balance_of(from);
        let Some(rest) = balance.checked_sub(value) else {
            return Err(ERC20InsufficientBalance { sender: from, balance, needed: value }.into());
        };
        self.put(from, rest);
        // Read after the write, so that a transfer to oneself changes nothing. The sum is at most the supply.
        self.put(to, self.balance_of(to) + value);
        self.vm().log(Transfer { from, to, value });
        Ok(true)
    }

    fn put(&mut self, account: Address, balance: U256) {
        let block = self.vm().block_number();
        self.histories.setter(account).push(block, balance);
    }
}

impl History {
    fn latest(&self) -> U256 {
        let length = self.length.get();
        if length.is_zero() {
            return U256::ZERO;
        }
        self.checkpoints.getter(length - U256::ONE).balance.get().to()
    }

    /// Balance at the end of a block.
    fn at(&self, block: u64) -> U256 {
        // The first checkpoint after the block is within [low, high].
        let (mut low, mut high) = (0_u64, self.length.get().to::<u64>());
        while low < high {
            let middle = low + ((high - low) >> 1);
            if self.checkpoints.getter(U256::from(middle)).block.get().to::<u64>() > block {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        match low.checked_sub(1) {
            Some(last) => self.checkpoints.getter(U256::from(last)).balance.get().to(),
            None => U256::ZERO,
        }
    }

    /// `balance` is at most [`MOST`].
    fn push(&mut self, block: u64, balance: U256) {
        let length = self.length.get();
        let (block, balance) = (U64::from(block), U192::from(balance));
        if !length.is_zero() {
            let mut last = self.checkpoints.setter(length - U256::ONE);
            if last.block.get() == block {
                last.balance.set(balance);
                return;
            }
        }
        let mut next = self.checkpoints.setter(length);
        next.block.set(block);
        next.balance.set(balance);
        self.length.set(length + U256::ONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use stylus_sdk::testing::*;

    fn person(number: u8) -> Address {
        Address::with_last_byte(number + 1)
    }

    fn n(value: u64) -> U256 {
        U256::from(value)
    }

    /// A supply of a thousand, all of person 0, in block 10.
    fn votes() -> (TestVM, Votes) {
        let vm = TestVM::default();
        vm.set_block_number(10);
        vm.set_sender(person(0));
        let mut votes = Votes::from(&vm);
        assert!(votes.constructor("A name of more than thirty-two letters".into(), "VOTE".into(), n(1_000)).is_ok());
        (vm, votes)
    }

    #[test]
    fn past_checkpoints_do_not_change() {
        let (vm, mut votes) = votes();
        assert_eq!((votes.name(), votes.symbol()), ("A name of more than thirty-two letters".into(), "VOTE".into()));
        assert!(matches!(votes.balance_at(person(0), 10), Err(VotesError::NotOver(NotOver { block: 10, height: 10 }))));
        assert_eq!(votes.balance_at(person(0), 9).ok(), Some(n(0)));
        vm.set_block_number(11);
        assert_eq!(votes.balance_at(person(0), 10).ok(), Some(n(1_000)));
        assert!(votes.transfer(person(1), n(300)).is_ok());
        assert_eq!(votes.balance_at(person(0), 10).ok(), Some(n(1_000)));
        assert_eq!((votes.balance_of(person(0)), votes.balance_of(person(1))), (n(700), n(300)));
    }

    #[test]
    fn spends_like_erc20() {
        let (vm, mut votes) = votes();
        assert!(votes.approve(person(1), n(5)).is_ok());
        assert!(matches!(votes.transfer(Address::ZERO, n(1)), Err(VotesError::InvalidReceiver(_))));
        assert!(matches!(votes.approve(Address::ZERO, n(1)), Err(VotesError::InvalidSpender(_))));
        vm.set_sender(person(1));
        assert!(votes.transfer_from(person(0), person(2), n(4)).is_ok());
        assert!(matches!(
            votes.transfer_from(person(0), person(2), n(4)),
            Err(VotesError::InsufficientAllowance(ERC20InsufficientAllowance { allowance, .. })) if allowance == n(1)
        ));
        assert!(matches!(votes.transfer(person(2), n(1)), Err(VotesError::InsufficientBalance(_))));
        assert!(Votes::from(&TestVM::default()).constructor("".into(), "".into(), MOST + U256::ONE).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

        /// Compares the balance of every account at the end of every block with a table.
        #[test]
        fn history_matches_model(deeds in prop::collection::vec((0..4_u8, 0..4_u8, 0..700_u64, 0..3_u64), 1..60)) {
            let (vm, mut votes) = votes();
            let mut now = BTreeMap::from([(0, 1_000), (1, 0), (2, 0), (3, 0)]);
            let (mut height, mut history) = (10, BTreeMap::new());
            for (from, to, value, blocks) in deeds {
                vm.set_sender(person(from));
                let done = votes.transfer(person(to), n(value)).is_ok();
                prop_assert_eq!(done, value <= now[&from]);
                if done {
                    *now.entry(from).or_default() -= value;
                    *now.entry(to).or_default() += value;
                }
                for _ in 0..blocks {
                    history.insert(height, now.clone());
                    height += 1;
                }
                vm.set_block_number(height);
            }
            for (block, balances) in &history {
                for (who, balance) in balances {
                    prop_assert_eq!(votes.balance_at(person(*who), *block).ok(), Some(n(*balance)));
                }
                prop_assert_eq!(balances.values().sum::<u64>(), 1_000);
            }
        }
    }
}
