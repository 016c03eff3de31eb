//! Blocks of transactions that change random keys of a state.

use super::support::{genesis, receipt};
use corniche_state::{Account, Changes, CommittedBlock, Tree};
use corniche_store::genesis_block;
use corniche_types::*;
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};

pub const KEYS_PER_TRANSACTION: u64 = 3;
pub const ACCOUNTS: u64 = 100_000;

pub fn chain(transactions: u64, count: u64) -> Vec<CommittedBlock> {
    let start = genesis_block(&genesis(Default::default()));
    let mut tree = Tree::default();
    tree.apply(&start.changes);
    let (mut parent, mut blocks, mut random) = (start.block, Vec::new(), SplitMix64::seed_from_u64(1));
    for height in 1..=count {
        let mut changes = Changes::default();
        let (mut ordered, mut receipts) = (Vec::new(), Vec::new());
        for index in 0..transactions {
            for key in 0..KEYS_PER_TRANSACTION {
                let number = random.next_u64() % ACCOUNTS;
                let address = Address::from_word(B256::from(U256::from(number)));
                if key == 2 {
                    changes.storage.insert((Address::ZERO, B256::from(U256::from(number))), B256::from(U256::from(height)));
                } else {
                    changes.accounts.insert(address, Some(Account { nonce: height, ..Default::default() }));
                }
            }
            let raw = Bytes::from([height.to_be_bytes(), index.to_be_bytes()].concat().repeat(11));
            receipts.push(receipt(keccak256(&raw), index));
            ordered.push(OrderedTransaction { author: ValidatorIndex(0), raw });
        }
        let header =
            Header { parent_hash: parent.hash(), number: height, state_root: tree.apply(&changes), ..parent.header.clone() };
        let block = Block { header, ordering: parent.ordering.clone(), ordered };
        parent = block.clone();
        let resume = Resume { index: CommitIndex(height), checkpoint: Bytes::from(vec![1; 200]), ..Resume::default() };
        blocks.push(CommittedBlock { block, receipts, changes, resume });
    }
    blocks
}
