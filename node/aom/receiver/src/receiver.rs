//! The receiver's state machine.

use crate::{
    ConfirmVote, OrderingCertificate, Proof,
    assembly::{Assembled, Assembly},
    certificate::Scope,
    confirm::Confirms,
};
use corniche_aom_wire::{Error, Header, Packet, TagKey, VerifyingKey};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, Weights};
use std::collections::{BTreeMap, VecDeque};

/// Number of epochs whose keys are kept, so that certificates of earlier epochs can be checked.
const MAX_KEYS: usize = 8;
/// Maximum number of waiting outputs of each kind.
const MAX_SUSPICIONS: usize = 16;
/// Maximum bytes of datagrams that wait for the next epoch or for a key. Nothing about them is checked. They arrive between the
/// start of a sequencer and the own view: 8 MiB are 80 ms of a Gigabit link.
pub(crate) const MAX_FUTURE_BYTES: usize = 8 << 20;
/// Maximum bytes of authentic packets that are not released. Packets beyond are lost here, and come by QUERY. The log holds
/// about 1 MiB of them; the rest waits while the log is stuck.
pub(crate) const MAX_AUTHENTIC_BYTES: usize = 32 << 20;
/// Bytes of a held packet besides its payload and its proof.
const ITEM_BYTES: usize = 256;

/// Parameters of a receiver. All members of a group use the same ones, except `me`.
#[derive(Clone, Debug)]
pub struct Config {
    pub chain_id: u64,
    pub group: u32,
    /// Index of this receiver.
    pub me: u16,
    /// Votes of the members; member i is receiver i.
    pub weights: Weights,
    /// True if the sequencer may equivocate: then packets need CONFIRMs (L4). A property of the group.
    pub byzantine: bool,
    /// T_reorder: a gap becomes a drop this long after a later packet, ms, …
    pub reorder_ms: u64,
    /// … or when a packet this much later came, whichever is first.
    pub reorder_packets: u64,
    /// G: largest believable jump of the sequence (L6).
    pub max_jump: u64,
    /// B: numbers beyond the next one that are held, and datagrams of later epochs.
    pub max_buffered: usize,
    /// Packets with a larger payload count as not received, bytes.
    pub max_payload: usize,
}

/// Key that checks the packets of one epoch.
#[derive(Clone, Debug)]
pub enum EpochKey {
    Hm(TagKey),
    Pk(VerifyingKey),
}

/// Content of the next number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery<'a> {
    Packet(&'a OrderingCertificate),
    /// DROP-NOTIFICATION: later packets came, and this one did not (L5).
    Dropped,
}

/// Why the sequencer may be faulty (E1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspicion {
    /// An authentic packet is more than G numbers ahead (L6).
    Jump { seq: u64 },
    /// Two authentic packets have one number.
    Equivocation { seq: u64 },
}

/// Requests to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Sign these digests, make the vote durable, send it to all members, and pass it to [`Receiver::handle_confirm`].
    Confirm {
        epoch: u32,
        from: u64,
        digests: Vec<[u8; 32]>,
    },
    /// The first authentic datagram of the epoch arrived: a sequencer serves it.
    Started,
    Suspect(Suspicion),
}

/// Numbers of refused datagrams, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub malformed: u64,
    pub other_group: u64,
    pub old_epoch: u64,
    pub later_epoch: u64,
    pub wrong_digest: u64,
    pub oversized: u64,
    pub forged: u64,
    pub out_of_window: u64,
}

/// Receiver of one group.
pub struct Receiver {
    config: Config,
    epoch: u32,
    keys: BTreeMap<u32, EpochKey>,
    /// The next number of the sequence.
    next: u64,
    /// Numbers up to this one are forgotten.
    released: u64,
    /// Highest authentic number, also of packets that there was no room for.
    seen: u64,
    has_started: bool,
    assembly: Assembly,
    /// Byzantine network: authentic packets without a quorum of CONFIRMs.
    unconfirmed: BTreeMap<u64, OrderingCertificate>,
    confirms: Confirms,
    ready: BTreeMap<u64, OrderingCertificate>,
    /// Highest ready number.
    highest: u64,
    /// Ready packets that were the highest when they came, with that time.
    arrivals: VecDeque<(TimestampMs, u64)>,
    /// Below this number, whatever is not ready is dropped (L5).
    horizon: u64,
    /// Datagrams of later epochs, or of this one before its key came (L1, E4).
    future: VecDeque<(u32, Bytes)>,
    future_bytes: usize,
    /// Bytes of ready and unconfirmed packets.
    authentic_bytes: usize,
    outputs: VecDeque<Output>,
    counters: Counters,
}

