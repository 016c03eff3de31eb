//! Processor time in virtual time: each replica and each client has one processor, which handles one message after the other.

use crate::{Event, Keys, Secret, World};
use corniche_basil::attestation::{Signatures, Signer};
use corniche_basil::certificate::{Certificate, CommitProof, Decided, Justification};
use corniche_basil::message::{Committed, Conflict, Message, Peer};
use corniche_basil::record::Record;
use corniche_basil::replica::Ticket;
use corniche_basil::transaction::Signature;
use corniche_basil::verify::Checked;
use corniche_types::B256;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Processor time of operations, µs.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Receives, decodes and applies a message.
    pub handle_us: u64,
    /// Encodes and sends a message.
    pub send_us: u64,
    /// Hashes the path of one attestation in a message.
    pub path_us: u64,
    /// Makes an ed25519 signature.
    pub sign_us: u64,
    /// Verifies an ed25519 signature of a replica.
    pub verify_us: u64,
    /// Verifies the signature of a transaction by its client.
    pub verify_client_us: u64,
    /// A message takes up to this much longer than the network's delay, so replicas receive messages in different orders.
    pub jitter_us: u64,
}

/// Number of signatures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Batches that replicas signed.
    pub made_by_replicas: u64,
    /// Transactions that clients signed.
    pub made_by_clients: u64,
    pub checked_by_replicas: Checks,
    pub checked_by_clients: Checks,
}

/// Number of signatures that were checked, by their signers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checks {
    pub of_replicas: u64,
    pub of_clients: u64,
}

impl Checks {
    pub fn all(&self) -> u64 {
        self.of_replicas + self.of_clients
    }
}

impl std::ops::Add for Checks {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { of_replicas: self.of_replicas + other.of_replicas, of_clients: self.of_clients + other.of_clients }
    }
}

impl std::ops::Sub for Checks {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { of_replicas: self.of_replicas - other.of_replicas, of_clients: self.of_clients - other.of_clients }
    }
}

impl std::ops::Add for Work {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            made_by_replicas: self.made_by_replicas + other.made_by_replicas,
            made_by_clients: self.made_by_clients + other.made_by_clients,
            checked_by_replicas: self.checked_by_replicas + other.checked_by_replicas,
            checked_by_clients: self.checked_by_clients + other.checked_by_clients,
        }
    }
}

impl std::ops::Sub for Work {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            made_by_replicas: self.made_by_replicas - other.made_by_replicas,
            made_by_clients: self.made_by_clients - other.made_by_clients,
            checked_by_replicas: self.checked_by_replicas - other.checked_by_replicas,
            checked_by_clients: self.checked_by_clients - other.checked_by_clients,
        }
    }
}

/// Modelled signatures that count what was done since the last look.
#[derive(Default)]
pub(crate) struct Counted {
    made: AtomicU64,
    checked: AtomicU64,
}

struct CountedSecret(Arc<Counted>, Secret);

impl Counted {
    pub(crate) fn signer(self: &Arc<Self>, secret: Secret) -> Arc<dyn Signer> {
        Arc::new(CountedSecret(Arc::clone(self), secret))
    }
}

impl Signatures for Counted {
    fn verify(&self, key: &B256, digest: &B256, signature: &Signature) -> bool {
        self.checked.fetch_add(1, Ordering::Relaxed);
        Keys.verify(key, digest, signature)
    }
}

impl Signer for CountedSecret {
    fn sign(&self, digest: &B256) -> Signature {
        self.0.made.fetch_add(1, Ordering::Relaxed);
        self.1.sign(digest)
    }
}

/// Work that arrived at a processor.
pub(crate) enum Job {
    Message(Peer, Arc<Message>),
    Wake,
    Durable(Ticket, Vec<Record>),
}

/// The processor of one replica or client.
#[derive(Default)]
pub(crate) struct Processor {
    queue: VecDeque<Job>,
    /// Verified, and applied at `until_us`.
    verified: Option<Checked>,
    is_busy: bool,
    until_us: u64,
}

impl World {
    /// Adds processor time. Returns the time at which the processor is done.
    pub(crate) fn charge(&mut self, peer: Peer, us: u64) -> u64 {
        let now_us = self.now_us();
        if self.costs.is_none() {
            return now_us;
        }
        let processor = self.processors.entry(peer).or_default();
        processor.until_us = processor.until_us.max(now_us) + us;
        processor.until_us
    }

    /// Charges the signatures made since the last call.
    pub(crate) fn charge_made(&mut self, peer: Peer) {
        let made = self.keys.made.swap(0, Ordering::Relaxed);
        match peer {
            Peer::Client(_) => self.work.made_by_clients += made,
            Peer::Replica(_) => self.work.made_by_replicas += made,
        }
        if let Some(costs) = self.costs {
            self.charge(peer, made * costs.sign_us);
        }
    }

    /// Charges the signatures checked since the last call, `of_replicas` of which are of replicas.
    pub(crate) fn charge_checked(&mut self, peer: Peer, of_replicas: u64) {
        let of_clients = self.keys.checked.swap(0, Ordering::Relaxed) - of_replicas;
        let checks = match peer {
            Peer::Client(_) => &mut self.work.checked_by_clients,
            Peer::Replica(_) => &mut self.work.checked_by_replicas,
        };
        checks.of_replicas += of_replicas;
        checks.of_clients += of_clients;
        if let Some(costs) = self.costs {
            self.charge(peer, of_replicas * costs.verify_us + of_clients * costs.verify_client_us);
        }
    }

