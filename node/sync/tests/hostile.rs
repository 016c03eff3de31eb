//! Responses that no honest peer sends: they get a ban or a failure, and never a panic.
#![allow(clippy::unwrap_used)] // also in helpers

mod common;

use common::chain::{Chain, HEAD, Library, SNAPSHOTS, offer_of};
use common::network::{Network, Peer, change_tail};
use corniche_state::chunks::{CodeInfo, Manifest};
use corniche_sync::message::{MAX_CHUNKS, MAX_CODES, MAX_OFFERS, PART_BYTES};
use corniche_sync::{Offer, StateRequest, StateResponse as R, serve};
use corniche_types::{B256, Bytes, Epoch, Height, U256, wire};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

type Lie = Box<dyn Fn(R) -> R>;

/// Two honest peers, and this one, which is asked first.
fn with_liar(chain: &Rc<Chain>, liar: Peer) -> Network {
    let honest = || Peer::honest(Library::with(chain, 2));
    let mut network = Network::new(chain, vec![liar, honest(), honest()]);
    network.run();
    assert_eq!(network.assert_installed().height, Height(SNAPSHOTS[2]));
    assert!(network.banned().is_subset(&BTreeSet::from([0])), "{:?}", network.bans);
    network
}

#[test]
fn malformed_responses_get_a_ban() {
    let chain = Chain::new();
    let library = || Library::with(&chain, 2);
    for bytes in
        [vec![], vec![0], vec![1], vec![1, 99], vec![1, 2, 255, 255, 255, 255], vec![1, 5, 5, 0, 0, 0], vec![7; 100_000]]
    {
        let network = with_liar(&chain, Peer::new(library(), move |_, _| Some(bytes.clone())));
        assert_eq!(network.banned(), BTreeSet::from([0]));
    }
    // With a byte after it.
    let trailing = |library: &Library, request| Some([serve(request, library), vec![0]].concat());
    assert_eq!(with_liar(&chain, Peer::new(library(), trailing)).banned(), BTreeSet::from([0]));
}

#[test]
fn responses_of_the_wrong_kind_or_length_get_a_ban() {
    let chain = Chain::new();
    let lies: Vec<Lie> = vec![
        Box::new(|_| R::Chunks(vec![Bytes::new()])),
        Box::new(|_| R::EpochChanges(Vec::new())),
        Box::new(|honest| if matches!(honest, R::Chunks(_)) { R::Chunks(Vec::new()) } else { honest }),
        Box::new(|honest| if matches!(honest, R::Chunks(_)) { R::Codes(Vec::new()) } else { honest }),
        Box::new(|honest| match honest {
            R::Chunks(mut chunks) => {
                chunks.reverse();
                R::Chunks(chunks)
            }
            other => other,
        }),
        Box::new(|honest| match honest {
            R::EpochChanges(mut changes) => {
                changes.reverse();
                changes.push(changes[0].clone());
                R::EpochChanges(changes)
            }
            other => other,
        }),
    ];
    for lie in lies {
        let network = with_liar(&chain, Peer::liar(Library::with(&chain, 2), lie));
        assert_eq!(network.banned(), BTreeSet::from([0]));
    }
}

/// A liar alone at the beginning: each of these is found, in any order of requests.
#[test]
fn wrong_tails_parts_and_codes_get_a_ban() {
    let chain = Chain::new();
    let lies: Vec<Lie> = vec![
        Box::new(|honest| match honest {
            R::Part(bytes) => R::Part(bytes[1..].to_vec().into()),
            other => other,
        }),
        Box::new(|honest| match honest {
            R::Part(bytes) => R::Part([&bytes[..], &[0]].concat().into()),
            other => other,
        }),
        // A tail without an end.
        Box::new(|honest| match honest {
            R::Part(_) | R::NotHere => R::Part(vec![1; PART_BYTES].into()),
            other => other,
        }),
        Box::new(|honest| change_tail(honest, |tail| tail.certificate.epoch = Epoch(u64::MAX))),
        Box::new(|honest| change_tail(honest, |tail| drop(tail.below.remove(3)))),
        Box::new(|honest| match honest {
            R::Codes(mut codes) => {
                codes[0] = vec![9; 9].into();
                R::Codes(codes)
            }
            other => other,
        }),
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let mut network = Network::new(&chain, vec![Peer::liar(Library::with(&chain, 2), lie)]);
        network.join_at(common::network::START + 40_000, 1, Peer::honest(Library::with(&chain, 2)));
        network.run();
        network.assert_installed();
        assert_eq!(network.banned(), BTreeSet::from([0]), "lie {number}: {:?}", network.bans);
    }
}

/// Busy for ever, refusing everything, or offering what nobody serves: no ban, and no standstill.
#[test]
fn peers_that_do_nothing_wrong_and_nothing_useful_do_not_stop_the_sync() {
    let chain = Chain::new();
    let idle: [fn(R) -> R; 4] = [
        |_| R::Busy { ms: 0 },
        |_| R::Busy { ms: u32::MAX },
        |_| R::NotHere,
        |honest| if matches!(honest, R::Chunks(_) | R::Codes(_)) { R::Busy { ms: 1_000 } } else { honest },
    ];
    for lie in idle {
        let network = with_liar(&chain, Peer::liar(Library::with(&chain, 2), lie));
        assert!(network.bans.is_empty());
    }
}

