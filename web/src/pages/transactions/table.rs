//! Tables of transactions.

use super::{
    super::{Failure, execution::of_transaction, parts},
    texts,
};
use crate::{abi::KnownAbis, app_state::AppState, database::Read, texts::nav};
use corniche_api::Execution;
use maud::{Markup, html};
use sqlx::any::AnyRow;

/// A column of a table of transactions.
#[derive(Clone, Copy)]
enum Column {
    Hash,
    Method,
    Block,
    From,
    To,
    Value,
    Age,
    Author,
    Execution,
}

/// Data of a table that is not in its rows.
struct Context<'a> {
    known: KnownAbis,
    currency: String,
    execution: Option<&'a Execution>,
}

impl Column {
    fn label(self) -> &'static str {
        match self {
            Self::Hash => texts::TXN_HASH,
            Self::Method => texts::METHOD,
            Self::Block => texts::BLOCK,
            Self::From => texts::FROM,
            Self::To => texts::TO,
            Self::Value => texts::VALUE,
            Self::Age => texts::AGE,
            Self::Author => texts::AUTHOR,
            Self::Execution => texts::EXECUTION,
        }
    }

    fn cell(self, row: &AnyRow, context: &Context<'_>) -> Result<Markup, Failure> {
        Ok(match self {
            Self::Hash => {
                html! { (parts::transaction(row.hash("hash")?)) @if row.int("succeeded")? == 0 { " " (parts::result(false)) } }
            }
            Self::Method => html! { span .method { (method(row, &context.known)) } },
            Self::Block => parts::block(row.place("place")?.block()),
            Self::From => parts::account(row.address("sender")?),
            Self::To => recipient(row)?,
            Self::Value => parts::coins(row.amount("value")?, &context.currency),
            Self::Age => parts::time(row.number("time_ms")?),
            Self::Author => row.maybe_number("author")?.map_or(html! { "–" }, parts::validator),
            Self::Execution => {
                let position = row.place("place")?.position();
                let run = context.execution.and_then(|execution| of_transaction(execution, position));
                html! { (run.unwrap_or_else(|| "–".into())) }
            }
        })
    }
}

/// A table of transactions.
pub async fn table(app: &AppState, rows: &[AnyRow]) -> Result<Markup, Failure> {
    use Column::*;
    table_of(app, rows, &[Hash, Method, Block, From, To, Value, Age], None).await
}

/// Table of a block's transactions, with the author of each one's batch and its execution.
pub async fn table_of_block(app: &AppState, rows: &[AnyRow], execution: Option<&Execution>) -> Result<Markup, Failure> {
    let mut columns = vec![Column::Hash, Column::Method, Column::From, Column::To, Column::Value, Column::Author];
    columns.extend(execution.map(|_| Column::Execution));
    table_of(app, rows, &columns, execution).await
}

/// Table with fewer columns, for half a page.
pub async fn narrow_table(app: &AppState, rows: &[AnyRow]) -> Result<Markup, Failure> {
    table_of(app, rows, &[Column::Hash, Column::Method, Column::From, Column::Age], None).await
}

async fn table_of(
    app: &AppState,
    rows: &[AnyRow],
    columns: &[Column],
    execution: Option<&Execution>,
) -> Result<Markup, Failure> {
    let known = KnownAbis::methods_of(&app.database, rows).await?;
    let context = Context { known, currency: app.status().currency, execution };
    let cells = |row: &AnyRow| columns.iter().map(|column| column.cell(row, &context)).collect::<Result<Vec<_>, _>>();
    let labels: Vec<_> = columns.iter().map(|column| column.label()).collect();
    Ok(parts::table(nav::TRANSACTIONS, &labels, rows.iter().map(cells).collect::<Result<_, _>>()?))
}

fn recipient(row: &AnyRow) -> Result<Markup, Failure> {
    Ok(match (row.maybe_address("recipient")?, row.maybe_address("created")?) {
        (Some(to), _) => parts::account(to),
        (None, Some(created)) => html! { (texts::CREATION) " " (parts::account(created)) },
        (None, None) => html! { (texts::CREATION) },
    })
}

/// Name of the called method, or the kind of the transaction.
fn method(row: &AnyRow, known: &KnownAbis) -> String {
    match (row.maybe_address("recipient"), row.selector("selector")) {
        (Ok(None), _) => texts::CREATION.into(),
        (_, Ok(Some(selector))) => known.method_or_selector(selector),
        _ => texts::TRANSFER.into(),
    }
}
