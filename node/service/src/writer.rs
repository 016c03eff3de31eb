//! Writer thread: processes jobs in order with group commits, and monitors the free space.

use crate::shared::{Shared, count};
use corniche_engine::Ticket;
use corniche_pipeline::Input;
use corniche_rpc::ChainEvent;
use corniche_state::CommittedBlock;
use corniche_store::{Space, Store, StoreError};
use corniche_types::{Bytes, Certificate, Resume};
use std::{
    sync::{Arc, atomic::Ordering, mpsc},
    time::{Duration, Instant},
};

/// Job for the writer thread; jobs are processed in order.
pub enum WriteJob {
    Record(Ticket, Bytes),
    ReleaseBelow(Ticket),
    ReadSafetyLog,
    Block(Arc<CommittedBlock>),
    Certificate(Certificate),
    Progress(Resume),
    /// Last job of this node.
    Halt {
        reason: String,
        certificate: Option<Certificate>,
    },
}

/// Interval of free-space checks while there are writes.
const SPACE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Group commit: takes all available jobs, appends them, syncs once, then reports them.
pub fn run_writer(mut store: Store, writes: &mpsc::Receiver<WriteJob>, shared: &Shared) {
    let mut space_checked = None::<Instant>;
    while let Ok(first) = writes.recv() {
        let mut group = vec![first];
        group.extend(writes.try_iter().take(1_023));
        if let Err(error) = write_group(&mut store, group, shared) {
            return shared.halt(format!("the disk failed: {error}"));
        }
        if space_checked.is_none_or(|at| at.elapsed() >= SPACE_CHECK_INTERVAL) {
            space_checked = Some(Instant::now());
            if let Err(reason) = check_space(&store, shared) {
                return shared.halt(reason);
            }
        }
    }
    if shared.return_store.load(Ordering::Relaxed) {
        *shared.returned_store.lock().expect("invariant: nobody panics while holding the store") = Some(store);
    }
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

fn write_group(store: &mut Store, group: Vec<WriteJob>, shared: &Shared) -> Result<(), StoreError> {
    let mut appended: Vec<Arc<CommittedBlock>> = Vec::new();
    let mut finalized = None;
    let (mut release, mut diverged) = (None, None);
    let mut read_safety_log = false;
    for write in group {
        match write {
            WriteJob::Record(ticket, record) => {
                // An engine that lost its history writes no records until it has learned it again.
                if store.is_history_lost() {
                    store.append_history_known()?;
                }
                store.append_safety(ticket, &record)?;
            }
            WriteJob::ReleaseBelow(ticket) => release = Some(ticket),
            WriteJob::ReadSafetyLog => read_safety_log = true,
            WriteJob::Block(block) => {
                store.append_block(block.clone())?;
                shared.set_resume(block.resume.clone());
                appended.push(block);
            }
            WriteJob::Certificate(certificate) => {
                finalized = Some(certificate.height);
                store.append_certificate(&certificate)?;
            }
            WriteJob::Progress(resume) => {
                store.append_progress(&resume)?;
                shared.set_resume(resume);
            }
            WriteJob::Halt { reason, certificate } => {
                if let Some(certificate) = certificate {
                    store.append_divergence(&certificate)?;
                }
                diverged = Some(reason);
            }
        }
    }
    let synced = store.sync()?;
    for ticket in synced.tickets {
        shared.inbox.push_response(Input::Durable(ticket));
    }
    for block in &appended {
        let height = block.block.height();
        shared.counters.head.store(height.0, Ordering::Relaxed);
        count(&shared.counters.executed, block.receipts.len());
        count(&shared.counters.skipped, block.block.ordering.skipped.len());
        let _ = shared.events.send(ChainEvent::Head(height));
    }
    if let Some(block) = appended.last() {
        shared.inbox.push_response(Input::Appended(block.block.height()));
    }
    if let Some(height) = finalized {
        shared.counters.finalized.store(height.0, Ordering::Relaxed);
        let _ = shared.events.send(ChainEvent::Finalized(height));
    }
    // After the sync, because only durable data makes a record unnecessary.
    if let Some(ticket) = release {
        store.release_safety_below(ticket)?;
    }
    if let Some(reason) = diverged {
        shared.halt(reason);
    }
    if read_safety_log {
        shared.inbox.push_response(Input::SafetyLog(store.safety_records()?));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        inbox::Received,
        testing::{genesis, transfer},
    };
    use corniche_store::Options;
    use corniche_types::CommitIndex;

    /// Store with these limits, in bytes.
    fn store(directory: &std::path::Path, low_space_bytes: u64, exhausted_space_bytes: u64) -> Store {
        let options = Options { low_space_bytes, exhausted_space_bytes, ..Options::default() };
        Store::open(directory, &genesis(), options).unwrap().0
    }

    fn write_once(store: Store, shared: &Shared) {
        let (writes, jobs) = mpsc::channel();
        writes.send(WriteJob::Progress(Resume { index: CommitIndex(1), checkpoint: Bytes::new() })).unwrap();
        drop(writes);
        run_writer(store, &jobs, shared);
    }

    #[test]
    fn nearly_full_disk_pauses_admission() {
        let directory = tempfile::tempdir().unwrap();
        let shared = Shared::new(10, 1);
        write_once(store(directory.path(), u64::MAX, 0), &shared);
        let refused = shared.submit(transfer(0, 1)).try_recv().unwrap().unwrap_err();
        assert!(refused.message.starts_with("node does not accept transactions now: the disk is nearly full"), "{refused}");
        assert!(matches!(shared.inbox.receive(Some(Duration::ZERO), true), Received::TimedOut), "the node goes on");
        write_once(store(directory.path(), 0, 0), &shared);
        let mut waiting = shared.submit(transfer(0, 1));
        assert!(waiting.try_recv().is_err(), "it is admission's turn");
        assert!(matches!(shared.inbox.receive(None, true), Received::Item(Input::Submit { .. })));
    }

    #[test]
    fn full_disk_stops_node() {
        let directory = tempfile::tempdir().unwrap();
        let shared = Shared::new(10, 1);
        write_once(store(directory.path(), u64::MAX, u64::MAX), &shared);
        assert!(matches!(shared.inbox.receive(None, true), Received::Closed));
        let reason = futures::executor::block_on(shared.halted());
        assert!(reason.contains("the disk is full"), "{reason}");
    }
}
