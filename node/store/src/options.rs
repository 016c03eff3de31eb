//! Local settings of a store; they do not affect results.

use crate::History;
use crate::probe::Probe;
use std::sync::Arc;
use std::time::Duration;

/// Key-value store for the state checkpoint and the indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    Sled,
    /// Half of sled's memory and disk, and less processor time: `docs/performance.md`.
    #[default]
    Redb,
}

impl Backend {
    /// Name in the configuration, and of the directory under `state/`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sled => "sled",
            Self::Redb => "redb",
        }
    }
}

impl std::str::FromStr for Backend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sled" => Ok(Self::Sled),
            "redb" => Ok(Self::Redb),
            _ => Err(format!("state backend {text:?} is unknown; there are \"sled\" and \"redb\"")),
        }
    }
}

/// Options of a store; the defaults suit a node.
#[derive(Clone)]
pub struct Options {
    pub backend: Backend,
    /// Discards the checkpoint and the indices and rebuilds them from the block log. Default false.
    pub rebuild: bool,
    /// Checks every segment of the block log when it is opened, not only those above the checkpoint. Default
    /// false.
    pub check_all: bool,
    /// Size at which a segment of the block log is closed, in bytes. Default 64 MiB.
    pub block_segment_bytes: u64,
    /// Size at which a segment of the safety log is closed; also the unit of deletion. Default 4 MiB.
    pub safety_segment_bytes: u64,
    /// Maximum number of recent blocks in memory, default 512. Blocks above the checkpoint are kept in any
    /// case.
    pub window_blocks: usize,
    /// Approximate maximum of encoded bytes of these blocks, default 64 MiB.
    pub window_bytes: usize,
    /// Number of heights that the checkpoint stays behind the head, so that their states are readable after a
    /// restart. Default 256.
    pub checkpoint_lag: u64,
    /// The checkpoint moves when this number of blocks can enter it (default 256), or after
    /// `checkpoint_interval`.
    pub checkpoint_blocks: u64,
    /// Interval between moves of the checkpoint, default 10 s. `None`: only [`crate::Store::checkpoint`] and
    /// `checkpoint_blocks` move it.
    pub checkpoint_interval: Option<Duration>,
    /// Old states behind the checkpoint that are readable from disk. Default: none.
    pub history: History,
    /// Cache of the key-value store, in bytes. Default 8 MiB.
    pub kv_cache_bytes: u64,
    /// Free bytes below which admission should stop. Default 1 GiB.
    pub low_space_bytes: u64,
    /// Free bytes below which the node should stop. Default 256 MiB.
    pub exhausted_space_bytes: u64,
    /// Maximum size of `code/`, default 16 GiB. Code beyond that is compiled again when it is called, at the
    /// node's expense. Filling the cache should cost more than any attacker would pay.
    pub code_cache_bytes: u64,
    /// Maximum size of `trace/`; 0 (default) disables the trace, for nodes that run no engine.
    pub trace_bytes: u64,
    /// True (default) if appends wait for the disk. Without it, data survives only the end of the process:
    /// for temporary directories.
    pub sync: bool,
    /// For tests: observes every step of the logs on disk, and may fail it.
    pub probe: Option<Arc<dyn Probe>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backend: Backend::default(),
            rebuild: false,
            check_all: false,
            block_segment_bytes: 64 << 20,
            safety_segment_bytes: 4 << 20,
            window_blocks: 512,
            window_bytes: 64 << 20,
            checkpoint_lag: 256,
            checkpoint_blocks: 256,
            checkpoint_interval: Some(Duration::from_secs(10)),
            history: History::Off,
            kv_cache_bytes: 8 << 20,
            low_space_bytes: 1 << 30,
            exhausted_space_bytes: 256 << 20,
            code_cache_bytes: 16 << 30,
            trace_bytes: 0,
            sync: true,
            probe: None,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("backend", &self.backend).field("rebuild", &self.rebuild).finish_non_exhaustive()
    }
}
