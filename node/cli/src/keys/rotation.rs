//! Replacement of a validator's keys without a restart (validators.md §5, K1).
//!
//! `corniche keys next` makes the directory `next/` beside the keys, and `corniche validator rotate` registers it. The node loads both,
//! and uses in each epoch the keys that its committee lists. Once a committee lists the new ones, they move up, and the old ones
//! move to `old-<epoch>/`.

use super::{load, read_public, save, source::KeySource, sync_directory};
use anyhow::{Context, ensure};
use corniche_service::{Keyring, MemberKeys, NodeHandle, StakeKeys, ValidatorKeys};
use corniche_types::B256;
use std::{convert::Infallible, fs, io, os::unix::fs::DirBuilderExt, path::Path, time::Duration};

/// Directory of the next keys.
pub const NEXT: &str = "next";

/// Directory of replaced keys, before the number of the epoch.
pub const OLD_PREFIX: &str = "old-";

/// Directory of keys that move up. It is whole, so what is in it is right.
const MOVING: &str = "moving";

/// Files that move up.
const MOVES: [&str; 5] = ["coin-seed.key", "consensus.key", "bls.key", "network.key", "public.json"];

/// Interval at which the node looks for new keys.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Makes the next keys of a validator. Identity in the network, fee address and owner stay.
pub fn make_next(directory: &Path) -> anyhow::Result<ValidatorKeys> {
    let current = load(directory)?;
    let target = directory.join(NEXT);
    ensure!(
        !target.exists(),
        "{} exists: register these keys with `corniche validator rotate`; they move up in the first epoch whose committee lists them",
        target.display()
    );
    let made = ValidatorKeys::from_seed(B256::random().0);
    let stake = made.stake.zip(current.stake).map(|(made, current)| StakeKeys { coin: made.coin, owner: current.owner });
    let keys = ValidatorKeys {
        stake: Some(stake.context("there is no coin-seed.key: keys from before staking cannot be replaced")?),
        network: current.network,
        fee_address: current.fee_address,
        fee_key: None,
        ..made
    };
    // A running node sees all of it or nothing.
    let unfinished = directory.join("next.new");
    remove(&unfinished)?;
    save(&keys, &unfinished)?;
    rename(&unfinished, &target)?;
    sync_directory(directory)?;
    Ok(keys)
}

/// Loads a validator's keys, with the next ones if there are any. A problem with the next ones is reported, and stops nobody.
pub fn load_all(source: &KeySource) -> anyhow::Result<Keyring> {
    let directory = &source.directory;
    finish_move(directory)?;
    let next = directory.join(NEXT);
    let loaded = next.exists().then(|| source.load(&next));
    let next = loaded.and_then(|loaded| {
        loaded.inspect_err(|error| tracing::warn!(error = format!("{error:#}"), "the next keys are not used")).ok()
    });
    Ok(Keyring { current: source.load(directory)?, next })
}

/// Moves the next keys up. `epoch` is the first one whose committee lists them.
///
/// 1. `old-<epoch>` gets links to the current files, under a name of its own until it is complete.
/// 2. `next` becomes `moving`. From here on, the next start finishes the move.
/// 3. Files in `moving` replace the current ones. `moving` is removed.
fn move_up(directory: &Path, epoch: u64) -> anyhow::Result<()> {
    let (old, unfinished) = (directory.join(format!("{OLD_PREFIX}{epoch}")), directory.join("old.new"));
    if old.exists() {
        // Step 1 of a move that was interrupted.
        let current = read_public(&directory.join("public.json"))?.consensus_key;
        let is_copy = read_public(&old.join("public.json")).is_ok_and(|public| public.consensus_key == current);
        ensure!(is_copy, "{} exists; move it away, so that no keys are lost", old.display());
        rename(&directory.join(NEXT), &directory.join(MOVING))?;
        return finish_move(directory);
    }
    remove(&unfinished)?;
    fs::DirBuilder::new().mode(0o700).create(&unfinished).with_context(|| format!("cannot create {}", unfinished.display()))?;
    for name in MOVES.into_iter().chain(["coin.key"]).filter(|name| directory.join(name).exists()) {
        let (from, to) = (directory.join(name), unfinished.join(name));
        fs::hard_link(&from, &to).with_context(|| format!("cannot link {} to {}", from.display(), to.display()))?;
    }
    sync_directory(&unfinished)?;
    rename(&unfinished, &old)?;
    sync_directory(directory)?;
    rename(&directory.join(NEXT), &directory.join(MOVING))?;
    finish_move(directory)
}

