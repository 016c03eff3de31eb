//! Checks of every run, and its measurements.
//!
//! Compares the commits and blocks of every honest node, as they happen, with the first ones of any honest node:
//! - **Agreement**: equal commits under equal indices, and equal block hashes, hence equal state roots, at equal
//!   heights. This also holds across restarts, so nothing is ever reverted.
//! - **Integrity**: executed transactions were submitted by a client, and are executed only once.
//! - **No loss**: every transaction that an honest node accepted is committed in the end. The exception are
//!   transactions accepted only by nodes that lost their disk or are Byzantine: no other node ever received them.
//!   (Clients resubmit, so this exception is hardly ever needed.)
//! - **Epochs**: every epoch has one last block, the first one at or after its end. Every node enters the next epoch with the
//!   committee that this block decided, and members have their share of the coin.
//! - **Bounded memory**: pool and safety log stay within their bounds, checked once per second.
//! - **Justice**: no honest node accuses an honest validator, and the staking contract convicts none.
//!
//! Byzantine processes are not checked.

mod epochs;

use self::epochs::Epochs;
use crate::{
    engines::EngineEvent,
    genesis::Names,
    report::{Sample, Second, Spread},
};
use corniche_crypto::VerifiedTransaction;
use corniche_engine::{Offence, Ordered};
use corniche_pipeline::Executed;
use corniche_staking::{
    StateSlots, ValidatorId,
    record::{Validator, is_convicted},
};
use corniche_state::{CommittedBlock, State};
use corniche_testkit::Micros;
use corniche_types::{B256, Bytes, Epoch, STAKING_ADDRESS, SkipReason, StakingParameters, ValidatorIndex, keccak256};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Maximum number of violations with text; further ones are only counted.
const MAX_REPORTED: usize = 100;

/// State of the checks.
pub struct Checks {
    processes: Vec<ProcessState>,
    /// The first commit seen for each index, from 1, in each epoch.
    commits: BTreeMap<Epoch, Vec<Ordered>>,
    /// The first block seen at each height, from 1.
    blocks: Vec<AgreedBlock>,
    transactions: Vec<TrackedTransaction>,
    by_hash: BTreeMap<B256, u32>,
    names: Arc<Names>,
    epochs: Epochs,
    /// Validators that the staking contract convicted.
    pub convicted: BTreeSet<u32>,
    /// Time of the last commit that was new to all honest nodes.
    last_commit: Micros,
    uncommitted: usize,
    duplicated: u64,
    latencies: Vec<Latency>,
    commit_delays: Vec<Micros>,
    violations: Vec<String>,
    violation_count: u64,
    /// Number of verdicts by rule, of the honest process with the lowest number.
    verdicts: BTreeMap<String, u64>,
}

/// State of one process.
struct ProcessState {
    identity: usize,
    honest: bool,
    /// True if it lost its disk at least once.
    disk_lost: bool,
    height: u64,
    /// Members of the committee of its epoch, by index.
    members: Vec<usize>,
    /// Time at which it executed the last block of an epoch, unless it has executed the next one.
    ended_at: Option<Micros>,
    /// Time of its first execution of each height, from 1.
    executed_at: Vec<Micros>,
    /// Time of its proposals, by the hash of the batch.
    proposals: BTreeMap<B256, Micros>,
}

struct AgreedBlock {
    hash: B256,
    /// Clients' transactions that the block executed.
    transactions: Vec<u32>,
}

/// Latency of a transaction, at the node of its submission.
struct Latency {
    number: u32,
    /// Time of the commit at that node. A client that turned to the node later learned of it later.
    committed_at: Micros,
    /// Waiting time of the client.
    waited: Micros,
}

/// A client's transaction.
struct TrackedTransaction {
    transaction: VerifiedTransaction,
    /// Node of its client; `None` for a call of the staking contract.
    client: Option<usize>,
    submitted_at: Micros,
    /// The process of the last submission.
    target: usize,
    /// Processes that accepted it.
    accepted_by: Vec<usize>,
    /// Time at which the target's engine last ordered it.
    ordered_at: Option<Micros>,
    /// Time of the commit at the target.
    committed_at: Option<Micros>,
    height: Option<u64>,
}

