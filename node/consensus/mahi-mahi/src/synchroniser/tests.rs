use super::{dependents::VISITS, *};
use crate::message::{Content, Context, SignedBlock};
use corniche_engine::Committee;
use corniche_testkit::{Random, committee_of};
use corniche_types::{B256, Bytes};

const NOW: TimestampMs = TimestampMs(0);
const EQUIVOCATOR: ValidatorIndex = ValidatorIndex(0);

fn block(committee: &Committee, author: ValidatorIndex, round: Round, parents: Vec<BlockRef>, number: u64) -> Arc<Block> {
    let batch = Bytes::from(number.to_le_bytes().to_vec());
    let content = Content { author, round, timestamp: NOW, parents, coin_shares: vec![[7; 48]], batch };
    Arc::new(Block::trusted(SignedBlock { content, signature: [0; 64] }, &Context::new(committee)))
}

fn synchroniser(committee: &Committee, blocks: usize, missing: usize) -> Synchroniser {
    let weight = Weight { bytes: 1 << 30, missing };
    let limits = Limits { blocks, weight, delay_ms: 10, retry_ms: 100, retry_cap_ms: 1_000 };
    Synchroniser::new(committee.size(), None, limits)
}

/// Number of entries visited for one block that this many pending siblings of an equivocator need, while its account is full.
fn visits_of_one_block(siblings: usize) -> usize {
    let committee = committee_of("mahi-mahi", &[1; 4]);
    let mut synchroniser = synchroniser(&committee, siblings, usize::MAX);
    let needed = block(&committee, EQUIVOCATOR, Round(1), Vec::new(), 0);
    let parents = [needed.reference()];
    for number in 0..siblings as u64 {
        let sibling = block(&committee, EQUIVOCATOR, Round(2), parents.to_vec(), number);
        assert!(synchroniser.add_pending(NOW, EQUIVOCATOR, sibling, BTreeSet::from(parents)));
    }
    VISITS.set(0);
    // As for a sibling that every account refuses, then as for one that is accepted.
    assert!(!synchroniser.needed_by(&needed.reference()).any(|account| account != EQUIVOCATOR));
    let missing = BTreeSet::from([BlockRef { digest: B256::ZERO, ..first_of(Round(0)) }]);
    assert!(synchroniser.add_pending(NOW, EQUIVOCATOR, needed, missing));
    VISITS.get()
}

#[test]
fn work_per_block_does_not_grow_with_pending_siblings() {
    assert_eq!([20, 200, 2_000].map(visits_of_one_block), [2; 3]);
}

/// The definition: the accounts of all pending blocks that need it, each once.
fn scan(synchroniser: &Synchroniser, reference: &BlockRef) -> Vec<ValidatorIndex> {
    let dependents = synchroniser.pending.values().filter(|pending| pending.missing.contains(reference));
    let mut seen = BTreeSet::new();
    dependents.map(|pending| pending.account).filter(|account| seen.insert(*account)).collect()
}

/// Checks every block of a random DAG with siblings after every step. Returns the number of blocks needed by several accounts.
fn compare_with_scan(seed: u64) -> usize {
    const ROUNDS: u64 = 6;
    let committee = committee_of("mahi-mahi", &[1; 4]);
    let mut random = Random::new(seed);
    let mut synchroniser = synchroniser(&committee, 5, 14);
    let (mut blocks, mut previous) = (Vec::new(), Vec::new());
    for round in (1..=ROUNDS).map(Round) {
        let mut current = Vec::new();
        for author in committee.indices() {
            for number in 0..1 + random.below(4) {
                let parents = previous.iter().filter(|_| random.one_in(4)).copied().collect();
                current.push(block(&committee, author, round, parents, number));
            }
        }
        previous = current.iter().map(|block| block.reference()).collect();
        blocks.extend(current);
    }
    let (mut present, mut floor, mut shared) = (BTreeSet::new(), Round(0), 0);
    for step in 0..400 {
        let next = &blocks[random.below(blocks.len() as u64) as usize];
        let (reference, is_here) = (next.reference(), |parent: &BlockRef| parent.round <= floor || present.contains(parent));
        let missing: BTreeSet<_> = next.parents().iter().filter(|parent| !is_here(parent)).copied().collect();
        let mut arrived = Vec::new();
        if step % 100 == 99 {
            floor = floor + 1;
            arrived = synchroniser.raise_floor(floor);
        } else if !is_here(&reference) && !synchroniser.is_pending(&reference) {
            if missing.is_empty() {
                arrived.push(next.clone());
            } else {
                synchroniser.add_pending(NOW, reference.author, next.clone(), missing);
            }
        }
        while let Some(block) = arrived.pop() {
            present.insert(block.reference());
            arrived.extend(synchroniser.arrived(&block.reference()));
        }
        for block in &blocks {
            let expected = scan(&synchroniser, &block.reference());
            let found: Vec<_> = synchroniser.needed_by(&block.reference()).collect();
            assert_eq!(found, expected, "seed {seed}, step {step}: {:?}", block.reference());
            shared += usize::from(found.len() > 1);
        }
    }
    shared
}

#[test]
fn accounts_match_scan_of_pending_blocks() {
    let shared: usize = (0..24).map(compare_with_scan).sum();
    assert!(shared > 1_000, "{shared} blocks needed by several accounts");
}
