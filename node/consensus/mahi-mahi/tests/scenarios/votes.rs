//! Compares votes and certificates computed on insertion with a naive walk of the definitions.

use crate::{
    cluster::{Random, index},
    crypto::{committee, committee_of},
    drawing::{sign, sign_at},
};
use corniche_engine::{Committee, Resume};
use corniche_mahi_mahi::{
    dag::Dag,
    message::{BlockRef, Context, Round},
    rules::{Verdict, Waves, direct},
    state::Sequence,
};
use corniche_testkit::faulty_members;
use corniche_types::{B256, TimestampMs, ValidatorIndex, Votes};
use std::collections::{BTreeMap, BTreeSet};

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
pub fn is_certificate(dag: &Dag, block: &BlockRef, leader: &BlockRef) -> bool {
    let voters = dag.get(block).unwrap().parents().iter().filter(|parent| parent.round + 1 == block.round);
    let voters = voters.filter(|parent| supported(dag, parent, leader.author, leader.round) == Some(*leader));
    let authors: BTreeSet<_> = voters.map(|parent| parent.author).collect();
    dag.weights().weigh(authors) >= dag.quorum()
}

/// A committee with equal or unequal votes.
pub fn committee_with(unequal_votes: bool, size: usize) -> Committee {
    if unequal_votes { committee_of(&corniche_testkit::unequal_votes(size)) } else { committee(size) }
}

