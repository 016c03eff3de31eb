//! The author's side: batches and clocks to requests, and their repetition (C1–C4). Members are the only authors of a group;
//! users reach them by JSON-RPC.

use crate::{
    config::MAX_OUTSTANDING,
    engine::Neobft,
    keys::Signature,
    message::{BodyId, Content, Message, Request, RequestId, Slot},
    rules,
};
use corniche_aom_wire::encode_request;
use corniche_engine::{Batch, Output};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, wire};
use std::collections::BTreeMap;

/// After an empty batch, the next one is asked for after this many more intervals.
const EMPTY_INTERVALS: u64 = 3;
/// Maximum number of copies of one author.
const MAX_COPIES: usize = 2 * MAX_OUTSTANDING;
/// An undelivered request is sent again after `request_ms`, then after twice as long, up to 2^this times as long.
const MAX_DOUBLINGS: u32 = 4;

/// An own batch that is not ordered yet.
pub(crate) struct Own {
    pub batch: Bytes,
    pub expires: TimestampMs,
    /// A batch too large for a packet, and the members that hold it.
    pub body: Option<BodyId>,
    pub holders: BTreeMap<ValidatorIndex, Signature>,
    /// The request, once it was sent.
    payload: Option<Bytes>,
    resend_at: TimestampMs,
    attempts: u32,
}

/// A request that its author sent on the links.
struct Copied {
    payload: Bytes,
    expires: TimestampMs,
    since: TimestampMs,
    is_forwarded: bool,
}

pub(crate) struct Requests {
    own: BTreeMap<RequestId, Own>,
    next_id: RequestId,
    is_batch_wanted: bool,
    /// Time of the last own request, which claims a time.
    claimed_at: TimestampMs,
    /// Time of the last batch that the caller provided.
    batch_at: TimestampMs,
    /// Bytes of the newest own batch.
    batch_bytes: usize,
    copies: BTreeMap<(ValidatorIndex, RequestId), Copied>,
    /// Requests in the log, by their unchecked names, with their last slot.
    in_log: BTreeMap<(ValidatorIndex, RequestId), Slot>,
}

impl Requests {
    /// Numbers contain the time, so that they are unique across restarts.
    pub fn new(now: TimestampMs) -> Self {
        Self {
            own: BTreeMap::new(),
            next_id: now.0.min(u64::MAX >> 20) << 20,
            is_batch_wanted: false,
            claimed_at: TimestampMs(0),
            batch_at: TimestampMs(0),
            batch_bytes: 0,
            copies: BTreeMap::new(),
            in_log: BTreeMap::new(),
        }
    }

    pub fn count(&self) -> usize {
        self.own.len() + self.copies.len() + self.in_log.len()
    }

    pub fn describe(&self) -> String {
        format!(
            "own {:?}, copies {:?}, wants batch {}",
            self.own.keys().collect::<Vec<_>>(),
            self.copies.keys(),
            self.is_batch_wanted
        )
    }

    /// Does not start with a clock at once: connections are made first.
    pub fn delay_clock(&mut self, claimed_at: TimestampMs) {
        self.claimed_at = claimed_at;
    }

    /// Returns true if the last own request is this old.
    pub fn has_claimed_before(&self, now: TimestampMs, age_ms: u64) -> bool {
        self.claimed_at.0.saturating_add(age_ms) <= now.0
    }

    pub fn own_mut(&mut self, id: RequestId) -> Option<&mut Own> {
        self.own.get_mut(&id)
    }

    /// Own bodies whose requests wait for holders.
    pub fn gathering(&self) -> impl Iterator<Item = &Own> {
        self.own.values().filter(|own| own.payload.is_none())
    }

    pub fn remove(&mut self, id: RequestId) {
        self.own.remove(&id);
    }

    pub fn remove_copy(&mut self, author: ValidatorIndex, id: RequestId) {
        self.copies.remove(&(author, id));
    }

    /// A packet with this payload was appended to the log.
    pub fn note_in_log(&mut self, payload: &Bytes, slot: Slot) {
        if let Ok(Request { author, content, .. }) = wire::decode(payload)
            && let Some((id, _)) = content.batch()
        {
            self.in_log.insert((author, id), slot);
        }
    }
}

