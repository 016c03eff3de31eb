//! Certified blocks for a gateway that was away for longer than the replicas remember: another gateway sends them, and the certificate proves
//! them.

use crate::archive::Archive;
use crate::ledger::lists;
use crate::mail::Mail;
use crate::members::Members;
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_basil::attestation::{Attestation, CheckedRoots, Checker, Decision, Signatures};
use corniche_basil::certificate::Decided;
use corniche_basil::closed::{check_closed, list_hash};
use corniche_basil::message::Peer;
use corniche_basil::shards::Shards;
use corniche_crypto::VerifiedTransaction;
use corniche_network::{NetworkHandle, PeerKey};
use corniche_types::{B256, Bytes, Height, wire};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

/// Blocks that one certificate covers.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct CertifiedBlocks {
    pub first: u64,
    /// Transactions of each block, in order.
    pub blocks: Vec<Vec<Decided>>,
    pub certificate: Vec<Attestation>,
}

impl CertifiedBlocks {
    /// Response to a question of [`Fetcher::fetch`].
    pub fn answer(archive: &Archive, question: &[u8]) -> Option<Bytes> {
        let height: u64 = wire::decode(question).ok()?;
        let (blocks, certificate) = archive.certificate(Height(height))?;
        let first = *blocks.start();
        let blocks = blocks.map(|number| archive.decided(Height(number)).ok()).collect::<Option<_>>()?;
        Some(wire::encode(&Self { first, blocks, certificate }).into())
    }

    pub fn last(&self) -> u64 {
        (self.first + self.blocks.len() as u64).saturating_sub(1)
    }

    /// True if the block is among these.
    pub fn has(&self, height: Height) -> bool {
        self.first > 0 && !self.blocks.is_empty() && (self.first..=self.last()).contains(&height.0)
    }

    /// Checks that these are exactly the committed transactions of the blocks. `start_us` is the beginning of a block's interval.
    ///
    /// # Errors
    ///
    /// The first rule that is broken.
    pub fn check(&self, shards: &Shards, signatures: &dyn Signatures, start_us: impl Fn(u64) -> u64) -> Result<(), String> {
        let mut roots = CheckedRoots::default();
        let mut checker = Checker::new(shards, signatures, &mut roots);
        let mut before = None;
        for (number, decided) in (self.first..).zip(&self.blocks) {
            let interval = start_us(number)..start_us(number + 1);
            for one in decided {
                one.check(&mut checker).map_err(|error| error.to_string())?;
                let position = (one.transaction.timestamp, one.transaction.id(shards));
                let is_next = before < Some(position) && interval.contains(&position.0.time_us);
                if !is_next || one.decision() != Decision::Commit {
                    return Err(format!("block {number}: expected committed transactions of its interval, in order"));
                }
                before = Some(position);
            }
        }
        let lists = lists(shards, self.blocks.iter().flatten());
        let lists = lists.into_iter().map(|(shard, list)| (shard, list_hash(shards, &list))).collect();
        let (from_us, below_us) = (start_us(self.first), start_us(self.last() + 1));
        check_closed(from_us, below_us, &lists, &self.certificate, &mut checker).map_err(|error| error.to_string())
    }
}

/// Requests of a gateway's own process.
pub enum Request {
    Submit(VerifiedTransaction),
    /// The pool dropped or replaced it.
    Forget(B256),
    Fetched(Box<CertifiedBlocks>),
}

/// Asks other gateways.
pub struct Fetcher {
    pub runtime: tokio::runtime::Handle,
    pub network: NetworkHandle,
    pub members: Arc<Members>,
    pub mail: SyncSender<Mail<Request>>,
    /// Name of this gateway.
    pub own: B256,
}

