//! The shared suite, and this engine's fault schedules.

use corniche_autobahn::kit::AutobahnKit;
use corniche_testkit::suite;

corniche_testkit::suite!(AutobahnKit::quick);

/// See [`suite::regressions`].
const REGRESSIONS: [(usize, u64); 1] = [
    // Waiting cars were not stored once they were certified: a validator one request behind a lane stayed behind.
    (10, 1_795_348_610),
];

#[test]
fn regression_schedules() {
    suite::regressions(AutobahnKit::quick, &REGRESSIONS).unwrap_or_else(|error| panic!("{error}"));
}
