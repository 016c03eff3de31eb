//! Choice between snapshots, and between a snapshot and blocks (Y8).
#![allow(clippy::unwrap_used)] // also in helpers

mod common;

use common::chain::{Chain, ENDS, HEAD, Library, SNAPSHOTS};
use common::network::{Network, Peer, START};
use corniche_sync::{Fetch, FetchConfig, Output, Phase};
use corniche_types::{B256, Epoch, Height, TimestampMs, TrustPoint, header_hash};
use std::rc::Rc;

fn peers(chain: &Rc<Chain>, positions: &[usize]) -> Vec<Peer> {
    positions.iter().map(|position| Peer::honest(Library::with(chain, *position))).collect()
}

fn kept_at(network: &Network) -> u64 {
    network.log.iter().find(|(_, output)| matches!(output, Output::Keep { .. })).unwrap().0 - START
}

#[test]
fn newest_that_two_peers_offer_is_chosen() {
    let chain = Chain::new();
    let mut network = Network::new(&chain, peers(&chain, &[0, 0, 1, 1, 2]));
    network.run();
    assert_eq!(network.assert_installed().height, Height(SNAPSHOTS[1]));
    assert!(kept_at(&network) < 1_000);
}

#[test]
fn after_30_seconds_one_peer_is_enough() {
    let chain = Chain::new();
    let mut network = Network::new(&chain, peers(&chain, &[0, 1, 2]));
    network.run();
    assert_eq!(network.assert_installed().height, Height(SNAPSHOTS[2]));
    assert!((30_000..31_000).contains(&kept_at(&network)), "{}", kept_at(&network));
}

/// A peer that never answers does not keep the others waiting for more than 5 s.
#[test]
fn silent_peers_delay_the_choice_by_5_seconds() {
    let chain = Chain::new();
    let mut all = peers(&chain, &[2, 2]);
    all.push(Peer::silent(Library::with(&chain, 2)));
    let mut network = Network::new(&chain, all);
    network.run();
    network.assert_installed();
    assert!((5_000..6_000).contains(&kept_at(&network)), "{}", kept_at(&network));
}

#[test]
fn without_snapshots_blocks_are_followed() {
    let chain = Chain::new();
    let empty = || Peer::honest(Library { chain: chain.clone(), snapshots: Vec::new() });
    let mut network = Network::new(&chain, vec![empty(), empty()]);
    network.run();
    assert!(network.gave_up.as_ref().unwrap().contains("no peer offered a usable snapshot for 120 s"), "{:?}", network.gave_up);
    assert!((120_000..121_000).contains(&(network.now - START)));
    assert_eq!(network.fetch.progress().phase, Phase::Ended);
    // Peers that know no such requests.
    let mut network = Network::new(&chain, vec![Peer::silent(Library::with(&chain, 0))]);
    network.run();
    assert!(network.gave_up.as_ref().unwrap().contains("no peer sent epoch changes"), "{:?}", network.gave_up);
}

#[test]
fn a_short_chain_is_executed() {
    let chain = Chain::new();
    for (limit, is_executed) in [(HEAD, true), (HEAD - 1, false)] {
        let config = FetchConfig { only_if_ahead_by: Some(limit), ..chain.config() };
        let fetch = Fetch::new(config, chain.committees(), TimestampMs(START));
        let mut network = Network::with(&chain, fetch, peers(&chain, &[2, 2]));
        network.run();
        assert_eq!((network.gave_up.is_some(), network.target.is_some()), (is_executed, !is_executed), "{limit}");
    }
}

/// The trusted block must end its epoch (L5). If peers have another block, or lack the end, nothing is fetched. The
/// point may be mistyped, so nobody is banned.
#[test]
fn the_trusted_block_must_be_in_the_chain() {
    let chain = Chain::new();
    let sync = |epoch: u64, hash: B256| {
        let trust = Some(TrustPoint { chain_id: 77, epoch: Epoch(epoch), hash });
        let fetch = Fetch::new(FetchConfig { trust, ..chain.config() }, chain.committees(), TimestampMs(START));
        let mut all = peers(&chain, &[2, 2, 2]);
        all.push(Peer::silent(Library::with(&chain, 2)));
        let mut network = Network::with(&chain, fetch, all);
        network.run();
        network
    };
    for epoch in [0, 1] {
        let hash = header_hash(&chain.header(ENDS[epoch as usize]));
        let network = sync(epoch, hash);
        network.assert_installed();
        assert!(network.banned().is_empty());
        let network = sync(epoch, B256::repeat_byte(7));
        assert_eq!((network.target.is_none(), network.banned().len(), network.chunk_requests().len()), (true, 0, 0), "{epoch}");
        assert!(network.gave_up.as_ref().unwrap().contains("no peer sent epoch changes"), "{:?}", network.gave_up);
    }
    let network = sync(9, B256::repeat_byte(7));
    assert!(network.target.is_none() && network.banned().is_empty() && network.chunk_requests().is_empty());
    assert!(network.gave_up.as_ref().unwrap().contains("no peer sent epoch changes"), "{:?}", network.gave_up);
}

/// A node without peers waits, and the time without them does not count.
#[test]
fn time_without_peers_does_not_count() {
    let chain = Chain::new();
    let mut fetch = Fetch::new(chain.config(), chain.committees(), TimestampMs(START));
    fetch.tick(TimestampMs(START + 1_000_000));
    assert_eq!((fetch.poll(), fetch.deadline()), (None, None));
}

/// Equal inputs give equal outputs.
#[test]
fn a_run_can_be_repeated() {
    let chain = Chain::new();
    let log = || {
        let mut all = peers(&chain, &[0, 1, 1, 2, 2]);
        all.push(Peer::silent(Library::with(&chain, 2)));
        let mut network = Network::new(&chain, all);
        network.leave_at(START + 90, 3);
        network.run();
        network.log
    };
    assert!(log() == log());
}

/// At most 16 peers send chunks at once.
#[test]
fn at_most_16_peers_are_asked_at_once() {
    let chain = Chain::new();
    let mut network = Network::new(&chain, peers(&chain, &[2; 30]));
    let mut most = 0;
    let mut asked = 0;
    network.run_until(|output| {
        match output {
            Output::Ask { request: corniche_sync::StateRequest::Chunks { .. }, .. } => asked += 1,
            Output::KeepChunk { .. } => {
                most = most.max(asked);
                asked = 0;
            }
            _ => {}
        }
        false
    });
    network.assert_installed();
    assert!((2..=16).contains(&most), "{most}");
}
