//! Protocol versions begin with an epoch, when enough of its members announced them (validators.md §9).

use crate::{
    common::{Disk, Node, add_stake, genesis as plain_genesis},
    engines::EngineKind,
    epochs::{EPOCH_MS, epoch, genesis, is_ordering, load_until, settle},
    world::{Cluster, VALIDATORS},
};
use corniche_pipeline::{HaltCause, version_votes};
use corniche_types::{Genesis, Height, KnownVersions, ProtocolRules, StakingParameters, Votes};

/// Version with which the chain begins.
const FIRST: u32 = ProtocolRules::LATEST.version;
/// The next one. No build has it yet, so here it differs in its number only.
const NEXT: u32 = FIRST + 1;

const OLD_BUILD: KnownVersions = KnownVersions::of_build(&[ProtocolRules { version: FIRST, ..ProtocolRules::V5 }]);
const NEW_BUILD: KnownVersions = KnownVersions::of_build(&[
    ProtocolRules { version: FIRST, ..ProtocolRules::V5 },
    ProtocolRules { version: NEXT, ..ProtocolRules::V5 },
]);

fn old_cluster(engine: EngineKind, genesis: Genesis) -> Cluster {
    Cluster::with_genesis(engine, &[], &Disk { known: OLD_BUILD, ..Disk::default() }, genesis)
}

/// Restarts a node with another build, which announces this version at most.
fn install(cluster: &mut Cluster, index: usize, known: KnownVersions, max_version: Option<u32>) {
    cluster.kill(index);
    let disk = cluster.disks.get_mut(&index).unwrap();
    (disk.known, disk.max_version) = (known, max_version);
    cluster.start(index);
}

/// Loads the cluster until these nodes have ended so many more epochs than the first one now.
fn load_epochs(cluster: &mut Cluster, nodes: std::ops::Range<usize>, epochs: u64) {
    let reached = epoch(&cluster.nodes[&0]).0 + epochs;
    for _ in 0..400 {
        if nodes.clone().all(|index| epoch(&cluster.nodes[&index]).0 >= reached) {
            return;
        }
        cluster.load();
    }
    panic!("epoch {reached} not reached: {:?}", cluster.progress());
}

/// Height of the block that begins the next version. Checks that this block ends an epoch, and that all blocks above it have the
/// version, and no others.
fn upgraded_at(node: &Node) -> Option<Height> {
    let mut upgraded = None;
    for block in &node.disk.blocks {
        let record = &block.block.ordering;
        let version = if upgraded.is_some() { NEXT } else { FIRST };
        assert_eq!(record.protocol_version, version, "block {}", block.block.height());
        if record.next.as_ref().is_some_and(|next| next.protocol_version == NEXT) {
            upgraded.get_or_insert(block.block.height());
        }
    }
    upgraded
}

/// F is 1, so nobody may be missing. A member can withhold its vote by configuration (U5).
pub fn upgrade_needs_all_of_four(engine: EngineKind) {
    let mut cluster = old_cluster(engine, genesis());
    load_until(&mut cluster, 1);
    for index in 0..3 {
        install(&mut cluster, index, NEW_BUILD, None);
        settle(&mut cluster);
    }
    load_epochs(&mut cluster, 0..VALIDATORS, 3);
    let votes = version_votes(&cluster.nodes[&0].state.latest());
    assert_eq!(votes, [(FIRST, Votes(1)), (NEXT, Votes(3))].into());
    install(&mut cluster, 3, NEW_BUILD, Some(FIRST));
    load_epochs(&mut cluster, 0..VALIDATORS, 3);
    settle(&mut cluster);
    assert!(cluster.nodes.values().all(|node| upgraded_at(node).is_none()));

    install(&mut cluster, 3, NEW_BUILD, None);
    load_epochs(&mut cluster, 0..VALIDATORS, 3);
    settle(&mut cluster);
    let heights: Vec<_> = cluster.nodes.values().map(upgraded_at).collect();
    assert!(heights[0].is_some() && heights.iter().all(|height| *height == heights[0]), "{heights:?}");
    for node in cluster.nodes.values() {
        assert_eq!(node.penalties, []);
        assert!(node.warnings.is_empty(), "{:?}", node.warnings);
    }
    // All start again in an epoch of the next version.
    (0..VALIDATORS).for_each(|index| cluster.kill(index));
    (0..VALIDATORS).for_each(|index| cluster.start(index));
    cluster.submitted = cluster.executed(0) as u64;
    load_epochs(&mut cluster, 0..VALIDATORS, 1);
    settle(&mut cluster);
    // A node without blocks executes those of both versions (U4).
    cluster.kill(3);
    cluster.disks.insert(3, Disk { known: NEW_BUILD, ..Disk::default() });
    cluster.start(3);
    load_epochs(&mut cluster, 0..VALIDATORS, 1);
    settle(&mut cluster);
    assert_eq!(upgraded_at(&cluster.nodes[&3]), heights[0]);
}

