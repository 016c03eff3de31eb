//! The shared suite, and this engine's fault schedules.

use corniche_autobahn::kit::AutobahnKit;

corniche_testkit::suite!(AutobahnKit::quick);
