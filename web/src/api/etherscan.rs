//! API for tools written for Etherscan: `/api?module=…&action=…`. Uses Etherscan's envelope and messages, because tools
//! compare them.
//!
//! Data that this explorer does not have is not made up. It does not verify source code, so it never reports verified
//! code. It serves the ABI that the contract's code contains or that was uploaded.

mod account;
mod contract;
mod history;

use super::problem::Problem;
use crate::{
    app_state::AppState,
    database::{Read, int, sql},
    views::reference,
};
use alloy_primitives::{Address, B256};
use axum::{
    Json,
    extract::{
        Form, Query, Request, State,
        rejection::{FormRejection, QueryRejection},
    },
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// An action of the Etherscan API.
pub struct Action {
    /// Name, parameters and description.
    pub reference: reference::Action,
    call: fn(Arc<AppState>, Parameters) -> BoxFuture<'static, Answer>,
}

macro_rules! action {
    ($module:literal, $name:literal, [$($takes:literal),*], $function:path, $about:literal) => {
        Action {
            reference: reference::Action { module: $module, name: $name, takes: &[$($takes),*], about: $about },
            call: |app, parameters| Box::pin(async move { $function(&app, &parameters).await }),
        }
    };
}

/// All actions.
pub static ACTIONS: &[Action] = &[
    action!("account", "balance", ["address"], account::balance, "Current balance of an account in wei."),
    action!(
        "account",
        "balancemulti",
        ["address"],
        account::balances,
        "Current balances of up to 20 accounts, separated by commas, in wei."
    ),
    action!(
        "account",
        "tokenbalance",
        ["address", "contractaddress"],
        account::token_balance,
        "Token balance of an account, computed from the token's events."
    ),
    action!(
        "account",
        "txlist",
        ["address"],
        history::transactions,
        "Transactions that an account sent or received, or that created it."
    ),
    action!(
        "account",
        "txlistinternal",
        ["address", "txhash"],
        history::calls,
        "Internal transactions of an account or of a transaction: inner calls that can transfer value (CALL, CREATE, CREATE2). gas and input are not stored: they \
         are 0 and empty."
    ),
    action!(
        "account",
        "tokentx",
        ["address", "contractaddress"],
        history::erc20,
        "ERC-20 transfers of an account, a token, or both."
    ),
    action!(
        "account",
        "tokennfttx",
        ["address", "contractaddress"],
        history::erc721,
        "ERC-721 transfers of an account, a token, or both."
    ),
    action!(
        "account",
        "token1155tx",
        ["address", "contractaddress"],
        history::erc1155,
        "ERC-1155 transfers of an account, a token, or both."
    ),
    action!("contract", "getabi", ["address"], contract::abi, "ABI that is embedded in the code or was uploaded."),
    action!(
        "contract",
        "getsourcecode",
        ["address"],
        contract::source,
        "ABI of a contract; fields that are not known are empty."
    ),
    action!(
        "contract",
        "getcontractcreation",
        ["contractaddresses"],
        contract::creation,
        "Creators and creation transactions of up to 5 contracts, separated by commas."
    ),
    action!(
        "contract",
        "verifysourcecode",
        ["contractaddress"],
        contract::verify,
        "An error: this explorer does not verify source code. The message names the command that compares source with deployed code."
    ),
    action!("contract", "checkverifystatus", ["guid"], contract::check, "Always `Fail - Unable to verify`."),
    action!(
        "transaction",
        "gettxreceiptstatus",
        ["txhash"],
        receipt_status,
        "1: succeeded, 0: reverted, empty: not in a block."
    ),
    action!("transaction", "getstatus", ["txhash"], status, "Execution status: reverted or not."),
    action!(
        "block",
        "getblocknobytime",
        ["timestamp", "closest"],
        block_by_time,
        "Newest block at or before a time in Unix seconds (before, the default), or oldest block at or after it (after)."
    ),
    action!("stats", "tokensupply", ["contractaddress"], supply, "Total supply of a token, computed from its events."),
];

/// Response in Etherscan's format.
#[derive(Debug, Serialize)]
pub struct Envelope {
    status: &'static str,
    message: &'static str,
    result: Value,
}

/// Reason why a request failed.
#[derive(Debug)]
pub enum EtherscanError {
    /// Error message, in Etherscan's wording if it has one.
    Rejected(String),
    /// The list is empty.
    Empty,
    /// Internal error.
    Internal(Problem),
}

/// Result of an action.
pub type Answer = Result<Value, EtherscanError>;

impl<T: Into<Problem>> From<T> for EtherscanError {
    fn from(error: T) -> Self {
        Self::Internal(error.into())
    }
}

impl EtherscanError {
    fn rejected(text: impl Into<String>) -> Self {
        Self::Rejected(text.into())
    }
}

/// Parameters of the query and of the form. Names are converted to lower case, because tools differ in case.
#[derive(Debug, Default)]
pub struct Parameters(BTreeMap<String, String>);

impl Parameters {
    fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    fn address(&self, name: &str) -> Result<Address, EtherscanError> {
        self.maybe_address(name)?.ok_or_else(|| EtherscanError::rejected("Error! Invalid address format"))
    }

    fn maybe_address(&self, name: &str) -> Result<Option<Address>, EtherscanError> {
        let read = |text: &str| text.parse().map_err(|_| EtherscanError::rejected("Error! Invalid address format"));
        self.get(name).map(read).transpose()
    }

    fn hash(&self, name: &str) -> Result<B256, EtherscanError> {
        let hash = self.get(name).and_then(|text| text.parse().ok());
        hash.ok_or_else(|| EtherscanError::rejected("Error! Invalid transaction hash"))
    }

    fn number(&self, name: &str, otherwise: u64) -> Result<u64, EtherscanError> {
        let read = |text: &str| text.parse().map_err(|_| EtherscanError::rejected(format!("Error! {name}: expected a number")));
        self.get(name).map_or(Ok(otherwise), read)
    }
}

/// Returns `true` for an API request, `false` for a reader of the documentation page.
pub fn is_api_request(request: &Request) -> bool {
    let accepts = |kind| accepts(request.headers(), kind);
    request.uri().path() == crate::links::API
        && (request.uri().query().is_some_and(names_something)
            || !request.method().is_safe()
            || accepts("application/json") && !accepts("text/html"))
}

fn names_something(query: &str) -> bool {
    query.to_lowercase().split('&').any(|pair| pair.starts_with("module=") || pair.starts_with("action="))
}

fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).is_some_and(|accept| accept.contains(kind))
}

