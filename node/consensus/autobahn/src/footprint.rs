//! Upper bound of what an engine holds.

use crate::{
    config::Config,
    execution::{MAX_LAG, UNCERTIFIED_FACTOR},
    lanes::{CAR_WEIGHT, MAX_EARLY_FETCHES},
    serve::MAX_WAITING,
    slots::slot::SlotState,
};
use corniche_engine::SPARE_RECORDS;

impl Config {
    /// Maximum number of items that an engine holds in a committee of this size, even with f Byzantine validators, and
    /// of records that it needs. Honest validators stay far below: most of it is capacity that liars could fill.
    pub fn max_footprint(&self, committee_size: usize) -> usize {
        let capped = |number: u64| number.min(1 << 40);
        let size = committee_size as u64;
        // Maximum number of cars in a lane whose owner is correct.
        let lane = capped(self.lane_bytes.div_ceil(CAR_WEIGHT)) + 1;
        let (open, lag) = (2 * capped(self.open_slots), capped(self.retain_slots.saturating_add(MAX_LAG)));
        // Not executed: twice as much is accepted; the tip executed next may be on another fork of equal size; and one
        // body per slot that is not executed. Executed: the retained cars, or those of the last slot. Then the cars
        // that wait for their turn.
        let cars = size * (4 * lane + open + lag + (UNCERTIFIED_FACTOR + 2) * lane + capped(self.cars_ahead));
        let fetches = size * (MAX_EARLY_FETCHES as u64 + 1 + open);
        let commits = UNCERTIFIED_FACTOR * capped(self.retain_slots) + lag + open;
        let slots = open * (2 + SlotState::max_footprint(committee_size) as u64);
        let requests = size * MAX_WAITING as u64;
        // Two records per car and its vote. As many obsolete ones again, until the records that hold them back are
        // written again.
        let records = 2 * (2 * cars + commits + open) + SPARE_RECORDS as u64;
        usize::try_from(cars + fetches + commits + slots + requests + records).unwrap_or(usize::MAX)
    }
}
