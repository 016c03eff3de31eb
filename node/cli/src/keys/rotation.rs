//! Replacement of a validator's keys without a restart (validators.md §5, K1).
//!
//! `corniche keys next` makes the directory `next/` beside the keys, and `corniche validator rotate` registers it. The node loads both,
//! and uses in each epoch the keys that its committee lists. Once a committee lists the new ones, they move up, and the old ones
//! move to `old-<epoch>/`.

use super::{load, save, source::KeySource, sync_directory};
use anyhow::{Context, ensure};
use corniche_service::{Keyring, NodeHandle, StakeKeys, ValidatorKeys};
use corniche_types::B256;
use std::{convert::Infallible, fs, io, os::unix::fs::DirBuilderExt, path::Path, time::Duration};

/// Directory of the next keys.
pub const NEXT: &str = "next";

/// Files in the order in which they move up. The first one begins the move, the last one ends it.
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

/// Loads a validator's keys, with the next ones if there are any.
pub fn load_all(source: &KeySource) -> anyhow::Result<Keyring> {
    let directory = &source.directory;
    finish_move(directory)?;
    let next = directory.join(NEXT);
    Ok(Keyring { current: source.load(directory)?, next: next.exists().then(|| source.load(&next)).transpose()? })
}

/// Moves the next keys up. `epoch` is the first one whose committee lists them.
fn move_up(directory: &Path, epoch: u64) -> anyhow::Result<()> {
    let (old, unfinished) = (directory.join(format!("old-{epoch}")), directory.join("old.new"));
    if !old.exists() {
        remove(&unfinished)?;
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&unfinished)
            .with_context(|| format!("cannot create {}", unfinished.display()))?;
        for name in MOVES.into_iter().chain(["coin.key"]).filter(|name| directory.join(name).exists()) {
            let (from, to) = (directory.join(name), unfinished.join(name));
            fs::hard_link(&from, &to).with_context(|| format!("cannot link {} to {}", from.display(), to.display()))?;
        }
        rename(&unfinished, &old)?;
    }
    move_files(directory)
}

/// Finishes a move that was interrupted.
fn finish_move(directory: &Path) -> anyhow::Result<()> {
    let next = directory.join(NEXT);
    let has_begun = next.is_dir() && !next.join(MOVES[0]).exists();
    if has_begun { move_files(directory) } else { Ok(()) }
}

fn move_files(directory: &Path) -> anyhow::Result<()> {
    let next = directory.join(NEXT);
    // A share of the genesis' coin is of the old keys. It stays in their directory.
    match fs::remove_file(directory.join("coin.key")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).context("cannot remove the old coin.key"),
        _ => {}
    }
    for name in MOVES.into_iter().filter(|name| next.join(name).exists()) {
        rename(&next.join(name), &directory.join(name))?;
    }
    remove(&next)?;
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
        let Some(next) = &self.keys.next else {
            if path.exists() {
                let next = self.source.load(&path)?;
                let consensus = next.consensus_key();
                let keys = Keyring { next: Some(next), ..self.keys.clone() };
                node.replace_keys(&keys)?;
                self.keys = keys;
                tracing::info!(%consensus, "loaded the next keys; they serve once a committee lists them");
            }
            return Ok(());
        };
        let committee = node.committee();
        let consensus = next.consensus_key();
        if committee.members().any(|(_, member)| member.consensus_key == consensus) {
            let epoch = committee.epoch().0;
            move_up(&self.source.directory, epoch)?;
            self.keys = next.clone().into();
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

    /// The move may stop after any step. The next start finishes it.
    #[test]
    fn interrupted_move_is_finished() {
        for files in 0..=MOVES.len() {
            let (_parent, directory, [current, next]) = made();
            fs::write(directory.join("coin.key"), "share").unwrap();
            let (moved, left) = MOVES.split_at(files);
            let beside = directory.parent().unwrap().join("beside");
            fs::create_dir(&beside).unwrap();
            // Those that are left cannot move yet.
            left.iter().for_each(|name| fs::rename(directory.join(NEXT).join(name), beside.join(name)).unwrap());
            if !moved.is_empty() {
                move_up(&directory, 3).unwrap();
                fs::create_dir_all(directory.join(NEXT)).unwrap();
            }
            left.iter().for_each(|name| fs::rename(beside.join(name), directory.join(NEXT).join(name)).unwrap());
            if moved.is_empty() {
                fs::remove_file(directory.join("coin.key")).unwrap();
                let all = load_all(&directory).unwrap();
                assert_eq!(all.current.public, current.public());
                assert_eq!(all.next.unwrap().public, next.public());
                continue;
            }
            let all = load_all(&directory).unwrap();
            assert_eq!(all.current.public, next.public(), "{files} files moved");
            assert!(all.next.is_none() && all.current.coin.is_none() && !directory.join(NEXT).exists());
            fs::remove_file(directory.join("old-3/coin.key")).unwrap();
            assert_eq!(load(&directory.join("old-3")).unwrap().public(), current.public());
        }
    }

    /// The directory of old keys is whole, or is not there.
    #[test]
    fn keys_move_up_again_after_a_failure() {
        let (_parent, directory, [current, next]) = made();
        fs::create_dir(directory.join("old.new")).unwrap();
        fs::write(directory.join("old.new/consensus.key"), "half").unwrap();
        move_up(&directory, 9).unwrap();
        assert_eq!(load(&directory.join("old-9")).unwrap().public(), current.public());
        assert_eq!(load_all(&directory).unwrap().current.public, next.public());
        assert!(!directory.join("old.new").exists());
    }
}
