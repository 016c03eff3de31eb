//! Random operations compared with a simple model: exactly the synced data survives each crash.

use crate::support::*;
use corniche_engine::Ticket;
use corniche_state::CommittedBlock;
use corniche_store::{Backend, Options};
use corniche_types::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Operation {
    Block,
    Certificate,
    Safety { bytes: usize },
    Progress,
    Release { keep: u64 },
    Sync,
    Checkpoint,
    Crash,
    LoseState,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => Just(Operation::Block),
        2 => Just(Operation::Certificate),
        4 => (0usize..400).prop_map(|bytes| Operation::Safety { bytes }),
        1 => Just(Operation::Progress),
        1 => (0u64..6).prop_map(|keep| Operation::Release { keep }),
        5 => Just(Operation::Sync),
        1 => Just(Operation::Checkpoint),
        1 => Just(Operation::Crash),
        1 => Just(Operation::LoseState),
    ]
}

/// Expected content of a store.
#[derive(Clone, Default)]
struct Model {
    height: u64,
    blocks: BTreeMap<u64, CommittedBlock>,
    certificates: BTreeMap<u64, Certificate>,
    safety: BTreeMap<u64, Bytes>,
    resume: u64,
    released: u64,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn synced_data_survives(operations in prop::collection::vec(operation(), 1..80), redb in any::<bool>()) {
        run(&operations, if redb { Backend::Redb } else { Backend::Sled });
    }
}

fn resume_at(index: u64) -> Resume {
    let checkpoint = if index == 0 { Bytes::new() } else { Bytes::from(vec![index as u8; 5]) };
    Resume { index: CommitIndex(index), checkpoint, ..Resume::default() }
}

fn run(operations: &[Operation], backend: Backend) {
    let chain = Chain::of(80);
    let directory = scratch();
    let small = Options { window_blocks: 3, window_bytes: 4000, block_segment_bytes: 3000, ..options(backend) };
    let (mut store, _) = open(directory.path(), small.clone()).unwrap();
    let (mut now, mut synced) = (Model::default(), Model::default());
    let mut ticket = 0;
    for operation in operations {
        match operation {
            Operation::Block => {
                now.height += 1;
                now.resume += 1;
                let mut committed = chain.blocks[now.height as usize].clone();
                committed.resume = resume_at(now.resume);
                store.append_block(committed.clone()).unwrap();
                now.blocks.insert(now.height, committed);
            }
            Operation::Certificate if now.height > 0 => {
                let height = now.height - now.height / 3;
                store.append_certificate(&chain.certificate(height)).unwrap();
                now.certificates.insert(height, chain.certificate(height));
            }
            Operation::Certificate => {}
            Operation::Safety { bytes } => {
                ticket += 1;
                let record = Bytes::from(vec![ticket as u8; *bytes]);
                store.append_safety(Ticket(ticket), &record).unwrap();
                now.safety.insert(ticket, record);
            }
            Operation::Progress => {
                now.resume += 1;
                store.append_progress(&resume_at(now.resume)).unwrap();
            }
            Operation::Release { keep } => {
                now.released = now.released.max(ticket.saturating_sub(*keep));
                store.release_safety_below(Ticket(now.released)).unwrap();
            }
            Operation::Sync => {
                store.sync().unwrap();
                synced = now.clone();
            }
            Operation::Checkpoint => store.checkpoint(),
            Operation::Crash | Operation::LoseState => {
                drop(store);
                if matches!(operation, Operation::LoseState) {
                    std::fs::remove_dir_all(directory.path().join("state")).unwrap();
                }
                let recovered;
                (store, recovered) = open(directory.path(), small.clone()).unwrap();
                assert_eq!(recovered.head.height(), Height(synced.height));
                assert_eq!(recovered.tree.root(), chain.blocks[synced.height as usize].block.header.state_root);
                assert_eq!(recovered.resume, resume_at(synced.resume));
                let last = synced.certificates.values().next_back();
                assert_eq!(recovered.certificate.as_deref(), last);
                let found: BTreeMap<u64, Bytes> =
                    recovered.safety.iter().map(|(ticket, bytes)| (ticket.0, bytes.clone())).collect();
                for (ticket, record) in synced.safety.range(synced.released..) {
                    assert_eq!(found.get(ticket), Some(record), "ticket {ticket}");
                }
                for (ticket, record) in &found {
                    assert_eq!(synced.safety.get(ticket), Some(record), "never synced: {ticket}");
                }
                now = synced.clone();
            }
        }
        let reader = store.reader();
        assert_eq!(reader.head().height(), Height(synced.height));
        for height in 0..=synced.height {
            let committed = synced.blocks.get(&height).unwrap_or(&chain.blocks[0]);
            assert_eq!(*reader.block(Height(height)).unwrap().committed, *committed);
            let expected = synced.certificates.range(height..).next().map(|(_, certificate)| certificate);
            assert_eq!(reader.certificate(Height(height)).as_deref(), expected);
            if let Some(receipt) = committed.receipts.first() {
                assert_eq!(reader.transaction(&receipt.transaction_hash), Some((Height(height), 0)));
            }
        }
    }
}