/// Names and values as received.
pub type Pairs = Vec<(String, String)>;

/// `GET /api` with parameters.
pub async fn get(app: Arc<AppState>, query: Result<Query<Pairs>, QueryRejection>) -> Response {
    match query {
        Ok(Query(query)) => answer(app, Parameters::new(query)).await,
        Err(rejection) => envelope(Err(EtherscanError::Rejected(rejection.body_text()))),
    }
}

/// `POST /api`: tools send long parameters in a form.
pub async fn post(
    State(app): State<Arc<AppState>>,
    query: Result<Query<Pairs>, QueryRejection>,
    form: Result<Form<Pairs>, FormRejection>,
) -> Response {
    match (query, form) {
        (Ok(Query(query)), Ok(Form(form))) => answer(app, Parameters::new(query.into_iter().chain(form))).await,
        (Err(rejection), _) => envelope(Err(EtherscanError::Rejected(rejection.body_text()))),
        (_, Err(rejection)) => envelope(Err(EtherscanError::Rejected(rejection.body_text()))),
    }
}

async fn answer(app: Arc<AppState>, parameters: Parameters) -> Response {
    let (module, name) = (parameters.get("module").unwrap_or_default(), parameters.get("action").unwrap_or_default());
    let action = ACTIONS.iter().find(|action| action.reference.module == module && action.reference.name == name);
    let answer = match action {
        Some(action) => (action.call)(app, parameters).await,
        None if ACTIONS.iter().any(|action| action.reference.module == module) => {
            Err(EtherscanError::rejected("Error! Missing Or invalid Action name"))
        }
        None => Err(EtherscanError::rejected("Error! Missing Or invalid Module name")),
    };
    envelope(answer)
}

