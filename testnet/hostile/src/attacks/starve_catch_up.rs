//! Strangers forward the newest certificates to a validator that lags, so that it assumes that they have the blocks. They never
//! respond to its requests.
//!
//! Requirement: the validator requests from others soon enough to be back within the limit.

use super::{Attack, By, SHORT_MESSAGES};
use crate::{context::AttackContext, stranger::Stranger};
use anyhow::Context;
use corniche_network::{Channel, Event, Reply};
use corniche_pipeline::PeerMessage;
use futures::future::{join, try_join_all};
use std::{collections::VecDeque, time::Duration};
use tokio::time::timeout;

const STRANGERS: u64 = 32;
/// Downtime of the validator, so that it lags after its return.
const RESTART_DELAY: Duration = Duration::from_secs(3);
/// Requests of the victim that one stranger keeps open.
const MAX_KEPT: usize = 64;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub const ATTACK: Attack = Attack {
    name: "starve-catch-up",
    item: "B8",
    about: "strangers announce blocks to a lagging validator and never send them",
    by: By::Stranger,
    engine: None,
    signatures: None,
    restart: Some(RESTART_DELAY),
    few: SHORT_MESSAGES,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    let honest = context.honest();
    let (victim, source) = (*honest.last().context("a victim")?, *honest.first().context("a source")?);
    let liars = try_join_all((0..STRANGERS).map(|number| send_forged(context, number, victim, source)));
    let (lied, restarted) = join(liars, context.restart_victim(RESTART_DELAY)).await;
    lied?;
    restarted
}

async fn send_forged(context: &AttackContext, number: u64, victim: usize, source: usize) -> anyhow::Result<()> {
    let mut stranger = Stranger::dial(context, number, &[victim, source]).await?;
    let (to, from) = (stranger.targets[0], stranger.targets[1]);
    let mut questions: VecDeque<Reply> = VecDeque::new();
    let mut newest = None;
    while !context.budget.is_over() {
        match timeout(POLL_INTERVAL, stranger.events.recv()).await {
            Ok(Some(Event::Message { from: peer, bytes, .. }))
                if peer.id == from && is_certificate(&bytes) && context.budget.take() =>
            {
                stranger.network.send(to, Channel::Votes, bytes.clone());
                newest = Some(bytes);
            }
            Ok(Some(Event::PeerUp(peer))) if peer.id == to => {
                newest.iter().for_each(|bytes| _ = stranger.network.send(to, Channel::Votes, bytes.clone()));
            }
            // Kept open. Dropping it would refuse the request, and the victim would ask the next peer at once.
            Ok(Some(Event::Request { reply, .. })) => {
                questions.push_back(reply);
                if questions.len() > MAX_KEPT {
                    questions.pop_front();
                }
            }
            Ok(None) => break,
            _ => {}
        }
    }
    stranger.leave().await;
    Ok(())
}

fn is_certificate(bytes: &[u8]) -> bool {
    matches!(PeerMessage::decode(bytes), Ok(PeerMessage::Certificate(_)))
}
