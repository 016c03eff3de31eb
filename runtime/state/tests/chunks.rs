//! Snapshots of a state: their chunks fold to the root of the tree, and nothing else passes.

use corniche_state::chunks::{Chunk, ChunkInfo, Entry, ItemBuffer, Manifest, ManifestError, Prefix, Subtree, chunk_bytes, cut};
use corniche_state::{Account, Changes, State, Tree};
use corniche_types::{Address, B256, Height, U256};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::convert::Infallible;

type Cut = Vec<(ChunkInfo, Vec<u8>)>;

const ALL: Prefix = Prefix { bits: 0, depth: 0 };

/// Chunks of all entries of a state, of at most `limit` bytes.
fn chunks_of(state: &State, limit: u64) -> Cut {
    let mut buffer = ItemBuffer::default();
    state.latest().for_each_entry(|entry| buffer.push(&entry));
    let mut chunks = Vec::new();
    let Ok(()) = cut(buffer.sort(), ALL, limit, &mut |info, bytes| {
        chunks.push((info, bytes));
        Ok::<_, Infallible>(())
    });
    chunks
}

fn manifest_of(chunks: &Cut) -> Manifest {
    Manifest {
        chain_id: 1,
        genesis_hash: B256::repeat_byte(1),
        height: Height(9),
        header_hash: B256::repeat_byte(2),
        chunks: chunks.iter().map(|(info, _)| *info).collect(),
        codes: Vec::new(),
    }
}

fn number(seed: u64) -> B256 {
    B256::from(U256::from(seed).wrapping_mul(U256::from(0x9e37_79b9_7f4a_7c15_u64)).wrapping_pow(U256::from(3)))
}

fn state_with(accounts: u64, slots: u64) -> (State, B256) {
    let mut changes = Changes::default();
    for index in 0..accounts {
        let code_hash = if index % 3 == 0 { number(index) } else { Account::default().code_hash };
        let balance = U256::from(index) << (index % 200) as usize;
        let (abi_version, gas_version) = if index % 3 == 0 { (1, 2) } else { (0, 0) };
        let account = Account { nonce: index + 1, balance, code_hash, abi_version, gas_version };
        changes.accounts.insert(Address::from_word(number(index)), Some(account));
    }
    for index in 0..slots {
        changes.storage.insert((Address::with_last_byte(7), number(index)), number(index | 1 << 40));
    }
    let state = State::with_seed(7);
    state.apply(Height(1), &changes);
    (state, Tree::default().apply(&changes))
}

#[test]
fn chunks_fold_to_the_root_of_the_tree() {
    for (accounts, slots) in [(0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (40, 300), (300, 20)] {
        let (state, root) = state_with(accounts, slots);
        for limit in [0, 60, 100, 500, 5_000, 1 << 20] {
            let chunks = chunks_of(&state, limit);
            let manifest = manifest_of(&chunks);
            let name = format!("{accounts} accounts, {slots} slots, {limit} bytes");
            assert_eq!(manifest.verify(&root), Ok(()), "{name}");
            assert_eq!(manifest.entries(), accounts + slots, "{name}");
            let prefixes = manifest.prefixes();
            assert_eq!(prefixes.len(), chunks.len(), "{name}");
            let (mut tree, mut merged) = (Tree::default(), Changes::default());
            for ((info, bytes), prefix) in chunks.iter().zip(prefixes) {
                let changes = Chunk::verify(bytes, prefix, info).expect(&name).into_changes();
                tree.apply(&changes);
                merged.merge(changes);
            }
            assert_eq!(tree.root(), root, "{name}");
        }
    }
}

/// A leaf alone is at the top of its subtree; planting it a level lower would change the root.
#[test]
fn lone_leaves_and_empty_chunks_are_there() {
    let (state, root) = state_with(1, 6);
    let chunks = chunks_of(&state, 0);
    let kinds: BTreeSet<u8> = chunks.iter().map(|(info, _)| info.kind as u8).collect();
    assert_eq!(kinds, BTreeSet::from([Subtree::Empty as u8, Subtree::Leaf as u8]));
    assert_eq!(manifest_of(&chunks).verify(&root), Ok(()));
}

#[test]
fn every_changed_byte_of_a_chunk_is_found() {
    let (state, _) = state_with(3, 3);
    let chunks = chunks_of(&state, 100);
    let prefixes = manifest_of(&chunks).prefixes();
    for ((info, bytes), prefix) in chunks.iter().zip(&prefixes) {
        assert!(Chunk::verify(bytes, *prefix, info).is_ok());
        for position in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[position] ^= 1 << bit;
                assert!(Chunk::verify(&changed, *prefix, info).is_err(), "byte {position}, bit {bit}");
            }
        }
        assert!(Chunk::verify(&bytes[..bytes.len() - 1], *prefix, info).is_err());
        assert!(Chunk::verify(&[bytes.as_slice(), &[0]].concat(), *prefix, info).is_err());
        for (other, _) in chunks.iter().filter(|(other, _)| other.hash != info.hash) {
            assert!(Chunk::verify(bytes, *prefix, other).is_err());
        }
    }
}

