//! The protocol with ed25519 keys in place of modelled ones.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

use corniche_basil::attestation::{CheckedRoots, Checker, Decision, Signatures, Signer, Statement, attest};
use corniche_basil::certificate::{Certificate, CertificateError, Decided};
use corniche_basil::client::{Client, Output as ClientOutput};
use corniche_basil::config::Config;
use corniche_basil::message::{Message, Peer};
use corniche_basil::replica::{Input, Output, Replica, Setup};
use corniche_basil::shards::{Key, ReplicaId, Shards};
use corniche_basil::shared::Shared;
use corniche_basil::transaction::{Signature, TransactionError};
use corniche_basil::verify::Verifier;
use corniche_basil_testing::{Mixer, call, key, mixed};
use corniche_crypto::{ConsensusKey, ConsensusPublicKey, Domain, Signed};
use corniche_types::{B256, Epoch, TimestampMs};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const NOW: TimestampMs = TimestampMs(1_700_000_000_000);

fn domain() -> Domain {
    Domain { tag: "corniche-basil-test", chain_id: 7, epoch: Epoch(0), committee_hash: B256::ZERO }
}

struct RealSigner(ConsensusKey);

impl Signer for RealSigner {
    fn sign(&self, digest: &B256) -> Signature {
        self.0.sign(digest, &domain())
    }
}

struct RealSignatures;

impl Signatures for RealSignatures {
    fn verify(&self, key: &B256, digest: &B256, signature: &Signature) -> bool {
        let signed = Signed { payload: *digest, signature: *signature };
        ConsensusPublicKey::parse(key).is_some_and(|key| signed.verify(&key, &domain()).is_ok())
    }
}

fn secret(replica: ReplicaId) -> ConsensusKey {
    let mut seed = [1; 32];
    (seed[0], seed[1]) = (replica.shard.0 as u8, replica.member as u8);
    ConsensusKey::from_seed(seed)
}

fn client_secret() -> ConsensusKey {
    ConsensusKey::from_seed([9; 32])
}

fn two_shards() -> Arc<Shards> {
    let member = |shard, member| secret(ReplicaId { shard: corniche_basil::shards::ShardId(shard), member }).public();
    let members = (0..2).map(|shard| (0..6).map(|index| member(shard, index)).collect()).collect();
    Arc::new(Shards::new(7, 0, 1, members).unwrap())
}

/// Runs one transaction of an honest client over honest replicas, without delays.
fn decide(shards: &Arc<Shards>, keys: &[Key]) -> Shared<Decided> {
    let config = Config { reply_batch: 1, reply_delay_ms: 0, ..Config::default() };
    let verifier = || Verifier::new(Arc::clone(shards), Arc::new(RealSignatures));
    let start = |id: ReplicaId| {
        let signer = Arc::new(RealSigner(secret(id)));
        let (config, shards, program) = (config.clone(), Arc::clone(shards), Arc::new(Mixer));
        Replica::new(NOW, Setup { config, shards, id, signer, program, genesis: vec![], genesis_us: 0, records: vec![] })
    };
    let all = shards.ids().flat_map(|shard| shards.replicas(shard));
    let mut replicas: BTreeMap<_, _> = all.map(|id| (id, (start(id), verifier()))).collect();
    let id = client_secret().public();
    let signer = Arc::new(RealSigner(client_secret()));
    let (mut client, mut checks) = (Client::new(config.clone(), Arc::clone(shards), id, signer, 0), verifier());
    let timestamp = client.begin(NOW);
    keys.iter().for_each(|key| client.read(NOW, timestamp, key.clone()));
    let mut messages: VecDeque<(Peer, Peer, Arc<Message>)> = VecDeque::new();
    let mut is_proposed = false;
    loop {
        while let Some(output) = client.poll() {
            match output {
                ClientOutput::Send { to, message } => messages.push_back((Peer::Client(id), to, message)),
                ClientOutput::Finished { decided, .. } => return decided,
                _ => {}
            }
        }
        let reads = client.reads(timestamp);
        if !is_proposed && reads.len() == keys.len() {
            is_proposed = true;
            client.commit(NOW, timestamp, mixed(&reads, keys, 1), call(keys, 1)).unwrap();
            continue;
        }
        let (from, to, message) = messages.pop_front().expect("the transaction is decided");
        let Peer::Replica(to) = to else {
            client.handle(NOW, checks.check(from, (*message).clone()).unwrap());
            continue;
        };
        let (replica, verifier) = replicas.get_mut(&to).unwrap();
        let checked = verifier.check(from, (*message).clone()).unwrap();
        replica.handle(NOW, Input::Message(Box::new(checked)));
        while let Some(output) = replica.poll() {
            match output {
                Output::Send { to: peer, message } => messages.push_back((Peer::Replica(to), peer, message)),
                Output::Persist(ticket, _) => replica.handle(NOW, Input::Durable(ticket)),
                Output::Behind => panic!("nobody is away here"),
                Output::Decided(_) => {}
            }
        }
    }
}

fn check(shards: &Shards, decided: &Decided) -> Result<(), CertificateError> {
    decided.check(&mut Checker::new(shards, &RealSignatures, &mut CheckedRoots::default()))
}

#[test]
fn a_transaction_over_two_shards_is_decided_and_proven() {
    let shards = two_shards();
    let on = |shard| (0..).map(key).find(|key| shards.shard_of(key) == shard).unwrap();
    let mut keys: Vec<_> = shards.ids().map(on).collect();
    keys.sort();
    let decided = decide(&shards, &keys);
    assert_eq!(decided.decision(), Decision::Commit);
    assert_eq!(decided.transaction.involved(&shards).len(), 2);
    assert_eq!(check(&shards, &decided), Ok(()));

    let Certificate::FastCommit(votes) = &decided.certificate else { panic!("expected the fast path") };
    assert_eq!(votes.len(), 12);
    // One vote is signed by another key.
    let Statement::Vote { id, vote } = votes[3].statement else { unreachable!() };
    let stranger = RealSigner(ConsensusKey::from_seed([77; 32]));
    let mut votes = votes.clone();
    votes[3] = attest(&shards, votes[3].replica, &stranger, vec![Statement::Vote { id, vote }]).remove(0);
    let replica = votes[3].replica;
    let forged = Decided { certificate: Certificate::FastCommit(votes), ..(*decided).clone() };
    assert_eq!(check(&shards, &forged), Err(CertificateError::Signature(replica)));

    // The client did not sign it.
    let mut transaction = (*decided.transaction).clone();
    transaction.signature = stranger.sign(&id);
    let stolen = Decided { transaction: Shared::new(transaction), ..(*decided).clone() };
    assert_eq!(check(&shards, &stolen), Err(CertificateError::Transaction(TransactionError::Signature)));
}

#[test]
fn a_batch_of_replies_has_one_signature() {
    let shards = two_shards();
    let replica = shards.replicas(corniche_basil::shards::ShardId(1)).nth(4).unwrap();
    let statement = |number| Statement::View { id: B256::with_last_byte(number), view: 0 };
    let replies = attest(&shards, replica, &RealSigner(secret(replica)), (0..16).map(statement).collect());
    let mut roots = CheckedRoots::default();
    let mut checker = Checker::new(&shards, &RealSignatures, &mut roots);
    assert!(replies.iter().all(|reply| checker.is_signed(reply)));
    let mut foreign = replies[0].clone();
    foreign.replica.member = 3;
    assert!(!checker.is_signed(&foreign));
    assert_eq!(roots.verifications, 2);
}
