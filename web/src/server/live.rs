//! What pages are told as it happens: server-sent events.

use crate::site::Site;
use axum::{
    extract::State,
    http::StatusCode,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::stream;
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::broadcast::{Receiver, error::RecvError};

/// Pages that listen at once, all told.
const MOST_LISTENERS: usize = 2_000;

static LISTENERS: AtomicUsize = AtomicUsize::new(0);

/// Counts a listener for as long as it lives.
struct Listener(Receiver<crate::live::Tick>);

impl Drop for Listener {
    fn drop(&mut self) {
        LISTENERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Ticks until the reader goes.
pub async fn stream(State(site): State<Arc<Site>>) -> Response {
    if LISTENERS.fetch_add(1, Ordering::Relaxed) >= MOST_LISTENERS {
        LISTENERS.fetch_sub(1, Ordering::Relaxed);
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let listener = Listener(site.live.listen());
    let events = stream::unfold(listener, |mut listener| async move {
        let event = match listener.0.recv().await {
            Ok(tick) => Event::default().json_data(tick).unwrap_or_default(),
            // Too slow: the page asks for what it shows again.
            Err(RecvError::Lagged(_)) => Event::default().data(r#"{"kind":"missed"}"#),
            Err(RecvError::Closed) => return None,
        };
        Some((Ok::<_, Infallible>(event), listener))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}
