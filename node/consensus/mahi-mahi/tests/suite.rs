//! The shared suite, and this engine's fault schedules.

use corniche_mahi_mahi_testing::MahiKit;
use corniche_testkit::suite;

corniche_testkit::suite!(MahiKit::quick);

/// Repeats the suite with unequal votes.
mod weighted {
    use super::MahiKit;

    corniche_testkit::suite!(MahiKit::quick_weighted);
}

/// See [`suite::regressions`].
const REGRESSIONS: [(usize, u64); 5] = [
    // One validator opened coins with its own shares, went on alone, and refused those shares to the others.
    (4, 1_795_645_899),
    // Two disks were lost while a third validator, which crashed before its first record, followed without records.
    (7, 1_795_656_787),
    // A greeting was lost on a link that stayed up, and was never repeated while others kept proposing.
    (10, 269),
    // P2, refusals.
    (4, 672),
    // A skip rule at 2f.
    (4, 396),
];

#[test]
fn regression_schedules() {
    suite::regressions(MahiKit::quick, &REGRESSIONS).unwrap_or_else(|error| panic!("{error}"));
}
