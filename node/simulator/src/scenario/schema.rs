//! The names of all keys. The parser rejects all others, and a test compares `docs/simulator.md` with this table.

/// Tables of a scenario file and their keys. `""` is the file itself, `fault K` a `[[fault]]` of kind K. The engine
/// defines the keys of `[engine_config]`.
pub const SCHEMA: &[(&str, &[&str])] = &[
    ("", ROOT),
    ("network", NETWORK),
    ("sequencer", SEQUENCER),
    ("disk", DISK),
    ("load", LOAD),
    ("cost", COST),
    ("fault crash", CRASH),
    ("fault disk_loss", CRASH),
    ("fault partition", PARTITION),
    ("fault delay", DELAY),
    ("fault loss", LOSS),
    ("fault slow", SLOW),
    ("fault sequencer", SEQUENCER_FAULT),
    ("fault byzantine", BYZANTINE),
    ("fault join", CHANGE),
    ("fault leave", CHANGE),
    ("fault rotate", CHANGE),
    ("fault no_notices", NOTICES),
    ("fault bad_dealer", NOTICES),
];

pub(super) const ROOT: &[&str] = &[
    "engine",
    "nodes",
    "votes",
    "epoch_ms",
    "closing_ms",
    "block_ms",
    "duration",
    "seed",
    "crypto",
    "engine_config",
    "network",
    "sequencer",
    "disk",
    "load",
    "cost",
    "fault",
];
pub(super) const NETWORK: &[&str] = &[
    "regions",
    "rtt_ms",
    "delay_ms",
    "jitter",
    "model",
    "loss",
    "reorder",
    "duplicate",
    "bandwidth_mbps",
    "adversary",
    "adversary_delay_ms",
];
pub(super) const SEQUENCER: &[&str] = &["place", "suite", "sign_every", "loss", "install_ms"];
pub(super) const DISK: &[&str] = &["latency_ms", "bandwidth_mbps"];
pub(super) const LOAD: &[&str] = &["rate", "tx_bytes", "payload", "contract", "start", "stop", "first_node", "patience"];
pub(super) const COST: &[&str] = &["sign_us", "verify_us", "recover_us", "share_us", "combine_us"];
pub(super) const CRASH: &[&str] = &["kind", "at", "nodes", "restart_at"];
pub(super) const PARTITION: &[&str] = &["kind", "at", "until", "groups"];
pub(super) const DELAY: &[&str] = &["kind", "at", "until", "nodes", "from", "to", "extra_ms"];
pub(super) const LOSS: &[&str] = &["kind", "at", "until", "nodes", "from", "to", "fraction"];
pub(super) const SLOW: &[&str] = &["kind", "at", "until", "nodes", "execute_ms", "write_ms"];
pub(super) const SEQUENCER_FAULT: &[&str] = &["kind", "at", "does", "numbers", "nodes"];
pub(super) const BYZANTINE: &[&str] = &["kind", "at", "nodes", "behaviour"];
pub(super) const CHANGE: &[&str] = &["kind", "at", "nodes"];
pub(super) const NOTICES: &[&str] = &["kind", "at", "until", "nodes"];
