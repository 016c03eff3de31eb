//! Tokens for tests of pages, and what tests read from a page.

pub use crate::testing::{TestApp, test_app};

use super::tokens::Token;
use crate::database::Rows;
use alloy_primitives::{Address, U256};

/// An ERC-20 token with this number of holders.
pub fn token(address: Address, holders: u64) -> Token {
    let (name, symbol) = ("Gold".to_owned(), "GLD".to_owned());
    let supply = U256::from(1_000);
    Token { address, standard: 20, name, symbol, decimals: 0, supply, holders, transfers: 1, first_block: 1, consistent: true }
}

impl TestApp {
    pub async fn write_tokens(&self, tokens: &[Token]) {
        let columns = &[
            "address",
            "standard",
            "name",
            "symbol",
            "name_key",
            "symbol_key",
            "decimals",
            "supply",
            "holders",
            "transfers",
            "first_block",
            "consistent",
        ];
        let mut rows = Rows::new("tokens", columns);
        for token in tokens {
            rows.push([
                token.address.into(),
                token.standard.into(),
                token.name.clone().into(),
                token.symbol.clone().into(),
                Vec::new().into(),
                Vec::new().into(),
                token.decimals.into(),
                token.supply.into(),
                token.holders.into(),
                token.transfers.into(),
                token.first_block.into(),
                token.consistent.into(),
            ]);
        }
        self.write(rows).await;
    }
}

/// Returns the link with this id in a picture, with its content.
pub fn drawn<'a>(page: &'a str, id: &str) -> &'a str {
    let at = page.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("{id} is not in {page}"));
    let begin = page[..at].rfind("<a ").unwrap();
    let length = page[begin..].find("</a>").unwrap();
    &page[begin..begin + length]
}

/// Returns the rest of each link on a page that starts with `prefix`, in order.
pub fn links(page: &str, prefix: &str) -> Vec<String> {
    let start = format!("href=\"{prefix}");
    page.split(&start).skip(1).map(|rest| rest.split('"').next().unwrap().replace("&amp;", "&")).collect()
}