impl Receiver {
    /// Makes a receiver for an epoch, whose next number is `next` (from 1).
    pub fn new(config: Config, epoch: u32, next: u64) -> Self {
        Self {
            config,
            epoch,
            keys: BTreeMap::new(),
            next,
            released: next.saturating_sub(1),
            seen: 0,
            has_started: false,
            assembly: Assembly::default(),
            unconfirmed: BTreeMap::new(),
            confirms: Confirms::default(),
            ready: BTreeMap::new(),
            highest: next.saturating_sub(1),
            arrivals: VecDeque::new(),
            horizon: next,
            future: VecDeque::new(),
            future_bytes: 0,
            authentic_bytes: 0,
            outputs: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The next number of the sequence.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Highest number of a ready packet.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub fn has_key(&self, epoch: u32) -> bool {
        self.keys.contains_key(&epoch)
    }

    /// Returns true once an authentic datagram of the current epoch arrived. Certificates from members do not count.
    pub fn has_started(&self) -> bool {
        self.has_started
    }

    /// Number of held items, which stays bounded.
    pub fn footprint(&self) -> usize {
        let held = self.assembly.count() + self.unconfirmed.len() + self.confirms.count() + self.ready.len();
        held + self.future.len() + self.arrivals.len() + self.outputs.len()
    }

    /// Bytes of all held packets and datagrams, which stay bounded: 8 MiB of a later epoch, 8 MiB that are not authentic, and
    /// 32 MiB that are.
    pub fn held_bytes(&self) -> usize {
        self.future_bytes + self.assembly.bytes() + self.authentic_bytes
    }

    fn scope(&self) -> Scope {
        let Config { chain_id, group, me, ref weights, .. } = self.config;
        Scope { chain_id, group, me, receivers: weights.members() as u16 }
    }

    /// E3: takes the key of an epoch from the configuration service. A second key of one epoch is ignored.
    pub fn install(&mut self, now: TimestampMs, epoch: u32, key: EpochKey) {
        self.keys.entry(epoch).or_insert(key);
        while self.keys.len() > MAX_KEYS {
            self.keys.pop_first();
        }
        self.replay(now);
    }

    /// E3, E5: from now on only packets of this epoch count, from number `next` on.
    pub fn start_epoch(&mut self, now: TimestampMs, epoch: u32, next: u64) {
        let fresh = Self::new(self.config.clone(), epoch, next);
        let old = std::mem::replace(self, fresh);
        (self.keys, self.counters) = (old.keys, old.counters);
        (self.future, self.future_bytes) = (old.future, old.future_bytes);
        self.replay(now);
    }

    fn replay(&mut self, now: TimestampMs) {
        if !self.keys.contains_key(&self.epoch) {
            return;
        }
        let (current, later): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.future).into_iter().partition(|(epoch, _)| *epoch == self.epoch);
        self.future_bytes = later.iter().map(|(_, datagram)| ITEM_BYTES + datagram.len()).sum();
        self.future = later;
        current.into_iter().for_each(|(_, datagram)| self.handle(now, &datagram));
    }

    /// Takes a datagram that came for the group. Wrong ones are counted and dropped.
    pub fn handle(&mut self, now: TimestampMs, datagram: &Bytes) {
        let packet = match Packet::decode(datagram) {
            Ok(packet) => packet,
            Err(_) => return self.counters.malformed += 1,
        };
        let header = packet.header;
        // L1.
        if header.group != self.config.group {
            return self.counters.other_group += 1;
        }
        if header.epoch < self.epoch {
            return self.counters.old_epoch += 1;
        }
        let Some(key) = self.keys.get(&self.epoch).filter(|_| header.epoch == self.epoch).cloned() else {
            return self.keep_for_later(header.epoch, datagram);
        };
        // L2: the authenticator binds the digest, and someone may still show the payload that matches it.
        if let Err(Error::Digest) = packet.verify_digest() {
            return self.counters.wrong_digest += 1;
        }
        if header.seq <= self.released || self.ready.contains_key(&header.seq) && self.is_known(&header) {
            return;
        }
        if !self.is_in_window(&header, &key) {
            return;
        }
        if let Some(suspicion) = self.assembly.conflicting(&header).filter(|_| is_own_authentic(&header, &key, self.config.me))
        {
            self.suspect(suspicion);
        }
        // A genesis parameter, so that all members receive the same packets.
        let payload = datagram.slice(corniche_aom_wire::HEADER_BYTES..);
        let payload = (payload.len() <= self.config.max_payload).then_some(payload);
        if payload.is_none() {
            self.counters.oversized += 1;
        }
        match self.assembly.add(&header, payload, &key, &self.scope()) {
            Assembled::Nothing => {}
            Assembled::Forged => self.counters.forged += 1,
            Assembled::Authentic(packets) => packets.into_iter().for_each(|packet| self.authentic(now, packet)),
        }
    }

    /// L1, E4: datagrams of the next epoch wait, and those of this one while its key is missing. The oldest ones give way.
    fn keep_for_later(&mut self, epoch: u32, datagram: &Bytes) {
        if epoch > self.epoch.saturating_add(1) {
            return self.counters.later_epoch += 1;
        }
        self.future.push_back((epoch, datagram.clone()));
        self.future_bytes += ITEM_BYTES + datagram.len();
        while self.future.len() > self.config.max_buffered || self.future_bytes > MAX_FUTURE_BYTES {
            let Some((_, oldest)) = self.future.pop_front() else { return };
            self.future_bytes -= ITEM_BYTES + oldest.len();
        }
    }

    /// Returns true if the packet of this number is ready with the same digest.
    fn is_known(&self, header: &Header) -> bool {
        self.ready.get(&header.seq).is_some_and(|ready| ready.digest(self.config.group) == header.digest)
    }

    /// L6: an authentic packet too far ahead shows a fault of the sequencer, and is not unrolled into drops.
    fn is_in_window(&mut self, header: &Header, key: &EpochKey) -> bool {
        let reached = self.highest.max(self.next);
        let is_far = header.seq > reached.saturating_add(self.config.max_jump);
        if !is_far && header.seq - self.released <= self.config.max_buffered as u64 {
            return true;
        }
        self.counters.out_of_window += 1;
        // Numbers that follow each other are no jump, however far behind the log is.
        if is_own_authentic(header, key, self.config.me) {
            if is_far && header.seq > self.seen.saturating_add(self.config.max_jump) {
                self.suspect(Suspicion::Jump { seq: header.seq });
            }
            self.seen = self.seen.max(header.seq);
        }
        false
    }

    fn suspect(&mut self, suspicion: Suspicion) {
        let output = Output::Suspect(suspicion);
        if self.outputs.len() < MAX_SUSPICIONS && !self.outputs.contains(&output) {
            self.outputs.push_back(output);
        }
    }

    fn authentic(&mut self, now: TimestampMs, packet: OrderingCertificate) {
        if !std::mem::replace(&mut self.has_started, true) {
            self.outputs.push_back(Output::Started);
        }
        let (seq, digest) = (packet.seq, packet.digest(self.config.group));
        self.seen = self.seen.max(seq);
        let earlier = self.ready.get(&seq).or_else(|| self.unconfirmed.get(&seq));
        if let Some(earlier) = earlier {
            // E1: the first one counts (L4).
            if earlier.digest(self.config.group) != digest {
                self.suspect(Suspicion::Equivocation { seq });
            }
            return;
        }
        if seq <= self.released || !self.has_room(&packet) {
            return;
        }
        if self.config.byzantine {
            self.confirms.note(seq, digest);
            self.authentic_bytes += held_bytes(&packet);
            self.unconfirmed.insert(seq, packet);
            self.check_confirmed(now, seq);
        } else {
            self.make_ready(now, packet);
        }
    }

    /// The next packet always has room.
    fn has_room(&mut self, packet: &OrderingCertificate) -> bool {
        let has_room = packet.seq == self.next || self.authentic_bytes + held_bytes(packet) <= MAX_AUTHENTIC_BYTES;
        self.counters.out_of_window += u64::from(!has_room);
        has_room
    }

    fn take_unconfirmed(&mut self, seq: u64) -> Option<OrderingCertificate> {
        let packet = self.unconfirmed.remove(&seq)?;
        self.authentic_bytes -= held_bytes(&packet);
        Some(packet)
    }

    fn make_ready(&mut self, now: TimestampMs, packet: OrderingCertificate) {
        let seq = packet.seq;
        self.authentic_bytes += held_bytes(&packet);
        self.ready.insert(seq, packet);
        if seq > self.highest {
            self.highest = seq;
            self.arrivals.push_back((now, seq));
            self.horizon = self.horizon.max(seq.saturating_sub(self.config.reorder_packets));
            self.tick(now);
        }
    }

    /// L4: a packet is ready when its first digest has a quorum.
    fn check_confirmed(&mut self, now: TimestampMs, seq: u64) {
        let Some(packet) = self.unconfirmed.get(&seq) else { return };
        let digest = packet.digest(self.config.group);
        let Some(confirms) = self.confirms.quorum(seq, digest, &self.config.weights) else { return };
        if let Some(packet) = self.take_unconfirmed(seq) {
            self.make_ready(now, OrderingCertificate { confirms, ..packet });
        }
    }

    /// Takes a CONFIRM of the current epoch whose signature was checked, also the own one once it is durable.
    pub fn handle_confirm(&mut self, now: TimestampMs, epoch: u32, vote: &ConfirmVote) {
        // Packets beyond are not believed (L6), so votes for them are of no use.
        let reached = self.highest.max(self.next).saturating_add(self.config.max_jump);
        let end = self.released.saturating_add(self.config.max_buffered as u64).min(reached.saturating_add(1));
        if epoch != self.epoch || !self.config.byzantine || vote.from > end {
            return;
        }
        self.confirms.insert(vote, end);
        (vote.from..end).zip(&vote.digests).for_each(|(seq, _)| self.check_confirmed(now, seq));
    }

    /// Restores an own CONFIRM from disk. Nothing else is ever confirmed for its numbers (pitfall 16).
    pub fn restore_confirm(&mut self, epoch: u32, vote: &ConfirmVote) {
        if epoch == self.epoch {
            self.confirms.restore(vote);
        }
    }

    /// The own CONFIRM that covers the first packet without a quorum, to be sent again (pitfall 20).
    pub fn stuck_confirm(&self) -> Option<&ConfirmVote> {
        let (seq, _) = self.unconfirmed.first_key_value()?;
        self.own_confirm(*seq)
    }

    /// The own CONFIRM that covers this number.
    pub fn own_confirm(&self, seq: u64) -> Option<&ConfirmVote> {
        self.confirms.vote(seq, ValidatorIndex(self.config.me))
    }

    /// Checks a certificate from another member. In a Byzantine network, `check` checks a CONFIRM's signature.
    pub fn verify(&self, packet: &OrderingCertificate, mut check: impl FnMut(u32, &ConfirmVote) -> bool) -> bool {
        if packet.payload.len() > self.config.max_payload {
            return false;
        }
        let digest = packet.digest(self.config.group);
        if packet.epoch == self.epoch
            && self.ready.get(&packet.seq).is_some_and(|ready| ready.payload == packet.payload && ready.proof == packet.proof)
        {
            return true;
        }
        if self.config.byzantine {
            let mut members: Vec<_> = packet.confirms.iter().map(|vote| vote.member).collect();
            members.sort_unstable();
            members.dedup();
            let weights = &self.config.weights;
            let is_quorum = members.len() == packet.confirms.len() && weights.weigh(members) >= weights.quorum();
            let is_valid = |vote: &ConfirmVote| vote.digest(packet.seq) == Some(digest) && check(packet.epoch, vote);
            // §2.4: the CONFIRMs suffice even if the own tag is damaged.
            return is_quorum && packet.confirms.iter().all(is_valid);
        }
        self.keys.get(&packet.epoch).is_some_and(|key| packet.is_authentic(key, &self.scope()))
    }

    /// Takes a verified certificate of the current epoch from another member, as if the packet had arrived.
    pub fn insert(&mut self, now: TimestampMs, packet: OrderingCertificate) {
        let seq = packet.seq;
        let is_wanted = packet.epoch == self.epoch && seq > self.released && !self.ready.contains_key(&seq);
        if is_wanted && seq - self.released <= self.config.max_buffered as u64 && self.has_room(&packet) {
            self.take_unconfirmed(seq);
            self.make_ready(now, packet);
        }
    }

    /// Content of the next number; `None` if that is not known yet.
    pub fn peek(&self) -> Option<Delivery<'_>> {
        match self.ready.get(&self.next) {
            Some(packet) => Some(Delivery::Packet(packet)),
            None => self.is_dropped(self.next).then_some(Delivery::Dropped),
        }
    }

