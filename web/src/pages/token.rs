//! Page of a token: transfers, holders, ids, and supply over time.

pub(crate) mod texts;

use super::{
    Failure, Page, Query, ROWS, account, chart,
    cursor::{self, Before, Below},
    days::{self, Until},
    layout, parts,
    tokens::{self, Token},
    transactions,
};
use crate::{
    app_state::AppState,
    database::{Read, amount, int, sql},
    format, links,
    pages::tokens::texts as tokens_texts,
};
use alloy_primitives::{Address, U256};
use axum::extract::{Path, State};
use maud::{Markup, html};
use sqlx::any::AnyRow;
use std::{collections::BTreeMap, sync::Arc};

/// Query for a token by its address.
pub const TOKEN: &str = "SELECT address, standard, name, symbol, decimals, supply, holders, transfers, first_block, consistent FROM tokens WHERE \
                         address = $1";

/// Query for a token's transfers below a place.
pub const TRANSFERS: &str = "SELECT f.place, f.sender, f.recipient, f.token_id, f.amount, f.time_ms, t.hash FROM transfers f JOIN transactions t ON \
                             t.place = f.transaction_place WHERE f.token = $1 AND f.place < $2 ORDER BY f.place DESC LIMIT $3";

/// Query for the largest holders of a token, or of one id, below a holder.
pub const HOLDERS: &str = "SELECT holder, amount FROM balances WHERE token = $1 AND token_id = $2 AND (amount, holder) < ($3, $4) ORDER BY amount \
                           DESC, holder DESC LIMIT $5";

/// Query for a token's ids with their holders, the highest id first, below a row. Balances without an id are totals.
pub const IDS: &str = "SELECT token_id, holder, amount FROM balances WHERE token = $1 AND token_id > $2 AND (token_id, amount, holder) < ($3, $4, \
                       $5) ORDER BY token_id DESC, amount DESC, holder DESC LIMIT $6";

/// Query for the newest days on which a token moved, up to a day.
pub const DAYS: &str =
    "SELECT day, transfers, supply FROM token_days WHERE token = $1 AND day <= $2 ORDER BY day DESC LIMIT $3";

/// Last segments of the URLs of the page's parts.
const PART_HOLDERS: &str = "holders";
const PART_IDS: &str = "ids";
const PART_DAYS: &str = "days";

/// `/token/{address}`: its transfers.
pub async fn show(State(app): State<Arc<AppState>>, Path(address): Path<String>, Query(from): Query<Before>) -> Page {
    let token = find(&app, &address).await?;
    let before = from.before.unwrap_or(i64::MAX);
    let query = sql(TRANSFERS).bind(token.address.to_vec()).bind(before).bind(ROWS + 1);
    let mut rows = query.fetch_all(app.database.readers()).await?;
    let last = transactions::last(&mut rows)?;
    let cells = rows.iter().map(|row| transfer(&token, row)).collect::<Result<_, _>>()?;
    let mut columns = vec![texts::TRANSACTION, texts::WHEN, texts::FROM, texts::TO, texts::AMOUNT];
    columns.extend(token.has_ids().then_some(texts::ID));
    let here = links::token(token.address);
    let part = html! {
        (parts::table(tokens_texts::TRANSFERS, &columns, cells))
        (parts::older(&here, last, from.before.is_none()))
    };
    Ok(page(&app, &token, tokens_texts::TRANSFERS, part, from.before.is_none()))
}

fn transfer(token: &Token, row: &AnyRow) -> Result<Vec<Markup>, Failure> {
    let side = |address: Address, word: &str| match address.is_zero() {
        true => html! { span .note { (word) } },
        false => parts::account(address),
    };
    let mut cells = vec![
        parts::transaction(row.hash("hash")?),
        parts::time(row.number("time_ms")?),
        side(row.address("sender")?, texts::MINTED),
        side(row.address("recipient")?, texts::BURNT),
        parts::tokens(row.amount("amount")?, token.decimals),
    ];
    if token.has_ids() {
        let id = row.maybe_bytes("token_id")?.map(|_| row.amount("token_id")).transpose()?;
        cells.push(id.map_or_else(|| html! { "–" }, |id| of_id(token.address, id)));
    }
    Ok(cells)
}

