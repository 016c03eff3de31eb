//! Who votes for a leader under Mahi-Mahi, and who certifies it: read off the lines, as every validator does (see the engine's rules).

use super::window::Window;
use alloy_primitives::B256;
use corniche_api::{DagVertex, LeaderSlot, SlotStatus};
use std::collections::{BTreeMap, BTreeSet};

/// Rounds from a proposal to its certificates, both included, where the picture does not tell.
const USUAL: u64 = 4;

/// The votes for the proposal in a leader's slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Votes {
    /// Of the leader.
    pub proposed: u64,
    /// Whose proposals vote.
    pub vote_round: u64,
    /// Whose proposals certify.
    pub certify_round: u64,
    /// The leader's proposal.
    pub leader: Option<B256>,
    /// Proposals that vote for it.
    pub voters: BTreeSet<B256>,
    /// Proposals of the voting round that do not.
    pub others: BTreeSet<B256>,
    /// Proposals that build on a quorum of votes.
    pub certificates: BTreeSet<B256>,
    /// Lines on the way from votes to the leader, and from certificates to votes.
    pub lines: BTreeSet<(B256, B256)>,
}

impl Votes {
    /// `None`: the voting round is not in the picture at all.
    pub fn of(window: &Window, slot: &LeaderSlot) -> Option<Self> {
        let length = wave_length(window);
        let (vote_round, certify_round) = (slot.round + length - 2, slot.round + length - 1);
        let mut walk = Walk { known: window.vertices().map(|vertex| (vertex.digest, vertex)).collect(), next: BTreeMap::new() };
        let round = |number: u64| window.rounds.get(&number).map_or(&[][..], |round| &round.vertices);
        let own = round(slot.round).iter().find(|vertex| vertex.author == slot.validator).map(|vertex| vertex.digest);
        let leader = slot.digest.or(own);
        let mut votes = Self {
            proposed: slot.round,
            vote_round,
            certify_round,
            leader,
            voters: BTreeSet::new(),
            others: BTreeSet::new(),
            certificates: BTreeSet::new(),
            lines: BTreeSet::new(),
        };
        for vertex in round(vote_round) {
            match walk.supported(vertex.digest, slot.validator, slot.round) {
                Some(found) if Some(found) == leader => {
                    votes.voters.insert(vertex.digest);
                    votes.lines.extend(walk.path(vertex.digest));
                }
                _ => _ = votes.others.insert(vertex.digest),
            }
        }
        for vertex in round(certify_round) {
            let voting = vertex.parents.iter().filter(|parent| votes.voters.contains(*parent));
            let authors: BTreeSet<u64> =
                voting.clone().filter_map(|parent| walk.known.get(parent)).map(|parent| parent.author).collect();
            if authors.len() >= window.quorum {
                votes.certificates.insert(vertex.digest);
                votes.lines.extend(voting.map(|parent| (vertex.digest, *parent)));
            }
        }
        window.rounds.contains_key(&vote_round).then_some(votes)
    }
}

/// Looks for the first proposal of a round and author that the lines lead to, in their order.
struct Walk<'a> {
    known: BTreeMap<B256, &'a DagVertex>,
    /// Where the way goes on; itself at its end, `None` where there is no way.
    next: BTreeMap<B256, Option<B256>>,
}

impl Walk<'_> {
    fn supported(&mut self, from: B256, author: u64, round: u64) -> Option<B256> {
        let vertex = *self.known.get(&from)?;
        if (vertex.author, vertex.round) == (author, round) {
            self.next.insert(from, Some(from));
            return Some(from);
        }
        // Lines lead down: nothing below the leader's round leads back to it.
        if vertex.round <= round {
            return None;
        }
        if let Some(next) = self.next.get(&from).copied() {
            return self.end(next?);
        }
        let found = vertex.parents.iter().find_map(|parent| Some((*parent, self.supported(*parent, author, round)?)));
        self.next.insert(from, found.map(|(parent, _)| parent));
        found.map(|(_, leader)| leader)
    }

    /// Follows a way that is known to its end.
    fn end(&self, mut at: B256) -> Option<B256> {
        while let Some(Some(next)) = self.next.get(&at).copied() {
            if next == at {
                return Some(at);
            }
            at = next;
        }
        None
    }

    fn path(&self, mut at: B256) -> Vec<(B256, B256)> {
        let mut lines = Vec::new();
        while let Some(Some(next)) = self.next.get(&at).copied().filter(|next| *next != Some(at)) {
            lines.push((at, next));
            at = next;
        }
        lines
    }
}

/// The genesis says whether a wave has four rounds or five, and RPC does not. But a leader is committed directly in the moment in which the
/// quorum of its certifying round is complete: so the round whose quorum was complete last before the verdict is that one.
pub fn wave_length(window: &Window) -> u64 {
    let direct = |slot: &&LeaderSlot| {
        slot.status == SlotStatus::Committed && slot.why.as_deref().is_some_and(|why| why.starts_with("direct"))
    };
    let slots = window.rounds.values().flat_map(|round| &round.slots).filter(direct);
    let (mut four, mut five) = (0_u32, 0_u32);
    for slot in slots {
        let (Some(decided), Some(complete)) = (slot.decided_ms, complete(window, slot.round + 4)) else { continue };
        match decided < complete {
            true => four += 1,
            false => five += 1,
        }
    }
    if five > four { 5 } else { USUAL }
}

/// When the node had proposals of a quorum of a round.
fn complete(window: &Window, round: u64) -> Option<u64> {
    let vertices = &window.rounds.get(&round)?.vertices;
    let mut first: BTreeMap<u64, u64> = BTreeMap::new();
    for vertex in vertices {
        let Some(accepted) = vertex.accepted_ms else { continue };
        first.entry(vertex.author).and_modify(|at| *at = accepted.min(*at)).or_insert(accepted);
    }
    let mut times: Vec<u64> = first.into_values().collect();
    times.sort_unstable();
    times.get(window.quorum.checked_sub(1)?).copied()
}
