//! Errors of the API.

use super::schema::object;
use crate::{database::DatabaseError, node::NodeError, views::Failure};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};

object! {
    /// Body of error responses, under `error`.
    Problem {
        /// `bad_request` (400), `not_found` (404), `method_not_allowed` (405), `too_many_requests` (429), `broken` (500: internal error of the
        /// explorer), `halted` (503: the explorer and its node have different chains) or `away` (503: the data requires the node, which does not
        /// respond).
        code: String = "bad_request",
        /// Error message for people.
        message: String = "address: expected 0x and 40 hexadecimal digits",
    }
}

/// Error codes with their HTTP status.
const CODES: [(&str, StatusCode); 7] = [
    ("bad_request", StatusCode::BAD_REQUEST),
    ("not_found", StatusCode::NOT_FOUND),
    ("method_not_allowed", StatusCode::METHOD_NOT_ALLOWED),
    ("too_many_requests", StatusCode::TOO_MANY_REQUESTS),
    ("broken", StatusCode::INTERNAL_SERVER_ERROR),
    ("halted", StatusCode::SERVICE_UNAVAILABLE),
    ("away", StatusCode::SERVICE_UNAVAILABLE),
];

impl Problem {
    /// Creates an error. `code` must be one of [`CODES`].
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into() }
    }

    /// Invalid request.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new("bad_request", message)
    }

    /// Not found.
    pub fn missing(message: impl Into<String>) -> Self {
        Self::new("not_found", message)
    }

    /// Internal error. The details are only logged.
    pub fn broken(error: impl std::fmt::Display) -> Self {
        tracing::error!(%error, "an API request failed");
        Self::new("broken", "internal error; see the log of the explorer")
    }
}

impl From<DatabaseError> for Problem {
    fn from(error: DatabaseError) -> Self {
        Self::broken(error)
    }
}

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        Self::broken(error)
    }
}

impl From<NodeError> for Problem {
    fn from(error: NodeError) -> Self {
        Failure::from(error).into()
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotFound(text) => Self::missing(text),
            Failure::BadRequest(text) => Self::bad(text),
            Failure::Away(text) => Self::new("away", text),
            Failure::Broken(error) => Self::broken(error),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = CODES.iter().find(|(code, _)| *code == self.code).map_or(StatusCode::INTERNAL_SERVER_ERROR, |code| code.1);
        (status, Json(serde_json::json!({"error": self}))).into_response()
    }
}
