//! What an account holds of tokens, and who else may take it.

use super::{
    super::{Failure, Page, parts},
    history::{token, token_id},
    subject::{self, Subject},
};
use crate::{
    database::{Read, sql},
    links,
    site::Site,
    words::{account as words, list},
};
use alloy_primitives::{Address, U256};
use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use sqlx::any::AnyRow;
use std::sync::Arc;

/// Rows of these lists: one of each id, so there may be many.
const ROWS: i64 = 50;

/// An allowance from here on is meant to be without an end: wallets ask for 2^256 - 1, and some tokens count down from it.
const UNLIMITED: U256 = U256::from_limbs([0, 0, 0, 1 << 63]);

/// `approve(address,uint256)` and `setApprovalForAll(address,bool)`, by which an owner takes an allowance back.
const APPROVE: &str = "095ea7b3";
const APPROVE_ALL: &str = "a22cb465";

/// Where such a list begins: after the row of this key.
#[derive(Debug, Deserialize)]
pub struct After {
    /// The key's bytes in hexadecimal digits.
    after: Option<String>,
}

impl After {
    /// The key, cut into its parts; nothing is before the first row.
    fn parts<const N: usize>(&self, sizes: [usize; N]) -> Result<[Vec<u8>; N], Failure> {
        let Some(text) = &self.after else { return Ok([const { Vec::new() }; N]) };
        let bytes = hex::decode(text).ok().filter(|bytes| bytes.len() <= sizes.iter().sum::<usize>());
        let mut rest = bytes.ok_or_else(|| Failure::BadRequest(list::BAD_PLACE.into()))?;
        Ok(sizes.map(|size| {
            let tail = rest.split_off(size.min(rest.len()));
            std::mem::replace(&mut rest, tail)
        }))
    }
}

/// `/address/{address}/tokens`
pub async fn holdings(State(site): State<Arc<Site>>, Path(address): Path<String>, Query(after): Query<After>) -> Page {
    let subject = Subject::load(&site, &address).await?;
    let [from_token, from_id] = after.parts([20, 32])?;
    let text = "SELECT b.token, b.token_id, b.amount, t.standard, t.name, t.symbol, t.decimals, t.consistent \
                FROM balances b JOIN tokens t ON t.address = b.token WHERE b.holder = $1 AND (b.token, b.token_id) > ($2, $3) \
                ORDER BY b.token, b.token_id LIMIT $4";
    let query = sql(text).bind(subject.address.to_vec()).bind(from_token).bind(from_id).bind(ROWS);
    let rows = query.fetch_all(site.database.readers()).await?;
    let cells = |row: &AnyRow| -> Result<Vec<Markup>, Failure> {
        let id = row.bytes("token_id")?;
        let (standard, amount) = (row.number("standard")?, row.amount("amount")?);
        Ok(vec![
            html! { (token(row)?) " " span .symbol { (row.text("name")?) } @if row.int("consistent")? == 0 { " " span .tag.bad title=(words::INCONSISTENT_NOTE) { (words::INCONSISTENT) } } },
            html! { "ERC-" (standard) },
            if id.is_empty() {
                if standard == 20 {
                    html! { "–" }
                } else {
                    html! { span .note { (words::ALL_IDS) } }
                }
            } else {
                token_id(U256::from_be_slice(&id))
            },
            parts::tokens(amount, row.number("decimals")?),
        ])
    };
    let columns = [words::TOKEN, words::STANDARD, words::ID, words::AMOUNT];
    let table = parts::table(words::HOLDINGS, &columns, rows.iter().map(cells).collect::<Result<_, _>>()?);
    let next = full(&rows).map(|row| Ok::<_, Failure>([row.bytes("token")?, row.bytes("token_id")?].concat())).transpose()?;
    let here = links::account_part(subject.address, subject::HOLDINGS);
    let body = html! {
        section {
            h2 { (words::HOLDINGS) }
            p .note { (words::HOLDINGS_NOTE) }
            (table)
            (more(&here, next, &after))
        }
    };
    Ok(subject.page(&site, words::HOLDINGS, body))
}

/// `/address/{address}/approvals`
pub async fn approvals(State(site): State<Arc<Site>>, Path(address): Path<String>, Query(after): Query<After>) -> Page {
    let subject = Subject::load(&site, &address).await?;
    let [from_token, from_spender, from_id] = after.parts([20, 20, 32])?;
    let text = "SELECT a.token, a.spender, a.token_id, a.amount, a.place, t.standard, t.symbol, t.decimals, x.hash, x.time_ms FROM approvals a \
                LEFT JOIN tokens t ON t.address = a.token LEFT JOIN transactions x ON x.place = a.place \
                WHERE a.owner = $1 AND (a.token, a.spender, a.token_id) > ($2, $3, $4) ORDER BY a.token, a.spender, a.token_id LIMIT $5";
    let query = sql(text).bind(subject.address.to_vec()).bind(from_token).bind(from_spender).bind(from_id).bind(ROWS);
    let rows = query.fetch_all(site.database.readers()).await?;
    let cells = |row: &AnyRow| -> Result<Vec<Markup>, Failure> {
        let allowance = Allowance::read(row)?;
        let made = row.place("place")?;
        Ok(vec![
            token(row)?,
            parts::account(row.address("spender")?),
            allowance.markup(),
            html! { @match row.maybe_number("time_ms")? { Some(ms) => { (parts::time(ms)) " " (parts::transaction(row.hash("hash")?)) }, None => { (parts::block(made.block())) } } },
            allowance.revoke(row.address("token")?, row.address("spender")?),
        ])
    };
    let columns = [words::TOKEN, words::SPENDER, words::MAY, words::SINCE, words::REVOKE];
    let table = parts::table(words::APPROVALS, &columns, rows.iter().map(cells).collect::<Result<_, _>>()?);
    let key = |row: &AnyRow| Ok::<_, Failure>([row.bytes("token")?, row.bytes("spender")?, row.bytes("token_id")?].concat());
    let next = full(&rows).map(key).transpose()?;
    let here = links::account_part(subject.address, subject::APPROVALS);
    let body = html! {
        section {
            h2 { (words::APPROVALS) }
            p .note { (words::APPROVALS_NOTE) }
            (table)
            (more(&here, next, &after))
        }
    };
    Ok(subject.page(&site, words::APPROVALS, body))
}