impl Fetcher {
    /// Asks all connected gateways for the certificate of a block, and its blocks. Each response comes as [`Request::Fetched`].
    pub fn fetch(&self, height: Height) {
        let others = self.members.gateways().filter(|gateway| *gateway != self.own);
        let keys: Vec<PeerKey> = others.filter_map(|gateway| self.members.network_key(Peer::Client(gateway))).collect();
        for key in keys.into_iter().filter(|key| self.network.is_up(key)) {
            let (network, mail) = (self.network.clone(), self.mail.clone());
            let question = Bytes::from(wire::encode(&height.0));
            self.runtime.spawn(async move {
                let Ok(answer) = network.request(key, question).await else { return };
                if let Ok(blocks) = wire::decode::<CertifiedBlocks>(&answer) {
                    // A full queue means that the gateway has enough to do, and asks again.
                    let _ = mail.try_send(Mail::Own(Request::Fetched(Box::new(blocks))));
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_basil::config::Config;
    use corniche_basil_testing::{Keys, START, World, client_id};

    const BLOCK_US: u64 = 1_000_000;

    fn start_us(number: u64) -> u64 {
        START * 1_000 + (number - 1) * BLOCK_US
    }

    /// Three blocks of two shards, with a certificate.
    fn certified() -> (World, CertifiedBlocks) {
        let mut world = World::new(2, 2, Config { close_ms: 1_000, close_after_ms: 500, ..Config::default() }, 1);
        let (alice, exporter) = (client_id(0), client_id(1));
        let keys = world.keys_on_each_shard();
        for salt in 0..6 {
            let touched = if salt % 2 == 0 { &keys[..] } else { &keys[..1] };
            let timestamp = world.execute(alice, touched);
            let id = world.commit(alice, timestamp, touched, salt);
            world.wait(alice, id);
            world.run(400);
        }
        world.run(5_000);
        let (from_us, below_us) = (start_us(1), start_us(4));
        world.export(exporter, from_us, below_us).unwrap();
        let exported = world.clients[&exporter].exported[&(from_us, below_us)].clone();
        let blocks: Vec<Vec<Decided>> = (1..4)
            .map(|number| {
                let is_inside = |one: &&corniche_basil::shared::Shared<Decided>| {
                    (start_us(number)..start_us(number + 1)).contains(&one.transaction.timestamp.time_us)
                };
                exported.iter().filter(is_inside).map(|one| (**one).clone()).collect()
            })
            .collect();
        assert!(blocks.iter().any(|block| block.len() > 1), "some block has an order");
        let lists = lists(&world.shards, blocks.iter().flatten());
        world.with_client(exporter, |client, now| assert!(client.certify(now, from_us, below_us, lists)));
        world.run(5_000);
        let certificate = world.clients[&exporter].certified[&(from_us, below_us)].clone();
        (world, CertifiedBlocks { first: 1, blocks, certificate })
    }

    #[test]
    fn only_whole_blocks_with_their_certificate_pass() {
        let (world, whole) = certified();
        let check = |blocks: &CertifiedBlocks| blocks.check(&world.shards, &Keys, start_us);
        assert_eq!(check(&whole), Ok(()));
        assert!(whole.has(Height(3)) && !whole.has(Height(4)) && !whole.has(Height(0)));
        let busy = whole.blocks.iter().position(|block| block.len() > 1).unwrap();
        let tampered = |change: &dyn Fn(&mut CertifiedBlocks)| {
            let mut blocks = whole.clone();
            change(&mut blocks);
            check(&blocks).expect_err("it is changed")
        };
        // Omitted, reordered, repeated, moved, without votes, and with too few signatures.
        assert!(tampered(&|blocks| _ = blocks.blocks[busy].pop()).contains("expected statements"));
        assert!(tampered(&|blocks| blocks.blocks[busy].reverse()).contains("in order"));
        assert!(
            tampered(&|blocks| {
                let again = blocks.blocks[busy][0].clone();
                blocks.blocks[busy].insert(1, again);
            })
            .contains("in order")
        );
        assert!(tampered(&|blocks| blocks.first += 1).contains("of its interval"));
        assert!(
            tampered(&|blocks| {
                let corniche_basil::certificate::Certificate::FastCommit(votes) = &mut blocks.blocks[busy][0].certificate
                else {
                    panic!("nobody is silent")
                };
                votes.pop();
            })
            .contains("votes")
        );
        assert!(tampered(&|blocks| _ = blocks.certificate.pop()).contains("votes"));
        assert!(!CertifiedBlocks { first: 0, blocks: Vec::new(), certificate: Vec::new() }.has(Height(0)));
    }
}
