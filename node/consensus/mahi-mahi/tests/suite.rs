//! The shared suite, and this engine's fault schedules.

use corniche_mahi_mahi::kit::MahiKit;
use corniche_testkit::schedule;

corniche_testkit::suite!(MahiKit::quick);

/// Schedules, by size and seed, that once ended badly, or that catch a planted bug.
const KEPT: [(usize, u64); 12] = [
    // A greeting was lost on a link that stayed up, and never repeated while others went on proposing.
    (10, 29),
    // A validator fell further behind than its peers keep, and follows certified commits now.
    (10, 1541),
    // A first life that could not sign yet looked like a lost one after a power cut.
    (7, 100_945),
    (4, 107_343),
    // A batch was given back in two lives, and counted twice.
    (4, 203_634),
    // P1; a skip rule at 2f; a commit past an undecided slot.
    (7, 49),
    (4, 7187),
    (7, 10),
    // P2, certificates and refusals; a skip rule at 2f; an anchor in the certify round.
    (4, 96),
    (7, 160),
    (4, 216),
    (10, 128),
];

#[test]
fn kept_schedules() {
    for (size, seed) in KEPT {
        schedule::run(&MahiKit::quick(size), seed).unwrap_or_else(|error| panic!("{error}"));
    }
}
