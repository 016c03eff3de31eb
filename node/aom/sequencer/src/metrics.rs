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
    pub epoch: u32,
    pub is_active: bool,
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
    /// Registers metrics for groups, each with its epoch and whether it is active.
    pub(crate) fn register(registry: &mut Registry, groups: impl Iterator<Item = (u32, u32, bool)>) -> Self {
        let registry = registry.sub_registry_with_prefix("corniche_sequencer");
        let (received, receive_errors) = (Counter::default(), Counter::default());
        registry.register("packets_received", "Datagrams received", received.clone());
        registry.register("receive_errors", "Errors of the receiving socket", receive_errors.clone());
        let by_reason = Family::<ReasonLabel, Counter>::default();
        registry.register("packets_dropped", "Datagrams without a number, by reason", by_reason.clone());
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
        let seq = Family::<GroupLabel, Gauge<u64, AtomicU64>>::default();
        registry.register("seq", "Number of the last packet, by group", seq.clone());
        let epochs = Family::<GroupLabel, Gauge<u64, AtomicU64>>::default();
        registry.register("epoch", "Epoch, by group", epochs.clone());
        let dropped = DropReason::ALL.map(|reason| {
            let label = ReasonLabel { reason: reason.name() };
            (reason, by_reason.get_or_create_owned(&label))
        });
        let groups = groups.map(|(group, epoch, is_active)| {
            let label = GroupLabel { group };
            epochs.get_or_create(&label).set(epoch.into());
            let metrics = GroupMetrics {
                epoch,
                is_active,
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

    /// Returns the number of datagrams dropped for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped.get(&reason).map_or(0, Counter::get)
    }

    /// Returns the number of the last packet of a group.
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

    pub(crate) fn groups(&self) -> impl Iterator<Item = (u32, &GroupMetrics)> {
        self.groups.iter().map(|(group, metrics)| (*group, metrics))
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

    pub(crate) fn count_stamped(&self, group: u32, stamped: Stamped, is_heartbeat: bool) {
        let Some(metrics) = self.groups.get(&group) else { return };
        if is_heartbeat { &metrics.heartbeats } else { &metrics.stamped }.inc();
        if stamped.signed {
            metrics.signed.inc();
        }
        metrics.seq.inner().store(stamped.seq, Ordering::Relaxed);
    }

    pub(crate) fn count_sent(&self, group: u32, sent: Sent) {
        let Some(metrics) = self.groups.get(&group) else { return };
        metrics.sent.inc_by(sent.datagrams);
        metrics.send_errors.inc_by(sent.errors);
        metrics.fallbacks.inc_by(sent.fallbacks);
    }
}
