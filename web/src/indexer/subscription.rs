//! New heads over a WebSocket: they only say that it is time to look, so one that is missed costs a pause and nothing else.

use futures::{SinkExt, StreamExt};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::{Message, protocol::WebSocketConfig};

/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_secs(5);

/// A header is less than a kilobyte.
const MOST_MESSAGE_BYTES: usize = 64 << 10;

/// Notifies at every head until the task is dropped. Without a connection there is nothing to hear, and it tries again.
pub async fn listen(url: String, news: Arc<Notify>) {
    // The node serves both on one port.
    let url = url.replacen("http", "ws", 1);
    loop {
        if let Err(error) = hear(&url, &news).await {
            tracing::debug!(%error, "no new heads from the node");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn hear(url: &str, news: &Notify) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    let config = WebSocketConfig::default().max_message_size(Some(MOST_MESSAGE_BYTES)).max_frame_size(Some(MOST_MESSAGE_BYTES));
    let (mut socket, _) = tokio_tungstenite::connect_async_with_config(url, Some(config), true).await?;
    let subscribe = r#"{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}"#;
    socket.send(Message::text(subscribe)).await?;
    while let Some(message) = socket.next().await {
        if message?.is_text() {
            news.notify_one();
        }
    }
    Ok(())
}
