//! Bodies of batches: kept until delivery and for peers (M28), fetched by digest (M6).

use crate::{
    engine::Mir,
    message::{Message, NULL, Proposal, Sn},
    record::Record,
};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

/// Maximum number of bodies for one number that is not delivered. The own ones and the prepared one are always kept.
pub const MAX_BODIES: usize = 8;
/// Maximum number of missing bodies that are fetched at once.
const MAX_FETCHES: usize = 32;

struct Fetch {
    attempts: usize,
    overdue_at: TimestampMs,
}

/// Bodies of batches by number and digest, in the order of arrival.
#[derive(Default)]
pub(crate) struct Bodies {
    held: BTreeMap<Sn, Vec<(B256, Proposal)>>,
    fetches: BTreeMap<(Sn, B256), Fetch>,
}

impl Bodies {
    pub fn get(&self, sn: Sn, digest: B256) -> Option<&Proposal> {
        self.held.get(&sn)?.iter().find(|(of, _)| *of == digest).map(|(_, proposal)| proposal)
    }

    /// True if the body is present. The null batch has none.
    pub fn has(&self, sn: Sn, digest: B256) -> bool {
        digest == NULL || self.get(sn, digest).is_some()
    }

    /// Keeps a body. Returns false if it was present. Too many of one number displace the oldest that may be dropped.
    pub fn insert(&mut self, digest: B256, proposal: Proposal, prepared: Option<B256>, me: ValidatorIndex) -> bool {
        self.fetches.remove(&(proposal.sn, digest));
        let of_number = self.held.entry(proposal.sn).or_default();
        if of_number.iter().any(|(of, _)| *of == digest) {
            return false;
        }
        let may_drop = |(of, held): &(B256, Proposal)| Some(*of) != prepared && held.author != me;
        if of_number.len() >= MAX_BODIES
            && let Some(place) = of_number.iter().position(may_drop)
        {
            of_number.remove(place);
        }
        of_number.push((digest, proposal));
        true
    }

    /// The number is decided. Returns the other bodies, which are never delivered.
    pub fn keep_only(&mut self, sn: Sn, digest: B256) -> Vec<Proposal> {
        self.fetches.retain(|(of, _), _| *of != sn);
        let Some(of_number) = self.held.get_mut(&sn) else { return Vec::new() };
        let others = of_number.extract_if(.., |(of, _)| *of != digest).map(|(_, proposal)| proposal);
        others.collect()
    }

    /// Forgets numbers up to `floor`.
    pub fn release(&mut self, floor: Sn) {
        self.held = self.held.split_off(&floor.next());
        self.fetches.retain(|(sn, _), _| *sn > floor);
    }

    pub fn count(&self) -> usize {
        self.held.values().map(Vec::len).sum::<usize>() + self.fetches.len()
    }
}

impl Mir {
    /// Asks for missing bodies of the next committed batches, and of listed ones (U6).
    pub(crate) fn fetch_bodies(&mut self) {
        let delivered = self.order.sn();
        let missing = |(sn, digest): &(Sn, B256)| *sn > delivered && !self.bodies.has(*sn, *digest);
        let committed = self.log.range(delivered.next()..).map(|(sn, digest)| (*sn, *digest)).take(4 * MAX_FETCHES);
        let listed = (self.epoch.start.0 + 1..).map(Sn).zip(self.epoch.listed.iter().copied());
        let wanted: Vec<_> = committed.chain(listed.filter(|_| self.is_normal())).filter(missing).take(MAX_FETCHES).collect();
        for (sn, digest) in wanted {
            let fetch = self.bodies.fetches.get(&(sn, digest));
            if fetch.is_some_and(|fetch| fetch.overdue_at > self.now) {
                continue;
            }
            let attempts = fetch.map_or(0, |fetch| fetch.attempts);
            let Some(peer) = self.holder(sn, digest, attempts) else { return };
            let overdue_at = TimestampMs(self.now.0.saturating_add(self.config.resend_ms));
            self.bodies.fetches.insert((sn, digest), Fetch { attempts: attempts + 1, overdue_at });
            self.send(peer, &Message::FetchBody { sn, digest });
        }
    }

    /// A member to ask for a body: first those that voted for it in this epoch, then all in turn.
    fn holder(&self, sn: Sn, digest: B256, attempts: usize) -> Option<ValidatorIndex> {
        let voters = self.instances.get(&sn).into_iter().flat_map(|instance| instance.holders(digest));
        let claimants = self.sync.claimants(sn, digest);
        let first = self.me.as_usize() + sn.0 as usize % self.committee.size();
        let all = self.committee.indices().cycle().skip(first).take(self.committee.size());
        let order: Vec<_> = voters.chain(claimants).chain(all).filter(|member| *member != self.me).collect();
        order.get(attempts % order.len().max(1)).copied()
    }

    pub(crate) fn handle_fetch_body(&mut self, peer: ValidatorIndex, sn: Sn, digest: B256) {
        let Some(proposal) = self.bodies.get(sn, digest).cloned() else { return };
        if self.may_respond(peer) {
            self.charge(peer, proposal.batch.len());
            self.send(peer, &Message::Body(proposal));
        }
    }

    /// Keeps a body that was asked for.
    pub(crate) fn handle_body(&mut self, proposal: Proposal, digest: B256) {
        let sn = proposal.sn;
        if !self.bodies.fetches.contains_key(&(sn, digest)) {
            return;
        }
        self.persist(&Record::Body(proposal.clone()), None);
        self.keep_body(digest, proposal);
        self.accept(sn);
    }

    /// Returns false if the body was present.
    pub(crate) fn keep_body(&mut self, digest: B256, proposal: Proposal) -> bool {
        let prepared = self.prepared.get(&proposal.sn).map(|certificate| certificate.digest);
        self.bodies.insert(digest, proposal, prepared, self.me)
    }
}
