//! The shared suite, and this engine's fault schedules.

corniche_testkit::suite!(corniche_mahi_mahi::kit::MahiKit::quick);
