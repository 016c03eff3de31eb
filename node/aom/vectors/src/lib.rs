//! Test vectors of the packet format aom/1, as `README.md` beside this crate describes them.
//!
//! For the tests of all sequencers and receivers. Loading panics on malformed content: the file is ours.

use serde::Deserialize;
use std::collections::BTreeSet;

/// Names in `producers`.
const PRODUCERS: [&str; 5] = ["wire", "sequencer", "xdp", "rtl", "p4"];

/// Content of `aom-1.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vectors {
    pub format: String,
    pub stamp: Vec<Vector>,
    pub derive: Vec<Derive>,
    pub receive: Vec<Receive>,
    pub frames: Vec<Frame>,
}

impl Vectors {
    /// Ids that a producer must run, in all sections.
    ///
    /// # Panics
    /// If there are none: the name is misspelt.
    pub fn ids(&self, producer: &str) -> BTreeSet<String> {
        let ids: BTreeSet<_> =
            self.named().filter(|(_, producers)| producers.contains(producer)).map(|(id, _)| id.to_owned()).collect();
        assert!(!ids.is_empty(), "no vectors for producer {producer}");
        ids
    }

    fn named(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        (self.stamp.iter().map(|vector| (&*vector.id, &vector.producers)))
            .chain(self.derive.iter().map(|vector| (&*vector.id, &vector.producers)))
            .chain(self.receive.iter().map(|vector| (&*vector.id, &vector.producers)))
            .chain(self.frames.iter().map(|vector| (&*vector.id, &vector.producers)))
    }

    fn check(&self) {
        let mut ids = BTreeSet::new();
        for (id, producers) in self.named() {
            assert!(ids.insert(id), "{id} is not unique");
            let unknown = producers.iter().find(|name| !PRODUCERS.contains(&name.as_str()));
            assert_eq!(unknown, None, "{id}: unknown producer");
        }
    }
}

/// A sequencer and the datagrams that reach it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
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
#[serde(deny_unknown_fields)]
pub struct Group {
    pub group: u32,
    pub epoch: u32,
    pub active: bool,
    pub suite: u8,
    pub receivers: u8,
    pub first_seq: u64,
    /// HM.
    pub sequencer_x25519_secret: Option<Bytes>,
    /// HM: by receiver.
    #[serde(default)]
    pub receiver_x25519_publics: Vec<Bytes>,
    /// HM: by receiver.
    #[serde(default)]
    pub tag_keys: Vec<Bytes>,
    /// PK: k.
    pub sign_every: Option<u32>,
    /// PK.
    pub signing_secret: Option<Bytes>,
    /// PK.
    pub public_key: Option<Bytes>,
    /// PK: state before the first packet.
    pub chain: Option<Chain>,
    /// Suite 4: one for each signature in the vector, in order.
    #[serde(default)]
    pub presignatures: Vec<Presignature>,
}

/// State of a hash chain.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    pub prev_seq: u64,
    pub prev_hash: Bytes,
    pub since_signed: u32,
}

/// (r, k^-1) of ECDSA, 32 bytes each.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Presignature {
    pub r: Bytes,
    pub k_inverse: Bytes,
}

/// An event at a sequencer and the datagrams that it sends.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub op: Op,
    /// Group of a heartbeat.
    pub group: Option<u32>,
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

/// Agreement on a tag key. Secrets and publics are those of X25519.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derive {
    pub id: String,
    pub producers: BTreeSet<String>,
    pub chain_id: u64,
    pub group: u32,
    pub epoch: u32,
    pub receiver: u16,
    pub suite: u8,
    pub sequencer_secret: Bytes,
    pub sequencer_public: Bytes,
    pub receiver_secret: Bytes,
    pub receiver_public: Bytes,
    pub shared_secret: Bytes,
    pub tag_key: Bytes,
}

/// A datagram at one receiver.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receive {
    pub id: String,
    pub about: String,
    pub producers: BTreeSet<String>,
    pub chain_id: u64,
    pub group: u32,
    pub epoch: u32,
    pub suite: u8,
    pub receivers: u8,
    /// HM.
    pub receiver: Option<u16>,
    /// HM.
    pub tag_key: Option<Bytes>,
    /// PK.
    pub public_key: Option<Bytes>,
    pub datagram: Bytes,
    pub accept: bool,
    pub reason: Option<String>,
}

/// A whole Ethernet frame, for producers below UDP.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    pub id: String,
    pub about: String,
    pub producers: BTreeSet<String>,
    pub chain_id: u64,
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

impl Bytes {
    /// # Panics
    /// If there are not `N` bytes.
    pub fn array<const N: usize>(&self) -> [u8; N] {
        self.0[..].try_into().expect("the vector has this size")
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// All vectors.
pub fn load() -> Vectors {
    let vectors: Vectors =
        serde_json::from_str(include_str!("../aom-1.json")).expect("aom-1.json has the format of its README");
    vectors.check();
    vectors
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
/// If `CORNICHE_FORBID_SKIPS` is 1, as in CI, where a missing tool or permission is a failure.
pub fn skip(test: &str, reason: &str) {
    let required = std::env::var("CORNICHE_FORBID_SKIPS").is_ok_and(|value| value == "1");
    assert!(!required, "{test}: {reason}, but CORNICHE_FORBID_SKIPS=1 forbids to skip it");
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "\n!!!! SKIPPED {test}: {reason}\n");
}
