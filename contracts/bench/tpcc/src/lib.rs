//! TPC-C's new-order and payment. A row is one slot, so two transactions conflict as in a database with row locks: on the
//! district that numbers its orders, on the warehouse that every payment adds to, on popular stock.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::vec::Vec;
use alloy_primitives::{aliases::I128, U128, U256, U32, U64, U8};
use alloy_sol_types::sol;
use stylus_sdk::prelude::*;

sol! {
    event Paid(uint32 indexed warehouse, uint32 district, uint64 customer_district, uint32 customer, uint128 amount);

    error NoSuchItem(uint32 item);
    error LinesDiffer();
    error Overflow();
}

sol_storage! {
    #[entrypoint]
    pub struct Warehouses {
        mapping(uint256 => Warehouse) warehouses;
        /// By warehouse << 32 | district.
        mapping(uint256 => District) districts;
        /// By key of the district << 32 | customer.
        mapping(uint256 => Customer) customers;
        /// In cents. Zero means that there is no such item.
        mapping(uint256 => uint256) prices;
        /// By warehouse << 32 | item.
        mapping(uint256 => Stock) stock;
        /// By key of the district << 32 | number of the order.
        mapping(uint256 => Order) orders;
        /// By key of the order << 32 | number of the line.
        mapping(uint256 => Line) lines;
    }

    /// Taxes and discounts are in parts of 10,000, amounts in cents.
    pub struct Warehouse {
        uint32 tax;
        uint128 paid;
    }

    pub struct District {
        uint32 tax;
        uint32 next_order;
        uint128 paid;
    }

    pub struct Customer {
        uint32 discount;
        uint32 payments;
        uint64 paid;
        int128 balance;
    }

    pub struct Stock {
        uint32 quantity;
        uint32 orders;
        uint32 remote_orders;
        uint64 sold;
    }

    pub struct Order {
        uint32 customer;
        uint8 lines;
        uint64 entered;
        uint128 total;
    }

    pub struct Line {
        uint32 item;
        uint32 warehouse;
        uint32 quantity;
        uint128 amount;
    }
}

#[derive(SolidityError)]
pub enum OrderError {
    NoSuchItem(NoSuchItem),
    LinesDiffer(LinesDiffer),
    Overflow(Overflow),
}

#[public]
impl Warehouses {
    /// Orders `quantities[i]` of `items[i]` from the stock of `suppliers[i]`. Returns the total with taxes and discount. A
    /// nonexistent item reverts the order; the benchmark requires this for one order in a hundred.
    pub fn new_order(
        &mut self,
        warehouse: u32,
        district: u32,
        customer: u32,
        items: Vec<u32>,
        suppliers: Vec<u32>,
        quantities: Vec<u32>,
    ) -> Result<u128, OrderError> {
        if items.len() != suppliers.len() || items.len() != quantities.len() {
            return Err(OrderError::LinesDiffer(LinesDiffer {}));
        }
        let district_key = pair(U256::from(warehouse), district);
        let warehouse_tax = self.warehouses.getter(U256::from(warehouse)).tax.get().to::<u32>();
        let discount = self.customers.getter(pair(district_key, customer)).discount.get().to::<u32>();
        let mut row = self.districts.setter(district_key);
        let district_tax = row.tax.get().to::<u32>();
        let number = row.next_order.get().to::<u32>();
        row.next_order.set(U32::from(number.wrapping_add(1)));

        let order_key = pair(district_key, number);
        let mut sum = 0u128;
        for (line, ((item, supplier), quantity)) in items.iter().zip(&suppliers).zip(&quantities).enumerate() {
            let amount = self.sell(warehouse, *item, *supplier, *quantity)?;
            sum = sum.checked_add(amount).ok_or(OrderError::Overflow(Overflow {}))?;
            let mut row = self.lines.setter(pair(order_key, line as u32));
            row.item.set(U32::from(*item));
            row.warehouse.set(U32::from(*supplier));
            row.quantity.set(U32::from(*quantity));
            row.amount.set(U128::from(amount));
        }
        let total = total(sum, discount, warehouse_tax, district_tax).ok_or(OrderError::Overflow(Overflow {}))?;
        let entered = self.vm().block_timestamp();
        let mut row = self.orders.setter(order_key);
        row.customer.set(U32::from(customer));
        row.lines.set(U8::from(items.len() as u8));
        row.entered.set(U64::from(entered));
        row.total.set(U128::from(total));
        Ok(total)
    }

    /// A customer, who may belong to another district, pays at this one.
    pub fn payment(
        &mut self,
        warehouse: u32,
        district: u32,
        customer_warehouse: u32,
        customer_district: u32,
        customer: u32,
        amount: u64,
    ) -> Result<(), OrderError> {
        let mut row = self.warehouses.setter(U256::from(warehouse));
        let paid = row.paid.get().wrapping_add(U128::from(amount));
        row.paid.set(paid);

        let mut row = self.districts.setter(pair(U256::from(warehouse), district));
        let paid = row.paid.get().wrapping_add(U128::from(amount));
        row.paid.set(paid);

        let home = pair(U256::from(customer_warehouse), customer_district);
        let mut row = self.customers.setter(pair(home, customer));
        let debt = I128::try_from(amount).map_err(|_| OrderError::Overflow(Overflow {}))?;
        let balance = row.balance.get().checked_sub(debt).ok_or(OrderError::Overflow(Overflow {}))?;
        row.balance.set(balance);
        let paid = row.paid.get().wrapping_add(U64::from(amount));
        row.paid.set(paid);
        let payments = row.payments.get().wrapping_add(U32::from(1));
        row.payments.set(payments);

        // The history table is write-only.
        let customer_district = home.to::<u64>();
        self.vm().log(Paid { warehouse, district, customer_district, customer, amount: amount.into() });
        Ok(())
    }

