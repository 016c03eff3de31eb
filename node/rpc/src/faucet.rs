//! A faucet: gives a little to whoever asks, so often a day, from the account of one key.
//!
//! `POST /faucet` with `{"address": "0x…"}` is answered with `{"transaction": "0x…", "wei": "…"}`; `GET /faucet` says what there is
//! and how often. What an address or a client has had is counted in memory by the day of the node's clock, and forgotten
//! with it or when the node stops.

use crate::fees;
use crate::node::Node;
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, TxKind, U256};
use axum::http::StatusCode;
use corniche_crypto::EthereumKey;
use corniche_origin::{Origin, Site};
use corniche_types::TimestampMs;
use serde_json::{Value, json};
use std::collections::{BTreeMap, btree_map::Entry};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const DAY_MS: u64 = 24 * 3_600 * 1_000;
/// Gas of a transfer to an account without code; one with code is refused what it would cost more.
const GAS: u64 = 21_000;
/// Times a day that it may be made to give: each may take a line of memory for an account and one for a client.
const MAX_PER_DAY: u32 = 100_000;

/// Who gives, how much and how often.
#[derive(Clone)]
pub struct FaucetConfig {
    pub key: Arc<EthereumKey>,
    /// Wei given at a time.
    pub wei: U256,
    /// Times a day for one account, and for one client (IPv6: one /48, of which whoever is given one may have any address).
    pub per_account: u32,
    pub per_client: u32,
    /// Times a day for all together, 100,000 at most.
    pub per_day: u32,
}

pub(crate) struct Faucet {
    config: FaucetConfig,
    given: Mutex<Given>,
    /// Nonces are taken one after the other.
    sending: tokio::sync::Mutex<()>,
}

/// What was given today.
#[derive(Default)]
struct Given {
    day: u64,
    accounts: BTreeMap<Address, u32>,
    clients: BTreeMap<Site, u32>,
    times: u32,
}

/// Why nothing is given.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Refusal {
    Account(u32),
    Client(u32),
    /// So many times for all, and minutes until the next day.
    All(u32, u64),
}

impl Refusal {
    fn message(&self) -> String {
        match self {
            Self::Account(times) => format!("this account had its {times} for today; come back tomorrow"),
            Self::Client(times) => format!("{times} a day for one client; come back tomorrow"),
            Self::All(times, minutes) => {
                format!(
                    "the faucet gives {times} times a day, and has done so today; come back in {minutes} minutes, at 00:00 UTC"
                )
            }
        }
    }
}

impl Given {
    fn take(&mut self, config: &FaucetConfig, account: Address, client: Site, now: TimestampMs) -> Result<(), Refusal> {
        let day = now.0 / DAY_MS;
        if self.day != day {
            *self = Self { day, ..Self::default() };
        }
        if self.accounts.get(&account).is_some_and(|times| *times >= config.per_account) {
            return Err(Refusal::Account(config.per_account));
        }
        if self.clients.get(&client).is_some_and(|times| *times >= config.per_client) {
            return Err(Refusal::Client(config.per_client));
        }
        let most = config.most_a_day();
        if self.times >= most {
            let minutes = (DAY_MS - now.0 % DAY_MS).div_ceil(60_000);
            return Err(Refusal::All(most, minutes));
        }
        self.times += 1;
        *self.accounts.entry(account).or_default() += 1;
        *self.clients.entry(client).or_default() += 1;
        Ok(())
    }

    /// Nothing came of what was taken on that day.
    fn give_back(&mut self, day: u64, account: Address, client: Site) {
        if self.day != day {
            return;
        }
        self.times = self.times.saturating_sub(1);
        less(&mut self.accounts, account);
        less(&mut self.clients, client);
    }
}

