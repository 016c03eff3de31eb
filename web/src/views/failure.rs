//! Reasons why a page or a response of the API cannot be shown.

use crate::{database::DatabaseError, node::NodeError, texts::failure as texts};

/// Reason for an error page or an error response.
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
        Self::Away(texts::NO_ANSWER.into())
    }
}
