//! Bodies of large batches: members store them before the author orders a reference. A missing body blocks execution, not
//! ordering.

use crate::{
    engine::{AfterDurable, Neobft},
    keys::Signature,
    message::{BodyId, Content, Entry, Message, Request, Slot, Statement},
    order::Order,
    record::Record,
};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, wire};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of bodies of one author that no executed slot refers to.
pub const MAX_BODIES: usize = 64;

struct Held {
    batch: Bytes,
    is_durable: bool,
}

/// A body that execution waits for.
struct Wanted {
    body: BodyId,
    /// Members to ask, in order.
    sources: Vec<ValidatorIndex>,
    attempts: usize,
}

pub(crate) struct Bodies {
    held: BTreeMap<BodyId, Held>,
    /// Bodies of executed slots that are kept for others.
    used: BTreeMap<Slot, BodyId>,
    wanted: Option<Wanted>,
}

impl Bodies {
    /// Bodies from records.
    pub fn new(recovered: BTreeMap<BodyId, (corniche_engine::Ticket, Bytes)>) -> Self {
        let held = recovered.into_iter().map(|(body, (_, batch))| (body, Held { batch, is_durable: true })).collect();
        Self { held, used: BTreeMap::new(), wanted: None }
    }

    pub fn get(&self, body: &BodyId) -> Option<Bytes> {
        self.held.get(body).map(|held| held.batch.clone())
    }

    pub fn count(&self) -> usize {
        self.held.len()
    }

    pub fn describe(&self) -> String {
        format!("{} bodies, wanted {:?}", self.held.len(), self.wanted.as_ref().map(|wanted| wanted.body))
    }

    /// An executed slot refers to this body.
    pub fn keep_for(&mut self, slot: Slot, body: BodyId) {
        self.used.insert(slot, body);
        self.wanted = self.wanted.take().filter(|wanted| wanted.body != body);
    }

    /// Drops the bodies of slots up to `floor`. Returns them.
    pub fn release(&mut self, floor: Slot) -> Vec<BodyId> {
        let kept = self.used.split_off(&floor.next());
        let dropped: Vec<BodyId> = std::mem::replace(&mut self.used, kept).into_values().collect();
        dropped.iter().for_each(|body| _ = self.held.remove(body));
        dropped
    }

    /// Drops bodies that no slot refers to and none can refer to any more. Returns them.
    pub fn drop_impossible(&mut self, order: &Order) -> Vec<BodyId> {
        if self.held.len() == self.used.len() {
            return Vec::new();
        }
        let used: BTreeSet<_> = self.used.values().collect();
        let wanted = self.wanted.as_ref().map(|wanted| wanted.body);
        let is_dropped = |body: &&BodyId| {
            !used.contains(body) && Some(**body) != wanted && !order.is_possible(body.author, body.id, body.expires)
        };
        let dropped: Vec<BodyId> = self.held.keys().filter(is_dropped).copied().collect();
        dropped.iter().for_each(|body| _ = self.held.remove(body));
        dropped
    }

    /// Number and bytes of an author's bodies that no executed slot refers to.
    fn waiting(&self, author: ValidatorIndex) -> (usize, u64) {
        let used: BTreeSet<_> = self.used.values().collect();
        let waiting = self.held.keys().filter(|body| body.author == author && !used.contains(body));
        waiting.fold((0, 0), |(count, bytes), body| (count + 1, bytes + u64::from(body.bytes)))
    }
}

/// The body that a log entry refers to.
fn referenced_body(entry: &Entry) -> Option<BodyId> {
    let Entry::Request(certificate) = entry else { return None };
    match wire::decode::<Request>(&certificate.payload).ok()?.content {
        Content::Reference { body, .. } => Some(body),
        _ => None,
    }
}

impl Neobft {
    /// Makes a body durable. Then it is sent to all if it is an own one, or confirmed to its author.
    pub(crate) fn store_body(&mut self, body: BodyId, batch: Bytes) {
        let ticket = self.persist(&Record::Body { body, batch: batch.clone() }, Some(AfterDurable::Body(body)));
        self.journal.body(body, ticket);
        self.bodies.held.insert(body, Held { batch, is_durable: false });
    }

