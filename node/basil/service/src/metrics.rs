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
        let mut counter = |name: &str, help: &str, value: u64| {
            let name = format!("corniche_shards_{name}");
            ConstCounter::new(value).encode(encoder.encode_descriptor(&name, help, None, MetricType::Counter)?)
        };
        let mail = &self.mail;
        counter("messages_received", "Messages of members", mail.received.get())?;
        counter("messages_dropped", "Messages dropped because too many waited", mail.dropped.get())?;
        counter("messages_refused", "Messages that are never valid", mail.refused.get())?;
        counter("messages_sent", "Messages to members", mail.sent.get())?;
        match &self.role {
            Role::Replica(progress) => {
                counter("committed", "Transactions that committed on this shard", progress.committed.get())?;
                counter("aborted", "Attempts of transactions that aborted on this shard", progress.aborted.get())?;
            }
            Role::Gateway(shared) => {
                let counts = &shared.counts;
                counter("fast", "Own transactions that all replicas committed at once", counts.fast.get())?;
                counter("logged", "Own transactions whose decision was logged", counts.logged.get())?;
                counter("reconciled", "Own transactions whose decision an election made", counts.reconciled.get())?;
                counter("retries", "Attempts that aborted, and were repeated", counts.retries.get())?;
                counter("dropped", "Transactions that were given up", counts.dropped.get())?;
                counter("recovered", "Transactions of other gateways that this one finished", counts.recovered.get())?;
                counter("exported", "Transactions in blocks", counts.exported.get())?;
            }
        }
        let mut gauge = |name: &str, help: &str, value: u64| {
            let name = format!("corniche_shards_{name}");
            ConstGauge::new(value).encode(encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?)
        };
        match &self.role {
            Role::Replica(progress) => {
                gauge("footprint", "Transactions, keys and ongoing reads in memory", progress.footprint.get())?;
                gauge("journal_bytes", "Size of the journal", progress.journal_bytes.get())?;
                gauge(
                    "complete_ms",
                    "Unix time in ms below which everything is decided here",
                    progress.complete_us.get() / 1_000,
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
