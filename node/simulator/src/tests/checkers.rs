//! Proves for each check that it detects its violation.

use super::{CALM, run, scenario};
use crate::{
    Observer, Probe, Scenario, Verdict,
    checks::Checks,
    engines::EngineEvent,
    genesis::{self, Names},
    load::Clients,
    node::NodeProcess,
    simulate::Run,
    simulate_with,
};
use corniche_crypto::VerifiedTransaction;
use corniche_engine::{Committee, Offence, Ordered, Resume};
use corniche_pipeline::{CoinStatus, Executed};
use corniche_state::{Changes, CommittedBlock, State};
use corniche_testkit::Micros;
use corniche_types::{B256, Block, Bytes, CommitIndex, Epoch, Header, OrderingRecord, Receipt, TimestampMs, ValidatorIndex};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
    sync::Arc,
};

#[test]
fn without_a_quorum_there_is_no_progress() {
    let scenario = scenario(4, &format!("{CALM}[[fault]]\nkind = \"crash\"\nat = \"2s\"\nnodes = [0, 1]\n"));
    let report = run(&scenario, 1);
    assert_eq!(report.verdict, Verdict::NoProgress, "{}", report.text());
    assert!(report.lost > 100 && report.violations.is_empty(), "{}", report.text());
    assert!(report.stalled_us < 1_000_000, "two of four are no quorum that stands still: {}", report.text());
}

#[test]
fn wrong_execution_is_detected() {
    for engine in ["mahi-mahi", "neobft"] {
        let mut scenario = scenario(4, CALM);
        scenario.engine = engine.into();
        detects_wrong_execution(&scenario);
    }
}

fn detects_wrong_execution(scenario: &Scenario) {
    let mut run = Run::new(scenario, 1, None).expect("the scenario needs nothing");
    run.run_until(Micros::from_seconds(3));
    run.simulation.with(2, NodeProcess::tamper_with_execution);
    run.finish();
    let report = run.report();
    assert_eq!(report.verdict, Verdict::Diverged, "{}", report.text());
    let has = |words: &str| report.violations.iter().any(|violation| violation.contains(words));
    assert!(has("differs from the first one"), "{:#?}", report.violations);
    // The others certified a block that it did not make, and it noticed that itself.
    assert!(has("node 2 halted"), "{:#?}", report.violations);
    assert_eq!(report.lost, 0, "{}", report.text());
}

/// An executed block as the checks receive it.
fn block(height: u64, transactions: &[&VerifiedTransaction]) -> Executed {
    let receipt = |transaction: &&VerifiedTransaction| Receipt {
        transaction_hash: transaction.hash(),
        type_byte: 2,
        success: true,
        gas_used: 0,
        cumulative_gas_used: 0,
        effective_gas_price: 0,
        sender: transaction.sender(),
        to: None,
        contract_address: None,
        logs: Vec::new(),
        output: Bytes::new(),
    };
    let ordering = OrderingRecord {
        protocol_version: 1,
        engine: String::new(),
        epoch: Epoch(0),
        committee_hash: B256::ZERO,
        next: None,
        first_commit: CommitIndex(height),
        last_commit: CommitIndex(height),
        last_commit_consumed: 0,
        leader: ValidatorIndex(0),
        time: TimestampMs(0),
        randomness: B256::ZERO,
        batches: Vec::new(),
        transactions_hash: B256::ZERO,
        skipped: Vec::new(),
        resume_hash: B256::ZERO,
    };
    let header = Header { number: height, ..Header::default() };
    let committed = CommittedBlock {
        block: Block { header, ordering, ordered: Vec::new() },
        receipts: transactions.iter().map(receipt).collect(),
        changes: Changes::default(),
        resume: Resume::default(),
    };
    Executed { hash: B256::left_padding_from(&height.to_be_bytes()), committed: Arc::new(committed), returned: Vec::new() }
}

/// Three honest nodes and a Byzantine one; a submitted transaction, and one that no client submitted.
fn watched() -> (Checks, VerifiedTransaction, VerifiedTransaction) {
    let scenario = scenario(4, CALM);
    let (mut clients, names) = (Clients::new(&scenario, 1), Arc::new(Names::new(&scenario, 1)));
    (Checks::new(&[0, 1, 2, 3], |process| process != 3, names, None), clients.make(), clients.make())
}

#[test]
fn uncommitted_transactions_are_lost() {
    let (mut checks, transaction, other) = watched();
    let (first, second) = (checks.submitted(Micros(1), transaction.clone(), None), checks.submitted(Micros(1), other, None));
    checks.offered(Micros(1), first, 0, true);
    checks.offered(Micros(1), second, 3, true);
    assert_eq!(
        (checks.accepted(), checks.lost(), checks.all_committed()),
        (2, 1, false),
        "only a Byzantine node accepted the other one"
    );
    checks.disk_lost(0);
    assert_eq!(checks.lost(), 0, "a node without its disk knows nothing of it");
    checks.offered(Micros(2), first, 1, true);
    assert_eq!(checks.lost(), 1);
    checks.executed(1, Micros(3), &block(1, &[&transaction]), &State::default());
    assert_eq!((checks.lost(), checks.committed(), checks.violations().len()), (0, 1, 0));
}

