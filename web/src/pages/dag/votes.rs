//! Votes and certificates for a leader under Mahi-Mahi. They follow from the links between proposals, as in every validator
//! (see the engine's rules).

use super::window::Window;
use alloy_primitives::B256;
use corniche_api::{DagVertex, LeaderSlot, SlotStatus};
use std::collections::{BTreeMap, BTreeSet};

/// Length of a wave in rounds, from the proposal to its certificates, if the window does not reveal it.
const USUAL: u64 = 4;

/// The votes for the proposal in a leader's slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Votes {
    /// Round of the leader.
    pub proposed: u64,
    /// Round whose proposals vote.
    pub vote_round: u64,
    /// Round whose proposals certify.
    pub certify_round: u64,
    /// The leader's proposal.
    pub leader: Option<B256>,
    /// Proposals that vote for it.
    pub voters: BTreeSet<B256>,
    /// Votes of the validators that signed `voters`.
    pub weight: u64,
    /// Proposals of the voting round that do not vote for it.
    pub others: BTreeSet<B256>,
    /// Proposals that build on a quorum of votes.
    pub certificates: BTreeSet<B256>,
    /// Links on the paths from votes to the leader, and from certificates to votes.
    pub lines: BTreeSet<(B256, B256)>,
}

impl Votes {
    /// Returns `None` if the voting round is unknown.
    pub fn of(window: &Window, slot: &LeaderSlot) -> Option<Self> {
        let length = wave_length(window);
        let (vote_round, certify_round) = (slot.round + length - 2, slot.round + length - 1);
        let known = window.all_rounds().flat_map(|round| &round.vertices).map(|vertex| (vertex.digest, vertex)).collect();
        let mut walk = Walk { known, next: BTreeMap::new() };
        let round = |number: u64| window.round(number).map_or(&[][..], |round| &round.vertices);
        let own = round(slot.round).iter().find(|vertex| vertex.author == slot.validator).map(|vertex| vertex.digest);
        let leader = slot.digest.or(own);
        let mut votes = Self {
            proposed: slot.round,
            vote_round,
            certify_round,
            leader,
            voters: BTreeSet::new(),
            weight: 0,
            others: BTreeSet::new(),
            certificates: BTreeSet::new(),
            lines: BTreeSet::new(),
        };
        let mut voting_authors = BTreeSet::new();
        for vertex in round(vote_round) {
            match walk.supported(vertex.digest, slot.validator, slot.round) {
                Some(found) if Some(found) == leader => {
                    votes.voters.insert(vertex.digest);
                    voting_authors.insert(vertex.author);
                    votes.lines.extend(walk.path(vertex.digest));
                }
                _ => _ = votes.others.insert(vertex.digest),
            }
        }
        votes.weight = window.weigh(voting_authors);
        for vertex in round(certify_round) {
            let voting = vertex.parents.iter().filter(|parent| votes.voters.contains(*parent));
            let authors = voting.clone().filter_map(|parent| walk.known.get(parent)).map(|parent| parent.author);
            if window.weigh(authors) >= window.quorum {
                votes.certificates.insert(vertex.digest);
                votes.lines.extend(voting.map(|parent| (vertex.digest, *parent)));
            }
        }
        window.round(vote_round).map(|_| votes)
    }
}

/// Finds the first proposal of a given round and author, following the links depth first in their order.
struct Walk<'a> {
    known: BTreeMap<B256, &'a DagVertex>,
    /// Next step of each path: the digest itself at the end of a path, `None` if there is no path.
    next: BTreeMap<B256, Option<B256>>,
}

impl Walk<'_> {
    fn supported(&mut self, from: B256, author: u64, round: u64) -> Option<B256> {
        let vertex = *self.known.get(&from)?;
        if (vertex.author, vertex.round) == (author, round) {
            self.next.insert(from, Some(from));
            return Some(from);
        }
        // Links lead to lower rounds, so no proposal below the leader's round reaches the leader.
        if vertex.round <= round {
            return None;
        }
        if let Some(next) = self.next.get(&from).copied() {
            return self.end(next?);
        }
        // A link that does not lead to a lower round is invalid and could form a cycle. Each step goes down by at least one
        // round, so the number of known rounds bounds the recursion.
        let falls = |parent: &&B256| self.known.get(*parent).is_some_and(|parent| parent.round < vertex.round);
        let below: Vec<B256> = vertex.parents.iter().filter(falls).copied().collect();
        let found = below.into_iter().find_map(|parent| Some((parent, self.supported(parent, author, round)?)));
        self.next.insert(from, found.map(|(parent, _)| parent));
        found.map(|(_, leader)| leader)
    }

    /// Follows a known path to its end.
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

