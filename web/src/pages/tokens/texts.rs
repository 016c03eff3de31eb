//! Texts about tokens.

pub const TOKEN: &str = "Token";
pub const LIST_NOTE: &str = "Contracts with token events, by number of holders. Names are chosen by the contract and may be misleading: \
     identify a token by its address.";
pub const NAMELESS: &str = "(no name)";
pub const INCONSISTENT: &str = "inconsistent events";
pub const INCONSISTENT_NOTE: &str = "The indexed events of this contract transfer more than the holders had, or mint more than 256 bits hold. Supply and \
     balances follow the events and may differ from the state of the contract.";
pub const ERC20: &str = "ERC-20";
pub const ERC721: &str = "ERC-721";
pub const ERC1155: &str = "ERC-1155";
pub const ADDRESS: &str = "Contract";
pub const STANDARD: &str = "Standard";
pub const HOLDERS: &str = "Holders";
pub const TRANSFERS: &str = "Transfers";
pub const SUPPLY: &str = "Total supply";
