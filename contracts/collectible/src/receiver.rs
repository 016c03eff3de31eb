//! Asks a receiver to accept a token.

use crate::errors::{CallError, ERC721InvalidReceiver, Error};
use crate::Collectible;
use alloy_primitives::{Address, U256};
use alloy_sol_types::{sol, SolCall};
use stylus_sdk::call::call;
use stylus_sdk::{abi::Bytes, prelude::*};

sol! {
    function onERC721Received(address operator, address from, uint256 tokenId, bytes data) returns (bytes4);
}

/// An account without code accepts every token. A contract accepts by returning the function's own selector. During this call the
/// receiver already owns the token.
pub fn ask(tokens: &mut Collectible, from: Address, to: Address, token_id: U256, data: Bytes) -> Result<(), Error> {
    if tokens.vm().code_size(to) == 0 {
        return Ok(());
    }
    let operator = tokens.vm().msg_sender();
    let question = onERC721ReceivedCall { operator, from, tokenId: token_id, data: data.0.into() }.abi_encode();
    let context = Call::new_mutating(tokens);
    match call(tokens.vm(), context, to, &question) {
        Ok(answer)
            if onERC721ReceivedCall::abi_decode_returns(&answer).is_ok_and(|it| it == onERC721ReceivedCall::SELECTOR) =>
        {
            Ok(())
        }
        Err(CallError::Revert(reason)) if !reason.is_empty() => Err(CallError::Revert(reason).into()),
        _ => Err(ERC721InvalidReceiver { receiver: to }.into()),
    }
}
