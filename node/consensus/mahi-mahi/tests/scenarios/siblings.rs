//! Compares the sums that the DAG keeps per slot with their definitions, on random DAGs with many siblings.

use crate::{
    cluster::{Random, index},
    decisions::directly,
    drawing::sign,
    incremental::arrivals,
    votes::{committee_with, is_certificate},
};
use corniche_engine::Committee;
use corniche_mahi_mahi::{
    dag::Dag,
    message::{BlockRef, Context, Round},
};
use corniche_types::{B256, ValidatorIndex, Votes};
use std::collections::BTreeSet;

/// A random DAG in which all authors sign siblings, beyond the fault bound. Most siblings name parents of the same number, so
/// that several siblings of one slot are certified.
fn crowded_dag(committee: &Committee, wave_length: u64, rounds: u64, random: &mut Random) -> Dag {
    let (size, context) = (committee.size(), Context::new(committee));
    let mut dag = Dag::new(committee.weights(), wave_length);
    let mut previous: Vec<Vec<BlockRef>> = (0..size).map(|author| vec![context.genesis(index(author))]).collect();
    for round in 1..=rounds {
        let mut current = vec![Vec::new(); size];
        for (author, siblings) in current.iter_mut().enumerate() {
            let most = [1u64, 4, 12][random.below(3) as usize];
            for sibling in 0..most - random.below(most.div_ceil(2)) {
                let mut others: Vec<_> = (0..size).filter(|other| *other != author).collect();
                random.shuffle(&mut others);
                let others_votes = committee.quorum() - committee.votes(index(author));
                let needed = committee.take_votes(others.iter().copied().map(index), others_votes).len();
                others.truncate(needed + random.below((others.len() - needed) as u64 + 1) as usize);
                let mut pick = |other: usize| {
                    let siblings = &previous[other];
                    let place = if random.below(10) > 0 { sibling % 2 } else { random.below(12) };
                    siblings[place as usize % siblings.len()]
                };
                let parents = std::iter::once(author).chain(others).map(&mut pick).collect();
                let block = sign(committee, u16::try_from(author).unwrap(), round, parents, format!("{sibling}").as_bytes());
                assert!(dag.insert(block.clone()));
                siblings.push(block.reference());
            }
        }
        previous = current;
    }
    dag
}

/// Votes of the authors with a block in the round that has a property.
fn weigh(dag: &Dag, round: Round, has: impl Fn(&BlockRef) -> bool) -> Votes {
    let blocks = dag.round(round).map(|block| block.reference()).filter(has);
    let authors: BTreeSet<_> = blocks.map(|block| block.author).collect();
    dag.weights().weigh(authors)
}

/// Compares one slot. Returns the number of certified siblings.
fn compare(dag: &Dag, round: Round, author: ValidatorIndex, context: &str) -> usize {
    let (vote_round, certify_round) = (round + (dag.wave_length() - 2), round + (dag.wave_length() - 1));
    let siblings: Vec<_> = dag.siblings(round, author).map(|block| block.reference()).collect();
    let certified = |sibling| weigh(dag, certify_round, |block| dag.certificate(block, author) == Some(sibling));
    let expected: Vec<_> = siblings.iter().map(|sibling| (*sibling, certified(*sibling))).collect();
    let expected: Vec<_> = expected.into_iter().filter(|(_, votes)| *votes > Votes(0)).collect();
    let found: Vec<_> = dag.certified(round, author).collect();
    assert_eq!(found, expected, "{context}: certificates of {author} in round {round}");
    let refusals = |sibling: &BlockRef| weigh(dag, vote_round, |block| dag.vote(block, author) != Some(*sibling));
    let fewest = siblings.iter().map(refusals).min();
    assert_eq!(dag.fewest_non_votes(round, author), fewest, "{context}: non-votes of {author} in round {round}");
    directly(dag, round.0, author.0);
    found.len()
}

#[test]
fn sums_per_slot_match_definitions() {
    let mut slots = [0; 3];
    for (seed, (size, wave_length)) in (0..48).zip([(4, 4), (4, 5), (7, 4)].into_iter().cycle()) {
        let committee = committee_with(seed >= 24, size);
        let mut random = Random::new(seed);
        let dag = crowded_dag(&committee, wave_length, 7, &mut random);
        let context = format!("seed {seed}");
        let mut view = Dag::new(committee.weights(), wave_length);
        for (number, block) in arrivals(&dag, seed % 5, &mut random).into_iter().enumerate() {
            assert!(view.insert(block.clone()) && !view.insert(block.clone()), "{context}");
            if number % 16 == 0 {
                let round = Round(1 + random.below(view.top().0));
                committee.indices().for_each(|author| _ = compare(&view, round, author, &context));
            }
        }
        for (round, author) in (1..=7).flat_map(|round| committee.indices().map(move |author| (Round(round), author))) {
            slots[compare(&view, round, author, &context).min(2)] += 1;
            for block in view.siblings(round, author) {
                assert_eq!(view.get(&block.reference()), Some(block));
                assert!(!view.contains(&BlockRef { digest: B256::ZERO, ..block.reference() }));
            }
        }
        view.prune(Round(3));
        assert!(committee.indices().all(|author| view.certified(Round(3), author).next().is_none()));
        assert!(committee.indices().all(|author| view.fewest_non_votes(Round(3), author).is_none()));
    }
    assert!(slots.into_iter().all(|count| count > 50), "slots with 0, 1 and more certified siblings: {slots:?}");
}

#[test]
fn certificates_among_many_siblings_match_the_definition() {
    let mut further = 0;
    for (seed, (size, wave_length)) in (100..124).zip([(4, 4), (4, 5), (7, 4)].into_iter().cycle()) {
        let committee = committee_with(seed >= 112, size);
        let dag = crowded_dag(&committee, wave_length, 6, &mut Random::new(seed));
        for block in (wave_length..=dag.top().0).flat_map(|round| dag.round(Round(round))) {
            for author in committee.indices() {
                let leaders: Vec<_> =
                    dag.siblings(block.round() - (wave_length - 1), author).map(|leader| leader.reference()).collect();
                let expected = leaders.iter().find(|leader| is_certificate(&dag, &block.reference(), leader));
                assert_eq!(
                    dag.certificate(&block.reference(), author).as_ref(),
                    expected,
                    "seed {seed}: {:?}",
                    block.reference()
                );
                further += usize::from(expected.is_some() && expected != leaders.first());
            }
        }
    }
    assert!(further > 50, "{further} certificates of further siblings");
}
