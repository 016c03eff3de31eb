//! Tokens of an account, and the approvals that it gave.

use super::{
    super::{Failure, Page, Query, cursor, parts},
    history::{token, token_id},
    subject::{self, Subject},
};
use crate::{
    app_state::AppState,
    database::{Place, Read, sql},
    indexer::events::APPROVAL_FOR_ALL,
    links,
    pages::account::texts,
    texts::list,
};
use alloy_primitives::{Address, U256};
use axum::extract::{Path, State};
use maud::{Markup, html};
use serde::Deserialize;
use sqlx::any::AnyRow;
use std::sync::Arc;

/// Rows on a page of these lists. Each id has a row, so there may be many.
const ROWS: i64 = 50;

/// Allowances from this amount (2^255) on are shown as unlimited: wallets request 2^256 - 1, and some tokens reduce it with
/// each transfer.
const UNLIMITED: U256 = U256::from_limbs([0, 0, 0, 1 << 63]);

/// Selectors of `approve(address,uint256)` and `setApprovalForAll(address,bool)`, with which an owner revokes an approval.
const APPROVE: &str = "095ea7b3";
const APPROVE_ALL: &str = "a22cb465";

/// Query: the list starts after the row with this key.
#[derive(Debug, Deserialize)]
pub struct After {
    /// Bytes of the key in hexadecimal digits.
    after: Option<String>,
}

impl After {
    /// Returns `true` for the first page.
    fn is_first(&self) -> bool {
        self.after.is_none()
    }

    /// Splits the key into parts of these sizes. On the first page all parts are empty.
    fn parts<const N: usize>(&self, sizes: [usize; N]) -> Result<[Vec<u8>; N], Failure> {
        let Some(text) = &self.after else { return Ok([const { Vec::new() }; N]) };
        let bytes = hex::decode(text).ok().filter(|bytes| bytes.len() <= sizes.iter().sum::<usize>());
        let mut rest = bytes.ok_or_else(|| Failure::BadRequest(texts::BAD_CURSOR.into()))?;
        Ok(sizes.map(|size| {
            let tail = rest.split_off(size.min(rest.len()));
            std::mem::replace(&mut rest, tail)
        }))
    }
}

/// `/address/{address}/tokens`
pub async fn holdings(State(app): State<Arc<AppState>>, Path(address): Path<String>, Query(after): Query<After>) -> Page {
    let subject = Subject::load(&app, &address).await?;
    let [from_token, from_id] = after.parts([20, 32])?;
    let text = "SELECT b.token, b.token_id, b.amount, t.standard, t.name, t.symbol, t.decimals, t.consistent \
                FROM balances b JOIN tokens t ON t.address = b.token WHERE b.holder = $1 AND (b.token, b.token_id) > ($2, $3) \
                ORDER BY b.token, b.token_id LIMIT $4";
    let query = sql(text).bind(subject.address.to_vec()).bind(from_token).bind(from_id).bind(ROWS + 1);
    let mut rows = query.fetch_all(app.database.readers()).await?;
    let next = next(&mut rows, &["token", "token_id"])?;
    let cells = |row: &AnyRow| -> Result<Vec<Markup>, Failure> {
        let id = row.bytes("token_id")?;
        let (standard, amount) = (row.number("standard")?, row.amount("amount")?);
        Ok(vec![
            html! { (token(row)?) " " span .symbol { (row.text("name")?) } @if row.int("consistent")? == 0 { " " span .tag.bad title=(texts::INCONSISTENT_NOTE) { (texts::INCONSISTENT) } } },
            html! { "ERC-" (standard) },
            if id.is_empty() {
                if standard == 20 {
                    html! { "–" }
                } else {
                    html! { span .note { (texts::ALL_IDS) } }
                }
            } else {
                token_id(U256::from_be_slice(&id))
            },
            parts::tokens(amount, row.number("decimals")?),
        ])
    };
    let columns = [texts::TOKEN, texts::STANDARD, texts::ID, texts::AMOUNT];
    let table = parts::table(texts::HOLDINGS, &columns, rows.iter().map(cells).collect::<Result<_, _>>()?);
    let here = links::account_part(subject.address, subject::HOLDINGS);
    let live = after.is_first() && subject.may_be_live();
    let body = html! {
        section #holdings data-live=[live.then_some("holdings")] {
            h2 { (texts::HOLDINGS) }
            p .note { (texts::HOLDINGS_NOTE) }
            (table)
            (more(&here, next, &after))
        }
    };
    Ok(subject.page(&app, texts::HOLDINGS, body))
}

