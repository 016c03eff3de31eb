//! Page of the consensus DAG: the DAG as it grows, and the verdict on each leader.
//!
//! Under Mahi-Mahi it shows proposals by round, under Autobahn lanes of cars and the cuts through them. The server draws
//! everything; `dag.js` only fetches it again.

mod facts;
mod lanes;
mod rounds;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod texts;
mod votes;

use super::{Failure, Page, Query, layout, parts};
use crate::{
    abi,
    app_state::AppState,
    database::{Read, int, sql},
    format,
    links::{self, InvalidSelection, Selection},
    views::rounds::{self as window, COLUMNS, Window},
};
use axum::extract::State;
use corniche_api::{DagVertex, LeaderSlot};
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;

/// Query: position of the picture, and selected item.
#[derive(Debug, Deserialize)]
pub struct DagQuery {
    /// Round near the middle of the picture. Default: the newest rounds.
    pub round: Option<u64>,
    /// Selected item; see [`Selection`].
    pub pick: Option<String>,
}

/// The selected item, found in the window.
#[derive(Default)]
pub struct SelectedItem<'a> {
    vertex: Option<&'a DagVertex>,
    /// Blocks that contain transactions of its batch.
    blocks: Vec<u64>,
    slot: Option<&'a LeaderSlot>,
    votes: Option<votes::Votes>,
}

impl<'a> SelectedItem<'a> {
    fn find(window: &'a Window, pick: Selection) -> Self {
        match pick {
            Selection::Vertex(digest) => Self { vertex: window.vertex(digest), ..Self::default() },
            Selection::Batch(author, digest) => Self { vertex: window.proposal_with(author, digest), ..Self::default() },
            Selection::Slot(round, rank) => {
                let slot = window.rounds.get(&round).and_then(|known| known.slots.iter().find(|slot| slot.rank == rank));
                let votes = slot.filter(|_| !window.lanes).and_then(|slot| votes::Votes::of(window, slot));
                Self { slot, votes, ..Self::default() }
            }
        }
    }

    async fn with_blocks(self, app: &AppState) -> Result<Self, Failure> {
        let Some((author, digest)) = self.vertex.and_then(|vertex| Some((vertex.author, vertex.batch_digest?))) else {
            return Ok(self);
        };
        let text = "SELECT block FROM batches WHERE digest = $1 AND author = $2 ORDER BY block LIMIT 8";
        let rows = sql(text).bind(digest.to_vec()).bind(int(author)).fetch_all(app.database.readers()).await?;
        Ok(Self { blocks: rows.iter().map(|row| row.number("block")).collect::<Result<_, _>>()?, ..self })
    }

    fn is_slot(&self, slot: &LeaderSlot) -> bool {
        self.slot.is_some_and(|selected| (selected.round, selected.rank) == (slot.round, slot.rank))
    }
}

/// `/dag`
pub async fn show(State(app): State<Arc<AppState>>, Query(at): Query<DagQuery>) -> Page {
    let pick = at.pick.as_deref().map(str::parse).transpose();
    let pick = pick.map_err(|InvalidSelection| Failure::BadRequest(texts::BAD_PICK.into()))?;
    let body = match Window::load(&app, at.round).await? {
        Some(window) => shown(&app, &window, at.round, pick).await?,
        None => empty_page(&app, at.round)?,
    };
    Ok(layout::page(&app, texts::TITLE, body))
}

async fn shown(app: &AppState, window: &Window, round: Option<u64>, pick: Option<Selection>) -> Result<Markup, Failure> {
    let selected = pick.map(|pick| SelectedItem::find(window, pick)).unwrap_or_default().with_blocks(app).await?;
    Ok(html! {
        h1 { (texts::TITLE) }
        p { @if window.lanes { (texts::LEAD_LANES) } @else { (texts::LEAD) } }
        (notices(app))
        (scrub(window, round))
        div #dag data-first=(window.first) data-last=(window.last) data-oldest=(window.oldest) data-newest=(window.newest)
            data-follows=[(round.is_none() && pick.is_none()).then_some("yes")] data-texts=(parts::texts(&texts::SCRIPT)) {
            (paging(window))
            @if window.lanes { (lanes::draw(window, &selected)) } @else { (rounds::draw(window, &selected)) }
            section #facts {
                h2 { (texts::FACTS) }
                p #near .note aria-live="off" {}
                div #fact aria-live="polite" {
                    @if pick.is_some() { (facts::of(window, &selected)) }
                    @else { p .note { @if window.lanes { (texts::FACTS_EMPTY_LANES) } @else { (texts::FACTS_EMPTY) } } }
                }
            }
            details #rounds {
                summary { (texts::TABLE) }
                div #table { @if window.lanes { (table::lanes(window)) } @else { (table::rounds(window)) } }
            }
            @if !window.lanes { (facts::blocks(window)) }
        }
        (table::legend(window.lanes))
        (table::explanation(window.lanes))
        script src=(links::DAG_SCRIPT) defer {}
    })
}

/// Form that selects a round: a number field, and a slider if scripts run.
fn scrub(window: &Window, round: Option<u64>) -> Markup {
    let (oldest, newest) = (window.oldest, window.newest);
    let value = round.unwrap_or(newest);
    html! {
        form #scrub .scrub action=(links::DAG) {
            label for="round" { @if window.lanes { (texts::SLOT) } @else { (texts::ROUND) } }
            input #round type="number" name="round" min=(oldest) max=(newest) value=(value) required;
            button { (texts::SHOW) }
            span .note { (format::number(oldest)) " – " span #newest { (format::number(newest)) } }
            label .hidden for="slider" { (texts::SCRUB) }
            input #slider type="range" min=(oldest) max=(newest) value=(value) hidden;
            p #follows .note hidden { (texts::FOLLOWS) }
        }
    }
}

fn paging(window: &Window) -> Markup {
    html! {
        nav #paging .pages aria-label=(texts::SCRUB) {
            @if window.first > window.oldest {
                a #earlier rel="prev" href=(links::dag_round(window.middle().saturating_sub(COLUMNS).max(window.oldest))) { (texts::EARLIER) }
            }
            @if window.last < window.newest {
                a #later rel="next" href=(links::dag_round((window.middle() + COLUMNS).min(window.newest))) { (texts::LATER) }
            }
            a #now href=(links::DAG) { (texts::NEWEST) }
        }
    }
}

/// Notes about data that may be missing in the picture.
fn notices(app: &AppState) -> Markup {
    let now = app.status();
    html! {
        @if let Some(why) = &now.dag_unavailable { p .note { (texts::NONE) " " (why) } }
        @if now.dag_dropped > 0 { p .note { (format::number(now.dag_dropped)) " " (texts::DROPPED) } }
    }
}

/// Page for the case that no round is known.
fn empty_page(app: &AppState, round: Option<u64>) -> Result<Markup, Failure> {
    if let Some(round) = round {
        return Err(Failure::NotFound(texts::no_round_yet(&format::number(round))));
    }
    let why = app.status().dag_unavailable;
    Ok(html! {
        h1 { (texts::TITLE) }
        @match &why {
            Some(why) => { p { (texts::NONE) } p { q { (abi::text(why)) } } p .note { (texts::NONE_HINT) } }
            None => p { (texts::EMPTY) },
        }
        (table::explanation(app.has_lanes()))
    })
}
