//! Pages for people. Each is a function from what the database and the node know to HTML, readable without a script; `app.js` makes them
//! live. Text of the chain is escaped by the templates, which know no other way.

pub mod account;
pub mod api;
pub mod blocks;
pub mod changes;
pub mod chart;
pub mod cursor;
pub mod dag;
pub mod days;
pub mod failure;
pub mod health;
pub mod home;
pub mod layout;
pub mod network;
pub mod parts;
pub mod search;
pub mod statistics;
#[cfg(test)]
pub(crate) mod testing;
pub mod token;
pub mod tokens;
pub mod transactions;
pub mod validator;
pub mod validators;

pub use failure::Failure;

use axum::response::{IntoResponse, Response};
use maud::Markup;

/// Rows of a list.
pub const ROWS: i64 = 25;

/// What a page's function answers.
pub type Page = Result<Html, Failure>;

/// A whole page.
#[derive(Debug)]
pub struct Html(pub Markup);

impl IntoResponse for Html {
    fn into_response(self) -> Response {
        ([("content-type", "text/html; charset=utf-8")], self.0.into_string()).into_response()
    }
}
