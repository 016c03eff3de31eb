//! Clocks of other validators, for metrics.

use corniche_types::{TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

/// By how much the clocks of validators are ahead of this node's: the time in the newest proposal of each one, less the time at which it
/// came. The delay of the network makes the figure smaller, so it is a lower bound. At most one entry for each member.
#[derive(Clone, Debug, Default)]
pub struct ClockLeads(BTreeMap<ValidatorIndex, u64>);

impl ClockLeads {
    /// Notes the time in a proposal that comes now.
    pub fn note(&mut self, author: ValidatorIndex, time: TimestampMs, now: TimestampMs) {
        self.0.insert(author, time.0.saturating_sub(now.0));
    }

    /// Milliseconds of each validator with a proposal so far.
    pub fn milliseconds(&self) -> Vec<(ValidatorIndex, u64)> {
        self.0.iter().map(|(author, ahead)| (*author, *ahead)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_proposal_counts() {
        let mut leads = ClockLeads::default();
        let note =
            |leads: &mut ClockLeads, author, time| leads.note(ValidatorIndex(author), TimestampMs(time), TimestampMs(1_000));
        note(&mut leads, 1, 1_450);
        note(&mut leads, 0, 900);
        assert_eq!(leads.milliseconds(), [(ValidatorIndex(0), 0), (ValidatorIndex(1), 450)]);
        note(&mut leads, 1, 1_001);
        assert_eq!(leads.milliseconds(), [(ValidatorIndex(0), 0), (ValidatorIndex(1), 1)]);
    }
}
