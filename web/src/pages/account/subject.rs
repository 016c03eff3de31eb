//! The account of a page: what is known about it, and the frame around the parts of its page.

use super::super::{Failure, Html, layout, parts};
use crate::{
    abi::{KnownAbis, parse_abi},
    app_state::AppState,
    database::{Place, Read, sql},
    indexer::contracts::{Code, ModuleInfo},
    links,
    pages::account::texts,
    pages::account::texts::contract as contract_texts,
};
use alloy_json_abi::JsonAbi;
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_client::Request;
use maud::{Markup, html};
use serde_json::json;

/// Parts of an account's page: last segment of the URL, and title.
const PARTS: [(&str, &str); 5] = [
    (TRANSACTIONS, texts::TRANSACTIONS),
    (HOLDINGS, texts::HOLDINGS),
    (TRANSFERS, texts::TRANSFERS),
    (APPROVALS, texts::APPROVALS),
    (CALLS, texts::CALLS),
];

/// Parts that only a contract's page has.
const CONTRACT_PARTS: [(&str, &str); 5] = [
    (CODE, contract_texts::CODE),
    (ABI, contract_texts::INTERFACE),
    (READ, contract_texts::READ),
    (WRITE, contract_texts::WRITE),
    (EVENTS, contract_texts::EVENTS),
];

/// Last segments of the parts' URLs.
pub const TRANSACTIONS: &str = "transactions";
pub const HOLDINGS: &str = "tokens";
pub const TRANSFERS: &str = "transfers";
pub const APPROVALS: &str = "approvals";
pub const CALLS: &str = "calls";
pub const CODE: &str = "code";
pub const ABI: &str = "abi";
pub const READ: &str = "read";
pub const WRITE: &str = "write";
pub const EVENTS: &str = "events";

/// An account or a contract.
#[derive(Debug)]
pub struct Subject {
    pub address: Address,
    /// Balance and next nonce. `None` if the node was not queried or did not respond.
    pub now: Option<(U256, u64)>,
    /// The contract, if the address has code.
    pub contract: Option<Contract>,
    /// `true` if neither the database nor the node reported whether the address has code.
    pub code_unknown: bool,
    /// `true` for a contract that the indexer has not seen. Its full code came from the node.
    pub not_indexed: bool,
}

/// Known facts about a contract.
#[derive(Clone, Debug, Default)]
pub struct Contract {
    /// Sender of the transaction that created it.
    pub creator: Option<Address>,
    /// Place of this transaction.
    pub creation: Option<Place>,
    /// keccak-256 of the code as deployed.
    pub code_hash: B256,
    /// Size of the code as deployed.
    pub code_bytes: u64,
    /// Interface as JSON. Empty without an interface.
    pub abi: String,
    /// Interface parsed from `abi`.
    pub interface: Option<JsonAbi>,
    /// Origin of the interface.
    pub source: Source,
    /// Facts about its module.
    pub facts: ModuleInfo,
}

/// Origin of a contract's interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// No interface is known.
    #[default]
    Missing,
    /// The module contains it.
    Module,
    /// A visitor uploaded it.
    Uploaded,
}

impl Contract {
    /// Facts about a contract of which only the code is known.
    pub fn of_code(code: Code) -> Self {
        let source = if code.abi.is_empty() { Source::Missing } else { Source::Module };
        Self {
            code_hash: code.hash,
            code_bytes: code.bytes,
            interface: parse_abi(&code.abi),
            abi: code.abi,
            source,
            facts: code.facts,
            ..Self::default()
        }
    }

    /// Decoder for its calls, errors and events.
    pub fn known(&self, address: Address) -> KnownAbis {
        self.interface.clone().map(|interface| KnownAbis::one(address, interface)).unwrap_or_default()
    }
}

impl Subject {
    /// Loads the account of a page. Queries the node if the database does not contain the contract.
    pub async fn load(app: &AppState, address: &str) -> Result<Self, Failure> {
        Self::find(app, super::parse(address)?, false).await
    }

    /// Like [`Self::load`], with balance and nonce.
    pub async fn load_with_balance(app: &AppState, address: &str) -> Result<Self, Failure> {
        Self::find(app, super::parse(address)?, true).await
    }