impl Checks {
    /// `identities` by process; `honest` returns true for processes that always follow the protocol.
    pub fn new(
        identities: &[usize],
        honest: impl Fn(usize) -> bool,
        names: Arc<Names>,
        staking: Option<StakingParameters>,
    ) -> Self {
        let state = |(process, identity): (usize, &usize)| ProcessState {
            identity: *identity,
            honest: honest(process),
            disk_lost: false,
            height: 0,
            members: (0..names.count()).collect(),
            ended_at: None,
            executed_at: Vec::new(),
            proposals: BTreeMap::new(),
        };
        Self {
            processes: identities.iter().enumerate().map(state).collect(),
            commits: BTreeMap::new(),
            names,
            epochs: Epochs::new(staking),
            convicted: BTreeSet::new(),
            blocks: Vec::new(),
            transactions: Vec::new(),
            by_hash: BTreeMap::new(),
            last_commit: Micros::START,
            uncommitted: 0,
            duplicated: 0,
            latencies: Vec::new(),
            commit_delays: Vec::new(),
            violations: Vec::new(),
            violation_count: 0,
            verdicts: BTreeMap::new(),
        }
    }

    fn violation(&mut self, text: impl FnOnce() -> String) {
        self.violation_count += 1;
        if self.violations.len() < MAX_REPORTED {
            self.violations.push(text());
        }
    }

    // ---- clients -------------------------------------------------------------------------------------------------------

    /// A client made a transaction, or the owner of a stake if `client` is `None`. Returns its number.
    pub fn submitted(&mut self, now: Micros, transaction: VerifiedTransaction, client: Option<usize>) -> u32 {
        let number = u32::try_from(self.transactions.len()).expect("fewer than 2^32 transactions are submitted");
        self.by_hash.insert(transaction.hash(), number);
        self.transactions.push(TrackedTransaction {
            transaction,
            client,
            submitted_at: now,
            target: usize::MAX,
            accepted_by: Vec::new(),
            ordered_at: None,
            committed_at: None,
            height: None,
        });
        number
    }

    /// The client submitted to this process, which accepted the transaction or not. It may have executed it long ago.
    pub fn offered(&mut self, now: Micros, number: u32, process: usize, accepted: bool) {
        let ProcessState { height, executed_at, .. } = &self.processes[process];
        let transaction = &mut self.transactions[number as usize];
        transaction.target = process;
        transaction.ordered_at = None;
        if accepted {
            self.uncommitted += usize::from(transaction.accepted_by.is_empty() && transaction.height.is_none());
            transaction.accepted_by.push(process);
        }
        if let Some(executed) = transaction.height.filter(|executed| executed <= height) {
            let committed_at = executed_at.get(executed as usize - 1).copied().unwrap_or(now);
            self.commit_at_target(now, committed_at, number);
        }
    }

    /// The client found no running node.
    pub fn target(&mut self, number: u32, process: usize) {
        self.transactions[number as usize].target = process;
    }

    pub fn transaction(&self, number: u32) -> VerifiedTransaction {
        self.transactions[number as usize].transaction.clone()
    }

    /// Process of the last submission, unless the transaction is committed there.
    pub fn waits_at(&self, number: u32) -> Option<usize> {
        let transaction = &self.transactions[number as usize];
        transaction.committed_at.is_none().then_some(transaction.target)
    }

    /// The client learns at `now` that its node committed a transaction at `committed_at`.
    fn commit_at_target(&mut self, now: Micros, committed_at: Micros, number: u32) {
        let transaction = &mut self.transactions[number as usize];
        if transaction.committed_at.is_none() {
            let learned_at = transaction.ordered_at.unwrap_or(now);
            let committed_at = committed_at.min(learned_at);
            transaction.committed_at = Some(committed_at);
            self.latencies.push(Latency { number, committed_at, waited: learned_at - transaction.submitted_at });
        }
    }

    // ---- nodes ---------------------------------------------------------------------------------------------------------

