//! JSON-RPC 2.0 over HTTP: single requests and batches.

use crate::{
    error::{ClientError, Refusal},
    nesting,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use std::{collections::BTreeMap, time::Duration};

/// Most bytes of a response.
const MAX_RESPONSE_BYTES: u64 = 64 << 20;

/// A request of a batch.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method name.
    pub method: &'static str,
    /// Parameters, as a JSON array.
    pub params: Value,
}

/// Sends requests to one URL over persistent connections. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub struct Transport {
    agent: ureq::Agent,
    url: String,
}

#[derive(Serialize)]
struct Envelope<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: P,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(default)]
    id: Value,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<Refusal>,
}

impl Transport {
    /// `timeout` limits each request, from connecting to the last byte of the response.
    pub fn new(url: impl Into<String>, timeout: Duration) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections_per_host(16)
            .build();
        Self { agent: config.into(), url: url.into() }
    }

    /// Returns the configured URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends a single request.
    pub fn request<R: DeserializeOwned + Send>(&self, method: &str, params: impl Serialize) -> Result<R, ClientError> {
        let nonsense = |problem: String| ClientError::InvalidResponse { method: method.to_owned(), problem };
        let envelope = Envelope { jsonrpc: "2.0", id: 1, method, params };
        let body = serde_json::to_vec(&envelope).map_err(|error| ClientError::Unsignable(error.to_string()))?;
        let text = self.post(method, &body)?;
        let answer: Response<'_> = serde_json::from_str(&text).map_err(|error| nonsense(error.to_string()))?;
        decode(answer, method)
    }

    /// Sends a batch. The results are in the order of `requests`, in whichever order the responses came.
    pub fn batch<R: DeserializeOwned + Send>(&self, requests: &[Request]) -> Result<Vec<Result<R, ClientError>>, ClientError> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let nonsense = |problem: String| ClientError::InvalidResponse { method: "batch".to_owned(), problem };
        let envelope = |(id, request): (u64, &'_ Request)| Envelope {
            jsonrpc: "2.0",
            id,
            method: request.method,
            params: request.params.clone(),
        };
        let envelopes: Vec<_> = (0u64..).zip(requests).map(envelope).collect();
        let body = serde_json::to_vec(&envelopes).map_err(|error| ClientError::Unsignable(error.to_string()))?;
        let text = self.post("batch", &body)?;
        if text.trim_start().starts_with('{') {
            // The node rejected the whole batch.
            let answer: Response<'_> = serde_json::from_str(&text).map_err(|error| nonsense(error.to_string()))?;
            return Err(decode::<Value>(answer, "batch").err().unwrap_or_else(|| nonsense("not an array".into())));
        }
        let answers: Vec<Response<'_>> = serde_json::from_str(&text).map_err(|error| nonsense(error.to_string()))?;
        let mut by_id: BTreeMap<u64, Response<'_>> =
            answers.into_iter().filter_map(|answer| Some((answer.id.as_u64()?, answer))).collect();
        let take = |(id, request): (u64, &Request)| match by_id.remove(&id) {
            Some(answer) => decode(answer, request.method),
            None => Err(nonsense(format!("no response to call {id}"))),
        };
        Ok((0u64..).zip(requests).map(take).collect())
    }

    fn post(&self, method: &str, body: &[u8]) -> Result<String, ClientError> {
        let unreachable = |error: ureq::Error| ClientError::Unreachable { url: self.url.clone(), problem: error.to_string() };
        let request = self.agent.post(&self.url).header("content-type", "application/json");
        let mut response = request.send(body).map_err(unreachable)?;
        let status = response.status();
        let text = response.body_mut().with_config().limit(MAX_RESPONSE_BYTES).read_to_string().map_err(unreachable)?;
        if !status.is_success() && !text.trim_start().starts_with(['{', '[']) {
            let problem = format!("HTTP status {status}: {}", text.chars().take(200).collect::<String>());
            return Err(ClientError::InvalidResponse { method: method.to_owned(), problem });
        }
        Ok(text)
    }
}

fn decode<R: DeserializeOwned + Send>(answer: Response<'_>, method: &str) -> Result<R, ClientError> {
    if let Some(refusal) = answer.error {
        return Err(refusal.into_error(method));
    }
    let text = answer.result.map_or("null", RawValue::get);
    nesting::parse(text)
        .map_err(|error| ClientError::InvalidResponse { method: method.to_owned(), problem: format!("{error}: {text:.200}") })
}
