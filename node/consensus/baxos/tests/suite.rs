//! The shared suite for engines that tolerate crashes, and this engine's fault schedules.

use corniche_baxos_testing::BaxosKit;

corniche_testkit::crash_suite!(BaxosKit::quick);

/// The suite with unequal votes.
mod weighted {
    use super::BaxosKit;

    // One of two halves always has a quorum of an odd number of votes, so `partition_heals` is not among them.
    corniche_testkit::suite!(@ BaxosKit::quick_weighted, all_online, one_offline, slow_and_lossy_links, unclean_restart, late_joiner,
        same_seed_repeats_run, schedules);
}
