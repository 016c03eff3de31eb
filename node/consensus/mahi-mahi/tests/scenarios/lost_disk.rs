//! K2: a validator whose disk was lost or restored from a backup signs no round twice. The cluster detects any second
//! block sent by an honest validator, and any accusation of an honest validator.
//!
//! The forgotten part of the incarnation is the worst case. The validator went on with only a quorum, preferably of liars and
//! of validators that will be away, so that hardly any honest validator that responds has seen what it signed. A liar
//! is a validator that was reset to before that, and denies everything since.

use crate::cluster::{Cluster, Link, Role, index, quick};
use corniche_engine::{Resume, Ticket};
use corniche_mahi_mahi::{Config, message::Round};
use corniche_types::{Bytes, ValidatorIndex};
use std::collections::{BTreeMap, BTreeSet};

/// State of the disk after the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// The safety log is lost, the state is not.
    State,
    /// The whole disk is lost.
    Nothing,
    /// A backup of some earlier time.
    Backup,
}

#[derive(Clone, Copy, Debug)]
struct Loss {
    size: usize,
    left: Left,
    /// Number of validators that lie about what the loser signed.
    liars: usize,
    /// Number of validators that are down while the loser comes back.
    away: usize,
}

struct Snapshot {
    disk: BTreeMap<Ticket, Bytes>,
    commits: usize,
}

fn snapshot(cluster: &Cluster, node: usize) -> Snapshot {
    Snapshot { disk: cluster.records(node).clone(), commits: cluster.seen(node).log.len() }
}

fn put_back(cluster: &mut Cluster, node: usize, snapshot: &Snapshot) {
    cluster.crash(node);
    cluster.disk(node).records = snapshot.disk.clone();
    cluster.restart(node, snapshot.commits);
}

fn busy(cluster: &mut Cluster, steps: usize) {
    for _ in 0..steps {
        let node = cluster.random.below(cluster.size() as u64) as usize;
        let transaction = format!("t{}-{node}", cluster.now());
        cluster.submit(node, &transaction);
        cluster.run_for(7);
    }
}

/// The first validators are the liars, the last one is the loser, those before the loser will be away.
fn lose(seed: u64, loss: Loss) {
    let Loss { size, left, liars, away } = loss;
    let loser = size - 1;
    let roles: Vec<_> = (0..size).map(|node| if node < liars { Role::Byzantine } else { Role::Honest }).collect();
    // Deep enough for validators that come back late.
    let mut cluster = Cluster::new(&roles, Config { retain_rounds: 1_000, ..quick() }, seed);
    cluster.network().link = Link { min_ms: 3, max_ms: 20, loss: 30 };
    cluster.set_disk_ms(seed % 3);
    let mut backups = Vec::new();
    for _ in 0..6 {
        let steps = 2 + cluster.random.below(12) as usize;
        busy(&mut cluster, steps);
        backups.push(snapshot(&cluster, loser));
    }
    let before: Vec<_> = (0..liars).map(|liar| snapshot(&cluster, liar)).collect();
    forgotten_life(&mut cluster, loss);
    let absent: Vec<usize> = (loser - away..loser).collect();
    absent.iter().for_each(|node| cluster.crash(*node));
    before.iter().enumerate().for_each(|(liar, snapshot)| put_back(&mut cluster, liar, snapshot));
    cluster.crash(loser);
    cluster.network().groups.fill(0);
    cluster.network().link.loss = 0;
    come_back(&mut cluster, loser, left, &backups);
    cluster.connect_all();
    cluster.submit(loser, "reborn");
    busy(&mut cluster, 300);
    for node in absent {
        let commits = cluster.seen(node).log.len();
        cluster.restart(node, commits);
    }
    cluster.submit(loser, "at-last");
    let lacking = |cluster: &Cluster| {
        let mut honest = cluster.honest_nodes();
        honest.any(|(node, _)| !cluster.delivered(node).contains(&"at-last".to_owned()))
    };
    // The loser counts as faulty. With more than f faulty validators, only safety is guaranteed.
    let done = cluster.run_while(60_000, lacking);
    assert!(done || liars + 1 > cluster.committee.max_faulty().as_usize(), "seed {seed}, {loss:?}: no progress");
    cluster.assert_agreement();
}

