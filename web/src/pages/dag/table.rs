//! Text of the page: the table with the content of the picture, the legend, and the explanation of terms.

use super::{
    lanes,
    rounds::{mark, rule, star, triangle, verdict},
    window::{Window, arrival_ms, equivocations},
};
use crate::{format, indexer::dag::Form, links, pages::dag::texts, pages::parts};
use corniche_api::{DagVertex, LeaderSlot, SlotStatus};
use maud::{Markup, html};

/// Rounds with their proposals and leaders.
pub fn rounds(window: &Window) -> Markup {
    let row = |number: u64| {
        let round = window.rounds.get(&number);
        let vertices = round.map_or(&[][..], |round| &round.vertices);
        let slots = round.map_or(&[][..], |round| &round.slots);
        let contradicted = equivocations(vertices);
        vec![
            html! { a href=(links::dag_round(number)) { (format::number(number)) } },
            html! {
                @if vertices.is_empty() { (texts::UNKNOWN) }
                @else {
                    ul .plain {
                        @for vertex in vertices {
                            li { (proposal(vertex)) @if contradicted.contains(&vertex.digest) { " " (contradiction()) } }
                        }
                    }
                }
            },
            html! {
                @if slots.is_empty() { (texts::NO_LEADERS) }
                @else { ul .plain { @for slot in slots { li { (leader(window, slot)) } } } }
            },
            blocks(window, slots),
        ]
    };
    let rows = (window.first..=window.last).rev().map(row).collect();
    parts::table(texts::TITLE, &[texts::ROUND, texts::PROPOSALS, texts::LEADERS, texts::BLOCKS], rows)
}

fn contradiction() -> Markup {
    html! { span .tag.bad { (texts::CONTRADICTION) } }
}

fn proposal(vertex: &DagVertex) -> Markup {
    html! {
        "v" (vertex.author) ": "
        @if vertex.batch_bytes > 0 { (format::bytes(vertex.batch_bytes)) ", " }
        (texts::builds_on(vertex.parents.len()))
        @if vertex.accepted_ms.is_none() { ", " (texts::UNKNOWN) }
    }
}

fn leader(window: &Window, slot: &LeaderSlot) -> Markup {
    let from = slot.digest.and_then(|digest| window.vertex(digest)).and_then(arrival_ms);
    let took = from.zip(slot.decided_ms).map(|(from, at)| at.saturating_sub(from));
    html! {
        "v" (slot.validator) ", " (verdict(slot))
        @if let Some(rule) = rule(slot) { ": " (rule) }
        @if !slot.voters.is_empty() { ", " (texts::voted_by(&lanes::names(&slot.voters))) }
        @if !slot.confirmers.is_empty() { ", " (texts::confirmed_by(&lanes::names(&slot.confirmers))) }
        @if let Some(took) = took { ", " (texts::after_came(&format::duration(took))) }
    }
}

/// Table of slots with the cars before each of them. Cars after all slots are in the first row.
pub fn lanes(window: &Window) -> Markup {
    let contradicted = equivocations(&window.cars);
    let cars = |slot: Option<u64>| {
        let cars = lanes::cars_of(window, slot);
        html! {
            @if cars.is_empty() { "–" }
            @else {
                ul .plain {
                    @for car in cars { li { (lanes::car_text(window.form, car)) @if contradicted.contains(&car.digest) { " " (contradiction()) } } }
                }
            }
        }
    };
    let row = |number: u64| {
        let slot = window.rounds.get(&number).and_then(|round| round.slots.first());
        vec![
            html! { a href=(links::dag_round(number)) { (format::number(number)) } },
            html! { @match slot { Some(slot) => (leader(window, slot)), None => (texts::UNKNOWN) } },
            cars(Some(number)),
            blocks(window, slot),
        ]
    };
    let nothing = || html! { "–" };
    let waits = !lanes::cars_of(window, None).is_empty();
    let after = waits.then(|| vec![html! { (lanes::after(window)) }, nothing(), cars(None), nothing()]);
    let rows = after.into_iter().chain((window.first..=window.last).rev().map(row)).collect();
    parts::table(texts::TITLE, &[texts::SLOT, texts::LEADERS, texts::cars(window.form), texts::BLOCKS], rows)
}

