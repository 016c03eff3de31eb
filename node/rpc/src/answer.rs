//! Processes request bodies: one request, or a batch in order. Charges each request to the client's limits.
//! The handlers are in [`crate::dispatch`].

use crate::budget::Loan;
use crate::jsonrpc::{Body, Call, Json, Message, write_response};
use crate::listener::Client;
use crate::node::{LARGE_RESPONSE_BYTES, Node};
use crate::session::Session;
use crate::submit::submit_timed;
use alloy_primitives::U128;
use corniche_api::{Method, Reason, RpcError};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Response to one body.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// Empty if the client expects no response.
    pub text: String,
    /// Subscriptions that this body created. They start once the client has received their ids.
    pub subscribed: Vec<U128>,
    /// Held until the text is sent.
    pub reserved: Loan,
}

/// Connection and client of a request. Subscriptions need a WebSocket, i.e. a `session`.
pub(crate) struct Caller<'a> {
    pub node: &'a Arc<Node>,
    pub session: Option<&'a Session>,
    /// Rate limits and turns count per client.
    pub client: &'a Client,
    pub subscribed: Vec<U128>,
    reserved: Loan,
}

/// Answers one HTTP body or WebSocket message.
pub(crate) async fn answer(node: &Arc<Node>, session: Option<&Session>, client: &Client, bytes: &[u8]) -> Reply {
    let mut caller = Caller { node, session, client, subscribed: Vec::new(), reserved: Loan::default() };
    let mut text = String::new();
    match Body::parse(bytes, node.config.max_batch) {
        // Parsing a bad body is work too, so it counts as a request.
        Body::Refused(error) => caller.refuse(&mut text, node.rates.take(client, Instant::now()).err().unwrap_or(error)),
        Body::Single(message) => caller.answer_one(&mut text, message).await,
        Body::Batch(elements) => caller.answer_batch(&mut text, &elements).await,
    }
    Reply { text, subscribed: caller.subscribed, reserved: caller.reserved }
}

/// Maximum number of transactions of one batch that wait for admission at the same time.
const SUBMITTED_TOGETHER: usize = 16;

/// Leading transactions of a batch, at most [`SUBMITTED_TOGETHER`].
fn submissions<'a>(node: &Node, elements: &[&'a RawValue]) -> Vec<Call<'a>> {
    let mut calls = Vec::new();
    for element in elements.iter().take(SUBMITTED_TOGETHER) {
        match Message::parse(element.get()) {
            Message::Call(call) if served(node, &call.method) == Ok(Method::EthSendRawTransaction) => calls.push(call),
            _ => break,
        }
    }
    calls
}

/// Looks up a method by name.
///
/// # Errors
///
/// Unknown methods, and methods of namespaces that this node does not serve.
fn served(node: &Node, name: &str) -> Result<Method, RpcError> {
    let method = Method::from_name(name).ok_or_else(|| RpcError::method_not_found(name))?;
    if node.config.namespaces.serves(method) { Ok(method) } else { Err(RpcError::not_served(method)) }
}

/// Appends the response to one element, if any, to the responses of its batch.
fn append_element(out: &mut String, one: &str) {
    if !one.is_empty() {
        out.push(if out.is_empty() { '[' } else { ',' });
        out.push_str(one);
    }
}

impl Caller<'_> {
    /// Processes the elements one after the other, so that a batch takes only one of the bounded jobs.
    /// Transactions are the exception: a few are submitted together, in order. Waiting for each alone would
    /// wake two threads per transaction.
    async fn answer_batch(&mut self, out: &mut String, elements: &[&RawValue]) {
        let mut rest = elements;
        while let Some((element, others)) = rest.split_first() {
            let room = self.room_for_more(out.len());
            let submissions = if room.is_ok() { submissions(self.node, rest) } else { Vec::new() };
            if !submissions.is_empty() {
                rest = &rest[submissions.len()..];
                self.submit_together(out, &submissions).await;
                continue;
            }
            rest = others;
            let mut one = String::new();
            match room {
                Ok(()) => self.answer_one(&mut one, Message::parse(element.get())).await,
                // The remaining elements are not processed.
                Err(error) => self.decline(&mut one, Message::parse(element.get()), error),
            }
            append_element(out, &one);
        }
        if !out.is_empty() {
            out.push(']');
        }
    }

    /// `join_all` polls in order, so the transactions reach admission in the order of the batch.
    async fn submit_together(&mut self, out: &mut String, calls: &[Call<'_>]) {
        let (node, client) = (self.node, self.client);
        let submit_one = async |call: &Call<'_>| match node.rates.take(client, Instant::now()) {
            Ok(()) => submit_timed(node, &call.params).await,
            Err(error) => (Err(error), Duration::ZERO),
        };
        let waiting: Vec<_> = calls.iter().map(submit_one).collect();
        for (call, (result, took)) in calls.iter().zip(futures::future::join_all(waiting).await) {
            let mut one = String::new();
            self.finish(&mut one, call, Method::EthSendRawTransaction, result, took);
            append_element(out, &one);
        }
    }

    /// Checks the size and memory limits before the next element; the batch's response has `written` bytes so
    /// far.
    fn room_for_more(&mut self, written: usize) -> Result<(), RpcError> {
        if written > self.node.config.max_response_bytes {
            return Err(Reason::ResponseTooLarge.error());
        }
        if written > LARGE_RESPONSE_BYTES && written > self.reserved.units() {
            self.reserved.join(self.node.response_bytes.lend(self.client.origin, written)?);
        }
        Ok(())
    }

    async fn answer_one(&mut self, out: &mut String, message: Message<'_>) {
        if let Err(error) = self.node.rates.take(self.client, Instant::now()) {
            return self.decline(out, message, error);
        }
        let call = match message {
            Message::Notification => return,
            Message::Invalid => return self.refuse(out, Message::invalid()),
            Message::Call(call) => call,
        };
        let method = match served(self.node, &call.method) {
            Ok(method) => method,
            Err(error) => {
                self.node.metrics.unknown_method(&error);
                return write_response(out, call.id.get(), &Err(error));
            }
        };
        let begun = Instant::now();
        let result = self.result(method, &call.params).await;
        self.finish(out, &call, method, result, begun.elapsed());
    }

    fn finish(&mut self, out: &mut String, call: &Call<'_>, method: Method, result: Result<Json, RpcError>, took: Duration) {
        self.node.metrics.answered(method, &result, took);
        write_response(out, call.id.get(), &result);
        if let Ok(answer) = result {
            self.reserved.join(answer.reserved);
        }
    }

    /// Responds with `error` to a message that is not processed.
    fn decline(&self, out: &mut String, message: Message<'_>, error: RpcError) {
        match message {
            Message::Notification => {}
            Message::Invalid => self.refuse(out, Message::invalid()),
            Message::Call(Call { id, .. }) => {
                self.node.metrics.refused(&error);
                write_response(out, id.get(), &Err(error));
            }
        }
    }

    /// Responds with `error` and a null id.
    fn refuse(&self, out: &mut String, error: RpcError) {
        self.node.metrics.refused(&error);
        write_response(out, "null", &Err(error));
    }
}
