//! The explorer's HTTP API. The router, the page at `/api` and `docs/explorer-api.md` are all generated from one table.
//!
//! ```text
//! /api/v1/…        JSON API: `schema` declares the objects, `request` parses parameters and paginates lists
//! /api/v1/….csv    an account's history for spreadsheets: `csv`
//! /api?module=…    API for tools written for Etherscan: `etherscan`
//! ```

pub mod accounts;
pub mod blocks;
pub mod chain;
pub mod contracts;
pub mod csv;
pub mod dag;
pub mod effects;
pub mod etherscan;
pub mod peers;
pub mod problem;
pub mod reference;
pub mod request;
pub mod schema;
pub mod tokens;
pub mod transactions;

use crate::{
    app_state::AppState,
    views::reference::{Parameter, Schema},
};
use axum::{
    Json, Router,
    extract::{
        Path, Query, Request, State,
        rejection::{PathRejection, QueryRejection},
    },
    http::{HeaderValue, Method, header},
    response::{IntoResponse, Response},
    routing::get,
};
use futures::future::BoxFuture;
use problem::Problem;
use request::ApiRequest;
use schema::HasSchema;
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};

/// Path of the status endpoint, which answers even if the indexer has halted.
pub const STATUS: &str = "/api/v1/status";

/// An endpoint of the API.
#[derive(Clone, Copy)]
pub struct Endpoint {
    /// Path, with parameters in braces.
    pub path: &'static str,
    /// Description of the response.
    pub about: &'static str,
    /// Parameters; those of the path first.
    pub parameters: &'static [Parameter],
    /// Schema of the response.
    pub schema: fn() -> Schema,
    call: fn(ApiRequest) -> BoxFuture<'static, Result<Response, Problem>>,
}

impl Endpoint {
    /// Returns the query parameters, which are those not in the path.
    pub fn query_parameters(&self) -> impl Iterator<Item = &'static Parameter> {
        self.parameters.iter().filter(|parameter| !self.path.contains(&format!("{{{}}}", parameter.name)))
    }

    async fn answer(
        &self,
        app: Arc<AppState>,
        path: Result<Path<BTreeMap<String, String>>, PathRejection>,
        query: Result<Query<Vec<(String, String)>>, QueryRejection>,
    ) -> Result<Response, Problem> {
        let Path(path) = path.map_err(|error| Problem::bad(error.body_text()))?;
        let Query(query) = query.map_err(|error| Problem::bad(error.body_text()))?;
        (self.call)(ApiRequest::new(app, self, path, query)?).await
    }
}

/// Declares an endpoint. The schema is derived from the function's return type.
macro_rules! endpoint {
    ($path:literal, [$($parameter:expr),*], $function:path, $about:literal) => {
        Endpoint {
            path: $path,
            about: $about,
            parameters: &[$($parameter),*],
            schema: || schema_of($function),
            call: |request| json($function(request)),
        }
    };
}

fn schema_of<T: HasSchema, F: Future<Output = Result<T, Problem>>>(_: fn(ApiRequest) -> F) -> Schema {
    T::schema()
}

fn json<T: Serialize>(
    answer: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> BoxFuture<'static, Result<Response, Problem>> {
    Box::pin(async move { Ok(Json(answer.await?).into_response()) })
}

const fn required(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, about, required: true }
}

const fn optional(name: &'static str, about: &'static str) -> Parameter {
    Parameter { name, about, required: false }
}

const ADDRESS: Parameter = required("address", "address of 0x and 40 hexadecimal digits, in upper or lower case");
const BLOCK: Parameter = required("block", "number or hash of a block");
const HASH: Parameter = required("hash", "hash of a transaction");
const LIMIT: Parameter = optional("limit", "items per page: 25 by default, at most 100");
const CURSOR: Parameter = optional("cursor", "`next` of the previous page");
const Q: Parameter = required("q", "search text, at most 200 characters");
const FROM: Parameter = optional("from", "first round; default: 64 rounds up to `to`");
const TO: Parameter = optional("to", "last round; default: the newest, or 64 rounds from `from`");

