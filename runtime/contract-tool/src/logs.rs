//! `corniche contract logs`: decoded logs of a contract.

use super::{abi, abi::Interface, errors, known::Known, options::Node};
use alloy_dyn_abi::{DecodedEvent, EventExt};
use alloy_json_abi::Event;
use alloy_primitives::U64;
use anyhow::{Context, bail};
use corniche_client::{Client, ClientError};
use corniche_types::{Address, B256, Bytes};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{io::Write, thread, time::Duration};

/// Interval between two polls of the chain's head.
const PAUSE: Duration = Duration::from_millis(250);

#[derive(clap::Args, Debug)]
pub struct Logs {
    #[arg(value_name = "ADDRESS")]
    address: Address,
    /// Event to print, default all: a name in the contract's ABI, or a signature like 'Transfer(address indexed,address indexed,uint256)'
    #[arg(value_name = "EVENT")]
    event: Option<String>,
    /// First block
    #[arg(long, value_name = "BLOCK", default_value_t = 0)]
    from: u64,
    /// Last block; default: the newest
    #[arg(long, value_name = "BLOCK")]
    to: Option<u64>,
    /// Continue with new events, until interrupted or until --to
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    node: Node,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Log {
    topics: Vec<B256>,
    data: Bytes,
    block_number: U64,
    transaction_hash: B256,
    log_index: U64,
}

impl Logs {
    pub fn run(&self) -> anyhow::Result<()> {
        let client = self.node.rpc.client();
        let known = Known::new(&self.node, &client, self.address)?;
        let mut abi = known.interface().clone();
        let only = self.event.as_deref().map(|text| event(&abi, text, self.address)).transpose()?;
        if let Some(event) = &only {
            // A signature given by the user has priority over the contract's ABI.
            abi.0.events.insert(event.name.clone(), vec![event.clone()]);
        }
        let topic = only.as_ref().map(Event::selector);
        let mut next = self.from;
        loop {
            let head = client.block_number().map_err(|error| errors::explain(error, &abi))?;
            let last = self.to.map_or(head, |to| to.min(head));
            while next <= last {
                let (logs, until) = self.some(&client, topic, next, last)?;
                for log in &logs {
                    if !self.print(&abi, log) {
                        return Ok(()); // The reader closed the pipe.
                    }
                }
                next = until + 1;
            }
            if !self.follow || self.to.is_some_and(|to| to < next) {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
    }

    /// Logs from a block to the last, or for as many blocks as the node allows per request.
    fn some(&self, client: &Client, topic: Option<B256>, from: u64, to: u64) -> anyhow::Result<(Vec<Log>, u64)> {
        let ask = |to: u64| {
            let topics: Vec<_> = topic.into_iter().collect();
            let filter =
                json!({"address": self.address, "fromBlock": U64::from(from), "toBlock": U64::from(to), "topics": topics});
            client.transport().request::<Vec<Log>>("eth_getLogs", json!([filter])).map(|logs| (logs, to))
        };
        let answer = match ask(to) {
            Err(ClientError::Refused { refusal, .. }) if suggested(&refusal.message, from, to).is_some() => {
                ask(suggested(&refusal.message, from, to).unwrap_or(from))
            }
            answer => answer,
        };
        answer.map_err(|error| errors::explain(error, Interface::nothing()))
    }

    /// Returns false if the output could not be written.
    fn print(&self, abi: &Interface, log: &Log) -> bool {
        let told = decoded(abi, log);
        let line = match self.node.json {
            true => {
                let (event, arguments) = told.map_or((Value::Null, Value::Null), |(event, values)| {
                    (json!(event.name), values.into_iter().collect::<Map<_, _>>().into())
                });
                json!({
                    "blockNumber": log.block_number.to::<u64>(),
                    "transactionHash": log.transaction_hash,
                    "logIndex": log.log_index.to::<u64>(),
                    "event": event,
                    "arguments": arguments,
                    "topics": log.topics,
                    "data": log.data,
                })
                .to_string()
            }
            false => {
                let what = match told {
                    Some((event, values)) => {
                        let values =
                            values.iter().map(|(name, value)| format!("{name}: {}", abi::plain(value).replace('\n', "\\n")));
                        format!("{}({})", event.name, values.collect::<Vec<_>>().join(", "))
                    }
                    None => format!("{:?} {}", log.topics, log.data),
                };
                format!("{} {} {what}", log.block_number, log.transaction_hash)
            }
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
    }
}

/// Finds an event by signature, or by name if the ABI has exactly one with that name.
fn event(abi: &Interface, text: &str, address: Address) -> anyhow::Result<Event> {
    if text.contains('(') {
        return Event::parse(text).with_context(|| format!("'{text}' is not an event's signature"));
    }
    match abi.0.events.get(text).map(Vec::as_slice) {
        Some([event]) => Ok(event.clone()),
        Some(_) => bail!("the ABI has several events {text}; write the signature"),
        None if abi.is_empty() => bail!(
            "the contract at {address} carries no ABI: write the event's signature, for instance '{text}(address indexed,uint256)', or give --abi"
        ),
        None => bail!("the ABI has no event {text}; it has {}", abi::names(abi.0.events.keys())),
    }
}

/// Event and its arguments in order. `None` if the ABI lacks it, or the log does not match.
fn decoded<'a>(abi: &'a Interface, log: &Log) -> Option<(&'a Event, Vec<(String, Value)>)> {
    let topic = log.topics.first()?;
    let fits = |event: &&Event| event.selector() == *topic && event.num_topics() == log.topics.len();
    let event = abi.0.events().find(fits)?;
    let DecodedEvent { indexed, body, .. } = event.decode_log_parts(log.topics.iter().copied(), &log.data).ok()?;
    let (mut indexed, mut body) = (indexed.iter(), body.iter());
    let values = event.inputs.iter().enumerate().map(|(at, input)| {
        let value = if input.indexed { indexed.next() } else { body.next() };
        let name = if input.name.is_empty() { at.to_string() } else { input.name.clone() };
        (name, value.map_or(Value::Null, abi::to_json))
    });
    Some((event, values.collect()))
}

/// Last block of the range that the node suggests in its error: `… this block range should work: [0x0, 0x1f4]`.
fn suggested(message: &str, from: u64, to: u64) -> Option<u64> {
    let (_, range) = message.rsplit_once(", 0x")?;
    let last = u64::from_str_radix(range.split(']').next()?, 16).ok()?;
    (from..to).contains(&last).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggested_range_is_used_if_it_progresses() {
        let refusal = "block range too large: at most 600 seconds from the first block to the last; this block range should work: [0x5, 0x1f4]";
        assert_eq!(suggested(refusal, 5, 1_000), Some(500));
        assert_eq!(suggested(refusal, 5, 500), None, "it is what was asked for");
        assert_eq!(suggested(refusal, 501, 1_000), None, "it lies before");
        assert_eq!(suggested("too many results", 5, 1_000), None);
    }
}