#[test]
fn duplicate_and_unknown_executions_are_detected() {
    let (mut checks, transaction, other) = watched();
    let number = checks.submitted(Micros(1), transaction.clone(), None);
    checks.offered(Micros(1), number, 0, true);
    checks.executed(0, Micros(2), &block(1, &[&transaction]), &State::default());
    checks.executed(1, Micros(2), &block(1, &[&transaction]), &State::default());
    assert_eq!((checks.duplicated(), checks.violations().len()), (0, 0), "two nodes, one block");
    checks.executed(0, Micros(3), &block(2, &[&transaction]), &State::default());
    assert_eq!((checks.duplicated(), checks.violations().len()), (1, 1));
    checks.executed(0, Micros(4), &block(3, &[&other]), &State::default());
    assert!(checks.violations()[1].contains("never submitted"), "{:?}", checks.violations());
    checks.executed(3, Micros(5), &block(9, &[&other]), &State::default());
    assert_eq!(checks.violations().len(), 2, "Byzantine nodes are not checked");
}

#[test]
fn violations_are_detected() {
    let commit = |index: u64, leader: u16| {
        EngineEvent::Ordered(
            Epoch(0),
            Ordered {
                index: CommitIndex(index),
                leader: ValidatorIndex(leader),
                time: TimestampMs(0),
                randomness: B256::ZERO,
                batches: Vec::new(),
                checkpoint: Bytes::new(),
            },
        )
    };
    let (mut checks, ..) = watched();
    checks.on_engine_event(0, Micros(1), commit(1, 0));
    checks.on_engine_event(1, Micros(1), commit(1, 0));
    checks.on_engine_event(3, Micros(1), commit(1, 2));
    assert_eq!(checks.violations().len(), 0);
    checks.on_engine_event(2, Micros(2), commit(1, 2));
    checks.on_engine_event(0, Micros(2), commit(3, 0));
    checks.accused(0, ValidatorIndex(3), Offence::Equivocation);
    checks.accused(0, ValidatorIndex(1), Offence::Equivocation);
    checks.peer_fault(1, 3, "noise");
    checks.peer_fault(1, 2, "noise");
    checks.bounded(0, "things", 10, 10);
    checks.bounded(0, "things", 11, 10);
    let found = checks.violations();
    let words =
        ["commit 1 differs", "without its predecessor", "accuses honest node 1", "fault of honest node 2", "has 11 things"];
    assert_eq!(found.len(), words.len(), "{found:#?}");
    assert!(found.iter().zip(words).all(|(violation, words)| violation.contains(words)), "{found:#?}");
}

#[test]
fn epoch_violations_are_detected() {
    let scenario = scenario(4, &format!("epoch_ms = 1000\n{CALM}"));
    let (genesis, secrets) = genesis::make(&scenario, 1, [], BTreeMap::new());
    let mut checks = Checks::new(&[0, 1, 2, 3], |process| process != 3, secrets.names.clone(), genesis.staking.clone());
    let committee = |epoch: u64| Committee::of_epoch(&genesis, Epoch(epoch), B256::repeat_byte(1), genesis.validators.clone());
    let share = CoinStatus::default();
    checks.entered(0, &committee(0), vec![0, 1, 2, 3], share);
    assert_eq!(checks.violations().len(), 0);
    checks.entered(1, &committee(0), vec![0, 1, 3, 2], share);
    checks.entered(1, &committee(0), vec![0, 1, 2, 3], CoinStatus { lacks_share: true, ..share });
    checks.entered(2, &committee(1), vec![0, 1, 2, 3], share);
    checks.entered(3, &committee(2), vec![0, 1, 2, 3], share);
    let mut late = block(1, &[]);
    let ordering = &mut Arc::get_mut(&mut late.committed).expect("made here").block.ordering;
    (ordering.time, ordering.epoch, ordering.next) = (TimestampMs(1_000), Epoch(1), None);
    checks.executed(0, Micros(1), &late, &State::default());
    let found = checks.violations();
    let words = ["other members", "lacks its share", "without an end", "is of epoch 1, not 0", "first at or after the end"];
    assert_eq!(found.len(), words.len(), "{found:#?}");
    assert!(found.iter().zip(words).all(|(violation, words)| violation.contains(words)), "{found:#?}");
}

#[test]
fn unaccepted_load_is_no_progress() {
    let crash = "[[fault]]\nkind = \"crash\"\nat = \"500ms\"\nnodes = [0, 1, 2, 3]\n";
    let report = run(&scenario(4, &format!("{CALM}start = \"1s\"\n{crash}")), 1);
    assert_eq!((report.verdict, report.submitted), (Verdict::NoProgress, 0), "{}", report.text());
}

#[test]
fn violations_are_counted_and_first_reported() {
    let (mut checks, ..) = watched();
    (0..150).for_each(|_| checks.peer_fault(1, 2, "noise"));
    assert_eq!((checks.violation_count(), checks.violations().len()), (150, 100));
}

#[test]
fn only_honest_processes_are_observed() {
    // A twin is a fifth process of four nodes.
    let twin = "[[fault]]\nkind = \"byzantine\"\nbehaviour = \"twin\"\nat = \"0s\"\nnodes = [3]\n";
    let heard = Rc::new(RefCell::new(BTreeSet::new()));
    let nodes = heard.clone();
    let observer: Observer = Box::new(move |_, node, _| {
        nodes.borrow_mut().insert(node);
    });
    let probe = Probe { observer: Some(observer), ..Probe::default() };
    simulate_with(&scenario(4, &format!("{CALM}{twin}")), 1, None, probe).expect("the scenario needs nothing");
    assert_eq!(*heard.borrow(), BTreeSet::from([0, 1, 2]));
}
