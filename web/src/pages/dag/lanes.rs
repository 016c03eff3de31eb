//! The picture under Autobahn: rows are lanes, vertical lines are cuts. Cars have no rounds, so each one is drawn in the column
//! of the slot that was decided next after its acceptance.

use super::{
    SelectedItem,
    rounds::{LEFT, TOP, name, proposal_text, radius, row_height, rule, star, triangle, verdict},
    window::{Window, arrival_ms, equivocations},
};
use crate::{
    indexer::dag::Form,
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

/// Width of a slot's column with few cars, in units of the drawing.
const COLUMN: u64 = 40;

/// Minimum width of the column after all slots: room for its label beside the last number.
const AFTER: u64 = 120;

/// Maximum number of a lane's cars in a column of normal width. More cars widen the column up to a limit.
const SIDE_BY_SIDE: usize = 3;

/// Maximum number of validators that a line names. For more, it contains their number only.
const MAX_NAMED: usize = 8;

/// Rules of cuts that needed more than one proposer, or more than one phase.
const SLOW: [&str; 4] = ["slow", "common", "coin", "adopted"];

/// Distance of signs from a cut: votes on its left, confirmations on its right.
const BESIDE: u64 = 9;

/// Coordinates of the items in the picture.
struct Layout {
    row: u64,
    /// Column of each slot: left edge and width.
    columns: BTreeMap<u64, (u64, u64)>,
    /// Column after the slots: left edge and width. The width is 0 if nothing belongs there.
    after: (u64, u64),
    width: u64,
    points: BTreeMap<B256, (u64, u64)>,
}

impl Layout {
    fn of(window: &Window) -> Self {
        let row = row_height(window.size);
        let mut groups: BTreeMap<Option<u64>, BTreeMap<u64, Vec<&DagVertex>>> = BTreeMap::new();
        for car in &window.cars {
            groups.entry(column_of(window, car)).or_default().entry(car.author).or_default().push(car);
        }
        let most = |column: Option<u64>| {
            let lanes = groups.get(&column).into_iter().flat_map(BTreeMap::values);
            let most = lanes.map(Vec::len).max().unwrap_or(0);
            COLUMN + 12 * most.saturating_sub(SIDE_BY_SIDE).min(8) as u64
        };
        let mut layout = Self { row, columns: BTreeMap::new(), after: (0, 0), width: LEFT, points: BTreeMap::new() };
        for slot in window.first..=window.last {
            let width = most(Some(slot));
            layout.columns.insert(slot, (layout.width, width));
            layout.width += width;
        }
        let waits = window.last == window.newest || groups.contains_key(&None::<u64>);
        layout.after = (layout.width, if waits { most(None).max(AFTER) } else { 0 });
        layout.width += layout.after.1;
        for (column, lanes) in &groups {
            let (left, width) = column.and_then(|slot| layout.columns.get(&slot).copied()).unwrap_or(layout.after);
            for (lane, cars) in lanes {
                for (nth, car) in cars.iter().enumerate() {
                    let x = left + (2 * nth as u64 + 1) * (width - 6) / (2 * cars.len() as u64);
                    layout.points.insert(car.digest, (x, layout.y(*lane)));
                }
            }
        }
        layout
    }

    fn y(&self, lane: u64) -> u64 {
        TOP + 14 + lane * self.row + self.row / 2
    }
}

/// Slot that was decided next after a car was accepted, or `None` if no slot was decided since.
fn column_of(window: &Window, car: &DagVertex) -> Option<u64> {
    let at = arrival_ms(car)?;
    window.until.iter().find(|(_, until)| at <= **until).map(|(slot, _)| *slot)
}

/// Cars in the column of a slot, or (`None`) in the column after all slots.
pub fn cars_of(window: &Window, slot: Option<u64>) -> Vec<&DagVertex> {
    window.cars.iter().filter(|car| column_of(window, car) == slot).collect()
}

/// Label of the column after all slots. In older pictures it contains cars only if a validator equivocated late.
pub fn after(window: &Window) -> &'static str {
    if window.last == window.newest { texts::NOT_CUT } else { texts::CAME_LATER }
}

/// Draws the picture.
pub fn draw(window: &Window, selected: &SelectedItem<'_>) -> Markup {
    let layout = Layout::of(window);
    let height = TOP + 14 + window.size * layout.row + 8;
    let contradicted = equivocations(&window.cars);
    html! {
        div #picture .picture role="group" aria-label=(texts::picture_lanes(window.form)) tabindex="0" {
            svg viewBox={ "0 0 " (layout.width) " " (height) } width=(layout.width) height=(height) role="presentation" {
                g .names {
                    @for lane in 0..window.size {
                        @let y = layout.y(lane);
                        path .lane d={ "M" (LEFT - 6) " " (y) "H" (layout.width) } {}
                        a href=(links::validator(lane)) { text x="4" y=(y + 4) { "v" (lane) title { (texts::VALIDATOR) " " (lane) } } }
                    }
                    @if layout.after.1 > 0 { text .round x=(layout.after.0 + layout.after.1 / 2) y="16" { (after(window)) } }
                }
                @for (number, (left, width)) in &layout.columns {
                    @let x = left + width - 3;
                    @match window.rounds.get(number).and_then(|round| round.slots.first()) {
                        Some(slot) if slot.status == SlotStatus::Committed => (cut(window, slot, selected, x, height)),
                        _ => rect .gap x=(*left) y=(TOP) width=(*width) height=(height - TOP) { title { (texts::SLOT) " " (number) ": " (texts::UNKNOWN) } },
                    }
                }
                g .lines { path .line d=(chain(window, &layout)) {} }
                @for car in &window.cars { (draw_car(window, &layout, car, selected, &contradicted)) }
                (signs(window, &layout, selected))
            }
        }
    }
}

