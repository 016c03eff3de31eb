//! Query strings of pages.

use super::Failure;
use crate::abi;
use axum::{extract, extract::FromRequestParts, http::request::Parts};
use serde::de::DeserializeOwned;

/// Like [`extract::Query`], with an error page for an invalid query.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match extract::Query::from_request_parts(parts, state).await {
            Ok(extract::Query(query)) => Ok(Self(query)),
            Err(rejection) => Err(Failure::BadRequest(abi::text(&rejection.body_text()))),
        }
    }
}
