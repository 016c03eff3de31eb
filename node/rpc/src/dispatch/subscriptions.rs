//! Subscriptions of a WebSocket.

use crate::dag;
use crate::dispatch::RequestContext;
use crate::jsonrpc::{Json, Params, json};
use crate::logs;
use crate::session::Topic;
use alloy_primitives::U128;
use alloy_rpc_types_eth::Filter;
use corniche_api::{Method, Reason, RpcError};

impl RequestContext<'_> {
    /// `eth_subscribe`.
    pub(super) fn subscribe(&mut self, params: &Params<'_>) -> Result<Json, RpcError> {
        let session = self.session.ok_or_else(|| Reason::NotificationsNotSupported.error())?;
        let topic = match params.at_most(2)?.required::<String>(0)?.as_str() {
            "newHeads" => Topic::NewHeads,
            "logs" => {
                let filter: Filter = params.optional(1)?.unwrap_or_default();
                Topic::Logs(logs::keep(self.node, self.client.origin, filter)?)
            }
            "syncing" => Topic::Syncing { reported: None },
            "newPendingTransactions" => Topic::Pending { full: params.optional(1)?.unwrap_or(false) },
            "corniche_dag" => {
                dag::growth(self.node)?;
                Topic::Dag
            }
            "epochs" => {
                let method = Method::CornicheGetEpoch;
                if !self.node.config.namespaces.serves(method) {
                    return Err(RpcError::not_served(method));
                }
                Topic::Epochs { next: self.node.epochs.borrow().next() }
            }
            other => {
                let name: String = other.chars().take(64).collect();
                return Err(RpcError::new(
                    corniche_api::ErrorCode::MethodNotFound,
                    format!("no \"{name}\" subscription in eth namespace"),
                ));
            }
        };
        let id = session.subscribe(topic, self.node.backend.head())?;
        self.subscribed.push(id);
        json(&id)
    }

    /// `eth_unsubscribe`.
    pub(super) fn unsubscribe(&self, params: &Params<'_>) -> Result<Json, RpcError> {
        let session = self.session.ok_or_else(|| Reason::NotificationsNotSupported.error())?;
        let id: U128 = params.at_most(1)?.required(0)?;
        if session.unsubscribe(id) { json(&true) } else { Err(Reason::SubscriptionNotFound.error()) }
    }
}
