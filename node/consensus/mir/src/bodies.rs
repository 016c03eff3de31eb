//! Bodies of batches: kept until delivery and for peers (M28), fetched by digest (M6).

use crate::{
    engine::Mir,
    message::{Message, NULL, Proposal, Sn},
    record::Record,
    rules,
    sync::{MAX_DOUBLINGS, copy_timeout_ms},
};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of bodies for one number that is not delivered. Needed and own ones are always kept.
pub const MAX_BODIES: usize = 8;
/// Maximum number of missing bodies that are fetched at once.
const MAX_FETCHES: usize = 32;

struct Fetch {
    attempts: usize,
    overdue_at: TimestampMs,
    /// Nothing was requested yet, because the leader's copy may be on its way.
    waits: bool,
}

struct Body {
    digest: B256,
    proposal: Proposal,
    /// A record contains it.
    is_written: bool,
}

/// Bodies of batches by number and digest, in the order of arrival.
#[derive(Default)]
pub(crate) struct Bodies {
    held: BTreeMap<Sn, Vec<Body>>,
    fetches: BTreeMap<(Sn, B256), Fetch>,
    /// Leaders of this epoch whose copies did not come in time. A liar may keep its batches from some members.
    late: BTreeSet<ValidatorIndex>,
}

impl Bodies {
    fn find(&self, sn: Sn, digest: B256) -> Option<&Body> {
        self.held.get(&sn)?.iter().find(|body| body.digest == digest)
    }

    pub fn get(&self, sn: Sn, digest: B256) -> Option<&Proposal> {
        self.find(sn, digest).map(|body| &body.proposal)
    }

    /// Requests to a member without a connection were lost: the next ones leave by this time.
    pub fn ask_by(&mut self, at: TimestampMs) {
        for fetch in self.fetches.values_mut() {
            fetch.overdue_at = fetch.overdue_at.min(at);
        }
    }

    /// A new epoch begins.
    pub fn forget_late_leaders(&mut self) {
        self.late.clear();
    }

    /// True if the body is present. The null batch has none.
    pub fn has(&self, sn: Sn, digest: B256) -> bool {
        digest == NULL || self.get(sn, digest).is_some()
    }

    pub fn is_written(&self, sn: Sn, digest: B256) -> bool {
        self.find(sn, digest).is_some_and(|body| body.is_written)
    }

    pub fn note_written(&mut self, sn: Sn, digest: B256) {
        let of_number = self.held.get_mut(&sn).into_iter().flatten();
        of_number.filter(|body| body.digest == digest).for_each(|body| body.is_written = true);
    }

    /// Keeps a body. Returns false if it was present. Too many of one number displace the oldest that may be dropped: neither one
    /// that is `needed`, nor an own one.
    pub fn insert(&mut self, digest: B256, proposal: Proposal, needed: &[B256], me: ValidatorIndex) -> bool {
        self.fetches.remove(&(proposal.sn, digest));
        let of_number = self.held.entry(proposal.sn).or_default();
        if of_number.iter().any(|body| body.digest == digest) {
            return false;
        }
        let may_drop = |body: &Body| !needed.contains(&body.digest) && body.proposal.author != me;
        if of_number.len() >= MAX_BODIES
            && let Some(place) = of_number.iter().position(may_drop)
        {
            of_number.remove(place);
        }
        of_number.push(Body { digest, proposal, is_written: false });
        true
    }

    /// The number is decided. Returns the other bodies, which are never delivered.
    pub fn keep_only(&mut self, sn: Sn, digest: B256) -> Vec<Proposal> {
        self.fetches.retain(|(of, _), _| *of != sn);
        let Some(of_number) = self.held.get_mut(&sn) else { return Vec::new() };
        let others = of_number.extract_if(.., |body| body.digest != digest).map(|body| body.proposal);
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
        let missing = |(sn, digest): &(Sn, B256)| *sn > self.floor && !self.bodies.has(*sn, *digest);
        let committed = self.log.range(delivered.next()..).map(|(sn, digest)| (*sn, *digest)).take(4 * MAX_FETCHES);
        let listed = (self.epoch.start.0 + 1..).map(Sn).zip(self.epoch.listed.iter().copied());
        // Also those that are delivered: a member that followed certified blocks confirms them for the others (U8).
        let listed = listed.filter(|(sn, _)| self.is_normal() && *sn > self.stable());
        let wanted: Vec<_> = committed.chain(listed).filter(missing).take(MAX_FETCHES).collect();
        for (sn, digest) in wanted {
            let attempts = match self.bodies.fetches.get(&(sn, digest)) {
                None if self.is_coming(sn) => {
                    let overdue_at = TimestampMs(self.now.0.saturating_add(copy_timeout_ms(&self.config, 0)));
                    self.bodies.fetches.insert((sn, digest), Fetch { attempts: 0, overdue_at, waits: true });
                    continue;
                }
                None => 0,
                Some(fetch) if fetch.overdue_at > self.now && (!fetch.waits || self.is_coming(sn)) => continue,
                Some(fetch) => {
                    let (attempts, is_late) = (fetch.attempts, fetch.waits && fetch.overdue_at <= self.now);
                    let leader = rules::leader(&self.epoch, sn, &self.committee);
                    self.bodies.late.extend(leader.filter(|_| is_late));
                    attempts
                }
            };
            let Some(peer) = self.holder(sn, digest, attempts) else { return };
            // Over a slow link the first copy may still be on its way, and more copies delay everything else.
            let timeout_ms = self.config.resend_ms.saturating_mul(1 << attempts.min(MAX_DOUBLINGS));
            let overdue_at = TimestampMs(self.now.0.saturating_add(timeout_ms));
            self.bodies.fetches.insert((sn, digest), Fetch { attempts: attempts + 1, overdue_at, waits: false });
            self.send(peer, &Message::FetchBody { sn, digest });
        }
    }

    /// The leader's own copy may be on its way: messages of a connection keep their order, and it sent nothing later yet.
    fn is_coming(&self, sn: Sn) -> bool {
        let leader = rules::leader(&self.epoch, sn, &self.committee).filter(|leader| self.is_normal() && *leader != self.me);
        let Some(leader) = leader else { return false };
        // A member that is behind learns digests from others, long after the leader sent its copies.
        let is_recent = self.decided_in.get(&sn) == Some(&self.epoch.epoch);
        is_recent
            && !self.bodies.late.contains(&leader)
            && self.absence.is_connected(leader)
            && self.sync.delivered(leader) < sn
            && !self.led_numbers(leader, sn.next(), self.last_kept()).any(|later| self.is_offered(later))
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
        self.bodies.note_written(sn, digest);
        self.accept(sn);
    }

    /// Returns false if the body was present.
    pub(crate) fn keep_body(&mut self, digest: B256, proposal: Proposal) -> bool {
        let sn = proposal.sn;
        let prepared = self.prepared.get(&sn).map(|certificate| certificate.digest);
        let offered = self.instances.get(&sn).and_then(|instance| instance.offered);
        let needed: Vec<_> = [prepared, self.log.get(&sn).copied(), offered].into_iter().flatten().collect();
        self.bodies.insert(digest, proposal, &needed, self.me)
    }
}
