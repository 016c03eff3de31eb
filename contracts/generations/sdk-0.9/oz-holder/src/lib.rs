//! OpenZeppelin's receivers: a contract that accepts ERC-721 and ERC-1155 tokens.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::vec::Vec;
use alloy_primitives::{aliases::B32, Address, U256};
use openzeppelin_stylus::{
    token::{
        erc1155::{receiver::IErc1155Receiver, utils::Erc1155Holder},
        erc721::{receiver::IErc721Receiver, utils::Erc721Holder},
    },
    utils::introspection::erc165::IErc165,
};
use stylus_sdk::{abi::Bytes, prelude::*};

#[entrypoint]
#[storage]
struct Holder {
    erc721: Erc721Holder,
    erc1155: Erc1155Holder,
}

#[public]
#[implements(IErc721Receiver, IErc1155Receiver, IErc165)]
impl Holder {}

#[public]
impl IErc721Receiver for Holder {
    #[selector(name = "onERC721Received")]
    fn on_erc721_received(&mut self, operator: Address, from: Address, token_id: U256, data: Bytes) -> Result<B32, Vec<u8>> {
        self.erc721.on_erc721_received(operator, from, token_id, data)
    }
}

#[public]
impl IErc1155Receiver for Holder {
    #[selector(name = "onERC1155Received")]
    fn on_erc1155_received(
        &mut self,
        operator: Address,
        from: Address,
        id: U256,
        value: U256,
        data: Bytes,
    ) -> Result<B32, Vec<u8>> {
        self.erc1155.on_erc1155_received(operator, from, id, value, data)
    }

    #[selector(name = "onERC1155BatchReceived")]
    fn on_erc1155_batch_received(
        &mut self,
        operator: Address,
        from: Address,
        ids: Vec<U256>,
        values: Vec<U256>,
        data: Bytes,
    ) -> Result<B32, Vec<u8>> {
        self.erc1155.on_erc1155_batch_received(operator, from, ids, values, data)
    }
}

#[public]
impl IErc165 for Holder {
    fn supports_interface(&self, interface_id: B32) -> bool {
        self.erc1155.supports_interface(interface_id)
    }
}
