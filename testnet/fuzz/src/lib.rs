//! Fuzz targets: functions of bytes that must not panic, and whose assertions must hold, for any bytes.
//!
//! | target | bytes |
//! |---|---|
//! | `mahi_mahi`, `autobahn`, `neobft`, `mir`, `quepaxa`, `racs`, `baxos` | a run of an engine: messages, packets, deadlines, connections; see [`engines`] |
//! | `peer_message` | a peer's message, as the pipeline decodes it, and its content |
//! | `network_frames` | a stream of a peer |
//! | `websocket_frames` | a client's stream after the handshake |
//! | `transaction` | a raw transaction |
//! | `genesis` | a genesis file |
//! | `creation` | creation data: prelude, compression, constructor arguments |
//! | `module` | a WebAssembly module: validation, instrumentation, compilation, a run on two compilers |
//! | `generated_module` | input of wasm-smith; its module is tested like `module` |
//!
//! RPC bodies and whole HTTP requests need a server; `corniche-rpc --test fuzz` mutates those.
//!
//! Each target runs in two ways: on a stable compiler with mutated seeds (`tests/seeded.rs`), and under libFuzzer
//! (`libfuzzer/`, `make fuzz`).

pub mod codecs;
pub mod engines;
pub mod modules;
pub mod streams;
#[allow(clippy::unwrap_used, reason = "helpers of tests unwrap like tests do")]
#[path = "../../../runtime/vm/tests/common/mod.rs"]
mod vm;

/// A target and its seeds.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Valid inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Valid fragments, for mutations.
    pub dictionary: &'static [&'static [u8]],
    /// Number of cases of a seeded test, for about a second.
    pub cases: u64,
}

const NUMBERS: &[&[u8]] = &[
    &[0; 4],
    &[0xff; 4],
    &[0; 8],
    &[0xff; 8],
    &[0xff, 0xff, 0xff, 0x7f],
    &[1, 0, 0, 0],
    &[0, 0, 1, 0],
    &[0xff; 32],
    &[0; 32],
    &[3],
    &[4, 0],
];

const JSON: &[&[u8]] =
    &[b"null", b"[]", b"{}", b"-1", b"1e999", b"\"0x\"", b"18446744073709551616", b"0", b"\"\"", b",", b"\"", b"{\"", b"[[[["];

const WASM: &[&[u8]] = &[
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0x80, 0x80, 0x80, 0x80, 0x00],
    &[0x0b],
    &[0x00],
    &[0x02, 0x40],
    &[0x03, 0x40],
    &[0x0c, 0x00],
    &[0x0e, 0x01, 0x00, 0x00],
    &[0x41, 0x7f],
    &[0x42, 0x00],
    &[0x1a],
    &[0x40, 0x00],
    &[0xfc, 0x0a, 0x00, 0x00],
    &[0xfc, 0x0b, 0x00],
    &[0x11, 0x00, 0x00],
    &[0x10, 0x00],
    &[0x36, 0x02, 0x00],
    &[0x28, 0x02, 0xff, 0xff, 0xff, 0xff, 0x0f],
];

const FRAMES: &[&[u8]] = &[
    &[0x81, 0xfe, 0xff, 0xff],
    &[0x88, 0x82, 0, 0, 0, 0, 3, 0xe8],
    &[0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0x01, 0x80, 0, 0, 0, 0],
    &[0x80, 0x80, 0, 0, 0, 0],
    &[0xff; 4],
    &[0; 4],
    &[1, 0, 0, 0],
];

pub const TARGETS: &[Target] = &[
    Target { name: "mahi_mahi", run: engines::mahi_mahi, seeds: engines::mahi_mahi_seeds, dictionary: NUMBERS, cases: 200 },
    Target { name: "autobahn", run: engines::autobahn, seeds: engines::autobahn_seeds, dictionary: NUMBERS, cases: 200 },
    Target { name: "neobft", run: engines::neobft, seeds: engines::neobft_seeds, dictionary: NUMBERS, cases: 200 },
    Target { name: "mir", run: engines::mir, seeds: engines::mir_seeds, dictionary: NUMBERS, cases: 200 },
    Target { name: "quepaxa", run: engines::quepaxa, seeds: engines::quepaxa_seeds, dictionary: NUMBERS, cases: 200 },
    Target { name: "racs", run: engines::racs, seeds: engines::racs_seeds, dictionary: NUMBERS, cases: 200 },
    Target { name: "baxos", run: engines::baxos, seeds: engines::baxos_seeds, dictionary: NUMBERS, cases: 200 },
    Target {
        name: "peer_message",
        run: codecs::peer_message,
        seeds: codecs::peer_message_seeds,
        dictionary: NUMBERS,
        cases: 20_000,
    },
    Target {
        name: "network_frames",
        run: streams::network_frames,
        seeds: streams::network_seeds,
        dictionary: FRAMES,
        cases: 10_000,
    },
    Target {
        name: "websocket_frames",
        run: streams::websocket_frames,
        seeds: streams::websocket_seeds,
        dictionary: FRAMES,
        cases: 10_000,
    },
    Target {
        name: "transaction",
        run: codecs::transaction,
        seeds: codecs::transaction_seeds,
        dictionary: NUMBERS,
        cases: 5_000,
    },
    Target { name: "genesis", run: codecs::genesis, seeds: codecs::genesis_seeds, dictionary: JSON, cases: 3_000 },
    Target { name: "creation", run: modules::creation, seeds: modules::creation_seeds, dictionary: WASM, cases: 3_000 },
    Target { name: "module", run: modules::module, seeds: modules::module_seeds, dictionary: WASM, cases: 300 },
    Target {
        name: "generated_module",
        run: modules::generated,
        seeds: modules::generated_seeds,
        dictionary: NUMBERS,
        cases: 20,
    },
];

/// Finds a target by name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
