//! Catching up (3.11): members compare their progress, and send each other what is missing. Nothing else repeats messages.

use crate::{
    config::Config,
    engine::Mir,
    instance::{Step, is_backed},
    message::{EpochNumber, Message, Sn, Status},
    rules,
};
use corniche_engine::{BucketRate, Output, Recipients, TokenBuckets};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

/// Maximum number of digests of committed batches in one response.
const MAX_COMMITTED: u64 = 128;
/// Maximum number of numbers for which one response repeats votes.
const MAX_VOTES: u64 = 32;
/// Responses per second and peer, in units of `fetch_bytes`.
const RESPONSES_PER_SECOND: u64 = 16;
/// Cost of a response besides its bytes.
const RESPONSE_COST: u64 = 512;

/// Factor of `resend_ms` for the second copy of a batch: the first one may wait in the uplink of its leader.
const COPY_TIMEOUT_FACTOR: u64 = 4;
/// The time until another copy doubles this often.
pub(crate) const MAX_DOUBLINGS: usize = 4;

/// Time until another copy of a batch after so many repetitions, ms. On a slow link, copies delay everything else.
pub(crate) fn copy_timeout_ms(config: &Config, repetitions: usize) -> u64 {
    config.resend_ms.saturating_mul(COPY_TIMEOUT_FACTOR << repetitions.min(MAX_DOUBLINGS))
}

/// The last copy of an own batch to a peer.
struct SentBatch {
    at: TimestampMs,
    repetitions: usize,
}

pub(crate) struct Sync {
    /// The newest status of each member.
    peers: BTreeMap<ValidatorIndex, Status>,
    /// Digests that members committed, for numbers that are not committed here.
    claims: BTreeMap<Sn, BTreeMap<ValidatorIndex, B256>>,
    /// A certificate covers the commits up to this one.
    pub certified: Sn,
    /// Time at which unanswered messages are sent again.
    pub resend_at: TimestampMs,
    /// The last delivered number when `resend` was called before.
    delivered: Sn,
    next_peer: usize,
    /// The last copy of each own batch to each peer, since its connection began.
    sent: BTreeMap<(ValidatorIndex, Sn), SentBatch>,
    buckets: TokenBuckets,
}

impl Sync {
    pub fn new(me: ValidatorIndex, resend_at: TimestampMs) -> Self {
        let (peers, claims, sent, buckets) = Default::default();
        Self { peers, claims, certified: Sn(0), resend_at, delivered: Sn(0), next_peer: me.as_usize(), sent, buckets }
    }

    /// The last number that a member delivered, as far as it said.
    pub fn delivered(&self, member: ValidatorIndex) -> Sn {
        self.peers.get(&member).map_or(Sn(0), |status| status.delivered)
    }

    /// A batch of this member leaves to all others.
    pub fn note_sent(&mut self, others: impl Iterator<Item = ValidatorIndex>, sn: Sn, now: TimestampMs) {
        self.sent.extend(others.map(|peer| ((peer, sn), SentBatch { at: now, repetitions: 0 })));
    }

    /// Returns true, and notes it, if it is time for one more copy of an own batch to a peer.
    fn repeats(&mut self, peer: ValidatorIndex, sn: Sn, now: TimestampMs, config: &Config) -> bool {
        let repetitions = match self.sent.get(&(peer, sn)) {
            Some(sent) if now.0 < sent.at.0.saturating_add(copy_timeout_ms(config, sent.repetitions)) => return false,
            sent => sent.map_or(0, |sent| sent.repetitions + 1),
        };
        self.sent.insert((peer, sn), SentBatch { at: now, repetitions });
        true
    }

    /// A new connection: whatever left before may be lost.
    pub fn forget_sent_to(&mut self, peer: ValidatorIndex) {
        self.sent.retain(|(to, _), _| *to != peer);
    }

    pub fn forget_sent_through(&mut self, through: Sn) {
        self.sent.retain(|(_, sn), _| *sn > through);
    }