/// `/token/{address}/{part}`: a part of the page that is a page itself.
pub async fn part(
    State(app): State<Arc<AppState>>,
    Path((address, part)): Path<(String, String)>,
    Query(from): Query<Below>,
    Query(until): Query<Until>,
) -> Page {
    let token = find(&app, &address).await?;
    let is_newest = from.is_first() && until.is_newest();
    let (name, body) = match part.as_str() {
        PART_HOLDERS => (tokens_texts::HOLDERS, holders(&app, &token, &from).await?),
        PART_IDS if token.has_ids() => (texts::IDS, ids(&app, &token, &from).await?),
        PART_DAYS => (texts::DAYS, over_time(&app, &token, &until).await?),
        _ => return Err(Failure::NotFound(texts::no_part(&part))),
    };
    Ok(page(&app, &token, name, body, is_newest))
}

async fn find(app: &AppState, address: &str) -> Result<Token, Failure> {
    let address = account::parse(address)?;
    let row = sql(TOKEN).bind(address.to_vec()).fetch_optional(app.database.readers()).await?;
    Token::read(&row.ok_or_else(|| Failure::NotFound(texts::no_token(address)))?)
}

/// A complete page. Its facts are current, so all of it is live if it shows the first page of its list.
fn page(app: &AppState, token: &Token, part: &str, body: Markup, is_newest: bool) -> super::Html {
    let here = token.address;
    let mut tabs =
        vec![(links::token(here), tokens_texts::TRANSFERS), (links::token_part(here, PART_HOLDERS), tokens_texts::HOLDERS)];
    tabs.extend(token.has_ids().then(|| (links::token_part(here, PART_IDS), texts::IDS)));
    tabs.push((links::token_part(here, PART_DAYS), texts::DAYS));
    let title = format!("{} {here}", tokens_texts::TOKEN);
    let body = html! {
        h1 { (tokens_texts::TOKEN) " " (tokens::name(token)) }
        @if !token.consistent { p .warning role="note" { strong { (tokens_texts::INCONSISTENT) "." } " " (tokens_texts::INCONSISTENT_NOTE) } }
        section #facts data-live=[is_newest.then_some("facts")] {
            (parts::facts(&[
                (tokens_texts::ADDRESS, parts::account_in_full(here)),
                (tokens_texts::STANDARD, html! { (tokens::standard(token.standard)) }),
                (tokens_texts::SUPPLY, token.amount(token.supply)),
                (tokens_texts::HOLDERS, html! { (format::number(token.holders)) }),
                (tokens_texts::TRANSFERS, html! { (format::number(token.transfers)) }),
                (texts::DECIMALS, html! { (token.decimals) }),
                (texts::FIRST_SEEN, parts::block(token.first_block)),
            ]))
            p .note { (texts::NAME_NOTE) }
        }
        (parts::tabs(&tabs, part))
        section #part data-live=[is_newest.then_some("part")] { h2 { (part) } (body) }
    };
    layout::page(app, &title, body)
}

/// Link to the holders of an id.
fn of_id(token: Address, id: U256) -> Markup {
    html! { a .id href=(links::token_id(token, id)) { "#" (id) } }
}

