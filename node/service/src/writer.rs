//! Writer thread: makes groups of writes durable, and monitors the free space.

use crate::shared::{Shared, count};
use corniche_pipeline::{Event, Write};
use corniche_rpc::ChainEvent;
use corniche_state::CommittedBlock;
use corniche_store::{Space, Store, StoreError};
use corniche_types::{Certificate, Height, wire};
use std::{
    sync::{Arc, atomic::Ordering, mpsc},
    time::{Duration, Instant},
};

/// Interval of free-space checks, and of deletions of old blocks, while there are writes.
const SPACE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of groups that are synced together.
const MAX_GROUPS: usize = 1_024;

/// Group commit: appends all groups that wait, syncs once, then reports them together. Keeps `kept_blocks` blocks, or all.
pub fn run_writer(mut store: Store, groups: &mpsc::Receiver<Vec<Write>>, kept_blocks: Option<u64>, shared: &Shared) {
    let mut space_checked = None::<Instant>;
    while let Ok(first) = groups.recv() {
        let waiting = groups.try_iter().take(MAX_GROUPS - 1);
        if let Err(error) = write_groups(&mut store, [first].into_iter().chain(waiting).collect(), shared) {
            return shared.halt(format!("the disk failed: {error}"));
        }
        if space_checked.is_none_or(|at| at.elapsed() >= SPACE_CHECK_INTERVAL) {
            space_checked = Some(Instant::now());
            if let Err(reason) = check_space(&store, shared) {
                return shared.halt(reason);
            }
            if let Some(Err(error)) = kept_blocks.map(|kept| prune(&mut store, kept)) {
                return shared.halt(format!("the disk failed: {error}"));
            }
        }
    }
    if shared.return_store.load(Ordering::Relaxed) {
        *shared.returned_store.lock().expect("invariant: nobody panics while holding the store") = Some(store);
    }
}

/// Deletes some of the blocks more than this number below the head.
fn prune(store: &mut Store, kept: u64) -> Result<(), StoreError> {
    let (head, before) = (store.reader().head().height(), store.reader().first_block());
    let first = store.prune_below(Height(head.0.saturating_sub(kept)))?;
    if first > before {
        tracing::info!(first = first.0, "deleted old blocks");
    }
    Ok(())
}

/// A nearly full disk first stops admission, then the node, cleanly (design §6).
fn check_space(store: &Store, shared: &Shared) -> Result<(), String> {
    let space = store.space().map_err(|error| error.to_string())?;
    let low = space != Space::Enough;
    if shared.disk_nearly_full.swap(low, Ordering::Relaxed) != low {
        tracing::warn!(
            ?space,
            "{}",
            if low { "the disk is nearly full; transactions are refused" } else { "the disk has room again" }
        );
    }
    match space {
        Space::Exhausted => Err("the disk is full; free some space and start the node again".into()),
        Space::Enough | Space::Low => Ok(()),
    }
}

/// Makes groups durable together, then reports them.
fn write_groups(store: &mut Store, groups: Vec<Vec<Write>>, shared: &Shared) -> Result<(), StoreError> {
    let count = groups.len();
    let reads = groups.iter().flatten().any(|write| matches!(write, Write::ReadSafetyLog));
    write(store, groups.into_iter().flatten(), shared)?;
    let safety_log = reads.then(|| store.safety_records()).transpose()?;
    shared.inbox.push_response(Event::Written { groups: count, safety_log });
    Ok(())
}

