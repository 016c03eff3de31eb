//! Settings of an engine, and the purposes of its runs.

use super::validate::Rules;
use corniche_types::StakingParameters;
use std::sync::Arc;

/// Settings that are local to a node and never affect a result, and the chain's [`Rules`].
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Maximum number of concurrent transactions, in addition to calls (`call_permit`).
    pub executors: u32,
    /// Maximum number of concurrent calls, estimates and traces.
    pub callers: u32,
    /// Bytes of machine code kept in memory for blocks. Calls may keep a quarter of it in addition.
    pub contract_cache_bytes: usize,
    /// Bytes of instances kept between transactions for runs in blocks, including the machine code of their contracts.
    /// Calls may keep the same share in addition. During a transaction its thread keeps one instance of each warm
    /// contract, independent of their size.
    pub idle_instance_bytes: usize,
    /// Failed runs report their location ([`Host::record_failure`](crate::host::Host::record_failure)), and compilation takes longer.
    pub backtrace: bool,
    /// Rules of the chain. Unlike all other settings they affect results; they follow from the genesis.
    pub rules: Rules,
    /// Parameters of the staking contract, for chains that have one. Like the rules, they follow from the genesis.
    pub staking: Option<Arc<StakingParameters>>,
    /// Secret for the hash seed of the executor's tables of keys. Any number in tests.
    pub table_secret: u64,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            executors: 2,
            callers: 6,
            contract_cache_bytes: 256 << 20,
            idle_instance_bytes: 256 << 20,
            backtrace: false,
            rules: Rules::default(),
            staking: None,
            table_secret: 0,
        }
    }
}

impl EngineConfig {
    /// Maximum number of concurrent runs.
    pub(super) fn transactions(&self) -> u32 {
        self.executors.saturating_add(self.callers).max(1)
    }
}

/// Purpose of a run. Calls are free for their senders, so their caches must not evict anything that blocks use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Blocks,
    Calls,
}
