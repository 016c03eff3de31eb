//! What of an answer is taken. A node may say anything; what is taken is written, and decides what is asked for next. Pure.

use corniche_api::Dag;

/// Numbers above this are no engine's. Sums of those below it fit where numbers are held.
pub const HIGHEST: u64 = 1 << 62;

/// More validators than any committee has, each of which would be a lane.
const MOST_VALIDATORS: u64 = 1_024;

/// Most parents of a proposal, and most characters of a reason.
const MOST_PARENTS: usize = 1_024;
const MOST_WHY: usize = 256;

/// What a node answered for these numbers, as far as it is about them and about a committee of so many.
pub fn believable(mut dag: Dag, (from, to): (u64, u64), validators: u64) -> Dag {
    let validators = validators.min(MOST_VALIDATORS);
    dag.newest_round = dag.newest_round.min(HIGHEST);
    (dag.from_round, dag.to_round) = (from, to.min(dag.newest_round));
    let asked = dag.from_round..=dag.to_round;
    dag.vertices.retain(|vertex| asked.contains(&vertex.round) && vertex.author < validators);
    for vertex in &mut dag.vertices {
        vertex.parents.truncate(MOST_PARENTS);
        distinct(&mut vertex.holders, validators);
    }
    dag.slots.retain(|slot| asked.contains(&slot.round) && slot.validator < validators && slot.rank < validators);
    for slot in &mut dag.slots {
        slot.commit = slot.commit.filter(|commit| *commit <= HIGHEST);
        slot.why = slot.why.take().map(|why| why.chars().take(MOST_WHY).collect());
        distinct(&mut slot.voters, validators);
        distinct(&mut slot.confirmers, validators);
    }
    dag
}

/// Who may have signed: validators that there are, each once.
pub fn distinct(signers: &mut Vec<u64>, validators: u64) {
    signers.retain(|signer| *signer < validators);
    signers.sort_unstable();
    signers.dedup();
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{slot, vertex},
        *,
    };
    use corniche_api::{DagVertex, LeaderSlot, SlotStatus};

    #[test]
    fn who_signed_are_validators_that_there_are_and_each_once() {
        let signers = || [3, 1, 1, 4, u64::MAX].repeat(1_000);
        let vertex = DagVertex { holders: signers(), ..vertex(0, 5) };
        let slot = LeaderSlot { voters: signers(), confirmers: signers(), ..slot(5, SlotStatus::Undecided) };
        let (vertices, slots) = (vec![vertex], vec![slot]);
        let told = Dag { from_round: 5, to_round: 5, newest_round: 5, vertices, slots, order: vec![], dropped: 0 };
        let taken = believable(told, (5, 5), 4);
        assert_eq!(taken.vertices[0].holders, [1, 3]);
        assert_eq!((&taken.slots[0].voters, &taken.slots[0].confirmers), (&vec![1, 3], &vec![1, 3]));
    }
}
