//! Processes request bodies: one request, or a batch in order. Each request counts against the client's rate limit.
//! The handlers are in [`crate::dispatch`].

use crate::budget::Reservation;
use crate::client::Client;
use crate::dispatch::RequestContext;
use crate::jsonrpc::{Body, Call, Json, Message, write_response};
use crate::node::{LARGE_RESPONSE_BYTES, Node};
use crate::session::Session;
use crate::submit::submit_timed;
use alloy_primitives::U128;
use corniche_api::{Method, Reason, RpcError};
use futures::future::{join_all, maybe_done};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Response to one body.
#[derive(Debug, Default)]
pub(crate) struct RpcResponse {
    /// Empty if the client expects no response.
    pub text: String,
    /// Subscriptions that this body created. They start once the client has received their ids.
    pub subscribed: Vec<U128>,
    /// Memory reserved for the text; held until the text is sent.
    pub reserved: Reservation,
}

/// Answers one HTTP body or WebSocket message.
pub(crate) async fn handle_body(node: &Arc<Node>, session: Option<&Session>, client: &Client, bytes: &[u8]) -> RpcResponse {
    let mut context = RequestContext { node, session, client, subscribed: Vec::new(), reserved: Reservation::default() };
    let mut text = String::new();
    match Body::parse(bytes, node.config.max_batch) {
        // Parsing a bad body is work too, so it counts as a request.
        Body::Refused(error) => {
            context.reject_unparsed(&mut text, node.rate_limiter.take(client, Instant::now()).err().unwrap_or(error))
        }
        Body::Single(message) => context.handle_one(&mut text, message).await,
        Body::Batch(elements) => context.handle_batch(&mut text, &elements).await,
    }
    RpcResponse { text, subscribed: context.subscribed, reserved: context.reserved }
}

/// Maximum number of transactions of one batch that wait for admission at the same time.
const MAX_CONCURRENT_SUBMISSIONS: usize = 16;

