//! The log under NeoBFT and Mir-BFT: a summary, a row of slots, and their table.

use super::{
    SelectedItem,
    facts::block_links,
    rounds::{COLUMN, TOP, mark, radius},
    window::Window,
};
use crate::{
    format,
    indexer::dag::Form,
    links::{self, Selection},
    pages::dag::texts,
    pages::parts,
    views::log::{Content, Entry, EntryStatus, entries},
};
use corniche_api::SlotStatus;
use maud::{Markup, html};
use std::collections::BTreeSet;

/// Space on the left and on the right of the slots, in units of the drawing.
const MARGIN: u64 = 8;

/// Height of a slot, and half the side of its sign.
const ROW: u64 = 52;
const SIDE: u64 = 17;

/// Number of slots by status, and their epochs.
pub fn summary(window: &Window) -> Markup {
    let entries = entries(window);
    let count = |status| entries.iter().filter(|entry| entry.status == status).count();
    let epochs: BTreeSet<u64> = entries.iter().filter_map(|entry| entry.stamp).map(|stamp| stamp.epoch).collect();
    let epochs = match (epochs.first(), epochs.last()) {
        (Some(first), Some(last)) => texts::range(&format::number(*first), &format::number(*last)),
        _ => texts::UNKNOWN.to_owned(),
    };
    let packets = texts::packets(count(EntryStatus::Final), count(EntryStatus::Pending), count(EntryStatus::Unknown));
    let gaps = count(EntryStatus::Gap);
    let is_sequenced = window.form == Form::Log;
    html! {
        section #summary {
            (parts::facts(&[
                (texts::SLOTS, html! { (texts::range(&format::number(window.first), &format::number(window.last))) }),
                (texts::EPOCHS, html! { (epochs) }),
                (if is_sequenced { texts::PACKETS } else { texts::BATCHES }, html! { (packets) }),
                (if is_sequenced { texts::GAPS } else { texts::NULLS }, html! { @if gaps > 0 { span .tag.bad { (gaps) } } @else { (gaps) } }),
            ]))
        }
    }
}

/// Draws the slots of the window in one row.
pub fn draw(window: &Window, selected: &SelectedItem<'_>) -> Markup {
    let entries = entries(window);
    let (width, height) = (2 * MARGIN + entries.len() as u64 * COLUMN, TOP + ROW + 36);
    html! {
        div #picture .picture role="group" aria-label=(texts::PICTURE_LOG) tabindex="0" {
            svg viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height) role="presentation" {
                @for (column, entry) in (0..).zip(&entries) {
                    @let left = MARGIN + column * COLUMN;
                    @if let Some(stamp) = entry.stamp.filter(|_| entry.begins_epoch) {
                        path .epoch d={ "M" (left) " " (TOP) "V" (height) } {}
                        text x=(left + 4) y=(height - 6) { (texts::epoch(stamp.epoch)) }
                    }
                    (cell(window, entry, selected, left))
                }
            }
        }
    }
}

fn cell(window: &Window, entry: &Entry<'_>, selected: &SelectedItem<'_>, left: u64) -> Markup {
    let (x, y) = (left + COLUMN / 2, TOP + ROW / 2);
    let chosen = selected.entry.as_ref().is_some_and(|selected| selected.slot == entry.slot);
    let (class, sign) = match entry.status {
        EntryStatus::Final => ("is-committed", mark(SlotStatus::Committed, x, y, SIDE)),
        EntryStatus::Gap => ("is-skipped", mark(SlotStatus::Skipped, x, y, SIDE)),
        EntryStatus::Pending => ("is-undecided", mark(SlotStatus::Undecided, x, y, SIDE)),
        EntryStatus::Unknown => ("is-unknown", html! { rect .gap x=(left) y=(TOP) width=(COLUMN) height=(ROW) {} }),
    };
    html! {
        text .round x=(x) y="16" { (entry.slot) }
        a .slot.(class).chosen[chosen] id={ "s" (entry.slot) "-0" }
            href=(links::dag_pick(window.middle(), Selection::Slot(entry.slot, 0)))
            data-round=(entry.slot) data-row="0" data-rank="0" {
            title { (entry_text(entry)) }
            (sign)
        }
        @if let Some(vertex) = entry.vertex {
            // The sign around it is the link.
            g .vertex.ordered[entry.status == EntryStatus::Final] pointer-events="none" {
                circle cx=(x) cy=(y) r=(radius(vertex.batch_bytes, ROW)) {}
            }
        }
        @if let Some(author) = entry.author() { text .leader x=(x) y=(TOP + ROW + 10) { "v" (author) } }
    }
}

