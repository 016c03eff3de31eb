//! A node syncs from peers that lie, stall and leave (mechanism 33), and goes on after a restart.
#![allow(clippy::unwrap_used)] // also in helpers

mod common;

use common::chain::{Chain, Library, SNAPSHOTS, offer_of};
use common::network::{Network, Peer, START, change_tail};
use corniche_sync::message::PART_BYTES;
use corniche_sync::{Output, StateRequest, StateResponse};
use corniche_types::{B256, Height};
use std::collections::BTreeSet;
use std::rc::Rc;

/// A lie about one kind of response.
fn wrong_chunk(response: StateResponse) -> StateResponse {
    match response {
        StateResponse::Chunks(mut chunks) => {
            let mut bytes = chunks[0].to_vec();
            *bytes.last_mut().unwrap() ^= 1;
            chunks[0] = bytes.into();
            StateResponse::Chunks(chunks)
        }
        other => other,
    }
}

fn wrong_part(response: StateResponse) -> StateResponse {
    match response {
        StateResponse::Part(bytes) => {
            let mut bytes = bytes.to_vec();
            bytes[100] ^= 1;
            StateResponse::Part(bytes.into())
        }
        other => other,
    }
}

fn wrong_tail(response: StateResponse) -> StateResponse {
    change_tail(response, |tail| tail.resume.checkpoint = vec![1].into())
}

fn forged_change(response: StateResponse) -> StateResponse {
    match response {
        StateResponse::EpochChanges(mut changes) => {
            changes.iter_mut().for_each(|change| change.header.gas_used += 1);
            StateResponse::EpochChanges(changes)
        }
        other => other,
    }
}

/// Hides epoch changes.
fn no_changes(response: StateResponse) -> StateResponse {
    match response {
        StateResponse::EpochChanges(_) => StateResponse::EpochChanges(Vec::new()),
        other => other,
    }
}

/// Eight peers, of which three lie, two never answer, and one leaves.
fn hostile_network(chain: &Rc<Chain>, lies: [fn(StateResponse) -> StateResponse; 3]) -> Network {
    let library = || Library::with(chain, 2);
    let [one, two, three] = lies;
    let mut peers = vec![Peer::liar(library(), one), Peer::liar(library(), two), Peer::liar(library(), three)];
    peers.extend((0..2).map(|_| Peer::silent(library())));
    peers.extend((0..3).map(|_| Peer::honest(library())));
    let mut network = Network::new(chain, peers);
    network.leave_at(START + 10_060, 5);
    network
}

#[test]
fn honest_peers_are_enough() {
    let chain = Chain::new();
    for lies in [
        [wrong_chunk, wrong_part, wrong_tail],
        [wrong_chunk, wrong_chunk, forged_change],
        [no_changes, forged_change, wrong_tail],
    ] {
        let mut network = hostile_network(&chain, lies);
        network.run();
        let target = network.assert_installed();
        assert_eq!(target.height, Height(SNAPSHOTS[2]));
        assert!(network.banned().is_subset(&BTreeSet::from([0, 1, 2])), "no honest peer: {:?}", network.bans);
        assert!(!network.banned().is_empty());
        assert_eq!(network.disk.changes, chain.changes);
    }
}

#[test]
fn each_lie_is_found() {
    let chain = Chain::new();
    for lie in [wrong_chunk, wrong_part, wrong_tail, forged_change] {
        // The liar is asked first, and alone at the beginning.
        let mut network = Network::new(&chain, vec![Peer::liar(Library::with(&chain, 2), lie)]);
        network.join_at(START + 40_000, 1, Peer::honest(Library::with(&chain, 2)));
        network.run();
        network.assert_installed();
        assert_eq!(network.banned(), BTreeSet::from([0]), "{:?}", network.bans);
    }
}

