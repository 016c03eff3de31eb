//! Workloads: content of the blocks. A workload deploys its contract, fills its tables and returns a
//! generator of transactions. Each module names the source of its benchmark and the differences from it.

mod amm;
mod conflict;
mod erc20;
mod mint;
mod native;
mod retwis;
mod smallbank;
mod tpcc;
mod ycsb;

use super::{
    chain::{Chain, Draft},
    random::Random,
};
use alloy_primitives::TxKind;
use corniche_types::{Address, Bytes};
use serde::Serialize;

/// Gas limit of every contract call. Unused gas is returned, and a limit causes no conflicts.
const CALL_GAS: u64 = 10_000_000;

pub struct Workload {
    pub name: &'static str,
    /// Short description.
    pub about: &'static str,
    pub set_up: fn(&mut Chain<'_>, &Sizes) -> anyhow::Result<Generator>,
}

/// Draws the next transaction. The number is the sending account: accounts take turns, so that transactions
/// in a block depend on each other only through the workload, not through a shared nonce. Workloads that are
/// about accounts draw their own senders.
pub type Generator = Box<dyn FnMut(&mut Random, usize) -> Draft>;

pub const WORKLOADS: &[Workload] = &[
    Workload { name: "native", about: "transfers of the currency, sender and recipient uniform", set_up: native::uniform },
    Workload { name: "native-one", about: "transfers of the currency to one recipient", set_up: native::one_recipient },
    Workload { name: "erc20-uniform", about: "ERC-20 transfers, sender and recipient uniform", set_up: erc20::uniform },
    Workload { name: "erc20-zipf", about: "ERC-20 transfers, sender and recipient by Zipf 0.9", set_up: erc20::zipf },
    Workload { name: "amm", about: "swaps in one pool", set_up: amm::swaps },
    Workload { name: "mint-plain", about: "tokens minted, their number read and written", set_up: mint::plain },
    Workload { name: "mint-commutative", about: "tokens minted, their number added to unread", set_up: mint::commutative },
    Workload { name: "smallbank", about: "60 % balance, 4 x 10 % others; 1,000 customers get 90 %", set_up: smallbank::mix },
    Workload { name: "retwis", about: "5/15/30/50 add user, follow, post, timeline; Zipf 0.75", set_up: retwis::mix },
    Workload { name: "tpcc", about: "new-order and payment, half each", set_up: tpcc::mix },
    Workload { name: "ycsb-uniform", about: "two keys read and written, uniform", set_up: ycsb::uniform },
    Workload { name: "ycsb-zipf", about: "two keys read and written, Zipf 0.9", set_up: ycsb::zipf },
    Workload { name: "all-conflict", about: "every transaction reads and writes one slot", set_up: conflict::one_slot },
];

/// Sizes of the tables.
#[derive(clap::Args, Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sizes {
    /// Number of accounts that send and receive
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub accounts: usize,
    /// Smallbank: number of customers
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub smallbank_customers: u64,
    /// Smallbank: number of customers that get 90 % of the accesses
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub smallbank_hot: u64,
    /// Retwis: initial number of users
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub retwis_users: u64,
    /// TPC-C: number of warehouses, of ten districts each
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub tpcc_warehouses: u64,
    /// TPC-C: number of items, each in stock in every warehouse; 100,000 in the standard
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub tpcc_items: u64,
    /// TPC-C: number of customers per district; 3,000 in the standard
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub tpcc_customers: u64,
    /// YCSB-T: number of keys; 10,000,000 in Basil's evaluation
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub ycsb_keys: u64,
}

impl Sizes {
    /// For tests that do not depend on the sizes.
    pub const SMALL: Self = Self {
        accounts: 64,
        smallbank_customers: 100,
        smallbank_hot: 10,
        retwis_users: 100,
        tpcc_warehouses: 2,
        tpcc_items: 100,
        tpcc_customers: 10,
        ycsb_keys: 100,
    };
}

/// Contract call without value.
fn call(sender: usize, to: Address, input: Bytes) -> Draft {
    Draft { sender, to: TxKind::Call(to), value: 0, input, gas_limit: CALL_GAS }
}
