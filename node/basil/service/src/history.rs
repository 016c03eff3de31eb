//! Checks everything that a gateway has on disk, without trust in the gateway.

use crate::keys::MemberKeys;
use crate::ledger::{Ledger, Records, lists};
use crate::members::Members;
use anyhow::{Context, ensure};
use corniche_basil::attestation::{CheckedRoots, Checker};
use corniche_basil::certificate::check_closed;
use corniche_basil::checker;
use corniche_basil::shared::Shared;
use corniche_basil_contracts::{chain, keys};
use corniche_state::{Overlay, State, Tree};
use corniche_store::{Reader, genesis_block};
use corniche_types::{Genesis, Height};

/// A history without a contradiction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedHistory {
    pub transactions: usize,
    pub blocks: u64,
    /// The newest block whose contents the replicas signed.
    pub certified: u64,
}

/// Checks that every transaction has a valid certificate, runs, and read what the ones before it wrote; that the blocks contain exactly
/// these transactions; that their headers have the states after them; and the certificates of blocks.
///
/// # Errors
///
/// The first contradiction.
pub fn check(genesis: &Genesis, members: &Members, ledger: &Ledger) -> anyhow::Result<CheckedHistory> {
    let (records, reader, head) = (ledger.records(), ledger.reader(), ledger.head());
    let decided: Vec<_> = (1..=head.0).map(|number| records.decided(Height(number))).collect();
    let signatures = MemberKeys::of(genesis);
    let before = genesis_block(genesis);
    let all: Vec<_> = decided.iter().flatten().cloned().map(Shared::new).collect();
    let values = chain::genesis(&before.changes);
    let history = checker::check(&members.shards, &signatures, &all, &values, ledger.chain()).map_err(anyhow::Error::msg)?;
    ensure!(history.aborts == 0, "{} aborted transactions are in blocks", history.aborts);
    let state = State::with_seed(0);
    state.apply(Height(0), &before.changes);
    let mut tree = Tree::default();
    tree.apply(&before.changes);
    for (height, decided) in (1..).map(Height).zip(&decided) {
        let block = reader.block(height).with_context(|| format!("block {height} is missing"))?;
        let ordered = block.block().ordered.iter().map(|transaction| &transaction.raw);
        ensure!(
            ordered.eq(decided.iter().map(|decided| &decided.transaction.call)),
            "block {height} has other transactions than those with certificates"
        );
        let mut changes = corniche_state::Changes::default();
        let base = state.latest();
        for decided in decided {
            let made = keys::changes(&decided.transaction.writes, &Overlay { base: &base, changes: &changes });
            changes.merge(made);
        }
        state.apply(height, &changes);
        state.prune_below(height);
        ensure!(
            tree.apply(&changes) == block.header().state_root,
            "block {height} has another state root than its transactions"
        );
    }
    let certified = check_certificates(members, ledger, &records, &signatures, &reader)?;
    Ok(CheckedHistory { transactions: history.commits, blocks: head.0, certified: certified.0 })
}

fn check_certificates(
    members: &Members,
    ledger: &Ledger,
    records: &Records,
    signatures: &MemberKeys,
    reader: &Reader,
) -> anyhow::Result<Height> {
    let mut roots = CheckedRoots::default();
    let mut certified = Height(0);
    while let Some((blocks, certificate)) = records.certificate(certified.next()) {
        let (first, last) = (*blocks.start(), *blocks.end());
        ensure!(last <= reader.head().height().0, "there is a certificate of block {last}, which is missing");
        let (from_us, below_us) = (ledger.start_us(first), ledger.start_us(last + 1));
        let lists = lists(members, blocks.flat_map(|number| records.decided(Height(number))));
        let mut checker = Checker::new(&members.shards, signatures, &mut roots);
        check_closed(from_us, below_us, &lists, &certificate, &mut checker)
            .with_context(|| format!("certificate of blocks {first} to {last}"))?;
        certified = Height(last);
    }
    Ok(certified)
}
