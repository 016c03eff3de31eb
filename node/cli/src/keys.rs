//! Keys of a validator: creation, public part, and the `keys/` directory.
//!
//! | file | content |
//! |---|---|
//! | `consensus.key` | ed25519 seed: signs the engine's messages |
//! | `bls.key` | BLS12-381 secret: signs headers |
//! | `network.key` | ed25519 seed of the libp2p identity |
//! | `coin.key` | share of the engine's threshold coin; dealt with the genesis, so missing before |
//! | `fee.key` | secp256k1 key of the fee address, if it was created here |
//! | `public.json` | public part: the entry in the genesis' `validators` |
//!
//! Secrets are lines of hexadecimal in files of mode 0600, in a directory of mode 0700. Files that others can
//! read are refused on loading, as in ssh: such a key must be considered compromised.

use anyhow::{Context, bail, ensure};
use clap::Subcommand;
use corniche_console::{exit, secret};
use corniche_crypto::{BlsSecretKey, CoinPublicKeys, CoinSecretShare, ConsensusKey, EthereumKey};
use corniche_store::DataDirectory;
use corniche_types::{Address, B256, Bytes, Genesis, ValidatorIndex, ValidatorInfo};
use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// Create a validator's keys, or print their public part
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Create the keys of one validator and print their public part as JSON, for `corniche genesis new --from`
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
    },
    /// Check a keys directory and print its public part as JSON
    Show {
        #[arg(value_name = "DIR", default_value = "keys")]
        keys: PathBuf,
    },
}

/// Runs `corniche keys`.
pub fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::New { out, data, fee_address } => {
            let mut keys = ValidatorKeys::from_seed(B256::random().0);
            if let Some(address) = fee_address {
                keys.fee_address = address;
                keys.fee_key = None;
            }
            keys.save(&out)?;
            if let Some(data) = data {
                keys.declare_unsigned(&data)?;
            }
            exit::note(format_args!("secret keys are in {}: keep them, and keep them to yourself", out.display()));
            exit::result(public_json(&keys.public()));
        }
        Command::Show { keys } => {
            let keys = ValidatorKeys::load(&keys)?;
            if keys.coin.is_none() {
                exit::note("there is no coin.key yet; whoever makes the genesis deals it");
            }
            exit::result(public_json(&keys.public()));
        }
    }
    Ok(())
}

/// Secret of a libp2p identity: an ed25519 seed.
#[derive(Clone)]
pub struct NetworkKey([u8; 32]);

impl NetworkKey {
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(seed)
    }

    /// Seed from which the network layer creates its identity.
    pub fn seed(&self) -> [u8; 32] {
        self.0
    }

    /// Public key in the genesis, 32 bytes.
    pub fn public(&self) -> B256 {
        ConsensusKey::from_seed(self.0).public()
    }
}

impl std::fmt::Debug for NetworkKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NetworkKey(public {})", self.public())
    }
}

/// All secrets of one validator.
#[derive(Clone, Debug)]
pub struct ValidatorKeys {
    pub consensus: ConsensusKey,
    pub bls: BlsSecretKey,
    pub network: NetworkKey,
    /// `None` until it is dealt with a genesis.
    pub coin: Option<CoinSecretShare>,
    pub fee_address: Address,
    /// Present if the fee address was created together with the other keys.
    pub fee_key: Option<EthereumKey>,
}

