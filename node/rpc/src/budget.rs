//! Budgets that all clients share: bytes of request bodies and responses, WebSockets, filters, waiting
//! requests. One address may use at most a quarter of each, so that it cannot starve the others.

use corniche_api::{Reason, RpcError};
use corniche_origin::{Origin, Site};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// One address may use 1/`SHARES` of a budget.
const SHARES: usize = 4;

/// Number of units that can be reserved and given back. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    limit_per_client: usize,
    /// True if loopback clients may use the whole budget. Keep it false behind a proxy on the same machine:
    /// there all clients come from loopback.
    spare_loopback: bool,
    /// Errors for a budget that is used up, and for a used-up share of one client.
    exhausted_error: RpcError,
    share_error: RpcError,
    usage: Mutex<Usage>,
    released: Notify,
}

/// Clients without a reservation have no entry, so there are at most as many entries as units.
#[derive(Debug, Default)]
struct Usage {
    total: usize,
    by_client: BTreeMap<Site, usize>,
}

/// Reserved units; dropping it gives them back.
#[derive(Debug, Default)]
pub(crate) struct Reservation(Option<ReservedUnits>);

#[derive(Debug)]
struct ReservedUnits {
    budget: Budget,
    site: Site,
    units: usize,
}

/// Resource that a budget limits.
pub(crate) struct Resource {
    /// Reason of its refusals.
    pub reason: Reason,
    /// Name of the unit, in the plural.
    pub units: &'static str,
    /// Largest single reservation; allowed even above the client's share.
    pub largest: usize,
}

impl Resource {
    /// Resource of which each request takes one unit.
    pub const fn slots(reason: Reason, units: &'static str) -> Self {
        Self { reason, units, largest: 1 }
    }
}

impl Budget {
    pub fn new(resource: Resource, limit: usize, spare_loopback: bool) -> Self {
        let Resource { reason, units, largest } = resource;
        let limit_per_client = limit.div_ceil(SHARES).max(largest).min(limit);
        let exhausted_error = if reason == Reason::ServerBusy { reason.error() } else { reason.with(limit) };
        let share_error = reason.with(format!("{limit_per_client} {units} for one address"));
        let (usage, released) = (Mutex::default(), Notify::new());
        Self(Arc::new(Shared { limit, limit_per_client, spare_loopback, exhausted_error, share_error, usage, released }))
    }

    /// Reserves units.
    ///
    /// # Errors
    ///
    /// Too few units are left, in all or of this client's share.
    pub fn reserve(&self, origin: Origin, units: usize) -> Result<Reservation, RpcError> {
        let Shared { limit, limit_per_client, spare_loopback, .. } = *self.0;
        let limit_per_client = if spare_loopback && origin.is_loopback() { limit } else { limit_per_client };
        let site = origin.site();
        let mut usage = self.lock();
        let own = usage.by_client.get(&site).copied().unwrap_or_default();
        if units > limit_per_client.saturating_sub(own) && units <= limit.saturating_sub(usage.total) {
            return Err(self.0.share_error.clone());
        }
        if units > limit.saturating_sub(usage.total) {
            return Err(self.0.exhausted_error.clone());
        }
        if units == 0 {
            return Ok(Reservation(None));
        }
        usage.total += units;
        usage.by_client.insert(site, own + units);
        Ok(Reservation(Some(ReservedUnits { budget: self.clone(), site, units })))
    }

