//! The shared suite, and this engine's fault schedules.

use corniche_neobft_testing::NeobftKit;

corniche_testkit::suite!(NeobftKit::quick);

/// The suite with unequal votes.
mod weighted {
    use super::NeobftKit;
    use corniche_testkit::suite;

    suite!(NeobftKit::quick_weighted);

    #[test]
    fn regressions() {
        // Some members left for the next epoch, and the others changed leaders for ever.
        suite::regressions(NeobftKit::quick_weighted, &[(10, 81986)]).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Some of the suite with signed packets.
mod signed {
    use super::NeobftKit;

    corniche_testkit::suite!(@ NeobftKit::quick_signed, all_online, one_offline, slow_and_lossy_links, partition_heals, unclean_restart);
}

/// Some of the suite in a network that may equivocate.
mod byzantine_network {
    use super::NeobftKit;

    corniche_testkit::suite!(@ NeobftKit::quick_byzantine, all_online, one_offline, slow_and_lossy_links, partition_heals, unclean_restart);
}
