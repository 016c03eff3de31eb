//! List of tokens, and parts that all pages of tokens share.

pub(crate) mod texts;

use super::{
    Failure, Page, Query, ROWS,
    cursor::{self, Below},
    layout, parts,
};
use crate::{
    app_state::AppState,
    database::{Read, int, sql},
    format, links,
    texts::nav,
};
use alloy_primitives::{Address, U256};
use axum::extract::State;
use maud::{Markup, html};
use sqlx::any::AnyRow;
use std::sync::Arc;

/// Query for tokens below a row, those with the most holders first.
pub const LIST: &str = "SELECT address, standard, name, symbol, decimals, supply, holders, transfers, first_block, consistent FROM tokens WHERE \
                        (holders, address) < ($1, $2) ORDER BY holders DESC, address DESC LIMIT $3";

/// A token from the database.
#[derive(Clone, Debug)]
pub struct Token {
    /// Address of the contract.
    pub address: Address,
    /// 20, 721 or 1155.
    pub standard: u64,
    /// Name. A third party chose it.
    pub name: String,
    /// Symbol. A third party chose it.
    pub symbol: String,
    /// Decimals of its amounts; 0 for tokens with ids.
    pub decimals: u64,
    /// Supply according to its events.
    pub supply: U256,
    /// Number of accounts with a balance.
    pub holders: u64,
    /// Total number of transfers.
    pub transfers: u64,
    /// Block of its first event.
    pub first_block: u64,
    /// `true` if its events do not contradict each other.
    pub consistent: bool,
}

impl Token {
    /// Reads a row of `tokens`.
    pub fn read(row: &AnyRow) -> Result<Self, Failure> {
        Ok(Self {
            address: row.address("address")?,
            standard: row.number("standard")?,
            name: row.text("name")?,
            symbol: row.text("symbol")?,
            decimals: row.number("decimals")?,
            supply: row.amount("supply")?,
            holders: row.number("holders")?,
            transfers: row.number("transfers")?,
            first_block: row.number("first_block")?,
            consistent: row.int("consistent")? == 1,
        })
    }

    /// Returns `true` if its units have ids.
    pub fn has_ids(&self) -> bool {
        self.standard != 20
    }

    /// An amount of it, with its symbol.
    pub fn amount(&self, amount: U256) -> Markup {
        html! { (parts::tokens(amount, self.decimals)) @if !self.symbol.is_empty() { " " (parts::symbol(&self.symbol)) } }
    }
}

/// Name of a token standard.
pub fn standard(standard: u64) -> &'static str {
    match standard {
        721 => texts::ERC721,
        1155 => texts::ERC1155,
        _ => texts::ERC20,
    }
}

/// Name and symbol of a token. The `bdi` element isolates them: text of a third party cannot reorder the line around it.
pub fn name(token: &Token) -> Markup {
    html! {
        @if token.name.is_empty() { (texts::NAMELESS) } @else { bdi .stranger { (token.name) } }
        @if !token.symbol.is_empty() { " " (parts::symbol(&token.symbol)) }
    }
}

/// Tag for a token whose numbers are not reliable.
pub fn inconsistent_tag(consistent: bool) -> Markup {
    html! { @if !consistent { " " span .tag.bad title=(texts::INCONSISTENT_NOTE) { (texts::INCONSISTENT) } } }
}

/// `/tokens`
pub async fn list(State(app): State<Arc<AppState>>, Query(from): Query<Below>) -> Page {
    let ([holders], address) = from.row()?;
    let holders: u64 = holders.saturating_to();
    let query = sql(LIST).bind(int(holders)).bind(address.to_vec()).bind(ROWS + 1);
    let rows = query.fetch_all(app.database.readers()).await?;
    let mut tokens: Vec<Token> = rows.iter().map(Token::read).collect::<Result<_, _>>()?;
    let last = cursor::cut(&mut tokens, ROWS).map(|token| cursor::below([U256::from(token.holders)], token.address));
    let columns = [texts::TOKEN, texts::ADDRESS, texts::STANDARD, texts::HOLDERS, texts::TRANSFERS, texts::SUPPLY];
    let body = html! {
        h1 { (nav::TOKENS) }
        p .note { (texts::LIST_NOTE) }
        div #tokens data-live=[from.is_first().then_some("tokens")] {
            (parts::table(nav::TOKENS, &columns, tokens.iter().map(cells).collect()))
            (parts::next_pages(links::TOKENS, last, from.is_first()))
        }
    };
    Ok(layout::page(&app, nav::TOKENS, body))
}

fn cells(token: &Token) -> Vec<Markup> {
    vec![
        html! {
            a href=(links::token(token.address)) { (name(token)) }
            (inconsistent_tag(token.consistent))
        },
        parts::account(token.address),
        html! { (standard(token.standard)) },
        html! { (format::number(token.holders)) },
        html! { (format::number(token.transfers)) },
        token.amount(token.supply),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::testing;
    use std::collections::BTreeSet;

    #[tokio::test]
    async fn pagination_visits_every_token_once() {
        let filled = testing::test_app().await;
        // Several tokens have the same number of holders; the address decides their order.
        let tokens: Vec<_> =
            (0..60).map(|at| testing::token(Address::left_padding_from(&[7, at]), u64::from(at) / 20)).collect();
        filled.write_tokens(&tokens).await;
        let (mut from, mut seen, mut pages) = (Below::default(), Vec::new(), 0);
        loop {
            let page = list(State(Arc::clone(&filled.app)), Query(from)).await.unwrap().0.into_string();
            seen.extend(testing::links(&page, "/token/"));
            pages += 1;
            let Some(next) = testing::links(&page, "/tokens?below=").pop() else { break };
            from = Below { below: Some(next), id: None };
        }
        assert_eq!((pages, seen.len()), (3, 60));
        assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 60);
        let expected = |at: u8| Address::left_padding_from(&[7, at]).to_string();
        assert_eq!((&seen[0], &seen[59]), (&expected(59), &expected(0)));
    }

    #[tokio::test]
    async fn untrusted_names_are_escaped() {
        let filled = testing::test_app().await;
        let mut evil = testing::token(Address::repeat_byte(9), 1);
        evil.name = "</bdi><script>alert(1)</script>\" onload=\"x".into();
        evil.symbol = "<img src=x>".into();
        evil.consistent = false;
        filled.write_tokens(&[evil]).await;
        let page = list(State(Arc::clone(&filled.app)), Query(Below::default())).await.unwrap().0.into_string();
        assert!(
            page.contains(
                "<bdi class=\"stranger\">&lt;/bdi&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot; onload=&quot;x</bdi>"
            ),
            "{page}"
        );
        assert!(!page.contains("<img") && !page.contains("<script>"), "{page}");
        assert!(page.contains(texts::INCONSISTENT), "{page}");
    }

    #[tokio::test]
    async fn list_uses_index() {
        let plan = testing::test_app().await.app.database.plan(LIST).await.unwrap().join("\n");
        assert!(plan.contains("tokens_by_holders") && !plan.contains("SCAN") && !plan.contains("TEMP"), "{plan}");
    }
}
