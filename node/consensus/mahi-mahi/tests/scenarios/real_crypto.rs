//! Whole committees with ed25519 and the BLS threshold coin.
#![cfg(feature = "real-crypto")]

use crate::cluster::{Cluster, Keys, Role, quick};
use corniche_crypto::{CoinPublicKeys, ConsensusKey, deal_coin};
use corniche_engine::{Committee, Unsigned};
use corniche_mahi_mahi::{
    Signer,
    crypto::{CommitteeSignatures, ThresholdCoin, ValidatorKeys},
};
use corniche_types::{Address, B256, Bytes, ValidatorInfo, Votes, evidence::Heading};
use std::{collections::BTreeSet, sync::Arc};

fn keys(votes: &[u32], quorum: u32) -> Keys {
    let size = votes.len();
    let consensus: Vec<_> =
        (0..size).map(|position| ConsensusKey::from_seed([u8::try_from(position).unwrap() + 1; 32])).collect();
    let validator = |(key, votes): (&ConsensusKey, &u32)| ValidatorInfo {
        consensus_key: key.public(),
        bls_key: Bytes::new(),
        bls_proof: Bytes::new(),
        network_key: B256::ZERO,
        fee_address: Address::ZERO,
        votes: Votes(*votes),
        stake: None,
    };
    let mut genesis = corniche_testkit::genesis("mahi-mahi", consensus.iter().zip(votes).map(validator).collect());
    let deal = deal_coin(&genesis.weights(), Votes(quorum), [9; 32]);
    (genesis.coin_public_key, genesis.coin_shares) = deal.public.to_genesis();
    let committee = Committee::from_genesis(&genesis);
    assert_eq!(committee.quorum(), Votes(quorum));
    let signer = |(key, share)| Arc::new(ValidatorKeys::new(&committee, key, Some(share)).unwrap()) as Arc<dyn Signer>;
    let signers = consensus.into_iter().zip(deal.shares).map(signer).collect();
    let signatures = Arc::new(CommitteeSignatures::new(&committee).unwrap());
    let coin = Arc::new(ThresholdCoin::new(&committee, CoinPublicKeys::from_genesis(&genesis).unwrap()));
    Keys { committee, signers, signatures, coin }
}

/// Signs blocks correctly, but its coin shares are of another message.
struct WrongShare(Arc<dyn Signer>);

impl Signer for WrongShare {
    fn index(&self) -> corniche_types::ValidatorIndex {
        self.0.index()
    }
    fn sign(&self, heading: &Heading, digest: &B256) -> Result<corniche_mahi_mahi::Signature, Unsigned> {
        self.0.sign(heading, digest)
    }
    fn coin_shares(&self, message: &[u8]) -> corniche_mahi_mahi::CoinShares {
        self.0.coin_shares(&[message, b"!"].concat())
    }
}

fn run(mut cluster: Cluster, users: usize) -> Cluster {
    let mut transactions = BTreeSet::new();
    for number in 0..12 {
        let transaction = format!("t{number}");
        cluster.submit(number % users, &transaction);
        transactions.insert(transaction);
        cluster.run_for(10);
    }
    let lacking = |cluster: &Cluster| {
        cluster.honest_nodes().any(|(node, _)| !transactions.is_subset(&cluster.delivered(node).into_iter().collect()))
    };
    assert!(cluster.run_while(5_000, lacking));
    cluster.assert_agreement();
    cluster
}

#[test]
fn four_validators_with_real_keys() {
    let mut cluster = run(Cluster::with_keys(&[Role::Honest; 4], keys(&[1; 4], 3), quick(), 1), 4);
    let commits = cluster.seen(2).log.len();
    cluster.crash(2);
    cluster.restart(2, commits / 2);
    run(cluster, 4);
}

#[test]
fn validators_with_several_votes_and_real_keys() {
    // W = 7, F = 2, Q = 5.
    let mut keys = keys(&[2, 2, 2, 1], 5);
    keys.signers[0] = Arc::new(WrongShare(keys.signers[0].clone()));
    let roles = [Role::BadShares, Role::Honest, Role::Honest, Role::Honest];
    let cluster = run(Cluster::with_keys(&roles, keys, quick(), 1), 4);
    assert!(!cluster.seen(1).accused.is_empty());
}

#[test]
fn lone_validator_opens_valid_coins() {
    let keys = keys(&[1], 1);
    let (signer, coin) = (keys.signers[0].clone(), keys.coin.clone());
    run(Cluster::with_keys(&[Role::Honest], keys, quick(), 1), 1);
    let value = coin.combine(b"round", &[(signer.index(), signer.coin_shares(b"round"))]).unwrap();
    assert!(coin.verify(b"round", &value) && !coin.verify(b"another", &value));
}

#[test]
fn real_coin_tolerates_wrong_share() {
    let mut keys = keys(&[1; 4], 3);
    keys.signers[0] = Arc::new(WrongShare(keys.signers[0].clone()));
    let roles = [Role::BadShares, Role::Honest, Role::Honest, Role::Honest];
    let cluster = run(Cluster::with_keys(&roles, keys, quick(), 1), 4);
    assert!(cluster.seen(1).accused.iter().all(|(validator, _)| validator.0 == 0));
    assert!(!cluster.seen(1).accused.is_empty());
}

#[test]
fn one_validator_with_real_keys() {
    run(Cluster::with_keys(&[Role::Honest], keys(&[1], 1), quick(), 1), 1);
}

#[test]
fn real_coin_tolerates_wrong_shares_and_jump() {
    // With 0's shares wrong, every coin needs 1, 2 and 3; 3 has no blocks for the rounds in which it was cut off.
    let mut keys = keys(&[1; 4], 3);
    keys.signers[0] = Arc::new(WrongShare(keys.signers[0].clone()));
    let roles = [Role::BadShares, Role::Honest, Role::Honest, Role::Honest];
    let mut cluster = run(Cluster::with_keys(&roles, keys, quick(), 2), 4);
    cluster.network().groups[3] = 1;
    (0..6).for_each(|number| {
        cluster.submit(1, &format!("cut-{number}"));
        cluster.run_for(20);
    });
    let stuck = cluster.seen(1).log.len();
    cluster.run_for(200);
    assert_eq!(cluster.seen(1).log.len(), stuck, "two good shares open nothing");
    cluster.network().groups[3] = 0;
    cluster.connect(3);
    let lacking = |cluster: &Cluster| {
        let mut honest = cluster.honest_nodes();
        honest.any(|(node, _)| !cluster.delivered(node).contains(&"cut-5".to_owned()))
    };
    assert!(cluster.run_while(5_000, lacking));
    assert!(cluster.seen(1).accused.iter().all(|(validator, _)| validator.0 == 0));
}