    /// Returns true if a number counts as dropped (L5).
    pub fn is_dropped(&self, seq: u64) -> bool {
        seq < self.horizon && seq > self.released && !self.ready.contains_key(&seq)
    }

    /// Dropped numbers from the next one on, ascending, at most `limit`.
    pub fn dropped(&self, limit: usize) -> Vec<u64> {
        (self.next..self.horizon).filter(|seq| self.is_dropped(*seq)).take(limit).collect()
    }

    /// The packet with this number, also after it was delivered, until it is released (L7).
    pub fn get(&self, seq: u64) -> Option<&OrderingCertificate> {
        self.ready.get(&seq)
    }

    /// Moves to the number after the next one.
    pub fn advance(&mut self) {
        self.set_next(self.next.saturating_add(1));
    }

    /// Moves to a number: back after a rollback, or forward past numbers that the caller knows from elsewhere.
    pub fn set_next(&mut self, next: u64) {
        self.next = next.max(self.released.saturating_add(1));
        self.highest = self.highest.max(self.next.saturating_sub(1));
    }

    /// Forgets the numbers up to this one, which are final. Must be below the next one.
    pub fn release(&mut self, through: u64) {
        let through = through.min(self.next.saturating_sub(1));
        if through <= self.released {
            return;
        }
        self.released = through;
        let first = through.saturating_add(1);
        for packets in [&mut self.ready, &mut self.unconfirmed] {
            let kept = packets.split_off(&first);
            let dropped = std::mem::replace(packets, kept);
            self.authentic_bytes -= dropped.values().map(held_bytes).sum::<usize>();
        }
        self.assembly.release(through);
        self.confirms.release(through);
    }

