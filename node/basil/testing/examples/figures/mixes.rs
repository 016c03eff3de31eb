//! Mixes of transactions as sets of keys, with the paper's parameters (§6). Keys that nobody wrote cost no memory, so the key counts
//! of the paper are not scaled down.

use corniche_basil::shards::Key;
use corniche_basil_testing::{Random, key};
use corniche_types::{Address, Bytes};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The keys of one transaction.
#[derive(Default)]
pub struct Access {
    pub reads: BTreeSet<Key>,
    pub writes: BTreeSet<Key>,
}

impl Access {
    fn read(&mut self, key: Key) {
        self.reads.insert(key);
    }

    fn write(&mut self, key: Key) {
        self.writes.insert(key);
    }

    fn update(&mut self, key: Key) {
        self.reads.insert(key.clone());
        self.writes.insert(key);
    }
}

/// A source of transactions.
pub trait Mix {
    fn next(&mut self, random: &mut Random) -> Access;
}

/// Uniform in [0, 1).
fn fraction(random: &mut Random) -> f64 {
    random.below(1 << 40) as f64 / (1u64 << 40) as f64
}

fn between(random: &mut Random, low: u64, high: u64) -> u64 {
    low + random.below(high - low + 1)
}

/// Ranks with P(k) ~ k^-s, by rejection inversion (Hörmann and Derflinger), without a table. The exponent is not 1.
pub struct Zipf {
    count: f64,
    exponent: f64,
    first: f64,
    last: f64,
    threshold: f64,
}

impl Zipf {
    pub fn new(count: u64, exponent: f64) -> Self {
        let mut zipf = Self { count: count as f64, exponent, first: 0.0, last: 0.0, threshold: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(zipf.count + 0.5);
        zipf.threshold = 2.0 - zipf.inverse(zipf.integral(2.5) - 2f64.powf(-exponent));
        zipf
    }

    fn integral(&self, x: f64) -> f64 {
        x.powf(1.0 - self.exponent) / (1.0 - self.exponent)
    }

    fn inverse(&self, y: f64) -> f64 {
        ((1.0 - self.exponent) * y).powf(1.0 / (1.0 - self.exponent))
    }

    /// Rank from 0 on.
    fn sample(&self, random: &mut Random) -> u64 {
        loop {
            let y = self.last + fraction(random) * (self.first - self.last);
            let x = self.inverse(y);
            let rank = x.round().clamp(1.0, self.count);
            if rank - x <= self.threshold || y >= self.integral(rank + 0.5) - rank.powf(-self.exponent) {
                return rank as u64 - 1;
            }
        }
    }
}

enum Choice {
    Uniform(u64),
    Zipf(Zipf),
}

impl Choice {
    /// A key that is not among `others`.
    fn distinct(&self, random: &mut Random, others: &BTreeSet<Key>) -> Key {
        loop {
            let key = key(match self {
                Self::Uniform(count) => random.below(*count),
                Self::Zipf(zipf) => zipf.sample(random),
            });
            if !others.contains(&key) {
                return key;
            }
        }
    }
}

/// YCSB-T: every transaction reads and writes each of a few keys.
pub struct Ycsb {
    choice: Choice,
    updates: usize,
}

const YCSB_KEYS: u64 = 10_000_000;

impl Ycsb {
    pub fn uniform(updates: usize) -> Self {
        Self { choice: Choice::Uniform(YCSB_KEYS), updates }
    }

    pub fn zipf(updates: usize) -> Self {
        Self { choice: Choice::Zipf(Zipf::new(YCSB_KEYS, 0.9)), updates }
    }
}

impl Mix for Ycsb {
    fn next(&mut self, random: &mut Random) -> Access {
        let mut access = Access::default();
        for _ in 0..self.updates {
            access.update(self.choice.distinct(random, &access.reads));
        }
        access
    }
}

/// Smallbank: 1 M accounts, of which 1,000 get 90 % of the accesses. 60 % balance, 10 % of each of the others.
pub struct Smallbank;

impl Smallbank {
    fn account(random: &mut Random) -> u64 {
        if random.chance(90) { random.below(1_000) } else { between(random, 1_000, 999_999) }
    }