    /// Waits until the units can be reserved. Waits forever if the client may never have that many.
    pub async fn reserve_when_free(&self, origin: Origin, units: usize) -> Reservation {
        loop {
            // Registers before it checks, so that it misses no return in between.
            let released = self.0.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            if let Ok(reservation) = self.reserve(origin, units) {
                return reservation;
            }
            released.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Usage> {
        // Every critical section leaves the counters consistent.
        self.0.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    pub fn units(&self) -> usize {
        self.0.as_ref().map_or(0, |reserved| reserved.units)
    }

    /// Merges two reservations of one budget and one client.
    pub fn join(&mut self, mut other: Self) {
        match (&mut self.0, other.0.take()) {
            (Some(mine), Some(mut more)) => {
                debug_assert!(Arc::ptr_eq(&mine.budget.0, &more.budget.0) && mine.site == more.site);
                mine.units += std::mem::take(&mut more.units);
            }
            (mine @ None, more) => *mine = more,
            (Some(_), None) => {}
        }
    }
}

/// Bytes of a body as they arrive. Memory is reserved as they arrive, so a client that announces much and
/// sends nothing reserves nothing.
#[derive(Debug, Default)]
pub(crate) struct BodyBuffer {
    pub bytes: Vec<u8>,
    reservation: Reservation,
}

impl BodyBuffer {
    /// Bytes that fit into the current reservation.
    pub fn free(&self) -> usize {
        self.reservation.units().saturating_sub(self.bytes.len())
    }

    /// Makes room for `more` bytes. If the reservation has to grow, it doubles, up to `limit` bytes in all.
    pub fn grow(&mut self, more: usize, limit: usize, budget: &Budget, origin: Origin) -> Result<(), RpcError> {
        if more <= self.free() {
            return Ok(());
        }
        let needed = self.bytes.len() + more;
        let all = (2 * self.reservation.units()).min(limit).max(needed);
        self.reservation.join(budget.reserve(origin, all - self.reservation.units())?);
        self.bytes.reserve_exact(all - self.bytes.len());
        Ok(())
    }
}

impl Drop for ReservedUnits {
    fn drop(&mut self) {
        if self.units == 0 {
            return;
        }
        let mut usage = self.budget.lock();
        usage.total -= self.units;
        if let Some(own) = usage.by_client.get_mut(&self.site) {
            *own -= self.units;
            if *own == 0 {
                usage.by_client.remove(&self.site);
            }
        }
        drop(usage);
        self.budget.0.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        Origin::of(text.parse().expect("an address"))
    }

    fn budget(limit: usize, spare_loopback: bool) -> Budget {
        Budget::new(Resource::slots(Reason::ServerBusy, "things"), limit, spare_loopback)
    }

    #[test]
    fn dropped_reservation_is_released() {
        let budget = budget(10, true);
        let client = origin("127.0.0.1");
        let mut first = budget.reserve(client, 4).unwrap();
        first.join(budget.reserve(client, 6).unwrap());
        assert_eq!(first.units(), 10);
        assert_eq!(budget.reserve(client, 1).unwrap_err().message, "server busy");
        drop(first);
        assert!(budget.reserve(client, 10).is_ok());
        assert!(budget.lock().by_client.is_empty(), "who has nothing is forgotten");
    }

    #[test]
    fn address_is_limited_to_quarter() {
        let budget = budget(16, false);
        let heavy_client = origin("192.0.2.1");
        let reservation: Vec<_> = (0..4).map(|_| budget.reserve(heavy_client, 1).unwrap()).collect();
        assert_eq!(budget.reserve(heavy_client, 1).unwrap_err().message, "server busy: 4 things for one address");
        assert!(budget.reserve(origin("127.0.0.1"), 5).is_err(), "this machine is one address too, unless it is spared");
        // IPv6 clients count by network prefix: the 65,536 networks of one client share one limit.
        let ipv6: Vec<_> = (0..9).map(|number| budget.reserve(origin(&format!("2001:db8:0:{number}::1")), 1)).collect();
        assert_eq!(ipv6.iter().filter(|reservation| reservation.is_ok()).count(), 4);
        let other = budget.reserve(origin("192.0.2.2"), 4).unwrap();
        let last = budget.reserve(origin("192.0.2.3"), 4).unwrap();
        assert_eq!(budget.reserve(origin("192.0.2.4"), 1).unwrap_err().message, "server busy");
        drop((reservation, ipv6, other, last));
        assert!(budget.lock().by_client.is_empty() && budget.lock().total == 0);
    }

    #[test]
    fn largest_request_fits_client_share() {
        let resource = Resource { reason: Reason::TooManyFilters, units: "bytes", largest: 8 };
        let budget = Budget::new(resource, 16, false);
        let reservation = budget.reserve(origin("192.0.2.1"), 8);
        assert!(reservation.is_ok() && budget.reserve(origin("192.0.2.1"), 1).is_err());
    }

    #[test]
    fn memory_is_reserved_as_bytes_arrive() {
        let budget = budget(16, false);
        let client = origin("192.0.2.1");
        let mut buffer = BodyBuffer::default();
        buffer.grow(1, 4, &budget, client).unwrap();
        buffer.bytes.push(1);
        assert_eq!(buffer.free(), 0);
        buffer.grow(1, 4, &budget, client).unwrap();
        buffer.bytes.push(2);
        buffer.grow(1, 4, &budget, client).unwrap();
        assert_eq!((buffer.free(), budget.lock().total), (2, 4), "twice as much as before");
        buffer.bytes.extend([3, 4]);
        assert!(buffer.grow(1, 5, &budget, client).is_err(), "an address has a quarter");
        assert_eq!(buffer.bytes, [1, 2, 3, 4]);
        drop(buffer);
        assert_eq!(budget.lock().total, 0);
    }

    #[tokio::test]
    async fn waiting_reservation_gets_released_units() {
        let budget = budget(4, true);
        let client = origin("127.0.0.1");
        let reservation = budget.reserve(client, 3).unwrap();
        let mut waiting = Box::pin(budget.reserve_when_free(client, 4));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(reservation);
        assert_eq!(waiting.await.units(), 4);
    }
}
