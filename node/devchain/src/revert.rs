//! Undoing blocks in the store.

use anyhow::Context;
use corniche_rpc::ChainBlock;
use corniche_service::Journal;
use corniche_state::{Changes, StateView};
use corniche_store::{Reader, Store};
use corniche_types::{Height, Resume};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Values at `to` of the keys that were written above it.
pub fn values_before(reader: &Reader, to: Height, then: &dyn StateView) -> Changes {
    let mut before = Changes::default();
    for block in (to.0 + 1..=reader.head().height().0).filter_map(|height| reader.block(Height(height))) {
        let written = &block.committed.changes;
        before.accounts.extend(written.accounts.keys().map(|address| (*address, then.account(address))));
        before.storage.extend(written.storage.keys().map(|(address, slot)| ((*address, *slot), then.storage(address, slot))));
    }
    before
}

/// Reverted blocks with logs. Subscribers are notified of removed logs, so blocks without logs are not read.
pub fn removed_blocks(reader: &Reader, to: Height) -> Vec<Arc<ChainBlock>> {
    let above = (to.0 + 1..=reader.head().height().0).map(Height);
    let with_logs = above.filter(|height| reader.header(*height).is_some_and(|header| !header.logs_bloom.is_zero()));
    let block =
        |height| reader.block(height).map(|stored| ChainBlock::new(stored.block(), stored.hash, stored.receipts().to_vec()));
    with_logs.filter_map(block).map(Arc::new).collect()
}

/// Reverts blocks. Deletes the journal of users' transactions first: after a crash in between, transactions
/// of the reverted blocks would be admitted again.
pub fn revert_store(store: &mut Store, data: &Path, to: Height, resume: &Resume, before: &Changes) -> anyhow::Result<()> {
    Journal::remove(data)?;
    Ok(store.revert_to(to, resume, before)?)
}

/// Location of the old data directory during a reset.
pub fn old_data(data: &Path) -> PathBuf {
    data.with_extension("old")
}

/// Removes the old data after a reset. It is not needed, so errors are only logged.
pub fn remove_old_data(data: &Path) {
    if let Err(error) = remove(&old_data(data)) {
        tracing::warn!("{error:#}");
    }
}

pub fn remove(directory: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::TxEip1559;
    use corniche_console::dev_accounts::dev_accounts;
    use corniche_crypto::VerifiedTransaction;
    use corniche_service::{NetworkSpec, make_network};
    use corniche_store::{
        Options, genesis_block,
        probe::{Probe, Step},
    };
    use corniche_types::{EngineConfig, Genesis, TimestampMs};
    use std::{
        io,
        sync::atomic::{AtomicUsize, Ordering},
    };

    const CHAIN: u64 = 7;

    fn genesis() -> Genesis {
        let engine = EngineConfig { name: "none".into(), parameters: Default::default() };
        let (chain_id, timestamp_ms) = (Some(CHAIN), TimestampMs(1));
        let spec = NetworkSpec { validators: 1, chain_id, timestamp_ms, seed: [1; 32], ..NetworkSpec::new(engine) };
        make_network(&spec).unwrap().genesis
    }

    fn transfer() -> VerifiedTransaction {
        let transfer = TxEip1559 { chain_id: CHAIN, gas_limit: 21_000, max_fee_per_gas: 1, ..Default::default() };
        corniche_admission::check(dev_accounts()[0].key.sign(transfer), CHAIN).unwrap()
    }

    /// Fails every disk operation from this number on.
    struct PowerCut(AtomicUsize);

    impl Probe for PowerCut {
        fn before(&self, _: &Step<'_>) -> io::Result<()> {
            let left = self.0.load(Ordering::Relaxed);
            self.0.store(left.saturating_sub(1), Ordering::Relaxed);
            if left == 0 { Err(io::Error::other("the power failed")) } else { Ok(()) }
        }
    }

    fn open(data: &Path, probe: Option<Arc<PowerCut>>) -> Store {
        let probe = probe.map(|probe| probe as Arc<dyn Probe>);
        Store::open(data, &genesis(), Options { probe, ..Options::default() }).unwrap().0
    }

    /// Eight blocks; every third has logs.
    fn sample(data: &Path) -> Store {
        let mut store = open(data, None);
        let mut block = genesis_block(&genesis());
        block.changes = Changes::default();
        for number in 1..=8 {
            block.block.header.parent_hash = block.block.hash();
            block.block.header.number = number;
            block.block.header.logs_bloom.0.fill(u8::from(number % 3 == 0));
            store.append_block(block.clone()).unwrap();
        }
        store.sync().unwrap();
        store
    }

    #[test]
    fn crash_during_revert_restores_no_transactions() {
        let mut outcomes = [0, 0];
        for step in 0.. {
            let directory = tempfile::tempdir().unwrap();
            let data = directory.path();
            drop(sample(data));
            // Perhaps executed; a journal keeps it for a while.
            Journal::open(data).0.add(&transfer());
            let probe = Arc::new(PowerCut(usize::MAX.into()));
            let mut store = open(data, Some(probe.clone()));
            probe.0.store(step, Ordering::Relaxed);
            let reverted = revert_store(&mut store, data, Height(4), &Resume::default(), &Changes::default());
            drop(store);
            let store = open(data, None);
            let is_reverted = store.reader().head().height() == Height(4);
            assert!(!is_reverted || Journal::open(data).1.is_empty(), "{step}");
            outcomes[usize::from(is_reverted)] += 1;
            if reverted.is_ok() {
                assert!(is_reverted);
                break;
            }
        }
        assert!(outcomes[1] > 1, "some crashed after it was decided: {outcomes:?}");
    }

    #[test]
    fn only_reverted_blocks_with_logs_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        let reader = sample(directory.path()).reader();
        let heights = |to| removed_blocks(&reader, Height(to)).iter().map(|block| block.height().0).collect::<Vec<_>>();
        assert_eq!([heights(0), heights(3), heights(8)], [vec![3, 6], vec![6], vec![]]);
    }
}
