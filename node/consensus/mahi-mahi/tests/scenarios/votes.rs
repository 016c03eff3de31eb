//! Compares votes and certificates computed on insertion with a naive walk of the definitions.

use crate::{cluster::Random, crypto::committee, drawing::sign};
use corniche_mahi_mahi::{
    dag::Dag,
    message::{BlockRef, Context, Round},
};
use corniche_types::ValidatorIndex;
use std::collections::BTreeSet;

/// F1 as printed: pre-order, depth first, in list order.
fn supported(dag: &Dag, block: &BlockRef, author: ValidatorIndex, round: Round) -> Option<BlockRef> {
    if round >= block.round {
        return None;
    }
    dag.get(block)?.parents().iter().find_map(|parent| {
        let found = parent.author == author && parent.round == round && dag.contains(parent);
        if found { Some(*parent) } else { supported(dag, parent, author, round) }
    })
}

/// F3 as defined.
fn is_certificate(dag: &Dag, block: &BlockRef, leader: &BlockRef) -> bool {
    let voters = dag.get(block).unwrap().parents().iter().filter(|parent| parent.round + 1 == block.round);
    let voters = voters.filter(|parent| supported(dag, parent, leader.author, leader.round) == Some(*leader));
    voters.map(|parent| parent.author).collect::<BTreeSet<_>>().len() >= dag.quorum()
}

/// A random DAG with siblings, minimal parent sets, weak links and shuffled parent orders. In most rounds one author is
/// excluded, for four rounds in a row, so that votes are missing.
pub fn random_dag(size: usize, wave_length: u64, rounds: u64, random: &mut Random) -> Dag {
    let committee = committee(size);
    let context = Context::new(&committee);
    let faulty = committee.max_faulty();
    let mut dag = Dag::new(size, committee.quorum(), wave_length);
    let mut last: Vec<BlockRef> = (0..size).map(|author| context.genesis(crate::cluster::index(author))).collect();
    let mut previous: Vec<Vec<BlockRef>> = last.iter().map(|block| vec![*block]).collect();
    let mut older: Vec<BlockRef> = Vec::new();
    let mut excluded = 0;
    for round in 1..=rounds {
        if round % 4 == 1 {
            excluded = random.below(size as u64 + 2) as usize;
        }
        let mut current: Vec<Vec<BlockRef>> = vec![Vec::new(); size];
        for author in 0..size {
            let siblings = if author < faulty { 1 + random.below(3) } else { u64::from(random.below(8) > 0 || round < 3) };
            for sibling in 0..siblings {
                let mut others: Vec<usize> =
                    (0..size).filter(|other| *other != author && !previous[*other].is_empty()).collect();
                random.shuffle(&mut others);
                others.sort_by_key(|other| *other == excluded);
                let own = previous[author].first().copied().unwrap_or(last[author]);
                let others_needed = committee.quorum() - usize::from(own.round.0 + 1 == round);
                if others.len() < others_needed {
                    continue;
                }
                let spare = if random.below(4) == 0 { others.len() - others_needed } else { 0 };
                others.truncate(others_needed + random.below(spare as u64 + 1) as usize);
                let pick = |other: &usize| previous[*other][random.below(previous[*other].len() as u64) as usize];
                let mut parents: Vec<_> = std::iter::once(own).chain(others.iter().map(pick)).collect();
                let slots: BTreeSet<_> = parents.iter().map(|parent| (parent.round, parent.author)).collect();
                let weak = older
                    .iter()
                    .rev()
                    .take(4)
                    .find(|weak| !slots.contains(&(weak.round, weak.author)) && weak.author.as_usize() != excluded);
                parents.extend(weak.filter(|_| random.below(3) == 0));
                let block = sign(size, u16::try_from(author).unwrap(), round, parents, format!("{sibling}").as_bytes());
                assert!(dag.insert(block.clone()));
                current[author].push(block.reference());
            }
        }
        if current.iter().filter(|siblings| !siblings.is_empty()).count() < committee.quorum() {
            break;
        }
        older.extend(previous.iter().flatten().filter(|block| block.round > Round(0)));
        for (author, siblings) in current.iter().enumerate() {
            last[author] = siblings.first().copied().unwrap_or(last[author]);
        }
        previous = current;
    }
    dag
}

#[test]
fn vote_tables_match_definitions() {
    for (seed, (size, wave_length)) in (0..24).zip([(4, 4), (4, 5), (7, 4), (7, 5)].into_iter().cycle()) {
        let dag = random_dag(size, wave_length, 9, &mut Random::new(seed));
        for round in (wave_length..=dag.top().0).map(Round) {
            for block in dag.round(round) {
                let (voted, certified) = (round - (wave_length - 2), round - (wave_length - 1));
                for author in (0..size).map(crate::cluster::index) {
                    let expected = supported(&dag, &block.reference(), author, voted);
                    assert_eq!(
                        dag.vote(&block.reference(), author),
                        expected,
                        "seed {seed} {:?} on {author}",
                        block.reference()
                    );
                    let leaders = dag.siblings(certified, author).map(|leader| leader.reference());
                    let expected: Vec<_> = leaders.filter(|leader| is_certificate(&dag, &block.reference(), leader)).collect();
                    let found: Vec<_> = dag.certificate(&block.reference(), author).into_iter().collect();
                    assert_eq!(found, expected, "seed {seed}: {:?} certifies of {author}", block.reference());
                }
            }
        }
    }
}
