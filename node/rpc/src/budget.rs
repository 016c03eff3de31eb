//! Budgets that all clients share: bytes of request bodies and responses, WebSockets, filters, waiting
//! requests. One address may use at most a quarter of each, so that it cannot starve the others.

use corniche_api::{Reason, RpcError};
use corniche_origin::{Origin, Site};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// One address may use 1/`PARTS` of a budget.
const PARTS: usize = 4;

/// Number of units that can be reserved and given back. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    most_of_one: usize,
    /// True if loopback clients may use the whole budget. Keep it false behind a proxy on the same machine:
    /// there all clients come from loopback.
    spare_loopback: bool,
    /// Errors for a budget that is used up, and for a used-up share of one client.
    none_left: RpcError,
    share_used: RpcError,
    lent: Mutex<Lent>,
    given_back: Notify,
}

/// Clients without a reservation have no entry, so there are at most as many entries as units.
#[derive(Debug, Default)]
struct Lent {
    all: usize,
    of: BTreeMap<Site, usize>,
}

/// Reserved units; dropping it gives them back.
#[derive(Debug, Default)]
pub(crate) struct Loan(Option<Lease>);

#[derive(Debug)]
struct Lease {
    budget: Budget,
    site: Site,
    units: usize,
}

/// Resource that a budget limits.
pub(crate) struct Kind {
    /// Reason of its refusals.
    pub reason: Reason,
    /// Name of the unit, in the plural.
    pub units: &'static str,
    /// Largest single reservation; allowed even above the client's share.
    pub largest: usize,
}

impl Kind {
    /// Resource of which each request takes one unit.
    pub const fn places(reason: Reason, units: &'static str) -> Self {
        Self { reason, units, largest: 1 }
    }
}

impl Budget {
    pub fn new(kind: Kind, most: usize, spare_loopback: bool) -> Self {
        let Kind { reason, units, largest } = kind;
        let most_of_one = most.div_ceil(PARTS).max(largest).min(most);
        let none_left = if reason == Reason::ServerBusy { reason.error() } else { reason.with(most) };
        let share_used = reason.with(format!("{most_of_one} {units} for one address"));
        let (lent, given_back) = (Mutex::default(), Notify::new());
        Self(Arc::new(Shared { most, most_of_one, spare_loopback, none_left, share_used, lent, given_back }))
    }

    /// Reserves units.
    ///
    /// # Errors
    ///
    /// Too few units are left, in all or of this client's share.
    pub fn lend(&self, origin: Origin, units: usize) -> Result<Loan, RpcError> {
        let Shared { most, most_of_one, spare_loopback, .. } = *self.0;
        let most_of_one = if spare_loopback && origin.is_loopback() { most } else { most_of_one };
        let site = origin.site();
        let mut lent = self.lock();
        let own = lent.of.get(&site).copied().unwrap_or_default();
        if units > most_of_one.saturating_sub(own) && units <= most.saturating_sub(lent.all) {
            return Err(self.0.share_used.clone());
        }
        if units > most.saturating_sub(lent.all) {
            return Err(self.0.none_left.clone());
        }
        if units == 0 {
            return Ok(Loan(None));
        }
        lent.all += units;
        lent.of.insert(site, own + units);
        Ok(Loan(Some(Lease { budget: self.clone(), site, units })))
    }

