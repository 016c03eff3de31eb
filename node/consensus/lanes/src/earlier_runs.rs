//! Bounds the batches that earlier runs of this validator may have made. Their disks may be lost.

use crate::{Exchange, MAX_OPEN_BATCHES, Reports, Tip};
use corniche_engine::{Committee, Output};
use corniche_types::ValidatorIndex;

/// After each start, others report the highest slot, or round, in use. No earlier run delivered a later one. So none made a batch beyond the
/// room of its lane above the last one delivered there. Batches are on disk before they are sent. If others name one beyond that room
/// that is not here, another process has this validator's keys (K5 of validators.md).
#[derive(Default)]
pub struct EarlierRuns<S> {
    reports: Reports<S>,
    /// The highest of the reports of a quorum.
    reached: Option<S>,
    /// Highest number of a batch that an earlier run may have made.
    last_batch: Option<u64>,
    /// A twin was reported.
    has_twin: bool,
}

impl<S: Copy + Ord> EarlierRuns<S> {
    /// Returns true until members with a quorum of votes reported.
    pub fn needs_reports(&self) -> bool {
        self.reached.is_none()
    }

    /// Adds a report. Returns the highest one, once members with a quorum of votes reported.
    pub fn add(&mut self, from: ValidatorIndex, report: S, committee: &Committee) -> Option<S> {
        if !self.needs_reports() {
            return None;
        }
        self.reached = self.reports.add(from, report, committee);
        self.reached
    }

    /// Call this after deliveries: `tip` is the last own one.
    pub fn bound(&mut self, delivered: S, tip: Tip) {
        if self.last_batch.is_none() && self.reached.is_some_and(|reached| delivered >= reached) {
            // An earlier run may have had other parameters. One more, because the empty batch that ends a silence does not wait for room.
            self.last_batch = Some(tip.number + MAX_OPEN_BATCHES + 1);
        }
    }

    /// Call this for batches that others name. A twin is reported once.
    pub fn check(&mut self, exchange: &Exchange, author: ValidatorIndex, tip: Tip) -> Option<Output> {
        let is_unknown = author == exchange.me && exchange.lanes.get(author, &tip).is_none();
        let last = self.last_batch.filter(|last| is_unknown && tip.number > *last && !self.has_twin)?;
        self.has_twin = true;
        Some(Output::Twin(format!("own batch {} is not here, and no earlier run had made more than {last}", tip.number)))
    }
}
