//! Who asks too much waits: a bucket of tokens for each address, in bounded memory. And places, which are taken and given back: so many in all,
//! and so many for one address.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// Addresses remembered at once; above that those with a full bucket are forgotten.
const MOST_ADDRESSES: usize = 50_000;

/// How fast somebody may ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Requests that may come at once.
    pub burst: f64,
    /// Requests a second after that.
    pub per_second: f64,
}

impl Default for Rate {
    fn default() -> Self {
        Self { burst: 200.0, per_second: 40.0 }
    }
}

/// Buckets by address.
#[derive(Debug)]
pub struct Limits {
    rate: Rate,
    buckets: Mutex<HashMap<IpAddr, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Limits {
    /// Full buckets for everybody.
    pub fn new(rate: Rate) -> Self {
        Self { rate, buckets: Mutex::default() }
    }

    /// Whether this address may ask now; it has then.
    pub fn take(&self, address: IpAddr, now: Instant) -> bool {
        let address = group(address);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST_ADDRESSES && !buckets.contains_key(&address) {
            buckets.retain(|_, bucket| self.filled(bucket, now) < self.rate.burst);
            if buckets.len() >= MOST_ADDRESSES {
                return false;
            }
        }
        let bucket = buckets.entry(address).or_insert(Bucket { tokens: self.rate.burst, at: now });
        *bucket = Bucket { tokens: self.filled(bucket, now), at: now };
        let may = bucket.tokens >= 1.0;
        bucket.tokens -= f64::from(u8::from(may));
        may
    }

    fn filled(&self, bucket: &Bucket, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.tokens + seconds * self.rate.per_second).min(self.rate.burst)
    }
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// All are taken.
    All,
    /// This address has as many as one may have.
    Own,
}

/// Places of one kind.
#[derive(Debug)]
pub struct Places {
    most: usize,
    most_of_address: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: BTreeMap<IpAddr, usize>,
}

impl Places {
    /// So many in all, and so many for one address.
    pub fn new(most: usize, most_of_address: usize) -> Arc<Self> {
        Arc::new(Self { most, most_of_address, taken: Mutex::default() })
    }

    /// One of them, for as long as what is given back lives. `None`: of somebody who may have all.
    pub fn enter(self: &Arc<Self>, address: Option<IpAddr>) -> Result<Place, Full> {
        let address = address.map(group);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.all >= self.most {
            return Err(Full::All);
        }
        if let Some(address) = address {
            let own = taken.by_address.entry(address).or_default();
            if *own >= self.most_of_address {
                return Err(Full::Own);
            }
            *own += 1;
        }
        taken.all += 1;
        Ok(Place { places: Arc::clone(self), address })
    }
}

/// Is given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    address: Option<IpAddr>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= 1;
        let Some(address) = self.address else { return };
        if let Some(own) = taken.by_address.get_mut(&address) {
            *own -= 1;
            if *own == 0 {
                taken.by_address.remove(&address);
            }
        }
    }
}

/// One household of IPv6 has 2^64 addresses.
fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            std::net::Ipv6Addr::from([a, b, c, d, 0, 0, 0, 0]).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_bucket_empties_and_fills() {
        let limits = Limits::new(Rate { burst: 2.0, per_second: 1.0 });
        let (now, me) = (Instant::now(), IpAddr::from([10, 0, 0, 1]));
        assert_eq!([limits.take(me, now), limits.take(me, now), limits.take(me, now)], [true, true, false]);
        assert!(limits.take(IpAddr::from([10, 0, 0, 2]), now), "somebody else's bucket is their own");
        assert!(limits.take(me, now + Duration::from_secs(1)));
        assert!(!limits.take(me, now + Duration::from_secs(1)));
    }

    #[test]
    fn addresses_of_one_household_share_a_bucket() {
        let limits = Limits::new(Rate { burst: 1.0, per_second: 0.0 });
        let now = Instant::now();
        let [first, second, other] = ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"].map(|text| text.parse().unwrap());
        assert_eq!([limits.take(first, now), limits.take(second, now), limits.take(other, now)], [true, false, true]);
    }

    #[test]
    fn an_address_has_a_few_places_and_all_together_not_without_end() {
        let places = Places::new(20, 8);
        let enter = |last| places.enter(Some(IpAddr::from([10, 0, 0, last])));
        let mut taken: Vec<Place> = (0..8).map(|_| enter(0).unwrap()).collect();
        assert_eq!(enter(0).err(), Some(Full::Own));
        drop(taken.pop());
        taken.push(enter(0).unwrap());
        taken.extend((1..12).map(|last| enter(last).unwrap()));
        taken.push(places.enter(None).unwrap());
        assert_eq!(enter(12).err(), Some(Full::All));
        assert_eq!(places.enter(None).err(), Some(Full::All));
        drop(taken);
        let taken = places.taken.lock().unwrap();
        assert!(taken.all == 0 && taken.by_address.is_empty(), "who left is forgotten");
    }
}
