//! Errors of ERC-6093, which wallets and explorers know.

use alloy_sol_types::sol;
use stylus_sdk::prelude::*;
pub use stylus_sdk::stylus_core::errors::Error as CallError;

sol! {
    #[derive(Debug, PartialEq, Eq)]
    error ERC721InvalidOwner(address owner);
    #[derive(Debug, PartialEq, Eq)]
    error ERC721NonexistentToken(uint256 tokenId);
    #[derive(Debug, PartialEq, Eq)]
    error ERC721IncorrectOwner(address sender, uint256 tokenId, address owner);
    #[derive(Debug, PartialEq, Eq)]
    error ERC721InvalidSender(address sender);
    #[derive(Debug, PartialEq, Eq)]
    error ERC721InvalidReceiver(address receiver);
    #[derive(Debug, PartialEq, Eq)]
    error ERC721InsufficientApproval(address operator, uint256 tokenId);
    #[derive(Debug, PartialEq, Eq)]
    error ERC721InvalidApprover(address approver);
    #[derive(Debug, PartialEq, Eq)]
    error ERC721InvalidOperator(address operator);
    /// The caller is not the creator.
    #[derive(Debug, PartialEq, Eq)]
    error OwnableUnauthorizedAccount(address account);
}

#[derive(Debug, PartialEq, SolidityError)]
pub enum Error {
    InvalidOwner(ERC721InvalidOwner),
    NonexistentToken(ERC721NonexistentToken),
    IncorrectOwner(ERC721IncorrectOwner),
    InvalidSender(ERC721InvalidSender),
    InvalidReceiver(ERC721InvalidReceiver),
    InsufficientApproval(ERC721InsufficientApproval),
    InvalidApprover(ERC721InvalidApprover),
    InvalidOperator(ERC721InvalidOperator),
    Unauthorized(OwnableUnauthorizedAccount),
    /// The receiver's revert data, passed on unchanged.
    Receiver(CallError),
}
