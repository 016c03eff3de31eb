//! Upgrade from HTTP to WebSocket: RFC 6455, section 4.2. HTTP/2 streams (RFC 8441) are not supported: hyper
//! buffers writes to them and reports them as sent, so unread data would be outside every budget.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use sha1::{Digest, Sha1};

/// Constant that is hashed with the key of each handshake.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Upgraded connection.
pub(crate) type UpgradedStream = TokioIo<Upgraded>;

/// Request to upgrade to a WebSocket.
pub(crate) struct Upgrade {
    on_upgrade: OnUpgrade,
    key: HeaderValue,
}

impl Upgrade {
    /// `None` if the request is not a valid upgrade request.
    pub fn from_request(request: &mut Request) -> Option<Self> {
        let headers = request.headers();
        if request.version() != Version::HTTP_11
            || request.method() != Method::GET
            || !header_contains(headers, header::CONNECTION, "upgrade")
            || !header_contains(headers, header::UPGRADE, "websocket")
            || !header_contains(headers, header::SEC_WEBSOCKET_VERSION, "13")
        {
            return None;
        }
        let key = headers.get(header::SEC_WEBSOCKET_KEY)?.clone();
        Some(Self { on_upgrade: request.extensions_mut().remove()?, key })
    }

    /// Accepts the upgrade, and serves the connection once the client has the response.
    pub fn accept<F>(self, serve: impl FnOnce(UpgradedStream) -> F + Send + 'static) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { on_upgrade, key } = self;
        tokio::spawn(async move {
            // An error means that the connection was closed.
            if let Ok(upgraded) = on_upgrade.await {
                serve(TokioIo::new(upgraded)).await;
            }
        });
        let hash = Sha1::new().chain_update(key).chain_update(GUID).finalize();
        let headers = [
            (header::CONNECTION, "upgrade".to_string()),
            (header::UPGRADE, "websocket".to_string()),
            (header::SEC_WEBSOCKET_ACCEPT, BASE64_STANDARD.encode(hash)),
        ];
        (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
    }
}

/// True if the comma-separated header contains the word.
fn header_contains(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    let lines = headers.get_all(name).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|listed| listed.trim().eq_ignore_ascii_case(token))
}
