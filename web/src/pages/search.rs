//! Search page: redirects to the only match, or lists the hits, or lists the attempted lookups.

use super::{Page, layout, parts};
use crate::{
    search::texts,
    search::{self, Found, Hit, Kind, MOST_QUESTION},
    site::Site,
    texts::nav,
};
use axum::{
    extract::{Query, State},
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;

/// Query of the search page.
#[derive(Debug, Deserialize)]
pub struct Question {
    /// Text of the query, as typed.
    #[serde(default)]
    pub q: String,
}

/// `/search`
pub async fn show(State(site): State<Arc<Site>>, Query(Question { q }): Query<Question>) -> Response {
    match search::find(&site, &q).await {
        Ok(found) => match found.only() {
            Some(page) => Redirect::to(page).into_response(),
            None => answer(&site, &q, &found).into_response(),
        },
        Err(error) => super::Failure::from(error).into_response(),
    }
}

fn answer(site: &Site, question: &str, found: &Found) -> Page {
    let question: String = question.trim().chars().take(MOST_QUESTION).collect();
    let title = match (question.is_empty(), found.hits.is_empty()) {
        (true, _) => texts::EMPTY,
        (false, true) => texts::NOTHING,
        (false, false) => texts::FOUND,
    };
    let body = html! {
        h1 { (title) }
        form .search.again action=(crate::links::SEARCH) role="search" aria-label=(texts::TITLE) {
            label .hidden for="again" { (nav::SEARCH_HINT) }
            input #again type="search" name="q" value=(question) placeholder=(nav::SEARCH_HINT) maxlength=(MOST_QUESTION) autocomplete="off" spellcheck="false";
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
    Ok(layout::page(site, &format!("{}: {question}", texts::TITLE), body))
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