fn write(store: &mut Store, writes: impl Iterator<Item = Write>, shared: &Shared) -> Result<(), StoreError> {
    let mut appended: Vec<Arc<CommittedBlock>> = Vec::new();
    let (mut certificate, mut release) = (None, None);
    for write in writes {
        match write {
            Write::Record(ticket, record) => {
                // An engine that lost its history writes no records until it has learned it again.
                if store.is_history_lost() {
                    store.append_history_known()?;
                }
                store.append_safety(ticket, &record)?;
            }
            Write::ReleaseBelow(ticket) => release = Some(ticket),
            Write::ReadSafetyLog => {}
            Write::Block(block) => {
                store.append_block(block.clone())?;
                shared.set_resume(block.resume.clone());
                appended.push(block);
            }
            Write::Certificate(next) => {
                store.append_certificate(&next)?;
                certificate = Some(next);
            }
            Write::Progress(resume) => {
                store.append_progress(&resume)?;
                shared.set_resume(resume);
            }
            Write::Evidence(evidence) => {
                let bytes = wire::encode(&evidence);
                store.directory().write_evidence(&format!("{:x}", evidence.id()), &bytes)?;
            }
            Write::Halt { evidence } => {
                if let Some(evidence) = evidence {
                    store.append_divergence(&evidence)?;
                }
            }
        }
    }
    store.sync()?;
    publish(&appended, certificate.as_ref(), shared);
    // After the sync, because only durable data makes a record unnecessary.
    if let Some(ticket) = release {
        store.release_safety_below(ticket)?;
    }
    Ok(())
}

/// Tells RPC about durable blocks and their newest certificate.
fn publish(appended: &[Arc<CommittedBlock>], certificate: Option<&Certificate>, shared: &Shared) {
    for block in appended {
        let height = block.block.height();
        shared.counters.head.store(height.0, Ordering::Relaxed);
        count(&shared.counters.executed, block.receipts.len());
        count(&shared.counters.skipped, block.block.ordering.skipped.len());
        let _ = shared.events.send(ChainEvent::Head(height));
    }
    if let Some(Certificate { height, .. }) = certificate {
        shared.counters.finalized.store(height.0, Ordering::Relaxed);
        let _ = shared.events.send(ChainEvent::Finalized(*height));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        inbox::Received,
        testing::{committee, genesis, transfer},
    };
    use corniche_pipeline::Input;
    use corniche_store::Options;
    use corniche_types::{Bytes, CommitIndex, Resume};

    /// Store with these limits, in bytes.
    fn store(directory: &std::path::Path, low_space_bytes: u64, exhausted_space_bytes: u64) -> Store {
        let options = Options { low_space_bytes, exhausted_space_bytes, ..Options::default() };
        Store::open(directory, &genesis(), options).unwrap().0
    }

    fn write_once(store: Store, shared: &Shared) {
        let (groups, groups_in) = mpsc::channel();
        groups
            .send(vec![Write::Progress(Resume { index: CommitIndex(1), checkpoint: Bytes::new(), ..Resume::default() })])
            .unwrap();
        drop(groups);
        run_writer(store, &groups_in, None, shared);
    }

    #[test]
    fn nearly_full_disk_pauses_admission() {
        let directory = tempfile::tempdir().unwrap();
        let shared = Shared::new(10, 1, committee());
        write_once(store(directory.path(), u64::MAX, 0), &shared);
        let refused = shared.submit(transfer(0, 1)).try_recv().unwrap().unwrap_err();
        assert!(refused.message.starts_with("node does not accept transactions now: the disk is nearly full"), "{refused}");
        let received = || shared.inbox.receive(Some(Duration::ZERO), true);
        assert!(matches!(received(), Received::Item(Event::Written { groups: 1, safety_log: None })));
        assert!(matches!(received(), Received::TimedOut), "the node goes on");
        write_once(store(directory.path(), 0, 0), &shared);
        assert!(matches!(received(), Received::Item(Event::Written { groups: 1, safety_log: None })));
        let mut waiting = shared.submit(transfer(0, 1));
        assert!(waiting.try_recv().is_err(), "it is admission's turn");
        assert!(matches!(shared.inbox.receive(None, true), Received::Item(Event::Input(Input::Submit { .. }))));
    }

    #[test]
    fn full_disk_stops_node() {
        let directory = tempfile::tempdir().unwrap();
        let shared = Shared::new(10, 1, committee());
        write_once(store(directory.path(), u64::MAX, u64::MAX), &shared);
        assert!(matches!(shared.inbox.receive(None, true), Received::Closed));
        let halted = futures::executor::block_on(shared.halted());
        assert!(halted.reason.contains("the disk is full"), "{halted}");
    }
}