    /// The epochs that other members would move to. A member that is in a later epoch does not count for it: its certificate is better.
    pub fn wants(&self) -> BTreeMap<ValidatorIndex, EpochNumber> {
        let moving = self.peers.iter().filter(|(_, status)| status.wants > status.epoch);
        moving.map(|(member, status)| (*member, status.wants)).collect()
    }

    /// The epochs that members sought after they lost their disks.
    pub fn sought(&self) -> impl Iterator<Item = (ValidatorIndex, EpochNumber)> {
        self.peers.iter().filter_map(|(member, status)| Some((*member, status.seeks?)))
    }

    pub fn note_wants(&mut self, member: ValidatorIndex, wants: EpochNumber) {
        let (epoch, delivered, stable, seeks, asks) = Default::default();
        let status = self.peers.entry(member).or_insert(Status { epoch, wants, delivered, stable, seeks, asks });
        status.wants = status.wants.max(wants);
    }

    pub fn claimants(&self, sn: Sn, digest: B256) -> impl Iterator<Item = ValidatorIndex> {
        let named = self.claims.get(&sn).into_iter().flatten();
        named.filter(move |(_, of)| **of == digest).map(|(member, _)| *member)
    }

    pub fn forget_claims(&mut self, through: Sn) {
        self.claims = self.claims.split_off(&through.next());
    }

    pub fn count(&self) -> usize {
        self.peers.len() + self.sent.len() + self.claims.values().map(BTreeMap::len).sum::<usize>()
    }

    pub fn describe(&self) -> String {
        let peers: Vec<_> = self.peers.iter().map(|(member, it)| (member.0, it.epoch.0, it.wants.0, it.delivered.0)).collect();
        format!("peers (epoch, wants, delivered) {peers:?}, claims {:?}", self.claims.keys().map(|sn| sn.0).collect::<Vec<_>>())
    }
}

impl Mir {
    /// T1: HELLO.
    pub(crate) fn send_status(&mut self, to: Recipients, asks: bool) {
        let (epoch, wants, delivered, stable) = (self.epoch.epoch, self.wants(), self.order.sn(), self.stable());
        self.send_to(to, &Message::Status(Status { epoch, wants, delivered, stable, seeks: self.seeks(), asks }));
    }

    /// Asks for what is missing. A member without progress asks all, otherwise one after the other.
    pub(crate) fn resend(&mut self) {
        self.sign_again();
        let delivered = self.order.sn();
        let is_stuck = std::mem::replace(&mut self.sync.delivered, delivered) == delivered;
        if is_stuck && self.is_waiting() {
            self.send_status(Recipients::All, true);
        } else if let Some(peer) = self.take_peer() {
            self.send_status(Recipients::One(peer), true);
        }
        if !self.is_normal() || rules::is_finished(&self.epoch, delivered) {
            self.resend_changes();
        }
    }

    /// True while something is under way that messages could have been lost of.
    fn is_waiting(&self) -> bool {
        let delivered = self.order.sn();
        !self.is_normal()
            || self.wants() > self.epoch.epoch
            || self.proposer.highest() > delivered
            || self.log.last_key_value().is_some_and(|(sn, _)| *sn > delivered)
            || self.stable() > delivered
            || delivered >= self.window_end()
            || rules::is_finished(&self.epoch, delivered)
            || self.promises.has_lost_disk
            || self.sync.peers.values().any(|status| status.delivered > delivered || status.epoch > self.epoch.epoch)
    }

    fn take_peer(&mut self) -> Option<ValidatorIndex> {
        let size = self.committee.size();
        self.sync.next_peer = (self.sync.next_peer + 1) % size;
        if self.sync.next_peer == self.me.as_usize() {
            self.sync.next_peer = (self.sync.next_peer + 1) % size;
        }
        (size > 1).then_some(ValidatorIndex(self.sync.next_peer as u16))
    }

    pub(crate) fn handle_status(&mut self, from: ValidatorIndex, status: Status) {
        self.sync.peers.insert(from, status);
        self.note_report(from, status);
        if status.asks {
            self.send_status(Recipients::One(from), false);
            self.respond(from, status);
        }
    }