/// `/address/{address}/approvals`
pub async fn approvals(State(app): State<Arc<AppState>>, Path(address): Path<String>, Query(after): Query<After>) -> Page {
    let subject = Subject::load(&app, &address).await?;
    let [from_token, from_spender, from_id] = after.parts([20, 20, 32])?;
    let text = "SELECT a.token, a.spender, a.token_id, a.amount, a.place, t.standard, t.symbol, t.decimals, x.hash, x.time_ms FROM approvals a \
                LEFT JOIN tokens t ON t.address = a.token LEFT JOIN transactions x ON x.place = a.place \
                WHERE a.owner = $1 AND (a.token, a.spender, a.token_id) > ($2, $3, $4) ORDER BY a.token, a.spender, a.token_id LIMIT $5";
    let query = sql(text).bind(subject.address.to_vec()).bind(from_token).bind(from_spender).bind(from_id).bind(ROWS + 1);
    let mut rows = query.fetch_all(app.database.readers()).await?;
    let next = next(&mut rows, &["token", "spender", "token_id"])?;
    let cells = |row: &AnyRow, allowance: Allowance| -> Result<Vec<Markup>, Failure> {
        let made = row.place("place")?;
        Ok(vec![
            token(row)?,
            parts::account(row.address("spender")?),
            allowance.markup(),
            html! { @match row.maybe_number("time_ms")? { Some(ms) => { (parts::time(ms)) " " (parts::transaction(row.hash("hash")?)) }, None => { (parts::block(made.block())) } } },
            allowance.revoke(row.address("token")?, row.address("spender")?),
        ])
    };
    let mut shown = Vec::with_capacity(rows.len());
    for row in &rows {
        shown.push(cells(row, Allowance::read(&app, subject.address, row).await?)?);
    }
    let columns = [texts::TOKEN, texts::SPENDER, texts::MAY, texts::SINCE, texts::REVOKE];
    let table = parts::table(texts::APPROVALS, &columns, shown);
    let here = links::account_part(subject.address, subject::APPROVALS);
    let live = after.is_first() && subject.may_be_live();
    let body = html! {
        section #approvals data-live=[live.then_some("approvals")] {
            h2 { (texts::APPROVALS) }
            p .note { (texts::APPROVALS_NOTE) }
            (table)
            (more(&here, next, &after))
        }
    };
    Ok(subject.page(&app, texts::APPROVALS, body))
}

/// Amount that a spender may transfer.
#[derive(Debug, PartialEq, Eq)]
enum Allowance {
    Nothing,
    Unlimited,
    Amount(U256, u64),
    AllIds,
    Id(U256),
}

impl Allowance {
    async fn read(app: &AppState, owner: Address, row: &AnyRow) -> Result<Self, Failure> {
        let (id, amount) = (row.bytes("token_id")?, row.amount("amount")?);
        let has_ids = match row.maybe_number("standard")? {
            Some(standard) => standard != 20,
            // A token without transfers has no known standard. An approval for all ids is then stored like an amount of 1; only
            // its event distinguishes the two.
            None => id.is_empty() && amount == U256::ONE && was_for_all(app, owner, row).await?,
        };
        let id = (!id.is_empty()).then(|| U256::from_be_slice(&id));
        Ok(Self::of(id, amount, has_ids, row.maybe_number("decimals")?.unwrap_or(0)))
    }