/// Leading transactions of a batch, at most [`MAX_CONCURRENT_SUBMISSIONS`].
fn leading_submissions<'a>(node: &Node, elements: &[&'a RawValue]) -> Vec<Call<'a>> {
    let mut calls = Vec::new();
    for element in elements.iter().take(MAX_CONCURRENT_SUBMISSIONS) {
        match Message::parse(element.get()) {
            Message::Call(call) if lookup_method(node, &call.method) == Ok(Method::EthSendRawTransaction) => calls.push(call),
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
fn lookup_method(node: &Node, name: &str) -> Result<Method, RpcError> {
    let method = Method::from_name(name).ok_or_else(|| RpcError::method_not_found(name))?;
    if node.config.namespaces.serves(method) { Ok(method) } else { Err(RpcError::not_served(method)) }
}

/// Appends the response to one element, if any, to the responses of its batch.
pub(crate) fn append_element(out: &mut String, one: &str) {
    if !one.is_empty() {
        out.push(if out.is_empty() { '[' } else { ',' });
        out.push_str(one);
    }
}

impl RequestContext<'_> {
    /// Processes the elements one after the other, so that a batch occupies at most one job of the executor.
    /// Transactions are an exception: up to [`MAX_CONCURRENT_SUBMISSIONS`] are submitted together, in order. One
    /// at a time would cost two thread wake-ups per transaction.
    async fn handle_batch(&mut self, out: &mut String, elements: &[&RawValue]) {
        let mut rest = elements;
        while let Some((element, others)) = rest.split_first() {
            let size_check = self.check_response_size(out.len());
            let submissions = if size_check.is_ok() { leading_submissions(self.node, rest) } else { Vec::new() };
            if !submissions.is_empty() {
                rest = &rest[submissions.len()..];
                self.submit_concurrently(out, &submissions).await;
                continue;
            }
            rest = others;
            let mut one = String::new();
            match size_check {
                Ok(()) => self.handle_one(&mut one, Message::parse(element.get())).await,
                // The remaining elements are not processed.
                Err(error) => self.reject(&mut one, Message::parse(element.get()), error),
            }
            append_element(out, &one);
        }
        if !out.is_empty() {
            out.push(']');
        }
    }

    /// Starts the submissions in the order of the batch, then waits for all.
    ///
    /// Starting one checks a signature, on a thread that also carries peers' messages. For a single transaction that
    /// is faster than passing it to another thread. A batch of 1,000 would hold the thread for 35 ms. So a batch yields
    /// after each check. The alternative, other threads for batches, costs two thread wake-ups per transaction.
    async fn submit_concurrently(&mut self, out: &mut String, calls: &[Call<'_>]) {
        let (node, client) = (self.node, self.client);
        let submit_one = async |call: &Call<'_>| match node.rate_limiter.take(client, Instant::now()) {
            Ok(()) => submit_timed(node, &call.params).await,
            Err(error) => (Err(error), Duration::ZERO),
        };
        let mut submissions = Vec::with_capacity(calls.len());
        for call in calls {
            let mut submission = Box::pin(maybe_done(submit_one(call)));
            // A result is kept in the submission.
            let _ = futures::poll!(&mut submission);
            tokio::task::yield_now().await;
            submissions.push(submission);
        }
        join_all(submissions.iter_mut()).await;
        for (call, mut submission) in calls.iter().zip(submissions) {
            let output = submission.as_mut().take_output();
            let (result, elapsed_time) = output.expect("invariant: join_all completes every submission");
            let mut one = String::new();
            self.write_result(&mut one, call, Method::EthSendRawTransaction, result, elapsed_time);
            append_element(out, &one);
        }
    }

    /// Checks the size and memory limits before the next element; the batch's response has `written` bytes so
    /// far.
    fn check_response_size(&mut self, written: usize) -> Result<(), RpcError> {
        if written > self.node.config.max_response_bytes {
            return Err(Reason::ResponseTooLarge.error());
        }
        if written > LARGE_RESPONSE_BYTES && written > self.reserved.units() {
            self.reserved.join(self.node.response_bytes.reserve(self.client.origin, written)?);
        }
        Ok(())
    }

    async fn handle_one(&mut self, out: &mut String, message: Message<'_>) {
        if let Err(error) = self.node.rate_limiter.take(self.client, Instant::now()) {
            return self.reject(out, message, error);
        }
        let call = match message {
            Message::Notification => return,
            Message::Invalid => return self.reject_unparsed(out, Message::invalid()),
            Message::Call(call) => call,
        };
        let method = match lookup_method(self.node, &call.method) {
            Ok(method) => method,
            Err(error) => {
                self.node.metrics.unknown_method(&error);
                return write_response(out, call.id.get(), &Err(error));
            }
        };
        let started = Instant::now();
        let result = self.dispatch(method, &call.params).await;
        self.write_result(out, &call, method, result, started.elapsed());
    }

    fn write_result(
        &mut self,
        out: &mut String,
        call: &Call<'_>,
        method: Method,
        result: Result<Json, RpcError>,
        elapsed_time: Duration,
    ) {
        self.node.metrics.record_response(method, &result, elapsed_time);
        write_response(out, call.id.get(), &result);
        if let Ok(json) = result {
            self.reserved.join(json.reserved);
        }
    }

    /// Responds with `error` to a message that is not processed.
    fn reject(&self, out: &mut String, message: Message<'_>, error: RpcError) {
        match message {
            Message::Notification => {}
            Message::Invalid => self.reject_unparsed(out, Message::invalid()),
            Message::Call(Call { id, .. }) => {
                self.node.metrics.refused(&error);
                write_response(out, id.get(), &Err(error));
            }
        }
    }

    /// Responds with `error` and a null id.
    fn reject_unparsed(&self, out: &mut String, error: RpcError) {
        self.node.metrics.refused(&error);
        write_response(out, "null", &Err(error));
    }
}