    fn row(account: u64, name: &'static str) -> Key {
        Key { item: Bytes::from_static(name.as_bytes()), ..key(account) }
    }
}

impl Mix for Smallbank {
    fn next(&mut self, random: &mut Random) -> Access {
        let account = Self::account(random);
        let [checking, savings] = ["checking", "savings"].map(|name| Self::row(account, name));
        let mut access = Access::default();
        match random.below(10) {
            // Deposit.
            0 => access.update(checking),
            // TransactSavings.
            1 => access.update(savings),
            // WriteCheck.
            2 => {
                access.read(savings);
                access.update(checking);
            }
            // Amalgamate.
            3 => {
                let other = loop {
                    let other = Self::account(random);
                    if other != account {
                        break other;
                    }
                };
                access.update(checking);
                access.update(savings);
                access.update(Self::row(other, "checking"));
            }
            // Balance.
            _ => {
                access.read(checking);
                access.read(savings);
            }
        }
        access
    }
}

/// Retwis: 5 % add user, 15 % follow, 30 % post, 50 % timeline, Zipf 0.75.
pub struct Retwis(Choice);

impl Retwis {
    pub fn new() -> Self {
        Self(Choice::Zipf(Zipf::new(YCSB_KEYS, 0.75)))
    }
}

impl Mix for Retwis {
    fn next(&mut self, random: &mut Random) -> Access {
        let (updates, writes, reads) = match random.below(100) {
            0..5 => (1, 2, 0),
            5..20 => (2, 0, 0),
            20..50 => (3, 2, 0),
            _ => (0, 0, between(random, 1, 10)),
        };
        let mut access = Access::default();
        let mut used = BTreeSet::new();
        for index in 0..updates + writes + reads {
            let key = self.0.distinct(random, &used);
            used.insert(key.clone());
            if index < updates {
                access.update(key);
            } else if index < updates + writes {
                access.write(key);
            } else {
                access.read(key);
            }
        }
        access
    }
}

const WAREHOUSES: u64 = 20;
const ITEMS: u64 = 100_000;
/// Orders that stock-level looks at. TPC-C has 20.
const RECENT_ORDERS: usize = 5;

/// The keys of TPC-C's transactions with 20 warehouses. A warehouse is an account, so all its rows are on one shard; each has its
/// own copy of the read-only item table.
#[derive(Default)]
pub struct Tpcc {
    orders: u64,
    /// The newest orders of each district, with their items.
    recent: BTreeMap<(u64, u64), VecDeque<Order>>,
}

#[derive(Clone)]
struct Order {
    number: u64,
    items: Vec<u64>,
}

fn row(warehouse: u64, table: &str, ids: &[u64]) -> Key {
    let ids: Vec<_> = ids.iter().map(u64::to_string).collect();
    Key {
        account: Address::left_padding_from(&warehouse.to_be_bytes()),
        item: format!("{table} {}", ids.join(" ")).into_bytes().into(),
    }
}

/// NURand of TPC-C, with C = 0.
fn skewed(random: &mut Random, mask: u64, count: u64) -> u64 {
    (random.below(mask + 1) | random.below(count)) % count
}

impl Tpcc {
    fn customer(random: &mut Random, access: &mut Access, warehouse: u64, district: u64) -> Key {
        let customer = skewed(random, 1_023, 3_000);
        // By last name, through an index.
        if random.chance(60) {
            access.read(row(warehouse, "names", &[district, customer % 1_000]));
        }
        row(warehouse, "customer", &[district, customer])
    }

    fn other_warehouse(random: &mut Random, home: u64) -> u64 {
        (home + 1 + random.below(WAREHOUSES - 1)) % WAREHOUSES
    }

