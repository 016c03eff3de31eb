//! Inbound connections without a proven key. Strangers can open them for free, so each address has a share of
//! the slots, and stalled ones lose their slot to new ones. Addresses of validators have separate slots.
//!
//! An IPv6 address counts with its whole /64. A stranger may have a /48 with 65,536 of those, so eviction compares
//! sites (/48), not addresses.
//!
//! TCP's handshake proves source addresses. QUIC's can be forged, so the two do not share slots.
//!
//! This is a transport around the transport, because a pending connection of libp2p can only be ended through
//! its future.

use crate::{Transport as Kind, origin::inbound_origin, shared::Shared};
use corniche_origin::{Origin, Site};
use futures::{FutureExt, future::BoxFuture};
use libp2p::{
    Multiaddr, PeerId, Transport,
    core::{
        muxing::StreamMuxerBox,
        transport::{Boxed, DialOpts, ListenerId, TransportError, TransportEvent},
    },
};
use std::{
    collections::BTreeMap,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::{sync::oneshot, time::timeout};

type Connection = (PeerId, StreamMuxerBox);

/// Limits of [`Pending`].
#[derive(Clone, Copy, Debug)]
struct PendingLimits {
    all: usize,
    per_address: usize,
    grace: Duration,
}

/// Connections of one transport without a proven key. Dropping the `T` of one ends it.
#[derive(Debug)]
struct Pending<T> {
    limits: PendingLimits,
    /// In order of arrival.
    entries: BTreeMap<u64, Entry<T>>,
    next: u64,
}

#[derive(Debug)]
struct Entry<T> {
    origin: Origin,
    since: Instant,
    /// True if it has a slot reserved for its address's validators.
    reserved: bool,
    _end: T,
}

/// Result of an admission: with a free slot, or by ending another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admitted {
    Free(u64),
    Evicting(u64),
}

impl<T> Pending<T> {
    fn new(limits: PendingLimits) -> Self {
        Self { limits, entries: BTreeMap::new(), next: 0 }
    }

    /// Gives a connection from `origin`, the address of `validators` known validators, a slot. If its address
    /// has used its share, the oldest connection of that address loses its slot. If all slots are used, the
    /// oldest connection of the sites with the most slots does. `None` if that connection is still within
    /// its grace period.
    fn admit(&mut self, now: Instant, origin: Origin, validators: usize, end: T) -> Option<Admitted> {
        let per_address = self.limits.per_address + 2 * validators;
        let of_origin = self.entries.values().filter(|entry| entry.origin == origin).count();
        let shared = self.entries.values().filter(|entry| !entry.reserved).count();
        let reserved = validators > 0;
        let evicted = if of_origin >= per_address {
            Some(self.oldest(|entry| entry.origin == origin))
        } else if !reserved && shared >= self.limits.all {
            let counts = self.shared_by_site();
            let most = counts.values().max().copied().unwrap_or_default();
            Some(self.oldest(|entry| !entry.reserved && counts.get(&entry.origin.site()) == Some(&most)))
        } else {
            None
        };
        if let Some(evicted) = evicted {
            let evicted = evicted.filter(|id| now.saturating_duration_since(self.entries[id].since) >= self.limits.grace)?;
            self.entries.remove(&evicted);
        }
        let id = self.next;
        self.next += 1;
        self.entries.insert(id, Entry { origin, since: now, reserved, _end: end });
        Some(if evicted.is_some() { Admitted::Evicting(id) } else { Admitted::Free(id) })
    }

    fn oldest(&self, which: impl Fn(&Entry<T>) -> bool) -> Option<u64> {
        self.entries.iter().find(|(_, entry)| which(entry)).map(|(id, _)| *id)
    }

    fn shared_by_site(&self) -> BTreeMap<Site, usize> {
        let mut counts = BTreeMap::new();
        for entry in self.entries.values().filter(|entry| !entry.reserved) {
            *counts.entry(entry.origin.site()).or_default() += 1;
        }
        counts
    }

    fn remove(&mut self, id: u64) {
        self.entries.remove(&id);
    }
}

