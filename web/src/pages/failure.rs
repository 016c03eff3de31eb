//! Error pages: the reason, and advice.

use super::{Html, layout};
use crate::{database::DatabaseError, node::NodeError, words::failure as words};
use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use maud::html;

/// Reason for an error page.
#[derive(Debug)]
pub enum Failure {
    /// The item does not exist. The text describes what was searched and where.
    NotFound(String),
    /// The URL is invalid. The text gives the reason.
    BadRequest(String),
    /// Only the node has the data, and it does not respond. The text describes what is known without it.
    Away(String),
    /// Internal error. The text goes to the log only.
    Broken(String),
}

impl From<DatabaseError> for Failure {
    fn from(error: DatabaseError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Self {
        if error.is_refusal() {
            return Self::Broken(error.to_string());
        }
        tracing::warn!(%error, "node unavailable");
        Self::Away(words::NO_ANSWER.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let (status, title, text, hint) = match self {
            Self::NotFound(text) => (StatusCode::NOT_FOUND, words::NOT_FOUND, text, words::NOT_FOUND_HINT),
            Self::BadRequest(text) => (StatusCode::BAD_REQUEST, words::BAD_REQUEST, text, words::NOT_FOUND_HINT),
            Self::Away(text) => (StatusCode::SERVICE_UNAVAILABLE, words::AWAY, text, words::AWAY_HINT),
            Self::Broken(error) => {
                tracing::error!(%error, "a page failed");
                (StatusCode::INTERNAL_SERVER_ERROR, words::BROKEN, String::new(), words::BROKEN_HINT)
            }
        };
        let body = html! {
            h1 { (title) }
            @if !text.is_empty() { p { (text) } }
            p { (hint) }
        };
        (status, Html(layout::bare(title, body))).into_response()
    }
}
