//! TPC-C's new-order and payment in equal parts, over 20 warehouses; Basil's evaluation has 44 % of each.
//!
//! Differences, all outside the logic of these two: order status, delivery and stock level are omitted (12 %
//! of that mix). There are fewer customers and items by default (`--tpcc-customers`, `--tpcc-items`), and the
//! constants of the non-uniform draw are scaled accordingly. Customers are identified by number, never by
//! last name. The payment history is a log. Texts and dates are omitted. Unchanged: 5 to 15 lines, 1 % of
//! them from another warehouse; 1 % of the orders with an item that does not exist (they revert); 15 % of the
//! payments by a customer of another warehouse. A row is one slot.

use super::{Generator, Sizes, call};
use crate::{
    chain::Chain,
    random::Random,
    solidity::{self, Value, slot_of},
};
use anyhow::ensure;
use corniche_types::{B256, Bytes, U256};

const DISTRICTS: u64 = 10;
/// Slots of the tables.
const WAREHOUSE: u64 = 0;
const DISTRICT: u64 = 1;
const CUSTOMER: u64 = 2;
const PRICE: u64 = 3;
const STOCK: u64 = 4;
/// Number of initial orders per district.
const ORDERS: u64 = 3_000;

pub fn mix(chain: &mut Chain<'_>, sizes: &Sizes) -> anyhow::Result<Generator> {
    let tables = Tables { warehouses: sizes.tpcc_warehouses, items: sizes.tpcc_items, customers: sizes.tpcc_customers };
    ensure!(
        tables.warehouses > 0 && tables.items > 0 && tables.customers > 0,
        "--tpcc-warehouses, --tpcc-items and --tpcc-customers are at least 1"
    );
    let contract = chain.deploy("bench_tpcc", None)?;
    chain.fill(contract, tables.rows(&mut Random::new(0, "tpcc rows")));
    Ok(Box::new(move |random, sender| {
        let input = if random.percent(50) { tables.new_order(random) } else { tables.payment(random) };
        call(sender, contract, input)
    }))
}

/// Numbers start at 1, as in the benchmark.
struct Tables {
    warehouses: u64,
    items: u64,
    customers: u64,
}

impl Tables {
    /// Initial rows, packed as in the contract: first field in the lowest bits.
    fn rows(&self, random: &mut Random) -> Vec<(B256, U256)> {
        let mut rows = Vec::new();
        for warehouse in 1..=self.warehouses {
            let tax = |random: &mut Random| random.between(0, 2_000);
            rows.push((slot_of(WAREHOUSE, U256::from(warehouse)), packed(&[(tax(random), 32)])));
            for district in 1..=DISTRICTS {
                let home = pair(U256::from(warehouse), district);
                rows.push((slot_of(DISTRICT, home), packed(&[(tax(random), 32), (ORDERS + 1, 32)])));
                for customer in 1..=self.customers {
                    // One payment of 10.00 and no debt: the balance stays zero.
                    let row = packed(&[(random.between(0, 5_000), 32), (1, 32), (1_000, 64)]);
                    rows.push((slot_of(CUSTOMER, pair(home, customer)), row));
                }
            }
            for item in 1..=self.items {
                let row = packed(&[(random.between(10, 100), 32)]);
                rows.push((slot_of(STOCK, pair(U256::from(warehouse), item)), row));
            }
        }
        for item in 1..=self.items {
            rows.push((slot_of(PRICE, U256::from(item)), U256::from(random.between(100, 10_000))));
        }
        rows
    }

    fn new_order(&self, random: &mut Random) -> Bytes {
        let warehouse = random.between(1, self.warehouses);
        let district = random.between(1, DISTRICTS);
        let customer = self.customer(random);
        let lines = random.between(5, 15);
        let mut items: Vec<Value> = (0..lines).map(|_| self.item(random).into()).collect();
        if let (true, Some(last)) = (random.percent(1), items.last_mut()) {
            *last = 0u64.into();
        }
        let supplier = |random: &mut Random| if random.percent(1) { self.another(warehouse, random) } else { warehouse };
        let suppliers: Vec<Value> = (0..lines).map(|_| supplier(random).into()).collect();
        let quantities: Vec<Value> = (0..lines).map(|_| random.between(1, 10).into()).collect();
        solidity::call(
            "newOrder(uint32,uint32,uint32,uint32[],uint32[],uint32[])",
            &[warehouse.into(), district.into(), customer.into(), items.into(), suppliers.into(), quantities.into()],
        )
    }