    fn new_order(&mut self, random: &mut Random, warehouse: u64, district: u64) -> Access {
        let mut access = Access::default();
        self.orders += 1;
        let number = self.orders;
        access.read(row(warehouse, "warehouse", &[]));
        access.update(row(warehouse, "district", &[district]));
        access.read(row(warehouse, "customer", &[district, skewed(random, 1_023, 3_000)]));
        let items: Vec<_> = (0..between(random, 5, 15)).map(|_| skewed(random, 8_191, ITEMS)).collect();
        for (line, item) in (0..).zip(&items) {
            let supplier = if random.chance(1) { Self::other_warehouse(random, warehouse) } else { warehouse };
            access.read(row(warehouse, "item", &[*item]));
            access.update(row(supplier, "stock", &[*item]));
            access.write(row(warehouse, "line", &[number, line]));
        }
        access.write(row(warehouse, "order", &[number]));
        access.write(row(warehouse, "new-order", &[number]));
        let recent = self.recent.entry((warehouse, district)).or_default();
        recent.push_front(Order { number, items });
        recent.truncate(RECENT_ORDERS);
        access
    }

    fn payment(&mut self, random: &mut Random, warehouse: u64, district: u64) -> Access {
        let mut access = Access::default();
        self.orders += 1;
        access.update(row(warehouse, "warehouse", &[]));
        access.update(row(warehouse, "district", &[district]));
        let home = if random.chance(15) { Self::other_warehouse(random, warehouse) } else { warehouse };
        let customer = Self::customer(random, &mut access, home, district);
        access.update(customer);
        access.write(row(warehouse, "history", &[self.orders]));
        access
    }

    fn order_status(&mut self, random: &mut Random, warehouse: u64, district: u64) -> Access {
        let mut access = Access::default();
        let customer = Self::customer(random, &mut access, warehouse, district);
        access.read(customer);
        if let Some(order) = self.recent.get(&(warehouse, district)).and_then(|orders| orders.front()) {
            Self::read_lines(&mut access, warehouse, order);
            access.read(row(warehouse, "order", &[order.number]));
        }
        access
    }

    fn read_lines(access: &mut Access, warehouse: u64, order: &Order) {
        for line in 0..order.items.len() as u64 {
            access.read(row(warehouse, "line", &[order.number, line]));
        }
    }

    fn delivery(&mut self, random: &mut Random, warehouse: u64) -> Access {
        let mut access = Access::default();
        for district in 0..10 {
            access.update(row(warehouse, "delivered", &[district]));
            let Some(order) = self.recent.get(&(warehouse, district)).and_then(|orders| orders.back()) else { continue };
            access.update(row(warehouse, "order", &[order.number]));
            for line in 0..order.items.len() as u64 {
                access.update(row(warehouse, "line", &[order.number, line]));
            }
            access.update(row(warehouse, "customer", &[district, skewed(random, 1_023, 3_000)]));
        }
        access
    }

    fn stock_level(&self, warehouse: u64, district: u64) -> Access {
        let mut access = Access::default();
        access.read(row(warehouse, "district", &[district]));
        for order in self.recent.get(&(warehouse, district)).into_iter().flatten() {
            Self::read_lines(&mut access, warehouse, order);
            order.items.iter().for_each(|item| access.read(row(warehouse, "stock", &[*item])));
        }
        access
    }
}

impl Mix for Tpcc {
    /// 44 % new-order, 44 % payment, 4 % of each of the others.
    fn next(&mut self, random: &mut Random) -> Access {
        let (warehouse, district) = (random.below(WAREHOUSES), random.below(10));
        match random.below(100) {
            0..44 => self.new_order(random, warehouse, district),
            44..88 => self.payment(random, warehouse, district),
            88..92 => self.order_status(random, warehouse, district),
            92..96 => self.delivery(random, warehouse),
            _ => self.stock_level(warehouse, district),
        }
    }
}
