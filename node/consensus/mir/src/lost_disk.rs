//! A member that lost its disk: silent where it may have voted before (T3, X9).
//!
//! It learns two bounds from a quorum: an epoch U and a number N, such that its lost votes, EPOCH-CHANGEs and ECHOs were for epochs up
//! to U, and its lost votes about numbers up to N.
//!
//! - *Votes.* After epoch U it never voted before, so it votes again there, about all numbers.
//! - *EPOCH-CHANGE.* It must not leave out a certificate that it lost. There are two ways. A stable checkpoint at N or above makes
//!   them obsolete. Or an ungracious epoch after U begins, whose configuration it computed itself, and it prepares all listed batches
//!   again. The EPOCH-CHANGEs that this epoch starts from are complete, because none is from this member. So each batch that was
//!   committed before is listed, and the new certificates replace the lost ones.
//!
//! The second way takes some message delays, so the member seeks such an epoch, and the others help it. An idle network would need
//! minutes for the first way.

use crate::{
    engine::Mir,
    epochs::MAX_AHEAD,
    journal::AfterDurable,
    message::{EpochNumber, Sn, Status},
    rules,
};
use corniche_types::{TimestampMs, ValidatorIndex, Votes};
use std::collections::BTreeMap;

/// Epochs between the last certified one and the one that others report, from which a report does not count.
const MAX_LEAD: u64 = 16;

/// Each member gets so many changes of epochs within so many timeouts: a faulty one could ask for ever.
const HELPS: u32 = 8;
const HELP_TIMEOUTS: u64 = 100;

#[derive(Default)]
pub(crate) struct LostDisk {
    /// Reports of others since the start: the epochs that they want, and their stable checkpoints.
    reports: BTreeMap<ValidatorIndex, (EpochNumber, Sn)>,
    helped: BTreeMap<ValidatorIndex, Help>,
}

/// Help for one member.
struct Help {
    sought: EpochNumber,
    /// Changes since this time.
    count: u32,
    since: TimestampMs,
}

impl Mir {
    pub(crate) fn note_report(&mut self, from: ValidatorIndex, status: Status) {
        if self.promises.has_lost_disk {
            self.lost.reports.insert(from, (status.wants.max(status.epoch), status.stable));
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
    /// - It sent EPOCH-CHANGEs for epochs up to `MAX_AHEAD` later, because some member wanted that from its epoch, or from one that a
    ///   quorum had left for ([`Self::is_change_backed`]). ECHOs for ungracious epochs need EPOCH-CHANGEs of a quorum.
    /// - The highest reported checkpoint is at most a window below the lost one ([`Self::may_sign_checkpoint`]), and this member voted
    ///   up to a window above that.
    pub(crate) fn regain_votes(&mut self) {
        self.regain_changes();
        if !self.promises.has_lost_disk {
            return;
        }
        let is_plausible = |(_, (epoch, stable)): &(&ValidatorIndex, &(EpochNumber, Sn))| {
            *epoch <= self.epoch.epoch.plus(MAX_LEAD) && *stable <= self.stable()
        };
        let reports = || self.lost.reports.iter().filter(is_plausible);
        let epochs = reports().map(|(member, (epoch, _))| (*epoch, *member)).collect();
        let stables = reports().map(|(member, (_, stable))| (*stable, *member)).collect();
        let Some((epoch, stable)) = self.sufficient(epochs).zip(self.sufficient(stables)) else { return };
        let (epoch, sn) = (epoch.plus(1 + MAX_AHEAD), stable.max(self.stable()).plus(2 * self.config.window));
        self.note("votes-regained", format!("after a lost disk, after epoch {epoch} and number {sn}"));
        self.promises.silent = Some((epoch, sn));
        self.promises.has_lost_disk = false;
        self.lost.reports.clear();
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

    /// The member has new certificates instead of all that it lost.
    fn regain_changes(&mut self) {
        let Some((until, sn)) = self.promises.silent else { return };
        let (epoch, stable) = (self.epoch.epoch, self.stable());
        let is_checked = epoch > until && self.changes.checked == Some((epoch, self.context.config(&self.epoch)));
        let is_prepared = |sn: &Sn| self.prepared.get(sn).is_some_and(|certificate| certificate.epoch == epoch);
        let listed = (self.epoch.start.0 + 1..self.epoch.first.0).map(Sn);
        if stable >= sn || is_checked && listed.filter(|sn| *sn > stable).all(|sn| is_prepared(&sn)) {
            self.note("changes-regained", format!("after a lost disk, in epoch {epoch}"));
            self.promises.silent = None;
            self.persist_promises(AfterDurable::Promises);
        }
    }

    /// The next epoch on the way to one that completes this member: not one that it would have to begin in silence.
    pub(crate) fn seeks(&self) -> Option<EpochNumber> {
        let ((until, _), next) = (self.promises.silent?, self.epoch.epoch.plus(1));
        Some(if next > until { next } else { self.sought_by(self.me) })
    }

    /// The next epoch that another member leads than this one. A member that could choose any epoch would choose its own ones.
    fn sought_by(&self, member: ValidatorIndex) -> EpochNumber {
        let next = self.epoch.epoch.plus(1);
        if rules::primary(next, &self.committee) == member { next.plus(1) } else { next }
    }

    /// The epoch that this member would move to, to help another one that lost its disk.
    pub(crate) fn helped(&mut self) -> Option<EpochNumber> {
        let (epoch, now) = (self.epoch.epoch, self.now);
        let pause = self.config.timeout_ms.saturating_mul(HELP_TIMEOUTS);
        let sought = self.sync.sought().filter(|(member, sought)| epoch < *sought && *sought <= self.sought_by(*member));
        for (member, sought) in sought.collect::<Vec<_>>() {
            let help = self.lost.helped.entry(member).or_insert(Help { sought: EpochNumber(0), count: 0, since: now });
            if help.since.0.saturating_add(pause) <= now.0 {
                (help.count, help.since) = (0, now);
            }
            if help.sought < sought && help.count < HELPS {
                (help.sought, help.count) = (sought, help.count + 1);
            }
        }
        let open = self.lost.helped.values().map(|help| help.sought);
        open.filter(|sought| *sought > epoch && self.is_normal()).max()
    }

    /// True if an EPOCH-CHANGE for this epoch would leave out nothing.
    pub(crate) fn may_change(&self, epoch: EpochNumber) -> bool {
        self.promises.remembers(epoch) && self.promises.silent.is_none_or(|(_, sn)| self.stable() >= sn)
    }
}
