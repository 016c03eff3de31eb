//! Faucet: sends a fixed amount from one account, with daily limits.
//!
//! `POST /faucet` with `{"address": "0x…"}` returns `{"transaction": "0x…", "wei": "…"}`; `GET /faucet`
//! returns the balance and the limits. Counters per account and per client are kept in memory for one day of
//! the node's clock. They are lost when the node stops.

use crate::config::FaucetConfig;
use crate::fees;
use crate::node::Node;
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, TxKind};
use axum::http::StatusCode;
use corniche_origin::{Origin, Site};
use corniche_types::TimestampMs;
use serde_json::{Value, json};
use std::collections::{BTreeMap, btree_map::Entry};
use std::sync::{Mutex, MutexGuard, PoisonError};

const DAY_MS: u64 = 24 * 3_600 * 1_000;
/// Gas of a transfer to an account without code; contracts get no extra gas.
const TRANSFER_GAS: u64 = 21_000;
/// Upper bound of `per_day`: each grant may add one map entry for the account and one for the client.
const MAX_PER_DAY: u32 = 100_000;

pub(crate) struct Faucet {
    config: FaucetConfig,
    grants: Mutex<DailyGrants>,
    /// Serialises sending, so that nonces are taken one after the other.
    send_lock: tokio::sync::Mutex<()>,
}

/// Grants of the current day.
#[derive(Default)]
struct DailyGrants {
    day: u64,
    accounts: BTreeMap<Address, u32>,
    clients: BTreeMap<Site, u32>,
    times: u32,
}

/// Reason of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LimitExceeded {
    Account(u32),
    Client(u32),
    /// Limit for all, and minutes until the next day.
    All(u32, u64),
}

impl LimitExceeded {
    fn message(&self) -> String {
        match self {
            Self::Account(times) => format!("limit of {times} a day for one account reached; try again tomorrow"),
            Self::Client(times) => format!("limit of {times} a day for one client reached; try again tomorrow"),
            Self::All(times, minutes) => {
                format!("the faucet's limit of {times} a day is reached; try again in {minutes} minutes, at 00:00 UTC")
            }
        }
    }
}

impl DailyGrants {
    fn take(&mut self, config: &FaucetConfig, account: Address, client: Site, now: TimestampMs) -> Result<(), LimitExceeded> {
        let day = now.0 / DAY_MS;
        if self.day != day {
            *self = Self { day, ..Self::default() };
        }
        if self.accounts.get(&account).is_some_and(|times| *times >= config.per_account) {
            return Err(LimitExceeded::Account(config.per_account));
        }
        if self.clients.get(&client).is_some_and(|times| *times >= config.per_client) {
            return Err(LimitExceeded::Client(config.per_client));
        }
        let max = config.max_per_day();
        if self.times >= max {
            let minutes = (DAY_MS - now.0 % DAY_MS).div_ceil(60_000);
            return Err(LimitExceeded::All(max, minutes));
        }
        self.times += 1;
        *self.accounts.entry(account).or_default() += 1;
        *self.clients.entry(client).or_default() += 1;
        Ok(())
    }

    /// Undoes a grant that failed, unless the day has changed.
    fn undo(&mut self, day: u64, account: Address, client: Site) {
        if self.day != day {
            return;
        }
        self.times = self.times.saturating_sub(1);
        decrement(&mut self.accounts, account);
        decrement(&mut self.clients, client);
    }
}

