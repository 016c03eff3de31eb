//! Responses are bounded, whatever is asked.
#![allow(clippy::unwrap_used)] // also in helpers

use corniche_sync::message::{MAX_CHANGES, PART_BYTES};
use corniche_sync::{Offer, SnapshotSource, StateRequest, StateResponse, serve};
use corniche_types::*;
use std::cell::Cell;

/// A source of everything, which counts what is read.
struct Endless {
    chunk_bytes: usize,
    members: usize,
    reads: Cell<usize>,
}

impl Endless {
    fn with(chunk_bytes: usize, members: usize) -> Self {
        Self { chunk_bytes, members, reads: Cell::new(0) }
    }

    fn respond(&self, request: StateRequest) -> (StateResponse, usize) {
        let bytes = serve(request, self);
        assert!(bytes.len() < 16 << 20, "the transport carries 16 MiB");
        (StateResponse::decode(&bytes).unwrap(), bytes.len())
    }
}

impl SnapshotSource for Endless {
    fn certified(&self) -> Height {
        Height(9)
    }

    fn epoch_change(&self, epoch: Epoch) -> Option<EpochChange> {
        self.reads.set(self.reads.get() + 1);
        let certificate = Certificate {
            epoch,
            committee_hash: B256::ZERO,
            height: Height(1),
            header_hash: B256::ZERO,
            fault_model: FaultModel::Byzantine,
            signers: SignerBitmap(Bytes::new()),
            signature: Bytes::new(),
        };
        let member = LightMember { bls_key: [1; 96], votes: Votes(1) };
        let members = Some(vec![member; self.members]);
        Some(EpochChange { header: Header::default(), head: Bytes::new(), certificate, members })
    }

    fn offers(&self) -> Vec<Offer> {
        vec![Offer { height: Height(1), header_hash: B256::ZERO, manifest: B256::ZERO, manifest_bytes: 1 }; 100]
    }

    fn manifest_part(&self, _: &B256, offset: u64, length: usize) -> Option<Bytes> {
        let whole = 2 * PART_BYTES as u64 + 7;
        Some(vec![1; whole.saturating_sub(offset).min(length as u64) as usize].into())
    }

    fn chunk(&self, _: &B256, index: u32) -> Option<Bytes> {
        self.reads.set(self.reads.get() + 1);
        (index < 1_000).then(|| vec![index as u8; self.chunk_bytes].into())
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        (hash[0] < 200).then(|| vec![hash[0]; self.chunk_bytes].into())
    }

    fn tail_part(&self, _: &B256, offset: u64, length: usize) -> Option<Bytes> {
        let whole = 2 * PART_BYTES as u64;
        Some(vec![1; whole.checked_sub(offset)?.min(length as u64) as usize].into())
    }
}

#[test]
fn chunks_are_bounded_and_there_is_at_least_one() {
    let chunks = |bytes: usize, indexes: &[u32]| {
        let request = StateRequest::Chunks { manifest: B256::ZERO, indexes: indexes.to_vec() };
        match Endless::with(bytes, 0).respond(request).0 {
            StateResponse::Chunks(chunks) => chunks.iter().map(|chunk| chunk[0]).collect(),
            StateResponse::NotHere => Vec::new(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(chunks(1 << 20, &[4, 3, 2, 1]), [4, 3, 2, 1]);
    assert_eq!(chunks((1 << 20) + 1, &[4, 3, 2, 1]), [4, 3, 2]);
    assert_eq!(chunks(8 << 20, &[4, 3]), [4]);
    assert_eq!(chunks(9, &[4, 1_000, 3]), [4], "chunks come in the requested order");
    assert!(chunks(9, &[1_000, 4]).is_empty());
    assert!(chunks(9, &[]).is_empty());
}

#[test]
fn codes_that_are_missing_are_empty() {
    let hashes = [1, 250, 2].map(B256::repeat_byte).to_vec();
    let (response, _) = Endless::with(3, 0).respond(StateRequest::Codes { hashes });
    assert_eq!(response, StateResponse::Codes(vec![vec![1; 3].into(), Bytes::new(), vec![2; 3].into()]));
    let hashes = vec![B256::repeat_byte(1); 256];
    let (_, bytes) = Endless::with(100_000, 0).respond(StateRequest::Codes { hashes });
    assert!((4_000_000..4 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn epoch_changes_are_bounded() {
    for (members, expected) in [(0, MAX_CHANGES), (300, MAX_CHANGES), (1_000, 41)] {
        let source = Endless::with(0, members);
        let (response, bytes) = source.respond(StateRequest::EpochChanges { from: Epoch(5) });
        let StateResponse::EpochChanges(changes) = response else { panic!("{response:?}") };
        assert!(bytes < (4 << 20) + 1_000 && source.reads.get() <= MAX_CHANGES);
        assert_eq!((changes.len(), changes[0].certificate.epoch), (expected, Epoch(5)));
    }
    let (response, _) = Endless::with(0, 0).respond(StateRequest::EpochChanges { from: Epoch(u64::MAX) });
    assert!(matches!(response, StateResponse::EpochChanges(changes) if changes.len() == 1));
}

#[test]
fn manifests_and_tails_come_in_parts() {
    let length = |request| match Endless::with(0, 0).respond(request).0 {
        StateResponse::Part(bytes) => Some(bytes.len()),
        _ => None,
    };
    let parts = [0, 1, 2, 3, u32::MAX];
    let manifest = parts.map(|part| length(StateRequest::Manifest { hash: B256::ZERO, part }));
    assert_eq!(manifest, [Some(PART_BYTES), Some(PART_BYTES), Some(7), None, None]);
    let tail = parts.map(|part| length(StateRequest::Tail { manifest: B256::ZERO, part }));
    assert_eq!(tail, [Some(PART_BYTES), Some(PART_BYTES), Some(0), None, None]);
}

#[test]
fn at_most_8_snapshots_are_offered() {
    let (response, _) = Endless::with(0, 0).respond(StateRequest::Snapshots);
    assert!(matches!(response, StateResponse::Snapshots { certified: Height(9), offers } if offers.len() == 8));
}
