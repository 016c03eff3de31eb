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
    dag.vertices.iter_mut().for_each(|vertex| vertex.parents.truncate(MOST_PARENTS));
    dag.slots.retain(|slot| asked.contains(&slot.round) && slot.validator < validators && slot.rank < validators);
    for slot in &mut dag.slots {
        slot.commit = slot.commit.filter(|commit| *commit <= HIGHEST);
        slot.why = slot.why.take().map(|why| why.chars().take(MOST_WHY).collect());
    }
    dag
}
