//! `corniche keys`: creation of a validator's keys, their public part, and the `keys/` directory.
//!
//! | file | content |
//! |---|---|
//! | `consensus.key` | ed25519 seed: signs the engine's messages |
//! | `bls.key` | BLS12-381 secret: signs headers |
//! | `network.key` | ed25519 seed of the libp2p identity |
//! | `coin.key` | share of the engine's threshold coin; missing before the genesis |
//! | `coin-seed.key` | deals coins, and decrypts shares of them |
//! | `fee.key` | secp256k1 key of the fee address, if it was created here |
//! | `public.json` | public part: the entry in the genesis' `validators` |
//! | `next/` | the keys that will replace these ([`rotation`]) |
//! | `old-<epoch>/` | keys that were replaced in that epoch |
//!
//! Secrets are lines of hexadecimal in files of mode 0600, in a directory of mode 0700. Files that others can
//! read are refused on loading, as in ssh: such a key must be considered compromised.

mod backup;
pub mod rotation;
pub mod source;

use anyhow::{Context, ensure};
use clap::Subcommand;
use corniche_console::{exit, secret};
use corniche_crypto::{BlsSecretKey, CoinKey, CoinSecretShare, ConsensusKey, EthereumKey};
use corniche_service::{NetworkKey, StakeKeys, ValidatorKeys};
use corniche_types::{Address, B256, ValidatorInfo};
use std::{
    fs,
    io::Write,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// Create, replace, back up or print a validator's keys
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Create the keys of one validator and print their public part as JSON, for `corniche genesis draft --from`
    New {
        /// Directory to create for the keys, mode 0700
        #[arg(long, value_name = "DIR", default_value = "keys")]
        out: PathBuf,
        /// Data directory in which the validator will run; records there that the new keys have signed nothing, so that
        /// a late first start is not taken for a lost disk
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
        /// Account that receives the validator's fees; default: a new account, whose key is created too
        #[arg(long, value_name = "ADDRESS")]
        fee_address: Option<Address>,
        /// Account that will own the validator's stake, in a network with stake; default: the fee address
        #[arg(long, value_name = "ADDRESS")]
        owner: Option<Address>,
    },
    /// Create the keys that replace a validator's keys, and print their public part as JSON
    ///
    /// They are in the directory `next` beside the old ones. Register them with `corniche validator rotate`. The running node uses them
    /// from the first epoch on whose committee lists them, and moves the old ones to `old-<epoch>`. The identity in the network,
    /// the fee address and the owner stay.
    Next {
        #[arg(value_name = "DIR", default_value = "keys")]
        keys: PathBuf,
    },
    /// Check a keys directory and print its public part as JSON
    Show {
        #[arg(value_name = "DIR", default_value = "keys")]
        keys: PathBuf,
    },
    Backup(backup::BackupArgs),
    Restore(backup::RestoreArgs),
}

/// Runs `corniche keys`.
pub fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::New { out, data, fee_address, owner } => {
            let mut keys = ValidatorKeys::from_seed(B256::random().0);
            if let Some(address) = fee_address {
                keys.fee_address = address;
                keys.fee_key = None;
            }
            if let Some(stake) = &mut keys.stake {
                stake.owner = owner.unwrap_or(keys.fee_address);
            }
            save(&keys, &out)?;
            if let Some(data) = data {
                keys.declare_unsigned(&data)?;
            }
            exit::note(format_args!("secret keys are in {}: keep them, and keep them to yourself", out.display()));
            exit::result(public_json(&keys.public()));
        }
        Command::Next { keys: directory } => {
            let keys = rotation::make_next(&directory)?;
            let next = directory.join(rotation::NEXT);
            exit::note(format_args!(
                "register them with `corniche validator rotate ID --keys {}`; the running node needs no restart",
                next.display()
            ));
            exit::result(public_json(&keys.public()));
        }
        Command::Show { keys } => {
            let keys = load(&keys)?;
            if keys.coin.is_none() {
                exit::note(
                    "there is no coin.key yet; `corniche genesis finish` writes it, or the dealer of the genesis sends it",
                );
            }
            exit::result(public_json(&keys.public()));
        }
        Command::Backup(args) => backup::backup(args)?,
        Command::Restore(args) => backup::restore(args)?,
    }
    Ok(())
}

/// Writes the keys into a new directory.
pub fn save(keys: &ValidatorKeys, directory: &Path) -> anyhow::Result<()> {
    if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    fs::DirBuilder::new()
        .mode(0o700)
        .create(directory)
        .with_context(|| format!("cannot create {}; existing keys are never overwritten", directory.display()))?;
    secret::write(&directory.join("consensus.key"), &keys.consensus.to_hex())?;
    secret::write(&directory.join("bls.key"), &keys.bls.to_hex())?;
    secret::write(&directory.join("network.key"), &hex::encode(keys.network.seed()))?;
    if let Some(coin) = &keys.coin {
        secret::write(&directory.join("coin.key"), &coin.to_hex())?;
    }
    if let Some(stake) = &keys.stake {
        secret::write(&directory.join("coin-seed.key"), &stake.coin.to_hex())?;
    }
    if let Some(key) = &keys.fee_key {
        secret::write(&directory.join("fee.key"), &key.to_hex())?;
    }
    let public = directory.join("public.json");
    let written = fs::File::create_new(&public)
        .and_then(|mut file| file.write_all((public_json(&keys.public()) + "\n").as_bytes()).and_then(|()| file.sync_all()));
    written.with_context(|| format!("cannot write {}", public.display()))?;
    sync_directory(directory)
}

