//! A stored round, and how two reports of it are merged.

use corniche_api::{DagVertex, LeaderSlot, SlotStatus};
use serde::{Deserialize, Serialize};

/// Maximum number of proposals of one validator in a round. Two prove equivocation; a faulty node may send any number.
const MAX_PER_AUTHOR: usize = 4;

/// A round. Under Autobahn only the slot of that number, because cars have their own numbers. Under NeoBFT a slot of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Proposals, sorted by author.
    pub vertices: Vec<DagVertex>,
    /// Leader slots, sorted by rank.
    pub slots: Vec<LeaderSlot>,
}

impl Round {
    /// Merges another report of this round. A node drops old events and may have lost some, so known facts are never
    /// removed. Verdicts are final, and the first reported time is kept.
    pub fn absorb(&mut self, other: Self) {
        for vertex in other.vertices {
            let of_author = self.vertices.iter().filter(|known| known.author == vertex.author).count();
            match self.vertices.iter_mut().find(|known| known.digest == vertex.digest) {
                Some(known) => merge(known, vertex),
                None if of_author < MAX_PER_AUTHOR => self.vertices.push(vertex),
                None => {}
            }
        }
        self.vertices.sort_by_key(|vertex| (vertex.author, vertex.digest));
        for slot in other.slots {
            match self.slots.iter_mut().find(|known| known.rank == slot.rank) {
                Some(known) if known.status == SlotStatus::Undecided => *known = slot,
                // The commit and the signers may be reported later than the verdict.
                Some(known) => {
                    known.commit = known.commit.or(slot.commit);
                    signed(&mut known.voters, slot.voters);
                    signed(&mut known.confirmers, slot.confirmers);
                }
                None => self.slots.push(slot),
            }
        }
        self.slots.sort_by_key(|slot| slot.rank);
    }
}

/// Merges another report of the same vertex.
pub fn merge(known: &mut DagVertex, report: DagVertex) {
    known.proposed_ms = known.proposed_ms.or(report.proposed_ms);
    known.accepted_ms = known.accepted_ms.or(report.accepted_ms);
    known.batch_digest = known.batch_digest.or(report.batch_digest);
    signed(&mut known.holders, report.holders);
}

/// Sets the signers unless they are known.
fn signed(known: &mut Vec<u64>, report: Vec<u64>) {
    if known.is_empty() {
        *known = report;
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::testing::{slot, vertex},
        *,
    };

    fn report(holders: &[u64], voters: &[u64], confirmers: &[u64], commit: Option<u64>) -> Round {
        let vertex = DagVertex { holders: holders.to_vec(), ..vertex(0, 1) };
        let (voters, confirmers) = (voters.to_vec(), confirmers.to_vec());
        let slot = LeaderSlot { commit, voters, confirmers, ..slot(1, SlotStatus::Committed) };
        Round { vertices: vec![vertex], slots: vec![slot] }
    }

    #[test]
    fn signers_arrive_later_and_stay() {
        let mut round = report(&[], &[], &[], None);
        round.absorb(report(&[0, 2], &[0, 1, 2], &[], None));
        round.absorb(report(&[], &[], &[1, 2, 3], Some(1)));
        round.absorb(report(&[1, 3], &[1, 2, 3], &[0, 1, 2], None));
        assert_eq!(round, report(&[0, 2], &[0, 1, 2], &[1, 2, 3], Some(1)));
    }
}
