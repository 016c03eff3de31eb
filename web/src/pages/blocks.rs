//! Pages of blocks: the list, and a single block with its ordering, execution and certificate.

pub(crate) mod texts;

use super::{
    Failure, Page, Query, ROWS,
    cursor::{self, Before},
    execution, layout, parts, transactions,
};
use crate::{
    abi,
    app_state::AppState,
    database::{Place, Read, sql},
    format,
    indexer::{
        certificates,
        dag::{Form, Leader, leader_of},
        executions,
    },
    links::{self, Selection},
    pages::dag::texts as dag_texts,
    pages::execution::texts as execution_texts,
    pages::transactions::texts as transaction_texts,
    texts::{list, lookup, nav, status, unit},
};
use alloy_primitives::B256;
use axum::extract::{Path, State};
use corniche_types::SignerBitmap;
use maud::{Markup, html};
use sqlx::any::AnyRow;
use std::sync::Arc;

/// Maximum number of batches and of skipped transactions on a page.
const MAX_LISTED: i64 = 200;

/// `/blocks`
pub async fn list(State(app): State<Arc<AppState>>, Query(from): Query<Before>) -> Page {
    let before = from.before.map(Place).unwrap_or(Place::END);
    let mut rows = newest(&app, before.block(), ROWS + 1).await?;
    let last = cursor::cut(&mut rows, ROWS).map(|row| row.number("number")).transpose()?.map(Place::first);
    let newest = from.before.is_none();
    let body = html! {
        h1 { (nav::BLOCKS) }
        div #blocks data-live=[newest.then_some("blocks")] {
            (table(&app, &rows)?)
            (parts::older(links::BLOCKS, last, newest))
        }
    };
    Ok(layout::page(&app, nav::BLOCKS, body))
}

/// Blocks below a number, newest first.
pub async fn newest(app: &AppState, below: u64, most: i64) -> Result<Vec<AnyRow>, Failure> {
    let text = "SELECT number, hash, time_ms, leader, transactions, gas_used, gas_limit, seen_ms, certified_ms FROM blocks WHERE number < $1 \
                ORDER BY number DESC LIMIT $2";
    Ok(sql(text).bind(crate::database::int(below)).bind(most).fetch_all(app.database.readers()).await?)
}

/// A column of a table of blocks.
#[derive(Clone, Copy)]
enum Column {
    Number,
    Age,
    Transactions,
    GasUsed,
    Leader,
    Status,
}

impl Column {
    fn label(self) -> &'static str {
        match self {
            Self::Number => texts::TITLE,
            Self::Age => texts::AGE,
            Self::Transactions => texts::TRANSACTIONS,
            Self::GasUsed => texts::GAS,
            Self::Leader => texts::LEADER,
            Self::Status => texts::STATUS,
        }
    }

    fn cell(self, row: &AnyRow, certified: Option<u64>) -> Result<Markup, Failure> {
        let number = row.number("number")?;
        Ok(match self {
            Self::Number => parts::block(number),
            Self::Age => parts::time(row.number("time_ms")?),
            Self::Transactions => html! { (format::number(row.number("transactions")?)) },
            Self::GasUsed => html! { (format::percent(row.number("gas_used")?, row.number("gas_limit")?)) },
            Self::Leader => row.maybe_number("leader")?.map_or(html! { "–" }, parts::validator),
            Self::Status => parts::status(status::of_block(number, certified)),
        })
    }
}

/// A table of blocks.
pub fn table(app: &AppState, rows: &[AnyRow]) -> Result<Markup, Failure> {
    use Column::*;
    table_of(app, rows, &[Number, Age, Transactions, GasUsed, Leader, Status])
}

/// Table with fewer columns, for half a page.
pub fn narrow_table(app: &AppState, rows: &[AnyRow]) -> Result<Markup, Failure> {
    use Column::*;
    table_of(app, rows, &[Number, Age, Transactions, Leader, Status])
}

fn table_of(app: &AppState, rows: &[AnyRow], columns: &[Column]) -> Result<Markup, Failure> {
    let certified = app.certified();
    let cells = |row: &AnyRow| columns.iter().map(|column| column.cell(row, certified)).collect::<Result<Vec<_>, _>>();
    let labels: Vec<_> = columns.iter().map(|column| column.label()).collect();
    Ok(parts::table(nav::BLOCKS, &labels, rows.iter().map(cells).collect::<Result<_, _>>()?))
}

