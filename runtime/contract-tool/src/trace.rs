//! `corniche contract trace`: a transaction as a tree of calls. The calls come from the node (`callTracer`),
//! the names from the contracts' code. The output is the same tree as in tests with the harness.

use super::{abi::Interface, errors, module, options::Rpc};
use alloy_primitives::U64;
use anyhow::Context;
use corniche_client::{Client, ClientError, Request};
use corniche_console::exit::{self, Exit, Failed};
use corniche_harness::{AddressBook, Symbols, format_trace};
use corniche_types::{Address, B256, Bytes, Log, U256};
use corniche_vm::{CodeLocation, ConsoleLine, ExecutionStatus, FrameKind, FrameStatus, TraceFrame, TraceLog};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::PathBuf};

/// Maximum number of contracts whose code is fetched per transaction, and number of concurrent requests.
const MAX_CONTRACTS: usize = 256;
const AT_ONCE: usize = 16;

#[derive(clap::Args, Debug)]
pub struct Trace {
    #[arg(value_name = "HASH")]
    hash: B256,
    /// Name of an account in the tree, for instance 0xf39F…=alice; may be repeated
    #[arg(long, value_name = "ADDRESS=NAME", value_parser = label)]
    label: Vec<(Address, String)>,
    /// ABI of a contract without an embedded one, for instance 0x5FbD…=token.json; may be repeated
    #[arg(long, value_name = "ADDRESS=FILE", value_parser = interface)]
    abi: Vec<(Address, PathBuf)>,
    /// Module of a contract with debug information, to show the functions and lines of a failure; may be repeated
    #[arg(long, value_name = "ADDRESS=FILE.wasm", value_parser = interface)]
    symbols: Vec<(Address, PathBuf)>,
    #[command(flatten)]
    rpc: Rpc,
    /// Print the node's response as JSON, not decoded
    #[arg(long)]
    json: bool,
}

impl Trace {
    pub fn run(&self) -> anyhow::Result<()> {
        let client = self.rpc.client();
        let answer = ask(&client, self.hash, json!({"withLog": true})).map_err(explain)?;
        if self.json {
            exit::result(format_args!("{answer:#}"));
            return Ok(());
        }
        let nonsense =
            |error: serde_json::Error| ClientError::InvalidResponse { method: METHOD.into(), problem: error.to_string() };
        let root = serde_json::from_value::<Frame>(answer).map_err(nonsense).map_err(explain)?.into_frame();
        let mut involved = BTreeSet::new();
        contracts(&root, &mut involved);
        let (mut book, mut legend) = (AddressBook::default(), Vec::new());
        for (address, carries) in carried(&client, &involved)? {
            let Some((abi, symbols)) = carries else { continue };
            legend.push(match &abi {
                Some(_) => format!("{} is {address}", short(&address)),
                None => format!("{} is {address}, which carries no ABI", short(&address)),
            });
            book.interface(address, abi.unwrap_or_default());
            symbols.into_iter().for_each(|symbols| book.symbols(address, symbols));
        }
        for (address, path) in &self.symbols {
            let symbols = Symbols::of(&module::read(path)?);
            book.symbols(
                *address,
                symbols.with_context(|| format!("{} has neither names nor debug information", path.display()))?,
            );
        }
        for (address, path) in &self.abi {
            book.interface(*address, Interface::open(path)?.0);
        }
        for (address, name) in &self.label {
            book.label(*address, name);
        }
        exit::result(format_trace(&book, &root).trim_end());
        legend.iter().for_each(exit::note);
        Ok(())
    }
}

const METHOD: &str = "debug_traceTransaction";

fn ask(client: &Client, hash: B256, config: Value) -> Result<Value, ClientError> {
    client.transport().request(METHOD, json!([hash, {"tracer": "callTracer", "tracerConfig": config}]))
}

/// Reason why a transaction failed, from its outermost call; `None` if the node does not provide it. `reason` decodes revert data.
pub fn failure(client: &Client, hash: B256, reason: &impl Fn(&Bytes) -> Option<String>) -> Option<String> {
    let frame: Frame = serde_json::from_value(ask(client, hash, json!({"onlyTopCall": true})).ok()?).ok()?;
    let error = frame.error?;
    Some(match reason(&frame.output) {
        Some(reason) => format!("{error}: {reason}"),
        None => error,
    })
}

/// Adds advice: another node, or another hash.
fn explain(error: ClientError) -> anyhow::Error {
    let told = match &error {
        ClientError::Refused { refusal, .. } if refusal.code == -32601 => {
            "the node does not serve the namespace debug: a node of yours does with `[serve] namespaces` in node.toml or --namespaces eth,net,web3,debug, and \
             `corniche dev` always"
        }
        ClientError::Refused { refusal, .. } if refusal.message.contains("not found") => {
            "the transaction is in no block of this chain: is the hash right, and the node one of the chain it was sent to?"
        }
        ClientError::Refused { refusal, .. } if refusal.message.contains("state") => {
            "the state before its block is no longer held: a node with `[state] history` keeps more"
        }
        _ => return errors::explain(error, Interface::nothing()),
    };
    Failed::new(Exit::Refused, format!("{error}\n  {told}")).into()
}

