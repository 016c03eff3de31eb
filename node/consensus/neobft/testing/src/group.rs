//! A simulated sequencer with faults, and the configuration service that installs it (E2, E3).

use crate::FakeSignatures;
use corniche_aom_wire::{Request, SigningKey, Stamper, Suite, TagKey, TagScope};
use corniche_engine::{Committee, SequencerKey};
use corniche_neobft::{Config, NeobftVerifier, Signatures, verify::check_epoch_certificate};
use corniche_testkit::{Group, Micros, derive_bytes};
use corniche_types::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// By default, suites 4 and 5 sign every packet of this number.
const SIGN_EVERY: u32 = 4;

/// Decides the loss of one packet at one receiver, by sequence number and receiver.
pub type Loss = Box<dyn FnMut(u64, usize) -> bool>;

/// Faults of the sequencer. They end when it is replaced, except loss.
#[derive(Default)]
pub struct Faults {
    /// It stamps nothing.
    pub is_silent: bool,
    /// It passes over this many numbers, once.
    pub jump: u64,
    /// Every packet arrives twice.
    pub duplicates: bool,
    /// It shows these receivers another payload with the same number.
    pub equivocates_to: BTreeSet<usize>,
}

/// The multicast group of one run.
pub struct ModelledGroup {
    chain_id: u64,
    group: u32,
    receivers: usize,
    suite: Suite,
    sign_every: u32,
    stamper: Stamper,
    pub faults: Faults,
    pub loss: Option<Loss>,
    /// One delay for a sequencer on a host; zero for one in the path.
    pub extra_delay: Micros,
    /// Time in which the service installs a sequencer.
    pub install_delay: Micros,
    installing: Option<(Micros, u32)>,
    verifier: NeobftVerifier,
    /// The service hears nobody. Keys are derived at the validators, so they get them even so.
    pub is_unreachable: bool,
    /// Requests for each epoch's sequencer that reached the service.
    pub asked: BTreeMap<u32, usize>,
    /// Requests to replace the sequencer that were not justified.
    pub refused: usize,
}

impl ModelledGroup {
    /// The members have [`crate::FakeKeys`].
    pub fn new(committee: &Committee, config: &Config, suite: Suite) -> Self {
        Self::with_keys(committee, config, suite, SIGN_EVERY, Arc::new(FakeSignatures))
    }

    /// `signatures` checks epoch certificates. Suites 4 and 5 sign every `sign_every`-th packet, at least 1.
    pub fn with_keys(
        committee: &Committee,
        config: &Config,
        suite: Suite,
        sign_every: u32,
        signatures: Arc<dyn Signatures>,
    ) -> Self {
        let (chain_id, group, receivers) = (committee.chain_id(), config.group, committee.size());
        Self {
            chain_id,
            group,
            receivers,
            suite,
            sign_every,
            stamper: stamper(chain_id, group, receivers, suite, sign_every, 0),
            faults: Faults::default(),
            loss: None,
            extra_delay: Micros::ZERO,
            install_delay: Micros::from_millis(50),
            installing: None,
            is_unreachable: false,
            asked: BTreeMap::new(),
            verifier: NeobftVerifier::new(config.clone(), committee.clone(), signatures),
            refused: 0,
        }
    }

    /// Epoch of the installed sequencer.
    pub fn epoch(&self) -> u32 {
        self.stamper.epoch()
    }

    /// Number of the last packet in its epoch.
    pub fn seq(&self) -> u64 {
        self.stamper.seq()
    }

    fn install_if_due(&mut self, now: Micros) {
        if let Some((_, epoch)) = self.installing.take_if(|(at, _)| *at <= now) {
            self.stamper = self.stamper_of(epoch);
            self.faults = Faults::default();
        }
    }

    fn stamper_of(&self, epoch: u32) -> Stamper {
        stamper(self.chain_id, self.group, self.receivers, self.suite, self.sign_every, epoch)
    }

    fn key(&self, receiver: usize, epoch: u32) -> SequencerKey {
        let key = match self.suite {
            Suite::Ecdsa | Suite::Ed25519 => signing_key(self.suite, epoch).verifying_key().to_bytes().into(),
            _ => tag_key(self.chain_id, self.group, self.suite, epoch, receiver as u16).as_bytes().to_vec().into(),
        };
        SequencerKey { group: self.group, epoch, suite: self.suite as u8, key }
    }