    /// A process' engine proposed or ordered something.
    pub fn on_engine_event(&mut self, process: usize, now: Micros, event: EngineEvent) {
        if !self.processes[process].honest {
            return;
        }
        match event {
            EngineEvent::Proposed(batch) => {
                self.processes[process].proposals.insert(corniche_crypto::digest(&batch), now);
            }
            EngineEvent::Ordered(epoch, ordered) => self.ordered(process, now, epoch, ordered),
        }
    }

    fn ordered(&mut self, process: usize, now: Micros, epoch: Epoch, ordered: Ordered) {
        let identity = self.processes[process].identity;
        let members = self.epochs.members.get(&epoch).unwrap_or(&self.processes[process].members);
        let own = members.iter().position(|member| *member == identity);
        for (_, batch) in ordered.batches.iter().filter(|(author, _)| Some(author.as_usize()) == own) {
            self.own_batch_ordered(process, now, &batch.bytes);
        }
        let index = ordered.index.0 as usize;
        let commits = self.commits.entry(epoch).or_default();
        match commits.get(index - 1) {
            Some(first) if *first == ordered => {}
            Some(_) => self.violation(|| format!("agreement: node {identity}: commit {index} differs from the first one")),
            None if index == commits.len() + 1 => {
                commits.push(ordered);
                self.last_commit = now;
            }
            None => self.violation(|| format!("agreement: node {identity}: commit {index} without its predecessor")),
        }
    }

    fn own_batch_ordered(&mut self, process: usize, now: Micros, batch: &Bytes) {
        if let Some(proposed) = self.processes[process].proposals.remove(&corniche_crypto::digest(batch)) {
            self.commit_delays.push(now - proposed);
        }
        for raw in corniche_admission::batch::decode(batch) {
            let Some(number) = self.by_hash.get(&keccak256(&raw)) else { continue };
            let transaction = &mut self.transactions[*number as usize];
            if transaction.target == process {
                transaction.ordered_at = Some(now);
            }
        }
    }

    /// A process executed its next block, with this result.
    pub fn executed(&mut self, process: usize, now: Micros, executed: &Executed, state: &State) {
        if !self.processes[process].honest {
            return;
        }
        let height = executed.committed.block.height().0;
        let index = height as usize - 1;
        let state_of = &mut self.processes[process];
        state_of.height = height;
        // Heights that are repeated after a restart were committed before.
        if state_of.executed_at.len() <= index {
            state_of.executed_at.resize(index + 1, now);
        }
        let ends_epoch = executed.committed.block.ordering.next.is_some();
        let ended_at = std::mem::replace(&mut state_of.ended_at, ends_epoch.then_some(now));
        if let Some(ended_at) = ended_at.filter(|_| state_of.members.contains(&state_of.identity)) {
            self.epochs.gaps.push((ended_at, now));
        }
        if index == self.blocks.len() {
            self.first_executed(now, executed, state);
        }
        let identity = self.processes[process].identity;
        let Some(agreed) = self.blocks.get(index) else {
            return self.violation(|| format!("agreement: node {identity}: block {height} without its predecessor"));
        };
        if agreed.hash != executed.hash {
            return self.violation(|| format!("agreement: node {identity}: block {height} differs from the first one"));
        }
        let mine = |number: &u32| self.transactions[*number as usize].target == process;
        let committed: Vec<u32> = agreed.transactions.iter().copied().filter(mine).collect();
        committed.into_iter().for_each(|number| self.commit_at_target(now, now, number));
    }

    fn first_executed(&mut self, now: Micros, executed: &Executed, state: &State) {
        let height = executed.committed.block.height().0;
        let mut transactions = Vec::with_capacity(executed.committed.receipts.len());
        for receipt in &executed.committed.receipts {
            let hash = receipt.transaction_hash;
            let Some(number) = self.by_hash.get(&hash).copied() else {
                self.violation(|| format!("integrity: block {height}: transaction {hash} was never submitted"));
                continue;
            };
            transactions.push(number);
            let transaction = &mut self.transactions[number as usize];
            if transaction.height.is_some() {
                self.duplicated += 1;
                self.violation(|| format!("integrity: transaction {hash} was executed again in block {height}"));
            } else {
                transaction.height = Some(height);
                self.uncommitted -= usize::from(!transaction.accepted_by.is_empty());
            }
        }
        self.check_epoch(now, &executed.committed, state);
        self.check_convictions(&executed.committed, state);
        self.blocks.push(AgreedBlock { hash: executed.hash, transactions });
    }

