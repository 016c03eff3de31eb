//! Keys of a node, in a directory or in a remote signer.

use super::{load, optional, read_network, read_public};
use anyhow::ensure;
use corniche_crypto::{CoinKey, CoinSecretShare};
use corniche_engine::Committee;
use corniche_service::{MemberKeys, NodeConfig, RemoteSigner, SignerAddress, Signing};
use corniche_types::Genesis;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where a node's keys are.
#[derive(Clone, Debug)]
pub struct KeySource {
    pub directory: PathBuf,
    /// Holds consensus key and BLS key, if they are not in the directory.
    pub signer: Option<Arc<RemoteSigner>>,
}

impl KeySource {
    /// Keys of a node's configuration; `None`: a full node. Connects to the signer.
    pub fn open(config: &NodeConfig, genesis: &Genesis) -> anyhow::Result<Option<Self>> {
        let Some(directory) = config.keys.clone() else {
            ensure!(config.signer.is_none(), "signer: expected keys = \"DIR\" beside it, got none; add it, or remove signer");
            return Ok(None);
        };
        let connect = |address: &SignerAddress| {
            ensure!(
                Committee::from_genesis(genesis).rules().signs_headings,
                "signer: a remote signer needs a chain of protocol version 5 or later; remove signer from the configuration"
            );
            Ok(Arc::new(RemoteSigner::connect(address.path(), genesis.chain_id, genesis.hash())?))
        };
        let signer = config.signer.as_ref().map(connect).transpose()?;
        Ok(Some(Self { directory, signer }))
    }

    /// Loads the keys in a directory, which is that of the source or of the next keys.
    pub fn load(&self, directory: &Path) -> anyhow::Result<MemberKeys> {
        match &self.signer {
            None => Ok(load(directory)?.into()),
            Some(signer) => load_remote(directory, signer),
        }
    }
}

/// Loads a validator's keys, of which the remote signer has those that sign.
fn load_remote(directory: &Path, signer: &Arc<RemoteSigner>) -> anyhow::Result<MemberKeys> {
    ensure!(directory.is_dir(), "{} is not a directory with keys", directory.display());
    for name in ["consensus.key", "bls.key"] {
        let path = directory.join(name);
        ensure!(!path.exists(), "the signer has {name}; remove {} from this machine", path.display());
    }
    let public = read_public(&directory.join("public.json"))?;
    ensure!(
        signer.holds(&public.consensus_key, &public.bls_key),
        "the signer does not have the keys of {}; start it with the directory that has them",
        directory.display()
    );
    let network = read_network(directory)?;
    let coin = optional(directory, "coin.key", CoinSecretShare::from_hex)?;
    let coin_key = optional(directory, "coin-seed.key", CoinKey::from_hex)?;
    let is_own = network.public() == public.network_key
        && public.stake.as_ref().map(|stake| &stake.coin_key[..])
            == coin_key.as_ref().map(CoinKey::public).as_ref().map(|key| &key[..]);
    ensure!(is_own, "{}: public.json is not the public part of the keys beside it", directory.display());
    Ok(MemberKeys { public, network, coin, coin_key, signing: Signing::Remote(signer.clone()) })
}
