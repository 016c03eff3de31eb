//! OpenZeppelin's ERC-1155 with burning, also in batches. Any account mints.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::vec::Vec;
use alloy_primitives::{aliases::B32, Address, U256};
use openzeppelin_stylus::{
    token::erc1155::{extensions::IErc1155Burnable, Erc1155, Error, IErc1155},
    utils::introspection::erc165::IErc165,
};
use stylus_sdk::{abi::Bytes, prelude::*};

#[entrypoint]
#[storage]
struct Items {
    erc1155: Erc1155,
}

#[public]
#[implements(IErc1155<Error = Error>, IErc1155Burnable<Error = Error>, IErc165)]
impl Items {
    fn mint(&mut self, to: Address, id: U256, value: U256, data: Bytes) -> Result<(), Error> {
        self.erc1155._mint(to, id, value, &data)
    }

    fn mint_batch(&mut self, to: Address, ids: Vec<U256>, values: Vec<U256>, data: Bytes) -> Result<(), Error> {
        self.erc1155._mint_batch(to, ids, values, &data)
    }
}

#[public]
impl IErc1155 for Items {
    type Error = Error;

    fn balance_of(&self, account: Address, id: U256) -> U256 {
        self.erc1155.balance_of(account, id)
    }

    fn balance_of_batch(&self, accounts: Vec<Address>, ids: Vec<U256>) -> Result<Vec<U256>, Error> {
        self.erc1155.balance_of_batch(accounts, ids)
    }

    fn set_approval_for_all(&mut self, operator: Address, approved: bool) -> Result<(), Error> {
        self.erc1155.set_approval_for_all(operator, approved)
    }

    fn is_approved_for_all(&self, account: Address, operator: Address) -> bool {
        self.erc1155.is_approved_for_all(account, operator)
    }

    fn safe_transfer_from(&mut self, from: Address, to: Address, id: U256, value: U256, data: Bytes) -> Result<(), Error> {
        self.erc1155.safe_transfer_from(from, to, id, value, data)
    }

    fn safe_batch_transfer_from(
        &mut self,
        from: Address,
        to: Address,
        ids: Vec<U256>,
        values: Vec<U256>,
        data: Bytes,
    ) -> Result<(), Error> {
        self.erc1155.safe_batch_transfer_from(from, to, ids, values, data)
    }
}

#[public]
impl IErc1155Burnable for Items {
    type Error = Error;

    fn burn(&mut self, account: Address, token_id: U256, value: U256) -> Result<(), Error> {
        self.erc1155.burn(account, token_id, value)
    }

    fn burn_batch(&mut self, account: Address, token_ids: Vec<U256>, values: Vec<U256>) -> Result<(), Error> {
        self.erc1155.burn_batch(account, token_ids, values)
    }
}

#[public]
impl IErc165 for Items {
    fn supports_interface(&self, interface_id: B32) -> bool {
        self.erc1155.supports_interface(interface_id)
    }
}
