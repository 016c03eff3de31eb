//! An ERC-20 token. The whole supply goes to the creator of the contract. The errors are those of ERC-6093, which wallets and
//! explorers know.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::{string::String, vec::Vec};
use alloy_primitives::{Address, U256, U8};
use alloy_sol_types::sol;
use stylus_sdk::prelude::*;

sol! {
    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
    error ERC20InvalidReceiver(address receiver);
    error ERC20InvalidSpender(address spender);
    error ERC20InsufficientAllowance(address spender, uint256 allowance, uint256 needed);
}

sol_storage! {
    #[entrypoint]
    pub struct Token {
        string name;
        string symbol;
        uint8 decimals;
        uint256 total_supply;
        mapping(address => uint256) balances;
        mapping(address => mapping(address => uint256)) allowances;
    }
}

#[derive(SolidityError)]
pub enum TokenError {
    InsufficientBalance(ERC20InsufficientBalance),
    InvalidReceiver(ERC20InvalidReceiver),
    InvalidSpender(ERC20InvalidSpender),
    InsufficientAllowance(ERC20InsufficientAllowance),
}

#[public]
impl Token {
    #[constructor]
    pub fn constructor(&mut self, name: String, symbol: String, initial_supply: U256) {
        self.name.set_str(name);
        self.symbol.set_str(symbol);
        self.decimals.set(U8::from(18));
        self.total_supply.set(initial_supply);
        let creator = self.vm().msg_sender();
        self.balances.insert(creator, initial_supply);
        self.vm().log(Transfer { from: Address::ZERO, to: creator, value: initial_supply });
    }

    pub fn name(&self) -> String {
        self.name.get_string()
    }

    pub fn symbol(&self) -> String {
        self.symbol.get_string()
    }

    pub fn decimals(&self) -> U8 {
        self.decimals.get()
    }

    pub fn total_supply(&self) -> U256 {
        self.total_supply.get()
    }

    pub fn balance_of(&self, account: Address) -> U256 {
        self.balances.get(account)
    }

    pub fn allowance(&self, owner: Address, spender: Address) -> U256 {
        self.allowances.getter(owner).get(spender)
    }

    pub fn transfer(&mut self, to: Address, value: U256) -> Result<bool, TokenError> {
        let from = self.vm().msg_sender();
        self.move_tokens(from, to, value)?;
        Ok(true)
    }

    pub fn approve(&mut self, spender: Address, value: U256) -> Result<bool, TokenError> {
        if spender.is_zero() {
            return Err(TokenError::InvalidSpender(ERC20InvalidSpender { spender }));
        }
        let owner = self.vm().msg_sender();
        self.allowances.setter(owner).insert(spender, value);
        self.vm().log(Approval { owner, spender, value });
        Ok(true)
    }

    pub fn transfer_from(&mut self, from: Address, to: Address, value: U256) -> Result<bool, TokenError> {
        let spender = self.vm().msg_sender();
        self.spend_allowance(from, spender, value)?;
        self.move_tokens(from, to, value)?;
        Ok(true)
    }
}

impl Token {
    /// An allowance of 2^256 - 1 is not reduced.
    fn spend_allowance(&mut self, owner: Address, spender: Address, needed: U256) -> Result<(), TokenError> {
        let allowance = self.allowances.getter(owner).get(spender);
        if allowance == U256::MAX {
            return Ok(());
        }
        let Some(rest) = allowance.checked_sub(needed) else {
            return Err(TokenError::InsufficientAllowance(ERC20InsufficientAllowance { spender, allowance, needed }));
        };
        self.allowances.setter(owner).insert(spender, rest);
        Ok(())
    }

    fn move_tokens(&mut self, from: Address, to: Address, value: U256) -> Result<(), TokenError> {
        if to.is_zero() {
            return Err(TokenError::InvalidReceiver(ERC20InvalidReceiver { receiver: to }));
        }
        let balance = self.balances.get(from);
        let Some(rest) = balance.checked_sub(value) else {
            return Err(TokenError::InsufficientBalance(ERC20InsufficientBalance { sender: from, balance, needed: value }));
        };
        self.balances.insert(from, rest);
        // Read after the write, so that a transfer to oneself changes nothing. The sum is at most the total supply.
        let received = self.balances.get(to) + value;
        self.balances.insert(to, received);
        self.vm().log(Transfer { from, to, value });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stylus_sdk::testing::*;

    const CREATOR: Address = Address::repeat_byte(0xc0);
    const ALICE: Address = Address::repeat_byte(0xa1);
    const BOB: Address = Address::repeat_byte(0xb0);

    fn token(vm: &TestVM) -> Token {
        vm.set_sender(CREATOR);
        let mut token = Token::from(vm);
        token.constructor("Cornice".into(), "CRN".into(), U256::from(1_000));
        token
    }

    #[test]
    fn creator_owns_supply() {
        let vm = TestVM::default();
        let token = token(&vm);
        assert_eq!(token.name(), "Cornice");
        assert_eq!(token.symbol(), "CRN");
        assert_eq!(token.decimals(), U8::from(18));
        assert_eq!(token.total_supply(), U256::from(1_000));
        assert_eq!(token.balance_of(CREATOR), U256::from(1_000));
        assert_eq!(vm.get_emitted_logs().len(), 1);
    }

    #[test]
    fn transfer_moves_tokens() {
        let vm = TestVM::default();
        let mut token = token(&vm);
        assert!(matches!(token.transfer(ALICE, U256::from(10)), Ok(true)));
        assert_eq!(token.balance_of(CREATOR), U256::from(990));
        assert_eq!(token.balance_of(ALICE), U256::from(10));
        assert_eq!(token.total_supply(), U256::from(1_000));
    }

    #[test]
    fn self_transfer_changes_nothing() {
        let vm = TestVM::default();
        let mut token = token(&vm);
        assert!(token.transfer(CREATOR, U256::from(10)).is_ok());
        assert_eq!(token.balance_of(CREATOR), U256::from(1_000));
    }

    #[test]
    fn rejects_overdraft_and_zero_receiver() {
        let vm = TestVM::default();
        let mut token = token(&vm);
        match token.transfer(ALICE, U256::from(1_001)) {
            Err(TokenError::InsufficientBalance(error)) => {
                assert_eq!((error.balance, error.needed), (U256::from(1_000), U256::from(1_001)));
            }
            _ => panic!("expected ERC20InsufficientBalance"),
        }
        assert!(matches!(token.transfer(Address::ZERO, U256::from(1)), Err(TokenError::InvalidReceiver(_))));
    }

    #[test]
    fn infinite_allowance_is_not_spent() {
        let vm = TestVM::default();
        let mut token = token(&vm);
        assert!(token.approve(ALICE, U256::from(100)).is_ok());
        vm.set_sender(ALICE);
        assert!(token.transfer_from(CREATOR, BOB, U256::from(60)).is_ok());
        assert_eq!(token.allowance(CREATOR, ALICE), U256::from(40));
        assert!(matches!(token.transfer_from(CREATOR, BOB, U256::from(60)), Err(TokenError::InsufficientAllowance(_))));
        vm.set_sender(CREATOR);
        assert!(token.approve(ALICE, U256::MAX).is_ok());
        vm.set_sender(ALICE);
        assert!(token.transfer_from(CREATOR, BOB, U256::from(60)).is_ok());
        assert_eq!(token.allowance(CREATOR, ALICE), U256::MAX);
        assert_eq!(token.balance_of(BOB), U256::from(120));
    }
}
