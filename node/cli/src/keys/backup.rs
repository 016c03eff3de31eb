//! `corniche keys backup` and `corniche keys restore`: all keys of a validator in one encrypted file.
//!
//! The file is JSON. `version` and `kind` identify the format, and `consensus_key` names the validator. `crypto` is encrypted
//! like an account's keystore. Its content is a JSON object that maps names of files to their texts.
//!
//! A backup contains the files in [`FILES`], also those of the directories `next/` and `old-<epoch>/`. It never contains
//! records of what was signed, such as `coin-opened.json`: with an old copy of them a validator may sign twice. Without
//! records, a restored node first asks a quorum what it signed.

use super::rotation::{NEXT, OLD_PREFIX};
use super::{load, public_json, sync_directory};
use anyhow::{Context, anyhow, ensure};
use corniche_console::{
    exit::{self, Exit, Failed},
    keystore::{self, Cost, Crypto, WrongPassword},
    secret,
};
use corniche_crypto::ConsensusKey;
use corniche_types::{B256, ValidatorInfo};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fs,
    io::{self, BufRead, Read},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};
use zeroize::{Zeroize, Zeroizing};

const KIND: &str = "corniche-keys-backup";
const VERSION: u32 = 1;

/// Size of a backup. The files of one directory have about 2 KiB, twice that when encrypted.
const MAX_BYTES: u64 = 1 << 20;

const CONSENSUS: &str = "consensus.key";
const PUBLIC: &str = "public.json";
const FILES: &[&str] = &[CONSENSUS, "bls.key", "network.key", "coin.key", "coin-seed.key", "fee.key", PUBLIC];

const WARNING: &str = "\
a validator that runs twice with the same keys signs contradictory messages and loses stake
- the data directory of the old machine must not run any more
- a backup never contains what was signed, so the restored node first asks a quorum what it signed";

/// Write the keys of a validator to one encrypted file, and print its consensus public key
///
/// The backup contains the key files and public.json, also those of next/ and old-<epoch>/. It contains nothing else, and no
/// record of what was signed. The password comes from --password-file, from the environment variable CORNICHE_PASSWORD,
/// or from a prompt.
#[derive(clap::Args, Debug)]
pub struct BackupArgs {
    #[arg(value_name = "DIR", default_value = "keys")]
    keys: PathBuf,
    /// File to create for the backup, mode 0600
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// File with the password
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// Restore the keys of a validator from a backup, and print their public part as JSON
///
/// The password comes from --password-file, from the environment variable CORNICHE_PASSWORD, or from a prompt.
#[derive(clap::Args, Debug)]
pub struct RestoreArgs {
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Directory to create for the keys, mode 0700
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Confirm that no other node runs with these keys, instead of the word `yes` on standard input
    #[arg(long)]
    yes: bool,
    /// File with the password
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// Runs `corniche keys backup`.
pub fn backup(args: BackupArgs) -> anyhow::Result<()> {
    ensure_absent(&args.out)?;
    let (files, left_out) = Files::read(&args.keys)?;
    if !left_out.is_empty() {
        exit::note(format_args!("not in the backup: {}", left_out.join(", ")));
    }
    let password = keystore::new_password(args.password_file.as_deref())?;
    let backup = Backup::lock(&files, &password, keystore::STANDARD)?;
    backup.save(&args.out)?;
    exit::note(format_args!("the backup is in {}; without its password it is lost", args.out.display()));
    exit::result(backup.consensus_key);
    Ok(())
}

/// Runs `corniche keys restore`.
pub fn restore(args: RestoreArgs) -> anyhow::Result<()> {
    ensure_absent(&args.out)?;
    let backup = Backup::open(&args.file)?;
    let prompt = format!("password of {}: ", args.file.display());
    let password = keystore::password(args.password_file.as_deref(), &prompt)?;
    let files = backup.unlock(&password).with_context(|| format!("cannot open {}", args.file.display()))?;
    exit::note(format_args!("backup of the validator with consensus key {}", backup.consensus_key));
    exit::note(WARNING);
    if !args.yes {
        exit::note(format_args!("type yes to write the keys to {}:", args.out.display()));
        if !is_confirmed(io::stdin().lock()).context("cannot read standard input")? {
            return Err(Failed::new(Exit::Usage, "not confirmed: expected the word yes; nothing was written").into());
        }
    }
    let public = files.restore(&args.out)?;
    exit::note(format_args!("the keys are in {}", args.out.display()));
    exit::result(public_json(&public));
    Ok(())
}

fn ensure_absent(path: &Path) -> anyhow::Result<()> {
    ensure!(!path.exists(), "{} exists already, and is never overwritten", path.display());
    Ok(())
}

/// Checks that the first line is `yes`. The limit exceeds all accepted lines, so a longer line is never accepted.
fn is_confirmed(input: impl BufRead) -> io::Result<bool> {
    let mut line = Vec::new();
    input.take(8).read_until(b'\n', &mut line)?;
    Ok(matches!(line.as_slice(), b"yes" | b"yes\n" | b"yes\r\n"))
}

/// Content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Backup {
    version: u32,
    kind: String,
    /// Not encrypted, so that one sees the validator. Compared with the key when the backup is opened.
    consensus_key: B256,
    crypto: Crypto,
}

impl Backup {
    fn lock(files: &Files, password: &str, cost: Cost) -> anyhow::Result<Self> {
        let consensus_key = files.consensus_key().context("there is no consensus key")?;
        let text = Zeroizing::new(serde_json::to_vec(&files.0)?);
        Ok(Self { version: VERSION, kind: KIND.to_owned(), consensus_key, crypto: Crypto::lock(&text, password, cost)? })
    }