    async fn find(app: &AppState, address: Address, wants_balance: bool) -> Result<Self, Failure> {
        let contract = known_contract(app, address).await?;
        if contract.is_some() {
            // The code is not fetched again: it is large, and an open page repeats this request.
            let now = if wants_balance { balance_and_nonce(app, address).await } else { None };
            return Ok(Self { address, now, contract, code_unknown: false, not_indexed: false });
        }
        let Ok((balance, nonce, code)) = app.node.account(address).await else {
            return Ok(Self { address, now: None, code_unknown: true, contract, not_indexed: false });
        };
        let contract = if code.is_empty() { None } else { Some(Contract::of_code(parse_code(code).await?)) };
        Ok(Self { address, now: Some((balance, nonce)), code_unknown: false, not_indexed: contract.is_some(), contract })
    }

    /// Returns the contract, or an error if the address has no code.
    pub fn contract(&self) -> Result<&Contract, Failure> {
        let missing = || match self.code_unknown {
            true => Failure::Away(format!("{}: {}.", self.address, texts::UNKNOWN)),
            false => Failure::NotFound(format!("{}: {}.", self.address, contract_texts::NONE)),
        };
        self.contract.as_ref().ok_or_else(missing)
    }

    /// Returns `false` for a contract that the indexer has not seen. Each refresh would fetch and parse its code.
    pub fn may_be_live(&self) -> bool {
        !self.not_indexed
    }

    /// Heading of the page: account or contract.
    pub fn title(&self) -> &'static str {
        if self.contract.is_some() { texts::CONTRACT } else { texts::TITLE }
    }

    /// A complete page with this part.
    pub fn page(&self, app: &AppState, part: &str, body: Markup) -> Html {
        let name = if part.is_empty() { String::new() } else { format!("{part}, ") };
        layout::page(app, &format!("{name}{} {}", self.title(), self.address), self.frame(part, body))
    }

    /// Heading, links to the other parts, and this part.
    pub fn frame(&self, part: &str, body: Markup) -> Markup {
        let mut tabs = vec![(links::account(self.address), texts::OVERVIEW)];
        let contract = self.contract.as_ref().map(|_| CONTRACT_PARTS).unwrap_or_default();
        let all = PARTS.into_iter().chain(contract).filter(|(end, _)| !end.is_empty());
        tabs.extend(all.map(|(end, name)| (links::account_part(self.address, end), name)));
        let here = if part.is_empty() { texts::OVERVIEW } else { part };
        html! {
            h1 { (self.title()) }
            p .subject { (parts::account_in_full(self.address)) }
            (parts::tabs(&tabs, here))
            (body)
        }
    }
}

/// Returns `None` if the node does not respond.
async fn balance_and_nonce(app: &AppState, address: Address) -> Option<(U256, u64)> {
    let ask = |method| Request { method, params: json!([address, "latest"]) };
    let responses = app.node.ask_all::<U256>(vec![ask("eth_getBalance"), ask("eth_getTransactionCount")]).await.ok()?;
    let [Ok(balance), Ok(nonce)] = responses.as_slice() else { return None };
    Some((*balance, u64::try_from(*nonce).ok()?))
}

async fn known_contract(app: &AppState, address: Address) -> Result<Option<Contract>, Failure> {
    let text =
        "SELECT creator, transaction_place, code_hash, code_bytes, abi, abi_source, facts FROM contracts WHERE address = $1";
    let Some(row) = sql(text).bind(address.to_vec()).fetch_optional(app.database.readers()).await? else { return Ok(None) };
    let abi = row.text("abi")?;
    Ok(Some(Contract {
        creator: row.maybe_address("creator")?,
        creation: row.maybe_int("transaction_place")?.map(Place),
        code_hash: row.hash("code_hash")?,
        code_bytes: row.number("code_bytes")?,
        interface: parse_abi(&abi),
        abi,
        source: match row.text("abi_source")?.as_str() {
            "module" => Source::Module,
            "uploaded" => Source::Uploaded,
            _ => Source::Missing,
        },
        facts: serde_json::from_str(&row.text("facts")?).unwrap_or_default(),
    }))
}

/// Decompresses and parses a module. This takes long, so it runs on a blocking thread.
pub async fn parse_code(code: Bytes) -> Result<Code, Failure> {
    tokio::task::spawn_blocking(move || Code::read(&code)).await.map_err(|error| Failure::Broken(error.to_string()))
}
