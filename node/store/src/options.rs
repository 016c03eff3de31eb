//! Local settings of a store; nothing here affects results.

use crate::History;
use crate::probe::Probe;
use std::sync::Arc;
use std::time::Duration;

/// Which key-value store holds the state checkpoint and the indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    #[default]
    Sled,
    Redb,
}

impl Backend {
    /// The word in the configuration, and the directory under `state/`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sled => "sled",
            Self::Redb => "redb",
        }
    }
}

impl std::str::FromStr for Backend {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "sled" => Ok(Self::Sled),
            "redb" => Ok(Self::Redb),
            _ => Err(format!("state backend {word:?} is unknown; there are \"sled\" and \"redb\"")),
        }
    }
}

/// See the fields; the default suits a node.
#[derive(Clone)]
pub struct Options {
    pub backend: Backend,
    /// Throws the checkpoint and the indices away and builds them again from the block log.
    pub rebuild: bool,
    /// Checks every segment of the block log at opening, not only those above the checkpoint.
    pub check_all: bool,
    /// A block segment that has reached this size is closed before the next group.
    pub block_segment_bytes: u64,
    /// The same for the safety log, where it is also the unit of deletion.
    pub safety_segment_bytes: u64,
    /// Recent blocks held in memory: at least those above the checkpoint, otherwise at most this many...
    pub window_blocks: usize,
    /// ...and about this many encoded bytes.
    pub window_bytes: usize,
    /// The checkpoint stays this many heights behind the head, so that after a restart the state is readable at them too.
    pub checkpoint_lag: u64,
    /// The checkpoint moves when this many blocks can enter it...
    pub checkpoint_blocks: u64,
    /// ...or this much time has passed; `None` leaves it to [`crate::Store::checkpoint`].
    pub checkpoint_interval: Option<Duration>,
    /// How many states behind the checkpoint can be read, from disk.
    pub history: History,
    /// Memory the key-value store may use for its own cache.
    pub kv_cache_bytes: u64,
    /// Free bytes below which admission should stop.
    pub low_space_bytes: u64,
    /// Free bytes below which the node should stop.
    pub exhausted_space_bytes: u64,
    /// Most bytes under `code/`. What is above is compiled again when it is called, at the node's expense: to fill this should cost more than
    /// anybody will pay.
    pub code_cache_bytes: u64,
    /// Most bytes under `trace/`; 0 keeps no trace, as suits a node whose engine does nothing.
    pub trace_bytes: u64,
    /// Whether appends wait for the disk. Without, they are safe from the end of the process only: for a directory that does not outlive it.
    pub sync: bool,
    /// For tests: sees, and may fail, every step of the logs on disk.
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
