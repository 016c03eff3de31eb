//! HTML pages. Each page is a function from the state of database and node to HTML.
//!
//! Pages are readable without scripts; `app.js` updates them. The templates escape all text from the chain.

pub mod account;
pub mod api;
pub mod blocks;
pub mod changes;
pub mod chart;
pub mod cursor;
pub mod dag;
pub mod days;
pub mod execution;
pub mod failure;
pub mod health;
pub mod home;
pub mod layout;
pub mod network;
pub mod parts;
pub mod query;
pub mod search;
pub mod statistics;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod token;
pub mod tokens;
pub mod transactions;
pub mod validator;
pub mod validators;

use crate::views::Failure;
use axum::response::{IntoResponse, Response};
use maud::Markup;
pub use query::Query;

/// Rows on one page of a list.
pub const ROWS: i64 = 25;

/// Result of a page's handler.
pub type Page = Result<Html, Failure>;

/// A complete page.
#[derive(Debug)]
pub struct Html(pub Markup);

impl IntoResponse for Html {
    fn into_response(self) -> Response {
        ([("content-type", "text/html; charset=utf-8")], self.0.into_string()).into_response()
    }
}
