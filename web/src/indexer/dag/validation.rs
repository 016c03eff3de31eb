//! Validates responses about the DAG before they are stored. A node may send anything, and stored data decides about
//! the next requests. Pure.

use corniche_api::Dag;

/// Largest valid number. Sums of two such numbers fit into the integers that hold them.
pub const HIGHEST: u64 = 1 << 62;

/// Maximum number of validators, each of which may be a lane. No committee is larger.
const MAX_VALIDATORS: u64 = 1_024;

/// Maximum number of parents of a proposal, and maximum number of characters of a reason.
const MAX_PARENTS: usize = 1_024;
const MAX_REASON_CHARS: usize = 256;

/// Reduces a response to entries with requested numbers and validators of this committee.
pub fn validated(mut dag: Dag, (from, to): (u64, u64), validators: u64) -> Dag {
    let validators = validators.min(MAX_VALIDATORS);
    dag.newest_round = dag.newest_round.min(HIGHEST);
    (dag.from_round, dag.to_round) = (from, to.min(dag.newest_round));
    let asked = dag.from_round..=dag.to_round;
    dag.vertices.retain(|vertex| asked.contains(&vertex.round) && vertex.author < validators);
    for vertex in &mut dag.vertices {
        vertex.parents.truncate(MAX_PARENTS);
        distinct(&mut vertex.holders, validators);
    }
    dag.slots.retain(|slot| asked.contains(&slot.round) && slot.validator < validators && slot.rank < validators);
    for slot in &mut dag.slots {
        slot.commit = slot.commit.filter(|commit| *commit <= HIGHEST);
        slot.why = slot.why.take().map(|why| why.chars().take(MAX_REASON_CHARS).collect());
        distinct(&mut slot.voters, validators);
        distinct(&mut slot.confirmers, validators);
    }
    dag
}

/// Removes duplicate and unknown validators from a list of signers.
pub fn distinct(signers: &mut Vec<u64>, validators: u64) {
    signers.retain(|signer| *signer < validators);
    signers.sort_unstable();
    signers.dedup();
}

#[cfg(test)]
mod tests {
    use super::{
        super::testing::{slot, vertex},
        *,
    };
    use corniche_api::{DagVertex, LeaderSlot, SlotStatus};

    #[test]
    fn signers_are_distinct_committee_members() {
        let signers = || [3, 1, 1, 4, u64::MAX].repeat(1_000);
        let vertex = DagVertex { holders: signers(), ..vertex(0, 5) };
        let slot = LeaderSlot { voters: signers(), confirmers: signers(), ..slot(5, SlotStatus::Undecided) };
        let (vertices, slots) = (vec![vertex], vec![slot]);
        let response = Dag { from_round: 5, to_round: 5, newest_round: 5, vertices, slots, order: vec![], dropped: 0 };
        let taken = validated(response, (5, 5), 4);
        assert_eq!(taken.vertices[0].holders, [1, 3]);
        assert_eq!((&taken.slots[0].voters, &taken.slots[0].confirmers), (&vec![1, 3], &vec![1, 3]));
    }
}