/// The loser continues with only a quorum, cut off from all others.
fn forgotten_life(cluster: &mut Cluster, Loss { size, liars, away, .. }: Loss) {
    let loser = size - 1;
    let quorum = cluster.committee.quorum().as_usize();
    let preferred = (0..liars).chain(loser - away..=loser);
    let mut together: BTreeSet<usize> = preferred.collect();
    while together.len() < quorum {
        together.insert(cluster.random.below(size as u64) as usize);
    }
    for node in 0..size {
        cluster.network().groups[node] = u8::from(!together.contains(&node));
    }
    let steps = cluster.random.below(30) as usize;
    busy(cluster, steps);
    // Its last block, one round above everything the others know, reaches no validator.
    cluster.network().muted.insert(loser);
    busy(cluster, 8);
    cluster.network().muted.clear();
}

fn come_back(cluster: &mut Cluster, loser: usize, left: Left, backups: &[Snapshot]) {
    match left {
        Left::Backup => {
            let backup = &backups[cluster.random.below(backups.len() as u64) as usize];
            cluster.disk(loser).records = backup.disk.clone();
            cluster.restart(loser, backup.commits);
        }
        Left::State => {
            cluster.disk(loser).records.clear();
            let commits = cluster.seen(loser).log.len();
            cluster.restart(loser, commits);
        }
        Left::Nothing => {
            cluster.disk(loser).records.clear();
            cluster.start(loser, Resume::default());
        }
    }
}

/// A validator that knows of its loss counts as away itself; still f of the others may lie and f may be away.
#[test]
fn known_disk_loss_never_signs_twice() {
    for (size, faulty) in [(4, 1), (7, 2), (10, 3)] {
        for seed in 0..12 {
            let (liars, away) = (seed as usize % (faulty + 1), seed as usize / 3 % (faulty + 1));
            lose(seed, Loss { size, left: Left::State, liars, away });
        }
    }
}

/// The loser counts as one of the f, so f − 1 others may lie or be away.
#[test]
fn unknown_disk_loss_never_signs_twice() {
    for (size, faulty) in [(4, 1), (7, 2), (10, 3)] {
        for seed in 100..116 {
            let liars = seed as usize % faulty;
            let away = seed as usize / 3 % (faulty - liars);
            for left in [Left::Backup, Left::Nothing] {
                lose(seed, Loss { size, left, liars, away });
            }
        }
    }
}

/// A first incarnation that begins behind everybody's floor starts after certified commits, without records. Unless it is known
/// to have signed nothing, this looks like a lost disk, so it counts among the f: f − 1 others may be away.
#[test]
fn first_start_after_following_counts_as_loss() {
    for (size, faulty) in [(4, 1), (7, 2), (10, 3)] {
        let newborn = size - 1;
        let mut cluster = Cluster::honest(size, quick(), 11);
        cluster.crash(newborn);
        cluster.disk(newborn).records.clear();
        cluster.disk(newborn).may_have_signed = true;
        busy(&mut cluster, 20);
        (0..faulty).for_each(|node| cluster.crash(node));
        let log = cluster.seen(faulty).log.clone();
        let resume = cluster.resume_after(faulty, log.len());
        cluster.disk(newborn).notes.log = log;
        cluster.start(newborn, resume);
        cluster.submit(newborn, "first");
        cluster.run_for(5_000);
        assert_eq!(cluster.sent_blocks(newborn), 0, "n = {size}: too few others to exclude a forgotten life");
        let commits = cluster.seen(0).log.len();
        cluster.restart(0, commits);
        let lacking =
            |cluster: &Cluster| [0, newborn].iter().any(|node| !cluster.delivered(*node).contains(&"first".to_owned()));
        assert!(cluster.run_while(20_000, lacking), "n = {size}");
        cluster.assert_agreement();
    }
}

