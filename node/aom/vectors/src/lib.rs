//! Test vectors of the packet format aom/1, as `README.md` beside this crate describes them.
//!
//! For tests of hardware producers, which run the sections `stamp` and `frames`. Loading panics on malformed content:
//! the file is ours.

use serde::Deserialize;
use std::collections::BTreeSet;

/// Sections of `aom-1.json` that hardware producers run.
#[derive(Deserialize)]
pub struct Vectors {
    pub stamp: Vec<Vector>,
    pub frames: Vec<Frame>,
}

/// A sequencer and the datagrams that reach it.
#[derive(Clone, Debug, Deserialize)]
pub struct Vector {
    pub id: String,
    pub about: String,
    pub producers: BTreeSet<String>,
    pub chain_id: u64,
    pub groups: Vec<Group>,
    pub steps: Vec<Step>,
}

/// One group that a sequencer serves.
#[derive(Clone, Debug, Deserialize)]
pub struct Group {
    pub group: u32,
    pub epoch: u32,
    pub active: bool,
    pub suite: u8,
    pub receivers: u8,
    pub first_seq: u64,
    /// HM: by receiver.
    #[serde(default)]
    pub tag_keys: Vec<Bytes>,
    /// PK: k.
    pub sign_every: Option<u32>,
    /// PK.
    pub signing_secret: Option<Bytes>,
    /// PK: state before the first packet.
    pub chain: Option<Chain>,
    /// Suite 4: one for each signature in the vector, in order.
    #[serde(default)]
    pub presignatures: Vec<Presignature>,
}

/// State of a hash chain.
#[derive(Clone, Debug, Deserialize)]
pub struct Chain {
    pub prev_seq: u64,
    pub prev_hash: Bytes,
    pub since_signed: u32,
}

/// (r, k^-1) of ECDSA, 32 bytes each.
#[derive(Clone, Debug, Deserialize)]
pub struct Presignature {
    pub r: Bytes,
    pub k_inverse: Bytes,
}

/// An event at a sequencer and the datagrams that it sends.
#[derive(Clone, Debug, Deserialize)]
pub struct Step {
    pub op: Op,
    pub datagram: Bytes,
    pub out: Vec<Bytes>,
    pub drop: Option<String>,
    #[serde(default)]
    pub lost: bool,
    #[serde(default)]
    pub flush: bool,
    #[serde(default)]
    pub signed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    Request,
    /// `datagram` is the equal request that a control plane injects.
    Heartbeat,
}

/// A whole Ethernet frame, for producers below UDP.
#[derive(Clone, Debug, Deserialize)]
pub struct Frame {
    pub id: String,
    pub about: String,
    pub udp_port: u16,
    pub groups: Vec<Group>,
    pub frame: Bytes,
    pub verdict: Verdict,
    /// Only with [`Verdict::Stamp`].
    pub out: Option<Bytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Stamp,
    Drop,
    /// Not aom: left to the kernel.
    Pass,
}

/// Bytes that JSON holds as hex.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Bytes(#[serde(with = "hex::serde")] pub Vec<u8>);

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// All vectors.
pub fn load() -> Vectors {
    serde_json::from_str(include_str!("../aom-1.json")).expect("aom-1.json has the format of its README")
}

/// Vectors of section `stamp` that `producer` must run, in the file's order.
///
/// # Panics
/// If there are none: the name is misspelt.
pub fn for_producer(producer: &str) -> Vec<Vector> {
    let vectors: Vec<_> = load().stamp.into_iter().filter(|vector| vector.producers.contains(producer)).collect();
    assert!(!vectors.is_empty(), "no vectors for producer {producer}");
    vectors
}

/// Writes to the real standard error, which the test harness does not capture: a skipped test must be visible.
///
/// # Panics
/// If `CORNICHE_REQUIRE_HARDWARE` is 1, as in CI, where a missing tool or permission is a failure.
pub fn skip(test: &str, reason: &str) {
    let required = std::env::var("CORNICHE_REQUIRE_HARDWARE").is_ok_and(|value| value == "1");
    assert!(!required, "{test}: {reason}, but CORNICHE_REQUIRE_HARDWARE=1 forbids to skip it");
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "\n!!!! SKIPPED {test}: {reason}\n");
}