    fn payment(&self, random: &mut Random) -> Bytes {
        let (warehouse, district) = (random.between(1, self.warehouses), random.between(1, DISTRICTS));
        let (home, home_district) = match random.percent(15) {
            true => (self.another(warehouse, random), random.between(1, DISTRICTS)),
            false => (warehouse, district),
        };
        let words = [warehouse, district, home, home_district, self.customer(random), random.between(100, 500_000)];
        solidity::call("payment(uint32,uint32,uint32,uint32,uint32,uint64)", &words.map(Into::into))
    }

    fn customer(&self, random: &mut Random) -> u64 {
        non_uniform(random, CUSTOMER_SPREAD, self.customers)
    }

    fn item(&self, random: &mut Random) -> u64 {
        non_uniform(random, ITEM_SPREAD, self.items)
    }

    /// Another warehouse, if there is one.
    fn another(&self, warehouse: u64, random: &mut Random) -> u64 {
        match self.warehouses {
            1 => warehouse,
            count => (warehouse - 1 + random.between(1, count - 1)) % count + 1,
        }
    }
}

/// TPC-C's constants of [`non_uniform`], with the number of rows that they are for.
const CUSTOMER_SPREAD: (u64, u64) = (1_023, 3_000);
const ITEM_SPREAD: (u64, u64) = (8_191, 100_000);

/// TPC-C, 2.1.6: number between 1 and `count`. The benchmark's constant `full` for a table of `of` rows is
/// scaled to `count`.
fn non_uniform(random: &mut Random, (full, of): (u64, u64), count: u64) -> u64 {
    const C: u64 = 123;
    let spread = scaled(full, of, count);
    ((random.between(0, spread) | random.between(1, count)) + C) % count + 1
}

/// Constant for `count` rows: a power of two minus one, like `full`.
fn scaled(full: u64, of: u64, count: u64) -> u64 {
    (count * full / of + 1).next_power_of_two() - 1
}

fn pair(high: U256, low: u64) -> U256 {
    (high << 32) | U256::from(low)
}

/// Packs the fields of a row, given with their widths in bits, the first in the lowest bits.
fn packed(fields: &[(u64, usize)]) -> U256 {
    let mut shift = 0;
    fields.iter().fold(U256::ZERO, |word, (value, bits)| {
        let field = U256::from(*value) << shift;
        shift += bits;
        word | field
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_within_the_tables() {
        let tables = Tables { warehouses: 3, items: 10, customers: 7 };
        let mut random = Random::new(1, "tpcc");
        let mut seen = [0u32; 4];
        for _ in 0..1_000 {
            assert!((1..=7).contains(&tables.customer(&mut random)));
            assert!((1..=10).contains(&tables.item(&mut random)));
            let another = tables.another(2, &mut random);
            seen[another as usize] += 1;
        }
        assert!(seen[0] == 0 && seen[2] == 0 && seen[1] > 0 && seen[3] > 0, "{seen:?}");
        assert_eq!(Tables { warehouses: 1, ..tables }.another(1, &mut random), 1);
    }

    #[test]
    fn full_size_uses_tpcc_constants() {
        assert_eq!(scaled(CUSTOMER_SPREAD.0, CUSTOMER_SPREAD.1, 3_000), 1_023);
        assert_eq!(scaled(ITEM_SPREAD.0, ITEM_SPREAD.1, 100_000), 8_191);
    }

    #[test]
    fn rows_are_packed_lowest_first() {
        assert_eq!(packed(&[(5, 32), (7, 32), (1, 64)]), U256::from(5u128 | 7 << 32 | 1 << 64));
        let tables = Tables { warehouses: 2, items: 3, customers: 4 };
        assert_eq!(tables.rows(&mut Random::new(0, "rows")).len(), 2 + 2 * 10 + 2 * 10 * 4 + 2 * 3 + 3);
    }
}