/// A first incarnation behind everybody's floor that is known to have signed nothing does not count among the f: with it the
/// others are a quorum again, and it may even propose in the round that they have reached.
#[test]
fn a_first_life_known_to_have_signed_nothing_follows_and_goes_on_with_f_others_away() {
    for (size, faulty) in [(4, 1), (7, 2), (10, 3)] {
        for steps in 10..30 {
            let newborn = size - 1;
            let mut cluster = Cluster::honest(size, quick(), 11 + steps);
            cluster.crash(newborn);
            busy(&mut cluster, steps as usize);
            (0..faulty).for_each(|node| cluster.crash(node));
            busy(&mut cluster, 10);
            let log = cluster.seen(faulty).log.clone();
            let resume = cluster.resume_after(faulty, log.len());
            cluster.disk(newborn).notes.log = log;
            cluster.start(newborn, resume.clone());
            // It follows further, or loses power, before it has written a record.
            cluster.crash(newborn);
            assert!(!cluster.disk(newborn).may_have_signed && cluster.records(newborn).is_empty());
            cluster.start(newborn, resume);
            cluster.submit(newborn, "first");
            let up: Vec<_> = (faulty..size).collect();
            let lacking = |cluster: &Cluster| up.iter().any(|node| !cluster.delivered(*node).contains(&"first".to_owned()));
            assert!(cluster.run_while(10_000, lacking), "n = {size}, {steps} steps");
            let unsigned = cluster.simulation.process(newborn).unwrap().is_unsigned();
            assert!(!unsigned, "its first record ended that");
            cluster.assert_agreement();
        }
    }
}

/// A validator that has standing again after a loss writes down blocks of others. If power fails before its first own block, its
/// records look whole. It must still propose only above the rounds that the lost incarnation may have signed.
#[test]
fn power_fails_before_the_first_block_after_a_loss() {
    for (size, faulty) in [(4, 1), (7, 2), (10, 3)] {
        let loser = size - 1;
        let mut cluster = Cluster::honest(size, quick(), 3);
        busy(&mut cluster, 10);
        cluster.run_for(2_500);
        // Its last block, one round above everything the others know, reaches no validator.
        cluster.network().muted.insert(loser);
        let sent = cluster.sent_blocks(loser);
        cluster.submit(loser, "unseen");
        assert!(cluster.run_while(1_000, |cluster| cluster.sent_blocks(loser) == sent));
        let commits = cluster.seen(loser).log.len();
        cluster.crash(loser);
        cluster.network().muted.clear();
        cluster.disk(loser).records.clear();
        // All others respond, but their next blocks are delayed.
        let rounds = |(round, author): &(Round, ValidatorIndex)| (*author != index(loser)).then_some(*round);
        let highest = cluster.network().archive.keys().filter_map(rounds).max();
        cluster.network().lost_above = highest;
        cluster.restart(loser, commits);
        assert!(cluster.run_while(1_000, |cluster| cluster.records(loser).is_empty()));
        // With all records written, the peers know no block of its own that it lacks.
        cluster.run_for(0);
        cluster.crash(loser);
        cluster.network().lost_above = None;
        // Without the validators that go away now, the others wait for its block of the very round that it signed.
        (0..faulty).for_each(|node| cluster.crash(node));
        cluster.restart(loser, commits);
        cluster.connect_all();
        cluster.submit(loser, "back");
        // The cluster checks that no round is signed twice.
        cluster.run_for(10_000);
        for node in 0..faulty {
            let commits = cluster.seen(node).log.len();
            cluster.restart(node, commits);
        }
        let lacking = |cluster: &Cluster| (0..size).any(|node| !cluster.delivered(node).contains(&"back".to_owned()));
        assert!(cluster.run_while(20_000, lacking), "n = {size}");
        cluster.assert_agreement();
    }
}

#[test]
fn power_cut_during_recovery() {
    // Messages received meanwhile must not make its records look whole.
    let mut cluster = Cluster::honest(4, quick(), 8);
    busy(&mut cluster, 20);
    cluster.crash(0);
    cluster.crash(3);
    let commits = cluster.seen(0).log.len();
    cluster.disk(0).records.clear();
    let sent = cluster.sent_blocks(0);
    for _ in 0..3 {
        cluster.restart(0, commits);
        cluster.submit(0, "early");
        cluster.run_for(5_000);
        assert_eq!(cluster.sent_blocks(0), sent, "two others know too little");
        assert!(cluster.records(0).is_empty(), "nothing is recorded by one that does not know itself");
        cluster.crash(0);
    }
    let others = cluster.seen(3).log.len();
    cluster.restart(3, others);
    cluster.restart(0, commits);
    cluster.submit(0, "back");
    let lacking = |cluster: &Cluster| (0..4).any(|node| !cluster.delivered(node).contains(&"back".to_owned()));
    assert!(cluster.run_while(20_000, lacking));
    cluster.assert_agreement();
}