/// Reads a keys directory and checks that its parts belong together.
pub fn load(directory: &Path) -> anyhow::Result<ValidatorKeys> {
    let (consensus, bls) = load_signing(directory)?;
    let network = read_network(directory)?;
    let coin = optional(directory, "coin.key", CoinSecretShare::from_hex)?;
    let fee_key = optional(directory, "fee.key", EthereumKey::from_hex)?;
    let coin_key = optional(directory, "coin-seed.key", CoinKey::from_hex)?;
    let public = read_public(&directory.join("public.json"))?;
    let stake = coin_key.map(|coin| StakeKeys { coin, owner: public.stake.as_ref().map_or(public.fee_address, |it| it.owner) });
    let keys = ValidatorKeys { consensus, bls, network, coin, stake, fee_address: public.fee_address, fee_key };
    ensure!(keys.public() == public, "{}: public.json is not the public part of the keys beside it", directory.display());
    if let Some(key) = &keys.fee_key {
        ensure!(key.address() == public.fee_address, "{}: fee.key is for another fee address", directory.display());
    }
    Ok(keys)
}

/// Reads the keys with which a validator signs.
pub fn load_signing(directory: &Path) -> anyhow::Result<(ConsensusKey, BlsSecretKey)> {
    ensure!(directory.is_dir(), "{} is not a directory with keys", directory.display());
    let consensus = secret::read(&directory.join("consensus.key"), ConsensusKey::from_hex)?;
    Ok((consensus, secret::read(&directory.join("bls.key"), BlsSecretKey::from_hex)?))
}

fn read_network(directory: &Path) -> anyhow::Result<NetworkKey> {
    secret::read(&directory.join("network.key"), |text| text.parse::<B256>().map(|seed| NetworkKey::from_seed(seed.0)))
}

fn optional<T, E: std::error::Error + Send + Sync + 'static>(
    directory: &Path,
    name: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> anyhow::Result<Option<T>> {
    Some(directory.join(name)).filter(|path| path.exists()).map(|path| secret::read(&path, parse)).transpose()
}

/// Reads the public part of a validator's keys.
pub fn read_public(path: &Path) -> anyhow::Result<ValidatorInfo> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not the public part of a validator's keys", path.display()))
}

/// Makes the names in a directory durable.
fn sync_directory(directory: &Path) -> anyhow::Result<()> {
    let synced = fs::File::open(directory).and_then(|directory| directory.sync_all());
    synced.with_context(|| format!("cannot sync {}", directory.display()))
}

fn public_json(public: &ValidatorInfo) -> String {
    serde_json::to_string_pretty(public).expect("a validator's entry has no map")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn saved() -> (tempfile::TempDir, PathBuf, ValidatorKeys) {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("keys");
        let keys = ValidatorKeys::from_seed([7; 32]);
        save(&keys, &directory).unwrap();
        (parent, directory, keys)
    }

    #[test]
    fn keys_round_trip() {
        let (_parent, directory, keys) = saved();
        let loaded = load(&directory).unwrap();
        assert_eq!(loaded.public(), keys.public());
        assert_eq!(loaded.network.seed(), keys.network.seed());
        assert_eq!(loaded.fee_key.unwrap().address(), keys.fee_address);
        assert!(loaded.coin.is_none(), "no genesis dealt a share yet");
    }

    #[test]
    fn key_files_are_private() {
        let (_parent, directory, _) = saved();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        for name in ["consensus.key", "bls.key", "network.key", "coin-seed.key", "fee.key"] {
            assert_eq!(mode(&directory.join(name)), 0o600, "{name}");
        }
    }

    #[test]
    fn existing_keys_are_not_overwritten() {
        let (_parent, directory, keys) = saved();
        let error = save(&ValidatorKeys::from_seed([8; 32]), &directory).unwrap_err();
        assert!(error.to_string().contains("never overwritten"), "{error:#}");
        assert_eq!(load(&directory).unwrap().public(), keys.public());
    }

    #[test]
    fn world_readable_key_is_refused() {
        let (_parent, directory, _) = saved();
        let path = directory.join("bls.key");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = load(&directory).unwrap_err();
        assert!(error.to_string().contains("chmod 600"), "{error:#}");
    }

    #[test]
    fn mixed_up_keys_are_refused() {
        let (_parent, directory, _) = saved();
        let other = ValidatorKeys::from_seed([9; 32]);
        fs::remove_file(directory.join("network.key")).unwrap();
        secret::write(&directory.join("network.key"), &hex::encode(other.network.seed())).unwrap();
        let error = load(&directory).unwrap_err();
        assert!(error.to_string().contains("public.json"), "{error:#}");
    }

    #[test]
    fn errors_and_debug_output_hide_secrets() {
        let (_parent, directory, keys) = saved();
        let secret = keys.consensus.to_hex();
        fs::remove_file(directory.join("consensus.key")).unwrap();
        secret::write(&directory.join("consensus.key"), &format!("{secret}00")).unwrap();
        let error = format!("{:?}", load(&directory).unwrap_err());
        assert!(!error.contains(&secret), "{error}");
        let debug = format!("{keys:?}");
        for secret in [secret, keys.bls.to_hex(), hex::encode(keys.network.seed()), keys.fee_key.unwrap().to_hex()] {
            assert!(!debug.contains(secret.trim_start_matches("0x")), "{debug}");
        }
    }
}