    fn of(id: Option<U256>, amount: U256, has_ids: bool, decimals: u64) -> Self {
        match id {
            _ if amount.is_zero() => Self::Nothing,
            Some(id) => Self::Id(id),
            None if has_ids => Self::AllIds,
            None if amount >= UNLIMITED => Self::Unlimited,
            None => Self::Amount(amount, decimals),
        }
    }

    fn markup(&self) -> Markup {
        match self {
            Self::Nothing => html! { span .note { (texts::MAY_NOTHING) } },
            Self::Unlimited => html! { span .tag.bad { (texts::UNLIMITED) } " " (texts::MAY_EVERYTHING) },
            Self::Amount(amount, decimals) => html! { (texts::MAY_UP_TO) " " (parts::tokens(*amount, *decimals)) },
            Self::AllIds => html! { span .tag.bad { (texts::UNLIMITED) } " " (texts::MAY_ALL_IDS) },
            Self::Id(id) => html! { (texts::MAY_ID) " " (token_id(*id)) },
        }
    }

    /// Link to the form on the token's page that revokes it, filled in.
    fn revoke(&self, token: Address, spender: Address) -> Markup {
        let (function, to, nothing) = match self {
            Self::Nothing => return html! {},
            Self::Unlimited | Self::Amount(..) => (APPROVE, spender, "0".to_owned()),
            Self::AllIds => (APPROVE_ALL, spender, "false".to_owned()),
            Self::Id(id) => (APPROVE, Address::ZERO, id.to_string()),
        };
        let page = links::account_part(token, subject::WRITE);
        html! { a href={ (page) "?f=" (function) "&a0=" (to) "&a1=" (nothing) "#f-" (function) } { (texts::REVOKE) } }
    }
}

/// Returns `true` for an approval by ERC-721's and ERC-1155's `setApprovalForAll`: its block contains an `ApprovalForAll` event
/// of the same parties.
async fn was_for_all(app: &AppState, owner: Address, row: &AnyRow) -> Result<bool, Failure> {
    let (token, spender, block) = (row.address("token")?, row.address("spender")?, row.place("place")?.block());
    let topics: Vec<u8> = [APPROVAL_FOR_ALL, owner.into_word(), spender.into_word()].concat();
    let text =
        "SELECT place FROM logs WHERE address = $1 AND event = $2 AND place >= $3 AND place < $4 AND topics = $5 LIMIT 1";
    let query = sql(text).bind(token.to_vec()).bind(APPROVAL_FOR_ALL.to_vec());
    let query = query.bind(Place::first(block).0).bind(Place::first(block + 1).0).bind(topics);
    Ok(query.fetch_optional(app.database.readers()).await?.is_some())
}

