//! `corniche account`: keys of accounts in keystore files.

use anyhow::{Context, ensure};
use clap::Subcommand;
use corniche_console::{
    exit,
    keystore::{self, unlock},
    secret,
};
use corniche_crypto::EthereumKey;
use corniche_types::B256;
use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// Create and manage accounts: password-protected key files in the format of geth, cast and wallets
///
/// A keystore is selected by its name in the directory CORNICHE_KEYSTORES (default ~/.corniche/keystores), or by its path. The
/// password comes from --password-file, from the environment variable CORNICHE_PASSWORD, or from a prompt.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// File with the password
    #[arg(long, value_name = "FILE", global = true)]
    password_file: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Create an account and print its address
    New {
        #[arg(value_name = "NAME")]
        name: PathBuf,
    },
    /// Import an existing key into a keystore and print its address; prompts for the key
    Import {
        #[arg(value_name = "NAME")]
        name: PathBuf,
        /// File with the key as hexadecimal, mode 0600, instead of the prompt
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
    },
    /// Print the names and addresses of all keystores
    List,
    /// Print the address of a keystore
    Show {
        #[arg(value_name = "NAME")]
        name: PathBuf,
        /// Print the private key instead; prompts for the password
        #[arg(long)]
        private_key: bool,
    },
}

/// Runs `corniche account`.
pub fn run(args: Args) -> anyhow::Result<()> {
    let password_file = args.password_file.as_deref();
    match args.command {
        Command::New { name } => save(&fresh(), &name, password_file),
        Command::Import { name, key_file } => {
            let key = match key_file {
                Some(path) => secret::read(&path, EthereumKey::from_hex)?,
                None => {
                    let asked = rpassword::prompt_password("private key, as hexadecimal: ");
                    let text = zeroize::Zeroizing::new(asked.context("no terminal to enter the key; use --key-file")?);
                    EthereumKey::from_hex(text.trim()).ok().context("this is not a private key: 64 hexadecimal digits")?
                }
            };
            save(&key, &name, password_file)
        }
        Command::List => list(),
        Command::Show { name, private_key } => {
            let path = keystore::find(&name)?;
            let keystore = keystore::Keystore::open(&path)?;
            if private_key {
                exit::result(format_args!("0x{}", unlock(&path, &keystore, password_file)?.to_hex()));
                return Ok(());
            }
            let address = match keystore.address() {
                Some(address) => address,
                None => unlock(&path, &keystore, password_file)?.address(),
            };
            exit::result(address.to_checksum(None));
            Ok(())
        }
    }
}

fn fresh() -> EthereumKey {
    // Only one in 2^128 values is not a valid key.
    std::iter::repeat_with(|| EthereumKey::from_bytes(&B256::random().0)).find_map(Result::ok).expect("an endless iterator")
}

fn save(key: &EthereumKey, name: &Path, password_file: Option<&Path>) -> anyhow::Result<()> {
    let path = if name.components().count() > 1 { name.to_owned() } else { keystore::directory()?.join(name) };
    ensure!(!path.exists(), "{} exists already, and keys are never overwritten", path.display());
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .with_context(|| format!("cannot create {}", parent.display()))?;
    }
    let password = keystore::new_password(password_file)?;
    keystore::Keystore::lock(key, &password, keystore::STANDARD)?.save(&path)?;
    exit::note(format_args!("the key is in {}; without the file and its password it is lost", path.display()));
    exit::result(key.address().to_checksum(None));
    Ok(())
}

fn list() -> anyhow::Result<()> {
    let directory = keystore::directory()?;
    let Ok(entries) = fs::read_dir(&directory) else {
        exit::note(format_args!("{} is not there yet: `corniche account new NAME` makes the first", directory.display()));
        return Ok(());
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match keystore::Keystore::open(&path) {
            Ok(keystore) => {
                let address = keystore.address().map_or_else(|| "(no address)".into(), |address| address.to_checksum(None));
                exit::result(format_args!("{name}\t{address}"));
            }
            Err(error) => exit::note(format_args!("{name}: {error:#}")),
        }
    }
    Ok(())
}
