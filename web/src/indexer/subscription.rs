//! Notifications of the node over a WebSocket. A new head ends the indexer's pause; a grown DAG is read in the next
//! turn. Notifications only trigger polling, so a missed one costs nothing but a pause.

use futures::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::sync::{Notify, watch};
use tokio_tungstenite::tungstenite::{self, Message, protocol::WebSocketConfig};

/// Pause between two attempts to connect.
const RECONNECT_PAUSE: Duration = Duration::from_secs(5);

/// Timeout without any message. A node pings every 30 seconds; a silent connection is dead.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(75);

/// A header is smaller than one kilobyte.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// Ids of the subscription requests.
const HEADS: u64 = 1;
const DAG: u64 = 2;

/// Topics to subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topics {
    /// Heads only, if no DAG is kept.
    Heads,
    /// Heads and DAG.
    HeadsAndDag,
}

impl Topics {
    /// Returns the subscriptions, each with the id of its request.
    fn requests(self) -> &'static [(u64, &'static str)] {
        match self {
            Self::Heads => &[(HEADS, "newHeads")],
            Self::HeadsAndDag => &[(HEADS, "newHeads"), (DAG, "corniche_dag")],
        }
    }
}

/// Knowledge about the node's DAG from notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DagNotice {
    /// No subscription: the node has no DAG, is of an older version, or is unreachable.
    #[default]
    NotSubscribed,
    /// Subscribed; no notification since the last poll.
    Quiet,
    /// A notification came since the last poll.
    Grew,
}

/// Notifications of the node.
#[derive(Debug, Default)]
pub struct Notifications {
    heads: Notify,
    dag: watch::Sender<DagNotice>,
}

impl Notifications {
    /// Returns the state of the DAG.
    pub fn dag(&self) -> DagNotice {
        *self.dag.borrow()
    }

    /// Marks the start of a poll. Later notifications may be about data that this poll does not show.
    pub fn dag_poll_started(&self) {
        self.dag.send_modify(|notifications| {
            if *notifications == DagNotice::Grew {
                *notifications = DagNotice::Quiet;
            }
        });
    }

    /// Sets the state of the DAG.
    pub fn set_dag(&self, notifications: DagNotice) {
        self.dag.send_replace(notifications);
    }

    /// Waits for a new head.
    pub async fn new_head(&self) {
        self.heads.notified().await;
    }
}

/// Forwards notifications until the task is dropped. Reconnects after [`RECONNECT_PAUSE`].
pub async fn listen(url: String, topics: Topics, notifications: Arc<Notifications>) {
    // The node serves HTTP and WebSocket on one port.
    let url = url.replacen("http", "ws", 1);
    loop {
        if let Err(error) = read_messages(&url, topics, &notifications).await {
            tracing::debug!(%error, "subscription failed; reconnecting");
        }
        notifications.set_dag(DagNotice::NotSubscribed);
        tokio::time::sleep(RECONNECT_PAUSE).await;
    }
}

async fn read_messages(url: &str, topics: Topics, notifications: &Notifications) -> Result<(), tungstenite::Error> {
    let config = WebSocketConfig::default().max_message_size(Some(MAX_MESSAGE_BYTES)).max_frame_size(Some(MAX_MESSAGE_BYTES));
    let (mut socket, _) = tokio_tungstenite::connect_async_with_config(url, Some(config), true).await?;
    for (id, topic) in topics.requests() {
        let subscribe = json!({"jsonrpc": "2.0", "id": id, "method": "eth_subscribe", "params": [topic]});
        socket.send(Message::text(subscribe.to_string())).await?;
    }
    let mut listener = Listener::default();
    while let Ok(Some(message)) = tokio::time::timeout(SILENCE_TIMEOUT, socket.next()).await {
        if let Message::Text(text) = message? {
            listener.handle(text.as_str(), notifications);
        }
    }
    Ok(())
}

/// Distinguishes the notifications of the two subscriptions.
#[derive(Debug, Default)]
struct Listener {
    /// Id of the DAG subscription, unless the node rejected it.
    dag: Option<String>,
}

/// The parts of a message that this needs.
#[derive(Debug, Default, Deserialize)]
struct Incoming {
    id: Option<u64>,
    /// Id of a subscription in a response; `None` in an error.
    result: Option<String>,
    /// Parameters of a notification.
    params: Option<Params>,
}

#[derive(Debug, Deserialize)]
struct Params {
    subscription: String,
}