/// SVG path of the links between consecutive cars.
fn chain(window: &Window, layout: &Layout) -> String {
    let mut chain = String::new();
    for car in &window.cars {
        for parent in &car.parents {
            if let (Some((x, y)), Some((to_x, to_y))) = (layout.points.get(&car.digest), layout.points.get(parent)) {
                let _ = write!(chain, "M{x} {y}L{to_x} {to_y}");
            }
        }
    }
    chain
}

/// Draws an agreed cut. All cars on its left were accepted before its decision.
fn cut(window: &Window, slot: &LeaderSlot, selected: &SelectedItem<'_>, x: u64, height: u64) -> Markup {
    let slow = slot.why.as_deref().is_some_and(|why| SLOW.iter().any(|rule| why.starts_with(rule)));
    html! {
        a .cut.is-slow[slow].chosen[selected.is_slot(slot)] id={ "s" (slot.round) "-" (slot.rank) }
            href=(links::dag_pick(window.middle(), Selection::Slot(slot.round, slot.rank)))
            data-round=(slot.round) data-row="-1" data-rank=(slot.rank) {
            title { (cut_text(slot)) }
            path .wall d={ "M" (x) " " (TOP + 12) "V" (height) } {}
            (badge(slow, x, TOP + 2))
            text .round x=(x) y="16" { (slot.round) }
            text .leader x=(x) y=(TOP + 6) { (slot.validator) }
        }
    }
}

/// Shape around a point: a diamond for the slow path, a square for the fast path.
pub fn badge(slow: bool, x: u64, y: u64) -> Markup {
    match slow {
        true => html! { path .badge d={ "M" (x) " " (y - 9) "l9 9-9 9-9-9z" } {} },
        false => html! { rect .badge x=(x - 7) y=(y - 7) width="14" height="14" rx="2" {} },
    }
}

/// A cut in one sentence.
pub fn cut_text(slot: &LeaderSlot) -> String {
    let rule = rule(slot).map(|rule| format!(", {rule}")).unwrap_or_default();
    texts::cut(slot.round, slot.validator, &format!("{}{rule}", verdict(slot)))
}

fn draw_car(
    window: &Window,
    layout: &Layout,
    car: &DagVertex,
    selected: &SelectedItem<'_>,
    contradicted: &BTreeSet<B256>,
) -> Markup {
    let Some((x, y)) = layout.points.get(&car.digest).copied() else { return html! {} };
    let chosen = selected.vertex.is_some_and(|selected| selected.digest == car.digest);
    let parent = selected.vertex.is_some_and(|selected| selected.parents.contains(&car.digest));
    let parents: Vec<String> = car.parents.iter().map(|parent| name(*parent)).collect();
    let column = column_of(window, car);
    html! {
        a .vertex.ordered[column.is_some()].chosen[chosen].parent[parent]
            id={ "v" (name(car.digest)) } href=(links::dag_pick(window.middle(), Selection::Vertex(car.digest)))
            data-round=(column.unwrap_or(window.last + 1)) data-row=(car.author) data-parents=(parents.join(" ")) {
            title { (car_text(window.form, car)) @if contradicted.contains(&car.digest) { ", " (texts::CONTRADICTION) } }
            circle .reach cx=(x) cy=(y) r=((layout.row / 3).min(8)) {}
            circle cx=(x) cy=(y) r=(radius(car.batch_bytes, layout.row).min(9)) {}
        }
    }
}

/// Signs of the validators that signed for the selected item, each in its own lane.
fn signs(window: &Window, layout: &Layout, selected: &SelectedItem<'_>) -> Markup {
    let rows = |signers: &[u64]| -> Vec<u64> {
        signers.iter().filter(|signer| **signer < window.size).map(|signer| layout.y(*signer)).collect()
    };
    let car = selected.vertex.and_then(|car| {
        let others: Vec<u64> = car.holders.iter().copied().filter(|holder| *holder != car.author).collect();
        Some((layout.points.get(&car.digest)?.0, rows(&others)))
    });
    let cut = selected.slot.and_then(|slot| {
        let (left, width) = layout.columns.get(&slot.round)?;
        Some((left + width - 3, rows(&slot.voters), rows(&slot.confirmers)))
    });
    html! {
        @if let Some((x, holders)) = car { @for y in holders { (triangle(x, y)) } }
        @if let Some((x, voters, confirmers)) = cut {
            @for y in voters { (triangle(x - BESIDE, y)) }
            @for y in confirmers { (star(x + BESIDE, y)) }
        }
    }
}

/// A car in one sentence.
pub fn car_text(form: Form, car: &DagVertex) -> String {
    let text = proposal_text(texts::car(form), car);
    match car.holders.is_empty() {
        true => text,
        false => format!("{text}, {}", texts::held_by(&names(&car.holders))),
    }
}

/// Names of validators in one line, or only their number if they are many.
pub fn names(validators: &[u64]) -> String {
    if validators.len() > MAX_NAMED {
        return texts::validators(validators.len());
    }
    let names: Vec<String> = validators.iter().map(|validator| format!("v{validator}")).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests;