impl Neobft {
    pub(crate) fn handle_batch(&mut self, batch: Batch) {
        self.requests.is_batch_wanted = false;
        self.requests.batch_at = self.now;
        self.requests.batch_bytes = batch.bytes.len();
        let batch = batch.bytes;
        if batch.is_empty() {
            // A later commit is needed, with a later time. Others probably ask for one, too.
            self.requests.batch_at.0 += EMPTY_INTERVALS * self.config.request_interval_ms;
            return self.claim_time();
        }
        let id = self.requests.next_id;
        self.requests.next_id += 1;
        let expires = TimestampMs(self.now.max(self.order.state().time).0.saturating_add(self.config.expiry_ms));
        let mut own = Own {
            batch: batch.clone(),
            expires,
            body: None,
            holders: BTreeMap::new(),
            payload: None,
            resend_at: self.now,
            attempts: 0,
        };
        let inline = self.sign_request(Content::Inline { id, expires, batch: batch.clone() });
        match inline.filter(|payload| payload.len() <= self.config.payload_bytes as usize) {
            Some(payload) => {
                self.requests.own.insert(id, own);
                self.send_request(id, payload);
            }
            None => {
                let body = BodyId::of(self.me, id, expires, &batch);
                own.body = Some(body);
                self.requests.own.insert(id, own);
                self.store_body(body, batch);
            }
        }
    }

    fn sign_request(&self, content: Content) -> Option<Bytes> {
        let (author, time) = (self.me, self.now);
        let signature = self.sign(&self.context.request(author, &content, time))?;
        Some(wire::encode(&Request { author, content, time, signature }).into())
    }

    /// C1.
    fn send_request(&mut self, id: RequestId, payload: Bytes) {
        if let Some(own) = self.requests.own.get_mut(&id) {
            own.payload = Some(payload.clone());
            own.resend_at = TimestampMs(self.now.0.saturating_add(self.config.request_ms));
        }
        self.requests.claimed_at = self.now;
        self.multicast(&payload);
    }

    fn multicast(&mut self, payload: &Bytes) {
        if let Ok(datagram) = encode_request(self.config.group, payload) {
            self.outputs.push_back(Output::Multicast(datagram.into()));
        }
    }

    pub(crate) fn claim_time(&mut self) {
        self.requests.claimed_at = self.now;
        if let Some(payload) = self.sign_request(Content::Clock) {
            self.multicast(&payload);
        }
    }

    /// Members with F + 1 votes hold the body of this own batch.
    pub(crate) fn send_reference(&mut self, id: RequestId) {
        let Some(own) = self.requests.own.get(&id).filter(|own| own.payload.is_none()) else { return };
        let Some(body) = own.body else { return };
        let chosen = self.committee.take_votes(own.holders.keys().copied(), self.committee.validity());
        if self.committee.weigh(chosen.iter().copied()) < self.committee.validity() {
            return;
        }
        let holders = chosen.iter().filter_map(|member| Some((*member, *own.holders.get(member)?))).collect();
        if let Some(payload) = self.sign_request(Content::Reference { body, holders }) {
            self.send_request(id, payload);
        }
    }

    /// Own batches and copies that can have no effect any more.
    pub(crate) fn drop_expired(&mut self) {
        let (order, me) = (&self.order, self.me);
        let lost: Vec<_> =
            self.requests.own.iter().filter(|(id, own)| !order.is_possible(me, **id, own.expires)).map(|(id, _)| *id).collect();
        self.requests.copies.retain(|(author, id), copied| order.is_possible(*author, *id, copied.expires));
        let released = self.bodies.drop_impossible(order);
        released.into_iter().for_each(|body| self.journal.drop_body(&body));
        for id in lost {
            if let Some(own) = self.requests.own.remove(&id) {
                self.requeue(own.batch);
            }
        }
    }

