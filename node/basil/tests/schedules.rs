//! Seeded schedules: liars in every shard, lying clients, clock skew, lost and slow messages, stops and restarts. A checker judges
//! every history, and progress is demanded of every honest client.
//!
//! `CORNICHE_SEED` and `CORNICHE_SCHEDULES` select others.

use corniche_basil::config::Config;
use corniche_basil::message::Peer;
use corniche_basil_testing::doubles::{CLIENT_LIES, LIES, Liar};
use corniche_basil_testing::workload::{Shape, Workload};
use corniche_basil_testing::{Random, World, checker, client_id};

#[allow(clippy::disallowed_methods)] // tests are configured by their environment
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs one schedule. Returns commits and aborts.
fn run(seed: u64) -> Result<checker::History, String> {
    let mut random = Random::new(seed);
    let shards = 1 + random.below(3) as u16;
    let clients = 3 + random.below(5) as u8;
    let delta_ms = [0, 20, 2_000][random.below(3) as usize];
    let config = Config {
        reply_batch: [1, 4, 16][random.below(3) as usize],
        reply_delay_ms: random.below(5),
        protect_readers: random.chance(50),
        delta_ms,
        fast_path_ms: random.below(30),
        resend_ms: 200,
        recover_ms: 50 + random.below(100),
        view_ms: 50 + random.below(100),
        ..Config::default()
    };
    let mut world = World::new(shards, clients, config, seed);
    world.disk_ms = random.below(6);
    for shard in world.shards.ids() {
        let member = random.below(6) as u16;
        let lies = (0..1 + random.below(3)).map(|_| LIES[random.below(LIES.len() as u64) as usize]).collect();
        if random.chance(80) {
            let replica = corniche_basil::shards::ReplicaId { shard, member };
            world.replicas.get_mut(&replica).unwrap().liar = Some(Liar { lies });
        }
    }
    // Half of the clients at most lie; the first one never does.
    for number in 1..=clients / 2 {
        if random.chance(70) {
            let lie = CLIENT_LIES[random.below(CLIENT_LIES.len() as u64) as usize];
            world.clients.get_mut(&client_id(number)).unwrap().lie = Some(lie);
        }
    }
    // Progress needs clocks that agree within δ; safety does not.
    let skew = if delta_ms == 0 { 0 } else { random.below(10) as i64 };
    for node in world.replicas.values_mut() {
        node.skew = random.below(2 * skew as u64 + 1) as i64 - skew;
    }
    for node in world.clients.values_mut() {
        node.skew = random.below(2 * skew as u64 + 1) as i64 - skew;
    }
    let (loss, slowest) = ([0, 0, 2, 10][random.below(4) as usize], 1 + random.below(60));
    let cut = random.chance(30).then(|| world.all_replicas()[random.below(6) as usize]);
    world.delay = Box::new(move |random, from, to, _| {
        let is_cut = cut.is_some_and(|cut| from == Peer::Replica(cut) || to == Peer::Replica(cut));
        if is_cut && random.chance(40) || random.chance(loss) { None } else { Some(1 + random.below(slowest)) }
    });
    let shape = Shape {
        keys: 4 + random.below(40),
        hot_percent: random.below(60),
        hot_keys: 1 + random.below(4),
        reads: 1 + random.below(3) as usize,
        writes: 1 + random.below(3) as usize,
    };
    let transactions = 4 + random.below(8) as usize;
    let mut workload = Workload::new(&world, shape.clone(), transactions, seed);
    workload.needs_constants = true;
    // One honest replica may stop for a while: nothing is lost, but progress may wait. In a shard without a liar it may lose its disk.
    let restarted = random.chance(40).then(|| {
        let honest: Vec<_> = world.honest().into_iter().collect();
        honest[random.below(honest.len() as u64) as usize]
    });
    if let Some(replica) = restarted {
        workload.run(&mut world, random.below(300));
        world.stop_replica(replica);
        workload.run(&mut world, random.below(400));
        let is_only_fault = world.replicas.iter().all(|(other, node)| other.shard != replica.shard || node.liar.is_none());
        if is_only_fault && random.chance(70) {
            world.lose_disk(replica);
        } else {
            world.start_replica(replica);
        }
    }
    // Faults of the network end, and every honest client must finish.
    workload.run(&mut world, 1_000);
    world.delay = Box::new(|random, _, _, _| Some(1 + random.below(10)));
    workload.run(&mut world, 600_000);
    let history = checker::check(&world.shards, &world.decided)?;
    if workload.results.stuck > 0 {
        return Err(format!("{} honest clients did not finish: {:?}", workload.results.stuck, workload.results));
    }
    check_ledger(&mut world)?;
    Ok(history)
}

/// Two clients that hear different replicas export the same prefix, and it is everything that was committed.
fn check_ledger(world: &mut World) -> Result<(), String> {
    let below_us = (world.now + 1_000) / 1_000 * 1_000 * 1_000;
    world.add_client(100);
    world.add_client(101);
    world.run(10_000);
    let [first, second] = [100, 101].map(|number| Peer::Client(client_id(number)));
    world.delay = Box::new(move |random, from, to, _| {
        // The second one hears members 0 to 4 late. A liar may be among those that the first one hears late.
        let is_late = |member: u16, client: Peer| client == second && member < 5 || client == first && member > 0;
        match (from, to) {
            (Peer::Replica(replica), client) if is_late(replica.member, client) => Some(20 + random.below(30)),
            _ => Some(1 + random.below(10)),
        }
    });
    let [one, other] = [100, 101].map(|number| world.export(client_id(number), 0, below_us));
    let history = checker::check(&world.shards, &world.decided)?;
    let committed: Vec<_> =
        history.order.iter().filter(|(timestamp, _)| timestamp.time_us < below_us).map(|(_, id)| *id).collect();
    match (one? == committed, other? == committed) {
        (true, true) => Ok(()),
        equal => Err(format!("exports equal the history: {equal:?}")),
    }
}

#[test]
fn schedules() {
    let (seed, count) = (number("CORNICHE_SEED", 1), number("CORNICHE_SCHEDULES", 100));
    let (mut commits, mut aborts) = (0, 0);
    for seed in seed..seed + count {
        let history = run(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        commits += history.commits;
        aborts += history.aborts;
    }
    assert!(commits as u64 > 8 * count && aborts > 0, "{commits} commits, {aborts} aborts");
}

#[test]
fn a_seed_gives_the_same_run() {
    let order = |seed| run(seed).map(|history| history.order);
    assert_eq!(order(7), order(7));
}
