//! A result is a function of the block: equal in another process, and independent of how transactions are divided into
//! blocks.
#![allow(clippy::unwrap_used)] // also in helpers

mod support;

use alloy_primitives::B256;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use support::{BASE_FEE, Node, digest, key, workload};

/// Child process of the test below: reads a seed, prints the digest.
#[test]
#[ignore = "runs as a child of fresh_process_gives_same_result"]
fn child() {
    let mut seed = String::new();
    std::io::stdin().read_to_string(&mut seed).unwrap();
    println!("\ndigest {}", digest(seed.trim().parse().unwrap()));
}

fn digest_in_a_fresh_process(seed: u64) -> B256 {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(seed.to_string().as_bytes()).unwrap();
    let output = String::from_utf8(process.wait_with_output().unwrap().stdout).unwrap();
    let line = output.lines().find_map(|line| line.strip_prefix("digest ")).unwrap_or_else(|| panic!("no digest in {output}"));
    line.parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn fresh_process_gives_same_result(seed: u64) {
        let here = digest(seed);
        prop_assert_eq!(here, digest(seed), "twice in one process, another engine and another cache");
        prop_assert_eq!(here, digest_in_a_fresh_process(seed));
    }

    /// One block, or one block per transaction: equal state, receipts and skips.
    #[test]
    fn block_boundaries_do_not_change_state(seed: u64) {
        let mut whole = Node::new();
        let mut pieces = Node::new();
        for block in workload(seed) {
            let (output, root) = whole.append(&block);
            let mut receipts = Vec::new();
            let mut skipped = Vec::new();
            let mut last = pieces.tree.root();
            for (position, raw) in block.iter().enumerate() {
                // The position of a candidate determines its author, so an invalid transaction takes the other author's
                // turn.
                let filler = alloy_primitives::Bytes::new();
                let alone = if position % 2 == 0 { vec![raw.clone()] } else { vec![filler, raw.clone()] };
                let (output, root) = pieces.append(&alone);
                receipts.extend(output.receipts);
                skipped.extend(output.skipped.into_iter().filter(|skip| skip.position as usize == position % 2).map(|skip| skip.reason));
                last = root;
            }
            prop_assert_eq!(root, last);
            prop_assert_eq!(output.skipped.iter().map(|skip| skip.reason).collect::<Vec<_>>(), skipped);
            let mut sum = 0;
            for receipt in &mut receipts {
                sum += receipt.gas_used;
                receipt.cumulative_gas_used = sum;
            }
            prop_assert_eq!(output.receipts, receipts);
        }
    }

    /// Wei is burned only as base fee.
    #[test]
    fn only_base_fee_is_burned(seed: u64) {
        let mut node = Node::new();
        let supply = |node: &Node| {
            let mut everyone: Vec<_> = (0..5).map(|number| key(number).address()).collect();
            everyone.extend((0..4).map(alloy_primitives::Address::repeat_byte));
            everyone.extend(support::FEE_ADDRESSES);
            everyone.push(key(0).address().create(0));
            everyone.iter().map(|address| node.account(address).balance.to::<u128>()).sum::<u128>()
        };
        for block in workload(seed) {
            let before = supply(&node);
            let (output, _) = node.append(&block);
            let burned = u128::from(output.gas_used) * u128::from(BASE_FEE);
            prop_assert_eq!(supply(&node) + burned, before);
        }
    }
}

/// Workloads cover all cases: every skip reason that depends on the state, successes, reverts, traps, logs.
#[test]
fn workloads_cover_every_case() {
    use corniche_types::SkipReason::*;
    let mut reasons = std::collections::BTreeSet::new();
    let (mut succeeded, mut failed, mut logs) = (0, 0, 0);
    for seed in 0..20 {
        let mut node = Node::new();
        for block in workload(seed) {
            let (output, _) = node.append(&block);
            reasons.extend(output.skipped.iter().map(|skipped| skipped.reason));
            succeeded += output.receipts.iter().filter(|receipt| receipt.success).count();
            failed += output.receipts.iter().filter(|receipt| !receipt.success).count();
            logs += output.receipts.iter().map(|receipt| receipt.logs.len()).sum::<usize>();
        }
    }
    let expected = [Undecodable, WrongChain, NonceTooLow, NonceTooHigh, Underfunded, Underpriced, IntrinsicGas];
    assert!(expected.iter().all(|reason| reasons.contains(reason)), "{reasons:?}");
    assert!(succeeded > 50 && failed > 20 && logs > 20, "{succeeded} {failed} {logs}");
}