    /// Asks for a batch if there is room, claims the time, and repeats undelivered requests.
    pub(crate) fn drive_requests(&mut self) {
        if self.now.0 >= self.requests.claimed_at.0.saturating_add(self.config.clock_ms) {
            self.claim_time();
        }
        let due: Vec<_> = self
            .requests
            .own
            .iter()
            .filter(|(_, own)| own.payload.is_some() && own.resend_at <= self.now)
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            let Some(own) = self.requests.own.get_mut(&id) else { continue };
            own.attempts += 1;
            let wait = self.config.request_ms << own.attempts.min(MAX_DOUBLINGS);
            own.resend_at = TimestampMs(self.now.0.saturating_add(wait));
            let Some(payload) = own.payload.clone() else { continue };
            // C3, C4: again to the group, where it takes another slot, and to all members.
            self.multicast(&payload);
            self.broadcast(&Message::Copy(payload.clone()));
            self.handle_copy(&payload);
        }
        if let Some(at) = self.want_batch_at().filter(|at| *at <= self.now) {
            self.requests.batch_at = at;
            self.requests.is_batch_wanted = true;
            let (bytes, gas) = (self.config.batch_bytes, self.config.batch_gas);
            self.outputs.push_back(Output::WantBatch { bytes, gas });
        }
    }

    /// Number of own batches that are not executed yet, from which the next one waits.
    fn open_requests(&self) -> usize {
        // Waiting does not help a full batch.
        let is_full = self.requests.batch_bytes >= self.config.batch_bytes as usize / 2;
        if is_full { MAX_OUTSTANDING } else { self.config.open_requests }
    }

    fn want_batch_at(&self) -> Option<TimestampMs> {
        // The next batch grows while it waits, so requests are rarer under load. With few and small ones nothing waits.
        // A request that is sent again waits for another sequencer; the others need not wait for it.
        let open = self.requests.own.values().filter(|own| own.attempts == 0).count();
        let has_room =
            !self.requests.is_batch_wanted && self.requests.own.len() < MAX_OUTSTANDING && open < self.open_requests();
        let first = self.requests.batch_at.0 == 0;
        let at =
            if first { 0 } else { self.requests.batch_at.0.saturating_add(self.config.interval_ms(self.requests.batch_bytes)) };
        has_room.then_some(TimestampMs(at))
    }

    pub(crate) fn requests_deadline(&self) -> Option<TimestampMs> {
        let clock = TimestampMs(self.requests.claimed_at.0.saturating_add(self.config.clock_ms));
        let resend = self.requests.own.values().filter(|own| own.payload.is_some()).map(|own| own.resend_at).min();
        [Some(clock), resend, self.want_batch_at()].into_iter().flatten().min()
    }

    /// E5: a new sequencer gets everything again, and as much time as the one before.
    pub(crate) fn resend_requests(&mut self) {
        self.requests.own.values_mut().for_each(|own| own.resend_at = self.now);
        self.restart_requests();
    }

    /// The sequencer began to serve the epoch. Repeated requests are due at once: they wait long by now.
    pub(crate) fn restart_requests(&mut self) {
        for copied in self.requests.copies.values_mut() {
            (copied.since, copied.is_forwarded) = (self.now, false);
        }
        for own in self.requests.own.values_mut().filter(|own| own.attempts > 0) {
            (own.resend_at, own.attempts) = (self.now, 0);
        }
    }

    /// V1: a request that should have come from the group.
    pub(crate) fn handle_copy(&mut self, payload: &Bytes) {
        let Ok(request) = wire::decode::<Request>(payload) else { return };
        let Some((id, expires)) = request.content.batch() else { return };
        let author = request.author;
        if self.requests.copies.contains_key(&(author, id)) || !self.order.is_valid(&request) {
            return;
        }
        let count = self.requests.copies.keys().filter(|(of, _)| *of == author).count();
        if count < MAX_COPIES && self.order.is_possible(author, id, expires) {
            let copied = Copied { payload: payload.clone(), expires, since: self.now, is_forwarded: false };
            self.requests.copies.insert((author, id), copied);
        }
    }

    /// Forwards copies to the group once: a faulty author must not discredit the sequencer. F + 1 members do so, the leader first:
    /// one of them is correct. Returns a reason to suspect the sequencer if a copy still does not come.
    pub(crate) fn undelivered_copy(&mut self) -> Option<String> {
        let executed = self.order.slot();
        let (now, copies) = (self.now, &mut self.requests.copies);
        self.requests.in_log.retain(|name, slot| {
            let is_open = *slot > executed;
            if !is_open && let Some(copied) = copies.get_mut(name) {
                // The slot became a NO-OP, or was rolled back: the sequencer gets its time again.
                (copied.since, copied.is_forwarded) = (now, false);
            }
            is_open
        });
        if !self.receiver.has_key(self.view().epoch) {
            // The sequencer is not installed yet.
            return None;
        }
        let (aom_ms, now) = (self.doubled(self.config.aom_ms), self.now);
        let in_log = &self.requests.in_log;
        let (size, leader) = (self.committee.size(), rules::leader(self.view(), &self.committee).as_usize());
        let forwards = (self.me.as_usize() + size - leader) % size < self.committee.validity().as_usize();
        let mut forwarded = Vec::new();
        let mut reason = None;
        for (name, copied) in &mut self.requests.copies {
            if in_log.contains_key(name) {
                continue;
            }
            let age = now.0.saturating_sub(copied.since.0);
            if age >= aom_ms / 2 && !copied.is_forwarded {
                copied.is_forwarded = true;
                forwarded.extend(forwards.then(|| copied.payload.clone()));
            }
            if age >= aom_ms {
                reason = Some(format!("request {} of {} does not come", name.1, name.0));
            }
        }
        forwarded.iter().for_each(|payload| self.multicast(payload));
        reason
    }
}
