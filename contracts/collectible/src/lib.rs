//! Unique tokens (ERC-721), complete: transfers that ask the receiver, approvals for one token or for all, metadata.
//!
//! Invariant: the owner has changed and the event is emitted before the contract calls the receiver. If the receiver refuses,
//! the whole transaction reverts.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

mod errors;
mod receiver;
#[cfg(test)]
mod tests;

use alloc::{format, string::String, vec::Vec};
use alloy_primitives::{fixed_bytes, Address, FixedBytes, U256};
use alloy_sol_types::sol;
use corniche_contract::Balances;
use errors::*;
use stylus_sdk::{abi::Bytes, prelude::*};

corniche_contract::abi!();

sol! {
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);
    event Approval(address indexed owner, address indexed approved, uint256 indexed tokenId);
    event ApprovalForAll(address indexed owner, address indexed operator, bool approved);
}

/// Interface ids of ERC-165, ERC-721 and ERC-721 metadata.
const INTERFACES: [FixedBytes<4>; 3] = [fixed_bytes!("01ffc9a7"), fixed_bytes!("80ac58cd"), fixed_bytes!("5b5e139f")];

sol_storage! {
    #[entrypoint]
    pub struct Collectible {
        string name;
        string symbol;
        /// A token's URI is this, followed by its number.
        string base_uri;
        /// May mint.
        address creator;
        /// Number of tokens ever minted, and the next token's number.
        uint256 minted;
        mapping(uint256 => address) owners;
        Balances balances;
        /// Account that may move one token, besides its owner.
        mapping(uint256 => address) approved;
        /// Accounts that may move all tokens of an owner.
        mapping(address => mapping(address => bool)) operators;
    }
}

#[public]
impl Collectible {
    #[constructor]
    pub fn constructor(&mut self, name: String, symbol: String, base_uri: String) {
        self.name.set_str(name);
        self.symbol.set_str(symbol);
        self.base_uri.set_str(base_uri);
        let creator = self.vm().msg_sender();
        self.creator.set(creator);
    }

    pub fn name(&self) -> String {
        self.name.get_string()
    }

    pub fn symbol(&self) -> String {
        self.symbol.get_string()
    }

    #[selector(name = "tokenURI")]
    pub fn token_uri(&self, token_id: U256) -> Result<String, Error> {
        self.owner_of(token_id)?;
        Ok(format!("{}{token_id}", self.base_uri.get_string()))
    }

    pub fn supports_interface(&self, interface_id: FixedBytes<4>) -> bool {
        INTERFACES.contains(&interface_id)
    }

    pub fn balance_of(&self, owner: Address) -> Result<U256, Error> {
        if owner.is_zero() {
            return Err(ERC721InvalidOwner { owner }.into());
        }
        Ok(self.balances.of(owner))
    }

    pub fn owner_of(&self, token_id: U256) -> Result<Address, Error> {
        let owner = self.owners.get(token_id);
        if owner.is_zero() {
            return Err(ERC721NonexistentToken { tokenId: token_id }.into());
        }
        Ok(owner)
    }

    pub fn get_approved(&self, token_id: U256) -> Result<Address, Error> {
        self.owner_of(token_id)?;
        Ok(self.approved.get(token_id))
    }

    pub fn is_approved_for_all(&self, owner: Address, operator: Address) -> bool {
        self.operators.getter(owner).get(operator)
    }

    /// Lets an account move one token, until it moves. The zero address revokes this.
    pub fn approve(&mut self, to: Address, token_id: U256) -> Result<(), Error> {
        let caller = self.vm().msg_sender();
        let owner = self.owner_of(token_id)?;
        if caller != owner && !self.is_approved_for_all(owner, caller) {
            return Err(ERC721InvalidApprover { approver: caller }.into());
        }
        self.approved.insert(token_id, to);
        self.vm().log(Approval { owner, approved: to, tokenId: token_id });
        Ok(())
    }