#[test]
fn restarts_fetch_nothing_twice() {
    let chain = Chain::new();
    let mut network = hostile_network(&chain, [wrong_chunk, wrong_part, wrong_tail]);
    let mut restarts = 0;
    let is_file = |output: &Output| {
        matches!(output, Output::Keep { .. } | Output::KeepChunk { .. } | Output::KeepCode { .. } | Output::KeepChange(_))
    };
    while network.run_until(is_file) {
        network.restart();
        restarts += 1;
    }
    network.assert_installed();
    assert!(restarts > chain.snapshots[2].chunks.len(), "{restarts}");
    let manifests = network.log.iter().filter(|(_, output)| matches!(output, Output::Keep { .. })).count();
    assert_eq!((manifests, network.disk.changes.len()), (1, 2), "nothing begins anew");
}

/// B32: no chunk is requested before the manifest is proved and kept.
#[test]
fn no_chunk_is_requested_before_the_manifest_is_proved() {
    let chain = Chain::new();
    let mut network = hostile_network(&chain, [wrong_part, wrong_part, wrong_tail]);
    network.run();
    network.assert_installed();
    let position = |is: fn(&Output) -> bool| network.log.iter().position(|(_, output)| is(output)).unwrap();
    let kept = position(|output| matches!(output, Output::Keep { .. }));
    let asked = position(|output| {
        matches!(output, Output::Ask { request: StateRequest::Chunks { .. } | StateRequest::Codes { .. }, .. })
    });
    assert!(kept < asked);
}

/// B32: two peers agree on a manifest that does not fold. Nobody is asked for its chunks, and the next one is taken.
#[test]
fn a_manifest_that_does_not_fold_is_refused() {
    let chain = Chain::new();
    let mut manifest = chain.snapshots[2].manifest.clone();
    manifest.chunks[3].hash = B256::repeat_byte(3);
    let mut files = chain.snapshot(SNAPSHOTS[2], &Default::default());
    (files.offer, files.manifest, files.chunks) = (offer_of(&manifest), manifest, chain.snapshots[2].chunks.clone());
    let forged = Library { snapshots: vec![Rc::new(files)], ..Library::with(&chain, 2) };
    let wrong = forged.snapshots[0].offer.manifest;
    let mut peers = vec![Peer::honest(forged.clone()), Peer::honest(forged)];
    peers.extend((0..2).map(|_| Peer::honest(Library::with(&chain, 1))));
    let mut network = Network::new(&chain, peers);
    network.run();
    assert_eq!(network.assert_installed().height, Height(SNAPSHOTS[1]));
    assert_eq!(network.banned(), BTreeSet::from([0, 1]));
    assert!(network.chunk_requests().iter().all(|(_, _, manifest, _)| *manifest != wrong));
}

/// The transport gives up after the time that the sync names, and a slow peer needs 15 s for each MiB.
#[test]
fn a_tail_of_several_parts_comes_from_a_slow_peer() {
    let chain = Chain::new();
    let mut network = Network::new(&chain, vec![Peer::honest(Library::with(&chain, 0))]);
    let is_request = |output: &Output| matches!(output, Output::Ask { request: StateRequest::Tail { .. }, .. });
    assert!(network.run_until(is_request));
    network.slow_down(0, 15_000);
    let is_large =
        |output: &Output| matches!(output, Output::Keep { tail, .. } if tail.resume.checkpoint.len() == 2 * PART_BYTES);
    assert!(network.run_until(is_large), "{:?}", network.gave_up);
    assert_eq!(network.log.iter().filter(|(_, output)| is_request(output)).count(), 3);
}

/// B34: a slow peer does not hold the last chunk.
#[test]
fn a_slow_peer_does_not_delay_the_end() {
    let chain = Chain::new();
    let library = || Library::with(&chain, 2);
    let peers = vec![Peer::honest(library()).slow(4_900), Peer::honest(library()), Peer::honest(library())];
    let mut network = Network::new(&chain, peers);
    let mut began = None;
    network.run_until(|output| matches!(output, Output::Keep { .. }));
    began.get_or_insert(network.now);
    network.run();
    network.assert_installed();
    let slow_asked = network.chunk_requests().iter().any(|(_, peer, _, _)| *peer == 0);
    assert!(slow_asked && network.now - began.unwrap() < 4_900, "{} ms", network.now - began.unwrap());
}