impl Listener {
    fn handle(&mut self, text: &str, notifications: &Notifications) {
        let message: Incoming = serde_json::from_str(text).unwrap_or_default();
        let subscription = message.params.map(|params| params.subscription);
        if message.id == Some(DAG) {
            self.dag = message.result;
            if self.dag.is_some() {
                // The DAG may have grown before the subscription.
                notifications.set_dag(DagNotice::Grew);
            }
        } else if subscription.is_some() && subscription == self.dag {
            notifications.set_dag(DagNotice::Grew);
        } else {
            // Any other message: polling the head is harmless.
            notifications.heads.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use serde_json::Value;
    use tokio::net::TcpListener;

    fn answer(id: u64, name: &str) -> String {
        json!({"jsonrpc": "2.0", "id": id, "result": name}).to_string()
    }

    fn notification(name: &str, what: Value) -> String {
        let params = json!({"subscription": name, "result": what});
        json!({"jsonrpc": "2.0", "method": "eth_subscription", "params": params}).to_string()
    }

    /// Returns `true` if there is a new head.
    fn head(notifications: &Notifications) -> bool {
        notifications.new_head().now_or_never().is_some()
    }

    #[test]
    fn subscriptions_are_distinguished() {
        let (notifications, mut listener) = (Notifications::default(), Listener::default());
        listener.handle(&answer(HEADS, "0xa"), &notifications);
        assert_eq!((head(&notifications), notifications.dag()), (true, DagNotice::NotSubscribed));
        listener.handle(&answer(DAG, "0xb"), &notifications);
        assert_eq!((head(&notifications), notifications.dag()), (false, DagNotice::Grew), "it may have grown before");
        notifications.dag_poll_started();
        listener.handle(&notification("0xa", json!({"number": "0x1"})), &notifications);
        assert_eq!((head(&notifications), notifications.dag()), (true, DagNotice::Quiet));
        listener.handle(&notification("0xb", json!({"newestRound": "0x1"})), &notifications);
        assert_eq!((head(&notifications), notifications.dag()), (false, DagNotice::Grew));
    }

    #[test]
    fn rejected_dag_subscription_keeps_heads() {
        let (notifications, mut listener) = (Notifications::default(), Listener::default());
        for refusal in ["this node has no DAG to show: a full node", "no \"corniche_dag\" subscription in eth namespace"] {
            let error = json!({"code": -32000, "message": refusal});
            listener.handle(&json!({"jsonrpc": "2.0", "id": DAG, "error": error}).to_string(), &notifications);
            listener.handle(&notification("0xa", json!({"number": "0x1"})), &notifications);
            assert_eq!((head(&notifications), notifications.dag()), (true, DagNotice::NotSubscribed), "{refusal}");
        }
        listener.handle("what is this?", &notifications);
        assert_eq!((head(&notifications), notifications.dag()), (true, DagNotice::NotSubscribed));
    }

    fn url(place: &TcpListener) -> String {
        format!("http://{}", place.local_addr().unwrap())
    }

    #[tokio::test]
    async fn no_rounds_no_dag_subscription() {
        let place = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listening = tokio::spawn(listen(url(&place), Topics::Heads, Arc::default()));
        let mut node = tokio_tungstenite::accept_async(place.accept().await.unwrap().0).await.unwrap();
        let asked: Value = serde_json::from_str(node.next().await.unwrap().unwrap().to_text().unwrap()).unwrap();
        assert_eq!(asked["params"], json!(["newHeads"]));
        // The node sends nothing more before it receives the close frame.
        node.close(None).await.unwrap();
        while let Some(Ok(message)) = node.next().await {
            assert!(!message.is_text(), "{message}");
        }
        listening.abort();
    }

    #[tokio::test]
    async fn disconnect_ends_dag_subscription() {
        let place = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let notifications = Arc::new(Notifications::default());
        let mut dag = notifications.dag.subscribe();
        let listening = tokio::spawn(listen(url(&place), Topics::HeadsAndDag, Arc::clone(&notifications)));
        let mut node = tokio_tungstenite::accept_async(place.accept().await.unwrap().0).await.unwrap();
        for topic in ["newHeads", "corniche_dag"] {
            let asked = node.next().await.unwrap().unwrap();
            let asked: Value = serde_json::from_str(asked.to_text().unwrap()).unwrap();
            assert_eq!((&asked["method"], &asked["params"]), (&json!("eth_subscribe"), &json!([topic])));
            let answer = answer(asked["id"].as_u64().unwrap(), topic);
            node.send(Message::text(answer)).await.unwrap();
        }
        dag.wait_for(|notifications| *notifications == DagNotice::Grew).await.unwrap();
        drop(node);
        dag.wait_for(|notifications| *notifications == DagNotice::NotSubscribed).await.unwrap();
        listening.abort();
    }
}