    /// Sends a peer what it lacks.
    fn respond(&mut self, peer: ValidatorIndex, status: Status) {
        if !self.may_respond(peer) {
            return;
        }
        let before = self.outputs.len();
        if let Some(certificate) =
            self.promises.certificate.clone().filter(|certificate| certificate.config.epoch > status.epoch)
        {
            self.send(peer, &Message::Epoch(Box::new(certificate)));
        }
        self.send_checkpoints(peer, status.stable);
        let from = status.delivered.next();
        let committed: Vec<_> = self.log.range(from..from.plus(MAX_COMMITTED)).map(|(sn, digest)| (*sn, *digest)).collect();
        if !committed.is_empty() {
            self.send(peer, &Message::Committed(committed));
        }
        if self.epoch.epoch == status.epoch {
            self.send_votes(peer, from.max(status.stable.next()));
            self.send_changes(peer, status.epoch);
        }
        let sent = self.outputs.range(before..);
        let bytes = sent.map(|output| if let Output::Send { message, .. } = output { message.len() } else { 0 }).sum();
        self.charge(peer, bytes);
    }

    /// Repeats the own votes of this epoch for the next numbers. X2: not after leaving it.
    fn send_votes(&mut self, peer: ValidatorIndex, from: Sn) {
        let epoch = self.epoch.epoch;
        let mut bytes = 0;
        let numbers = self.instances.range(from..from.plus(MAX_VOTES)).map(|(sn, instance)| (*sn, instance.step));
        let voted: Vec<_> = numbers.filter(|(_, step)| *step >= Step::Preparing && self.may_vote()).collect();
        for (sn, step) in voted {
            let Some(instance) = self.instances.get(&sn) else { continue };
            let Some(digest) = instance.accepted() else { continue };
            // A vote of the peer shows what is on its disk: the batch, or the certificate of all PREPAREs.
            let message = match instance.step_of(peer, digest) {
                Step::Committing => None,
                Step::Preparing => self.own_vote(sn),
                _ => self.own_prepare(sn),
            };
            let is_batch = matches!(message, Some(Message::PrePrepare { .. }));
            if let Some(message) = message.filter(|_| !is_batch || self.sync.repeats(peer, sn, self.now, &self.config)) {
                bytes += borsh::object_length(&message).unwrap_or_default();
                self.send(peer, &message);
            }
            if step == Step::Committing {
                self.send(peer, &Message::Commit { epoch, sn, digest });
            }
            if bytes > self.config.fetch_bytes as usize {
                break;
            }
        }
    }

    /// X6, M24: members with F + 1 votes committed this batch, so a correct one did.
    pub(crate) fn handle_committed(&mut self, from: ValidatorIndex, committed: Vec<(Sn, B256)>) {
        let delivered = self.order.sn();
        for (sn, digest) in committed {
            if sn <= delivered || sn > delivered.plus(2 * self.config.window) || self.log.contains_key(&sn) {
                continue;
            }
            let named = self.sync.claims.entry(sn).or_default();
            named.insert(from, digest);
            if is_backed(named, digest, self.committee.validity(), &self.committee) {
                self.commit(sn, digest);
            }
        }
    }

    // ---- limits --------------------------------------------------------------------------------------------------------------

    /// Returns false if this peer used up its share of responses.
    pub(crate) fn may_respond(&mut self, peer: ValidatorIndex) -> bool {
        let share = u64::from(self.config.fetch_bytes) + RESPONSE_COST;
        let rate = BucketRate::shared(RESPONSES_PER_SECOND * share, share, self.committee.size());
        self.sync.buckets.refill(peer, rate, self.now)
    }

    /// Charges a peer that may have a response for it.
    pub(crate) fn charge(&mut self, peer: ValidatorIndex, bytes: usize) {
        self.sync.buckets.spend(peer, RESPONSE_COST + bytes as u64);
    }
}
