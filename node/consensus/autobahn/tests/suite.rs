//! The shared suite, and this engine's fault schedules.

use corniche_autobahn_testing::AutobahnKit;
use corniche_testkit::suite;

corniche_testkit::suite!(AutobahnKit::quick);

/// See [`suite::regressions`].
const REGRESSIONS: [(usize, u64); 3] = [
    // Waiting cars were not stored once they were certified: a validator one request behind a lane stayed behind.
    (10, 1_795_348_610),
    // Three schemers let lanes grow. A validator that lagged by 11 slots found no peer with the cars it needed, because the
    // kit's byte limit was lower than its limit in slots.
    (10, 1_795_653_113),
    // Two validators fell behind their peers only after everything healed, and the suite did not let them follow then.
    (10, 1_795_960_673),
];

#[test]
fn regression_schedules() {
    suite::regressions(AutobahnKit::quick, &REGRESSIONS).unwrap_or_else(|error| panic!("{error}"));
}

/// The suite with unequal votes.
mod weighted {
    use super::AutobahnKit;

    corniche_testkit::suite!(AutobahnKit::quick_weighted);
}
