//! Error pages: the reason, and advice.

use super::{Html, layout};
use crate::{texts::failure as texts, views::Failure};
use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use maud::html;

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let (status, title, text, hint) = match self {
            Self::NotFound(text) => (StatusCode::NOT_FOUND, texts::NOT_FOUND, text, texts::NOT_FOUND_HINT),
            Self::BadRequest(text) => (StatusCode::BAD_REQUEST, texts::BAD_REQUEST, text, texts::NOT_FOUND_HINT),
            Self::Away(text) => (StatusCode::SERVICE_UNAVAILABLE, texts::AWAY, text, texts::AWAY_HINT),
            Self::Broken(error) => {
                tracing::error!(%error, "a page failed");
                (StatusCode::INTERNAL_SERVER_ERROR, texts::BROKEN, String::new(), texts::BROKEN_HINT)
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