    /// Number of the next order, and the sum of payments in the district.
    pub fn district(&self, warehouse: u32, district: u32) -> (u32, u128) {
        let row = self.districts.getter(pair(U256::from(warehouse), district));
        (row.next_order.get().to(), row.paid.get().to())
    }

    /// Quantity in stock, and number sold.
    pub fn in_stock(&self, warehouse: u32, item: u32) -> (u32, u64) {
        let row = self.stock.getter(pair(U256::from(warehouse), item));
        (row.quantity.get().to(), row.sold.get().to())
    }
}

impl Warehouses {
    /// Removes from the stock. Returns the total price.
    fn sell(&mut self, warehouse: u32, item: u32, supplier: u32, quantity: u32) -> Result<u128, OrderError> {
        let price = self.prices.get(U256::from(item));
        if price.is_zero() {
            return Err(OrderError::NoSuchItem(NoSuchItem { item }));
        }
        let mut row = self.stock.setter(pair(U256::from(supplier), item));
        let left = restocked(row.quantity.get().to(), quantity);
        row.quantity.set(U32::from(left));
        let sold = row.sold.get().wrapping_add(U64::from(quantity));
        row.sold.set(sold);
        let orders = row.orders.get().wrapping_add(U32::from(1));
        row.orders.set(orders);
        if supplier != warehouse {
            let remote = row.remote_orders.get().wrapping_add(U32::from(1));
            row.remote_orders.set(remote);
        }
        price
            .checked_mul(U256::from(quantity))
            .and_then(|amount| u128::try_from(amount).ok())
            .ok_or(OrderError::Overflow(Overflow {}))
    }
}

fn pair(high: U256, low: u32) -> U256 {
    (high << 32) | U256::from(low)
}

/// TPC-C, 2.4.2.2: if fewer than ten would remain, ninety-one are added.
fn restocked(quantity: u32, ordered: u32) -> u32 {
    match quantity.checked_sub(ordered) {
        Some(left) if left >= 10 => left,
        _ => quantity.wrapping_add(91).wrapping_sub(ordered),
    }
}

/// Sum × (1 − discount) × (1 + both taxes), in parts of 10,000, rounded down.
fn total(sum: u128, discount: u32, warehouse_tax: u32, district_tax: u32) -> Option<u128> {
    const ONE: u128 = 10_000;
    let kept = ONE.checked_sub(discount.into())?;
    let taxed = ONE + u128::from(warehouse_tax) + u128::from(district_tax);
    Some(sum.checked_mul(kept)?.checked_mul(taxed)? / (ONE * ONE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stylus_sdk::testing::*;

    fn shop(vm: &TestVM) -> Warehouses {
        let mut shop = Warehouses::from(vm);
        shop.warehouses.setter(U256::from(1)).tax.set(U32::from(1_000));
        let district = pair(U256::from(1), 2);
        shop.districts.setter(district).next_order.set(U32::from(7));
        shop.customers.setter(pair(district, 3)).discount.set(U32::from(5_000));
        for item in [10, 11] {
            shop.prices.insert(U256::from(item), U256::from(100 * item));
            shop.stock.setter(pair(U256::from(1), item)).quantity.set(U32::from(20));
        }
        shop
    }

    #[test]
    fn new_order_updates_stock_and_district() {
        let vm = TestVM::default();
        let mut shop = shop(&vm);
        let total = shop.new_order(1, 2, 3, vec![10, 11], vec![1, 1], vec![5, 15]).ok();
        // (5 × 1,000 + 15 × 1,100) × ½ × 1.1
        assert_eq!(total, Some(11_825));
        assert_eq!(shop.district(1, 2).0, 8);
        assert_eq!(shop.in_stock(1, 10), (15, 5));
        assert_eq!(shop.in_stock(1, 11), (96, 15), "below ten: ninety-one are added");
    }

    #[test]
    fn unknown_item_is_error() {
        let vm = TestVM::default();
        let mut shop = shop(&vm);
        assert!(matches!(shop.new_order(1, 2, 3, vec![12], vec![1], vec![1]), Err(OrderError::NoSuchItem(_))));
        assert!(matches!(shop.new_order(1, 2, 3, vec![10], vec![], vec![1]), Err(OrderError::LinesDiffer(_))));
    }

    #[test]
    fn payment_updates_warehouse_and_customer() {
        let vm = TestVM::default();
        let mut shop = shop(&vm);
        for _ in 0..2 {
            assert!(shop.payment(1, 2, 1, 2, 3, 500).is_ok());
        }
        assert_eq!(shop.district(1, 2), (7, 1_000));
        let row = shop.customers.getter(pair(pair(U256::from(1), 2), 3));
        assert_eq!((row.payments.get(), row.paid.get()), (U32::from(2), U64::from(1_000)));
        assert_eq!(row.balance.get(), I128::try_from(-1_000).unwrap());
    }

    #[test]
    fn restocking_and_total() {
        assert_eq!([restocked(20, 10), restocked(19, 10), restocked(0, 10)], [10, 100, 81]);
        assert_eq!(total(10_000, 0, 0, 0), Some(10_000));
        assert_eq!(total(10_000, 10_000, 0, 0), Some(0));
        assert_eq!(total(1, 10_001, 0, 0), None);
        assert_eq!(total(u128::MAX, 0, 0, 0), None);
    }
}
