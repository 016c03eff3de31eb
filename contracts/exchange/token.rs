//! Calls of untrusted ERC-20 tokens. A transfer succeeded if it did not revert and returned `true` or, as some old
//! tokens do, nothing. Both contracts of this folder include this file.

use alloc::vec::Vec;
use alloy_primitives::{Address, U256};
use alloy_sol_types::{sol, SolCall};
use stylus_sdk::call::{call, static_call};
use stylus_sdk::prelude::*;
use stylus_sdk::stylus_core::calls::errors::{Error as CallError, MethodError};

mod erc20 {
    use super::sol;

    sol! {
        function balanceOf(address account) returns (uint256);
        function transfer(address to, uint256 value) returns (bool);
        function transferFrom(address from, address to, uint256 value) returns (bool);
    }
}

sol! {
    /// The token returned `false`, or data that is not ERC-20's.
    error TokenRefused(address token);
}

/// A failed call to a token.
#[derive(SolidityError)]
pub enum TokenError {
    Refused(TokenRefused),
    /// The token reverted. Its error is passed on.
    Reverted(CallError),
}

/// Makes it usable as a variant of a contract's error.
impl MethodError for TokenError {
    fn encode(self) -> Vec<u8> {
        self.into()
    }
}

pub fn balance_of<C: HostAccess>(caller: &C, token: Address, account: Address) -> Result<U256, TokenError> {
    let answer = static_call(caller.vm(), Call::new(), token, &erc20::balanceOfCall { account }.abi_encode())?;
    U256::try_from_be_slice(&answer).filter(|_| answer.len() == 32).ok_or(TokenError::Refused(TokenRefused { token }))
}

#[allow(dead_code)] // The router does not use this.
pub fn transfer<C: HostAccess + TopLevelStorage>(
    caller: &mut C,
    token: Address,
    to: Address,
    value: U256,
) -> Result<(), TokenError> {
    done(caller, token, erc20::transferCall { to, value }.abi_encode())
}

#[allow(dead_code)] // The pool does not use this.
pub fn transfer_from<C: HostAccess + TopLevelStorage>(
    caller: &mut C,
    token: Address,
    from: Address,
    to: Address,
    value: U256,
) -> Result<(), TokenError> {
    done(caller, token, erc20::transferFromCall { from, to, value }.abi_encode())
}

fn done<C: HostAccess + TopLevelStorage>(caller: &mut C, token: Address, data: Vec<u8>) -> Result<(), TokenError> {
    let context = Call::new_mutating(caller);
    let answer = call(caller.vm(), context, token, &data)?;
    if answer.is_empty() || U256::try_from_be_slice(&answer) == Some(U256::ONE) {
        return Ok(());
    }
    Err(TokenError::Refused(TokenRefused { token }))
}
