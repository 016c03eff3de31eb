//! The shared suite for engines that tolerate crashes, and this engine's fault schedules.

use corniche_racs_testing::RacsKit;

corniche_testkit::crash_suite!(RacsKit::quick, RacsKit::quick_weighted);
