//! Search page: redirects to the only match, or lists the hits, or lists the attempted lookups.

pub(crate) mod texts;

use super::{Page, Query, layout, parts};
use crate::{
    app_state::AppState,
    search::{self, Found, Hit, Kind, MAX_QUERY_CHARS},
    texts::nav,
};
use axum::{
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;

/// Query of the search page.
#[derive(Debug, Deserialize)]
pub struct SearchQuery {
    /// Text of the query, as typed.
    #[serde(default)]
    pub q: String,
}

/// `/search`
pub async fn show(State(app): State<Arc<AppState>>, Query(SearchQuery { q }): Query<SearchQuery>) -> Response {
    match search::find(&app, &q).await {
        Ok(found) => match found.only() {
            Some(page) => Redirect::to(page).into_response(),
            None => answer(&app, &q, &found).into_response(),
        },
        Err(error) => super::Failure::from(error).into_response(),
    }
}

fn answer(app: &AppState, query_text: &str, found: &Found) -> Page {
    let query_text: String = query_text.trim().chars().take(MAX_QUERY_CHARS).collect();
    let title = match (query_text.is_empty(), found.hits.is_empty()) {
        (true, _) => texts::EMPTY,
        (false, true) => texts::NOTHING,
        (false, false) => texts::FOUND,
    };
    let body = html! {
        h1 { (title) }
        form .search.again action=(crate::links::SEARCH) role="search" aria-label=(texts::TITLE) {
            label .hidden for="again" { (nav::SEARCH_HINT) }
            input #again type="search" name="q" value=(query_text) placeholder=(nav::SEARCH_HINT) maxlength=(MAX_QUERY_CHARS) autocomplete="off" spellcheck="false";
            button { (nav::SEARCH) }
        }
        @if let Some(warning) = found.warning { p .banner role="alert" { (warning) } }
        @for (kind, heading) in Kind::ALL.iter().zip(texts::KINDS) {
            @let hits: Vec<&Hit> = found.hits.iter().filter(|hit| hit.kind == *kind).collect();
            @if !hits.is_empty() { section { h2 { (heading) } (table(heading, &hits)) } }
        }
        @if !found.tried.is_empty() && found.hits.is_empty() {
            section { h2 { (texts::TRIED) } ul { @for tried in &found.tried { li .data { (tried) } } } }
        }
        @if found.hits.is_empty() {
            section { h2 { (texts::NEXT) } ul { @for advice in texts::ADVICE { li { (advice) } } } }
        }
    };
    Ok(layout::page(app, &format!("{}: {query_text}", texts::TITLE), body))
}

fn table(heading: &str, hits: &[&Hit]) -> Markup {
    let row = |hit: &&Hit| {
        let id = html! { code { (hit.id) } };
        let linked = match &hit.page {
            Some(page) => html! { a href=(page) { (id) } },
            None => id,
        };
        vec![linked, html! { span .data { (hit.title) } }]
    };
    parts::table(heading, &[texts::WHAT, texts::NAME], hits.iter().map(row).collect())
}