/// Returns the length of a wave: four or five rounds.
///
/// The genesis defines it, and RPC does not return it. But a leader is committed directly as soon as the quorum of its
/// certifying round is complete. So the certifying round is the last round with a complete quorum before the verdict.
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

/// Time at which the node had proposals of a round from authors with a quorum of votes.
fn complete(window: &Window, round: u64) -> Option<u64> {
    let vertices = &window.round(round)?.vertices;
    let mut first: BTreeMap<u64, u64> = BTreeMap::new();
    for vertex in vertices {
        let Some(accepted) = vertex.accepted_ms else { continue };
        first.entry(vertex.author).and_modify(|at| *at = accepted.min(*at)).or_insert(accepted);
    }
    let mut times: Vec<(u64, u64)> = first.into_iter().map(|(author, at)| (at, author)).collect();
    times.sort_unstable();
    let mut votes = 0_u64;
    let completes = |(_, author): &(u64, u64)| {
        votes = votes.saturating_add(window.weigh([*author]));
        votes >= window.quorum
    };
    times.into_iter().find(completes).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::indexer::dag::Round;
    use alloy_primitives::keccak256;

    fn digest(author: u64, round: u64) -> B256 {
        keccak256(format!("{author} {round}"))
    }

    /// Window of four validators. `links` returns the authors on whose proposals a proposal builds, its own first.
    fn window(rounds: u64, links: impl Fn(u64, u64) -> Vec<u64>, decided: Option<u64>) -> Window {
        Window { quorum: 3, ..window_of(4, rounds, links, decided) }
    }

    /// Window of five validators with 7 votes; a quorum has 5.
    fn weighted(votes: [u64; 5], rounds: u64, links: impl Fn(u64, u64) -> Vec<u64>) -> Window {
        Window { votes: votes.into(), quorum: 5, ..window_of(5, rounds, links, None) }
    }

    fn window_of(size: u64, rounds: u64, links: impl Fn(u64, u64) -> Vec<u64>, decided: Option<u64>) -> Window {
        let vertex = |round: u64, author: u64| DagVertex {
            round,
            author,
            digest: digest(author, round),
            parents: links(round, author).into_iter().map(|parent| digest(parent, round - 1)).collect(),
            batch_bytes: 0,
            batch_digest: None,
            proposed_ms: None,
            accepted_ms: Some(100 * round + author),
            holders: vec![],
        };
        let slot = LeaderSlot {
            round: 1,
            rank: 0,
            validator: 3,
            status: SlotStatus::Committed,
            digest: Some(digest(3, 1)),
            why: Some("direct: 3 of 4 certify".into()),
            decided_ms: decided,
            commit: None,
            voters: vec![],
            confirmers: vec![],
        };
        let round = |number: u64| {
            let slots = if number == 1 { vec![slot.clone()] } else { vec![] };
            (number, Round { vertices: (0..size).map(|author| vertex(number, author)).collect(), slots })
        };
        Window { first: 1, last: rounds, rounds: (1..=rounds).map(round).collect(), size, ..Window::default() }
    }

    fn everybody(round: u64, author: u64) -> Vec<u64> {
        if round == 1 { vec![] } else { (0..4).map(|other| (author + other) % 4).collect() }
    }

    fn votes(window: &Window) -> Votes {
        Votes::of(window, &window.rounds[&1].slots[0]).unwrap()
    }

    #[test]
    fn votes_and_certificates_follow_from_links() {
        let all = votes(&window(6, everybody, Some(403)));
        assert_eq!((all.vote_round, all.certify_round), (3, 4));
        assert_eq!((all.voters.len(), all.others.len(), all.certificates.len()), (4, 0, 4));
        assert!(all.lines.contains(&(digest(0, 4), digest(0, 3))));
        assert!(all.lines.contains(&(digest(3, 2), digest(3, 1))), "the way goes on to the leader");
    }

    /// In round 2 only validator 3 builds on its own proposal of round 1. In round 3 only validators 2 and 3 build on that one.
    /// Two votes are no quorum.
    #[test]
    fn certificate_requires_quorum_of_votes() {
        let links = |round: u64, author: u64| match (round, author) {
            (1, _) => vec![],
            (2, 3) | (3, 2 | 3) => (0..4).map(|other| (author + other) % 4).collect(),
            _ => vec![author % 3, (author + 1) % 3, (author + 2) % 3],
        };
        let few = votes(&window(4, links, Some(403)));
        assert_eq!(few.voters, [digest(2, 3), digest(3, 3)].into());
        assert_eq!((few.others.len(), few.certificates.len()), (2, 0));
    }

    /// Votes and certificates if `voters` are the only authors of round 3 that build on the leader's proposal.
    fn voted_by(voters: &[u64]) -> Votes {
        let links = |round: u64, author: u64| match round {
            1 => vec![],
            2 if author != 3 => vec![0, 1, 2, 4],
            3 if !voters.contains(&author) => vec![0, 1, 2, 4],
            _ => (0..5).collect(),
        };
        votes(&weighted([1, 1, 1, 2, 2], 4, links))
    }

    #[test]
    fn certificate_requires_quorum_of_unequal_votes() {
        for (voters, weight, certificates) in
            [(&[2, 3, 4][..], 5, 5), (&[0, 1, 3], 4, 0), (&[0, 1, 2], 3, 0), (&[0, 1, 2, 3], 5, 5), (&[3, 4], 4, 0)]
        {
            let found = voted_by(voters);
            assert_eq!(found.voters, voters.iter().map(|voter| digest(*voter, 3)).collect());
            assert_eq!((found.weight, found.certificates.len()), (weight, certificates), "{voters:?}");
        }
    }

    /// Validator 0 signed two proposals of round 3 that vote for the leader.
    #[test]
    fn equivocating_voter_counts_once() {
        let links = |round: u64, _| if round == 1 { vec![] } else { (0..5).collect() };
        let mut window = weighted([2, 2, 1, 1, 1], 4, links);
        let another = keccak256("another");
        let voting = &mut window.rounds.get_mut(&3).unwrap().vertices;
        voting.retain(|vertex| vertex.author < 2);
        voting.insert(1, DagVertex { digest: another, ..voting[0].clone() });
        for vertex in &mut window.rounds.get_mut(&4).unwrap().vertices {
            vertex.parents.push(another);
        }
        let found = votes(&window);
        assert_eq!((found.voters.len(), found.weight, found.certificates.len()), (3, 4, 0));
    }

    /// The authors of a round come in the order of their indexes.
    #[test]
    fn round_is_complete_with_quorum_of_votes() {
        let links = |_, _| vec![];
        for (votes, expected) in
            [([2, 2, 1, 1, 1], Some(402)), ([1, 1, 1, 2, 2], Some(403)), ([1, 1, 2, 1, 2], Some(403)), ([1, 1, 1, 1, 0], None)]
        {
            assert_eq!(complete(&weighted(votes, 4, links), 4), expected, "{votes:?}");
        }
    }

    /// A dishonest node may report proposals of rounds 2 and 3 that build on each other.
    #[test]
    fn cyclic_links_end() {
        let mut window = window(4, everybody, Some(403));
        for (round, parent) in [(2, digest(0, 3)), (3, digest(0, 2))] {
            let vertices = &mut window.rounds.get_mut(&round).unwrap().vertices;
            vertices.iter_mut().find(|vertex| vertex.author == 0).unwrap().parents = vec![parent, digest(0, round)];
        }
        let votes = votes(&window);
        assert_eq!(votes.others, [digest(0, 3)].into());
        assert_eq!(votes.voters.len(), 3);
    }

    /// The genesis defines the length of a wave; the time of a direct commit reveals it.
    #[test]
    fn wave_length_is_detected() {
        assert_eq!(wave_length(&window(7, everybody, Some(402))), 4, "round 4 was complete, round 5 was not");
        assert_eq!(wave_length(&window(7, everybody, Some(502))), 5);
        assert_eq!(wave_length(&window(7, everybody, None)), USUAL);
    }
}