/// All endpoints.
pub static ENDPOINTS: &[Endpoint] = &[
    endpoint!("/api/v1/status", [], chain::status, "Status of the explorer and its node."),
    endpoint!("/api/v1/search", [Q], chain::search, "Search for a hash, key, number, address, name, symbol or method."),
    endpoint!("/api/v1/blocks", [LIMIT, CURSOR], blocks::list, "Blocks, newest first."),
    endpoint!("/api/v1/blocks/{block}", [BLOCK], blocks::show, "A block, with its ordering and its certificate."),
    endpoint!(
        "/api/v1/blocks/{block}/transactions",
        [BLOCK, LIMIT, CURSOR],
        transactions::of_block,
        "Transactions of a block, in order."
    ),
    endpoint!("/api/v1/transactions", [LIMIT, CURSOR], transactions::list, "Executed transactions, newest first."),
    endpoint!(
        "/api/v1/transactions/{hash}",
        [HASH],
        transactions::show,
        "A transaction with any status, with its first 50 logs, transfers and calls."
    ),
    endpoint!("/api/v1/transactions/{hash}/logs", [HASH, LIMIT, CURSOR], effects::logs, "Logs of a transaction, in order."),
    endpoint!(
        "/api/v1/transactions/{hash}/transfers",
        [HASH, LIMIT, CURSOR],
        effects::transfers,
        "Token transfers of a transaction, in order."
    ),
    endpoint!(
        "/api/v1/transactions/{hash}/calls",
        [HASH, LIMIT, CURSOR],
        effects::calls,
        "Internal transactions (inner calls) of a transaction, in the order in which they began. Empty if the node serves no traces."
    ),
    endpoint!("/api/v1/accounts/{address}", [ADDRESS], accounts::show, "An account or a contract."),
    endpoint!(
        "/api/v1/accounts/{address}/transactions",
        [ADDRESS, LIMIT, CURSOR],
        accounts::transactions,
        "Transactions that involve an account, newest first."
    ),
    endpoint!(
        "/api/v1/accounts/{address}/transfers",
        [ADDRESS, LIMIT, CURSOR],
        accounts::transfers,
        "Token transfers to or from an account, newest first."
    ),
    endpoint!(
        "/api/v1/accounts/{address}/calls",
        [ADDRESS, LIMIT, CURSOR],
        accounts::calls,
        "Internal transactions (inner calls) from or to an account, newest first."
    ),
    endpoint!(
        "/api/v1/accounts/{address}/balances",
        [ADDRESS, LIMIT, CURSOR],
        accounts::balances,
        "Token balances of an account, by the token's address."
    ),
    endpoint!(
        "/api/v1/accounts/{address}/approvals",
        [ADDRESS, LIMIT, CURSOR],
        accounts::approvals,
        "Addresses approved to spend an account's tokens, by the token's address."
    ),
    Endpoint {
        path: "/api/v1/accounts/{address}/transactions.csv",
        about: "Transactions of an account as a CSV file, newest first.",
        parameters: &[ADDRESS, CURSOR],
        schema: || Schema::Lines(csv::TRANSACTIONS),
        call: |request| Box::pin(csv::transactions(request)),
    },
    Endpoint {
        path: "/api/v1/accounts/{address}/transfers.csv",
        about: "Token transfers of an account as a CSV file, newest first.",
        parameters: &[ADDRESS, CURSOR],
        schema: || Schema::Lines(csv::TRANSFERS),
        call: |request| Box::pin(csv::transfers(request)),
    },
    endpoint!("/api/v1/tokens", [LIMIT, CURSOR], tokens::list, "Tokens, by number of holders, descending."),
    endpoint!("/api/v1/tokens/{address}", [ADDRESS], tokens::show, "A token."),
    endpoint!(
        "/api/v1/tokens/{address}/holders",
        [ADDRESS, LIMIT, CURSOR],
        tokens::holders,
        "Holders of a token, largest balance first. For a token with ids, a page may be short or empty although there is a next one."
    ),
    endpoint!(
        "/api/v1/tokens/{address}/transfers",
        [ADDRESS, LIMIT, CURSOR],
        tokens::transfers,
        "Transfers of a token, newest first."
    ),
    endpoint!("/api/v1/contracts", [LIMIT, CURSOR], contracts::list, "Contracts by address."),
    endpoint!("/api/v1/contracts/{address}", [ADDRESS], contracts::show, "A contract with its ABI and properties of its code."),
    endpoint!("/api/v1/validators", [], chain::validators, "The committee, with its statistics for the last 30 days."),
    endpoint!("/api/v1/peers", [], peers::list, "Connections between nodes, with versions and round-trip times."),
    endpoint!("/api/v1/certificates", [LIMIT, CURSOR], blocks::certificates, "Certificates, newest first."),
    endpoint!(
        "/api/v1/certificates/{block}",
        [BLOCK],
        blocks::certificate,
        "The certificate that covers a block: its own or that of a later block."
    ),
    endpoint!("/api/v1/dag", [FROM, TO], dag::show, "Rounds of the consensus DAG, at most 64."),
    endpoint!("/api/v1/statistics/days", [LIMIT, CURSOR], chain::days, "Statistics of each day (UTC), newest first."),
];

/// Returns the router of all endpoints.
pub fn router() -> Router<Arc<AppState>> {
    let routes = ENDPOINTS.iter().fold(Router::new(), |router, endpoint| {
        let answer = move |State(app): State<Arc<AppState>>, path, query| endpoint.answer(app, path, query);
        router.route(endpoint.path, get(answer))
    });
    routes.method_not_allowed_fallback(only_get)
}

async fn only_get() -> Problem {
    Problem::new("method_not_allowed", "expected a GET request")
}

/// Returns `true` for an API request, which receives JSON also for errors.
pub fn is_api_request(request: &Request) -> bool {
    let path = request.uri().path();
    path.starts_with("/api/") || etherscan::is_api_request(request)
}

/// Allows cross-origin reads, because everything in the API is public.
pub fn allow_all_origins(method: &Method, response: &mut Response) {
    if [Method::GET, Method::HEAD].contains(method) {
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    }
}