/// Collects the called and created contracts.
fn contracts(frame: &TraceFrame, into: &mut BTreeSet<Address>) {
    if !frame.to.is_zero() && into.len() < MAX_CONTRACTS {
        into.insert(frame.to);
    }
    frame.calls.iter().for_each(|call| contracts(call, into));
}

/// For each address: `None` for no contract, else its embedded ABI and symbols, if any.
type Carried = (Address, Option<(Option<alloy_json_abi::JsonAbi>, Option<Symbols>)>);

fn carried(client: &Client, addresses: &BTreeSet<Address>) -> anyhow::Result<Vec<Carried>> {
    let addresses: Vec<Address> = addresses.iter().copied().collect();
    let mut found = Vec::new();
    for some in addresses.chunks(AT_ONCE) {
        let requests: Vec<_> =
            some.iter().map(|address| Request { method: "eth_getCode", params: json!([address, "latest"]) }).collect();
        let codes = client.transport().batch::<Bytes>(&requests).map_err(explain)?;
        found.extend(some.iter().zip(codes).map(|(address, code)| {
            let code = code.unwrap_or_default();
            (*address, (!code.is_empty()).then(|| (module::abi_of_code(&code), module::symbols_of_code(&code))))
        }));
    }
    Ok(found)
}

fn short(address: &Address) -> String {
    AddressBook::default().name(address)
}

/// Call in the format of geth's `callTracer`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame {
    #[serde(rename = "type")]
    kind: String,
    from: Address,
    /// Missing for a failed creation.
    #[serde(default)]
    to: Option<Address>,
    #[serde(default)]
    value: U256,
    gas: U64,
    gas_used: U64,
    input: Bytes,
    #[serde(default)]
    output: Bytes,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    calls: Vec<Self>,
    #[serde(default)]
    logs: Vec<FrameLog>,
    #[serde(default)]
    console: Vec<FrameLine>,
    #[serde(default)]
    places: Vec<FramePlace>,
}

#[derive(Deserialize)]
struct FramePlace {
    function: U64,
    offset: U64,
}

#[derive(Deserialize)]
struct FrameLine {
    text: String,
    position: U64,
    logs: U64,
}

#[derive(Deserialize)]
struct FrameLog {
    address: Address,
    topics: Vec<B256>,
    data: Bytes,
    #[serde(default)]
    position: U64,
}

impl Frame {
    fn into_frame(self) -> TraceFrame {
        let kind = match self.kind.as_str() {
            "STATICCALL" => FrameKind::StaticCall,
            "DELEGATECALL" => FrameKind::DelegateCall,
            "CREATE" => FrameKind::Create,
            "CREATE2" => FrameKind::Create2,
            _ => FrameKind::Call,
        };
        let ending = match self.error.as_deref() {
            None => FrameStatus::Ran(ExecutionStatus::Success),
            Some("execution reverted") => FrameStatus::Ran(ExecutionStatus::Revert),
            Some("max call depth exceeded") => FrameStatus::CallTooDeep,
            Some("insufficient balance for transfer") => FrameStatus::InsufficientBalance,
            Some(error) => FrameStatus::Ran(ExecutionStatus::Refused(error.into())),
        };
        let log = |log: FrameLog| TraceLog {
            position: log.position.to(),
            log: Log { address: log.address, topics: log.topics, data: log.data },
        };
        let line = |line: FrameLine| ConsoleLine { calls: line.position.to(), logs: line.logs.to(), text: line.text };
        let place = |place: FramePlace| CodeLocation { function: place.function.to(), offset: place.offset.to() };
        TraceFrame {
            kind,
            from: self.from,
            to: self.to.unwrap_or_default(),
            value: self.value,
            gas: self.gas.to(),
            gas_used: self.gas_used.to(),
            input: self.input,
            output: self.output,
            ending,
            calls: self.calls.into_iter().map(Self::into_frame).collect(),
            logs: self.logs.into_iter().map(log).collect(),
            lines: self.console.into_iter().map(line).collect(),
            backtrace: self.places.into_iter().map(place).collect(),
        }
    }
}

fn label(text: &str) -> Result<(Address, String), String> {
    let (address, name) = text.split_once('=').ok_or("expected ADDRESS=NAME")?;
    Ok((address.parse().map_err(|_| format!("{address} is not an address"))?, name.into()))
}

fn interface(text: &str) -> Result<(Address, PathBuf), String> {
    label(text).map(|(address, path)| (address, path.into())).map_err(|error| error.replace("NAME", "FILE"))
}