/// The sender of a pending connection is dropped when it loses its slot.
type Slots = Arc<Mutex<Pending<oneshot::Sender<()>>>>;

fn lock(slots: &Slots) -> MutexGuard<'_, Pending<oneshot::Sender<()>>> {
    // Every critical section leaves the table consistent.
    slots.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Slot, given back when dropped.
struct Slot {
    slots: Slots,
    id: u64,
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.slots).remove(self.id);
    }
}

/// Transport with slots for inbound connections.
pub(crate) struct LimitedTransport {
    inner: Boxed<Connection>,
    shared: Arc<Shared>,
    tcp: Slots,
    quic: Slots,
}

impl LimitedTransport {
    pub fn new(inner: Boxed<Connection>, shared: Arc<Shared>) -> Self {
        let (config, timing) = (&shared.config.limits, &shared.config.timing);
        let limits =
            PendingLimits { all: config.pending_inbound, per_address: config.pending_per_address, grace: timing.pending_grace };
        let slots = || Arc::new(Mutex::new(Pending::new(limits)));
        let (tcp, quic) = (slots(), slots());
        Self { inner, shared, tcp, quic }
    }

    /// Adds a slot and a timeout to the upgrade; `None` if there is no slot.
    fn admit(&self, from: &Multiaddr, upgrade: Upgrade) -> Option<Upgrade> {
        let slots = match Kind::of(from) {
            Kind::Tcp => &self.tcp,
            Kind::Quic => &self.quic,
        };
        let origin = inbound_origin(from);
        let (end, ended) = oneshot::channel();
        let counters = &self.shared.counters.general;
        let admitted = lock(slots).admit(Instant::now(), origin, self.shared.count_validators_at(origin), end);
        let id = match admitted {
            Some(Admitted::Free(id)) => id,
            Some(Admitted::Evicting(id)) => {
                counters.connections_evicted.increment();
                id
            }
            None => {
                counters.connections_refused.increment();
                return None;
            }
        };
        let slot = Slot { slots: slots.clone(), id };
        let time = self.shared.config.timing.authentication;
        let upgrade = async move {
            let _slot = slot;
            tokio::select! {
                outcome = timeout(time, upgrade) => outcome.unwrap_or_else(|elapsed| Err(elapsed.into())),
                _ = ended => Err(io::Error::other("a newcomer took the slot")),
            }
        };
        Some(upgrade.boxed())
    }
}

type Upgrade = BoxFuture<'static, io::Result<Connection>>;

impl Transport for LimitedTransport {
    type Output = Connection;
    type Error = io::Error;
    type ListenerUpgrade = Upgrade;
    type Dial = <Boxed<Connection> as Transport>::Dial;

    fn listen_on(&mut self, id: ListenerId, address: Multiaddr) -> Result<(), TransportError<io::Error>> {
        self.inner.listen_on(id, address)
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.inner.remove_listener(id)
    }

