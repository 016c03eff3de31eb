//! States of old blocks: correct, kept for the configured number of blocks, also after restarts.

use crate::support::*;
use corniche_state::Changes;
use corniche_store::{History, Options, Reader};
use corniche_types::*;

/// State of the chain after a block, as changes to an empty state.
fn state_at(chain: &Chain, height: u64) -> Changes {
    let mut state = Changes::default();
    chain.blocks[..=height as usize].iter().for_each(|block| state.merge(block.changes.clone()));
    state
}

/// Checks every key that any block wrote, at this height.
fn assert_old(chain: &Chain, reader: &Reader, height: u64) {
    let view = reader.state(Height(height)).unwrap_or_else(|| panic!("the state of block {height}"));
    let (then, ever) = (state_at(chain, height), state_at(chain, chain.head().block.height().0));
    for address in ever.accounts.keys() {
        assert_eq!(view.account(address), then.accounts.get(address).cloned().flatten(), "{address} at {height}");
    }
    for (address, slot) in ever.storage.keys() {
        let expected = then.storage.get(&(*address, *slot)).copied().unwrap_or_default();
        assert_eq!(view.storage(address, slot), expected, "{slot} at {height}");
    }
    for (hash, code) in &then.code {
        assert_eq!(view.code(hash).as_ref(), Some(code));
    }
    assert_eq!(view.account(&Address::repeat_byte(0xee)), None);
    assert!(!view.interrupted());
}

/// Checks that exactly the heights from `first` to the checkpoint are readable, with the correct values.
fn assert_from(chain: &Chain, reader: &Reader, first: u64) {
    let reached = reader.checkpoint_height().0;
    for height in 0..=reached + 2 {
        match (first..=reached).contains(&height) {
            true => assert_old(chain, reader, height),
            false => assert!(reader.state(Height(height)).is_none(), "{height} of {first} to {reached}"),
        }
    }
}

/// Moves the checkpoint to each of these heights, with a restart after each.
fn grow(chain: &mut Chain, directory: &std::path::Path, options: &Options, heights: &[u64], first: impl Fn(u64) -> u64) {
    for height in heights {
        let (mut store, recovered) = open(directory, options.clone()).unwrap();
        assert_eq!(recovered.rebuilt, None);
        while chain.head().block.height().0 < *height {
            chain.extend();
        }
        append(&mut store, chain);
        store.checkpoint();
        assert_eq!(store.reader().checkpoint_height(), Height(*height));
        assert_from(chain, &store.reader(), first(*height));
        drop((store, recovered));
        let (store, _) = open(directory, options.clone()).unwrap();
        assert_from(chain, &store.reader(), first(*height));
    }
}

#[test]
fn archive_keeps_all_states() {
    for backend in BACKENDS {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { history: History::Archive, ..options(backend) };
        grow(&mut Chain::new(), directory.path(), &options, &[1, 7, 8, 40, 61], |_| 0);
    }
}

#[test]
fn old_states_are_pruned() {
    for backend in BACKENDS {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { history: History::Blocks(20), ..options(backend) };
        let mut chain = Chain::new();
        let first = |height: u64| height.saturating_sub(20);
        grow(&mut chain, directory.path(), &options, &[9, 20, 21, 40, 41, 60], first);
        // A batch deletes only rows of blocks that were in the checkpoint before it; the next one continues.
        grow(&mut chain, directory.path(), &options, &[100], |_| 60);
        grow(&mut chain, directory.path(), &options, &[101], |_| 81);
    }
}

#[test]
fn archive_is_rebuilt_from_log() {
    for backend in BACKENDS {
        let directory = tempfile::tempdir().unwrap();
        let mut chain = Chain::new();
        let with = |history| Options { history, ..options(backend) };
        let open_at = |chain: &mut Chain, history, height: u64| {
            let (mut store, recovered) = open(directory.path(), with(history)).unwrap();
            while chain.head().block.height().0 < height {
                chain.extend();
            }
            append(&mut store, chain);
            store.checkpoint();
            (store, recovered.rebuilt)
        };
        let (store, _) = open_at(&mut chain, History::Off, 20);
        assert!((0..=20).all(|height| store.reader().state(Height(height)).is_none()));
        drop(store);
        // Readable from the height at which it was enabled.
        let (store, rebuilt) = open_at(&mut chain, History::Blocks(1_000), 30);
        assert_eq!(rebuilt, None);
        assert_from(&chain, &store.reader(), 20);
        drop(store);
        // After a gap, nothing below the gap is used.
        let (store, _) = open_at(&mut chain, History::Off, 35);
        assert!(store.reader().state(Height(25)).is_none());
        drop(store);
        let (store, _) = open_at(&mut chain, History::Blocks(1_000), 45);
        assert_from(&chain, &store.reader(), 35);
        drop(store);
        let (store, rebuilt) = open_at(&mut chain, History::Archive, 50);
        assert!(rebuilt.is_some_and(|why| why.contains("an archive is configured")));
        assert_from(&chain, &store.reader(), 0);
        drop(store);
        let (store, rebuilt) = open_at(&mut chain, History::Archive, 55);
        assert_eq!(rebuilt, None, "once is enough");
        assert_from(&chain, &store.reader(), 0);
        drop(store);
        // An archive contains everything that a smaller setting needs.
        let (store, _) = open_at(&mut chain, History::Blocks(10), 60);
        assert_from(&chain, &store.reader(), 50);
    }
}

#[test]
fn state_pruned_during_read_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { history: History::Blocks(5), ..options(BACKENDS[0]) };
    let (mut store, _) = open(directory.path(), options).unwrap();
    let mut chain = Chain::of(10);
    append(&mut store, &chain);
    store.checkpoint();
    let view = store.reader().state(Height(6)).unwrap();
    let address = Address::with_last_byte(2);
    view.account(&address);
    assert!(!view.interrupted());
    for _ in 0..2 {
        (0..6).for_each(|_| drop(chain.extend()));
        append(&mut store, &chain);
        store.checkpoint();
    }
    view.account(&address);
    assert!(view.interrupted());
    assert!(store.reader().state(Height(6)).is_none());
}

#[test]
fn history_setting_parses() {
    let parsed = ["archive", "0", "90000", "all", "-1", ""].map(|word| word.parse().ok());
    assert_eq!(parsed, [Some(History::Archive), Some(History::Off), Some(History::Blocks(90_000)), None, None, None]);
}