fn blocks<'a>(window: &Window, slots: impl IntoIterator<Item = &'a LeaderSlot>) -> Markup {
    let blocks = window.blocks_of(slots);
    html! { @if blocks.is_empty() { "–" } @for block in blocks { (parts::block(block)) " " } }
}

/// Legend of the signs.
pub fn legend(form: Form) -> Markup {
    let vertex = |ordered: bool| html! { g .vertex.ordered[ordered] { circle cx="14" cy="14" r="7" {} } };
    let leader = |status, word: &str| html! { g .slot.{ "is-" (word) } { (mark(status, 14, 14, 11)) } };
    let badge = |slow: bool| {
        html! {
            g .cut.is-slow[slow] {
                path .wall d="M14 2V26" {}
                (lanes::badge(slow, 14, 14))
            }
        }
    };
    let signs = match form {
        Form::Lanes => vec![
            (vertex(true), texts::SIGN_CAR),
            (vertex(false), texts::SIGN_CAR_WAITS),
            (badge(false), texts::SIGN_FAST),
            (badge(true), texts::SIGN_SLOW),
            (triangle(14, 14), texts::SIGN_SIGNED),
            (star(14, 14), texts::SIGN_CONFIRMED),
        ],
        Form::Batches => vec![
            (vertex(true), texts::SIGN_BATCH),
            (vertex(false), texts::SIGN_BATCH_WAITS),
            (badge(false), texts::SIGN_ONE),
            (badge(true), texts::SIGN_SEVERAL),
        ],
        Form::Numbers => vec![
            (leader(SlotStatus::Committed, texts::COMMITTED), texts::SIGN_FINAL),
            (leader(SlotStatus::Skipped, texts::SKIPPED), texts::SIGN_NULL),
            (leader(SlotStatus::Undecided, texts::UNDECIDED), texts::SIGN_PENDING),
            (vertex(true), texts::SIGN_NUMBER),
            (html! { path .epoch d="M14 2V26" {} }, texts::SIGN_EPOCH_OF_LEADERS),
        ],
        Form::Log => vec![
            (leader(SlotStatus::Committed, texts::COMMITTED), texts::SIGN_FINAL),
            (leader(SlotStatus::Skipped, texts::SKIPPED), texts::SIGN_GAP),
            (leader(SlotStatus::Undecided, texts::UNDECIDED), texts::SIGN_PENDING),
            (vertex(true), texts::SIGN_PACKET),
            (html! { path .epoch d="M14 2V26" {} }, texts::SIGN_EPOCH),
        ],
        Form::Rounds => vec![
            (vertex(true), texts::SIGN_ORDERED),
            (vertex(false), texts::SIGN_WAITS),
            (leader(SlotStatus::Committed, texts::COMMITTED), texts::SIGN_COMMITTED),
            (leader(SlotStatus::Skipped, texts::SKIPPED), texts::SIGN_SKIPPED),
            (leader(SlotStatus::Undecided, texts::UNDECIDED), texts::SIGN_UNDECIDED),
            (triangle(14, 14), texts::SIGN_VOTE),
            (star(14, 14), texts::SIGN_CERTIFICATE),
        ],
    };
    html! {
        section {
            h2 { (texts::LEGEND) }
            ul .legend {
                @for (sign, text) in signs {
                    li { svg .sample viewBox="0 0 28 28" width="28" height="28" aria-hidden="true" { (sign) } span { (text) } }
                }
            }
        }
    }
}

/// Explanation of the terms, for newcomers.
pub fn explanation(form: Form) -> Markup {
    html! {
        section {
            h2 { (texts::EXPLAINED) }
            dl { @for (word, text) in texts::words(form) { div { dt { (word) } dd { (text) } } } }
        }
    }
}