    /// Waits until the units can be reserved. Waits forever if the client may never have that many.
    pub async fn lend_soon(&self, origin: Origin, units: usize) -> Loan {
        loop {
            // Registers before it checks, so that it misses no return in between.
            let given_back = self.0.given_back.notified();
            tokio::pin!(given_back);
            given_back.as_mut().enable();
            if let Ok(loan) = self.lend(origin, units) {
                return loan;
            }
            given_back.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lent> {
        // Every critical section leaves the counters consistent.
        self.0.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loan {
    pub fn units(&self) -> usize {
        self.0.as_ref().map_or(0, |lease| lease.units)
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
pub(crate) struct Gathered {
    pub bytes: Vec<u8>,
    held: Loan,
}

impl Gathered {
    /// Bytes that fit into the current reservation.
    pub fn room(&self) -> usize {
        self.held.units().saturating_sub(self.bytes.len())
    }

    /// Makes room for `more` bytes. If the reservation has to grow, it doubles, up to `most` bytes in all.
    pub fn make_room(&mut self, more: usize, most: usize, budget: &Budget, origin: Origin) -> Result<(), RpcError> {
        if more <= self.room() {
            return Ok(());
        }
        let wanted = self.bytes.len() + more;
        let all = (2 * self.held.units()).min(most).max(wanted);
        self.held.join(budget.lend(origin, all - self.held.units())?);
        self.bytes.reserve_exact(all - self.bytes.len());
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.units == 0 {
            return;
        }
        let mut lent = self.budget.lock();
        lent.all -= self.units;
        if let Some(own) = lent.of.get_mut(&self.site) {
            *own -= self.units;
            if *own == 0 {
                lent.of.remove(&self.site);
            }
        }
        drop(lent);
        self.budget.0.given_back.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        Origin::of(text.parse().expect("an address"))
    }

    fn budget(most: usize, spare_loopback: bool) -> Budget {
        Budget::new(Kind::places(Reason::ServerBusy, "things"), most, spare_loopback)
    }

    #[test]
    fn what_is_lent_comes_back() {
        let budget = budget(10, true);
        let here = origin("127.0.0.1");
        let mut first = budget.lend(here, 4).unwrap();
        first.join(budget.lend(here, 6).unwrap());
        assert_eq!(first.units(), 10);
        assert_eq!(budget.lend(here, 1).unwrap_err().message, "server busy");
        drop(first);
        assert!(budget.lend(here, 10).is_ok());
        assert!(budget.lock().of.is_empty(), "who has nothing is forgotten");
    }

    #[test]
    fn one_address_has_a_quarter_and_leaves_the_rest_to_others() {
        let budget = budget(16, false);
        let greedy = origin("192.0.2.1");
        let held: Vec<_> = (0..4).map(|_| budget.lend(greedy, 1).unwrap()).collect();
        assert_eq!(budget.lend(greedy, 1).unwrap_err().message, "server busy: 4 things for one address");
        assert!(budget.lend(origin("127.0.0.1"), 5).is_err(), "this machine is one address too, unless it is spared");
        // IPv6 clients count by network prefix: the 65,536 networks of one client share one limit.
        let six: Vec<_> = (0..9).map(|number| budget.lend(origin(&format!("2001:db8:0:{number}::1")), 1)).collect();
        assert_eq!(six.iter().filter(|loan| loan.is_ok()).count(), 4);
        let other = budget.lend(origin("192.0.2.2"), 4).unwrap();
        let last = budget.lend(origin("192.0.2.3"), 4).unwrap();
        assert_eq!(budget.lend(origin("192.0.2.4"), 1).unwrap_err().message, "server busy");
        drop((held, six, other, last));
        assert!(budget.lock().of.is_empty() && budget.lock().all == 0);
    }

    #[test]
    fn what_one_request_may_need_is_there_for_one_address() {
        let kind = Kind { reason: Reason::TooManyFilters, units: "bytes", largest: 8 };
        let budget = Budget::new(kind, 16, false);
        let held = budget.lend(origin("192.0.2.1"), 8);
        assert!(held.is_ok() && budget.lend(origin("192.0.2.1"), 1).is_err());
    }

    #[test]
    fn memory_is_lent_as_bytes_arrive() {
        let budget = budget(16, false);
        let here = origin("192.0.2.1");
        let mut gathered = Gathered::default();
        gathered.make_room(1, 4, &budget, here).unwrap();
        gathered.bytes.push(1);
        assert_eq!(gathered.room(), 0);
        gathered.make_room(1, 4, &budget, here).unwrap();
        gathered.bytes.push(2);
        gathered.make_room(1, 4, &budget, here).unwrap();
        assert_eq!((gathered.room(), budget.lock().all), (2, 4), "twice as much as before");
        gathered.bytes.extend([3, 4]);
        assert!(gathered.make_room(1, 5, &budget, here).is_err(), "an address has a quarter");
        assert_eq!(gathered.bytes, [1, 2, 3, 4]);
        drop(gathered);
        assert_eq!(budget.lock().all, 0);
    }

    #[tokio::test]
    async fn who_can_wait_gets_what_is_given_back() {
        let budget = budget(4, true);
        let here = origin("127.0.0.1");
        let held = budget.lend(here, 3).unwrap();
        let mut waiting = Box::pin(budget.lend_soon(here, 4));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(held);
        assert_eq!(waiting.await.units(), 4);
    }
}