async fn holders(app: &AppState, token: &Token, from: &Below) -> Result<Markup, Failure> {
    let ([least], holder) = from.row()?;
    let bad_id = || Failure::BadRequest(texts::BAD_ID.into());
    let id = from.id.as_ref().map(|id| cursor::decimal(id).ok_or_else(bad_id)).transpose()?;
    let query = sql(HOLDERS).bind(token.address.to_vec()).bind(id.map(amount).unwrap_or_default());
    let query = query.bind(amount(least)).bind(holder.to_vec()).bind(ROWS + 1);
    let rows = query.fetch_all(app.database.readers()).await?;
    let found = rows.iter().map(|row| Ok((row.address("holder")?, row.amount("amount")?)));
    let mut found: Vec<(Address, U256)> = found.collect::<Result<_, Failure>>()?;
    let last = cursor::cut(&mut found, ROWS).map(|(holder, amount)| cursor::below([*amount], *holder));
    let cells = |(holder, amount): &(Address, U256)| {
        let mut cells = vec![parts::account(*holder), parts::tokens(*amount, token.decimals)];
        // The supply of a single id is not known.
        cells.extend(id.is_none().then(|| html! { (share(*amount, token)) }));
        cells
    };
    let mut columns = vec![texts::HOLDER, texts::AMOUNT];
    columns.extend(id.is_none().then_some(texts::SHARE));
    let list = id.map_or_else(|| links::token_part(token.address, PART_HOLDERS), |id| links::token_id(token.address, id));
    Ok(html! {
        @if let Some(id) = id { p { (texts::OF_ID) " #" (id) } }
        @else if token.has_ids() { p .note { (texts::TOTALS_NOTE) } }
        (parts::table(tokens_texts::HOLDERS, &columns, found.iter().map(cells).collect()))
        (parts::next_pages(&list, last, from.is_first()))
    })
}

/// A holder's share of the supply; a dash if the token's events contradict each other.
fn share(amount: U256, token: &Token) -> String {
    format::share(amount, token.supply).unwrap_or_else(|| "–".into())
}

async fn ids(app: &AppState, token: &Token, from: &Below) -> Result<Markup, Failure> {
    let ([id, least], holder) = from.row()?;
    let query = sql(IDS).bind(token.address.to_vec()).bind(Vec::new());
    let query = query.bind(amount(id)).bind(amount(least)).bind(holder.to_vec()).bind(ROWS + 1);
    let rows = query.fetch_all(app.database.readers()).await?;
    let found = rows.iter().map(|row| Ok((row.amount("token_id")?, row.address("holder")?, row.amount("amount")?)));
    let mut found: Vec<(U256, Address, U256)> = found.collect::<Result<_, Failure>>()?;
    let last = cursor::cut(&mut found, ROWS).map(|(id, holder, amount)| cursor::below([*id, *amount], *holder));
    let cells = |(id, holder, amount): &(U256, Address, U256)| {
        vec![of_id(token.address, *id), parts::account(*holder), parts::tokens(*amount, token.decimals)]
    };
    let columns = [texts::ID, texts::HOLDER, texts::AMOUNT];
    Ok(html! {
        (parts::table(texts::IDS, &columns, found.iter().map(cells).collect()))
        (parts::next_pages(&links::token_part(token.address, PART_IDS), last, from.is_first()))
    })
}

