//! The picture under Mahi-Mahi: columns are rounds, rows are validators, lines connect a proposal with its parents.

use super::{SelectedItem, votes::Votes, window::Window};
use crate::{
    format,
    links::{self, Selection},
    pages::dag::texts,
};
use alloy_primitives::B256;
use corniche_api::{DagVertex, LeaderSlot, SlotStatus};
use maud::{Markup, html};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

/// Width of a round's column, in units of the drawing.
pub const COLUMN: u64 = 46;
/// Width of the row labels.
pub const LEFT: u64 = 40;
/// Height of the column labels.
pub const TOP: u64 = 30;

/// Maximum number of links in a picture with all links. Their number grows with the square of the committee's size.
const MAX_LINES: usize = 4_000;

/// Coordinates of the items in the picture.
struct Layout {
    first: u64,
    row: u64,
    points: BTreeMap<B256, (u64, u64)>,
}

impl Layout {
    fn of(window: &Window) -> Self {
        let mut layout = Self { first: window.first, row: row_height(window.size), points: BTreeMap::new() };
        for (number, round) in &window.rounds {
            let mut before: Option<(u64, u64)> = None;
            for vertex in &round.vertices {
                // Two proposals of one author in one round (equivocation) are drawn side by side.
                let nth = before.filter(|(author, _)| *author == vertex.author).map_or(0, |(_, nth)| nth + 1);
                let (x, y) = layout.place(*number, vertex.author);
                layout.points.insert(vertex.digest, (x + 9 * nth.min(2), y));
                before = Some((vertex.author, nth));
            }
        }
        layout
    }

    fn place(&self, round: u64, author: u64) -> (u64, u64) {
        (LEFT + (round - self.first) * COLUMN + COLUMN / 2, TOP + author * self.row + self.row / 2)
    }
}

/// Height of a row. More validators make rows lower.
pub fn row_height(size: u64) -> u64 {
    (720 / size.max(1)).clamp(16, 52)
}

/// A circle's radius: it grows with the logarithm of the bytes, and fits its row.
pub fn radius(bytes: u64, row: u64) -> u64 {
    let logarithm = u64::from((bytes / 64).checked_ilog2().map_or(0, |log| log + 1));
    ((4 + logarithm) * row / 52).clamp(3, row / 4)
}

/// Draws the picture.
pub fn draw(window: &Window, selected: &SelectedItem<'_>) -> Markup {
    let layout = Layout::of(window);
    let (width, height) = (LEFT + (window.last - window.first + 1) * COLUMN, TOP + window.size * layout.row + 4);
    let ordered = ordered(window);
    let all = window.vertices().map(|vertex| vertex.parents.len()).sum::<usize>() <= MAX_LINES;
    html! {
        @if !all { p .note { (texts::FEW_EDGES) } }
        div #picture .picture role="group" aria-label=(texts::PICTURE) tabindex="0" {
            svg viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height) role="presentation" {
                @if let Some(votes) = &selected.votes { (bands(&layout, votes, window, height)) }
                (columns(window, &layout, height))
                g .lines {
                    @for vertex in window.vertices() {
                        @if all || is_lit(selected, vertex) || leads(window, vertex) { (lines(&layout, vertex, selected)) }
                    }
                    @if let Some(votes) = &selected.votes { path .line.vote d=(route(&layout, votes.lines.iter().copied())) {} }
                }
                @for round in window.rounds.values() {
                    @for slot in &round.slots { (leader(window, &layout, slot, selected)) }
                    @for vertex in &round.vertices { (circle(window, &layout, vertex, selected, &ordered)) }
                }
            }
        }
    }
}

/// Marks the rounds of the selected leader's wave with their roles.
fn bands(layout: &Layout, votes: &Votes, window: &Window, height: u64) -> Markup {
    let bands =
        [(votes.proposed, texts::PROPOSES), (votes.vote_round, texts::CASTS_VOTES), (votes.certify_round, texts::CERTIFIES)];
    html! {
        @for (round, does) in bands {
            @if (window.first..=window.last).contains(&round) {
                @let x = layout.place(round, 0).0 - COLUMN / 2;
                rect .band x=(x) y="0" width=(COLUMN) height=(height) {}
                text .band x=(x + COLUMN / 2) y=(height - 5) { (does) }
            }
        }
    }
}

