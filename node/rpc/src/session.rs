//! Subscriptions of one WebSocket.
//!
//! Like a filter, a subscription is a position in the chain. When the connection is told of a new head it asks what is due, one
//! subscription after the other; a client that reads slowly gets everything later, and nothing queues for it meanwhile.

use crate::backend::{Reverted, SyncProgress};
use crate::convert;
use crate::filters::random_id;
use crate::logs;
use alloy_primitives::U128;
use alloy_rpc_types_eth::Filter;
use corniche_api::{DagGrowth, Reason, RpcError, SUBSCRIPTION};
use corniche_types::Height;
use prometheus_client::metrics::gauge::Gauge;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a subscription is about.
pub(crate) enum Topic {
    NewHeads,
    Logs(Arc<Filter>),
    Pending {
        full: bool,
    },
    /// Whether catching up, and what the client has heard of it.
    Syncing {
        told: Option<bool>,
    },
    /// How far a validator's DAG goes. Nothing is owed to anybody: whoever is told next is told what is newest then.
    Dag,
}

/// What a subscription is told of a block.
pub(crate) enum Due {
    Header,
    Logs(Arc<Filter>),
}

pub(crate) struct Session {
    subscriptions: Mutex<BTreeMap<U128, Subscription>>,
    max: usize,
    open: Gauge,
}

struct Subscription {
    topic: Topic,
    /// The first height to tell about.
    next: u64,
    /// False until the client has been told the subscription's name.
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

    /// Whether there was one.
    pub fn unsubscribe(&self, id: U128) -> bool {
        let removed = self.lock().remove(&id).is_some();
        if removed {
            self.open.dec();
        }
        removed
    }

    /// The client knows these names now. Answers whether one of them follows the DAG.
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

    /// Whether any subscription follows the chain.
    pub fn follows_heads(&self) -> bool {
        self.any(Topic::is_of_blocks)
    }

    pub fn follows_pending(&self) -> bool {
        self.any(|topic| matches!(topic, Topic::Pending { .. }))
    }

    pub fn follows_syncing(&self) -> bool {
        self.any(|topic| matches!(topic, Topic::Syncing { .. }))
    }

    pub fn follows_dag(&self) -> bool {
        self.any(|topic| matches!(topic, Topic::Dag))
    }

    fn any(&self, wanted: impl Fn(&Topic) -> bool) -> bool {
        self.lock().values().any(|subscription| subscription.started && wanted(&subscription.topic))
    }

    /// The lowest height some subscription has not been told about yet.
    pub fn next(&self) -> Option<u64> {
        let subscriptions = self.lock();
        let started = subscriptions.values().filter(|subscription| subscription.started && subscription.topic.is_of_blocks());
        started.map(|subscription| subscription.next).min()
    }

    /// The next subscription that is due something of the block at `height`. From now on it counts as told: a connection that fails to tell
    /// it ends.
    pub fn take_due(&self, height: Height) -> Option<(U128, Due)> {
        self.lock().iter_mut().find_map(|(id, subscription)| {
            if !subscription.started || subscription.next > height.0 {
                return None;
            }
            let due = match &subscription.topic {
                Topic::NewHeads => Due::Header,
                Topic::Logs(filter) => Due::Logs(filter.clone()),
                Topic::Pending { .. } | Topic::Syncing { .. } | Topic::Dag => return None,
            };
            subscription.next = height.0 + 1;
            Some((*id, due))
        })
    }

    /// Subscriptions to transactions that enter the pool, each with whether it wants them in full.
    pub fn of_pending(&self) -> Vec<(U128, bool)> {
        let subscriptions = self.lock();
        let started = subscriptions.iter().filter(|(_, subscription)| subscription.started);
        let of_pending = started.filter_map(|(id, subscription)| match subscription.topic {
            Topic::Pending { full } => Some((*id, full)),
            Topic::NewHeads | Topic::Logs(_) | Topic::Syncing { .. } | Topic::Dag => None,
        });
        of_pending.collect()
    }

    /// Messages to those who follow the DAG, which goes so far now.
    pub fn tell_dag(&self, growth: DagGrowth) -> Vec<String> {
        let subscriptions = self.lock();
        let started = subscriptions.iter().filter(|(_, subscription)| subscription.started);
        let of_dag = started.filter(|(_, subscription)| matches!(subscription.topic, Topic::Dag));
        of_dag.map(|(id, _)| notification(*id, &growth)).collect()
    }

    /// Messages about blocks that are not part of the chain any more, to those that were told of them: their logs again, as
    /// removed. The newest header that is left, and what comes after it, follows like any other.
    pub fn tell_reverted(&self, reverted: &Reverted) -> Vec<String> {
        let mut messages = Vec::new();
        for (id, subscription) in self.lock().iter_mut().filter(|(_, subscription)| subscription.started) {
            let (told, left) = (subscription.next, reverted.to.0);
            if told <= left + 1 {
                continue;
            }
            match &subscription.topic {
                Topic::NewHeads => subscription.next = left,
                Topic::Logs(filter) => {
                    messages.extend(logs::removed(reverted, filter, told).map(|log| notification(*id, &log)));
                    subscription.next = left + 1;
                }
                Topic::Pending { .. } | Topic::Syncing { .. } | Topic::Dag => {}
            }
        }
        messages
    }

    /// Messages to those who have not heard whether this node catches up, or heard otherwise. The first comes at once: who subscribes
    /// learns how it stands.
    pub fn tell_syncing(&self, progress: Option<SyncProgress>) -> Vec<String> {
        let now = progress.is_some();
        let mut messages = Vec::new();
        for (id, subscription) in self.lock().iter_mut().filter(|(_, subscription)| subscription.started) {
            let Topic::Syncing { told } = &mut subscription.topic else { continue };
            if told.replace(now) == Some(now) {
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
        // Every critical section leaves the map whole.
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Topic {
    fn is_of_blocks(&self) -> bool {
        matches!(self, Self::NewHeads | Self::Logs(_))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let left = i64::try_from(self.lock().len()).unwrap_or(i64::MAX);
        self.open.dec_by(left);
    }
}

/// The message that tells a subscription something.
pub(crate) fn notification<T: Serialize>(id: U128, result: &T) -> String {
    #[derive(Serialize)]
    struct Notification<'a, T> {
        jsonrpc: &'static str,
        method: &'static str,
        params: Params<'a, T>,
    }
    #[derive(Serialize)]
    struct Params<'a, T> {
        subscription: U128,
        result: &'a T,
    }
    let params = Params { subscription: id, result };
    let message = Notification { jsonrpc: "2.0", method: SUBSCRIPTION, params };
    serde_json::to_string(&message).expect("headers, logs and transactions have string keys only")
}
