//! Client of a request: its address, behind trusted proxies too, and the rate limit of its connection.

use crate::token_bucket::TokenBucket;
use axum::http::HeaderMap;
use corniche_origin::{Origin, Proxy, proxy};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Client of a request, and its connection.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// Remote address of the connection: the client or a proxy.
    pub peer: IpAddr,
    pub origin: Origin,
    pub connection: Arc<Mutex<TokenBucket>>,
}

impl Client {
    /// Returns the client behind trusted proxies, or `self` if the peer is not a trusted proxy.
    pub fn resolve_proxies(self, proxies: &[Proxy], headers: &HeaderMap) -> Self {
        if !proxy::trusts(proxies, self.peer) {
            return self;
        }
        // A proxy's connection carries requests of many clients, so it gets no rate limit of its own.
        Self { origin: Origin::of(proxy::client(proxies, self.peer, headers)), connection: Arc::default(), ..self }
    }
}
