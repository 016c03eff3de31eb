//! Notices to the staking contract by validators that do not follow the protocol there, but do so everywhere else.

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_crypto::{ConsensusKey, Domain, Signed};
use corniche_engine::{Batch, Committee};
use corniche_staking::{NoticeBody, NoticeSigner, Statement};
use corniche_testkit::Random;
use corniche_types::{B256, Bytes, evidence::tags};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Faults of one node that are active now.
#[derive(Debug, Default)]
pub struct Conduct {
    /// It signs no notices: it does not announce itself, deals nothing and acknowledges nothing.
    silent: AtomicBool,
    /// Its dealings are wrong.
    deals_badly: AtomicBool,
}

impl Conduct {
    pub fn set(&self, silent: bool, deals_badly: bool) {
        self.silent.store(silent, Ordering::Relaxed);
        self.deals_badly.store(deals_badly, Ordering::Relaxed);
    }
}

/// Signs notices unless the node is silent.
#[derive(Debug)]
pub struct Conducted {
    pub key: ConsensusKey,
    pub conduct: Arc<Conduct>,
}

impl NoticeSigner for Conducted {
    fn public(&self) -> B256 {
        self.key.public()
    }

    fn sign(&self, statement: &Statement, domain: &Domain) -> Option<[u8; 64]> {
        let is_silent = self.conduct.silent.load(Ordering::Relaxed);
        (!is_silent).then(|| NoticeSigner::sign(&self.key, statement, domain)).flatten()
    }
}

/// First byte of a notice in a batch (N1).
const MARKER: u8 = 0x7e;

/// Fields of a notice, which the staking crate keeps to itself.
#[derive(BorshSerialize, BorshDeserialize)]
struct RawNotice {
    chain_id: u64,
    epoch: u64,
    statement: Statement,
    signature: [u8; 64],
}

/// Spoils dealings in the batches that a node proposes.
pub struct BadDealer {
    key: ConsensusKey,
    conduct: Arc<Conduct>,
    domain: Domain,
    random: Random,
}

impl BadDealer {
    pub fn new(key: ConsensusKey, conduct: Arc<Conduct>, committee: &Committee, seed: u64) -> Self {
        let (chain_id, epoch, committee_hash) = (committee.chain_id(), committee.epoch(), committee.hash());
        let domain = Domain { tag: tags::NOTICE, chain_id, epoch, committee_hash };
        Self { key, conduct, domain, random: Random::new(seed).fork("dealer") }
    }

    /// Replaces the node's own dealing in a batch, if it deals badly now.
    pub fn spoil(&mut self, batch: &mut Batch) {
        if !self.conduct.deals_badly.load(Ordering::Relaxed) {
            return;
        }
        let mut entries = corniche_admission::batch::decode(&batch.bytes);
        let mut is_changed = false;
        for entry in &mut entries {
            if let Some(spoilt) = self.spoilt(entry) {
                (*entry, is_changed) = (spoilt, true);
            }
        }
        if is_changed {
            batch.bytes = corniche_admission::batch::encode(&entries).expect("invariant: entries keep their lengths");
        }
    }

    fn spoilt(&mut self, entry: &Bytes) -> Option<Bytes> {
        let (MARKER, rest) = entry.split_first().map(|(marker, rest)| (*marker, rest))? else { return None };
        let mut notice: RawNotice = borsh::from_slice(rest).ok()?;
        // Signatures are deterministic, so this one shows who made the notice.
        if self.sign(&notice.statement) != notice.signature {
            return None;
        }
        let NoticeBody::Deal(dealing) = &mut notice.statement.body else { return None };
        match self.random.below(4) {
            // Everybody refuses it.
            0 => dealing.commitments.swap(0, 1),
            // Nobody can read it.
            1 => dealing.ciphertexts.iter_mut().for_each(|value| value[0] ^= 1),
            // The dealer must show one value, and does.
            2 => dealing.ciphertexts.iter_mut().take(1).for_each(|value| value[0] ^= 1),
            // It must show more values than it may.
            _ => {
                let half = dealing.ciphertexts.len() / 2;
                dealing.ciphertexts.iter_mut().take(half).for_each(|value| value[0] ^= 1);
            }
        }
        notice.signature = self.sign(&notice.statement);
        let mut bytes = vec![MARKER];
        notice.serialize(&mut bytes).expect("writing into memory cannot fail");
        Some(bytes.into())
    }

    fn sign(&self, statement: &Statement) -> [u8; 64] {
        Signed::sign(statement.clone(), &self.key, &self.domain).signature
    }
}
