//! Execution of blocks, by each node or once for all.
//!
//! Execution is a function of the parent and the plan. On a network of at most [`INDIVIDUAL_NODES`] nodes, every node
//! executes blocks itself, so that equal state roots prove something. On a larger one, and always when the payload is
//! none, the first node to reach a block executes it, and the others take its result. Large networks are for the study
//! of ordering: fifty executions of one block would take most of the time, and show nothing beyond the small networks.
//! A node whose history, and so parent or plan, differs from the executed one always executes for itself. No result
//! depends on the choice.

use crate::scenario::{Payload, Scenario};
use corniche_crypto::VerifiedTransaction;
use corniche_executor::{BlockOutput, Candidate, verify_ordered};
use corniche_pipeline::{BlockPlan, ChainBase, Executed, ExecutionStage, ExecutionStart, RestartPoint};
use corniche_staking::genesis_changes;
use corniche_state::{Changes, CommittedBlock, State, StateView, Tree};
use corniche_types::{
    B256, Bytes, Genesis, Header, Height, KnownVersions, OrderedTransaction, Receipt, Resume, SkipReason, Skipped, header_hash,
    keccak256,
};
use corniche_vm::Vm;
use std::{cell::RefCell, collections::BTreeMap, rc::Rc, sync::Arc};

/// Maximum size of a network in which each node executes for itself.
pub const INDIVIDUAL_NODES: usize = 10;

/// Execution resources shared by all nodes of a network.
pub struct Executors {
    genesis: Arc<Genesis>,
    genesis_changes: Changes,
    genesis_header: Header,
    /// Transactions are only counted.
    counts_only: bool,
    vm: Vm,
    checked: RefCell<BTreeMap<B256, VerifiedTransaction>>,
    /// `None`: every node executes for itself.
    shared: Option<RefCell<Lineage>>,
}

/// One chain of executed blocks; each plan is executed once.
struct Lineage {
    stage: ExecutionStage,
    head: B256,
    /// By the hash of the parent.
    blocks: BTreeMap<B256, (BlockPlan, Executed)>,
}

impl Executors {
    pub fn new(genesis: Arc<Genesis>, vm: Vm, scenario: &Scenario) -> Rc<Self> {
        let genesis_changes = genesis_changes(&genesis);
        let genesis_header = genesis.header(Tree::default().apply(&genesis_changes));
        let payload = scenario.load.payload;
        let shares = payload == Payload::None || scenario.nodes > INDIVIDUAL_NODES;
        // Nodes join and leave by transactions.
        let counts_only = payload == Payload::None && !scenario.changes_committee();
        let checked = RefCell::default();
        let mut executors = Self { genesis, genesis_changes, genesis_header, counts_only, vm, checked, shared: None };
        if shares {
            let stage = executors.stage(executors.state(&[]), &[]);
            let head = header_hash(&executors.genesis_header);
            executors.shared = Some(RefCell::new(Lineage { stage, head, blocks: BTreeMap::new() }));
        }
        Rc::new(executors)
    }

    /// Caches a transaction whose signature is valid.
    pub fn know(&self, transaction: &VerifiedTransaction) {
        self.checked.borrow_mut().insert(transaction.hash(), transaction.clone());
    }

    /// Same as [`corniche_executor::verify_ordered`], but checks each signature only once.
    fn verify(&self, ordered: &[OrderedTransaction], chain_id: u64) -> Vec<Result<VerifiedTransaction, SkipReason>> {
        let verify = |raw: &Bytes| match self.checked.borrow().get(&keccak256(raw)) {
            Some(known) => Ok(known.clone()),
            None => verify_ordered(raw, chain_id),
        };
        ordered.iter().map(|transaction| verify(&transaction.raw)).collect()
    }

    fn execute(&self, stage: &mut ExecutionStage, plan: BlockPlan) -> Executed {
        let verify = |ordered: &[OrderedTransaction], chain_id| self.verify(ordered, chain_id);
        if self.counts_only {
            return stage.execute_with(plan, verify, |view, _, candidates, _| count_only(view, candidates));
        }
        stage.execute(plan, verify)
    }

    /// Returns the state after these blocks.
    pub fn state(&self, blocks: &[Arc<CommittedBlock>]) -> State {
        let state = State::default();
        state.apply(Height(0), &self.genesis_changes);
        blocks.iter().for_each(|block| state.apply(block.block.height(), &block.changes));
        state
    }

    /// Returns the point where a node with these blocks continues.
    pub fn restart_point(&self, blocks: &[Arc<CommittedBlock>], certified: Height, resume: Resume) -> RestartPoint {
        let block = |Height(number)| usize::try_from(number).ok()?.checked_sub(1).map(|above_genesis| &blocks[above_genesis]);
        RestartPoint::new(
            ChainBase::genesis(&self.genesis),
            Height(blocks.len() as u64),
            certified,
            resume,
            |height| block(height).map_or_else(|| self.genesis_header.clone(), |block| block.block.header.clone()),
            |height| {
                let block = block(height).expect("invariant: the genesis is no block with an ordering record");
                (block.block.ordering.clone(), block.resume.clone())
            },
        )
    }