async fn over_time(app: &AppState, token: &Token, until: &Until) -> Result<Markup, Failure> {
    let last = until.day(app)?;
    // Reads one more row than the page shows: it contains the supply before the first day.
    let query = sql(DAYS).bind(token.address.to_vec()).bind(int(last)).bind(int(days::MAX_DAYS + 1));
    let rows = query.fetch_all(app.database.readers()).await?;
    let day = |row: &AnyRow| Ok((row.number("day")?, (row.number("transfers")?, row.amount("supply")?)));
    let found: BTreeMap<u64, (u64, U256)> = rows.iter().map(day).collect::<Result<_, Failure>>()?;
    let oldest = found.keys().next().copied();
    let window = days::window(last, oldest);
    let days = days::fill(window.clone(), &found, |(_, supply)| (0, *supply));
    let (transfers, supplies): (Vec<u64>, Vec<U256>) = days.into_iter().unzip();
    let date = |bar: usize| format::day(window.start() + bar as u64);
    let supply = |bar: usize| format!("{}: {}", date(bar), format::amount(supplies[bar], token.decimals));
    let moved = |bar: usize| format!("{}: {}", date(bar), format::number(transfers[bar]));
    let row = |(day, (transfers, supply)): (&u64, &(u64, U256))| {
        vec![html! { (format::day(*day)) }, html! { (format::number(*transfers)) }, parts::tokens(*supply, token.decimals)]
    };
    let columns = [texts::DAY, tokens_texts::TRANSFERS, texts::SUPPLY_AT_END];
    let list = links::token_part(token.address, PART_DAYS);
    Ok(html! {
        (days::pages(&list, until, &window, oldest))
        div .columns {
            (chart::amounts(tokens_texts::SUPPLY, &supplies, token.decimals, supply))
            (chart::bars(tokens_texts::TRANSFERS, &transfers, moved))
        }
        h3 { (texts::DAYS_MOVED) }
        (parts::table(texts::DAYS_MOVED, &columns, found.range(window.clone()).rev().map(row).collect()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::testing::{self, TestApp};

    const GOLD: Address = Address::repeat_byte(7);

    async fn gold(standard: u64, supply: u64, balances: &[(Address, Option<u64>, u64)]) -> TestApp {
        let filled = testing::test_app().await;
        let token = Token { standard, supply: U256::from(supply), ..testing::token(GOLD, balances.len() as u64) };
        filled.write_tokens(&[token]).await;
        filled.write_balances(GOLD, balances).await;
        filled
    }

    async fn shown(filled: &TestApp, name: &str, from: Below) -> String {
        let until = Query(Until::default());
        let path = Path((GOLD.to_string(), name.to_owned()));
        part(State(Arc::clone(&filled.app)), path, Query(from), until).await.unwrap().0.into_string()
    }

    /// Reads a list page by page. Returns the rest of each link that starts with `prefix`.
    async fn walk(filled: &TestApp, name: &str, prefix: &str) -> Vec<String> {
        let (mut from, mut seen) = (Below::default(), Vec::new());
        for _ in 0..10 {
            let page = shown(filled, name, from).await;
            let (_, list) = page.split_once("<tbody>").unwrap();
            seen.extend(testing::links(list, prefix));
            let next = format!("/token/{GOLD}/{name}?below=");
            let Some(below) = testing::links(list, &next).pop() else { return seen };
            from = Below { below: Some(below), id: None };
        }
        panic!("the list does not end");
    }

    fn holder(at: u8) -> Address {
        Address::left_padding_from(&[9, at])
    }

    #[tokio::test]
    async fn holders_are_sorted_by_balance() {
        // Several holders have the same amount; the address decides their order.
        let balances: Vec<_> = (0..60).map(|at| (holder(at), None, 1 + u64::from(at) / 20)).collect();
        let filled = gold(20, 120, &balances).await;
        let expected: Vec<_> = (0..60).rev().map(|at| holder(at).to_string()).collect();
        assert_eq!(walk(&filled, PART_HOLDERS, "/address/").await, expected);
    }

    #[tokio::test]
    async fn share_is_of_the_supply() {
        let filled = gold(20, 8, &[(holder(1), None, 5), (holder(2), None, 3)]).await;
        let page = shown(&filled, PART_HOLDERS, Below::default()).await;
        assert!(page.contains(">62.50 %<") && page.contains(">37.50 %<"), "{page}");
        let filled = gold(20, 0, &[(holder(1), None, 5)]).await;
        let page = shown(&filled, PART_HOLDERS, Below::default()).await;
        assert!(page.contains(">–<") && !page.contains(" %<"), "more than there is: {page}");
    }

    #[tokio::test]
    async fn ids_and_totals_are_distinguished() {
        let (alice, bob) = (holder(1), holder(2));
        let balances =
            [(alice, None, 7), (alice, Some(1), 5), (alice, Some(3), 2), (bob, None, 9), (bob, Some(3), 9), (bob, Some(0), 4)];
        let filled = gold(1155, 16, &balances).await;
        assert_eq!(walk(&filled, PART_HOLDERS, "/address/").await, [bob.to_string(), alice.to_string()]);
        let prefix = format!("/token/{GOLD}/holders?id=");
        assert_eq!(walk(&filled, PART_IDS, &prefix).await, ["3", "3", "1", "0"]);
        assert_eq!(walk(&filled, PART_IDS, "/address/").await, [&bob, &alice, &alice, &bob].map(ToString::to_string));
        let of_three = shown(&filled, PART_HOLDERS, Below { below: None, id: Some("3".into()) }).await;
        let (_, list) = of_three.split_once("<tbody>").unwrap();
        assert_eq!(testing::links(list, "/address/"), [bob.to_string(), alice.to_string()]);
        assert!(!list.contains(" %<"), "nobody knows how much there is of one id");
    }

    #[tokio::test]
    async fn ids_are_listed_once() {
        let balances: Vec<_> =
            (0..60).flat_map(|at| [(holder(at), None, 3), (holder(at), Some(u64::from(at) / 7), 3)]).collect();
        let filled = gold(1155, 180, &balances).await;
        let expected: Vec<_> = (0..60).rev().map(|at| holder(at).to_string()).collect();
        assert_eq!(walk(&filled, PART_IDS, "/address/").await, expected);
    }

    #[tokio::test]
    async fn supply_stays_on_days_without_transfers() {
        let filled = gold(20, 8, &[]).await;
        let mut rows = crate::database::Rows::new("token_days", &["token", "day", "transfers", "supply"]);
        for (day, transfers, supply) in [(5u64, 1u64, 500u64), (90, 2, 900)] {
            rows.push([GOLD.into(), day.into(), transfers.into(), U256::from(supply).into()]);
        }
        filled.write(rows).await;
        let page = shown(&filled, PART_DAYS, Below::default()).await;
        for bar in ["1970-01-12: 500", "1970-03-31: 500", "1970-04-01: 900", "1970-04-11: 900", "1970-04-01: 2"] {
            assert!(page.contains(&format!("<title>{bar}</title>")), "{bar}: {page}");
        }
        assert!(!page.contains("1970-04-02: 2"), "{page}");
        assert_eq!(testing::links(&page, &format!("/token/{GOLD}/days?until=")), ["1970-01-11"]);
    }

    #[tokio::test]
    async fn missing_items_are_not_found() {
        let filled = gold(20, 8, &[]).await;
        let app = || State(Arc::clone(&filled.app));
        let none = show(app(), Path(holder(3).to_string()), Query(Before { before: None })).await;
        assert!(matches!(none, Err(Failure::NotFound(_))));
        let ask =
            |name: &str, from: Below| part(app(), Path((GOLD.to_string(), name.into())), Query(from), Query(Until::default()));
        assert!(matches!(ask("ids", Below::default()).await, Err(Failure::NotFound(_))), "an ERC-20 has none");
        assert!(matches!(ask("x", Below::default()).await, Err(Failure::NotFound(_))));
        let bad = Below { below: None, id: Some("one".into()) };
        assert!(matches!(ask("holders", bad).await, Err(Failure::BadRequest(_))));
    }

    #[tokio::test]
    async fn lists_use_indexes() {
        let filled = testing::test_app().await;
        for (query, index) in [
            (TRANSFERS, "transfers_by_token (token=? AND place<?)"),
            (HOLDERS, "balances_by_amount (token=? AND token_id=? AND (amount,holder)<(?,?))"),
            (IDS, "balances_by_amount (token=? AND"),
            (DAYS, "PRIMARY KEY (token=? AND day<?)"),
        ] {
            let plan = filled.app.database.plan(query).await.unwrap().join("\n");
            assert!(plan.contains(index) && !plan.contains("SCAN") && !plan.contains("TEMP"), "{query}\n{plan}");
        }
    }
}
