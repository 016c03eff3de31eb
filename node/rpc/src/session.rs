//! Subscriptions of one WebSocket.
//!
//! A subscription is a position in the chain, like a filter. For each new head, the connection asks each
//! subscription what is due. A slow client gets notifications later; nothing is queued for it meanwhile.

use crate::backend::{Reverted, SyncProgress};
use crate::convert;
use crate::filters::random_id;
use crate::log_match::{self, LogFilter};
use alloy_primitives::{Bloom, U128};
use corniche_api::{DagGrowth, Reason, RpcError, SUBSCRIPTION};
use corniche_types::{Epoch, Height};
use prometheus_client::metrics::gauge::Gauge;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Topic of a subscription.
pub(crate) enum Topic {
    NewHeads,
    Logs(Arc<LogFilter>),
    Pending {
        full: bool,
    },
    /// Sync status, and the one that the client got last.
    Syncing {
        reported: Option<bool>,
    },
    /// Newest round of a validator's DAG. Rounds may be skipped: each notification contains the newest.
    Dag,
    /// Epochs that begin, and the first one to report.
    Epochs {
        next: Epoch,
    },
}

/// Subscriptions that a block concerns.
#[derive(Default)]
pub(crate) struct DueSubscriptions {
    /// Subscriptions to headers.
    pub headers: Vec<U128>,
    /// Subscriptions to logs that the block may have.
    pub logs: Vec<(U128, Arc<LogFilter>)>,
}

pub(crate) struct Session {
    subscriptions: Mutex<BTreeMap<U128, Subscription>>,
    max: usize,
    open: Gauge,
}

struct Subscription {
    topic: Topic,
    /// First height to report.
    next: u64,
    /// False until the client has received the subscription's id.
    started: bool,
}

impl Session {
    pub fn new(max: usize, open: Gauge) -> Self {
        Self { subscriptions: Mutex::default(), max, open }
    }

    pub fn subscribe(&self, topic: Topic, head: Height) -> Result<U128, RpcError> {
        let mut subscriptions = self.lock();
        if subscriptions.len() >= self.max {
            return Err(Reason::TooManySubscriptions.with(self.max));
        }
        let id = random_id();
        subscriptions.insert(id, Subscription { topic, next: head.0 + 1, started: false });
        self.open.inc();
        Ok(id)
    }

    /// Returns true if the subscription existed.
    pub fn unsubscribe(&self, id: U128) -> bool {
        let removed = self.lock().remove(&id).is_some();
        if removed {
            self.open.dec();
        }
        removed
    }

    /// Starts subscriptions whose ids were sent to the client. Returns true if one of them follows the DAG.
    pub fn start(&self, ids: &[U128]) -> bool {
        let (mut subscriptions, mut dag) = (self.lock(), false);
        for id in ids {
            if let Some(subscription) = subscriptions.get_mut(id) {
                subscription.started = true;
                dag |= matches!(subscription.topic, Topic::Dag);
            }
        }
        dag
    }

    /// True if any subscription follows the chain.
    pub fn follows_heads(&self) -> bool {
        self.any_started(Topic::follows_blocks)
    }

    pub fn follows_pending(&self) -> bool {
        self.any_started(|topic| matches!(topic, Topic::Pending { .. }))
    }

    pub fn follows_syncing(&self) -> bool {
        self.any_started(|topic| matches!(topic, Topic::Syncing { .. }))
    }

    pub fn follows_epochs(&self) -> bool {
        self.any_started(|topic| matches!(topic, Topic::Epochs { .. }))
    }

    pub fn follows_dag(&self) -> bool {
        self.any_started(|topic| matches!(topic, Topic::Dag))
    }

    fn any_started(&self, wanted: impl Fn(&Topic) -> bool) -> bool {
        self.lock().values().any(|subscription| subscription.started && wanted(&subscription.topic))
    }

    /// Lowest height that some subscription has still to report.
    pub fn next(&self) -> Option<u64> {
        let subscriptions = self.lock();
        let started = subscriptions.values().filter(|subscription| subscription.started && subscription.topic.follows_blocks());
        started.map(|subscription| subscription.next).min()
    }

    /// Subscriptions that have not reported the block at `height`, without those whose filter its bloom excludes.
    pub fn due(&self, height: Height, bloom: Bloom) -> DueSubscriptions {
        let mut due = DueSubscriptions::default();
        for (id, subscription) in self.lock().iter().filter(|(_, subscription)| subscription.is_due(height)) {
            match &subscription.topic {
                Topic::NewHeads => due.headers.push(*id),
                Topic::Logs(filter) if log_match::may_match(bloom, filter) => due.logs.push((*id, filter.clone())),
                Topic::Logs(_) | Topic::Pending { .. } | Topic::Syncing { .. } | Topic::Dag | Topic::Epochs { .. } => {}
            }
        }
        due
    }