/// `/block/{number or hash}`
pub async fn show(State(app): State<Arc<AppState>>, Path(block): Path<String>, Query(from): Query<Before>) -> Page {
    let readers = app.database.readers();
    let row = match (block.parse::<i64>(), block.parse::<B256>()) {
        (Ok(number), _) => sql("SELECT * FROM blocks WHERE number = $1").bind(number).fetch_optional(readers).await?,
        (_, Ok(hash)) => sql("SELECT * FROM blocks WHERE hash = $1").bind(hash.to_vec()).fetch_optional(readers).await?,
        _ => return Err(Failure::BadRequest(texts::BAD_NAME.into())),
    };
    let indexed = app.status().indexed.map_or(0, |(number, _)| number);
    let Some(row) = row else {
        let text = match app.status().first {
            Some(first) if block.parse().is_ok_and(|number: u64| number < first) => {
                lookup::pruned_below(&format::number(first))
            }
            _ => texts::missing(&block, &format::number(indexed)),
        };
        return Err(Failure::NotFound(text));
    };
    let number = row.number("number")?;
    let title = format!("{} {}", texts::TITLE, format::number(number));
    let after = from.before.map_or(Place::first(number), |place| Place(place.saturating_add(1)));
    let mut rows = transactions::of_block(&app, number, after).await?;
    let last = transactions::last(&mut rows)?;
    let execution = executions::of_block(readers, number).await?;
    let certificate = certificates::covering(readers, number).await?;
    let here = links::block(number);
    let body = html! {
        h1 { (title) }
        div #block data-live=[certificate.is_none().then_some("block-page")] {
            nav .pages aria-label=(texts::TITLE) {
                @if number > 0 { a rel="prev" href=(links::block(number - 1)) { (texts::EARLIER) } }
                @if number < indexed { a rel="next" href=(links::block(number + 1)) { (texts::LATER) } }
            }
            section { h2 { (texts::OVERVIEW) } (overview(&row, certificate.is_some())?) }
            section { h2 { (texts::ORDERING) } (ordering(&app, &row).await?) }
            @if row.maybe_number("leader")?.is_some() {
                section #execution { h2 { (execution_texts::TITLE) } (execution::section(execution.as_ref())) }
            }
            section { h2 { (texts::CERTIFICATE) } (signatures(&app, certificate.as_ref())?) }
            section #transactions {
                h2 { (texts::TRANSACTIONS) " (" (format::number(row.number("transactions")?)) ")" }
                (transactions::table_of_block(&app, &rows, execution.as_ref()).await?)
                (parts::older(&here, last, from.before.is_none()))
            }
        }
    };
    Ok(layout::page(&app, &title, body))
}

fn overview(row: &AnyRow, is_certified: bool) -> Result<Markup, Failure> {
    let word = status::of_executed(is_certified);
    let latency = row.maybe_number("certified_ms")?.map(|at| at.saturating_sub(row.number("time_ms").unwrap_or(at)));
    let (used, limit) = (row.number("gas_used")?, row.number("gas_limit")?);
    let parent = row.hash("parent")?;
    Ok(parts::facts(&[
        (texts::HASH, parts::block_hash(row.hash("hash")?)),
        // Block 0 has no parent to link to.
        (texts::PARENT, if row.number("number")? == 0 { parts::hash(parent) } else { parts::block_hash(parent) }),
        (texts::TIME, parts::time(row.number("time_ms")?)),
        (
            texts::STATUS,
            html! { (parts::status(word)) @if let Some(latency) = latency { " " (format::duration(latency)) " " (texts::AFTER_ORDER) } },
        ),
        (texts::GAS, html! { (list::of(&format::number(used), &format::number(limit))) ", " (format::percent(used, limit)) }),
        (texts::BASE_FEE, html! { (unit::gwei(&format::gwei(row.number("base_fee")?))) }),
        (texts::SIZE, html! { (format::bytes(row.number("bytes")?)) }),
        (texts::STATE_ROOT, parts::hash(row.hash("state_root")?)),
        (texts::RANDOMNESS, parts::hash(row.hash("randomness")?)),
        (texts::FEE_ADDRESS, parts::account(row.address("fee_address")?)),
    ]))
}