    pub(crate) fn enqueue(&mut self, peer: Peer, job: Job) {
        let processor = self.processors.entry(peer).or_default();
        processor.queue.push_back(job);
        if !processor.is_busy {
            processor.is_busy = true;
            self.resume(peer);
        }
    }

    /// Applies the verified message, or takes the next job. Verification ends before the message has an effect, and signatures are
    /// made before messages leave.
    pub(crate) fn resume(&mut self, peer: Peer) {
        let now_us = self.now_us();
        let processor = self.processors.entry(peer).or_default();
        if processor.until_us <= now_us {
            if let Some(checked) = processor.verified.take() {
                self.apply(peer, checked);
            } else if let Some(job) = processor.queue.pop_front() {
                self.run_job(peer, job);
            } else {
                processor.is_busy = false;
                return;
            }
        }
        let until_us = self.charge(peer, 0);
        self.schedule_us(until_us, Event::Resume(peer));
    }

    fn run_job(&mut self, peer: Peer, job: Job) {
        match job {
            Job::Message(from, message) => {
                let Costs { handle_us, path_us, .. } = self.costs.expect("processors run with costs only");
                self.charge(peer, handle_us + path_us * attestations(&message));
                let checked = self.check(peer, from, &message);
                self.processors.entry(peer).or_default().verified = checked;
            }
            Job::Wake => self.wake(peer),
            Job::Durable(ticket, records) => self.durable(peer, ticket, records),
        }
    }
}

/// Number of attestations in a message.
fn attestations(message: &Message) -> u64 {
    let certificate = |certificate: &Certificate| match certificate {
        Certificate::FastCommit(list) | Certificate::FastAbort(list) | Certificate::Logged(_, list) => list.len(),
        Certificate::Conflict(other) => proof(&other.proof),
    };
    let decided = |decided: &Decided| certificate(&decided.certificate);
    let justified = |justification: &Justification| match justification {
        Justification::Votes(list) | Justification::Logged(list) => list.len(),
    };
    let count = match message {
        Message::ReadReply { committed: Committed::Written(one), .. } => decided(one),
        Message::Vote { conflict: Some(Conflict::Committed(other)), .. } => 1 + proof(&other.proof),
        Message::Vote { .. } | Message::Logged(_) | Message::Elect(_) | Message::Closed { .. } => 1,
        Message::Log(proposal) => justified(&proposal.justification),
        Message::Writeback(one) => decided(one),
        Message::InvokeFallback { proposal, views } => justified(&proposal.justification) + views.len(),
        Message::Decide { elections, .. } => elections.len(),
        Message::State { transactions, .. } => transactions.iter().map(|one| decided(one)).sum(),
        _ => 0,
    };
    count as u64
}

fn proof(proof: &CommitProof) -> usize {
    match proof {
        CommitProof::Fast(list) | CommitProof::Logged(list) => list.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DELAY, client_id, exact};

    const COSTS: Costs =
        Costs { handle_us: 5, send_us: 2, path_us: 1, sign_us: 20, verify_us: 45, verify_client_us: 40, jitter_us: 0 };

    /// Reads one key and writes it. Returns the time until the client heard all votes, µs.
    fn one_transaction(costs: Option<Costs>) -> (World, u64) {
        let mut world = World::new(1, 1, exact(), 1);
        world.costs = costs;
        let (client, keys) = (client_id(0), world.keys_on_each_shard());
        let start = world.now_us();
        let timestamp = world.execute(client, &keys);
        let id = world.commit(client, timestamp, &keys, 1);
        world.wait(client, id);
        let us = world.now_us() - start;
        world.run(1_000);
        (world, us)
    }

    #[test]
    fn signatures_of_one_transaction_are_counted() {
        let (world, _) = one_transaction(None);
        let Work { made_by_replicas, made_by_clients, checked_by_replicas, checked_by_clients } = world.work;
        assert_eq!((made_by_replicas, made_by_clients), (6, 1));
        assert_eq!((checked_by_clients.of_replicas, checked_by_clients.of_clients), (6, 0));
        // Each of six replicas checks the client's signature once, in ST1, and the six votes of the certificate.
        assert_eq!((checked_by_replicas.of_replicas, checked_by_replicas.of_clients), (36, 6));
    }

    #[test]
    fn processors_take_time() {
        let (_, free) = one_transaction(None);
        assert_eq!(free, 4 * DELAY * 1_000);
        let zero = Costs { handle_us: 0, send_us: 0, path_us: 0, sign_us: 0, verify_us: 0, verify_client_us: 0, jitter_us: 0 };
        assert_eq!(one_transaction(Some(zero)).1, free);
        // The first two replies end the read. The client's signature follows while it handles the third. Its sixth ST1 leaves
        // six sends later, and the vote arrives when the five before are done.
        let (_, us) = one_transaction(Some(COSTS));
        assert!((free + 200..free + 500).contains(&us), "{us}");
        // One signature more in each replica delays the last vote by as much.
        let (_, slower) = one_transaction(Some(Costs { sign_us: 120, ..COSTS }));
        assert_eq!(slower, us + 200, "one of the client, one of a replica");
    }
}