/// Finishes a move that has begun.
fn finish_move(directory: &Path) -> anyhow::Result<()> {
    let moving = directory.join(MOVING);
    if !moving.exists() {
        return Ok(());
    }
    sync_directory(directory)?;
    // A share of the genesis' coin is of the old keys. It stays in their directory.
    match fs::remove_file(directory.join("coin.key")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).context("cannot remove the old coin.key"),
        _ => {}
    }
    for name in MOVES.into_iter().filter(|name| moving.join(name).exists()) {
        rename(&moving.join(name), &directory.join(name))?;
    }
    remove(&moving)?;
    sync_directory(directory)
}

fn rename(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::rename(from, to).with_context(|| format!("cannot move {} to {}", from.display(), to.display()))
}

fn remove(directory: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

/// Looks after the keys of a running node.
pub struct KeyWatch {
    source: KeySource,
    keys: Keyring,
    /// Reported once.
    last_error: Option<String>,
}

impl KeyWatch {
    pub fn new(source: KeySource, keys: Keyring) -> Self {
        Self { source, keys, last_error: None }
    }

    /// Gives new keys to a node, for as long as it runs.
    pub async fn run(mut self, node: &NodeHandle) -> Infallible {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let error = self.poll(node).err().map(|error| format!("{error:#}"));
            if let Some(error) = error.as_ref().filter(|error| self.last_error.as_ref() != Some(error)) {
                tracing::warn!(error, "the next keys are not used");
            }
            self.last_error = error;
        }
    }

    fn poll(&mut self, node: &NodeHandle) -> anyhow::Result<()> {
        let path = self.source.directory.join(NEXT);
        let known = self.keys.next.as_ref().map(MemberKeys::consensus_key);
        // Also another set in place of the one before, as long as none serves.
        let found =
            path.exists().then(|| read_public(&path.join("public.json"))).transpose()?.map(|public| public.consensus_key);
        if let Some(found) = found.filter(|found| Some(*found) != known) {
            let keys = Keyring { next: Some(self.source.load(&path)?), ..self.keys.clone() };
            node.replace_keys(&keys)?;
            self.keys = keys;
            tracing::info!(consensus = %found, "loaded the next keys; they serve once a committee lists them");
        }
        let Some(next) = self.keys.next.clone() else { return Ok(()) };
        let (committee, consensus) = (node.committee(), next.consensus_key());
        if committee.members().any(|(_, member)| member.consensus_key == consensus) {
            let epoch = committee.epoch().0;
            ensure!(
                found == Some(consensus),
                "{} does not contain the keys that the committee lists; put them back",
                path.display()
            );
            move_up(&self.source.directory, epoch)?;
            self.keys = next.into();
            node.replace_keys(&self.keys)?;
            tracing::info!(epoch, %consensus, "the next keys are the validator's keys now; the old ones are in old-{epoch}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn load_all(directory: &Path) -> anyhow::Result<Keyring> {
        super::load_all(&KeySource { directory: directory.to_owned(), signer: None })
    }

    fn made() -> (tempfile::TempDir, PathBuf, [ValidatorKeys; 2]) {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("keys");
        save(&ValidatorKeys::from_seed([7; 32]), &directory).unwrap();
        let next = make_next(&directory).unwrap();
        let current = load(&directory).unwrap();
        (parent, directory, [current, next])
    }

    #[test]
    fn next_keys_keep_identity_and_accounts() {
        let (_parent, directory, [current, next]) = made();
        let (before, after) = (current.public(), next.public());
        assert_eq!((before.network_key, before.fee_address), (after.network_key, after.fee_address));
        let (stake, next_stake) = (before.stake.unwrap(), after.stake.unwrap());
        assert_eq!(stake.owner, next_stake.owner);
        assert_ne!(stake.coin_key, next_stake.coin_key);
        assert_ne!((before.consensus_key, before.bls_key), (after.consensus_key, after.bls_key));
        let error = make_next(&directory).unwrap_err();
        assert!(error.to_string().contains("corniche validator rotate"), "{error:#}");
        let all = load_all(&directory).unwrap();
        assert_eq!(all.sets().map(|keys| keys.public.clone()).collect::<Vec<_>>(), [current.public(), next.public()]);
    }

    /// The move may stop after any step. The next start finishes it, once the old keys are safe.
    #[test]
    fn interrupted_move_is_finished() {
        for files in 0..=MOVES.len() {
            let (_parent, directory, [current, next]) = made();
            fs::write(directory.join("coin.key"), "share").unwrap();
            let copy = directory.parent().unwrap().join("copy");
            fs::create_dir(&copy).unwrap();
            MOVES.iter().for_each(|name| _ = fs::copy(directory.join(NEXT).join(name), copy.join(name)).unwrap());
            move_up(&directory, 3).unwrap();
            // As if it had stopped after some files.
            fs::create_dir(directory.join(MOVING)).unwrap();
            for name in &MOVES[files..] {
                fs::copy(directory.join("old-3").join(name), directory.join(name)).unwrap();
                fs::copy(copy.join(name), directory.join(MOVING).join(name)).unwrap();
            }
            let all = load_all(&directory).unwrap();
            assert_eq!(all.current.public, next.public(), "{files} files moved");
            assert!(all.next.is_none() && all.current.coin.is_none());
            assert!(!directory.join(NEXT).exists() && !directory.join(MOVING).exists());
            fs::remove_file(directory.join("old-3/coin.key")).unwrap();
            assert_eq!(load(&directory.join("old-3")).unwrap().public(), current.public());
        }
    }

    /// Whatever is in `next`, the current keys stay until a move has begun.
    #[test]
    fn incomplete_next_keys_harm_nobody() {
        let (_parent, directory, [current, _]) = made();
        fs::write(directory.join("coin.key"), "share").unwrap();
        fs::remove_file(directory.join("coin.key")).unwrap();
        for name in MOVES {
            fs::remove_file(directory.join(NEXT).join(name)).unwrap();
            let all = load_all(&directory).unwrap();
            assert_eq!((all.current.public, all.next.is_none()), (current.public(), true), "without {name}");
        }
    }

    /// A directory of old keys is complete or absent. An existing one is never changed.
    #[test]
    fn old_keys_are_never_lost() {
        let (_parent, directory, [current, next]) = made();
        fs::create_dir(directory.join("old.new")).unwrap();
        fs::write(directory.join("old.new/consensus.key"), "half").unwrap();
        fs::create_dir(directory.join("old-9")).unwrap();
        assert!(move_up(&directory, 9).unwrap_err().to_string().contains("old-9 exists"));
        assert_eq!(load_all(&directory).unwrap().current.public, current.public());
        move_up(&directory, 10).unwrap();
        assert_eq!(load(&directory.join("old-10")).unwrap().public(), current.public());
        assert_eq!(load_all(&directory).unwrap().current.public, next.public());
        assert!(!directory.join("old.new").exists());
    }

    /// The move stopped once the old keys were safe, and before anything else.
    #[test]
    fn move_continues_after_the_copy() {
        let (_parent, directory, [current, next]) = made();
        fs::create_dir(directory.join("old-3")).unwrap();
        MOVES.iter().for_each(|name| fs::hard_link(directory.join(name), directory.join("old-3").join(name)).unwrap());
        move_up(&directory, 3).unwrap();
        assert_eq!(load(&directory.join("old-3")).unwrap().public(), current.public());
        assert_eq!(load_all(&directory).unwrap().current.public, next.public());
    }
}
