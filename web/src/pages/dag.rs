//! Page of the consensus DAG: the DAG as it grows, and the verdict on each leader.
//!
//! Under Mahi-Mahi it shows proposals by round, under Autobahn lanes of cars and the cuts through them, under engines for crashes
//! lanes of batches, under NeoBFT and Mir-BFT the slots of the log. The server draws everything; `dag.js` only fetches it again.

mod facts;
mod lanes;
mod log;
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
    indexer::dag::Form,
    links::{self, InvalidSelection, Selection},
    views::{
        log::{Entry, entries},
        rounds::{self as window, COLUMNS, Window},
    },
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
    /// Slot of a log.
    entry: Option<Entry<'a>>,
}

impl<'a> SelectedItem<'a> {
    fn find(window: &'a Window, pick: Selection) -> Self {
        if window.form.is_log() {
            return Self::in_log(window, pick);
        }
        match pick {
            Selection::Vertex(digest) => Self { vertex: window.vertex(digest), ..Self::default() },
            Selection::Batch(author, digest) => Self { vertex: window.proposal_with(author, digest), ..Self::default() },
            Selection::Slot(round, rank) => {
                let slot = window.rounds.get(&round).and_then(|known| known.slots.iter().find(|slot| slot.rank == rank));
                let votes = slot.filter(|_| window.form == Form::Rounds).and_then(|slot| votes::Votes::of(window, slot));
                Self { slot, votes, ..Self::default() }
            }
        }
    }

    /// In a log every item is a slot.
    fn in_log(window: &'a Window, pick: Selection) -> Self {
        let slot = match pick {
            Selection::Vertex(digest) => window.vertex(digest).map(|vertex| vertex.round),
            Selection::Batch(author, digest) => window.proposal_with(author, digest).map(|vertex| vertex.round),
            Selection::Slot(slot, _) => Some(slot),
        };
        let entry = entries(window).into_iter().find(|entry| Some(entry.slot) == slot);
        Self { vertex: entry.as_ref().and_then(|entry| entry.vertex), entry, ..Self::default() }
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
    let (form, body) = match Window::load(&app, at.round).await? {
        Some(window) => (window.form, shown(&app, &window, at.round, pick).await?),
        None => (app.form(), empty_page(&app, at.round)?),
    };
    Ok(layout::page(&app, texts::title(form), body))
}

async fn shown(app: &AppState, window: &Window, round: Option<u64>, pick: Option<Selection>) -> Result<Markup, Failure> {
    let selected = pick.map(|pick| SelectedItem::find(window, pick)).unwrap_or_default().with_blocks(app).await?;
    let form = window.form;
    Ok(html! {
        h1 { (texts::title(form)) }
        p { (texts::lead(form)) }
        (notices(app))
        (scrub(window, round))
        div #dag data-first=(window.first) data-last=(window.last) data-oldest=(window.oldest) data-newest=(window.newest)
            data-follows=[(round.is_none() && pick.is_none()).then_some("yes")] data-texts=(parts::texts(&texts::SCRIPT)) {
            (paging(window))
            @match form {
                Form::Rounds => (rounds::draw(window, &selected)),
                Form::Lanes | Form::Batches => (lanes::draw(window, &selected)),
                Form::Log | Form::Numbers => { (log::summary(window)) (log::draw(window, &selected)) }
            }
            section #facts {
                h2 { (texts::FACTS) }
                p #near .note aria-live="off" {}
                div #fact aria-live="polite" {
                    @if pick.is_some() { (facts::of(window, &selected)) }
                    @else { p .note { (texts::facts_empty(form)) } }
                }
            }
            @match form {
                Form::Rounds => { (hidden_table(table::rounds(window))) (facts::blocks(window)) }
                Form::Lanes | Form::Batches => (hidden_table(table::lanes(window))),
                Form::Log | Form::Numbers => section #rounds { h2 { (texts::SLOTS) } div #table { (log::table(window)) } },
            }
        }
        (table::legend(form))
        (table::explanation(form))
        script src=(links::DAG_SCRIPT) defer {}
    })
}

/// Table with the content of the picture, for readers who open it.
fn hidden_table(table: Markup) -> Markup {
    html! { details #rounds { summary { (texts::TABLE) } div #table { (table) } } }
}

/// Form that selects a round: a number field, and a slider if scripts run.
fn scrub(window: &Window, round: Option<u64>) -> Markup {
    let (oldest, newest) = (window.oldest, window.newest);
    let value = round.unwrap_or(newest);
    html! {
        form #scrub .scrub action=(links::DAG) {
            label for="round" { (texts::place(window.form)) }
            input #round type="number" name="round" min=(oldest) max=(newest) value=(value) required;
            button { (texts::SHOW) }
            span .note { (format::number(oldest)) " – " span #newest { (format::number(newest)) } }
            label .hidden for="slider" { (texts::places(window.form)) }
            input #slider type="range" min=(oldest) max=(newest) value=(value) hidden;
            p #follows .note hidden { (texts::FOLLOWS) }
        }
    }
}

fn paging(window: &Window) -> Markup {
    html! {
        nav #paging .pages aria-label=(texts::places(window.form)) {
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
    let form = app.form();
    if let Some(round) = round {
        return Err(Failure::NotFound(texts::no_round_yet(form, &format::number(round))));
    }
    let why = app.status().dag_unavailable;
    Ok(html! {
        h1 { (texts::title(form)) }
        @match &why {
            Some(why) => { p { (texts::NONE) } p { q { (abi::text(why)) } } p .note { (texts::NONE_HINT) } }
            None => p { (texts::empty(form)) },
        }
        (table::explanation(form))
    })
}
