//! Checks everything that a gateway has on disk, without trust in the gateway.

use crate::block::BlockRules;
use crate::certified_blocks::CertifiedBlocks;
use crate::keys::MemberSignatures;
use crate::ledger::Ledger;
use crate::members::Members;
use anyhow::{Context, ensure};
use corniche_basil::checker;
use corniche_basil::shared::Shared;
use corniche_basil_contracts::chain;
use corniche_state::{State, Tree};
use corniche_store::genesis_block;
use corniche_types::{Genesis, Height};

/// A history without a contradiction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedHistory {
    pub transactions: usize,
    pub blocks: u64,
    /// The newest block whose transactions the replicas listed in a certificate.
    pub certified: u64,
}

/// Checks that every transaction has a valid certificate, runs, and read what the ones before it wrote; that the blocks are exactly those
/// that follow from these transactions; and the certificates of blocks.
///
/// # Errors
///
/// The first contradiction.
pub fn check(genesis: &Genesis, members: &Members, ledger: &Ledger) -> anyhow::Result<CheckedHistory> {
    let (archive, reader, head) = (ledger.archive(), ledger.reader(), ledger.head());
    let decided = |number| Ok(archive.decided(Height(number))?.into_iter().map(Shared::new).collect::<Vec<_>>());
    let blocks: Vec<_> = (1..=head.0).map(decided).collect::<anyhow::Result<_>>()?;
    let signatures = MemberSignatures::of(genesis, members);
    let before = genesis_block(genesis);
    let all: Vec<_> = blocks.iter().flatten().cloned().collect();
    let values = chain::genesis(&before.changes);
    let history = checker::check(&members.shards, &signatures, &all, &values, ledger.chain()).map_err(anyhow::Error::msg)?;
    ensure!(history.aborts == 0, "{} aborted transactions are in blocks", history.aborts);
    let state = State::with_seed(0);
    state.apply(Height(0), &before.changes);
    let mut tree = Tree::default();
    tree.apply(&before.changes);
    let rules = BlockRules { members, genesis, chain: ledger.chain() };
    let mut parent = (Height(0), before.block.hash());
    for decided in &blocks {
        let made = rules.make(parent, &state.latest(), decided, |changes| tree.apply(changes))?;
        parent = (parent.0.next(), made.block.hash());
        let stored = reader.block(parent.0).with_context(|| format!("block {} is missing", parent.0))?;
        let is_equal = stored.block() == &made.block && stored.receipts() == made.receipts;
        ensure!(is_equal, "block {} differs from the one that its transactions make", parent.0);
        state.apply(parent.0, &made.changes);
        state.prune_below(parent.0);
    }
    let mut certified = Height(0);
    while let Some((covered, certificate)) = archive.certificate(certified.next()) {
        let (first, last) = (*covered.start(), *covered.end());
        ensure!(last <= head.0, "there is a certificate of block {last}, which is missing");
        let decided = covered.map(|number| archive.decided(Height(number))).collect::<anyhow::Result<_>>()?;
        let blocks = CertifiedBlocks { first, blocks: decided, certificate };
        let checked = blocks.check(&members.shards, &signatures, |number| ledger.start_us(number));
        checked.map_err(anyhow::Error::msg).with_context(|| format!("certificate of blocks {first} to {last}"))?;
        certified = Height(last);
    }
    Ok(CheckedHistory { transactions: history.commits, blocks: head.0, certified: certified.0 })
}
