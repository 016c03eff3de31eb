//! The shared suite, and this engine's fault schedules.

use corniche_mir_testing::MirKit;

corniche_testkit::suite!(MirKit::quick);

/// The suite with unequal votes.
mod weighted {
    use super::MirKit;

    corniche_testkit::suite!(MirKit::quick_weighted);
}
