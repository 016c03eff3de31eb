//! Server-sent events for open pages.

use crate::{
    app_state::AppState,
    limits::{ConcurrencyLimit, LimitReached, Permit},
};
use axum::{
    extract::{ConnectInfo, State},
    http::StatusCode,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::stream;
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, LazyLock},
};
use tokio::sync::broadcast::{Receiver, error::RecvError};

/// Maximum number of open event streams in total.
const MAX_LISTENERS: usize = 2_000;

/// Maximum number of open event streams of one address. The script subscribes only while a page is visible, and a
/// reader has few visible pages.
const MAX_PER_ADDRESS: usize = 8;

static LISTENERS: LazyLock<Arc<ConcurrencyLimit>> = LazyLock::new(|| ConcurrencyLimit::new(MAX_LISTENERS, MAX_PER_ADDRESS));

struct Listener {
    ticks: Receiver<crate::live::Tick>,
    _permit: Permit,
}

/// Streams ticks until the client disconnects.
pub async fn stream(State(app): State<Arc<AppState>>, ConnectInfo(from): ConnectInfo<SocketAddr>) -> Response {
    let refuse = |status: StatusCode| (status, [("retry-after", "10")]).into_response();
    let permit = match LISTENERS.acquire(Some(from.ip())) {
        Ok(permit) => permit,
        Err(LimitReached::Total) => return refuse(StatusCode::SERVICE_UNAVAILABLE),
        Err(LimitReached::PerAddress) => return refuse(StatusCode::TOO_MANY_REQUESTS),
    };
    let listener = Listener { ticks: app.live.listen(), _permit: permit };
    let events = stream::unfold(listener, |mut listener| async move {
        let event = match listener.ticks.recv().await {
            Ok(tick) => Event::default().json_data(tick).unwrap_or_default(),
            // Too slow: the page reloads its content.
            Err(RecvError::Lagged(_)) => Event::default().data(r#"{"kind":"missed"}"#),
            Err(RecvError::Closed) => return None,
        };
        Some((Ok::<_, Infallible>(event), listener))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}