    /// Records the validators that a block's notices convict. An honest one among them is a violation.
    fn check_convictions(&mut self, committed: &CommittedBlock, state: &State) {
        let record = &committed.block.ordering;
        if record.skipped.iter().all(|skipped| skipped.reason != SkipReason::Notice) {
            return;
        }
        let changed = committed.changes.storage.iter().filter(|((address, _), _)| *address == STAKING_ADDRESS);
        let mut slots: BTreeMap<B256, B256> = changed.map(|((_, slot), value)| (*slot, *value)).collect();
        let validators = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        for (epoch, id) in (0..=record.epoch.0).flat_map(|epoch| (0..validators).map(move |id| (epoch, id))) {
            if is_convicted(&mut slots, Epoch(epoch), ValidatorId(id)) != Ok(true) {
                continue;
            }
            let keys = Validator::new(ValidatorId(id)).keys(&mut StateSlots(&state.latest()));
            let node = self.names.number(&keys.expect("invariant: the state of an executed block is readable").network.0);
            if self.convicted.insert(node as u32) && self.is_honest(node) {
                self.violation(|| format!("justice: honest node {node} was convicted"));
            }
        }
    }

    /// A process stopped by itself. An honest one never has a reason to do so.
    pub fn halted(&mut self, process: usize, reason: &str) {
        let ProcessState { identity, honest, .. } = self.processes[process];
        if honest {
            self.violation(|| format!("agreement: node {identity} halted: {reason}"));
        }
    }

    /// A process lost its disk.
    pub fn disk_lost(&mut self, process: usize) {
        self.processes[process].disk_lost = true;
        self.processes[process].height = 0;
        self.processes[process].executed_at.clear();
    }

    /// A process restarts with this many blocks.
    pub fn restarted(&mut self, process: usize, height: u64) {
        self.processes[process].height = height;
        self.processes[process].ended_at = None;
        // It may propose again what was not ordered before.
        self.processes[process].proposals.clear();
    }

    /// A process received a message that is never valid.
    pub fn peer_fault(&mut self, process: usize, from: usize, fault: &str) {
        if !self.processes[process].honest {
            return;
        }
        if self.is_honest(from) {
            let identity = self.processes[process].identity;
            self.violation(|| format!("node {identity} reports a fault of honest node {from}: {fault}"));
        }
    }

    /// A process accused a validator.
    pub fn accused(&mut self, process: usize, validator: ValidatorIndex, offence: Offence) {
        if !self.processes[process].honest {
            return;
        }
        let ProcessState { identity, members, .. } = &self.processes[process];
        let (identity, accused) = (*identity, members.get(validator.as_usize()).copied());
        match accused {
            Some(accused) if self.is_honest(accused) => {
                self.violation(|| format!("node {identity} accuses honest node {accused}: {offence:?}"));
            }
            Some(_) => {}
            None => self.violation(|| format!("node {identity} accuses {validator}, which is no member: {offence:?}")),
        }
    }

    /// A process' engine decided a leader slot.
    pub fn decided(&mut self, process: usize, why: &str) {
        if self.processes.iter().position(|state| state.honest) == Some(process) {
            // The first word names the rule; the rest describes the case.
            let rule = why.split([':', ' ']).next().unwrap_or_default();
            *self.verdicts.entry(rule.to_owned()).or_default() += 1;
        }
    }

    /// Number of leader slots decided by each rule.
    #[cfg(test)]
    pub fn verdicts(&self) -> &BTreeMap<String, u64> {
        &self.verdicts
    }

    fn is_honest(&self, identity: usize) -> bool {
        self.processes.iter().filter(|state| state.identity == identity).all(|state| state.honest)
    }

