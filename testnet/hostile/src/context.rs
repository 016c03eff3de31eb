//! Environment and limits of an attack.

use crate::victims::Victims;
use anyhow::Context;
use corniche_engine::Committee;
use corniche_network::{Peer, PeerAddress};
use corniche_types::ValidatorIndex;
use serde::Serialize;
use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Kinds of attackers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum By {
    /// Peers without a validator's key, and RPC clients.
    #[serde(rename = "strangers")]
    Stranger,
    /// As many validators as may be faulty.
    #[serde(rename = "validators")]
    Validators,
}

/// One run of one attack.
pub struct AttackContext {
    pub victims: Arc<Victims>,
    /// Validators whose processes are stopped and whose keys the attacker has; empty for strangers.
    pub insiders: Vec<usize>,
    pub seed: u64,
    pub budget: Budget,
    committee: Committee,
    rejoined: Mutex<Option<Rejoin>>,
}

/// Return of a validator that restarted during the attack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rejoin {
    /// Time from its start until it had caught up with the others.
    After(Duration),
    /// Not before the attack ended.
    Never,
}

impl AttackContext {
    pub fn new(victims: Arc<Victims>, insiders: Vec<usize>, seed: u64, budget: Budget) -> Self {
        let committee = Committee::from_genesis(victims.genesis());
        Self { victims, insiders, seed, budget, committee, rejoined: Mutex::new(None) }
    }

    /// Index of a peer in the committee.
    pub fn index_of(&self, peer: &Peer) -> Option<ValidatorIndex> {
        self.committee.index_of(&peer.id.0)
    }

    /// Stops the validators that the attackers replace: the last ones, as many as may be faulty, or none for strangers.
    pub fn replace_validators(victims: Arc<Victims>, by: By, seed: u64, budget: Budget) -> anyhow::Result<Self> {
        let size = victims.genesis().validators.len();
        let faulty = match by {
            By::Stranger => 0,
            By::Validators => victims.genesis().weights().max_faulty().as_usize(),
        };
        let insiders: Vec<_> = (size - faulty..size).collect();
        insiders.iter().try_for_each(|index| victims.stop(*index))?;
        Ok(Self::new(victims, insiders, seed, budget))
    }

    /// Validators whose processes run.
    pub fn honest(&self) -> Vec<usize> {
        (0..self.victims.genesis().validators.len()).filter(|index| !self.insiders.contains(index)).collect()
    }

    /// Nodes that must survive the attack: the honest validators and the full node.
    pub fn checked_nodes(&self) -> Vec<usize> {
        [self.honest(), vec![self.victims.follower()]].concat()
    }

    /// Network address and key of a node.
    pub fn address(&self, index: usize) -> PeerAddress {
        self.victims.members[index].peer.clone()
    }

    /// Crashes the last honest validator, restarts it after `pause` and waits until it has caught up or the attack ends.
    pub async fn restart_victim(&self, pause: Duration) -> anyhow::Result<()> {
        let victim = *self.honest().last().context("an honest validator")?;
        let victims = self.victims.clone();
        tokio::task::spawn_blocking(move || victims.stop(victim)).await??;
        tokio::time::sleep(pause).await;
        let (victims, until) = (self.victims.clone(), self.budget.until());
        let others: Vec<_> = self.honest().into_iter().filter(|index| *index != victim).collect();
        let rejoin = tokio::task::spawn_blocking(move || {
            victims.start(victim)?;
            let started = Instant::now();
            let target = others.iter().filter_map(|index| victims.client(*index).block_number().ok()).max().unwrap_or(0);
            let mut rejoin = Rejoin::Never;
            while Instant::now() < until {
                // A block above those that existed at its start: it participates again.
                if victims.client(victim).block_number().is_ok_and(|height| height > target) {
                    rejoin = Rejoin::After(started.elapsed());
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            anyhow::Ok(rejoin)
        });
        let rejoin = rejoin.await??;
        *self.rejoined.lock().unwrap_or_else(PoisonError::into_inner) = Some(rejoin);
        Ok(())
    }

    /// `None` if the attack restarts no validator.
    pub fn rejoined(&self) -> Option<Rejoin> {
        *self.rejoined.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Limits of an attack in messages and time. Every loop of every attack checks it.
pub struct Budget {
    left: AtomicU64,
    max: u64,
    length: Duration,
    until: OnceLock<Instant>,
}

impl Budget {
    pub fn new(messages: u64, length: Duration) -> Self {
        Self { left: AtomicU64::new(messages), max: messages, length, until: OnceLock::new() }
    }

    /// End of the attack. The clock starts at the first call.
    pub fn until(&self) -> Instant {
        *self.until.get_or_init(|| Instant::now() + self.length)
    }

    /// Spends one message. Returns false after the end of the attack.
    pub fn take(&self) -> bool {
        let paid = self.left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        paid && self.until() > Instant::now()
    }

    pub fn is_over(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0 || self.until() <= Instant::now()
    }

    /// Number of messages spent so far.
    pub fn spent(&self) -> u64 {
        self.max - self.left.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_limited_by_count_and_time() {
        let few = Budget::new(2, Duration::from_secs(3_600));
        assert_eq!([few.take(), few.take(), few.take()], [true, true, false]);
        assert!(few.is_over());
        assert_eq!(few.spent(), 2);
        let late = Budget::new(2, Duration::ZERO);
        assert!(late.is_over() && !late.take());
    }
}