    fn stage(&self, state: State, blocks: &[Arc<CommittedBlock>]) -> ExecutionStage {
        let mut tree = Tree::default();
        tree.apply(&self.genesis_changes);
        for block in blocks {
            tree.apply(&block.changes);
        }
        let head = Height(blocks.len() as u64);
        let RestartPoint { head, epoch, gas_in_second, hashes, .. } = self.restart_point(blocks, head, Resume::default());
        let start = ExecutionStart { state, tree, head, epoch, known: KnownVersions::default(), gas_in_second, hashes };
        ExecutionStage::new(self.genesis.clone(), self.vm.clone(), start)
    }
}

/// One node's execution.
pub struct Executor {
    executors: Rc<Executors>,
    state: State,
    head: B256,
    /// Blocks executed since the start and blocks from the disk, in case it must later execute for itself.
    blocks: Vec<Arc<CommittedBlock>>,
    own: Option<ExecutionStage>,
    /// Executes wrongly from now on, to test the checks.
    #[cfg(test)]
    pub tampered: bool,
}

impl Executor {
    /// Continues after `blocks`, whose state is `state`.
    pub fn new(executors: &Rc<Executors>, state: State, blocks: &[Arc<CommittedBlock>]) -> Self {
        let head = blocks.last().map_or_else(|| header_hash(&executors.genesis_header), |block| block.block.hash());
        let own = executors.shared.is_none().then(|| executors.stage(state.clone(), blocks));
        Self {
            executors: executors.clone(),
            state,
            head,
            blocks: blocks.to_vec(),
            own,
            #[cfg(test)]
            tampered: false,
        }
    }

    /// State after the newest executed block.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Executes the next block and applies it to the node's state.
    pub fn execute(&mut self, plan: BlockPlan) -> Executed {
        #[cfg(test)]
        let plan = if self.tampered { BlockPlan { randomness: B256::ZERO, ..plan } } else { plan };
        let executors = self.executors.clone();
        let executed = match (&mut self.own, &executors.shared) {
            (Some(stage), _) => executors.execute(stage, plan),
            (None, Some(lineage)) => match lineage.borrow_mut().execute(&executors, self.head, &plan) {
                Some(executed) => {
                    self.state.apply(executed.committed.block.height(), &executed.committed.changes);
                    executed
                }
                None => {
                    let mut stage = executors.stage(self.state.clone(), &self.blocks);
                    let executed = executors.execute(&mut stage, plan);
                    self.own = Some(stage);
                    executed
                }
            },
            (None, None) => unreachable!("a node that shares no execution has its own"),
        };
        self.head = executed.hash;
        if self.own.is_none() {
            self.blocks.push(executed.committed.clone());
        }
        executed
    }
}

impl Lineage {
    /// Returns the result of `plan` on top of `parent`, if they belong to this history.
    fn execute(&mut self, executors: &Executors, parent: B256, plan: &BlockPlan) -> Option<Executed> {
        if let Some((known, executed)) = self.blocks.get(&parent) {
            return (known == plan).then(|| executed.clone());
        }
        if parent != self.head {
            return None;
        }
        let executed = executors.execute(&mut self.stage, plan.clone());
        self.head = executed.hash;
        self.blocks.insert(parent, (plan.clone(), executed.clone()));
        Some(executed)
    }
}

/// Runs no transaction: only checks and increments nonces, so that pools progress.
fn count_only(view: &dyn StateView, candidates: &[Candidate]) -> BlockOutput {
    let mut changes = Changes::default();
    let mut receipts = Vec::with_capacity(candidates.len());
    let mut skipped = Vec::new();
    for (position, candidate) in (0u32..).zip(candidates) {
        match count_one(view, &mut changes, candidate) {
            Ok(receipt) => receipts.push(receipt),
            Err(reason) => skipped.push(Skipped { position, hash: keccak256(&candidate.raw), reason }),
        }
    }
    BlockOutput {
        transactions_root: corniche_crypto::digest(
            &receipts.iter().flat_map(|receipt| receipt.transaction_hash.0).collect::<Vec<_>>(),
        ),
        receipts_root: B256::ZERO,
        receipts,
        skipped,
        changes,
        gas_used: 0,
        logs_bloom: Default::default(),
    }
}

fn count_one(view: &dyn StateView, changes: &mut Changes, candidate: &Candidate) -> Result<Receipt, SkipReason> {
    let transaction = candidate.verified.as_ref().map_err(|reason| *reason)?;
    let sender = transaction.sender();
    let known = changes.accounts.get(&sender).cloned().unwrap_or_else(|| view.account(&sender));
    let mut account = known.unwrap_or_default();
    match transaction.nonce().cmp(&account.nonce) {
        std::cmp::Ordering::Less => return Err(SkipReason::NonceTooLow),
        std::cmp::Ordering::Greater => return Err(SkipReason::NonceTooHigh),
        std::cmp::Ordering::Equal => account.nonce += 1,
    }
    changes.accounts.insert(sender, Some(account));
    Ok(Receipt {
        transaction_hash: transaction.hash(),
        type_byte: 2,
        success: true,
        gas_used: 0,
        cumulative_gas_used: 0,
        effective_gas_price: 0,
        sender,
        to: None,
        contract_address: None,
        logs: Vec::new(),
        output: Bytes::new(),
    })
}
