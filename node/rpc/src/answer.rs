//! The answering of bodies: a request, or a batch of them in order, with what each costs taken from its limits. What a method answers is in
//! [`crate::dispatch`].

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

/// What a body is answered with.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    /// Empty: the client wants no answer.
    pub text: String,
    /// Subscriptions made by it. They start when the client has been told their names.
    pub subscribed: Vec<U128>,
    /// To be kept until the text is sent.
    pub reserved: Loan,
}

/// Where a request came from: subscriptions need a WebSocket.
pub(crate) struct Caller<'a> {
    pub node: &'a Arc<Node>,
    pub session: Option<&'a Session>,
    /// Takes its turn among others.
    pub client: &'a Client,
    pub subscribed: Vec<U128>,
    reserved: Loan,
}

/// Answers one HTTP body or WebSocket message.
pub(crate) async fn answer(node: &Arc<Node>, session: Option<&Session>, client: &Client, bytes: &[u8]) -> Reply {
    let mut caller = Caller { node, session, client, subscribed: Vec::new(), reserved: Loan::default() };
    let mut text = String::new();
    match Body::parse(bytes, node.config.max_batch) {
        // Reading it was work too.
        Body::Refused(error) => caller.refuse(&mut text, node.rates.take(client, Instant::now()).err().unwrap_or(error)),
        Body::Single(message) => caller.answer_one(&mut text, message).await,
        Body::Batch(elements) => caller.answer_batch(&mut text, &elements).await,
    }
    Reply { text, subscribed: caller.subscribed, reserved: caller.reserved }
}

/// Most transactions of one batch that wait for admission's answer at a time.
const SUBMITTED_TOGETHER: usize = 16;

/// The transactions that a batch begins with, as many as may wait together.
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

/// The method of that name, if this node answers it.
fn served(node: &Node, name: &str) -> Result<Method, RpcError> {
    let method = Method::from_name(name).ok_or_else(|| RpcError::method_not_found(name))?;
    if node.config.namespaces.serves(method) { Ok(method) } else { Err(RpcError::not_served(method)) }
}

/// Adds what an element is answered, if anything, to a batch's answers.
fn append_element(out: &mut String, one: &str) {
    if !one.is_empty() {
        out.push(if out.is_empty() { '[' } else { ',' });
        out.push_str(one);
    }
}

impl Caller<'_> {
    /// Elements are answered in order, one after the other, so that a batch takes one place among the bounded jobs. Only
    /// transactions go to admission a few at a time, in order: waiting for its word on each would wake two threads for each.
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
                // What is left is not worked on any more.
                Err(error) => self.decline(&mut one, Message::parse(element.get()), error),
            }
            append_element(out, &one);
        }
        if !out.is_empty() {
            out.push(']');
        }
    }

    /// Each is polled in its turn, so that the transactions reach admission in the order of the batch.
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

    /// Whether another element may be answered when the answer has `written` bytes already.
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

    /// Answers a message that is not worked on.
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

    /// Answers what cannot be answered by name and id.
    fn refuse(&self, out: &mut String, error: RpcError) {
        self.node.metrics.refused(&error);
        write_response(out, "null", &Err(error));
    }
}
