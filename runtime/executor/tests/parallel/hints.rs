//! D9: slots declared in access lists are hints. They affect only which transactions wait, never the result.

use crate::support::program::Op::*;
use crate::support::test_chain::*;
use crate::support::*;
use alloy_consensus::TxEip1559;
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_primitives::{Address, B256};

/// Chooses the declared slots, given the touched ones.
type Hint<'h> = dyn Fn(&mut Random, [u8; 2]) -> Vec<(Address, u8)> + 'h;

fn declared(transaction: TxEip1559, slots: &[(Address, u8)]) -> TxEip1559 {
    let item =
        |(address, slot): &(Address, u8)| AccessListItem { address: *address, storage_keys: vec![B256::with_last_byte(*slot)] };
    TxEip1559 { access_list: AccessList(slots.iter().map(item).collect()), ..transaction }
}

/// Transactions that read one slot and write the next; `hint` chooses the declared slots.
fn hinted(seed: u64, hint: &Hint<'_>) -> Vec<corniche_executor::Candidate> {
    let (mut random, mut liar) = (Random::new(seed), Random::new(!seed));
    let mut nonces = [0; KEYS as usize];
    let raws: Vec<_> = (0..30)
        .map(|_| {
            let who = random.below(u64::from(KEYS)) as usize;
            let touched = [random.below(4) as u8, random.below(4) as u8];
            let ops = [Load(touched[0]), Add(1), Store(touched[1]), Log];
            nonces[who] += 1;
            let transaction = call(nonces[who] - 1, random.below(2) as usize, &ops);
            key(who as u8).sign(declared(transaction, &hint(&mut liar, touched)))
        })
        .collect();
    block(&raws)
}

/// Correct, wrong, partial and missing declarations give equal outputs and storage. Gas differs, since declared slots
/// cost gas.
#[test]
fn wrong_hints_keep_result() {
    let chain = TestChain::new();
    let contract = contracts()[0];
    for seed in 0..6 {
        let silent = chain.serial(&hinted(seed, &|_, _| Vec::new()));
        let hints: [&Hint<'_>; 5] = [
            &|_, touched| touched.map(|slot| (contract, slot)).to_vec(),
            // All declare one slot, which none of them touches.
            &|_, _| vec![(contract, 99)],
            // Slots of another contract, of an account without code, or more slots than are considered.
            &|random, [slot, _]| (0..random.below(9)).map(|number| (Address::repeat_byte(number as u8), slot)).collect(),
            // One slot twice: a transaction must not wait for itself.
            &|_, touched| vec![(contract, touched[0]); 2],
            // Exactly the slots that it does not touch.
            &|_, touched| (0..4).filter(|slot| !touched.contains(slot)).map(|slot| (contract, slot)).collect(),
        ];
        for hint in hints {
            let (output, statistics) = chain.check(&hinted(seed, hint), 0..3);
            assert_eq!(output.changes.storage, silent.changes.storage);
            for (told, untold) in output.receipts.iter().zip(&silent.receipts) {
                assert_eq!((told.success, &told.output, &told.logs), (untold.success, &untold.output, &untold.logs));
            }
            assert!(statistics.predicted_conflicts > 0, "somebody waited: {statistics:?}");
        }
    }
}
