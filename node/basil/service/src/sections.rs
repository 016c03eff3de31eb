//! Certified blocks for a gateway that was away for longer than the replicas remember: another gateway sends them, and the certificate proves
//! them.

use crate::keys::MemberKeys;
use crate::ledger::{Records, lists};
use crate::mail::Mail;
use crate::members::Members;
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_basil::attestation::{Attestation, CheckedRoots, Checker, Decision};
use corniche_basil::certificate::{Decided, check_closed};
use corniche_basil::message::Peer;
use corniche_crypto::VerifiedTransaction;
use corniche_network::{NetworkHandle, PeerKey};
use corniche_types::{B256, Bytes, Height, wire};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

/// Blocks that one certificate covers.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Section {
    pub first: u64,
    /// Transactions of each block, in order.
    pub blocks: Vec<Vec<Decided>>,
    pub certificate: Vec<Attestation>,
}

impl Section {
    /// The section of a block, for a gateway that asked with [`Fetcher::fetch`].
    pub fn answer(records: &Records, question: &[u8]) -> Option<Bytes> {
        let height: u64 = wire::decode(question).ok()?;
        let (blocks, certificate) = records.certificate(Height(height))?;
        let first = *blocks.start();
        let blocks = blocks.map(|number| records.decided(Height(number))).collect();
        Some(wire::encode(&Self { first, blocks, certificate }).into())
    }

    pub fn last(&self) -> u64 {
        self.first + self.blocks.len() as u64 - 1
    }

    /// Checks that the section contains a block, and exactly the committed transactions of its blocks. `start_us` is the beginning of a
    /// block's interval.
    pub fn check(
        &self,
        height: u64,
        members: &Members,
        signatures: &MemberKeys,
        start_us: impl Fn(u64) -> u64,
    ) -> Result<(), String> {
        if self.blocks.is_empty() || self.first == 0 || !(self.first..=self.last()).contains(&height) {
            return Err(format!("section: expected one with block {height}"));
        }
        let mut roots = CheckedRoots::default();
        let mut checker = Checker::new(&members.shards, signatures, &mut roots);
        let mut before = None;
        for (number, decided) in (self.first..).zip(&self.blocks) {
            let interval = start_us(number)..start_us(number + 1);
            for one in decided {
                one.check(&mut checker).map_err(|error| error.to_string())?;
                let position = (one.transaction.timestamp, one.transaction.id(&members.shards));
                let is_next = before < Some(position) && interval.contains(&position.0.time_us);
                if !is_next || one.decision() != Decision::Commit {
                    return Err(format!("section: expected committed transactions in order in block {number}"));
                }
                before = Some(position);
            }
        }
        let lists = lists(members, self.blocks.iter().flatten().cloned());
        let (from_us, below_us) = (start_us(self.first), start_us(self.last() + 1));
        check_closed(from_us, below_us, &lists, &self.certificate, &mut checker).map_err(|error| error.to_string())
    }
}

/// Requests of a gateway's own process.
pub enum Own {
    Submit(VerifiedTransaction),
    Fetched(Box<Section>),
}

/// Asks other gateways.
pub struct Fetcher {
    pub runtime: tokio::runtime::Handle,
    pub network: NetworkHandle,
    pub members: Arc<Members>,
    pub mail: SyncSender<Mail<Own>>,
    /// Name of this gateway.
    pub own: B256,
}

impl Fetcher {
    /// Asks all connected gateways for the section of a block. Each response comes as [`Own::Fetched`].
    pub fn fetch(&self, height: Height) {
        let others = self.members.gateways().filter(|gateway| *gateway != self.own);
        let keys: Vec<PeerKey> = others.filter_map(|gateway| self.members.network_key(Peer::Client(gateway))).collect();
        for key in keys.into_iter().filter(|key| self.network.is_up(key)) {
            let (network, mail) = (self.network.clone(), self.mail.clone());
            let question = Bytes::from(wire::encode(&height.0));
            self.runtime.spawn(async move {
                let Ok(answer) = network.request(key, question).await else { return };
                if let Ok(section) = wire::decode::<Section>(&answer) {
                    // A full queue means that the gateway has enough to do, and asks again.
                    let _ = mail.try_send(Mail::Own(Own::Fetched(Box::new(section))));
                }
            });
        }
    }
}
