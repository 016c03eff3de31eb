//! Wrong clocks. Blocks are accepted whatever their timestamps, so a wrong clock costs nothing. The time of commits is a
//! median of timestamps, so up to f wrong clocks and liars cannot move it.

use crate::cluster::{Cluster, Keys, Role, index, quick};
use corniche_mahi_mahi::message::Round;
use corniche_testkit::Micros;

const HOUR_MS: i64 = 3_600_000;

/// Starts two hours after the beginning of time, so that clocks can be behind.
fn late_start(size: usize, seed: u64) -> Cluster {
    let roles = vec![Role::Honest; size];
    let mut cluster = Cluster::powered_off(&roles, Keys::fake(&roles), quick(), seed);
    cluster.simulation.run_until(Micros::from_millis(2 * HOUR_MS as u64));
    cluster.simulation.start_all();
    cluster
}

fn busy(cluster: &mut Cluster, steps: usize) {
    for step in 0..steps {
        let node = step % cluster.size();
        let transaction = format!("t{}-{node}", cluster.now());
        cluster.submit(node, &transaction);
        cluster.run_for(7);
    }
}

fn is_delivered(cluster: &Cluster, transaction: &str) -> bool {
    let mut running = (0..cluster.size()).filter(|node| cluster.simulation.is_up(*node));
    running.all(|node| cluster.delivered(node).contains(&transaction.to_owned()))
}

#[test]
fn a_validator_takes_part_while_its_clock_is_wrong_and_as_soon_as_it_is_right_again() {
    for ahead_ms in [HOUR_MS, -HOUR_MS] {
        let mut cluster = late_start(4, 51);
        busy(&mut cluster, 10);
        let commits = cluster.seen(3).log.len();
        cluster.crash(3);
        cluster.clocks.borrow_mut()[3] = ahead_ms;
        cluster.restart(3, commits);
        busy(&mut cluster, 30);
        cluster.submit(3, "wrong");
        assert!(cluster.run_while(1_000, |cluster| !is_delivered(cluster, "wrong")), "while {ahead_ms} ms ahead");
        let commits = cluster.seen(3).log.len();
        cluster.crash(3);
        cluster.clocks.borrow_mut()[3] = 0;
        cluster.restart(3, commits);
        // Without it there is no quorum.
        cluster.crash(0);
        cluster.submit(3, "right");
        assert!(cluster.run_while(3_000, |cluster| !is_delivered(cluster, "right")), "after {ahead_ms} ms ahead");
        cluster.assert_agreement();
    }
}

/// Half of the f clocks are ahead, the others are behind, or all of them are one or the other.
#[test]
fn f_wrong_clocks_do_not_move_the_time_of_commits() {
    for (size, faulty) in [(4, 1), (7, 2), (10, 3)] {
        for ahead in 0..=faulty {
            let mut cluster = late_start(size, 52);
            for node in 0..faulty {
                cluster.crash(node);
                cluster.clocks.borrow_mut()[node] = if node < ahead { HOUR_MS } else { -HOUR_MS };
                cluster.restart(node, 0);
            }
            busy(&mut cluster, 100);
            // The parents of round 1 have no time.
            let mut count = 0;
            for (at, ordered) in cluster.seen(faulty).log.iter().skip(4) {
                let at = at.timestamp().0;
                assert!((at - 200..=at).contains(&ordered.time.0), "{ahead} of {size}: {} at {at}", ordered.time.0);
                count += 1;
            }
            let wrong =
                cluster.network().archive.keys().filter(|(round, author)| *round > Round(9) && *author == index(0)).count();
            assert!(count > 20 && wrong > 20, "{count} commits, {wrong} blocks of validator 0");
            cluster.assert_agreement();
        }
    }
}
