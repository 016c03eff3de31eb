//! Upgrade of the protocol version by announcements (validators.md §9).
//!
//! Each announcement names the highest version that a validator's node knows. When an epoch ends, the members of the next
//! committee are counted. If enough of their votes know a higher version, the next epoch has the version after the running
//! one. So no operator coordinates a stop, and more than ⌊F/2⌋ votes hold an upgrade (U5).

use crate::{
    Slots,
    record::{Attendance, Committee, Header},
};
use corniche_types::{Epoch, Votes};
use std::collections::BTreeMap;

/// Votes of a committee by the protocol versions that its members announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionVotes {
    /// W: votes of all members, also of those without an announcement.
    pub total: Votes,
    /// W − ⌊F/2⌋: votes that an upgrade needs (U2).
    pub needed: Votes,
    /// Votes by announced version.
    pub by_version: BTreeMap<u32, Votes>,
}

impl VersionVotes {
    /// Counts announcements of the running epoch by members of the next committee, kept or new: those that decide about the
    /// version of the next epoch (U2). Before the freeze, the sitting committee counts as the next one.
    pub fn of_next_epoch<S: Slots>(slots: &mut S) -> Result<Self, S::Error> {
        let running = Header::load(slots)?.epoch;
        Self::count(slots, |announced_in| announced_in == running)
    }

    /// Counts the last announcement of each member, of whatever epoch. A member that never announced itself has none.
    pub fn of_last_announcements<S: Slots>(slots: &mut S) -> Result<Self, S::Error> {
        Self::count(slots, |_| true)
    }

    fn count<S: Slots>(slots: &mut S, counts: impl Fn(Epoch) -> bool) -> Result<Self, S::Error> {
        let Header { epoch, phase, .. } = Header::load(slots)?;
        let committee = if phase.has_next() { epoch.next() } else { epoch };
        let mut by_version = BTreeMap::<u32, Votes>::new();
        // Only members: anybody with stake for a vote can register, and announce any version.
        for (id, votes) in Committee::votes_by_member(slots, committee)? {
            let attendance = Attendance::load(slots, id)?;
            if attendance.announced_in.is_some_and(&counts) {
                *by_version.entry(attendance.version).or_default() += votes;
            }
        }
        let weights = Committee::weights_of(slots, committee)?;
        let total = weights.total();
        Ok(Self { total, needed: total - Votes(weights.max_faulty().0 / 2), by_version })
    }

    /// Returns the votes for a version or a higher one.
    pub fn at_least(&self, version: u32) -> Votes {
        self.by_version.range(version..).map(|(_, votes)| *votes).sum()
    }

    /// Returns whether a version has the votes that it needs.
    pub fn activates(&self, version: u32) -> bool {
        self.at_least(version) >= self.needed
    }
}

/// Returns the protocol version of the next epoch at the end of an epoch with this version: one higher if the next committee
/// wants that, one step an epoch (U2). The caller need not know the rules of that version.
pub fn next_version<S: Slots>(slots: &mut S, running: u32) -> Result<u32, S::Error> {
    let Some(target) = running.checked_add(1) else { return Ok(running) };
    Ok(if VersionVotes::of_next_epoch(slots)?.activates(target) { target } else { running })
}