    /// Decrypts the files and checks their names.
    fn unlock(&self, password: &str) -> anyhow::Result<Files> {
        let text = self.crypto.unlock(password).map_err(|error| {
            if error.is::<WrongPassword>() { anyhow!("the password is wrong, or the file is damaged") } else { error }
        })?;
        // The error of the parser would contain parts of secrets.
        let files = serde_json::from_slice(&text).ok().map(Files);
        let files = files.context("the file is damaged: its content is not a list of key files")?;
        for name in files.0.keys() {
            ensure!(is_known(name), "it contains the file {name:?}, which no keys directory has");
        }
        ensure!(
            files.consensus_key() == Some(self.consensus_key),
            "it names the consensus key {}, but contains keys of another validator",
            self.consensus_key
        );
        Ok(files)
    }

    fn open(path: &Path) -> anyhow::Result<Self> {
        let mut text = Vec::new();
        fs::File::open(path)
            .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut text))
            .with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(
            text.len() as u64 <= MAX_BYTES,
            "{} is larger than {MAX_BYTES} bytes, so it is no backup of keys",
            path.display()
        );
        let backup: Self = serde_json::from_slice(&text)
            .with_context(|| format!("{} is no backup of keys, or it is damaged", path.display()))?;
        ensure!(backup.kind == KIND, "{}: expected the kind {KIND:?}, got {:?}", path.display(), backup.kind);
        ensure!(backup.version == VERSION, "{}: expected version {VERSION}, got version {}", path.display(), backup.version);
        Ok(backup)
    }

    /// Writes a new file of mode 0600.
    fn save(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        // A newline follows.
        let bytes = text.len() as u64 + 1;
        ensure!(bytes <= MAX_BYTES, "the backup would have {bytes} bytes, but at most {MAX_BYTES} are restored");
        secret::write(path, &text)
    }
}

/// Texts of files by their names relative to the keys directory. No `Debug`, because they are secrets.
#[derive(Default)]
struct Files(BTreeMap<String, String>);