/// One of seven votes may be missing: F is 2. The member with an old build warns, finishes the epoch and stops, and so does a full
/// node. With the next build it orders again (U3).
pub fn one_left_behind_stops_and_returns(engine: EngineKind) {
    const MEMBERS: usize = 7;
    const LATE: usize = MEMBERS - 1;
    let mut genesis = plain_genesis(MEMBERS);
    let staking = StakingParameters { epoch_ms: EPOCH_MS, closing_ms: EPOCH_MS / 4, ..Default::default() };
    add_stake(&mut genesis, staking);
    let mut cluster = old_cluster(engine, genesis);
    load_until(&mut cluster, 1);
    for index in 0..MEMBERS - 2 {
        install(&mut cluster, index, NEW_BUILD, None);
        settle(&mut cluster);
    }
    load_epochs(&mut cluster, 0..MEMBERS, 2);
    assert!(cluster.nodes.values().all(|node| upgraded_at(node).is_none()), "5 of 7 votes are too few");
    assert!(cluster.nodes[&LATE].warnings.is_empty());

    install(&mut cluster, MEMBERS - 2, NEW_BUILD, None);
    load_epochs(&mut cluster, 0..LATE, 3);
    let upgraded = upgraded_at(&cluster.nodes[&0]).unwrap();
    let late = &cluster.nodes[&LATE];
    assert_eq!(late.disk.blocks.len() as u64, upgraded.0, "it has the end of the epoch, and no block of the next one");
    assert!(late.disk.certificates.contains_key(&upgraded));
    assert!(late.halted.is_none(), "it serves the end of the epoch for a while");
    let warnings = late.warnings.clone();
    let [before, at_end] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(before.contains(&format!("protocol version {NEXT} starts")), "{before}");
    assert!(before.contains("6 of 7 votes announced it, 6 are needed"), "{before}");
    cluster.run_until(20_000, "it stops", |cluster| cluster.nodes[&LATE].halted.is_some());
    let halted = cluster.nodes[&LATE].halted.clone().unwrap();
    assert_eq!((halted.cause, &halted.reason), (HaltCause::Outdated, at_end));
    assert!(at_end.contains(&format!("protocol version {NEXT}")), "{at_end}");

    install(&mut cluster, LATE, OLD_BUILD, None);
    assert_eq!(cluster.nodes[&LATE].halted.as_ref(), Some(&halted), "at once, with the same sentence");
    install(&mut cluster, LATE, NEW_BUILD, None);
    load_epochs(&mut cluster, 0..MEMBERS, 2);
    settle(&mut cluster);
    cluster.run_until(20_000, "it orders again", |cluster| is_ordering(cluster, LATE));
    assert!(cluster.nodes.values().all(|node| upgraded_at(node) == Some(upgraded)));
}

/// A full node with an old build follows to the end of the epoch and stops. With the next build it follows on.
pub fn full_node_left_behind_stops_and_returns(engine: EngineKind) {
    let mut cluster = old_cluster(engine, genesis());
    (0..VALIDATORS).for_each(|index| install(&mut cluster, index, NEW_BUILD, None));
    cluster.disks.insert(VALIDATORS, Disk { known: OLD_BUILD, ..Disk::default() });
    cluster.start_full_node();
    load_epochs(&mut cluster, 0..VALIDATORS, 3);
    let upgraded = upgraded_at(&cluster.nodes[&0]).unwrap();
    cluster.run_until(20_000, "it stops", |cluster| cluster.nodes[&VALIDATORS].halted.is_some());
    let full_node = &cluster.nodes[&VALIDATORS];
    assert_eq!(full_node.halted.as_ref().unwrap().cause, HaltCause::Outdated);
    assert_eq!(full_node.disk.blocks.len() as u64, upgraded.0);
    cluster.kill(VALIDATORS);
    cluster.disks.get_mut(&VALIDATORS).unwrap().known = NEW_BUILD;
    cluster.start_full_node();
    load_epochs(&mut cluster, 0..VALIDATORS + 1, 1);
    settle(&mut cluster);
    assert!(cluster.nodes.values().all(|node| upgraded_at(node) == Some(upgraded)));
}
