//! Signatures checked by f + 1 validators (decision 0025), with attesters that lie or stay silent.

use crate::{
    common::{Disk, USERS, genesis, transfer_from, user_number},
    engines::EngineKind,
    world::{Attesting, Cluster, VALIDATORS},
};
use corniche_types::{Address, B256, SignatureChecks};
use std::collections::BTreeMap;

/// A chain in which validators rely on each other's checks. Each of many users sends a few transactions to one validator.
/// Returns it with the senders of all transactions.
fn run(engine: EngineKind, validators: usize, false_attester: Option<Attesting>) -> (Cluster, BTreeMap<B256, Address>) {
    let mut genesis = genesis(validators);
    genesis.signatures = SignatureChecks::Sharded;
    let mut cluster = Cluster::with_genesis(engine, &[], &Disk::default(), genesis);
    cluster.false_attesters.extend(false_attester.map(|way| (3, way)));
    let mut senders = BTreeMap::new();
    for nonce in 0..3 {
        for number in 0..USERS {
            let user = user_number(number);
            let transaction = transfer_from(&user, nonce, 10);
            senders.insert(transaction.hash(), user.address());
            cluster.give(usize::from(number) % validators, &transaction);
            cluster.run_for(3);
        }
    }
    cluster.run_until(30_000, "executed and certified everywhere", Cluster::settled);
    (cluster, senders)
}

fn assert_right(cluster: &Cluster, senders: &BTreeMap<B256, Address>) {
    cluster.assert_agreement();
    for node in cluster.nodes.values() {
        let receipts = node.disk.blocks.iter().flat_map(|block| &block.receipts);
        let executed: BTreeMap<_, _> = receipts.map(|receipt| (receipt.transaction_hash, receipt.sender)).collect();
        assert_eq!(&executed, senders);
    }
}

fn checked_in_blocks(cluster: &Cluster) -> usize {
    cluster.nodes.values().map(|node| node.checked_in_blocks).sum()
}

/// A user's validator and the f + 1 first ones of the sender's order check a transaction. The others rely on them.
pub fn attestations_save_checks(engine: EngineKind) {
    for (validators, checkers) in [(4, 2), (7, 3)] {
        let (cluster, senders) = run(engine, validators, None);
        assert_right(&cluster, &senders);
        let checks = senders.len() + cluster.forwarded + checked_in_blocks(&cluster);
        assert!(checks <= senders.len() * (checkers + 1), "{validators}: {checks} checks of {} transactions", senders.len());
    }
}

pub fn wrong_attestations_change_nothing(engine: EngineKind) {
    let (cluster, senders) = run(engine, VALIDATORS, Some(Attesting::Wrongly));
    assert_right(&cluster, &senders);
}

pub fn missing_attestations_change_nothing(engine: EngineKind) {
    let in_blocks = [None, Some(Attesting::Never)].map(|false_attester| {
        let (cluster, senders) = run(engine, VALIDATORS, false_attester);
        assert_right(&cluster, &senders);
        checked_in_blocks(&cluster)
    });
    assert!(in_blocks[0] < in_blocks[1], "somebody needed the attestations that are missing: {in_blocks:?}");
}