impl ValidatorKeys {
    /// Derives all keys from one seed, each with its own label.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        let derive = |label: &str| corniche_crypto::digest(&[b"corniche-keys/", label.as_bytes(), &seed].concat()).0;
        let fee_key = (0u8..)
            .find_map(|attempt| EthereumKey::from_bytes(&derive(&format!("fee/{attempt}"))).ok())
            .expect("256 digests are not all outside the curve's order");
        Self {
            consensus: ConsensusKey::from_seed(derive("consensus")),
            bls: BlsSecretKey::from_seed(derive("bls")),
            network: NetworkKey::from_seed(derive("network")),
            coin: None,
            fee_address: fee_key.address(),
            fee_key: Some(fee_key),
        }
    }

    /// Public part, as listed in a genesis.
    pub fn public(&self) -> ValidatorInfo {
        ValidatorInfo {
            consensus_key: self.consensus.public(),
            bls_key: Bytes::copy_from_slice(&self.bls.public().to_bytes()),
            bls_proof: Bytes::copy_from_slice(&self.bls.prove_possession().to_bytes()),
            network_key: self.network.public(),
            fee_address: self.fee_address,
        }
    }

    /// Index of the validator with these keys; `None` if the genesis does not list the consensus key.
    ///
    /// # Errors
    ///
    /// The genesis lists the consensus key with other keys than these: such a node must not start.
    pub fn index_in(&self, genesis: &Genesis) -> anyhow::Result<Option<ValidatorIndex>> {
        let own = self.public();
        let same_key = |validator: &ValidatorInfo| validator.consensus_key == own.consensus_key;
        let Some(position) = genesis.validators.iter().position(same_key) else { return Ok(None) };
        let index = ValidatorIndex(u16::try_from(position).context("a genesis has at most 1000 validators")?);
        ensure!(
            genesis.validators[position] == own,
            "the genesis lists other keys beside the consensus key of validator {index}"
        );
        let Some(coin) = &self.coin else {
            bail!("there is no coin.key; the creator of the genesis has it for validator {index}")
        };
        let probe = b"corniche coin.key check";
        let dealt = CoinPublicKeys::from_genesis(genesis).context("the genesis' coin keys are damaged")?;
        let fits = coin.index() == index && dealt.verify_share(index, probe, &coin.sign(probe));
        ensure!(fits, "coin.key is not the key of validator {index} in this genesis");
        Ok(Some(index))
    }

    /// Writes the keys into a new directory.
    pub fn save(&self, directory: &Path) -> anyhow::Result<()> {
        if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        }
        fs::DirBuilder::new()
            .mode(0o700)
            .create(directory)
            .with_context(|| format!("cannot create {}; existing keys are never overwritten", directory.display()))?;
        secret::write(&directory.join("consensus.key"), &self.consensus.to_hex())?;
        secret::write(&directory.join("bls.key"), &self.bls.to_hex())?;
        secret::write(&directory.join("network.key"), &hex::encode(self.network.0))?;
        if let Some(coin) = &self.coin {
            secret::write(&directory.join("coin.key"), &coin.to_hex())?;
        }
        if let Some(key) = &self.fee_key {
            secret::write(&directory.join("fee.key"), &key.to_hex())?;
        }
        let public = directory.join("public.json");
        fs::write(&public, public_json(&self.public()) + "\n").with_context(|| format!("cannot write {}", public.display()))
    }

    /// Records in a validator's data directory that these keys have signed nothing. Only for keys just created.
    pub fn declare_unsigned(&self, data: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(data).with_context(|| format!("cannot create {}", data.display()))?;
        let path = DataDirectory::new(data).unsigned();
        fs::write(&path, format!("{}\n", self.consensus.public())).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads a keys directory and checks that its parts belong together.
    pub fn load(directory: &Path) -> anyhow::Result<Self> {
        ensure!(directory.is_dir(), "{} is not a directory with keys", directory.display());
        let consensus = secret::read(&directory.join("consensus.key"), ConsensusKey::from_hex)?;
        let bls = secret::read(&directory.join("bls.key"), BlsSecretKey::from_hex)?;
        let network = secret::read(&directory.join("network.key"), |text| text.parse::<B256>().map(|seed| NetworkKey(seed.0)))?;
        let optional = |name: &str| Some(directory.join(name)).filter(|path| path.exists());
        let coin = optional("coin.key").map(|path| secret::read(&path, CoinSecretShare::from_hex)).transpose()?;
        let fee_key = optional("fee.key").map(|path| secret::read(&path, EthereumKey::from_hex)).transpose()?;
        let public = read_public(&directory.join("public.json"))?;
        let keys = Self { consensus, bls, network, coin, fee_address: public.fee_address, fee_key };
        ensure!(keys.public() == public, "{}: public.json is not the public part of the keys beside it", directory.display());
        if let Some(key) = &keys.fee_key {
            ensure!(key.address() == public.fee_address, "{}: fee.key is for another fee address", directory.display());
        }
        Ok(keys)
    }
}

/// Reads the public part of a validator's keys.
pub fn read_public(path: &Path) -> anyhow::Result<ValidatorInfo> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not the public part of a validator's keys", path.display()))
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
        keys.save(&directory).unwrap();
        (parent, directory, keys)
    }

    #[test]
    fn keys_round_trip() {
        let (_parent, directory, keys) = saved();
        let loaded = ValidatorKeys::load(&directory).unwrap();
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
        for name in ["consensus.key", "bls.key", "network.key", "fee.key"] {
            assert_eq!(mode(&directory.join(name)), 0o600, "{name}");
        }
    }

    #[test]
    fn existing_keys_are_not_overwritten() {
        let (_parent, directory, keys) = saved();
        let error = ValidatorKeys::from_seed([8; 32]).save(&directory).unwrap_err();
        assert!(error.to_string().contains("never overwritten"), "{error:#}");
        assert_eq!(ValidatorKeys::load(&directory).unwrap().public(), keys.public());
    }

    #[test]
    fn world_readable_key_is_refused() {
        let (_parent, directory, _) = saved();
        let path = directory.join("bls.key");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = ValidatorKeys::load(&directory).unwrap_err();
        assert!(error.to_string().contains("chmod 600"), "{error:#}");
    }

    #[test]
    fn mixed_up_keys_are_refused() {
        let (_parent, directory, _) = saved();
        let other = ValidatorKeys::from_seed([9; 32]);
        fs::remove_file(directory.join("network.key")).unwrap();
        secret::write(&directory.join("network.key"), &hex::encode(other.network.seed())).unwrap();
        let error = ValidatorKeys::load(&directory).unwrap_err();
        assert!(error.to_string().contains("public.json"), "{error:#}");
    }

    #[test]
    fn errors_and_debug_output_hide_secrets() {
        let (_parent, directory, keys) = saved();
        let secret = keys.consensus.to_hex();
        fs::remove_file(directory.join("consensus.key")).unwrap();
        secret::write(&directory.join("consensus.key"), &format!("{secret}00")).unwrap();
        let error = format!("{:?}", ValidatorKeys::load(&directory).unwrap_err());
        assert!(!error.contains(&secret), "{error}");
        let debug = format!("{keys:?}");
        for secret in [secret, keys.bls.to_hex(), hex::encode(keys.network.seed()), keys.fee_key.unwrap().to_hex()] {
            assert!(!debug.contains(secret.trim_start_matches("0x")), "{debug}");
        }
    }
}