async fn ordering(app: &AppState, row: &AnyRow) -> Result<Markup, Failure> {
    let number = row.number("number")?;
    let Some(leader) = row.maybe_number("leader")? else {
        let why = if number == 0 { texts::GENESIS } else { texts::SHARDED };
        return Ok(html! { p .note { (why) } });
    };
    let readers = app.database.readers();
    let text = "SELECT author, digest, first, count FROM batches WHERE block = $1 ORDER BY position LIMIT $2";
    let mut batches = sql(text).bind(number as i64).bind(MAX_LISTED + 1).fetch_all(readers).await?;
    let has_more_batches = cursor::cut(&mut batches, MAX_LISTED).is_some();
    let text = "SELECT hash, reason FROM skipped WHERE block = $1 ORDER BY position LIMIT $2";
    let mut skipped = sql(text).bind(number as i64).bind(MAX_LISTED + 1).fetch_all(readers).await?;
    let has_more_skipped = cursor::cut(&mut skipped, MAX_LISTED).is_some();
    let commits = (row.maybe_number("first_commit")?.unwrap_or(0), row.maybe_number("last_commit")?.unwrap_or(0));
    let leaders = [leader_of(readers, commits.0).await?, leader_of(readers, commits.1).await?];
    let round = leaders.iter().flatten().filter(|leader| leader.is_kept).map(|leader| leader.round).next_back();
    let form = app.form();
    let picture = if form.is_log() { texts::PICTURE_LOG } else { texts::PICTURE };
    let batch = |row: &AnyRow| -> Result<Vec<Markup>, Failure> {
        let (first, count) = (row.number("first")?, row.number("count")?);
        let (author, digest) = (row.number("author")?, row.hash("digest")?);
        let pick = Selection::Batch(author, digest);
        Ok(vec![
            parts::validator(author),
            html! { (parts::hash_in_short(digest)) @if let Some(round) = round { " " a href=(links::dag_pick(round, pick)) { (picture) } } },
            html! { (texts::range(&format::number(count), &format::number(first))) },
        ])
    };
    let one = |row: &AnyRow| -> Result<Vec<Markup>, Failure> {
        Ok(vec![parts::transaction(row.hash("hash")?), html! { (abi::text(&row.text("reason")?)) }])
    };
    let batches = batches.iter().map(batch).collect::<Result<_, _>>()?;
    let skipped: Vec<_> = skipped.iter().map(one).collect::<Result<_, _>>()?;
    Ok(html! {
        p .note { (texts::ORDERING_NOTE) }
        (parts::facts(&[
            (texts::LEADER, parts::validator(leader)),
            (texts::COMMITS, html! { (format::number(commits.0)) " " (texts::TO) " " (format::number(commits.1)) }),
            (if form == Form::Rounds { texts::ROUNDS } else { texts::SLOTS }, rounds(leaders)),
            (texts::RECORD, parts::bytes(&row.bytes("extra")?)),
        ]))
        h3 { (texts::BATCHES) }
        (parts::table(texts::BATCHES, &[texts::AUTHOR, texts::DIGEST, texts::RANGE], batches))
        @if has_more_batches { p .note { (transaction_texts::FIRST_ONES) } }
        @if !skipped.is_empty() {
            h3 { (texts::SKIPPED) }
            p .note { (texts::SKIPPED_NOTE) }
            (parts::table(texts::SKIPPED, &[texts::HASH, texts::REASON], skipped))
            @if has_more_skipped { p .note { (transaction_texts::FIRST_ONES) } }
        }
    })
}

/// Links to the leaders of the first and the last of a block's commits.
fn rounds([first, last]: [Option<Leader>; 2]) -> Markup {
    let one = |leader: Option<Leader>| match leader {
        Some(Leader { round, rank, is_kept }) => html! {
            @if is_kept { a href=(links::dag_pick(round, Selection::Slot(round, rank))) { (format::number(round)) } }
            @else { (format::number(round)) }
            @if rank > 0 { ", " (dag_texts::rank(rank + 1)) }
        },
        None => html! { (dag_texts::UNKNOWN) },
    };
    let same = first == last;
    html! { (one(first)) @if !same { " " (texts::TO) " " (one(last)) } }
}