/// A slot in one sentence.
pub fn entry_text(entry: &Entry<'_>) -> String {
    let stamp = entry.stamp.map(|stamp| texts::stamp(stamp.number, stamp.epoch));
    let author = entry.author().map(crate::texts::validator);
    let content = (entry.status != EntryStatus::Gap).then(|| content_text(entry.content));
    let facts: Vec<String> = [stamp, author, content].into_iter().flatten().collect();
    texts::entry(entry.slot, status_text(entry), &facts)
}

fn status_text(entry: &Entry<'_>) -> &'static str {
    match entry.status {
        EntryStatus::Final => texts::FINAL,
        EntryStatus::Gap if entry.form == Form::Numbers => texts::NULL,
        EntryStatus::Gap => texts::GAP,
        EntryStatus::Pending => texts::PENDING,
        EntryStatus::Unknown => texts::UNKNOWN,
    }
}

/// Content of a slot in one word, or its size.
pub fn content_text(content: Content) -> String {
    match content {
        Content::Transactions(bytes) => format::bytes(bytes),
        Content::Clock => texts::CLOCK.to_owned(),
        Content::Empty => texts::NO_TRANSACTIONS.to_owned(),
        Content::Heartbeat => texts::HEARTBEAT.to_owned(),
        Content::Nothing => texts::NO_BYTES.to_owned(),
        Content::Unknown => texts::UNKNOWN.to_owned(),
    }
}

/// Status of a slot with its explanation.
pub fn status(entry: &Entry<'_>) -> Markup {
    let (class, means) = match entry.status {
        EntryStatus::Final => ("good", None),
        EntryStatus::Gap if entry.form == Form::Numbers => ("bad", Some(texts::NULL_MEANS)),
        EntryStatus::Gap => ("bad", Some(texts::GAP_MEANS)),
        EntryStatus::Pending => ("is-pending", Some(texts::PENDING_MEANS)),
        EntryStatus::Unknown => ("is-unknown", None),
    };
    html! { span .tag.(class) { (status_text(entry)) } @if let Some(means) = means { " " (means) } }
}

/// Table of the slots, newest first. A row of its own marks where an epoch begins.
pub fn table(window: &Window) -> Markup {
    let columns = [texts::SLOT, texts::EPOCH, texts::NUMBER, texts::AUTHOR, texts::CONTENT, texts::STATUS, texts::TOOK];
    let entries = entries(window);
    html! {
        table {
            caption .hidden { (texts::title(window.form)) }
            thead { tr { @for column in columns { th scope="col" { (column) } } } }
            tbody {
                @for entry in entries.iter().rev() {
                    tr .is-gap[entry.status == EntryStatus::Gap] {
                        @for (column, cell) in columns.iter().zip(row(window, entry)) { td data-column=(column) { (cell) } }
                    }
                    @if let Some(stamp) = entry.stamp.filter(|_| entry.begins_epoch) {
                        tr .epoch { td colspan=(columns.len()) { (texts::epoch_begins(window.form, &format::number(stamp.epoch))) } }
                    }
                }
            }
        }
    }
}

fn row(window: &Window, entry: &Entry<'_>) -> [Markup; 7] {
    let pick = links::dag_pick(window.middle(), Selection::Slot(entry.slot, 0));
    let number = |number: Option<u64>| html! { (number.map_or("–".to_owned(), format::number)) };
    let blocks = match (entry.content, entry.verdict) {
        (Content::Transactions(_), Some(slot)) => window.blocks_of([slot]),
        _ => Vec::new(),
    };
    [
        html! { a href=(pick) { (format::number(entry.slot)) } },
        number(entry.stamp.map(|stamp| stamp.epoch)),
        number(entry.stamp.map(|stamp| stamp.number)),
        html! { @match entry.author() { Some(author) => (parts::validator(author)), None => "–" } },
        html! { (content_text(entry.content)) @if !blocks.is_empty() { ", " (texts::IN_BLOCK) " " (block_links(&blocks)) } },
        status(entry),
        html! { (entry.took_ms().map_or("–".to_owned(), format::duration)) },
    ]
}

#[cfg(test)]
mod tests;
