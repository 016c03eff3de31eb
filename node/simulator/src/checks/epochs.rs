//! Checks of epochs, and their measurements.

use super::{Checks, ProcessState};
use crate::report::Spread;
use corniche_engine::Committee;
use corniche_pipeline::CoinStatus;
use corniche_staking::{Notice, NoticeKind, StateSlots, record};
use corniche_state::{CommittedBlock, State};
use corniche_testkit::Micros;
use corniche_types::{B256, Epoch, SkipReason, StakingParameters};
use std::collections::BTreeMap;

/// State of the checks of epochs.
pub(super) struct Epochs {
    /// `None`: epochs never end.
    staking: Option<StakingParameters>,
    /// Members by index, in each epoch.
    pub members: BTreeMap<Epoch, Vec<usize>>,
    /// Ends of the epochs from 0 on.
    ends: Vec<EpochEnd>,
    running: RunningEpoch,
    /// Time of the last block of an epoch and of the first one of the next, at each member.
    pub gaps: Vec<(Micros, Micros)>,
    /// Time from a freeze until all members of the next committee have acknowledged their shares of a coin.
    dealings: Vec<Micros>,
}

/// End of an epoch, as the first honest node saw it.
struct EpochEnd {
    at: Micros,
    /// Hash of the next committee.
    next: B256,
    /// Members of the next committee, by index.
    members: Vec<usize>,
    /// True if the old committee stayed because no new one was ready.
    is_kept: bool,
}

/// The epoch of the newest block.
#[derive(Default)]
struct RunningEpoch {
    epoch: Epoch,
    /// Start on the chain's clock, ms.
    start_ms: u64,
    last_commit: u64,
    frozen_at: Option<Micros>,
    acknowledgements: usize,
    acknowledged_at: Micros,
}

impl Epochs {
    pub fn new(staking: Option<StakingParameters>) -> Self {
        Self {
            staking,
            members: BTreeMap::new(),
            ends: Vec::new(),
            running: RunningEpoch::default(),
            gaps: Vec::new(),
            dealings: Vec::new(),
        }
    }
}

impl Checks {
    /// A process is in an epoch, from its start or since now.
    pub fn entered(&mut self, process: usize, committee: &Committee, members: Vec<usize>, coin: CoinStatus) {
        let ProcessState { identity, honest, .. } = self.processes[process];
        let epoch = committee.epoch();
        self.processes[process].members.clone_from(&members);
        if !honest {
            return;
        }
        let end = epoch.0.checked_sub(1).map(|before| self.epochs.ends.get(before as usize));
        match end {
            Some(None) => self.violation(|| format!("epochs: node {identity}: epoch {epoch} without an end of the one before")),
            Some(Some(end)) if end.next != committee.hash() || end.members != members => {
                self.violation(|| format!("epochs: node {identity}: another committee in epoch {epoch}"));
            }
            _ => {}
        }
        if coin.lacks_share {
            self.violation(|| format!("epochs: node {identity} lacks its share of the coin in epoch {epoch}"));
        }
        let known = self.epochs.members.entry(epoch).or_insert_with(|| members.clone());
        if *known != members {
            self.violation(|| format!("epochs: node {identity}: other members in epoch {epoch}"));
        }
    }