/// Labels of rounds and validators, and marks for unknown rounds.
fn columns(window: &Window, layout: &Layout, height: u64) -> Markup {
    html! {
        g .names {
            @for author in 0..window.size {
                @let (_, y) = layout.place(window.first, author);
                a href=(links::validator(author)) { text x="4" y=(y + 4) { "v" (author) title { (texts::VALIDATOR) " " (author) } } }
            }
            @for number in window.first..=window.last {
                @let (x, _) = layout.place(number, 0);
                text .round x=(x) y="16" { (number) }
                @if !window.rounds.contains_key(&number) {
                    rect .gap x=(x - COLUMN / 2) y=(TOP) width=(COLUMN) height=(height - TOP) { title { (texts::ROUND) " " (number) ": " (texts::UNKNOWN) } }
                }
            }
        }
    }
}

fn is_lit(selected: &SelectedItem<'_>, vertex: &DagVertex) -> bool {
    selected.vertex.is_some_and(|selected| selected.digest == vertex.digest || selected.parents.contains(&vertex.digest))
}

fn leads(window: &Window, vertex: &DagVertex) -> bool {
    window.rounds.get(&vertex.round).is_some_and(|round| round.slots.iter().any(|slot| slot.validator == vertex.author))
}

fn lines(layout: &Layout, vertex: &DagVertex, selected: &SelectedItem<'_>) -> Markup {
    let lit = selected.vertex.is_some_and(|selected| selected.digest == vertex.digest);
    let path = route(layout, vertex.parents.iter().map(|parent| (vertex.digest, *parent)));
    html! { path .line.lit[lit] data-of=(name(vertex.digest)) d=(path) {} }
}

/// SVG path of the links with both ends in the picture.
fn route(layout: &Layout, lines: impl Iterator<Item = (B256, B256)>) -> String {
    let mut route = String::new();
    for (from, to) in lines {
        if let (Some((x, y)), Some((to_x, to_y))) = (layout.points.get(&from), layout.points.get(&to)) {
            let _ = write!(route, "M{x} {y}L{to_x} {to_y}");
        }
    }
    route
}

/// Id of a proposal within the page: four bytes of its digest in hexadecimal.
pub fn name(digest: B256) -> String {
    hex::encode(&digest[..4])
}

fn circle(
    window: &Window,
    layout: &Layout,
    vertex: &DagVertex,
    selected: &SelectedItem<'_>,
    ordered: &BTreeSet<B256>,
) -> Markup {
    let Some((x, y)) = layout.points.get(&vertex.digest).copied() else { return html! {} };
    let is =
        |set: fn(&Votes) -> &BTreeSet<B256>| selected.votes.as_ref().is_some_and(|votes| set(votes).contains(&vertex.digest));
    let (votes, certifies) = (is(|votes| &votes.voters), is(|votes| &votes.certificates));
    let chosen = selected.vertex.is_some_and(|selected| selected.digest == vertex.digest);
    let parent = selected.vertex.is_some_and(|selected| selected.parents.contains(&vertex.digest));
    let radius = radius(vertex.batch_bytes, layout.row);
    let parents: Vec<String> = vertex.parents.iter().map(|parent| name(*parent)).collect();
    html! {
        a .vertex.ordered[ordered.contains(&vertex.digest)].chosen[chosen].parent[parent]
            id={ "v" (name(vertex.digest)) } href=(links::dag_pick(window.middle(), Selection::Vertex(vertex.digest)))
            data-round=(vertex.round) data-row=(vertex.author) data-parents=(parents.join(" ")) {
            title { (proposal_text(texts::ROUND, vertex)) }
            circle .reach cx=(x) cy=(y) r=((layout.row / 4).min(13)) {}
            circle cx=(x) cy=(y) r=(radius) {}
            @if certifies { (star(x, y)) } @else if votes { (triangle(x, y)) }
        }
    }
}

/// Triangle around a point: a vote.
pub fn triangle(x: u64, y: u64) -> Markup {
    html! { path .sign.voter d={ "M" (x) " " (y - 8) "l8 14h-16z" } {} }
}

/// Star around a point: a certificate or a confirmation.
pub fn star(x: u64, y: u64) -> Markup {
    html! { path .sign.certificate d={ "M" (x) " " (y - 9) "l2.6 6.2 6.6.4-5.1 4.3 1.7 6.4-5.8-3.6-5.8 3.6 1.7-6.4-5.1-4.3 6.6-.4z" } {} }
}