fn signatures(app: &AppState, row: Option<&AnyRow>) -> Result<Markup, Failure> {
    let Some(row) = row else { return Ok(html! { p .note { (texts::NO_CERTIFICATE) } }) };
    let committee = app.status().committee.map_or(0, |committee| committee.validators.len());
    let signers = SignerBitmap(row.bytes("signers")?.into()).signers(committee).unwrap_or_default();
    let signed = |index: u64| signers.iter().any(|signer| u64::from(signer.0) == index);
    let some = |wanted: bool| {
        let indexes: Vec<_> = (0..committee as u64).filter(|index| signed(*index) == wanted).collect();
        html! { @if indexes.is_empty() { "–" } @for index in indexes { (parts::validator(index)) " " } }
    };
    Ok(html! {
        p .note { (texts::CERTIFICATE_NOTE) }
        (parts::facts(&[
            (texts::COVERS, parts::block(row.number("height")?)),
            (texts::SIGNERS, some(true)),
            (texts::MISSED, some(false)),
            (texts::SIGNATURE, parts::bytes(&row.bytes("signature")?)),
        ]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        database::Rows,
        indexer::dag::{self as lane, Round},
        pages::{dag, testing},
    };
    use corniche_api::{DagVertex, HeadBlock, Heads, LeaderSlot, SlotStatus};

    /// Block 7 contains commits 40 and 41, with leaders in rounds 20 and 21, and a batch that validator 2 proposed in round 19.
    async fn filled() -> testing::TestApp {
        let filled = testing::test_app().await;
        filled.write_block(7, 1_000).await;
        let mut writer = filled.app.database.writer().await.unwrap();
        let text = "UPDATE blocks SET leader = 1, first_commit = 40, last_commit = 41 WHERE number = 7";
        sql(text).execute(&mut *writer).await.unwrap();
        let mut rows = Rows::new("batches", &["block", "position", "author", "digest", "first", "count"]);
        rows.push([7_u64.into(), 0_u64.into(), 2_u64.into(), B256::repeat_byte(0xba).into(), 0_u64.into(), 5_u64.into()]);
        filled.write(rows).await;
        let round = |(round, commit): (u64, Option<u64>)| {
            let vertex = DagVertex {
                round,
                author: 2,
                digest: B256::with_last_byte(round as u8),
                parents: vec![],
                batch_bytes: 500,
                batch_digest: (round == 19).then_some(B256::repeat_byte(0xba)),
                proposed_ms: None,
                accepted_ms: Some(900),
                holders: vec![],
            };
            let status = if commit.is_some() { SlotStatus::Committed } else { SlotStatus::Skipped };
            let (digest, why, decided_ms, voters, confirmers) = (None, None, None, vec![], vec![]);
            let slot = LeaderSlot { round, rank: 0, validator: 1, status, digest, why, decided_ms, commit, voters, confirmers };
            (round, Round { vertices: vec![vertex], slots: vec![slot] })
        };
        for rows in lane::rows([(19, None), (20, Some(40)), (21, Some(41))].map(round), 1) {
            filled.write(rows).await;
        }
        filled
    }

    async fn picture(filled: &testing::TestApp, pick: impl ToString) -> String {
        let at = dag::DagQuery { round: Some(20), pick: Some(pick.to_string()) };
        dag::show(State(Arc::clone(&filled.app)), Query(at)).await.unwrap().0.into_string()
    }

    #[tokio::test]
    async fn block_links_to_rounds_and_batches() {
        let filled = filled().await;
        let page = show(State(Arc::clone(&filled.app)), Path("7".into()), Query(Before { before: None })).await;
        let links = testing::links(&page.unwrap().0.into_string(), "/dag?");
        let batch = Selection::Batch(2, B256::repeat_byte(0xba));
        assert_eq!(links, ["round=20&pick=20.0#facts", "round=21&pick=21.0#facts", &format!("round=21&pick={batch}#facts")]);
        let block =
            |page: &str| page.split("id=\"fact\"").nth(1).unwrap().split("</section>").next().unwrap().contains("/block/7");
        assert!(block(&picture(&filled, batch).await), "by the batch");
        assert!(block(&picture(&filled, B256::with_last_byte(19)).await), "by the proposal");
        assert!(block(&picture(&filled, "20.0").await), "by the leader");
        assert!(!block(&picture(&filled, "19.0").await), "it was skipped");
        assert!(!block(&picture(&filled, Selection::Batch(1, B256::repeat_byte(0xba))).await), "another validator's");
    }

    #[tokio::test]
    async fn slots_and_link_are_named_by_form() {
        let filled = filled().await;
        let engines = [("mahi-mahi", texts::ROUNDS, texts::PICTURE), ("autobahn", texts::SLOTS, texts::PICTURE)];
        for (engine, label, link) in engines.into_iter().chain([("neobft", texts::SLOTS, texts::PICTURE_LOG)]) {
            filled.introduce(engine);
            let page = show(State(Arc::clone(&filled.app)), Path("7".into()), Query(Before { before: None })).await;
            let page = page.unwrap().0.into_string();
            assert!(page.contains(&format!("<dt>{label}</dt>")) && page.contains(&format!(">{link}</a>")), "{engine}: {page}");
        }
    }

    #[tokio::test]
    async fn block_is_certified_by_indexed_certificate() {
        let filled = filled().await;
        let head = HeadBlock { hash: B256::ZERO, number: 9, timestamp_ms: 0 };
        filled.app.indexer_status.set_heads(&Heads { executed: head.clone(), certified: head });
        let words = async || {
            let block = show(State(Arc::clone(&filled.app)), Path("7".into()), Query(Before { before: None })).await;
            let blocks = list(State(Arc::clone(&filled.app)), Query(Before { before: None })).await;
            [block, blocks].map(|page| {
                let page = page.unwrap().0.into_string();
                [status::EXECUTED, status::CERTIFIED].map(|word| page.contains(&format!("is-{word}")))
            })
        };
        assert_eq!(words().await, [[true, false]; 2]);
        let mut rows = Rows::new("certificates", &["height", "first", "signers", "signature", "fault_model", "seen_ms"]);
        let (signers, signature, model) = (vec![0b0111_u8], vec![7_u8; 48], "byzantine".to_owned());
        rows.push([8_u64.into(), 7_u64.into(), signers.into(), signature.into(), model.into(), 1_u64.into()]);
        filled.write(rows).await;
        filled.app.indexer_status.set_certified(Some(8));
        assert_eq!(words().await, [[false, true]; 2]);
    }

    #[tokio::test]
    async fn execution_is_shown_if_known() {
        let filled = filled().await;
        let page = async || {
            let page = show(State(Arc::clone(&filled.app)), Path("7".into()), Query(Before { before: None })).await;
            page.unwrap().0.into_string()
        };
        assert!(page().await.contains(execution_texts::UNKNOWN));
        let columns =
            &["block", "threads", "runs", "runs_again", "waits", "adopted", "duration_us", "lane_of", "runs_of", "received_of"];
        let mut rows = Rows::new("executions", columns);
        let [threads, runs, again, none] = [4_u64, 3, 1, 0].map(Into::into);
        let [lane_of, runs_of] = [vec![0_u8, 3], vec![1, 2]].map(Into::into);
        let received_of = Vec::<u8>::new().into();
        rows.push([7_u64.into(), threads, runs, again, none, 0_u64.into(), 250_u64.into(), lane_of, runs_of, received_of]);
        filled.write(rows).await;
        let received = executions::received_ms(filled.app.database.readers(), Place::new(7, 1)).await.unwrap();
        assert_eq!(received, None, "the node tells of runs and not of this");
        let page = page().await;
        for words in ["2 of 4 used", "3, of which 1 again", "0.25 ms", execution_texts::NOTE] {
            assert!(page.contains(words), "{words} is not in {page}");
        }
    }

    #[tokio::test]
    async fn deleted_rounds_are_named() {
        let filled = filled().await;
        let mut writer = filled.app.database.writer().await.unwrap();
        let rounds = async || {
            let page = show(State(Arc::clone(&filled.app)), Path("7".into()), Query(Before { before: None })).await;
            let page = page.unwrap().0.into_string();
            assert_eq!(testing::links(&page, "/dag?"), Vec::<String>::new());
            let row = page.split(texts::ROUNDS).nth(1).unwrap().split("</dd>").next().unwrap();
            row.split("<dd>").nth(1).unwrap().to_owned()
        };
        sql("DELETE FROM dag_rounds").execute(&mut *writer).await.unwrap();
        assert_eq!(rounds().await, "20 to 21");
        sql("UPDATE leaders SET rank = 2 WHERE number = 41").execute(&mut *writer).await.unwrap();
        assert_eq!(rounds().await, "20 to 21, rank 3");
        sql("DELETE FROM leaders").execute(&mut *writer).await.unwrap();
        assert_eq!(rounds().await, dag_texts::UNKNOWN);
    }
}
