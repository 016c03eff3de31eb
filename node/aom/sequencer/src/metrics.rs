//! Metrics, with the prefix `corniche_sequencer`. Label values come from the configuration and from fixed sets.

use crate::{DropReason, back_end::Sent};
use corniche_aom_wire::Stamped;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

/// Metrics of a sequencer; cheap to clone. The writer thread updates them.
#[derive(Clone, Debug)]
pub struct Metrics {
    received: Counter,
    receive_errors: Counter,
    dropped: BTreeMap<DropReason, Counter>,
    groups: BTreeMap<u32, GroupMetrics>,
}

#[derive(Clone, Debug)]
pub(crate) struct GroupMetrics {
    epoch: Gauge<u64, AtomicU64>,
    serving: Gauge<u64, AtomicU64>,
    begun: Counter,
    stamped: Counter,
    heartbeats: Counter,
    signed: Counter,
    seq: Gauge<u64, AtomicU64>,
    sent: Counter,
    send_errors: Counter,
    fallbacks: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GroupLabel {
    group: u32,
}

impl Metrics {
    /// Registers metrics for groups.
    pub(crate) fn register(registry: &mut Registry, groups: impl Iterator<Item = u32>) -> Self {
        let registry = registry.sub_registry_with_prefix("corniche_sequencer");
        let (received, receive_errors) = (Counter::default(), Counter::default());
        registry.register("packets_received", "Datagrams received", received.clone());
        registry.register("receive_errors", "Errors of the receiving socket", receive_errors.clone());
        let by_reason = Family::<ReasonLabel, Counter>::default();
        registry.register("packets_dropped", "Datagrams without effect, by reason", by_reason.clone());
        let counter = |registry: &mut Registry, name: &str, help: &str| {
            let family = Family::<GroupLabel, Counter>::default();
            registry.register(name, help, family.clone());
            family
        };
        let stamped = counter(registry, "requests_stamped", "Requests that got a number, by group");
        let heartbeats = counter(registry, "heartbeats", "Heartbeats, by group");
        let signed = counter(registry, "packets_signed", "Packets with a signature, by group");
        let sent = counter(registry, "datagrams_sent", "Datagrams passed to the system, by group");
        let send_errors = counter(registry, "send_errors", "Datagrams that the system refused, by group");
        let fallbacks = counter(registry, "gso_fallbacks", "Datagrams that the system refused to segment, by group");
        let begun = counter(registry, "epochs_begun", "Epochs that began, by group");
        let gauge = |registry: &mut Registry, name: &str, help: &str| {
            let family = Family::<GroupLabel, Gauge<u64, AtomicU64>>::default();
            registry.register(name, help, family.clone());
            family
        };
        let seq = gauge(registry, "seq", "Number of the last packet of the epoch, by group");
        let epoch = gauge(registry, "epoch", "Epoch, by group; 0 while it is on standby");
        let serving = gauge(registry, "serving", "1 if the group has an epoch, 0 while it is on standby");
        let dropped = DropReason::ALL.map(|reason| {
            let label = ReasonLabel { reason: reason.name() };
            (reason, by_reason.get_or_create_owned(&label))
        });
        let groups = groups.map(|group| {
            let label = GroupLabel { group };
            let metrics = GroupMetrics {
                epoch: epoch.get_or_create_owned(&label),
                serving: serving.get_or_create_owned(&label),
                begun: begun.get_or_create_owned(&label),
                stamped: stamped.get_or_create_owned(&label),
                heartbeats: heartbeats.get_or_create_owned(&label),
                signed: signed.get_or_create_owned(&label),
                seq: seq.get_or_create_owned(&label),
                sent: sent.get_or_create_owned(&label),
                send_errors: send_errors.get_or_create_owned(&label),
                fallbacks: fallbacks.get_or_create_owned(&label),
            };
            (group, metrics)
        });
        Self { received, receive_errors, dropped: dropped.into(), groups: groups.collect() }
    }

    /// Returns the number of received datagrams.
    pub fn received(&self) -> u64 {
        self.received.get()
    }

    /// Returns the number of datagrams without effect for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped.get(&reason).map_or(0, Counter::get)
    }

    /// Returns the epoch of a group; `None` while it is on standby.
    pub fn epoch(&self, group: u32) -> Option<u32> {
        let group = self.groups.get(&group).filter(|group| group.serving.get() == 1)?;
        u32::try_from(group.epoch.get()).ok()
    }

    /// Returns the number of epochs of a group that began.
    pub fn begun(&self, group: u32) -> u64 {
        self.groups.get(&group).map_or(0, |group| group.begun.get())
    }

    /// Returns the number of the last packet of a group in its epoch.
    pub fn seq(&self, group: u32) -> u64 {
        self.groups.get(&group).map_or(0, |group| group.seq.get())
    }

    /// Returns the number of datagrams of a group that the system refused to segment.
    pub fn gso_fallbacks(&self, group: u32) -> u64 {
        self.groups.get(&group).map_or(0, |group| group.fallbacks.get())
    }

    /// Returns the number of datagrams of a group that the system refused to send.
    pub fn send_errors(&self, group: u32) -> u64 {
        self.groups.get(&group).map_or(0, |group| group.send_errors.get())
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = u32> {
        self.groups.keys().copied()
    }

    pub(crate) fn count_received(&self) {
        self.received.inc();
    }

    pub(crate) fn count_receive_error(&self) {
        self.receive_errors.inc();
    }

    pub(crate) fn count_dropped(&self, reason: DropReason) {
        if let Some(counter) = self.dropped.get(&reason) {
            counter.inc();
        }
    }

    /// Counts the begin of an epoch, whose numbers start again.
    pub(crate) fn count_begun(&self, group: u32, epoch: u32) {
        let Some(metrics) = self.groups.get(&group) else { return };
        metrics.begun.inc();
        metrics.seq.set(0);
        metrics.epoch.set(epoch.into());
        metrics.serving.set(1);
    }

    pub(crate) fn count_stamped(&self, group: u32, stamped: Stamped, is_heartbeat: bool) {
        let Some(metrics) = self.groups.get(&group) else { return };
        if is_heartbeat { &metrics.heartbeats } else { &metrics.stamped }.inc();
        if stamped.signed {
            metrics.signed.inc();
        }
        metrics.seq.inner().store(stamped.seq, Ordering::Relaxed);
    }

    /// Counts what the kernel stamped since the last call, and its newest number.
    #[cfg(feature = "xdp")]
    pub(crate) fn count_kernel(&self, group: u32, seq: u64, requests: u64, heartbeats: u64) {
        let Some(metrics) = self.groups.get(&group) else { return };
        metrics.stamped.inc_by(requests);
        metrics.heartbeats.inc_by(heartbeats);
        metrics.seq.set(seq);
    }

    /// Counts datagrams that the kernel handled: those that it dropped, by reason, and the others.
    #[cfg(feature = "xdp")]
    pub(crate) fn count_frames(&self, reason: Option<DropReason>, frames: u64) {
        self.received.inc_by(frames);
        if let Some(counter) = reason.and_then(|reason| self.dropped.get(&reason)) {
            counter.inc_by(frames);
        }
    }

    pub(crate) fn count_sent(&self, group: u32, sent: Sent) {
        let Some(metrics) = self.groups.get(&group) else { return };
        metrics.sent.inc_by(sent.datagrams);
        metrics.send_errors.inc_by(sent.errors);
        metrics.fallbacks.inc_by(sent.fallbacks);
    }
}