fn envelope(answer: Answer) -> Response {
    let envelope = match answer {
        Ok(result) => Envelope { status: "1", message: "OK", result },
        Err(EtherscanError::Empty) => Envelope { status: "0", message: "No transactions found", result: json!([]) },
        Err(EtherscanError::Rejected(text)) => Envelope { status: "0", message: "NOTOK", result: json!(text) },
        Err(EtherscanError::Internal(problem)) => Envelope { status: "0", message: "NOTOK", result: json!(problem.message) },
    };
    Json(envelope).into_response()
}

/// Response to a client above the rate limit. Tools recognize this message and retry later.
pub fn busy() -> Response {
    (StatusCode::TOO_MANY_REQUESTS, envelope(Err(EtherscanError::rejected("Max rate limit reached")))).into_response()
}

/// Returns a list, or Etherscan's error for an empty one.
fn list(items: Vec<Value>) -> Answer {
    if items.is_empty() { Err(EtherscanError::Empty) } else { Ok(Value::Array(items)) }
}

async fn succeeded(app: &AppState, hash: B256) -> Result<Option<bool>, EtherscanError> {
    let row = sql("SELECT succeeded FROM transactions WHERE hash = $1").bind(hash.to_vec());
    let row = row.fetch_optional(app.database.readers()).await?;
    Ok(row.map(|row| row.int("succeeded")).transpose()?.map(|succeeded| succeeded == 1))
}

async fn receipt_status(app: &AppState, parameters: &Parameters) -> Answer {
    let succeeded = succeeded(app, parameters.hash("txhash")?).await?;
    Ok(json!({"status": succeeded.map_or("", |succeeded| if succeeded { "1" } else { "0" })}))
}

async fn status(app: &AppState, parameters: &Parameters) -> Answer {
    match succeeded(app, parameters.hash("txhash")?).await? {
        Some(true) => Ok(json!({"isError": "0", "errDescription": ""})),
        Some(false) => Ok(json!({"isError": "1", "errDescription": "execution reverted"})),
        None => Err(EtherscanError::rejected("Error! The transaction is not in an indexed block")),
    }
}

async fn block_by_time(app: &AppState, parameters: &Parameters) -> Answer {
    if parameters.get("timestamp").is_none() {
        return Err(EtherscanError::rejected("Error! timestamp is missing"));
    }
    let seconds = parameters.number("timestamp", 0)?;
    let (text, ms) = match parameters.get("closest").unwrap_or("before") {
        // Etherscan's timestamps have whole seconds, so a block within this second is not after it.
        "before" => {
            let text = "SELECT number FROM blocks WHERE time_ms < $1 ORDER BY time_ms DESC, number DESC LIMIT 1";
            (text, seconds.saturating_add(1).saturating_mul(1_000))
        }
        "after" => {
            let text = "SELECT number FROM blocks WHERE time_ms >= $1 ORDER BY time_ms, number LIMIT 1";
            (text, seconds.saturating_mul(1_000))
        }
        _ => return Err(EtherscanError::rejected("Error! closest: expected before or after")),
    };
    let row = sql(text).bind(int(ms)).fetch_optional(app.database.readers()).await?;
    let row = row.ok_or_else(|| EtherscanError::rejected("Error! No closest block found"))?;
    Ok(json!(row.number("number")?.to_string()))
}

async fn supply(app: &AppState, parameters: &Parameters) -> Answer {
    let token = parameters.address("contractaddress")?;
    let row = sql("SELECT supply FROM tokens WHERE address = $1").bind(token.to_vec());
    let row = row.fetch_optional(app.database.readers()).await?;
    let row = row
        .ok_or_else(|| EtherscanError::rejected("Error! No token at this address: no transfer event in the indexed blocks"))?;
    Ok(json!(row.amount("supply")?.to_string()))
}
