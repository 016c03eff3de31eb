//! Requests for blocks without an end, as used by strangers and insiders.

use crate::context::AttackContext;
use corniche_network::{NetworkHandle, PeerKey};
use corniche_types::Bytes;
use futures::future::join_all;
use std::time::Duration;
use tokio::time::sleep;

/// Concurrent requests to one node; a node refuses more.
const AT_ONCE: usize = 8;
/// Delay after a refusal.
const PAUSE: Duration = Duration::from_millis(50);

/// Sends this request to each target with the maximum concurrency until the budget is spent, and discards the responses.
pub async fn repeat(context: &AttackContext, network: &NetworkHandle, targets: &[PeerKey], request: &Bytes) {
    let asking = targets.iter().flat_map(|target| std::iter::repeat_n(target, AT_ONCE)).map(|target| async {
        while context.budget.take() {
            if network.request(*target, request.clone()).await.is_err() {
                sleep(PAUSE).await;
            }
        }
    });
    join_all(asking).await;
}
