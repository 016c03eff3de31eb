//! Calls inside a transaction. They come from the node's trace while the node can replay the block, otherwise from the
//! database.

use super::MAX_LISTED;
use crate::{
    abi::{self, KnownAbis},
    app_state::AppState,
    database::{Read, sql},
    format,
    node::CallFrame,
    pages::transactions::texts,
    pages::{Failure, cursor, parts},
};
use alloy_primitives::{Address, Bytes, U64};
use maud::{Markup, html};
use sqlx::any::AnyRow;
use std::collections::BTreeSet;

/// First calls of a transaction with their depths, in the order in which they started; the outermost call comes first. Empty if
/// neither the node nor the database has them.
#[derive(Debug, Default)]
pub struct Calls {
    frames: Vec<(u64, CallFrame)>,
    /// `true` if the calls come from the database.
    written_down: bool,
    /// `true` if the transaction has more calls.
    has_more: bool,
}

/// Loads the calls of a row of `transactions`.
pub async fn of(app: &AppState, row: &AnyRow) -> Result<Calls, Failure> {
    let (mut frames, written_down) = match app.node.trace(row.hash("hash")?).await {
        Ok(trace) => (trace.flatten_calls(MAX_LISTED as usize + 1), false),
        Err(_) => (written_down(app, row).await?, true),
    };
    let has_more = cursor::cut(&mut frames, MAX_LISTED).is_some();
    Ok(Calls { frames, written_down, has_more })
}

/// Reads the stored calls, up to one more than a page shows.
async fn written_down(app: &AppState, row: &AnyRow) -> Result<Vec<(u64, CallFrame)>, Failure> {
    let (place, readers) = (row.place("place")?, app.database.readers());
    let text = "SELECT depth, kind, sender, recipient, selector, gas_used, error FROM calls WHERE transaction_place = $1 ORDER BY place LIMIT $2";
    let inner = sql(text).bind(place.0).bind(MAX_LISTED).fetch_all(readers).await?;
    let undone = sql("SELECT error, reason, output FROM undone WHERE place = $1").bind(place.0).fetch_optional(readers).await?;
    if inner.is_empty() && undone.is_none() {
        return Ok(Vec::new());
    }
    let to = row.maybe_address("recipient")?;
    let mut outermost = CallFrame {
        kind: if to.is_some() { "CALL" } else { "CREATE" }.into(),
        from: row.address("sender")?,
        to: to.or(row.maybe_address("created")?),
        gas_used: U64::from(row.number("gas_used")?),
        input: row.bytes("input")?.into(),
        ..CallFrame::default()
    };
    if let Some(undone) = undone {
        (outermost.error, outermost.revert_reason) = (Some(undone.text("error")?), undone.maybe_text("reason")?);
        outermost.output = undone.bytes("output")?.into();
    }
    let mut frames = vec![(0, outermost)];
    for row in inner {
        let frame = CallFrame {
            kind: row.text("kind")?,
            from: row.address("sender")?,
            to: row.maybe_address("recipient")?,
            gas_used: U64::from(row.number("gas_used")?),
            input: row.maybe_bytes("selector")?.unwrap_or_default().into(),
            error: row.maybe_text("error")?,
            ..CallFrame::default()
        };
        frames.push((row.number("depth")?, frame));
    }
    Ok(frames)
}

impl Calls {
    /// Reason of the revert, as far as it is known.
    pub fn why(&self, known: &KnownAbis) -> Markup {
        let Some((_, outermost)) = self.frames.first() else { return html! {} };
        let error = outermost.to.and_then(|to| known.error(to, &outermost.output));
        html! {
            @if let Some(reason) = &outermost.revert_reason { q { (abi::text(reason)) } }
            @else if let Some(error) = error { (super::decoded(&error)) }
            @else if let Some(error) = &outermost.error { (abi::text(error)) }
        }
    }

    /// All called addresses.
    pub fn parties(&self) -> BTreeSet<Address> {
        self.frames.iter().filter_map(|(_, frame)| frame.to).collect()
    }

    /// List of calls, indented by depth. It is flat because third parties choose the depth.
    pub fn tree(&self, known: &KnownAbis) -> Markup {
        html! {
            @if self.frames.is_empty() { p .note { (texts::NO_CALLS) } }
            @else if self.written_down { p .note { (texts::WRITTEN_DOWN) } }
            @if !self.frames.is_empty() { ol .calls { @for (depth, frame) in &self.frames { (line(*depth, frame, known)) } } }
            @if self.has_more { p .note { (texts::FIRST_ONES) } }
        }
    }
}

fn line(depth: u64, frame: &CallFrame, known: &KnownAbis) -> Markup {
    html! {
        li .{ "depth-" (depth.min(12)) } data-depth=(depth) {
            span .kind { (abi::text(&frame.kind)) } " "
            @if let Some(to) = frame.to { (parts::account(to)) " " }
            @match frame.to.and_then(|to| known.call(to, &frame.input)) {
                Some(call) => code { (call.brief()) },
                None => code { (abi::brief(&Bytes::copy_from_slice(&frame.input[..frame.input.len().min(4)]))) },
            }
            span .note { " " (format::number(frame.gas_used.to())) " " (texts::OF_GAS) }
            @if let Some(error) = &frame.error { " " span .tag.bad { (abi::text(error)) } }
        }
    }
}