/// Decrements a counter; removes it at 0.
fn decrement<K: Ord>(times: &mut BTreeMap<K, u32>, key: K) {
    if let Entry::Occupied(mut entry) = times.entry(key) {
        *entry.get_mut() = entry.get().saturating_sub(1);
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}

impl Faucet {
    pub fn new(config: FaucetConfig) -> Self {
        Self { config, grants: Mutex::default(), send_lock: tokio::sync::Mutex::default() }
    }

    /// Response to `GET /faucet`.
    pub fn describe(&self, node: &Node) -> Value {
        let account = self.config.key.address();
        let left = node.backend.state(node.backend.head()).and_then(|state| state.account(&account)).unwrap_or_default();
        json!({
            "account": account,
            "wei": self.config.wei.to_string(),
            "left": left.balance.to_string(),
            "perAccountADay": self.config.per_account,
            "perClientADay": self.config.per_client,
            "inAllADay": self.config.max_per_day(),
        })
    }

    /// Handles a request's body. The future must run to its end even if the client disconnects: the grant is
    /// counted by then, and the next grant uses the nonce after it.
    pub async fn handle_request(&self, node: &Node, client: Origin, body: &[u8]) -> (StatusCode, Value) {
        let refuse = |status, reason: &str| (status, json!({"error": reason}));
        let account = serde_json::from_slice::<Value>(body).ok().and_then(|request| request["address"].as_str()?.parse().ok());
        let Some(account) = account else {
            return refuse(StatusCode::BAD_REQUEST, "expected {\"address\": \"0x…\"} with 20 bytes");
        };
        let client = client.site();
        let now = (node.clock)();
        if let Err(exceeded) = self.grants().take(&self.config, account, client, now) {
            return refuse(StatusCode::TOO_MANY_REQUESTS, &exceeded.message());
        }
        match self.send(node, account).await {
            Ok(hash) => (StatusCode::OK, json!({"transaction": hash, "wei": self.config.wei.to_string()})),
            Err(reason) => {
                self.grants().undo(now.0 / DAY_MS, account, client);
                refuse(StatusCode::SERVICE_UNAVAILABLE, &reason)
            }
        }
    }

    async fn send(&self, node: &Node, to: Address) -> Result<B256, String> {
        let _guard = self.send_lock.lock().await;
        let (key, tip) = (&self.config.key, u128::from(fees::suggested_tip(node)));
        let raw = key.sign(TxEip1559 {
            chain_id: node.backend.chain_id(),
            nonce: node.backend.pending_nonce(&key.address()),
            gas_limit: TRANSFER_GAS,
            // Must stay valid while the base fee rises until the transaction is ordered.
            max_fee_per_gas: u128::from(node.backend.next_base_fee()) * 2 + tip,
            max_priority_fee_per_gas: tip,
            to: TxKind::Call(to),
            value: self.config.wei,
            ..TxEip1559::default()
        });
        node.backend.submit(raw).await.map_err(|error| error.message)
    }

    fn grants(&self) -> MutexGuard<'_, DailyGrants> {
        // Every critical section leaves the counters consistent.
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaucetConfig {
    fn max_per_day(&self) -> u32 {
        self.per_day.min(MAX_PER_DAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U256;
    use corniche_crypto::EthereumKey;
    use std::net::IpAddr;
    use std::sync::Arc;

    #[test]
    fn daily_limits_per_account_and_client() {
        let key = Arc::new(EthereumKey::from_bytes(&[1; 32]).unwrap());
        let config = FaucetConfig { key, wei: U256::from(5), per_account: 1, per_client: 3, per_day: 5 };
        let mut grants = DailyGrants::default();
        let client = |last: u8| Origin::of(IpAddr::from([10, 0, 0, last])).site();
        let mut take = |account: u8, from: u8, day: u64| {
            grants.take(&config, Address::repeat_byte(account), client(from), TimestampMs(day * DAY_MS + 5))
        };
        assert_eq!(take(1, 1, 9), Ok(()));
        assert_eq!(take(1, 2, 9), Err(LimitExceeded::Account(1)), "also from elsewhere");
        assert_eq!([take(2, 1, 9), take(3, 1, 9)], [Ok(()), Ok(())]);
        assert_eq!(take(4, 1, 9), Err(LimitExceeded::Client(3)));
        assert_eq!(take(4, 2, 9), Ok(()));
        assert_eq!(take(5, 3, 9), Ok(()));
        // 5 ms of the day's 1,440 minutes have passed.
        assert_eq!(take(6, 4, 9), Err(LimitExceeded::All(5, 1_440)), "neither this account nor this client had anything");
        assert_eq!(take(1, 1, 10), Ok(()), "a new day");
        grants.undo(9, Address::repeat_byte(1), client(1));
        assert_eq!(grants.times, 1, "what was taken yesterday is not of today");
        grants.undo(10, Address::repeat_byte(1), client(1));
        assert!(grants.accounts.is_empty() && grants.clients.is_empty() && grants.times == 0, "what nobody had takes no place");
        assert_eq!(grants.take(&config, Address::repeat_byte(1), client(1), TimestampMs(10 * DAY_MS)), Ok(()));
    }
}