/// A proposal in one sentence. `place` is the word for its position.
pub fn proposal_text(place: &str, vertex: &DagVertex) -> String {
    let bytes = if vertex.batch_bytes == 0 { texts::NO_TRANSACTIONS.to_owned() } else { format::bytes(vertex.batch_bytes) };
    texts::proposal(&format!("{place} {}", vertex.round), vertex.author, &bytes, vertex.parents.len())
}

fn leader(window: &Window, layout: &Layout, slot: &LeaderSlot, selected: &SelectedItem<'_>) -> Markup {
    if slot.validator >= window.size {
        return html! {};
    }
    let (x, y) = layout.place(slot.round, slot.validator);
    let side = (layout.row * 2 / 5).clamp(7, 17);
    let word = verdict(slot);
    html! {
        a .slot.{ "is-" (word) }.chosen[selected.is_slot(slot)] id={ "s" (slot.round) "-" (slot.rank) }
            href=(links::dag_pick(window.middle(), Selection::Slot(slot.round, slot.rank)))
            data-round=(slot.round) data-row=(slot.validator) data-rank=(slot.rank) {
            title { (leader_text(slot)) }
            (mark(slot.status, x, y, side))
        }
    }
}

/// Shape of a leader's verdict around a point.
pub fn mark(status: SlotStatus, x: u64, y: u64, side: u64) -> Markup {
    let (left, top, right, bottom) = (x - side, y - side, x + side, y + side);
    match status {
        SlotStatus::Committed => html! { rect x=(left) y=(top) width=(2 * side) height=(2 * side) rx="3" {} },
        SlotStatus::Skipped => {
            let diamond = format!("M{x} {top}L{right} {y}L{x} {bottom}L{left} {y}Z");
            let half = side / 2;
            let cross = format!(
                "M{} {}L{} {}M{} {}L{} {}",
                x - half,
                y - half,
                x + half,
                y + half,
                x - half,
                y + half,
                x + half,
                y - half
            );
            html! { path d={ (diamond) (cross) } {} }
        }
        SlotStatus::Undecided => html! { circle cx=(x) cy=(y) r=(side) {} },
    }
}

/// A verdict in one word.
pub fn verdict(slot: &LeaderSlot) -> &'static str {
    match slot.status {
        SlotStatus::Committed => texts::COMMITTED,
        SlotStatus::Skipped => texts::SKIPPED,
        SlotStatus::Undecided => texts::UNDECIDED,
    }
}

/// The rule that decided, in the engine's words. For a skip these words begin with the verdict; it is removed because callers
/// show it already.
pub fn rule(slot: &LeaderSlot) -> Option<String> {
    let why = crate::abi::text(slot.why.as_deref()?);
    let rest = why.strip_prefix(verdict(slot)).and_then(|rest| rest.strip_prefix(": "));
    Some(rest.unwrap_or(&why).to_owned())
}

/// A leader in one sentence.
pub fn leader_text(slot: &LeaderSlot) -> String {
    let rule = rule(slot).map(|rule| format!(" ({rule})")).unwrap_or_default();
    texts::leader(slot.round, slot.rank + 1, slot.validator, &format!("{}{rule}", verdict(slot)))
}

/// Proposals that committed leaders reach, directly or indirectly: they are ordered. A leader that commits after an undecided
/// one waits for it.
pub fn ordered(window: &Window) -> BTreeSet<B256> {
    let vertices = window.all_rounds().flat_map(|round| &round.vertices).map(|vertex| (vertex.digest, vertex));
    let vertices: BTreeMap<B256, &DagVertex> = vertices.collect();
    let slots = window.all_rounds().flat_map(|round| &round.slots);
    let decided = slots.take_while(|slot| slot.status != SlotStatus::Undecided);
    let mut left: Vec<B256> = decided.filter_map(|slot| slot.digest).collect();
    let mut ordered = BTreeSet::new();
    while let Some(digest) = left.pop() {
        if let Some(vertex) = vertices.get(&digest).filter(|_| ordered.insert(digest)) {
            left.extend(&vertex.parents);
        }
    }
    ordered
}

/// Short name of a proposal for links: `v<author>@<round>`.
pub fn short_name(vertex: &DagVertex) -> String {
    format!("v{}@{}", vertex.author, vertex.round)
}