#[test]
fn a_manifest_with_other_chunks_is_refused() {
    let (state, root) = state_with(20, 50);
    let chunks = chunks_of(&state, 500);
    let manifest = manifest_of(&chunks);
    assert_eq!(Manifest::decode(&manifest.encode()).as_ref(), Ok(&manifest));
    let infos = &manifest.chunks;
    let changed = |chunks: Vec<ChunkInfo>| Manifest { chunks, ..manifest.clone() };
    for index in 0..infos.len() {
        let mut missing = infos.clone();
        missing.remove(index);
        assert!(changed(missing).verify(&root).is_err(), "without chunk {index}");
        let mut twice = infos.clone();
        twice.insert(index, infos[index]);
        assert!(changed(twice).verify(&root).is_err(), "chunk {index} twice");
        for depth in [0, infos[index].depth - 1, infos[index].depth + 1, 65, 255] {
            let mut deeper = infos.clone();
            deeper[index].depth = depth;
            assert!(changed(deeper).verify(&root).is_err(), "chunk {index} at depth {depth}");
        }
        let mut other = infos.clone();
        other[index].hash.0[0] ^= 1;
        assert!(matches!(changed(other).verify(&root), Err(ManifestError::Root { .. })));
        let mut leaf = infos.clone();
        leaf[index].kind = Subtree::Leaf;
        assert!(Manifest::decode(&changed(leaf).encode()).is_err() || infos[index].kind == Subtree::Leaf);
    }
    assert_eq!(changed(Vec::new()).verify(&root), Err(ManifestError::Prefixes));
}

#[test]
fn the_size_of_chunks_follows_the_state() {
    const MIB: u64 = 1 << 20;
    for (total, expected) in [(0, MIB), (MIB, MIB), (32_768 * MIB, MIB), (32_768 * MIB + 1, 2 * MIB), (1 << 40, 32 * MIB)] {
        assert_eq!(chunk_bytes(total), expected, "{total}");
    }
}

/// Snapshots of a height while later ones are applied.
#[test]
fn entries_are_those_of_the_height() {
    let (state, root) = state_with(50, 50);
    let pinned = state.latest();
    for height in 2..20 {
        let mut changes = Changes::default();
        changes.accounts.insert(Address::from_word(number(height)), None);
        changes.storage.insert((Address::with_last_byte(7), number(height)), B256::ZERO);
        changes.storage.insert((Address::with_last_byte(9), number(height)), B256::repeat_byte(1));
        state.apply(Height(height), &changes);
        state.prune_below(Height(height));
    }
    let mut buffer = ItemBuffer::default();
    pinned.for_each_entry(|entry| buffer.push(&entry));
    let mut chunks = Vec::new();
    let Ok(()) = cut(buffer.sort(), ALL, 1_000, &mut |info, bytes| {
        chunks.push((info, bytes));
        Ok::<_, Infallible>(())
    });
    assert_eq!(manifest_of(&chunks).verify(&root), Ok(()));
}

proptest! {
    /// Each entry has one encoding: whatever decodes encodes to the same bytes.
    #[test]
    fn entries_have_one_encoding(bytes in proptest::collection::vec(any::<u8>(), 0..100), kind in 0u8..3, numbers in any::<[u8; 4]>()) {
        let mut bytes = [&[kind], bytes.as_slice()].concat();
        // Plausible lengths of the numbers.
        for (position, number) in [21, 53].into_iter().zip(numbers) {
            if let Some(byte) = bytes.get_mut(position) {
                *byte = number % 34;
            }
        }
        let mut rest = bytes.as_slice();
        if let Some(entry) = Entry::decode(&mut rest) {
            let mut encoded = Vec::new();
            entry.encode(&mut encoded);
            prop_assert_eq!(encoded.as_slice(), &bytes[..bytes.len() - rest.len()]);
        }
    }

    #[test]
    fn entries_survive_encoding(nonce: u64, balance: [u8; 32], code: bool, address: [u8; 20]) {
        let code_hash = if code { B256::from(balance) } else { Account::default().code_hash };
        let account = Account { nonce: nonce | 1, balance: U256::from_be_bytes(balance), code_hash, abi_version: u8::from(code), gas_version: 0 };
        let entry = Entry::Account(Address::from(address), account);
        let mut encoded = Vec::new();
        entry.encode(&mut encoded);
        let mut rest = encoded.as_slice();
        prop_assert_eq!(Entry::decode(&mut rest), Some(entry));
        prop_assert!(rest.is_empty());
    }
}