    pub(crate) fn handle_body_durable(&mut self, body: BodyId) {
        let Some(held) = self.bodies.held.get_mut(&body) else { return };
        held.is_durable = true;
        let batch = held.batch.clone();
        if body.author == self.me {
            self.broadcast(&Message::Body { body, batch });
        }
        self.confirm_body(body);
    }

    /// Signs that this replica holds a body.
    fn confirm_body(&mut self, body: BodyId) {
        let Some(signature) = self.sign(&Statement::Holding(body)) else { return };
        if body.author == self.me {
            self.handle_holding(self.me, body, signature);
        } else {
            self.send(body.author, Message::Holding { body, signature });
        }
    }

    pub(crate) fn handle_holding(&mut self, from: ValidatorIndex, body: BodyId, signature: Signature) {
        if let Some(own) = self.requests.own_mut(body.id).filter(|own| own.body == Some(body)) {
            own.holders.insert(from, signature);
            self.send_reference(body.id);
        }
    }

    pub(crate) fn handle_body(&mut self, from: ValidatorIndex, body: BodyId, batch: Bytes) {
        if let Some(held) = self.bodies.held.get(&body) {
            if held.is_durable && from == body.author {
                self.confirm_body(body);
            }
            return;
        }
        let is_wanted = self.bodies.wanted.as_ref().is_some_and(|wanted| wanted.body == body);
        if !is_wanted && (from != body.author || !self.may_store(&body)) {
            return;
        }
        self.store_body(body, batch);
    }

    fn may_store(&self, body: &BodyId) -> bool {
        let (count, bytes) = self.bodies.waiting(body.author);
        let latest = TimestampMs(self.now.max(self.order.state().time).0.saturating_add(2 * self.config.expiry_ms));
        count < MAX_BODIES
            && bytes + u64::from(body.bytes) <= self.config.body_bytes
            && body.expires <= latest
            && self.order.is_possible(body.author, body.id, body.expires)
    }

    pub(crate) fn handle_fetch_body(&mut self, from: ValidatorIndex, body: &BodyId) {
        let Some(batch) = self.bodies.get(body) else { return };
        if self.may_respond(from) {
            self.charge(from, batch.len());
            self.send(from, Message::Body { body: *body, batch });
        }
    }

    /// After a restart: bodies of executed slots are kept for others.
    pub(crate) fn keep_executed_bodies(&mut self) {
        let executed = self.order.slot();
        let entries = self.log.after(self.log.floor()).take_while(|(slot, _)| *slot <= executed);
        let referenced: Vec<_> = entries.filter_map(|(slot, entry)| Some((slot, referenced_body(entry)?))).collect();
        referenced.into_iter().for_each(|(slot, body)| self.bodies.keep_for(slot, body));
    }

    /// Execution needs this body.
    pub(crate) fn fetch_body(&mut self, body: BodyId, holders: Vec<ValidatorIndex>) {
        if self.bodies.wanted.as_ref().is_none_or(|wanted| wanted.body != body) {
            let sources = self.other_members(&holders);
            self.bodies.wanted = Some(Wanted { body, sources, attempts: 0 });
            self.ask_for_body();
        }
    }

    fn ask_for_body(&mut self) {
        let Some(wanted) = self.bodies.wanted.as_mut().filter(|wanted| !wanted.sources.is_empty()) else { return };
        let (body, source) = (wanted.body, wanted.sources[wanted.attempts % wanted.sources.len()]);
        wanted.attempts += 1;
        self.send(source, Message::FetchBody { body });
    }

    /// Repeats requests for the missing body, and own bodies that too few members confirmed.
    pub(crate) fn resend_bodies(&mut self) {
        self.ask_for_body();
        let mut due = Vec::new();
        for own in self.requests.gathering() {
            let Some(body) = own.body.filter(|body| self.bodies.held.get(body).is_some_and(|held| held.is_durable)) else {
                continue;
            };
            let missing = self.committee.indices().filter(|member| *member != self.me && !own.holders.contains_key(member));
            due.extend(missing.map(|member| (member, body, own.batch.clone())));
        }
        due.into_iter().for_each(|(member, body, batch)| self.send(member, Message::Body { body, batch }));
    }
}