/// A random DAG with siblings, minimal parent sets, weak links and shuffled parent orders. In most rounds one author is
/// excluded, for four rounds in a row, so that votes are missing.
pub fn random_dag(committee: &Committee, wave_length: u64, rounds: u64, random: &mut Random) -> Dag {
    let size = committee.size();
    let context = Context::new(committee);
    let faulty = faulty_members(committee, 0..size).count();
    let mut dag = Dag::new(committee.weights(), wave_length);
    let mut last: Vec<BlockRef> = (0..size).map(|author| context.genesis(index(author))).collect();
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
                let own_votes = if own.round.0 + 1 == round { committee.votes(own.author) } else { Votes(0) };
                let others_votes = committee.quorum() - own_votes;
                let needed = committee.take_votes(others.iter().copied().map(index), others_votes);
                let others_needed = needed.len();
                if committee.weigh(needed) < others_votes {
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
                let block = sign(committee, u16::try_from(author).unwrap(), round, parents, format!("{sibling}").as_bytes());
                assert!(dag.insert(block.clone()));
                current[author].push(block.reference());
            }
        }
        if dag.votes_at(Round(round)) < committee.quorum() {
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
    for (seed, (size, wave_length)) in (0..48).zip([(4, 4), (4, 5), (7, 4), (7, 5)].into_iter().cycle()) {
        let committee = committee_with(seed >= 24, size);
        let dag = random_dag(&committee, wave_length, 9, &mut Random::new(seed));
        for round in (wave_length..=dag.top().0).map(Round) {
            for block in dag.round(round) {
                let (voted, certified) = (round - (wave_length - 2), round - (wave_length - 1));
                for author in (0..size).map(index) {
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

/// Copies a DAG to a committee that has a member with one vote for each vote of the first committee. The members of one owner
/// act alike. Also returns the members of each owner, and each block's copies.
fn split(dag: &Dag, committee: &Committee) -> (Dag, Vec<Vec<ValidatorIndex>>, BTreeMap<BlockRef, Vec<BlockRef>>) {
    let twins = crate::crypto::committee(committee.total().as_usize());
    let (context, twin_context) = (Context::new(committee), Context::new(&twins));
    let points = |owner| committee.weights().points(owner).map(|point| ValidatorIndex(u16::try_from(point - 1).unwrap()));
    let members: Vec<Vec<_>> = committee.indices().map(|owner| points(owner).collect()).collect();
    let genesis = |owner| members[index(owner).as_usize()].iter().map(|member| twin_context.genesis(*member)).collect();
    let mut copies: BTreeMap<BlockRef, Vec<BlockRef>> =
        (0..committee.size()).map(|owner| (context.genesis(index(owner)), genesis(owner))).collect();
    let mut split = Dag::new(twins.weights(), dag.wave_length());
    for (number, block) in (1..=dag.top().0).flat_map(|round| dag.round(Round(round))).enumerate() {
        let of_block = members[block.author().as_usize()].iter().enumerate().map(|(place, member)| {
            // V5: the own previous block comes first, then those of the owner's other members.
            let mut own = copies[&block.parents()[0]].clone();
            own.rotate_left(place);
            let others = block.parents()[1..].iter().flat_map(|parent| copies[parent].iter().copied());
            let copy = sign(&twins, member.0, block.round().0, own.into_iter().chain(others).collect(), &number.to_le_bytes());
            assert!(split.insert(copy.clone()));
            copy.reference()
        });
        let of_block = of_block.collect();
        copies.insert(block.reference(), of_block);
    }
    (split, members, copies)
}

#[test]
fn votes_equal_members_in_lock_step() {
    let (mut commits, mut skips) = (0, 0);
    for (seed, (size, wave_length)) in (100..130).zip([(4, 4), (6, 5), (7, 4)].into_iter().cycle()) {
        let committee = committee_of(&corniche_testkit::unequal_votes(size));
        let dag = random_dag(&committee, wave_length, 10, &mut Random::new(seed));
        let (split, members, copies) = split(&dag, &committee);
        let waves = Waves::mahi_mahi(wave_length, 1);
        for (round, leader) in (1..=dag.top().0).flat_map(|round| committee.indices().map(move |leader| (Round(round), leader)))
        {
            let verdict = direct(&dag, &waves, round, leader).map(|(verdict, _)| verdict);
            for (place, member) in members[leader.as_usize()].iter().enumerate() {
                let expected = verdict.map(|verdict| match verdict {
                    Verdict::Commit(block) => Verdict::Commit(copies[&block][place]),
                    Verdict::Skip => Verdict::Skip,
                });
                let split_verdict = direct(&split, &waves, round, *member).map(|(verdict, _)| verdict);
                assert_eq!(split_verdict, expected, "seed {seed}: round {round}, validator {leader} as {member}");
            }
            commits += usize::from(matches!(verdict, Some(Verdict::Commit(_))));
            skips += usize::from(verdict == Some(Verdict::Skip));
        }
    }
    assert!(commits > 200 && skips > 50, "{commits} commits, {skips} skips");
}

/// Five of eight authors lie about the time, with five of twenty votes. Their times would be the median of the authors.
#[test]
fn many_small_liars_do_not_move_the_time() {
    let committee = committee_of(&[5, 5, 5, 1, 1, 1, 1, 1]);
    assert!(committee.weigh((3..8).map(index)) <= committee.max_faulty());
    let genesis: Vec<_> = committee.indices().map(|author| Context::new(&committee).genesis(author)).collect();
    for lie in [0, 1 << 40] {
        let mut dag = Dag::new(committee.weights(), 4);
        let times = [1_000, 1_001, 1_002, lie, lie, lie, lie, lie];
        let first: Vec<_> = (0u16..8)
            .zip(times)
            .map(|(author, time)| {
                let mut parents = genesis.clone();
                parents.swap(0, usize::from(author));
                let block = sign_at(TimestampMs(time), &committee, author, 1, parents, b"");
                assert!(dag.insert(block.clone()));
                block.reference()
            })
            .collect();
        let leader = sign(&committee, 0, 2, first, b"");
        assert!(dag.insert(leader.clone()));
        let mut sequence = Sequence::new(&Resume::default(), 8, TimestampMs(0));
        let time = sequence.commit(&dag, &leader, B256::ZERO, 30).ordered.time;
        assert!((1_000..=1_002).contains(&time.0), "{time}");
    }
}
