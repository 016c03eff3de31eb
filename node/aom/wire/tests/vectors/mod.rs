//! The vectors of `node/aom/vectors/aom-1.json`, as its README describes them. Tests of other producers include this file.

#![allow(dead_code, reason = "each producer reads a part of the fields")]

use corniche_aom_wire::{Kind, Request, SigningKey, Stamper, Suite, TagKey, TagScope, derive_tag_key};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vectors {
    pub format: String,
    pub stamp: Vec<Stamp>,
    pub derive: Vec<Derive>,
    pub receive: Vec<Receive>,
    /// For producers below UDP.
    pub frames: Vec<Frame>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    pub id: String,
    pub about: String,
    pub producers: Vec<String>,
    pub chain_id: u64,
    pub groups: Vec<Group>,
    pub steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub group: u32,
    pub epoch: u32,
    pub active: bool,
    #[serde(deserialize_with = "suite")]
    pub suite: Suite,
    pub receivers: u16,
    pub first_seq: u64,
    pub sequencer_x25519_secret: Option<Hex>,
    pub receiver_x25519_publics: Option<Vec<Hex>>,
    pub tag_keys: Option<Vec<Hex>>,
    pub signing_secret: Option<Hex>,
    pub public_key: Option<Hex>,
    pub sign_every: Option<u32>,
    pub chain: Option<Chain>,
    /// Nonces for signers that take them from a stock.
    presignatures: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    pub prev_seq: u64,
    pub prev_hash: Hex,
    pub since_signed: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub op: Op,
    pub group: Option<u32>,
    pub datagram: Hex,
    pub out: Vec<Hex>,
    pub drop: Option<String>,
    #[serde(default)]
    pub lost: bool,
    #[serde(default)]
    pub flush: bool,
    #[serde(default)]
    pub signed: bool,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    Request,
    Heartbeat,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derive {
    pub id: String,
    pub producers: Vec<String>,
    pub chain_id: u64,
    pub group: u32,
    pub epoch: u32,
    pub receiver: u16,
    #[serde(deserialize_with = "suite")]
    pub suite: Suite,
    pub sequencer_secret: Hex,
    pub sequencer_public: Hex,
    pub receiver_secret: Hex,
    pub receiver_public: Hex,
    pub shared_secret: Hex,
    pub tag_key: Hex,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receive {
    pub id: String,
    pub about: String,
    pub producers: Vec<String>,
    pub chain_id: u64,
    pub group: u32,
    pub epoch: u32,
    #[serde(deserialize_with = "suite")]
    pub suite: Suite,
    pub receivers: u8,
    pub receiver: Option<u16>,
    pub tag_key: Option<Hex>,
    pub public_key: Option<Hex>,
    pub datagram: Hex,
    pub accept: bool,
    pub reason: Option<String>,
}

#[derive(Deserialize)]
pub struct Frame {
    pub id: String,
    pub producers: Vec<String>,
}

/// Bytes in hex.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hex(pub Vec<u8>);

impl Hex {
    pub fn array<const N: usize>(&self) -> [u8; N] {
        self.0[..].try_into().expect("the vector has this size")
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        hex::decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}

fn suite<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Suite, D::Error> {
    Suite::try_from(u8::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

pub fn load() -> Vectors {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../vectors/aom-1.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

impl Vectors {
    /// Returns the ids that a producer must run, and checks that ids are unique.
    pub fn ids(&self, producer: &str) -> BTreeSet<String> {
        let all = (self.stamp.iter().map(|v| (&v.id, &v.producers)))
            .chain(self.derive.iter().map(|v| (&v.id, &v.producers)))
            .chain(self.receive.iter().map(|v| (&v.id, &v.producers)))
            .chain(self.frames.iter().map(|v| (&v.id, &v.producers)));
        let (mut ids, mut unique) = (BTreeSet::new(), BTreeSet::new());
        for (id, producers) in all {
            assert!(unique.insert(id), "{id} is not unique");
            for name in producers {
                assert!(["wire", "sequencer", "xdp", "rtl", "p4"].contains(&name.as_str()), "{id}: unknown producer {name}");
            }
            if producers.iter().any(|name| name == producer) {
                ids.insert(id.clone());
            }
        }
        ids
    }
}

impl Group {
    /// Returns the tag keys, derived from the exchange keys and compared with the vector.
    pub fn derive_tag_keys(&self, chain_id: u64) -> Vec<TagKey> {
        let sequencer = corniche_aom_wire::ExchangeKey::from_bytes(self.sequencer_x25519_secret.as_ref().unwrap().array());
        let publics = self.receiver_x25519_publics.as_ref().unwrap();
        let expected = self.tag_keys.as_ref().unwrap();
        assert_eq!((publics.len(), expected.len()), (usize::from(self.receivers), usize::from(self.receivers)));
        let derive = |(receiver, (public, expected)): (u16, (&Hex, &Hex))| {
            let scope = TagScope { chain_id, group: self.group, epoch: self.epoch, receiver, suite: self.suite };
            let key = derive_tag_key(&sequencer.agree(public.array()).unwrap(), scope).unwrap();
            assert_eq!(key.as_bytes(), &expected.0[..], "tag key of receiver {receiver}");
            key
        };
        (0..).zip(publics.iter().zip(expected)).map(derive).collect()
    }

    pub fn signing_key(&self) -> SigningKey {
        let key = SigningKey::from_bytes(self.suite, &self.signing_secret.as_ref().unwrap().array()).unwrap();
        assert_eq!(key.verifying_key().to_bytes(), self.public_key.as_ref().unwrap().0);
        key
    }

    /// Returns the sequencer of the group, at its first number.
    pub fn stamper(&self, chain_id: u64) -> Stamper {
        match self.suite.kind() {
            Kind::Hm => {
                let stamper = Stamper::hm(self.derive_tag_keys(chain_id)).unwrap();
                stamper.continue_after(self.first_seq - 1, [0; 32])
            }
            Kind::Pk => {
                let chain = self.chain.as_ref().unwrap();
                let stamper =
                    Stamper::pk(chain_id, self.group, self.epoch, self.signing_key(), self.sign_every.unwrap()).unwrap();
                assert_eq!(chain.prev_seq, self.first_seq - 1);
                let genesis = corniche_aom_wire::genesis_hash(chain_id, self.group, self.epoch);
                match chain.since_signed {
                    0 => assert_eq!((self.first_seq, chain.prev_hash.array()), (1, genesis)),
                    1 => return stamper.continue_after(chain.prev_seq, chain.prev_hash.array()),
                    more => panic!("a stamper cannot continue {more} packets after a signature"),
                }
                stamper
            }
        }
    }
}

/// Compares the request that a heartbeat equals.
pub fn check_heartbeat(step: &Step) {
    let request = Request::new(step.group.unwrap(), &[]).unwrap();
    assert_eq!(step.datagram.0, request.encode());
}
