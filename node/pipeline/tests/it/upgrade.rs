//! A chain with the first rules activates later ones at a height, with nodes restarted around it (decision
//! 0018).

use crate::common::{Node, exchange, genesis, transfer};
use corniche_types::{Block, Genesis, Height, Upgrade, keccak256};

const ACTIVATION: u64 = 4;

/// Genesis of version 1, without upgrades.
fn first_rules() -> Genesis {
    Genesis { protocol_version: 1, ..genesis(1) }
}

fn upgraded() -> Genesis {
    Genesis { upgrades: vec![Upgrade { height: ACTIVATION, protocol_version: 2 }], ..first_rules() }
}

/// Makes one block per transaction.
fn make_blocks(validator: &mut Node, nonces: std::ops::Range<u64>) {
    nonces.for_each(|nonce| validator.submit(transfer(nonce)));
}

fn versions(node: &Node) -> Vec<u32> {
    node.disk.blocks.iter().map(|block| block.block.ordering.protocol_version).collect()
}

fn connect(validator: &mut Node, full: &mut Node) {
    validator.connect(full, None);
    full.connect(validator, Some(0));
    exchange(validator, full);
    full.wait(1_000);
    exchange(validator, full);
}

fn restart_full(node: Node, genesis: &Genesis) -> Node {
    Node::start(node.key[0], genesis, genesis, None, node.disk, node.now)
}

#[test]
fn upgrade_keeps_genesis_hash_and_committee() {
    assert_eq!(first_rules().hash(), upgraded().hash());
    assert_eq!(first_rules().committee_hash(), upgraded().committee_hash());
}

#[test]
fn followers_cross_the_activation() {
    let mut validator = Node::new(1, &upgraded(), Some(0));
    make_blocks(&mut validator, 0..6);
    assert_eq!(versions(&validator), [1, 1, 1, 2, 2, 2]);
    let mut late = Node::new(2, &upgraded(), None);
    connect(&mut validator, &mut late);
    assert_eq!(late.hashes(), validator.hashes());
    assert_eq!(late.halted, None);
}

/// Records get heads at the activation of version 5, also on nodes that follow or recover.
#[test]
fn records_get_heads_at_the_activation() {
    let upgrades = vec![Upgrade { height: ACTIVATION, protocol_version: 5 }];
    let genesis = Genesis { protocol_version: 4, upgrades, ..genesis(1) };
    let mut validator = Node::new(1, &genesis, Some(0));
    make_blocks(&mut validator, 0..6);
    for committed in &validator.disk.blocks {
        let Block { header, ordering, .. } = &committed.block;
        assert_eq!(ordering.has_head(), header.number >= ACTIVATION);
        assert_eq!(header.extra_data, keccak256(ordering.encode_hashed()).to_vec());
    }
    let mut late = Node::new(2, &genesis, None);
    connect(&mut validator, &mut late);
    assert_eq!(late.hashes(), validator.hashes());
    let mut late = restart_full(late, &genesis);
    connect(&mut validator, &mut late);
    assert_eq!((late.hashes(), late.halted), (validator.hashes(), None));
}

#[test]
fn node_without_upgrade_halts() {
    let mut validator = Node::new(1, &upgraded(), Some(0));
    make_blocks(&mut validator, 0..ACTIVATION - 1);
    let mut old = Node::new(2, &first_rules(), None);
    connect(&mut validator, &mut old);
    assert_eq!(old.hashes(), validator.hashes(), "up to the activation both follow the same rules");
    make_blocks(&mut validator, ACTIVATION - 1..6);
    exchange(&mut validator, &mut old);
    let reason = old.halted.clone().expect("it cannot go on").reason;
    assert!(reason.starts_with(&format!("block {ACTIVATION}: certified under protocol version 2, got 1")), "{reason}");
    assert_eq!(old.disk.blocks.len() as u64, ACTIVATION - 1, "nothing was executed under the wrong rules");
    let mut new = restart_full(old, &upgraded());
    connect(&mut validator, &mut new);
    assert_eq!(new.hashes(), validator.hashes());
    assert_eq!(new.pipeline.target(), Height(6));
}
