//! A snapshot disappears while it is fetched (mechanism 34). Equal chunks are kept, and two manifests are never mixed (B35).
#![allow(clippy::unwrap_used)] // also in helpers

mod common;

use common::chain::{Chain, Library, SNAPSHOTS};
use common::network::{Network, Peer, START};
use corniche_sync::Output;
use corniche_types::Height;
use std::rc::Rc;

/// Fetches the first snapshot until `chunks` are kept, then all peers have the next one only.
fn expired_after(chain: &Rc<Chain>, chunks: usize) -> Network {
    let peers = (0..4).map(|_| Peer::honest(Library::with(chain, 0)));
    let mut network = Network::new(chain, peers.collect());
    let mut kept = 0;
    network.run_until(|output| {
        kept += usize::from(matches!(output, Output::KeepChunk { .. }));
        kept == chunks
    });
    for peer in 0..4 {
        network.library_at(network.now, peer, Library::with(chain, 1));
    }
    network
}

#[test]
fn equal_chunks_are_kept() {
    let chain = Chain::new();
    let all = chain.snapshots[1].manifest.chunks.len();
    for restarts in [false, true] {
        let mut network = expired_after(&chain, 40);
        network.run_until(|output| matches!(output, Output::KeepChunk { .. }));
        if restarts {
            network.restart();
        }
        network.run();
        assert_eq!(network.assert_installed().height, Height(SNAPSHOTS[1]));
        // Requests under way when the snapshot expired brought some more.
        let fetched = network.log.iter().filter(|(_, output)| matches!(output, Output::KeepChunk { .. })).count();
        assert!((20..=56).contains(&network.reused), "{} of {all} chunks", network.reused);
        assert!(fetched < all + 40, "{fetched} of {all} chunks");
        assert!(network.bans.is_empty(), "{:?}", network.bans);
        assert!(network.now < START + 60_000, "it does not wait until the snapshot made no progress for 120 s");
    }
}

/// Power goes off right after the switch, and at every file that follows.
#[test]
fn a_restart_after_the_switch_goes_on_with_the_new_manifest() {
    let chain = Chain::new();
    let mut network = expired_after(&chain, 30);
    let is_file = |output: &Output| matches!(output, Output::Keep { .. } | Output::KeepChunk { .. } | Output::KeepCode { .. });
    while network.run_until(is_file) {
        network.restart();
    }
    assert_eq!(network.assert_installed().height, Height(SNAPSHOTS[1]));
    let manifests = network.log.iter().filter(|(_, output)| matches!(output, Output::Keep { .. })).count();
    assert_eq!(manifests, 2);
    assert!(network.reused >= 20, "{}", network.reused);
}

/// The codes of kept chunks are not read again. If the next manifest lacks one of them, no chunk is kept.
#[test]
fn an_older_snapshot_with_fewer_codes_begins_anew() {
    let chain = Chain::new();
    let peers = (0..3).map(|_| Peer::honest(Library::with(&chain, 2)));
    let mut network = Network::new(&chain, peers.collect());
    let mut kept = 0;
    network.run_until(|output| {
        kept += usize::from(matches!(output, Output::KeepChunk { .. }));
        kept == 20
    });
    (0..3).for_each(|peer| network.library_at(network.now, peer, Library::with(&chain, 1)));
    network.run();
    assert_eq!(network.assert_installed().height, Height(SNAPSHOTS[1]));
    assert_eq!(network.reused, 0);
}

/// Peers that do not have a snapshot are not to blame, and are asked once.
#[test]
fn not_here_is_no_fault() {
    let chain = Chain::new();
    let mut peers: Vec<_> = (0..2).map(|_| Peer::honest(Library::with(&chain, 2))).collect();
    peers.extend((0..4).map(|_| Peer::honest(Library::with(&chain, 0))));
    let mut network = Network::new(&chain, peers);
    network.run();
    assert_eq!(network.assert_installed().height, Height(SNAPSHOTS[2]));
    assert!(network.bans.is_empty());
    for other in 2..6 {
        assert!(network.chunk_requests().iter().filter(|(_, peer, ..)| *peer == other).count() <= 1);
    }
}
