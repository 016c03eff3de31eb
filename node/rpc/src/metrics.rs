//! Metrics of the server. Label values come from fixed sets, so that clients cannot create new ones.

use corniche_api::{Method, RpcError};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::time::Duration;

/// The server's metrics; cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<MethodLabel, Histogram, fn() -> Histogram>,
    pub(crate) connections: Gauge,
    pub(crate) connections_refused: Counter,
    pub(crate) websockets: Gauge,
    pub(crate) subscriptions: Gauge,
    pub(crate) slow_subscribers: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    /// Name of a method, `unknown`, or `none` if the request could not be parsed.
    method: &'static str,
    /// Error code; 0 on success.
    code: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MethodLabel {
    method: &'static str,
}

impl Default for Metrics {
    /// Metrics without a registry.
    fn default() -> Self {
        Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new([0.0001, 0.001, 0.01, 0.1, 1.0, 10.0])),
            connections: Gauge::default(),
            connections_refused: Counter::default(),
            websockets: Gauge::default(),
            subscriptions: Gauge::default(),
            slow_subscribers: Counter::default(),
        }
    }
}

impl Metrics {
    /// Registers the metrics with the prefix `corniche_rpc`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("corniche_rpc");
        registry.register("requests", "Requests by method and error code (0: success)", metrics.requests.clone());
        registry.register("request_seconds", "Response time by method", metrics.seconds.clone());
        registry.register("connections", "Open connections", metrics.connections.clone());
        registry.register(
            "connections_refused",
            "Connections refused at the connection limit",
            metrics.connections_refused.clone(),
        );
        registry.register("websockets", "Open WebSockets", metrics.websockets.clone());
        registry.register("subscriptions", "Open subscriptions", metrics.subscriptions.clone());
        registry.register(
            "slow_subscribers",
            "WebSockets closed because the client did not keep up",
            metrics.slow_subscribers.clone(),
        );
        metrics
    }

    /// Counts one response of a known method.
    pub(crate) fn record_response<T>(&self, method: Method, result: &Result<T, RpcError>, elapsed: Duration) {
        self.count(method.name(), result.as_ref().err());
        self.seconds.get_or_create(&MethodLabel { method: method.name() }).observe(elapsed.as_secs_f64());
    }

    /// Counts a request for an unknown method.
    pub(crate) fn unknown_method(&self, error: &RpcError) {
        self.count("unknown", Some(error));
    }

    /// Counts a request refused before its method was known.
    pub(crate) fn refused(&self, error: &RpcError) {
        self.count("none", Some(error));
    }

    fn count(&self, method: &'static str, error: Option<&RpcError>) {
        let code = error.map_or(0, |error| error.code);
        self.requests.get_or_create(&RequestLabels { method, code }).inc();
    }
}