    fn stamp_one(&mut self, request: &Request<'_>) -> Vec<Bytes> {
        let mut packets: Vec<Bytes> = self.stamper.stamp(request).unwrap_or_default().into_iter().map(Bytes::from).collect();
        if self.stamper.owes_signature() && self.stamper.seq().is_multiple_of(2) {
            packets.extend(self.stamper.heartbeat().unwrap_or_default().into_iter().map(Bytes::from));
        }
        packets
    }
}

impl Group for ModelledGroup {
    fn stamp(&mut self, now: Micros, request: &Bytes) -> Vec<Vec<Bytes>> {
        self.install_if_due(now);
        let Ok(request) = Request::decode(request) else { return Vec::new() };
        if self.faults.is_silent || request.group != self.group {
            return Vec::new();
        }
        let jump = std::mem::take(&mut self.faults.jump);
        (0..jump).for_each(|_| _ = self.stamper.heartbeat());
        let before = self.stamper.seq();
        let packets = self.stamp_one(&request);
        let mut other = Vec::new();
        if !self.faults.equivocates_to.is_empty() {
            let fork = self.stamper_of(self.stamper.epoch());
            let request = Request::new(self.group, b"another").expect("a short payload");
            other =
                fork.continue_after(before, [0; 32]).stamp(&request).unwrap_or_default().into_iter().map(Bytes::from).collect();
        }
        let copies = if self.faults.duplicates { 2 } else { 1 };
        let mut out = Vec::new();
        for receiver in 0..self.receivers {
            let is_lost = self.loss.as_mut().is_some_and(|loss| loss(before + 1, receiver));
            let shown = if self.faults.equivocates_to.contains(&receiver) { &other } else { &packets };
            out.push(if is_lost { Vec::new() } else { shown.iter().cycle().take(copies * shown.len()).cloned().collect() });
        }
        out
    }

    fn extra_delay(&self) -> Micros {
        self.extra_delay
    }

    /// The key comes at once, whatever the service does. It acts once for each epoch, and only with a certificate: f validators
    /// cannot force a failover (E2).
    fn ask(&mut self, now: Micros, receiver: usize, epoch: u32, certificate: &Bytes) -> Option<(Micros, SequencerKey)> {
        self.install_if_due(now);
        let key = Some((now, self.key(receiver, epoch)));
        if self.is_unreachable {
            return key;
        }
        *self.asked.entry(epoch).or_default() += 1;
        if epoch <= self.stamper.epoch() {
            return key;
        }
        if check_epoch_certificate(&self.verifier, certificate).is_none_or(|certified| certified < epoch) {
            self.refused += 1;
            return None;
        }
        if self.installing.is_none_or(|(_, installing)| installing < epoch) {
            self.installing = Some((now + self.install_delay, epoch));
        }
        key
    }

    fn keys(&mut self, now: Micros, receiver: usize) -> Vec<SequencerKey> {
        self.install_if_due(now);
        let newest = self.stamper.epoch();
        (newest.saturating_sub(3)..=newest).map(|epoch| self.key(receiver, epoch)).collect()
    }
}

fn tag_key(chain_id: u64, group: u32, suite: Suite, epoch: u32, receiver: u16) -> TagKey {
    let bytes: [u8; 16] = derive_bytes("aom-tag", receiver, &epoch.to_le_bytes());
    let scope = TagScope { chain_id, group, epoch, receiver, suite };
    TagKey::from_bytes(scope, &bytes[..suite.tag_key_bytes()]).expect("a key of the right size")
}

fn signing_key(suite: Suite, epoch: u32) -> SigningKey {
    SigningKey::from_bytes(suite, &derive_bytes("aom-signing", 0, &epoch.to_le_bytes())).expect("a key of the suite")
}

fn stamper(chain_id: u64, group: u32, receivers: usize, suite: Suite, sign_every: u32, epoch: u32) -> Stamper {
    match suite {
        Suite::Ecdsa | Suite::Ed25519 => Stamper::pk(chain_id, group, epoch, signing_key(suite, epoch), sign_every),
        _ => {
            let keys = (0..receivers as u16).map(|receiver| tag_key(chain_id, group, suite, epoch, receiver));
            Stamper::hm(keys.collect())
        }
    }
    .expect("keys of one epoch")
}