/// Two peers offer the newest snapshot and serve no chunk of it. The others have an older one.
#[test]
fn a_snapshot_that_nobody_serves_is_left() {
    let chain = Chain::new();
    let lies: [fn(R) -> R; 3] = [
        |honest| if matches!(honest, R::Chunks(_)) { R::Busy { ms: 1_000 } } else { honest },
        |honest| if matches!(honest, R::Part(_)) { R::Busy { ms: 1_000 } } else { honest },
        |honest| if matches!(honest, R::Chunks(_)) { R::NotHere } else { honest },
    ];
    for lie in lies {
        let mut peers: Vec<_> = (0..2).map(|_| Peer::liar(Library::with(&chain, 2), lie)).collect();
        peers.extend((0..2).map(|_| Peer::honest(Library::with(&chain, 0))));
        let mut network = Network::new(&chain, peers);
        network.run();
        assert_eq!(network.assert_installed().height, Height(SNAPSHOTS[0]));
        assert!(network.bans.is_empty());
        // Without others, blocks are followed in the end.
        let peers = (0..2).map(|_| Peer::liar(Library::with(&chain, 2), lie)).collect();
        let mut network = Network::new(&chain, peers);
        network.run();
        assert!(network.gave_up.is_some());
    }
}

/// Two peers that invent a newer snapshot each time they are asked, and never serve one.
#[test]
fn ever_newer_offers_do_not_stop_the_sync() {
    let chain = Chain::new();
    let invented = Rc::new(Cell::new(0_u64));
    let liar = || {
        let invented = invented.clone();
        Peer::new(Library::with(&chain, 2), move |library, request| match request {
            StateRequest::Snapshots => {
                invented.set(invented.get() + 1);
                // Both liars offer the same ones.
                let number = invented.get().div_ceil(2);
                let offer = |below: u64| Offer {
                    height: Height(HEAD + 100 * number - below),
                    header_hash: B256::repeat_byte(1),
                    manifest: B256::from(U256::from(100 * number + below)),
                    manifest_bytes: 1_000,
                };
                Some(R::Snapshots { certified: Height(HEAD), offers: (0..8).map(offer).collect() }.encode())
            }
            StateRequest::EpochChanges { .. } => Some(serve(request, library)),
            _ => None,
        })
    };
    let honest = || Peer::honest(Library::with(&chain, 2));
    let mut network = Network::new(&chain, vec![liar(), liar(), honest(), honest()]);
    network.run();
    assert_eq!(network.assert_installed().height, Height(SNAPSHOTS[2]));
    assert!(invented.get() > 2);
}

#[test]
fn absurd_offers_are_ignored() {
    let chain = Chain::new();
    let real = chain.snapshots[2].offer;
    let absurd = [
        Offer { height: Height(u64::MAX), ..real },
        Offer { manifest_bytes: u32::MAX, height: Height(900), ..real },
        Offer { manifest_bytes: 0, height: Height(901), ..real },
        Offer { height: Height(0), ..real },
        Offer { header_hash: B256::ZERO, ..real },
        Offer { manifest_bytes: real.manifest_bytes - 1, ..real },
    ];
    let lie = move |honest| match honest {
        R::Snapshots { .. } => R::Snapshots { certified: Height(HEAD), offers: absurd.to_vec() },
        other => other,
    };
    let mut peers: Vec<_> = (0..2).map(|_| Peer::liar(Library::with(&chain, 2), lie)).collect();
    peers.extend((0..2).map(|_| Peer::honest(Library::with(&chain, 2))));
    let mut network = Network::new(&chain, peers);
    network.run();
    network.assert_installed();
    assert!(network.banned().is_subset(&BTreeSet::from([0, 1])), "{:?}", network.bans);
}

/// Serves the newest snapshot with another manifest, from two peers. The honest peers have it with the right one.
fn with_manifest(chain: &Rc<Chain>, change: impl FnOnce(&mut Manifest)) -> Network {
    let mut manifest = chain.snapshots[2].manifest.clone();
    change(&mut manifest);
    let mut files = chain.snapshot(SNAPSHOTS[2], &Default::default());
    (files.offer, files.manifest, files.chunks) = (offer_of(&manifest), manifest, chain.snapshots[2].chunks.clone());
    let forged = Library { snapshots: vec![Rc::new(files)], ..Library::with(chain, 2) };
    // Three of them, so that theirs is chosen whatever its hash.
    let mut peers: Vec<_> = (0..3).map(|_| Peer::honest(forged.clone())).collect();
    peers.extend((0..2).map(|_| Peer::honest(Library::with(chain, 2))));
    let mut network = Network::new(chain, peers);
    network.run();
    assert_eq!(network.assert_installed().manifest, chain.snapshots[2].offer.manifest);
    assert!(network.banned().is_subset(&BTreeSet::from([0, 1, 2])), "{:?}", network.bans);
    network
}

