//! A replica that lost its disk: it follows, until it knows what it may have promised (S5).

use crate::{engine::Neobft, message::View, order::Effect};
use corniche_types::{TimestampMs, ValidatorIndex, Votes};
use std::collections::BTreeMap;

/// Knowledge of a replica that lost its disk (S5).
pub(crate) struct LostDisk {
    /// Start of the engine. Own requests since then are not from before the loss.
    since: TimestampMs,
    /// The newest reports of members: the views that they are in or move to.
    reported: BTreeMap<ValidatorIndex, View>,
    /// An own request since the start was executed.
    has_own_request: bool,
}

impl LostDisk {
    pub fn new(since: TimestampMs) -> Self {
        Self { since, reported: BTreeMap::new(), has_own_request: false }
    }
}

impl Neobft {
    /// A member reports the view that it is in or moves to.
    pub(crate) fn note_view(&mut self, from: ValidatorIndex, left: Option<View>) {
        if let (Some(lost), Some(left)) = (&mut self.sync.lost, left) {
            lost.reported.insert(from, left);
        }
    }

    /// An own request that was made after a lost disk shows soon that the log is long enough again.
    pub(crate) fn claim_after_lost_disk(&mut self) {
        let is_missing = self.sync.lost.as_ref().is_some_and(|lost| !lost.has_own_request);
        if is_missing && self.requests.has_claimed_before(self.now, self.config.request_ms) {
            self.claim_time();
        }
    }

    /// S5: after a lost disk this replica takes part again when its log contains all that it may have replied to.
    ///
    /// - Any quorum in which it took part contains correct others, and so do the members with Q votes that reported. So no such
    ///   quorum was in a view after the highest reported one, and this replica has the log of that view or of a later one.
    /// - An own request since the start was executed. The sequencer stamped it after the loss, so everything that this replica
    ///   replied to has a lower number.
    ///
    /// It still votes only in later views, and confirms packets only in later epochs: it may have signed other votes before.
    pub(crate) fn regain_votes(&mut self) {
        let Some(lost) = self.sync.lost.as_ref().filter(|lost| lost.has_own_request) else { return };
        let mut reports: Vec<_> = lost.reported.iter().map(|(member, view)| (*view, *member)).collect();
        reports.sort_unstable();
        // The lowest views that suffice: a liar cannot silence this replica if enough others report.
        let others = self.committee.total() - self.committee.votes(self.me);
        let needed = self.committee.quorum().min(others);
        let mut votes = Votes(0);
        let mut counted = reports.iter().take_while(|(_, member)| {
            let is_counted = votes < needed;
            votes += self.committee.votes(*member);
            is_counted
        });
        let highest = counted.by_ref().last().map(|(view, _)| *view);
        let view = self.view();
        if votes < needed || !self.is_normal() || highest.is_none_or(|highest| highest > view) {
            return;
        }
        self.note("votes-regained", format!("after a lost disk, from {} on", view.next_leader()));
        self.promises.silent_before = view.next_leader();
        self.promises.confirms_from = view.epoch.saturating_add(1);
        self.sync.lost = None;
        self.persist_promises();
    }

    /// A slot was executed.
    pub(crate) fn note_own_request(&mut self, effect: &Effect) {
        if let (Some(lost), Effect::Batch { author, time, .. } | Effect::Clock { author, time, .. }) =
            (&mut self.sync.lost, effect)
        {
            lost.has_own_request |= *author == self.me && *time >= lost.since;
        }
    }
}