/// Cuts `rows` to the length of a page. Returns the key of the last row (the bytes of these columns) if a further page exists;
/// `rows` then has one row more than a page.
fn next(rows: &mut Vec<AnyRow>, columns: &[&'static str]) -> Result<Option<Vec<u8>>, Failure> {
    let Some(last) = cursor::cut(rows, ROWS) else { return Ok(None) };
    let key: Vec<Vec<u8>> = columns.iter().map(|column| last.bytes(column)).collect::<Result<_, _>>()?;
    Ok(Some(key.concat()))
}

fn more(list: &str, next: Option<Vec<u8>>, after: &After) -> Markup {
    html! {
        nav .pages aria-label=(list::PAGES) {
            @if !after.is_first() { a href=(list) { (texts::FIRST) } }
            @if let Some(next) = next { a rel="next" href={ (list) "?after=" (hex::encode(next)) } { (texts::MORE) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing, *};
    use crate::{database::Rows, indexer::events::APPROVAL};

    /// Page of an owner of two tokens without transfers. A spender may take 1 of each, according to a different event for each
    /// token.
    #[tokio::test]
    async fn event_distinguishes_amount_from_all_ids() {
        let filled = testing::test_app().await;
        let (owner, spender) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let (coins, pictures) = (Address::repeat_byte(3), Address::repeat_byte(4));
        let mut approvals = Rows::new("approvals", &["owner", "token", "spender", "token_id", "amount", "place"]);
        let mut logs = Rows::new("logs", &["place", "transaction_place", "address", "topics", "event", "data"]);
        for (at, (token, event)) in [(coins, APPROVAL), (pictures, APPROVAL_FOR_ALL)].into_iter().enumerate() {
            let place = Place::new(5, at as u64);
            let topics: Vec<u8> = [event, owner.into_word(), spender.into_word()].concat();
            approvals.push([owner.into(), token.into(), spender.into(), Vec::new().into(), U256::ONE.into(), place.into()]);
            logs.push([place.into(), place.into(), token.into(), topics.into(), event.into(), Vec::new().into()]);
        }
        filled.write(approvals).await;
        filled.write(logs).await;
        let after = Query(After { after: None });
        let page = super::approvals(State(Arc::clone(&filled.app)), Path(owner.to_string()), after).await.unwrap();
        let page = page.0.into_string();
        let (of_coins, of_pictures) =
            (links::account_part(coins, subject::WRITE), links::account_part(pictures, subject::WRITE));
        assert!(page.contains(&format!("{of_coins}?f={APPROVE}&amp;a0={spender}&amp;a1=0#")), "{page}");
        assert!(page.contains(&format!("{of_pictures}?f={APPROVE_ALL}&amp;a0={spender}&amp;a1=false#")), "{page}");
        assert_eq!(page.matches(texts::MAY_ALL_IDS).count(), 1, "{page}");
    }

    #[test]
    fn allowances_are_described() {
        let of = |id: Option<u64>, amount: U256, has_ids| Allowance::of(id.map(U256::from), amount, has_ids, 18);
        assert_eq!(of(None, U256::MAX, false), Allowance::Unlimited);
        assert_eq!(of(None, U256::MAX - U256::from(1_000_000), false), Allowance::Unlimited);
        assert_eq!(of(None, UNLIMITED - U256::ONE, false), Allowance::Amount(UNLIMITED - U256::ONE, 18));
        assert_eq!(of(None, U256::ONE, true), Allowance::AllIds);
        assert_eq!(of(None, U256::ZERO, true), Allowance::Nothing);
        assert_eq!(of(Some(7), U256::ONE, true), Allowance::Id(U256::from(7)));
        assert!(Allowance::Unlimited.markup().into_string().contains(texts::MAY_EVERYTHING));
    }

    #[test]
    fn revoke_link_names_the_id() {
        let (token, spender) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let link = Allowance::Id(U256::from(7)).revoke(token, spender).into_string();
        assert!(link.contains(&format!("a0={}&amp;a1=7#f-095ea7b3", Address::ZERO)), "{link}");
        let link = Allowance::AllIds.revoke(token, spender).into_string();
        assert!(link.contains(&format!("f=a22cb465&amp;a0={spender}&amp;a1=false")), "{link}");
    }

    #[test]
    fn cursor_is_split_into_parts() {
        let after = |text: &str| After { after: Some(text.to_owned()) };
        let key = [vec![1; 20], vec![2; 32]].concat();
        assert_eq!(after(&hex::encode(&key)).parts([20, 32]).unwrap(), [vec![1; 20], vec![2; 32]]);
        assert_eq!(after(&hex::encode(&key[..20])).parts([20, 32]).unwrap(), [vec![1; 20], vec![]]);
        assert_eq!(After { after: None }.parts([20, 32]).unwrap(), [Vec::<u8>::new(), vec![]]);
        assert!(after("zz").parts([20, 32]).is_err());
        assert!(after(&"00".repeat(53)).parts([20, 32]).is_err());
    }
}