    /// Checks the place of a new block in its epoch, and whether the epoch ends with it.
    pub(super) fn check_epoch(&mut self, now: Micros, committed: &CommittedBlock, state: &State) {
        let (height, record) = (committed.block.height(), &committed.block.ordering);
        let Some(StakingParameters { epoch_ms, closing_ms, .. }) = self.epochs.staking else { return };
        if record.epoch != self.epochs.running.epoch {
            let running = self.epochs.running.epoch;
            self.violation(|| format!("epochs: block {height} is of epoch {}, not {running}", record.epoch));
        }
        if record.last_commit.0 < self.epochs.running.last_commit {
            self.violation(|| format!("epochs: block {height}: commits do not count from 1 in each epoch"));
        }
        self.epochs.running.last_commit = record.last_commit.0;
        let is_over = record.time.0 >= self.epochs.running.start_ms + epoch_ms;
        if record.next.is_some() != is_over {
            self.violation(|| format!("epochs: block {height}: the last one must be the first at or after the end"));
        }
        if record.time.0 >= self.epochs.running.start_ms + epoch_ms - closing_ms {
            self.epochs.running.frozen_at.get_or_insert(now);
        }
        let notices = record.skipped.iter().filter(|skipped| skipped.reason == SkipReason::Notice);
        let entries =
            notices.filter_map(|skipped| Notice::decode(&committed.block.ordered.get(skipped.position as usize)?.raw));
        let acknowledgements = entries.filter(|notice| notice.kind() == NoticeKind::Acknowledge).count();
        if acknowledgements > 0 {
            self.epochs.running.acknowledgements += acknowledgements;
            self.epochs.running.acknowledged_at = now;
        }
        let Some(next) = &record.next else { return };
        let snapshot = state.latest();
        let mut slots = StateSlots(&snapshot);
        let [old, new] = [record.epoch, record.epoch.next()].map(|epoch| {
            record::Committee::load(&mut slots, epoch).expect("invariant: the state of an executed block is readable")
        });
        let members: Vec<usize> = new.members.iter().map(|member| self.names.number(&member.keys.network.0)).collect();
        let running = std::mem::take(&mut self.epochs.running);
        if let Some(frozen_at) = running.frozen_at.filter(|_| running.acknowledgements >= members.len()) {
            self.epochs.dealings.push(running.acknowledged_at - frozen_at);
        }
        self.epochs.running = RunningEpoch { epoch: record.epoch.next(), start_ms: record.time.0, ..RunningEpoch::default() };
        let is_kept = old.frozen_in == new.frozen_in;
        self.epochs.ends.push(EpochEnd { at: now, next: next.committee_hash, members, is_kept });
    }

    pub fn epochs_ended(&self) -> u64 {
        self.epochs.ends.len() as u64
    }

    /// Number of epochs after which the old committee stayed.
    pub fn epochs_kept(&self) -> u64 {
        self.epochs.ends.iter().filter(|end| end.is_kept).count() as u64
    }

    /// Members of each committee that an epoch's end decided.
    pub fn committees(&self) -> Vec<Vec<usize>> {
        self.epochs.ends.iter().map(|end| end.members.clone()).collect()
    }

    /// Time from the last block of an epoch to the first one of the next, for ends from `from` until `until`.
    pub fn epoch_gap(&self, from: Micros, until: Micros) -> Option<Spread> {
        let gaps = self.epochs.gaps.iter().filter(|(ended, _)| (from..until).contains(ended));
        Spread::of(&mut gaps.map(|(ended, next)| (*next - *ended).0).collect::<Vec<_>>())
    }

    /// Time from a freeze until all have acknowledged the coin.
    pub fn coin_dealing(&self) -> Option<Spread> {
        Spread::of(&mut self.epochs.dealings.iter().map(|time| time.0).collect::<Vec<_>>())
    }

    /// Commits in the second around each end of an epoch, as a fraction of those in a second far from all ends, in
    /// thousandths: mean and minimum. From the second `from` of the load until its end.
    pub fn epoch_throughput(&self, from: Micros, until: Micros) -> Option<(u64, u64)> {
        const HALF: Micros = Micros(500_000);
        let around: Vec<(Micros, Micros)> = self.epochs.ends.iter().map(|end| (end.at - HALF, end.at + HALF)).collect();
        let inside: Vec<_> = around.iter().filter(|(first, last)| *first >= from && *last <= until).collect();
        let (mut near, mut far) = (vec![0u64; inside.len()], 0u64);
        for at in self.latencies.iter().map(|latency| latency.committed_at).filter(|at| (from..until).contains(at)) {
            far += u64::from(!around.iter().any(|(first, last)| (*first..*last).contains(&at)));
            for (count, _) in near.iter_mut().zip(&inside).filter(|(_, (first, last))| (*first..*last).contains(&at)) {
                *count += 1;
            }
        }
        let near_us = 1_000_000 * inside.len() as u64;
        // With short epochs no second is far from all ends.
        let far_us = until.0.checked_sub(from.0)?.checked_sub(near_us).filter(|far_us| *far_us >= 2 * near_us)?;
        let steady = (far * 1_000_000).checked_div(far_us).filter(|rate| *rate > 0)?;
        let fraction = |count: u64| count * 1_000 / steady;
        let mean = near.iter().map(|count| fraction(*count)).sum::<u64>().checked_div(near.len() as u64)?;
        Some((mean, near.iter().map(|count| fraction(*count)).min()?))
    }
}
