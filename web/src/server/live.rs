//! What pages are told as it happens: server-sent events.

use crate::{limits::group, site::Site};
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
    collections::BTreeMap,
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::broadcast::{Receiver, error::RecvError};

/// Pages that listen at once, all told.
const MOST_LISTENERS: usize = 2_000;

/// Pages of one address that listen at once. The script listens for pages that are seen only, and a reader sees few.
const MOST_OF_ADDRESS: usize = 8;

static LISTENERS: Listeners = Listeners::new();

/// Who listens, and how often.
struct Listeners(Mutex<BTreeMap<IpAddr, usize>>);

impl Listeners {
    const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// One more of an address, for as long as what is given back lives.
    fn enter(&'static self, address: IpAddr) -> Result<Place, StatusCode> {
        let address = group(address);
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if listeners.values().sum::<usize>() >= MOST_LISTENERS {
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        }
        let own = listeners.entry(address).or_default();
        if *own >= MOST_OF_ADDRESS {
            return Err(StatusCode::TOO_MANY_REQUESTS);
        }
        *own += 1;
        Ok(Place { listeners: self, address })
    }
}

/// Counts a listener for as long as it lives.
struct Place {
    listeners: &'static Listeners,
    address: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut listeners = self.listeners.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = listeners.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                listeners.remove(&self.address);
            }
        }
    }
}

struct Listener {
    ticks: Receiver<crate::live::Tick>,
    _place: Place,
}

/// Ticks until the reader goes.
pub async fn stream(State(site): State<Arc<Site>>, ConnectInfo(from): ConnectInfo<SocketAddr>) -> Response {
    let place = match LISTENERS.enter(from.ip()) {
        Ok(place) => place,
        Err(status) => return (status, [("retry-after", "10")]).into_response(),
    };
    let listener = Listener { ticks: site.live.listen(), _place: place };
    let events = stream::unfold(listener, |mut listener| async move {
        let event = match listener.ticks.recv().await {
            Ok(tick) => Event::default().json_data(tick).unwrap_or_default(),
            // Too slow: the page asks for what it shows again.
            Err(RecvError::Lagged(_)) => Event::default().data(r#"{"kind":"missed"}"#),
            Err(RecvError::Closed) => return None,
        };
        Some((Ok::<_, Infallible>(event), listener))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_listens_a_few_times_and_all_together_not_without_end() {
        static LISTENERS: Listeners = Listeners::new();
        let address = |number: u32| IpAddr::from((0x0a00_0000 + number).to_be_bytes());
        let enter = |number| LISTENERS.enter(address(number));
        let mut places: Vec<Place> = (0..MOST_OF_ADDRESS).map(|_| enter(0).ok().unwrap()).collect();
        assert_eq!(enter(0).err(), Some(StatusCode::TOO_MANY_REQUESTS));
        drop(places.pop());
        places.push(enter(0).ok().unwrap());
        for number in 0..(MOST_LISTENERS - MOST_OF_ADDRESS) as u32 {
            places.push(enter(1 + number).ok().unwrap());
        }
        assert_eq!(enter(5_000).err(), Some(StatusCode::SERVICE_UNAVAILABLE));
        drop(places);
        assert!(LISTENERS.0.lock().unwrap().is_empty(), "who left is forgotten");
    }
}
