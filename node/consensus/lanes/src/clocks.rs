//! Clocks of the validators, for the time of proposals.

use corniche_engine::Committee;
use corniche_types::{TimestampMs, ValidatorIndex, Votes};
use std::collections::BTreeMap;

/// A validator whose clock is further from the median than this proposes the median.
pub const MAX_CLOCK_ERROR_MS: i64 = 500;

/// Lead of another validator's clock.
struct Lead {
    /// Less the delay of the network.
    ms: i64,
    noted_at: TimestampMs,
}

/// Leads of the others' clocks, as their messages show them.
pub struct Clocks {
    me: ValidatorIndex,
    /// An older lead does not count.
    fresh_ms: u64,
    leads: BTreeMap<ValidatorIndex, Lead>,
}

impl Clocks {
    /// Each validator has to hear from each other one more often than once in `fresh_ms`.
    pub fn new(me: ValidatorIndex, fresh_ms: u64) -> Self {
        Self { me, fresh_ms, leads: BTreeMap::new() }
    }

    /// Notes the time in a message that comes now.
    pub fn note(&mut self, from: ValidatorIndex, time: TimestampMs, now: TimestampMs) {
        let ms = time.0.cast_signed().saturating_sub(now.0.cast_signed());
        self.leads.insert(from, Lead { ms, noted_at: now });
    }

    /// Time that this validator proposes. A value is believed once it is proposed, and time never goes back, so one wrong clock would
    /// stop the time of the chain: a validator whose clock is far from the median takes the median. `None` before it knows the
    /// clocks of a majority. After its own clock jumped ahead, it has to hear them again.
    pub fn time(&self, committee: &Committee, now: TimestampMs) -> Option<TimestampMs> {
        let majority = Votes(committee.total().0 / 2 + 1);
        let is_fresh = |lead: &Lead| lead.noted_at.0.saturating_add(self.fresh_ms) >= now.0;
        let others = self.leads.iter().filter(|(_, lead)| is_fresh(lead)).map(|(member, lead)| (*member, lead.ms));
        let median = committee.weights().reached(others.chain([(self.me, 0)]), majority)?;
        let lead = if median.abs() > MAX_CLOCK_ERROR_MS { median } else { 0 };
        Some(TimestampMs(now.0.saturating_add_signed(lead)))
    }

    /// Milliseconds by which others are ahead, for metrics.
    pub fn leads(&self) -> Vec<(ValidatorIndex, u64)> {
        self.leads.iter().map(|(member, lead)| (*member, u64::try_from(lead.ms).unwrap_or(0))).collect()
    }
}
