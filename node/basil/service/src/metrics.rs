//! Figures of a member for `/metrics`.

use crate::mail::Counters;
use crate::replica::Progress;
use crate::state::GatewayState;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads the figures at each scrape.
#[derive(Debug)]
pub struct MemberMetrics {
    pub mail: Arc<Counters>,
    pub role: Role,
}

/// Figures of the member's own role.
pub enum Role {
    Replica(Arc<Progress>),
    Gateway(Arc<GatewayState>),
}

impl fmt::Debug for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Replica(_) => "replica",
            Self::Gateway(_) => "gateway",
        })
    }
}

impl Collector for MemberMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut counter = |name: &str, help: &str, value: u64| {
            let name = format!("corniche_shards_{name}");
            ConstCounter::new(value).encode(encoder.encode_descriptor(&name, help, None, MetricType::Counter)?)
        };
        let mail = &self.mail;
        counter("messages_received", "Messages of members", read(&mail.received))?;
        counter("messages_dropped", "Messages dropped because too many waited", read(&mail.dropped))?;
        counter("messages_refused", "Messages that are never valid", read(&mail.refused))?;
        counter("messages_sent", "Messages to members", read(&mail.sent))?;
        match &self.role {
            Role::Replica(progress) => {
                counter("committed", "Transactions that committed on this shard", read(&progress.committed))?;
                counter("aborted", "Attempts of transactions that aborted on this shard", read(&progress.aborted))?;
            }
            Role::Gateway(shared) => {
                let counts = &shared.counts;
                counter("fast", "Own transactions that all replicas committed at once", read(&counts.fast))?;
                counter("logged", "Own transactions whose decision was logged", read(&counts.logged))?;
                counter("reconciled", "Own transactions whose decision an election made", read(&counts.reconciled))?;
                counter("retries", "Attempts that aborted, and were repeated", read(&counts.retries))?;
                counter("dropped", "Transactions that were given up", read(&counts.dropped))?;
                counter("recovered", "Transactions of other gateways that this one finished", read(&counts.recovered))?;
                counter("exported", "Transactions in blocks", read(&counts.exported))?;
            }
        }
        let mut gauge = |name: &str, help: &str, value: u64| {
            let name = format!("corniche_shards_{name}");
            ConstGauge::new(value).encode(encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?)
        };
        match &self.role {
            Role::Replica(progress) => {
                gauge("footprint", "Transactions, keys and ongoing reads in memory", read(&progress.footprint))?;
                gauge("journal_bytes", "Size of the journal", read(&progress.journal_bytes))?;
                gauge(
                    "complete_ms",
                    "Unix time in ms below which everything is decided here",
                    read(&progress.complete_us) / 1_000,
                )?;
            }
            Role::Gateway(shared) => {
                gauge("early", "Committed transactions without a block", shared.live().len() as u64)?;
                gauge("certified_block", "Newest block with a certificate", shared.certified().0)?;
            }
        }
        Ok(())
    }
}
