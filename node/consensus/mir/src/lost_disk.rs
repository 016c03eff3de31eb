//! A member that lost its disk: silent where it may have voted before (T3, X9).

use crate::{
    engine::Mir,
    journal::AfterDurable,
    message::{EpochNumber, Sn, Status},
};
use corniche_types::{ValidatorIndex, Votes};
use std::collections::BTreeMap;

/// Epochs between the last certified one and the one that others report, from which a report does not count.
const MAX_LEAD: u64 = 16;

/// Reports of others since the start: the epochs that they want, and their stable checkpoints.
#[derive(Default)]
pub(crate) struct LostDisk(BTreeMap<ValidatorIndex, (EpochNumber, Sn)>);

impl Mir {
    pub(crate) fn note_report(&mut self, from: ValidatorIndex, status: Status) {
        if self.promises.has_lost_disk {
            self.lost.0.insert(from, (status.wants.max(status.epoch), status.stable));
        }
    }

    /// T3: learns what it may have signed, from members with a quorum of votes. Each quorum that this member knew shares a correct
    /// member with them, so with E as the highest reported epoch:
    ///
    /// A report counts if certificates show the checkpoint, and an epoch shortly before the reported one. So a liar cannot silence
    /// this member for long.
    ///
    /// - This member was in epochs up to E + 1. A quorum had voted for the last one: after leaving for it, or for a gracious one in
    ///   the epoch before.
    /// - It sent EPOCH-CHANGEs for epochs up to E + 3: two later if a configuration was overdue, or one after a quorum had left
    ///   ([`Self::is_change_backed`]). ECHOs for ungracious epochs need EPOCH-CHANGEs of a quorum.
    /// - The highest reported checkpoint is at most a window below the lost one ([`Self::may_sign_checkpoint`]), and this member voted
    ///   up to a window above that.
    pub(crate) fn regain_votes(&mut self) {
        if !self.promises.has_lost_disk {
            return;
        }
        let is_plausible = |(_, (epoch, stable)): &(&ValidatorIndex, &(EpochNumber, Sn))| {
            *epoch <= self.epoch.epoch.plus(MAX_LEAD) && *stable <= self.stable()
        };
        let reports = || self.lost.0.iter().filter(is_plausible);
        let epochs = reports().map(|(member, (epoch, _))| (*epoch, *member)).collect();
        let stables = reports().map(|(member, (_, stable))| (*stable, *member)).collect();
        let Some((epoch, stable)) = self.sufficient(epochs).zip(self.sufficient(stables)) else { return };
        let (epoch, sn) = (epoch.plus(3), stable.max(self.stable()).plus(2 * self.config.window));
        self.note("votes-regained", format!("after a lost disk, after epoch {epoch} and number {sn}"));
        self.promises.silent = Some((epoch, sn));
        self.promises.has_lost_disk = false;
        self.lost.0.clear();
        self.persist_promises(AfterDurable::Promises);
    }

    /// The highest of the lowest reports of members with a quorum of votes, or of all others: a liar cannot silence this member if
    /// enough others report.
    fn sufficient<T: Ord + Copy>(&self, mut reports: Vec<(T, ValidatorIndex)>) -> Option<T> {
        reports.sort_unstable();
        let others = self.committee.total() - self.committee.votes(self.me);
        let needed = self.committee.quorum().min(others);
        let mut votes = Votes(0);
        reports.into_iter().find_map(|(report, member)| {
            votes += self.committee.votes(member);
            (votes >= needed).then_some(report)
        })
    }

    /// True if this member cannot have voted for a configuration of this epoch before.
    pub(crate) fn may_echo(&self, epoch: EpochNumber) -> bool {
        !self.promises.has_lost_disk && self.promises.silent.is_none_or(|(until, _)| epoch > until)
    }

    /// True if an EPOCH-CHANGE for this epoch would leave out nothing: what this member may have prepared is below its checkpoint.
    pub(crate) fn may_change(&self, epoch: EpochNumber) -> bool {
        self.may_echo(epoch) && self.promises.silent.is_none_or(|(_, sn)| self.stable() >= sn)
    }
}