    /// Counts the block at `height` as reported. A connection that then fails to send a notification ends.
    pub fn advance(&self, height: Height) {
        for subscription in self.lock().values_mut().filter(|subscription| subscription.is_due(height)) {
            subscription.next = height.0 + 1;
        }
    }

    /// Subscriptions to pending transactions, each with its flag for full transactions.
    pub fn pending_subscriptions(&self) -> Vec<(U128, bool)> {
        let subscriptions = self.lock();
        let started = subscriptions.iter().filter(|(_, subscription)| subscription.started);
        let pending = started.filter_map(|(id, subscription)| match subscription.topic {
            Topic::Pending { full } => Some((*id, full)),
            Topic::NewHeads | Topic::Logs(_) | Topic::Syncing { .. } | Topic::Dag | Topic::Epochs { .. } => None,
        });
        pending.collect()
    }

    /// Notifications of the newest DAG round.
    pub fn dag_notifications(&self, growth: DagGrowth) -> Vec<String> {
        let subscriptions = self.lock();
        let started = subscriptions.iter().filter(|(_, subscription)| subscription.started);
        let dag_subscriptions = started.filter(|(_, subscription)| matches!(subscription.topic, Topic::Dag));
        dag_subscriptions.map(|(id, _)| notification(*id, &growth)).collect()
    }

    /// Lowest epoch up to the running one that some subscription has not reported, and the subscriptions that have to. Counts it as
    /// reported.
    pub fn take_due_epoch(&self, running: Epoch) -> Option<(Epoch, Vec<U128>)> {
        let mut subscriptions = self.lock();
        let mut followed: Vec<_> = subscriptions
            .iter_mut()
            .filter(|(_, subscription)| subscription.started)
            .filter_map(|(id, subscription)| match &mut subscription.topic {
                Topic::Epochs { next } if *next <= running => Some((*id, next)),
                _ => None,
            })
            .collect();
        let due = followed.iter().map(|(_, next)| **next).min()?;
        followed.retain(|(_, next)| **next == due);
        let ids = followed.into_iter().map(|(id, next)| {
            *next = due.next();
            id
        });
        Some((due, ids.collect()))
    }

    /// Notifications of reverted blocks, for subscriptions that reported them: their logs again, marked as
    /// removed. The newest remaining header and its successors follow like any other.
    pub fn revert_notifications(&self, reverted: &Reverted) -> Vec<String> {
        let mut messages = Vec::new();
        for (id, subscription) in self.lock().iter_mut().filter(|(_, subscription)| subscription.started) {
            let (reported, left) = (subscription.next, reverted.to.0);
            if reported <= left + 1 {
                continue;
            }
            match &subscription.topic {
                Topic::NewHeads => subscription.next = left,
                Topic::Logs(filter) => {
                    messages.extend(log_match::removed(reverted, filter, reported).map(|log| notification(*id, &log)));
                    subscription.next = left + 1;
                }
                Topic::Pending { .. } | Topic::Syncing { .. } | Topic::Dag | Topic::Epochs { .. } => {}
            }
        }
        messages
    }

    /// Sync notifications for subscriptions whose last reported status differs. The first is sent immediately
    /// after subscribing.
    pub fn sync_notifications(&self, progress: Option<SyncProgress>) -> Vec<String> {
        let now = progress.is_some();
        let mut messages = Vec::new();
        for (id, subscription) in self.lock().iter_mut().filter(|(_, subscription)| subscription.started) {
            let Topic::Syncing { reported } = &mut subscription.topic else { continue };
            if reported.replace(now) == Some(now) {
                continue;
            }
            messages.push(match progress {
                None => notification(*id, &false),
                Some(progress) => {
                    notification(*id, &serde_json::json!({"syncing": true, "status": convert::progress(progress)}))
                }
            });
        }
        messages
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<U128, Subscription>> {
        // Every critical section leaves the map consistent.
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    /// True if it has not reported the block at `height`.
    fn is_due(&self, height: Height) -> bool {
        self.started && self.topic.follows_blocks() && self.next <= height.0
    }
}

impl Topic {
    fn follows_blocks(&self) -> bool {
        matches!(self, Self::NewHeads | Self::Logs(_))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let left = i64::try_from(self.lock().len()).unwrap_or(i64::MAX);
        self.open.dec_by(left);
    }
}

/// Encodes the notification of a subscription.
pub(crate) fn notification<T: Serialize + ?Sized>(id: U128, result: &T) -> String {
    #[derive(Serialize)]
    struct Notification<'a, T: ?Sized> {
        jsonrpc: &'static str,
        method: &'static str,
        params: Params<'a, T>,
    }
    #[derive(Serialize)]
    struct Params<'a, T: ?Sized> {
        subscription: U128,
        result: &'a T,
    }
    let params = Params { subscription: id, result };
    let message = Notification { jsonrpc: "2.0", method: SUBSCRIPTION, params };
    serde_json::to_string(&message).expect("headers, logs and transactions have string keys only")
}
