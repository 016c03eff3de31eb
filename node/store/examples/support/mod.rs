//! Helpers shared by the measurements.

use corniche_types::*;
use std::{collections::BTreeMap, time::Duration};

/// Receipt of a transaction with one log.
pub fn receipt(transaction_hash: B256, index: u64) -> Receipt {
    let topics = vec![B256::repeat_byte(1), B256::repeat_byte(2), B256::repeat_byte(3)];
    Receipt {
        transaction_hash,
        type_byte: 2,
        success: true,
        gas_used: 30_000,
        cumulative_gas_used: 30_000 * (index + 1),
        effective_gas_price: 7,
        sender: Address::ZERO,
        to: Some(Address::ZERO),
        contract_address: None,
        logs: vec![Log { address: Address::ZERO, topics, data: Bytes::from(vec![0; 32]) }],
        output: Bytes::new(),
    }
}

/// Genesis with these accounts and no validators.
pub fn genesis(accounts: BTreeMap<Address, GenesisAccount>) -> Genesis {
    Genesis {
        protocol_version: 1,
        upgrades: Vec::new(),
        chain_id: 1,
        currency: "COR".into(),
        timestamp_ms: TimestampMs(0),
        block_ms: 0,
        block_gas_limit: 30_000_000,
        batch_bytes: 1 << 20,
        batch_gas: 1 << 20,
        epoch_blocks: 1000,
        fees: FeeRules { initial_base_fee: 1, target_gas_per_second: 1 },
        engine: EngineConfig { name: "mahi-mahi".into(), parameters: Default::default() },
        validators: vec![],
        coin_shares: vec![],
        coin_public_key: Default::default(),
        accounts,
        signatures: SignatureChecks::Everyone,
        staking: None,
        coin_draft: None,
        multicast: None,
    }
}

/// CPU time of this thread.
pub fn thread_cpu_ns() -> u64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    schedule.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// User and system time of the process so far, in the kernel's ticks of 10 ms.
pub fn process_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
