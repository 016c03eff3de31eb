//! Whose page it is, what is known of it before anything is shown, and what stands above each of its parts.

use super::super::{Failure, Html, layout, parts};
use crate::{
    abi::Known,
    database::{Place, Read, sql},
    indexer::contracts::{Code, Facts, parse_abi},
    links,
    site::Site,
    words::{account as words, contract},
};
use alloy_json_abi::JsonAbi;
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_client::Request;
use maud::{Markup, html};
use serde_json::json;

/// Parts of an account's page: the end of the address, and the name.
const PARTS: [(&str, &str); 5] = [
    (TRANSACTIONS, words::TRANSACTIONS),
    (HOLDINGS, words::HOLDINGS),
    (TRANSFERS, words::TRANSFERS),
    (APPROVALS, words::APPROVALS),
    (CALLS, words::CALLS),
];

/// Parts that only a contract's page has.
const CONTRACT_PARTS: [(&str, &str); 5] = [
    (CODE, contract::CODE),
    (ABI, contract::INTERFACE),
    (READ, contract::READ),
    (WRITE, contract::WRITE),
    (EVENTS, contract::EVENTS),
];

/// Ends of the parts' addresses.
pub const TRANSACTIONS: &str = "transactions";
/// Tokens it holds.
pub const HOLDINGS: &str = "tokens";
/// Tokens that came and went.
pub const TRANSFERS: &str = "transfers";
/// Who may take its tokens.
pub const APPROVALS: &str = "approvals";
/// Calls inside transactions.
pub const CALLS: &str = "calls";
/// What kind of module.
pub const CODE: &str = "code";
/// The interface.
pub const ABI: &str = "abi";
/// Forms that ask.
pub const READ: &str = "read";
/// Forms that change.
pub const WRITE: &str = "write";
/// What it logged.
pub const EVENTS: &str = "events";

/// An account or a contract.
#[derive(Debug)]
pub struct Subject {
    /// Whose page it is.
    pub address: Address,
    /// Balance and next nonce; `None` when the node was not asked or did not answer.
    pub now: Option<(U256, u64)>,
    /// If there is code at the address.
    pub contract: Option<Contract>,
    /// Neither the database nor the node said whether there is code.
    pub unclear: bool,
    /// A contract that the indexer has not met: its code came from the node, whole.
    pub unmet: bool,
}

/// What is known of a contract.
#[derive(Clone, Debug, Default)]
pub struct Contract {
    /// Who made it, by a transaction.
    pub creator: Option<Address>,
    /// That transaction.
    pub made_in: Option<Place>,
    /// keccak-256 of the code as deployed.
    pub code_hash: B256,
    /// As deployed.
    pub code_bytes: u64,
    /// JSON; empty without one.
    pub abi: String,
    /// The same, read.
    pub interface: Option<JsonAbi>,
    /// Where it is from.
    pub source: Source,
    /// What kind of module it is.
    pub facts: Facts,
}

/// Who says what a contract's functions are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Nobody.
    #[default]
    Nobody,
    /// The module itself.
    Module,
    /// Somebody who came by.
    Uploaded,
}

impl Contract {
    /// Of a contract that is only known by its code.
    pub fn of_code(code: Code) -> Self {
        let source = if code.abi.is_empty() { Source::Nobody } else { Source::Module };
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

    /// For calls, errors and events of it.
    pub fn known(&self, address: Address) -> Known {
        self.interface.clone().map(|interface| Known::one(address, interface)).unwrap_or_default()
    }
}

impl Subject {
    /// What is known of an address as it stands in the page's. The node is asked where the database does not know.
    pub async fn load(site: &Site, address: &str) -> Result<Self, Failure> {
        Self::find(site, super::parse(address)?, false).await
    }

    /// The same, with its balance and nonce.
    pub async fn load_with_balance(site: &Site, address: &str) -> Result<Self, Failure> {
        Self::find(site, super::parse(address)?, true).await
    }