/// How much somebody may take.
#[derive(Debug, PartialEq, Eq)]
enum Allowance {
    Nothing,
    Unlimited,
    Amount(U256, u64),
    AllIds,
    Id(U256),
}

impl Allowance {
    fn read(row: &AnyRow) -> Result<Self, Failure> {
        let id = row.bytes("token_id")?;
        let standard = row.maybe_number("standard")?.unwrap_or(0);
        let id = (!id.is_empty()).then(|| U256::from_be_slice(&id));
        Ok(Self::of(id, row.amount("amount")?, standard, row.maybe_number("decimals")?.unwrap_or(0)))
    }

    fn of(id: Option<U256>, amount: U256, standard: u64, decimals: u64) -> Self {
        match id {
            _ if amount.is_zero() => Self::Nothing,
            Some(id) => Self::Id(id),
            None if standard == 721 || standard == 1155 => Self::AllIds,
            None if amount >= UNLIMITED => Self::Unlimited,
            None => Self::Amount(amount, decimals),
        }
    }

    fn markup(&self) -> Markup {
        match self {
            Self::Nothing => html! { span .note { (words::MAY_NOTHING) } },
            Self::Unlimited => html! { span .tag.bad { (words::UNLIMITED) } " " (words::MAY_EVERYTHING) },
            Self::Amount(amount, decimals) => html! { (words::MAY_UP_TO) " " (parts::tokens(*amount, *decimals)) },
            Self::AllIds => html! { span .tag.bad { (words::UNLIMITED) } " " (words::MAY_ALL_IDS) },
            Self::Id(id) => html! { (words::MAY_ID) " " (token_id(*id)) },
        }
    }

    /// The form of the token's page that takes it back, filled in.
    fn revoke(&self, token: Address, spender: Address) -> Markup {
        let (function, to, nothing) = match self {
            Self::Nothing => return html! {},
            Self::Unlimited | Self::Amount(..) => (APPROVE, spender, "0".to_owned()),
            Self::AllIds => (APPROVE_ALL, spender, "false".to_owned()),
            Self::Id(id) => (APPROVE, Address::ZERO, id.to_string()),
        };
        let page = links::account_part(token, subject::WRITE);
        html! { a href={ (page) "?f=" (function) "&a0=" (to) "&a1=" (nothing) "#f-" (function) } { (words::REVOKE) } }
    }
}

/// The last row, if there may be more.
fn full(rows: &[AnyRow]) -> Option<&AnyRow> {
    rows.last().filter(|_| rows.len() == ROWS as usize)
}

fn more(list: &str, next: Option<Vec<u8>>, after: &After) -> Markup {
    html! {
        nav .pages aria-label=(list::PAGES) {
            @if after.after.is_some() { a href=(list) { (words::FIRST) } }
            @if let Some(next) = next { a rel="next" href={ (list) "?after=" (hex::encode(next)) } { (words::MORE) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowances_are_said_in_words() {
        let of = |id: Option<u64>, amount: U256, standard| Allowance::of(id.map(U256::from), amount, standard, 18);
        assert_eq!(of(None, U256::MAX, 20), Allowance::Unlimited);
        assert_eq!(of(None, U256::MAX - U256::from(1_000_000), 0), Allowance::Unlimited);
        assert_eq!(of(None, UNLIMITED - U256::ONE, 20), Allowance::Amount(UNLIMITED - U256::ONE, 18));
        assert_eq!(of(None, U256::ONE, 721), Allowance::AllIds);
        assert_eq!(of(None, U256::ZERO, 1155), Allowance::Nothing);
        assert_eq!(of(Some(7), U256::ONE, 721), Allowance::Id(U256::from(7)));
        assert!(Allowance::Unlimited.markup().into_string().contains(words::MAY_EVERYTHING));
    }

    #[test]
    fn an_allowance_of_one_id_is_taken_back_from_that_id() {
        let (token, spender) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let link = Allowance::Id(U256::from(7)).revoke(token, spender).into_string();
        assert!(link.contains(&format!("a0={}&amp;a1=7#f-095ea7b3", Address::ZERO)), "{link}");
        let link = Allowance::AllIds.revoke(token, spender).into_string();
        assert!(link.contains(&format!("f=a22cb465&amp;a0={spender}&amp;a1=false")), "{link}");
    }

    #[test]
    fn a_place_in_a_list_is_cut_into_its_parts() {
        let after = |text: &str| After { after: Some(text.to_owned()) };
        let key = [vec![1; 20], vec![2; 32]].concat();
        assert_eq!(after(&hex::encode(&key)).parts([20, 32]).unwrap(), [vec![1; 20], vec![2; 32]]);
        assert_eq!(after(&hex::encode(&key[..20])).parts([20, 32]).unwrap(), [vec![1; 20], vec![]]);
        assert_eq!(After { after: None }.parts([20, 32]).unwrap(), [Vec::<u8>::new(), vec![]]);
        assert!(after("zz").parts([20, 32]).is_err());
        assert!(after(&"00".repeat(53)).parts([20, 32]).is_err());
    }
}