    /// Lets an account move all present and future tokens of the caller.
    pub fn set_approval_for_all(&mut self, operator: Address, approved: bool) -> Result<(), Error> {
        if operator.is_zero() {
            return Err(ERC721InvalidOperator { operator }.into());
        }
        let owner = self.vm().msg_sender();
        self.operators.setter(owner).insert(operator, approved);
        self.vm().log(ApprovalForAll { owner, operator, approved });
        Ok(())
    }

    /// Moves a token without asking the receiver. A contract that cannot move it on keeps it for ever.
    pub fn transfer_from(&mut self, from: Address, to: Address, token_id: U256) -> Result<(), Error> {
        if to.is_zero() {
            return Err(ERC721InvalidReceiver { receiver: to }.into());
        }
        let owner = self.may_move(token_id)?;
        if owner != from {
            return Err(ERC721IncorrectOwner { sender: from, tokenId: token_id, owner }.into());
        }
        self.hand_over(owner, to, token_id)
    }

    /// Moves a token to an account, or to a contract that accepts it.
    #[selector(name = "safeTransferFrom")]
    pub fn safe_transfer_from(&mut self, from: Address, to: Address, token_id: U256) -> Result<(), Error> {
        self.safe_transfer_from_with_data(from, to, token_id, Vec::new().into())
    }

    /// As above, with data for the receiver.
    #[selector(name = "safeTransferFrom")]
    pub fn safe_transfer_from_with_data(
        &mut self,
        from: Address,
        to: Address,
        token_id: U256,
        data: Bytes,
    ) -> Result<(), Error> {
        self.transfer_from(from, to, token_id)?;
        receiver::ask(self, from, to, token_id, data)
    }

    /// Creates a token. Only the creator may call. Returns its number.
    pub fn mint(&mut self, to: Address) -> Result<U256, Error> {
        let caller = self.vm().msg_sender();
        if caller != self.creator.get() {
            return Err(OwnableUnauthorizedAccount { account: caller }.into());
        }
        if to.is_zero() {
            return Err(ERC721InvalidReceiver { receiver: to }.into());
        }
        let token_id = self.minted.get();
        self.minted.set(token_id + U256::from(1));
        self.hand_over(Address::ZERO, to, token_id)?;
        Ok(token_id)
    }

    /// As `mint`, if the receiver accepts the token.
    pub fn safe_mint(&mut self, to: Address, data: Bytes) -> Result<U256, Error> {
        let token_id = self.mint(to)?;
        receiver::ask(self, Address::ZERO, to, token_id, data)?;
        Ok(token_id)
    }

    /// Destroys a token. Its number is never reused.
    pub fn burn(&mut self, token_id: U256) -> Result<(), Error> {
        let owner = self.may_move(token_id)?;
        self.hand_over(owner, Address::ZERO, token_id)
    }
}

impl Collectible {
    /// Returns the token's owner, if the caller may move it.
    fn may_move(&self, token_id: U256) -> Result<Address, Error> {
        let caller = self.vm().msg_sender();
        let owner = self.owner_of(token_id)?;
        if caller == owner || caller == self.approved.get(token_id) || self.is_approved_for_all(owner, caller) {
            return Ok(owner);
        }
        Err(ERC721InsufficientApproval { operator: caller, tokenId: token_id }.into())
    }

    /// `from` zero means creation, `to` zero destruction.
    fn hand_over(&mut self, from: Address, to: Address, token_id: U256) -> Result<(), Error> {
        let one = U256::from(1);
        // Neither can fail: an owner of a token has at least one, and there are fewer than 2^256.
        let counted = (from.is_zero() || self.balances.debit(from, one)) && (to.is_zero() || self.balances.credit(to, one));
        if !counted {
            return Err(ERC721InvalidSender { sender: from }.into());
        }
        self.owners.insert(token_id, to);
        self.approved.insert(token_id, Address::ZERO);
        self.vm().log(Transfer { from, to, tokenId: token_id });
        Ok(())
    }
}
