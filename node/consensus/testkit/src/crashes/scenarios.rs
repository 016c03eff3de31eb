//! Scenarios that are the same for several engines. [`crash_scenarios!`](crate::crash_scenarios!) makes one test of each.

use super::{CrashCluster, CrashEngine, DELAY, LOST, cluster, have, lose_disk, notes, submit};
use crate::Delivery;

/// Declares these scenarios of an engine as tests.
#[macro_export]
macro_rules! crash_scenarios {
    ($engine:ty, $($name:ident),*) => {
        $(#[test]
        fn $name() {
            $crate::crashes::scenarios::$name::<$engine>();
        })*
    };
}

fn quiet<C: CrashEngine>() -> C::Config {
    C::plain(10_000, 10_000)
}

fn lose_reports<C: CrashEngine>(cluster: &mut CrashCluster<C>) {
    cluster.set_rule(|_, _, _, message| if C::is_report(message) { LOST } else { Delivery::Normal });
}

/// The loss of a disk is not forgotten when power fails right after the next start.
pub fn loss_of_a_disk_survives_a_power_cut<C: CrashEngine>() {
    let mut cluster = cluster::<C>(3, quiet::<C>());
    submit(&mut cluster, 0, "a");
    for _ in 0..2 {
        cluster.simulation.crash(1);
        let resume = cluster.resume_after(1, 1);
        let first = cluster.records(1).iter().next().map(|(ticket, record)| (*ticket, record.clone()));
        // The first time the disk is lost; the second time only the first record of the new one is written.
        let lost_before = notes(&cluster, 1, "disk-lost") > 0;
        cluster.disk(1).records = first.filter(|_| lost_before).into_iter().collect();
        lose_reports(&mut cluster);
        cluster.restart_at(1, resume);
        cluster.run_for(10 * DELAY);
    }
    cluster.simulation.crash(2);
    cluster.submit(0, "b");
    cluster.run_for(200 * DELAY);
    assert!(!have(&cluster, [0], "b"), "it took part without its records");
}

/// The silence after a lost disk ends without any users.
pub fn silence_ends_on_an_idle_chain<C: CrashEngine>() {
    let mut cluster = cluster::<C>(3, C::plain(100, 10_000));
    submit(&mut cluster, 0, "a");
    lose_disk(&mut cluster, 1, 1);
    cluster.run_for(300 * DELAY);
    cluster.simulation.crash(2);
    cluster.submit(0, "b");
    cluster.run_for(200 * DELAY);
    assert!(have(&cluster, [0, 1], "b"), "{}", C::describe(cluster.engine(1)));
}

/// A clock that is wrong, ahead or behind, also one that jumps while its validator runs, does not move the time of the chain.
pub fn clocks_that_are_wrong_move_nothing<C: CrashEngine>() {
    // Validator 0 proposes, with its own batches or with those of others.
    for author in [0, 1] {
        let mut cluster = cluster::<C>(3, C::plain(100, 100));
        for lead in [-5_000, 3_600_000] {
            cluster.clocks.borrow_mut()[0] = lead;
            cluster.run_for(100 * DELAY);
            let since = cluster.simulation.now().timestamp().0;
            submit(&mut cluster, author, &format!("lead{lead}"));
            let now = cluster.simulation.now().timestamp().0;
            let time = cluster.seen(1).log.last().map_or(0, |(_, ordered)| ordered.time.0);
            assert!(since - 500 < time && time <= now, "the chain's time is {time}, between {since} and {now}");
        }
    }
}

/// A validator that lost its disk may start at the genesis, and a quorum may depend on what it forgot.
pub fn disk_lost_at_the_genesis_is_not_a_first_start<C: CrashEngine>() {
    let mut cluster = cluster::<C>(3, C::plain(100, 10_000));
    cluster.simulation.partition(&[vec![0, 1], vec![2]]);
    cluster.submit(0, "a");
    cluster.run_for(20 * DELAY);
    assert!(have(&cluster, [0, 1], "a"));
    cluster.simulation.crash(0);
    lose_disk(&mut cluster, 1, 0);
    cluster.simulation.heal();
    cluster.submit(2, "b");
    cluster.run_for(1_000 * DELAY);
    assert!(!have(&cluster, [2], "b"), "it took part in the slot that it had decided");
    cluster.simulation.restart(0);
    cluster.run_for(1_000 * DELAY);
    assert!(have(&cluster, 0..3, "a") && have(&cluster, 0..3, "b"), "{}", C::describe(cluster.engine(1)));
    cluster.assert_equal_logs(0..3);
}