    fn dial(&mut self, address: Multiaddr, options: DialOpts) -> Result<Self::Dial, TransportError<io::Error>> {
        self.inner.dial(address, options)
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<TransportEvent<Upgrade, io::Error>> {
        let this = self.get_mut();
        loop {
            let event = match Pin::new(&mut this.inner).poll(context) {
                Poll::Ready(event) => event,
                Poll::Pending => return Poll::Pending,
            };
            let TransportEvent::Incoming { listener_id, upgrade, local_addr, send_back_addr } = event else {
                return Poll::Ready(event);
            };
            if let Some(upgrade) = this.admit(&send_back_addr, upgrade) {
                return Poll::Ready(TransportEvent::Incoming { listener_id, upgrade, local_addr, send_back_addr });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(1);

    fn origin(last: u8) -> Origin {
        inbound_origin(&format!("/ip4/192.0.2.{last}/tcp/1").parse().unwrap())
    }

    fn pending(all: usize, per_address: usize) -> Pending<()> {
        Pending::new(PendingLimits { all, per_address, grace: GRACE })
    }

    fn from(pending: &Pending<()>, last: u8) -> usize {
        pending.entries.values().filter(|entry| entry.origin == origin(last)).count()
    }

    #[test]
    fn address_at_limit_replaces_its_oldest() {
        let (mut pending, start) = (pending(8, 2), Instant::now());
        assert_eq!(pending.admit(start, origin(1), 0, ()), Some(Admitted::Free(0)));
        assert_eq!(pending.admit(start + GRACE / 2, origin(1), 0, ()), Some(Admitted::Free(1)));
        assert_eq!(pending.admit(start + GRACE / 2, origin(1), 0, ()), None);
        assert_eq!(pending.admit(start + GRACE, origin(1), 0, ()), Some(Admitted::Evicting(2)));
        assert_eq!(pending.entries.keys().copied().collect::<Vec<_>>(), [1, 2]);
        pending.remove(1);
        assert_eq!(pending.admit(start + GRACE, origin(1), 0, ()), Some(Admitted::Free(3)));
    }

    #[test]
    fn largest_address_is_evicted() {
        let (mut pending, start) = (pending(4, 3), Instant::now());
        for last in [1, 2, 2, 2] {
            assert!(matches!(pending.admit(start, origin(last), 0, ()), Some(Admitted::Free(_))));
        }
        assert_eq!(pending.admit(start, origin(3), 0, ()), None);
        assert!(matches!(pending.admit(start + GRACE, origin(3), 0, ()), Some(Admitted::Evicting(_))));
        assert_eq!([1, 2, 3].map(|last| from(&pending, last)), [1, 2, 1]);
    }

    /// Each of its /64s has one slot, as many as any honest address.
    #[test]
    fn largest_site_is_evicted() {
        let (mut pending, start) = (pending(8, 2), Instant::now());
        assert!(pending.admit(start, origin(1), 0, ()).is_some());
        for number in 0..7 {
            let origin = inbound_origin(&format!("/ip6/2001:db8:0:{number:x}::1/tcp/1").parse().unwrap());
            assert!(pending.admit(start, origin, 0, ()).is_some());
        }
        for last in 2..=7 {
            assert!(matches!(pending.admit(start + GRACE, origin(last), 0, ()), Some(Admitted::Evicting(_))));
        }
        assert!((1..=7).all(|last| from(&pending, last) == 1), "the site pays");
    }

    #[test]
    fn oldest_of_equal_addresses_is_evicted() {
        let (mut pending, start) = (pending(3, 3), Instant::now());
        for (number, last) in [2, 9, 5].into_iter().enumerate() {
            assert!(pending.admit(start + GRACE * number as u32, origin(last), 0, ()).is_some());
        }
        assert!(matches!(pending.admit(start + GRACE, origin(1), 0, ()), Some(Admitted::Evicting(_))));
        assert_eq!([2, 9, 5, 1].map(|last| from(&pending, last)), [0, 1, 1, 1]);
    }

    #[test]
    fn validator_slots_are_reserved() {
        let (mut pending, start) = (pending(4, 4), Instant::now());
        for last in 1..=4 {
            assert!(pending.admit(start, origin(last), 0, ()).is_some());
        }
        // Two validators at this address: the share of an address, and two slots per validator.
        for _ in 0..8 {
            assert!(matches!(pending.admit(start, origin(9), 2, ()), Some(Admitted::Free(_))));
        }
        assert_eq!(pending.admit(start, origin(9), 2, ()), None);
        assert_eq!(pending.admit(start, origin(5), 0, ()), None);
        // A connection with a reserved slot does not lose it to strangers.
        assert!(matches!(pending.admit(start + GRACE, origin(5), 0, ()), Some(Admitted::Evicting(_))));
        assert_eq!(from(&pending, 9), 8);
    }

    #[test]
    fn pending_table_is_bounded() {
        let (mut pending, start) = (pending(16, 4), Instant::now());
        for number in 0..10_000u32 {
            let last = (number % 250) as u8;
            let _ = pending.admit(start + GRACE * number, origin(last), usize::from(last == 0), ());
        }
        assert!(pending.entries.len() <= 16 + 6);
    }
}