/// One time less; what is at none takes no place.
fn less<K: Ord>(times: &mut BTreeMap<K, u32>, key: K) {
    if let Entry::Occupied(mut entry) = times.entry(key) {
        *entry.get_mut() = entry.get().saturating_sub(1);
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}

impl Faucet {
    pub fn new(config: FaucetConfig) -> Self {
        Self { config, given: Mutex::default(), sending: tokio::sync::Mutex::default() }
    }

    /// What there is.
    pub fn describe(&self, node: &Node) -> Value {
        let account = self.config.key.address();
        let left = node.backend.state(node.backend.head()).and_then(|state| state.account(&account)).unwrap_or_default();
        json!({
            "account": account,
            "wei": self.config.wei.to_string(),
            "left": left.balance.to_string(),
            "perAccountADay": self.config.per_account,
            "perClientADay": self.config.per_client,
            "inAllADay": self.config.most_a_day(),
        })
    }

    /// Answers a request's body. To be run to its end, also when whoever asked has gone: it has had its share then, and the next one needs
    /// the nonce after its.
    pub async fn give(&self, node: &Node, client: Origin, body: &[u8]) -> (StatusCode, Value) {
        let refuse = |status, why: &str| (status, json!({"error": why}));
        let account = serde_json::from_slice::<Value>(body).ok().and_then(|asked| asked["address"].as_str()?.parse().ok());
        let Some(account) = account else {
            return refuse(StatusCode::BAD_REQUEST, "expected {\"address\": \"0x…\"} with 20 bytes");
        };
        let client = client.site();
        let now = (node.clock)();
        if let Err(refusal) = self.given().take(&self.config, account, client, now) {
            return refuse(StatusCode::TOO_MANY_REQUESTS, &refusal.message());
        }
        match self.send(node, account).await {
            Ok(hash) => (StatusCode::OK, json!({"transaction": hash, "wei": self.config.wei.to_string()})),
            Err(why) => {
                self.given().give_back(now.0 / DAY_MS, account, client);
                refuse(StatusCode::SERVICE_UNAVAILABLE, &why)
            }
        }
    }

    async fn send(&self, node: &Node, to: Address) -> Result<B256, String> {
        let _turn = self.sending.lock().await;
        let (key, tip) = (&self.config.key, u128::from(fees::suggested_tip(node)));
        let raw = key.sign(TxEip1559 {
            chain_id: node.backend.chain_id(),
            nonce: node.backend.pending_nonce(&key.address()),
            gas_limit: GAS,
            // It has to hold while the base fee rises for as long as ordering may take.
            max_fee_per_gas: u128::from(node.backend.next_base_fee()) * 2 + tip,
            max_priority_fee_per_gas: tip,
            to: TxKind::Call(to),
            value: self.config.wei,
            ..TxEip1559::default()
        });
        node.backend.submit(raw).await.map_err(|error| error.message)
    }

    fn given(&self) -> MutexGuard<'_, Given> {
        // Every critical section leaves the counts whole.
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaucetConfig {
    fn most_a_day(&self) -> u32 {
        self.per_day.min(MAX_PER_DAY)
    }
}

impl std::fmt::Debug for FaucetConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaucetConfig").field("account", &self.key.address()).field("wei", &self.wei).finish_non_exhaustive()
    }
}

impl PartialEq for FaucetConfig {
    fn eq(&self, other: &Self) -> bool {
        let parts = |config: &Self| (config.key.address(), config.wei, config.per_account, config.per_client, config.per_day);
        parts(self) == parts(other)
    }
}

impl Eq for FaucetConfig {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn each_account_and_each_client_has_its_share_of_a_day() {
        let key = Arc::new(EthereumKey::from_bytes(&[1; 32]).unwrap());
        let config = FaucetConfig { key, wei: U256::from(5), per_account: 1, per_client: 3, per_day: 5 };
        let mut given = Given::default();
        let client = |last: u8| Origin::of(IpAddr::from([10, 0, 0, last])).site();
        let mut take = |account: u8, from: u8, day: u64| {
            given.take(&config, Address::repeat_byte(account), client(from), TimestampMs(day * DAY_MS + 5))
        };
        assert_eq!(take(1, 1, 9), Ok(()));
        assert_eq!(take(1, 2, 9), Err(Refusal::Account(1)), "also from elsewhere");
        assert_eq!([take(2, 1, 9), take(3, 1, 9)], [Ok(()), Ok(())]);
        assert_eq!(take(4, 1, 9), Err(Refusal::Client(3)));
        assert_eq!(take(4, 2, 9), Ok(()));
        assert_eq!(take(5, 3, 9), Ok(()));
        // A day has 1,440 minutes, of which 5 ms are over.
        assert_eq!(take(6, 4, 9), Err(Refusal::All(5, 1_440)), "neither this account nor this client had anything");
        assert_eq!(take(1, 1, 10), Ok(()), "a new day");
        given.give_back(9, Address::repeat_byte(1), client(1));
        assert_eq!(given.times, 1, "what was taken yesterday is not of today");
        given.give_back(10, Address::repeat_byte(1), client(1));
        assert!(given.accounts.is_empty() && given.clients.is_empty() && given.times == 0, "what nobody had takes no place");
        assert_eq!(given.take(&config, Address::repeat_byte(1), client(1), TimestampMs(10 * DAY_MS)), Ok(()));
    }
}
