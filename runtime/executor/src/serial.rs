//! Serial execution in commit order: the reference for the parallel executor.

use crate::{BlockOutput, Candidate};
use corniche_state::{Changes, Overlay, StateView};
use corniche_types::Address;
use corniche_vm::{BlockEnv, NotExecuted, Vm};

/// Executes the candidates in order on top of `view`. Tips go to the fee address of each candidate's author
/// (`fee_addresses[author]`; the block's coinbase for an author that is not in the committee).
///
/// # Panics
/// Panics on a fault of this node ([`corniche_vm::Fault`]), which is a broken invariant. No transaction can cause a
/// fault. Continuing would make this node disagree with all others.
pub fn execute_block(
    vm: &Vm,
    view: &dyn StateView,
    env: &BlockEnv,
    candidates: &[Candidate],
    fee_addresses: &[Address],
) -> BlockOutput {
    let mut changes = Changes::default();
    let mut receipts = Vec::with_capacity(candidates.len());
    let mut executed = Vec::with_capacity(candidates.len());
    let mut skipped = Vec::new();
    for (position, candidate) in candidates.iter().enumerate() {
        let transaction = match &candidate.verified {
            Ok(transaction) => transaction,
            Err(reason) => {
                skipped.push(candidate.skipped(position, *reason));
                continue;
            }
        };
        let tip_to = fee_addresses.get(candidate.author.as_usize()).copied().unwrap_or(env.coinbase);
        let now = Overlay { base: view, changes: &changes };
        match vm.transact(&now, env, transaction, tip_to) {
            Ok(result) => {
                receipts.push(result.receipt);
                let added = result.additions.resolve(&now);
                changes.merge(result.changes);
                changes.merge(added);
                executed.push(candidate.raw.clone());
            }
            Err(NotExecuted::Skipped(reason)) => skipped.push(candidate.skipped(position, reason)),
            Err(NotExecuted::Interrupted) => unreachable!("a serial run is never interrupted"),
            Err(NotExecuted::Fault(fault)) => panic!("block {}, transaction {position}: {fault}", env.number),
        }
    }
    BlockOutput::new(receipts, skipped, changes, &executed)
}
