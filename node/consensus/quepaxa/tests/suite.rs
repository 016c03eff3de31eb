//! The shared suite for engines that tolerate crashes, and this engine's fault schedules.

use corniche_quepaxa_testing::QuePaxaKit;

corniche_testkit::crash_suite!(QuePaxaKit::quick, QuePaxaKit::quick_weighted);