impl Files {
    /// Reads a keys directory. Also returns the names of all files and directories that a backup does not contain.
    fn read(directory: &Path) -> anyhow::Result<(Self, Vec<String>)> {
        let public = load_all(directory)?;
        let (files, left_out) = Self::read_once(directory)?;
        // A node moves keys of `next/` up, one file after the other.
        let is_unchanged = files.consensus_key() == Some(public.consensus_key) && Self::read_once(directory)?.0.0 == files.0;
        ensure!(is_unchanged, "{} changed while it was read; try again", directory.display());
        Ok((files, left_out))
    }

    fn read_once(directory: &Path) -> anyhow::Result<(Self, Vec<String>)> {
        let (mut files, mut left_out) = (Self::default(), Vec::new());
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let path = directory.join(&folder);
            let entries = fs::read_dir(&path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
            for entry in entries.with_context(|| format!("cannot read {}", path.display()))? {
                let (name, path) = (format!("{folder}{}", entry.file_name().to_string_lossy()), entry.path());
                if is_known(&name) {
                    files.0.insert(name, read_text(&path)?);
                } else if folder.is_empty() && is_known_folder(&name) && path.is_dir() {
                    folders.push(name + "/");
                } else {
                    left_out.push(name.escape_debug().to_string());
                }
            }
        }
        left_out.sort();
        Ok((files, left_out))
    }