/// The fold does not cover codes and lengths. Manifests that are wrong in these are found out by what is proved.
#[test]
fn manifests_that_fold_but_are_wrong_are_refused() {
    let chain = Chain::new();
    let liars = BTreeSet::from([0, 1, 2]);
    let network = with_manifest(&chain, |manifest| {
        manifest.codes.remove(2);
    });
    assert_eq!(network.banned(), liars, "a code is missing");
    let network = with_manifest(&chain, |manifest| manifest.codes[1].length += 1);
    assert_eq!(network.banned(), liars, "a code has another length");
    let network = with_manifest(&chain, |manifest| manifest.codes[1].length = 0);
    assert_eq!(network.banned(), liars, "a code is empty");
    let network = with_manifest(&chain, |manifest| manifest.chunks[1].bytes = u32::MAX);
    assert_eq!(network.banned(), liars, "a chunk is too large");
    with_manifest(&chain, |manifest| manifest.chunks[1].bytes += 1);
    with_manifest(&chain, |manifest| manifest.chunks[1].entries += 1);
    // Manifests of another chain or block.
    for change in [
        |manifest: &mut Manifest| manifest.chain_id += 1,
        |manifest: &mut Manifest| manifest.genesis_hash = B256::ZERO,
        |manifest: &mut Manifest| manifest.codes.reverse(),
    ] {
        assert_eq!(with_manifest(&chain, change).banned(), liars);
    }
    // Nobody has a code that does not exist. That is no proof, so nobody is banned for it.
    let network = with_manifest(&chain, |manifest| {
        manifest.codes.push(CodeInfo { hash: B256::repeat_byte(0xff), length: 9 });
    });
    assert!(network.bans.is_empty());
}

#[test]
fn lists_are_bounded_before_they_are_read() {
    let decodes = |request: &StateRequest| StateRequest::decode(&request.encode()).is_ok();
    let chunks = |count: usize| StateRequest::Chunks { manifest: B256::ZERO, indexes: vec![0; count] };
    let codes = |count: usize| StateRequest::Codes { hashes: vec![B256::ZERO; count] };
    assert!(decodes(&chunks(MAX_CHUNKS)) && !decodes(&chunks(MAX_CHUNKS + 1)));
    assert!(decodes(&codes(MAX_CODES)) && !decodes(&codes(MAX_CODES + 1)));
    let decodes = |response: &R| R::decode(&response.encode()).is_ok();
    let bytes = |count: usize| vec![Bytes::new(); count];
    let offer = Offer { height: Height(1), header_hash: B256::ZERO, manifest: B256::ZERO, manifest_bytes: 1 };
    let offers = |count: usize| R::Snapshots { certified: Height(1), offers: vec![offer; count] };
    assert!(decodes(&R::Chunks(bytes(MAX_CHUNKS))) && !decodes(&R::Chunks(bytes(MAX_CHUNKS + 1))));
    assert!(decodes(&R::Codes(bytes(MAX_CODES))) && !decodes(&R::Codes(bytes(MAX_CODES + 1))));
    assert!(decodes(&offers(MAX_OFFERS)) && !decodes(&offers(MAX_OFFERS + 1)));
}

/// The numbers are part of the format. Those of requests for blocks are 0 and 1.
#[test]
fn requests_are_told_apart_from_requests_for_blocks() {
    let number = |request: StateRequest| request.encode()[1];
    assert_eq!(number(StateRequest::EpochChanges { from: Epoch(0) }), 16);
    assert_eq!(number(StateRequest::Snapshots), 17);
    assert_eq!(number(StateRequest::Manifest { hash: B256::ZERO, part: 0 }), 18);
    assert_eq!(number(StateRequest::Chunks { manifest: B256::ZERO, indexes: Vec::new() }), 19);
    assert_eq!(number(StateRequest::Codes { hashes: Vec::new() }), 20);
    assert_eq!(number(StateRequest::Tail { manifest: B256::ZERO, part: 0 }), 21);
    for (bytes, is_one) in
        [(&[1, 0][..], false), (&[1, 1], false), (&[1, 22], false), (&[1], false), (&[1, 16], true), (&[1, 21], true)]
    {
        assert_eq!(StateRequest::is_one(bytes), is_one, "{bytes:?}");
    }
}

proptest! {
    /// No bytes make decoding panic, and whatever decodes has one encoding.
    #[test]
    fn decoding_is_total(kind in 0u8..30, body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let bytes = [&[wire::VERSION, kind], body.as_slice()].concat();
        if let Ok(request) = StateRequest::decode(&bytes) {
            prop_assert_eq!(request.encode(), bytes.clone());
        }
        if let Ok(response) = R::decode(&bytes) {
            prop_assert_eq!(R::decode(&response.encode()), Ok(response));
        }
    }
}
