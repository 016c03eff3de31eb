//! Upgrades of the protocol version (validators.md §9), on a node whose build does not know the next version (U3).
//!
//! Such a node warns from the freeze on, because its operator still has time then. It finishes the epoch: it orders and certifies
//! the last block like the others. When the certificate is durable, it serves the block and runs its engine for some more
//! seconds, because others may need both to reach the end. Then it halts. After a restart with a newer build it continues.

use super::Pipeline;
use crate::epoch::EpochStart;
use crate::io::{HaltCause, Halted, NodeKey, Output};
use crate::message::PeerMessage;
use corniche_staking::{
    StateSlots,
    record::{Header, Phase},
    upgrade::VersionVotes,
};
use corniche_types::{Epoch, TimestampMs};

/// Time for which an outdated node serves the end of its last epoch.
const SERVE_END_MS: u64 = 10_000;

/// Steps of an outdated node before an upgrade.
#[derive(Default)]
pub(super) struct Upgrade {
    /// Step of an epoch at which the votes were last counted, so that each step counts them once.
    counted_at: Option<(Epoch, Phase)>,
    /// Epoch in which the operator was warned.
    warned_in: Option<Epoch>,
    /// Time at which the node halts. Its version does not have the next epoch.
    pub stops_at: Option<TimestampMs>,
}

impl Upgrade {
    pub fn is_stopping(&self) -> bool {
        self.stops_at.is_some()
    }
}

impl Pipeline {
    /// Warns once in an epoch, from the freeze on, if enough votes of the next committee know a version that this build does not.
    pub(super) fn warn_of_upgrade(&mut self) {
        let (epoch, target) = (self.epoch.epoch, self.epoch.protocol_version.saturating_add(1));
        let is_possible = self.genesis.epochs().is_some() && self.known.rules(target).is_none();
        if !is_possible || self.upgrade.warned_in == Some(epoch) {
            return;
        }
        let view = self.view();
        let slots = &mut StateSlots(&view);
        let Ok(Header { epoch: counted, phase, .. }) = Header::load(slots) else { return };
        // The newest block may have ended the epoch already.
        if counted != epoch || phase == Phase::Open || self.upgrade.counted_at == Some((epoch, phase)) {
            return;
        }
        self.upgrade.counted_at = Some((epoch, phase));
        let Ok(votes) = VersionVotes::of_next_epoch(slots) else { return };
        if votes.activates(target) {
            self.upgrade.warned_in = Some(epoch);
            let (known, counted) = (self.known.highest(), votes.at_least(target));
            self.out.push_back(Output::Warn(format!(
                "protocol version {target} starts with epoch {}: {counted} of {} votes announced it, {} are needed, and this build knows \
                 versions up to {known}; install a newer build, or the node stops when epoch {epoch} ends",
                epoch.next(),
                votes.total,
                votes.needed
            )));
        }
    }

    /// The epoch has ended, and this build does not know the version of the next one.
    pub(super) fn leave_at_end(&mut self, now: TimestampMs, next: EpochStart) {
        self.upgrade.stops_at = Some(TimestampMs(now.0.saturating_add(SERVE_END_MS)));
        // Others that lack it can follow to the end.
        if let Some(certificate) = self.newest_certificate.clone() {
            let to: Vec<NodeKey> = self.peers.keys().copied().collect();
            self.out.push_back(Output::Send { to, message: PeerMessage::Certificate(certificate) });
        }
        self.out.push_back(Output::Warn(self.outdated(next)));
    }

    /// Halts once others had time to get the end of the epoch.
    pub(super) fn stop_if_outdated(&mut self, now: TimestampMs) {
        if self.upgrade.stops_at.is_some_and(|at| now >= at)
            && !self.mode.is_halted()
            && let Some(next) = self.next_epoch()
        {
            self.halt_as_outdated(next);
        }
    }

    pub(super) fn halt_as_outdated(&mut self, next: EpochStart) {
        let reason = self.outdated(next);
        self.halt(Halted { cause: HaltCause::Outdated, reason }, None);
    }

    fn outdated(&self, EpochStart { epoch, protocol_version, .. }: EpochStart) -> String {
        let known = self.known.highest();
        format!(
            "epoch {epoch} starts under protocol version {protocol_version}, and this build knows versions up to {known}; install a build \
             that knows version {protocol_version}, and start it on the same data directory"
        )
    }
}