#[test]
fn intact_restart_costs_two_rounds() {
    for size in [4, 7, 10] {
        let mut cluster = Cluster::honest(size, quick(), 5);
        busy(&mut cluster, 40);
        let commits = cluster.seen(1).log.len();
        cluster.crash(1);
        busy(&mut cluster, 3);
        cluster.restart(1, commits);
        let (restarted, sent) = (cluster.now(), cluster.sent_blocks(1));
        cluster.submit(1, "x");
        (0..size).for_each(|node| cluster.submit(node, &format!("more-{node}")));
        assert!(cluster.run_while(1_000, |cluster| cluster.sent_blocks(1) == sent));
        // A request and its response take two delays of 10 ms; a round takes one and the grace.
        assert!(cluster.now() - restarted <= 20 + 4 * 12, "n = {size}: {} ms", cluster.now() - restarted);
    }
}

#[test]
fn intact_restart_unblocks_network() {
    // f validators are away for good, so nothing progresses without the restarted one: it must not wait for more.
    for (size, away) in [(4, 1), (7, 2), (10, 3)] {
        let mut cluster = Cluster::honest(size, quick(), 6);
        busy(&mut cluster, 20);
        (size - away..size).for_each(|node| cluster.crash(node));
        busy(&mut cluster, 20);
        let commits = cluster.seen(1).log.len();
        cluster.crash(1);
        cluster.run_for(500);
        cluster.restart(1, commits);
        cluster.submit(1, "on");
        let restarted = cluster.now();
        assert!(cluster.run_while(10_000, |cluster| !cluster.delivered(0).contains(&"on".to_owned())), "n = {size}");
        // A stall is detected within four retries of 300 ms.
        assert!(cluster.now() - restarted < 1_200 + 200, "n = {size}: {} ms", cluster.now() - restarted);
        cluster.assert_agreement();
    }
}

#[test]
fn small_committees_restart() {
    // f = 0: the others know every block that exists, so no validator waits for rounds that cannot come.
    for size in [1, 2, 3] {
        for left in [Left::State, Left::Nothing, Left::Backup] {
            let mut cluster = Cluster::honest(size, quick(), 7);
            busy(&mut cluster, 30);
            let loser = size - 1;
            let backup = snapshot(&cluster, loser);
            // A power cut loses messages in transit. They become idle first, so that none are in transit.
            cluster.run_for(300);
            cluster.crash(loser);
            if size == 1 && left != Left::Backup {
                continue; // No other validator has the history of a lone validator; it starts a new one.
            }
            come_back(&mut cluster, loser, left, &[backup]);
            cluster.submit(loser, "again");
            let lacking = |cluster: &Cluster| (0..size).any(|node| !cluster.delivered(node).contains(&"again".to_owned()));
            assert!(cluster.run_while(10_000, lacking), "n = {size}, {left:?}");
            cluster.assert_agreement();
        }
    }
}

#[test]
fn nonexistent_rounds_do_not_delay_start() {
    use corniche_mahi_mahi::message::{BlockRef, Message, Welcome};
    let roles = [Role::Byzantine, Role::Honest, Role::Honest, Role::Honest];
    let mut cluster = Cluster::new(&roles, quick(), 9);
    busy(&mut cluster, 20);
    let commits = cluster.seen(3).log.len();
    cluster.crash(3);
    cluster.crash(0);
    cluster.restart(3, commits);
    // Uses the nonce of the last start, so that the response counts.
    let far = BlockRef { round: Round(1 << 40), author: index(0), digest: corniche_types::B256::ZERO };
    let nonce = cluster.network().last_nonce[3];
    let lie = Message::Welcome(Welcome { nonce, latest: None, named: Some(far) }).encode();
    cluster.receive(0, 3, &lie);
    cluster.submit(3, "t");
    assert!(cluster.run_while(5_000, |cluster| !cluster.delivered(1).contains(&"t".to_owned())));
}
