//! OpenZeppelin's ERC-721 with burning. Accounts with the minter role mint.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::vec::Vec;
use alloy_primitives::{aliases::B32, Address, B256, U256};
use openzeppelin_stylus::{
    access::control::{AccessControl, IAccessControl},
    token::erc721::{extensions::IErc721Burnable, Erc721, IErc721},
    utils::introspection::erc165::IErc165,
};
use stylus_sdk::{abi::Bytes, prelude::*};

/// keccak-256 of `MINTER_ROLE`.
const MINTER_ROLE: [u8; 32] = stylus_sdk::keccak_const::Keccak256::new().update(b"MINTER_ROLE").finalize();

#[entrypoint]
#[storage]
struct Collectible {
    erc721: Erc721,
    access: AccessControl,
}

#[public]
#[implements(IErc721<Error = Vec<u8>>, IErc721Burnable<Error = Vec<u8>>, IAccessControl<Error = Vec<u8>>, IErc165)]
impl Collectible {
    #[constructor]
    fn constructor(&mut self, admin: Address) {
        self.access._grant_role(AccessControl::DEFAULT_ADMIN_ROLE.into(), admin);
    }

    fn mint(&mut self, to: Address, token_id: U256) -> Result<(), Vec<u8>> {
        self.access.only_role(MINTER_ROLE.into())?;
        Ok(self.erc721._mint(to, token_id)?)
    }

    fn safe_mint(&mut self, to: Address, token_id: U256, data: Bytes) -> Result<(), Vec<u8>> {
        self.access.only_role(MINTER_ROLE.into())?;
        Ok(self.erc721._safe_mint(to, token_id, &data)?)
    }
}

#[public]
impl IErc721 for Collectible {
    type Error = Vec<u8>;

    fn balance_of(&self, owner: Address) -> Result<U256, Self::Error> {
        Ok(self.erc721.balance_of(owner)?)
    }

    fn owner_of(&self, token_id: U256) -> Result<Address, Self::Error> {
        Ok(self.erc721.owner_of(token_id)?)
    }

    fn safe_transfer_from(&mut self, from: Address, to: Address, token_id: U256) -> Result<(), Self::Error> {
        Ok(self.erc721.safe_transfer_from(from, to, token_id)?)
    }

    #[selector(name = "safeTransferFrom")]
    fn safe_transfer_from_with_data(
        &mut self,
        from: Address,
        to: Address,
        token_id: U256,
        data: Bytes,
    ) -> Result<(), Self::Error> {
        Ok(self.erc721.safe_transfer_from_with_data(from, to, token_id, data)?)
    }

    fn transfer_from(&mut self, from: Address, to: Address, token_id: U256) -> Result<(), Self::Error> {
        Ok(self.erc721.transfer_from(from, to, token_id)?)
    }

    fn approve(&mut self, to: Address, token_id: U256) -> Result<(), Self::Error> {
        Ok(self.erc721.approve(to, token_id)?)
    }

    fn set_approval_for_all(&mut self, operator: Address, approved: bool) -> Result<(), Self::Error> {
        Ok(self.erc721.set_approval_for_all(operator, approved)?)
    }

    fn get_approved(&self, token_id: U256) -> Result<Address, Self::Error> {
        Ok(self.erc721.get_approved(token_id)?)
    }

    fn is_approved_for_all(&self, owner: Address, operator: Address) -> bool {
        self.erc721.is_approved_for_all(owner, operator)
    }
}

#[public]
impl IErc721Burnable for Collectible {
    type Error = Vec<u8>;

    fn burn(&mut self, token_id: U256) -> Result<(), Self::Error> {
        Ok(self.erc721.burn(token_id)?)
    }
}

#[public]
impl IAccessControl for Collectible {
    type Error = Vec<u8>;

    fn has_role(&self, role: B256, account: Address) -> bool {
        self.access.has_role(role, account)
    }

    fn only_role(&self, role: B256) -> Result<(), Self::Error> {
        Ok(self.access.only_role(role)?)
    }

    fn get_role_admin(&self, role: B256) -> B256 {
        self.access.get_role_admin(role)
    }

    fn grant_role(&mut self, role: B256, account: Address) -> Result<(), Self::Error> {
        Ok(self.access.grant_role(role, account)?)
    }

    fn revoke_role(&mut self, role: B256, account: Address) -> Result<(), Self::Error> {
        Ok(self.access.revoke_role(role, account)?)
    }

    fn renounce_role(&mut self, role: B256, confirmation: Address) -> Result<(), Self::Error> {
        Ok(self.access.renounce_role(role, confirmation)?)
    }
}

#[public]
impl IErc165 for Collectible {
    fn supports_interface(&self, interface_id: B32) -> bool {
        self.erc721.supports_interface(interface_id) || self.access.supports_interface(interface_id)
    }
}