    /// Checks an upper bound of a process' memory.
    pub fn bounded(&mut self, process: usize, what: &str, found: usize, max: usize) {
        let ProcessState { identity, honest, .. } = self.processes[process];
        if honest && found > max {
            self.violation(|| format!("memory: node {identity} has {found} {what}, at most {max} are allowed"));
        }
    }

    // ---- results -------------------------------------------------------------------------------------------------------

    /// Returns true if every accepted transaction is in a block.
    pub fn all_committed(&self) -> bool {
        self.uncommitted == 0
    }

    pub fn last_commit(&self) -> Micros {
        self.last_commit
    }

    /// Number of blocks made by honest nodes.
    pub fn height(&self) -> u64 {
        self.blocks.len() as u64
    }

    pub fn is_honest_process(&self, process: usize) -> bool {
        self.processes[process].honest
    }

    /// Number of transactions that clients offered, accepted or not.
    pub fn offered_count(&self) -> usize {
        self.transactions.len()
    }

    /// Number of transactions that a node accepted.
    pub fn accepted(&self) -> u64 {
        self.transactions.iter().filter(|transaction| !transaction.accepted_by.is_empty()).count() as u64
    }

    /// Number of transactions committed at the node of their submission.
    pub fn committed(&self) -> u64 {
        self.latencies.len() as u64
    }

    pub fn duplicated(&self) -> u64 {
        self.duplicated
    }

    /// Number of transactions that should be committed and are not.
    pub fn lost(&self) -> u64 {
        let trusted = |process: &usize| self.processes[*process].honest && !self.processes[*process].disk_lost;
        let is_lost =
            |transaction: &&TrackedTransaction| transaction.height.is_none() && transaction.accepted_by.iter().any(trusted);
        self.transactions.iter().filter(is_lost).count() as u64
    }

    pub fn violation_count(&self) -> u64 {
        self.violation_count
    }

    /// The first violations, as text.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    pub fn latency(&self) -> Option<Spread> {
        Spread::of(&mut self.latencies.iter().map(|latency| latency.waited.0).collect::<Vec<_>>())
    }

    /// All committed transactions of clients.
    pub fn samples(&self) -> Vec<Sample> {
        let sample = |latency: &Latency| {
            let transaction = &self.transactions[latency.number as usize];
            let submitted_us = (transaction.submitted_at - Micros::START).0;
            Some(Sample { client: transaction.client?, submitted_us, latency_us: latency.waited.0 })
        };
        self.latencies.iter().filter_map(sample).collect()
    }

    pub fn commit_delay(&self) -> Option<Spread> {
        Spread::of(&mut self.commit_delays.iter().map(|delay| delay.0).collect::<Vec<_>>())
    }

    /// Transactions committed at their submitter's node, per second from the start through `end`.
    pub fn timeline(&self, end: Micros) -> Vec<Second> {
        let seconds = (end - Micros::START).0.div_ceil(1_000_000);
        let mut latencies = vec![Vec::new(); seconds as usize];
        for Latency { committed_at, waited, .. } in &self.latencies {
            let second = ((*committed_at - Micros::START).0 / 1_000_000) as usize;
            if let Some(of_second) = latencies.get_mut(second.min(seconds as usize - 1)) {
                of_second.push(waited.0);
            }
        }
        let second = |(second, mut latencies): (u64, Vec<u64>)| {
            let committed = latencies.len() as u64;
            let spread = Spread::of(&mut latencies);
            Second { second, committed, p50_us: spread.map(|spread| spread.p50), max_us: spread.map(|spread| spread.max) }
        };
        (0..).zip(latencies).map(second).collect()
    }

    /// SHA-256 of the hashes of the transactions in the first `height` blocks, in block order.
    pub fn digest(&self, height: u64) -> [u8; 32] {
        let mut hasher = Sha256::new();
        for agreed in self.blocks.iter().take(height as usize) {
            agreed.transactions.iter().for_each(|number| hasher.update(self.transactions[*number as usize].transaction.hash()));
        }
        hasher.finalize().into()
    }
}