    /// Lets time pass: gaps become drops (L5).
    pub fn tick(&mut self, now: TimestampMs) {
        while let Some((arrived, seq)) = self.arrivals.front().copied() {
            if arrived.0.saturating_add(self.config.reorder_ms) > now.0 && self.has_gap_below(seq) {
                break;
            }
            self.arrivals.pop_front();
            self.horizon = self.horizon.max(seq);
        }
    }

    fn has_gap_below(&self, seq: u64) -> bool {
        let from = self.horizon.max(self.next);
        from < seq && (self.ready.range(from..seq).count() as u64) < seq - from
    }

    /// Time of the next [`Receiver::tick`].
    pub fn deadline(&self) -> Option<TimestampMs> {
        self.arrivals.front().map(|(arrived, _)| TimestampMs(arrived.0.saturating_add(self.config.reorder_ms)))
    }

    /// Returns the next request to the caller.
    pub fn poll(&mut self) -> Option<Output> {
        if let Some((from, digests)) = self.confirms.next_batch() {
            return Some(Output::Confirm { epoch: self.epoch, from, digests });
        }
        self.outputs.pop_front()
    }
}

/// Bytes of a held packet.
fn held_bytes(packet: &OrderingCertificate) -> usize {
    let proof = match &packet.proof {
        Proof::Hm { vector } => size_of_val(vector.as_slice()),
        Proof::Pk { chain, .. } => size_of_val(chain.as_slice()),
    };
    let confirms: usize =
        packet.confirms.iter().map(|vote| size_of::<ConfirmVote>() + size_of_val(vote.digests.as_slice())).sum();
    ITEM_BYTES + packet.payload.len() + proof + confirms
}

/// Returns true if this header alone proves that the sequencer made it: the own tag, or a signature.
fn is_own_authentic(header: &Header, key: &EpochKey, me: u16) -> bool {
    match key {
        EpochKey::Hm(key) => u16::from(header.subgroup) == me / 4 && header.verify_tag(key).is_ok(),
        EpochKey::Pk(key) => header.is_signed() && header.verify_signature(key).is_ok(),
    }
}