    /// Creates a keys directory and returns its public part. After an error the directory does not exist.
    fn restore(&self, directory: &Path) -> anyhow::Result<ValidatorInfo> {
        let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        let draft = tempfile::Builder::new()
            .prefix(".keys-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .with_context(|| format!("cannot create a directory in {}", parent.display()))?;
        self.write(draft.path())?;
        let public = load_all(draft.path()).context("the keys in the backup are incomplete or do not belong together")?;
        // A rename would replace an empty directory.
        ensure_absent(directory)?;
        fs::rename(draft.path(), directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let _ = draft.keep();
        sync_directory(parent)?;
        Ok(public)
    }

    /// Writes all files, durably.
    fn write(&self, directory: &Path) -> anyhow::Result<()> {
        let folders = self.0.keys().filter_map(|name| name.split_once('/')).map(|(folder, _)| directory.join(folder));
        let folders: BTreeSet<PathBuf> = folders.collect();
        for folder in &folders {
            let created = fs::DirBuilder::new().mode(0o700).create(folder);
            created.with_context(|| format!("cannot create {}", folder.display()))?;
        }
        for (name, text) in &self.0 {
            secret::write(&directory.join(name), text)?;
        }
        folders.iter().map(PathBuf::as_path).chain([directory]).try_for_each(sync_directory)
    }

    fn consensus_key(&self) -> Option<B256> {
        Some(ConsensusKey::from_hex(self.0.get(CONSENSUS)?).ok()?.public())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.0.values_mut().for_each(Zeroize::zeroize);
    }
}

/// Checks a name relative to the keys directory. No other path is ever written.
fn is_known(name: &str) -> bool {
    match name.split_once('/') {
        Some((folder, file)) => is_known_folder(folder) && FILES.contains(&file),
        None => FILES.contains(&name),
    }
}

fn is_known_folder(name: &str) -> bool {
    let is_number = |text: &str| text.parse::<u64>().is_ok_and(|number| number.to_string() == text);
    name == NEXT || name.strip_prefix(OLD_PREFIX).is_some_and(is_number)
}

/// Loads the keys, and the next ones if they exist. Old keys may be incomplete, because nothing is signed with them.
fn load_all(directory: &Path) -> anyhow::Result<ValidatorInfo> {
    let keys = load(directory)?;
    let next = directory.join(NEXT);
    if next.exists() {
        load(&next)?;
    }
    Ok(keys.public())
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    if path.ends_with(PUBLIC) {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        return Ok(text.trim().to_owned());
    }
    secret::read(path, |text| Ok::<_, Infallible>(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::save;
    use corniche_console::keystore::Keystore;
    use corniche_crypto::EthereumKey;
    use corniche_service::ValidatorKeys;
    use serde_json::{Value, json};
    use tempfile::TempDir;

    const PASSWORD: &str = "correct horse";
    const CHEAP: Cost = Cost { log_n: 4, r: 8, p: 1 };

    /// Keys in `keys/` of a folder, with the next ones and some old ones.
    fn saved() -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys");
        save(&ValidatorKeys::from_seed([7; 32]), &keys).unwrap();
        secret::write(&keys.join("coin.key"), &format!("0000{:064x}", 1)).unwrap();
        save(&ValidatorKeys::from_seed([8; 32]), &keys.join("next")).unwrap();
        fs::create_dir(keys.join("old-3")).unwrap();
        secret::write(&keys.join("old-3/consensus.key"), &"03".repeat(32)).unwrap();
        (folder, keys)
    }

    fn locked(keys: &Path) -> Backup {
        Backup::lock(&Files::read(keys).unwrap().0, PASSWORD, CHEAP).unwrap()
    }

    /// Texts of all files under a directory, by relative path.
    fn tree(directory: &Path) -> BTreeMap<PathBuf, String> {
        let mut texts = BTreeMap::new();
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = PathBuf::from(path.file_name().unwrap());
            if path.is_dir() {
                texts.extend(tree(&path).into_iter().map(|(below, text)| (name.join(below), text)));
            } else {
                texts.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
        texts
    }

    fn names(directory: &Path) -> BTreeSet<std::ffi::OsString> {
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn backup_round_trips() {
        let (folder, keys) = saved();
        assert!(Files::read(&keys).unwrap().1.is_empty());
        let path = folder.path().join("backup.json");
        locked(&keys).save(&path).unwrap();

        let backup = Backup::open(&path).unwrap();
        let restored = folder.path().join("new/keys");
        let public = backup.unlock(PASSWORD).unwrap().restore(&restored).unwrap();
        assert_eq!(public, ValidatorKeys::from_seed([7; 32]).public());
        assert_eq!(backup.consensus_key, public.consensus_key);
        assert_eq!(tree(&restored), tree(&keys));
        assert_eq!(tree(&restored).len(), 7 + 6 + 1);
        assert_eq!(names(&folder.path().join("new")).len(), 1, "no draft remains");
        assert_eq!(load(&restored.join("next")).unwrap().public(), ValidatorKeys::from_seed([8; 32]).public());
    }

    #[test]
    fn backup_shows_only_the_public_key() {
        let (_folder, keys) = saved();
        let text = serde_json::to_string(&locked(&keys)).unwrap();
        let shown: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(shown["kind"], KIND);
        assert_eq!(shown["consensus_key"], json!(ValidatorKeys::from_seed([7; 32]).public().consensus_key));
        for secret in tree(&keys).into_values() {
            assert!(!text.contains(secret.trim()) && !text.contains(&hex::encode(secret.trim())));
        }
    }

    #[test]
    fn everything_written_is_private() {
        let (folder, keys) = saved();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (path, restored) = (folder.path().join("backup.json"), folder.path().join("restored"));
        locked(&keys).save(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        locked(&keys).unlock(PASSWORD).unwrap().restore(&restored).unwrap();
        for directory in ["", "next", "old-3"] {
            assert_eq!(mode(&restored.join(directory)), 0o700, "{directory}");
        }
        for name in tree(&restored).into_keys() {
            assert_eq!(mode(&restored.join(&name)), 0o600, "{}", name.display());
        }
    }

    #[test]
    fn other_files_are_left_out() {
        let (_folder, keys) = saved();
        let before = Files::read(&keys).unwrap().0;
        for directory in ["safety", "next/old-1", "old-03", "old-x"] {
            fs::create_dir(keys.join(directory)).unwrap();
            fs::write(keys.join(directory).join("bls.key"), "").unwrap();
        }
        for file in ["UNSIGNED", "bls.key.bak", "coin-opened.json", "next/LOCK", "old-4"] {
            fs::write(keys.join(file), "").unwrap();
        }
        let (files, left_out) = Files::read(&keys).unwrap();
        let expected =
            ["UNSIGNED", "bls.key.bak", "coin-opened.json", "next/LOCK", "next/old-1", "old-03", "old-4", "old-x", "safety"];
        assert_eq!(left_out, expected);
        assert!(files.0 == before.0);
    }

    #[test]
    fn damaged_directory_is_not_backed_up() {
        let refused = |damage: fn(&Path)| {
            let (_folder, keys) = saved();
            damage(&keys);
            format!("{:#}", Files::read(&keys).err().expect("refused"))
        };
        let error = refused(|keys| fs::remove_dir_all(keys).unwrap());
        assert!(error.contains("is not a directory with keys"), "{error}");
        let error = refused(|keys| fs::rename(keys.join("next/bls.key"), keys.join("bls.key")).unwrap());
        assert!(error.contains("public.json is not the public part"), "{error}");
        let error = refused(|keys| fs::remove_file(keys.join("next/network.key")).unwrap());
        assert!(error.contains("next/network.key"), "{error}");
        let error = refused(|keys| {
            fs::set_permissions(keys.join("old-3/consensus.key"), fs::Permissions::from_mode(0o644)).unwrap();
        });
        assert!(error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn wrong_password_is_refused() {
        let (_folder, keys) = saved();
        let error = locked(&keys).unlock("Correct horse").err().expect("refused").to_string();
        assert_eq!(error, "the password is wrong, or the file is damaged");
    }

    #[test]
    fn damaged_backup_is_refused() {
        let (folder, keys) = saved();
        let good = serde_json::to_value(locked(&keys)).unwrap();
        let path = folder.path().join("damaged.json");
        let refused = |text: &str| {
            fs::write(&path, text).unwrap();
            let unlocked = Backup::open(&path).and_then(|backup| backup.unlock(PASSWORD));
            format!("{:#}", unlocked.err().expect("refused"))
        };
        let flipped = |pointer: &str| {
            let text = good.pointer(pointer).unwrap().as_str().unwrap();
            json!(format!("{}{}", if text.starts_with('0') { '1' } else { '0' }, &text[1..]))
        };
        for (pointer, value, says) in [
            ("/version", json!(2), "expected version 1, got version 2"),
            ("/kind", json!("corniche-backup"), "got \"corniche-backup\""),
            ("/consensus_key", json!(B256::ZERO), "keys of another validator"),
            ("/crypto", Value::Null, "is no backup of keys, or it is damaged"),
            ("/crypto/kdf", json!("none"), "is no backup of keys, or it is damaged"),
            ("/crypto/kdfparams/n", json!(1u64 << 40), "more work"),
            ("/crypto/kdfparams/salt", flipped("/crypto/kdfparams/salt"), "the password is wrong, or the file is damaged"),
            ("/crypto/mac", flipped("/crypto/mac"), "the password is wrong, or the file is damaged"),
            ("/crypto/ciphertext", flipped("/crypto/ciphertext"), "the password is wrong, or the file is damaged"),
            ("/crypto/ciphertext", json!("0g"), "its ciphertext is not hexadecimal"),
            ("/crypto/cipherparams/iv", flipped("/crypto/cipherparams/iv"), "its content is not a list of key files"),
        ] {
            let mut changed = good.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            let error = refused(&changed.to_string());
            assert!(error.contains(says), "{pointer}: {error}");
        }

        let text = good.to_string();
        let account = Keystore::lock(&EthereumKey::from_hex(&"07".repeat(32)).unwrap(), PASSWORD, CHEAP).unwrap();
        for text in ["", &text[..text.len() / 2], &serde_json::to_string(&account).unwrap()] {
            let error = refused(text);
            assert!(error.contains("is no backup of keys, or it is damaged"), "{error}");
        }
        let error = refused(&(text + &" ".repeat(MAX_BYTES as usize)));
        assert!(error.contains("larger than 1048576 bytes"), "{error}");
    }

    #[test]
    fn errors_hide_secrets() {
        let (_folder, keys) = saved();
        let secret = "5ec2e7";
        let crypto = Crypto::lock(format!("\"{secret}\"").as_bytes(), PASSWORD, CHEAP).unwrap();
        let error = Backup { crypto, ..locked(&keys) }.unlock(PASSWORD).err().expect("refused");
        assert!(!format!("{error:?}").contains(secret), "{error:?}");
    }

    #[test]
    fn only_known_names_are_restored() {
        for name in ["coin.key", "next/public.json", "old-0/bls.key", "old-18446744073709551615/fee.key"] {
            assert!(is_known(name), "{name}");
        }
        for name in [
            "",
            "LOCK",
            "coin-opened.json",
            "next",
            "safety/bls.key",
            "../bls.key",
            "/bls.key",
            "./bls.key",
            "next//bls.key",
            "next/../bls.key",
            "next/next/bls.key",
            "old-3/../../bls.key",
            "old-/bls.key",
            "old-03/bls.key",
            "old-+3/bls.key",
            "old-18446744073709551616/bls.key",
            "bls.key/",
            "bls.key\0",
            "BLS.KEY",
        ] {
            let mut files = Files::default();
            files.0.insert(CONSENSUS.to_owned(), "07".repeat(32));
            files.0.insert(name.to_owned(), "07".repeat(32));
            let error = Backup::lock(&files, PASSWORD, CHEAP).unwrap().unlock(PASSWORD).err().expect("refused");
            assert!(error.to_string().contains(&format!("contains the file {name:?}")), "{name:?}: {error}");
        }
    }

    #[test]
    fn failed_restore_leaves_nothing() {
        let (folder, keys) = saved();
        for damaged in ["network.key", "next/bls.key"] {
            let mut files = Files::read(&keys).unwrap().0;
            files.0.remove(damaged);
            let before = names(folder.path());
            let error = format!("{:#}", files.restore(&folder.path().join("restored")).unwrap_err());
            assert!(error.contains("do not belong together") && error.contains(damaged), "{error}");
            assert_eq!(names(folder.path()), before);
        }
    }

    #[test]
    fn nothing_is_overwritten() {
        let (folder, keys) = saved();
        let path = folder.path().join("backup.json");
        fs::write(&path, "precious").unwrap();
        assert!(locked(&keys).save(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");

        let (files, before) = (Files::read(&keys).unwrap().0, tree(&keys));
        let empty = folder.path().join("empty");
        fs::create_dir(&empty).unwrap();
        for existing in [&keys, &empty, &path] {
            let error = files.restore(existing).unwrap_err().to_string();
            assert!(error.contains("exists already, and is never overwritten"), "{error}");
        }
        assert_eq!(tree(&keys), before);
        assert!(names(&empty).is_empty());
    }

    #[test]
    fn backup_that_is_too_large_is_not_written() {
        let (folder, keys) = saved();
        let path = folder.path().join("backup.json");
        let mut files = Files::read(&keys).unwrap().0;
        files.0.insert("fee.key".to_owned(), " ".repeat(MAX_BYTES as usize / 2));
        let error = Backup::lock(&files, PASSWORD, CHEAP).unwrap().save(&path).unwrap_err().to_string();
        assert!(error.contains("at most 1048576 are restored"), "{error}");
        assert!(!path.exists());
    }

    #[test]
    fn only_the_word_yes_confirms() {
        for (input, expected) in [
            ("yes", true),
            ("yes\n", true),
            ("yes\r\n", true),
            ("yes\nno\n", true),
            ("", false),
            ("\n", false),
            ("y\n", false),
            ("no\n", false),
            ("YES\n", false),
            ("yes, later\n", false),
            ("yes     no\n", false),
        ] {
            assert_eq!(is_confirmed(input.as_bytes()).unwrap(), expected, "{input:?}");
        }
    }
}
