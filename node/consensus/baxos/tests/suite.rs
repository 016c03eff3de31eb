//! The shared suite for engines that tolerate crashes, and this engine's fault schedules.

use corniche_baxos_testing::BaxosKit;

corniche_testkit::crash_suite!(BaxosKit::quick, BaxosKit::quick_weighted);