    async fn find(site: &Site, address: Address, wants_balance: bool) -> Result<Self, Failure> {
        let contract = known_contract(site, address).await?;
        if contract.is_some() {
            // Its code is known, and large; this is asked again and again while the page is open.
            let now = if wants_balance { balance_and_nonce(site, address).await } else { None };
            return Ok(Self { address, now, contract, unclear: false, unmet: false });
        }
        let Ok((balance, nonce, code)) = site.node.account(address).await else {
            return Ok(Self { address, now: None, unclear: true, contract, unmet: false });
        };
        let contract = if code.is_empty() { None } else { Some(Contract::of_code(look_at(code).await?)) };
        Ok(Self { address, now: Some((balance, nonce)), unclear: false, unmet: contract.is_some(), contract })
    }

    /// The contract; without code there is no such page.
    pub fn contract(&self) -> Result<&Contract, Failure> {
        let missing = || match self.unclear {
            true => Failure::Away(format!("{}: {}.", self.address, words::UNKNOWN)),
            false => Failure::NotFound(format!("{}: {}.", self.address, contract::NONE)),
        };
        self.contract.as_ref().ok_or_else(missing)
    }

    /// Each turn would fetch the code of a contract that the indexer has not met, and read it.
    pub fn may_be_live(&self) -> bool {
        !self.unmet
    }

    /// What it is called: account or contract.
    pub fn title(&self) -> &'static str {
        if self.contract.is_some() { words::CONTRACT } else { words::TITLE }
    }

    /// A whole page of it.
    pub fn page(&self, site: &Site, part: &str, body: Markup) -> Html {
        let name = if part.is_empty() { String::new() } else { format!("{part}, ") };
        layout::page(site, &format!("{name}{} {}", self.title(), self.address), self.frame(part, body))
    }

    /// The heading, the way to the other parts, and this one.
    pub fn frame(&self, part: &str, body: Markup) -> Markup {
        let mut tabs = vec![(links::account(self.address), words::OVERVIEW)];
        let contract = self.contract.as_ref().map(|_| CONTRACT_PARTS).unwrap_or_default();
        let all = PARTS.into_iter().chain(contract).filter(|(end, _)| !end.is_empty());
        tabs.extend(all.map(|(end, name)| (links::account_part(self.address, end), name)));
        let here = if part.is_empty() { words::OVERVIEW } else { part };
        html! {
            h1 { (self.title()) }
            p .subject { (parts::account_in_full(self.address)) }
            (parts::tabs(&tabs, here))
            (body)
        }
    }
}

/// `None` where the node does not answer.
async fn balance_and_nonce(site: &Site, address: Address) -> Option<(U256, u64)> {
    let ask = |method| Request { method, params: json!([address, "latest"]) };
    let answers = site.node.ask_all::<U256>(vec![ask("eth_getBalance"), ask("eth_getTransactionCount")]).await.ok()?;
    let [Ok(balance), Ok(nonce)] = answers.as_slice() else { return None };
    Some((*balance, u64::try_from(*nonce).ok()?))
}

async fn known_contract(site: &Site, address: Address) -> Result<Option<Contract>, Failure> {
    let text =
        "SELECT creator, transaction_place, code_hash, code_bytes, abi, abi_source, facts FROM contracts WHERE address = $1";
    let Some(row) = sql(text).bind(address.to_vec()).fetch_optional(site.database.readers()).await? else { return Ok(None) };
    let abi = row.text("abi")?;
    Ok(Some(Contract {
        creator: row.maybe_address("creator")?,
        made_in: row.maybe_int("transaction_place")?.map(Place),
        code_hash: row.hash("code_hash")?,
        code_bytes: row.number("code_bytes")?,
        interface: parse_abi(&abi),
        abi,
        source: match row.text("abi_source")?.as_str() {
            "module" => Source::Module,
            "uploaded" => Source::Uploaded,
            _ => Source::Nobody,
        },
        facts: serde_json::from_str(&row.text("facts")?).unwrap_or_default(),
    }))
}

/// Unpacks and reads a module, which takes a thread a while.
pub async fn look_at(code: Bytes) -> Result<Code, Failure> {
    tokio::task::spawn_blocking(move || Code::read(&code)).await.map_err(|error| Failure::Broken(error.to_string()))
}
