//! A validator's keys, read from the testnet's directory: the attacker has taken its place.

use anyhow::{Context, anyhow};
use corniche_autobahn::real::ValidatorKeys as AutobahnKeys;
use corniche_crypto::{BlsSecretKey, CoinSecretShare, ConsensusKey};
use corniche_engine::Committee;
use corniche_mahi_mahi::real::ValidatorKeys as MahiMahiKeys;
use corniche_network::NetworkIdentity;
use corniche_types::B256;
use std::{fs, path::Path};

/// Everything that one validator signs with.
#[derive(Clone)]
pub struct Keys {
    pub network: NetworkIdentity,
    consensus: ConsensusKey,
    pub bls: BlsSecretKey,
    coin: CoinSecretShare,
}

impl Keys {
    /// Reads a `keys` directory as `corniche testnet up` writes it.
    pub fn load(directory: &Path) -> anyhow::Result<Self> {
        let read = |name: &str| read(&directory.join(name));
        let broken = |name: &str| anyhow!("{name} in {} holds no key", directory.display());
        Ok(Self {
            network: network(&directory.join("network.key"))?,
            consensus: ConsensusKey::from_hex(&read("consensus.key")?).map_err(|_| broken("consensus.key"))?,
            bls: BlsSecretKey::from_hex(&read("bls.key")?).map_err(|_| broken("bls.key"))?,
            coin: CoinSecretShare::from_hex(&read("coin.key")?).map_err(|_| broken("coin.key"))?,
        })
    }

    /// What signs for Mahi-Mahi.
    pub fn mahi_mahi(&self, committee: &Committee) -> anyhow::Result<MahiMahiKeys> {
        let keys = MahiMahiKeys::new(committee, self.consensus.clone(), self.coin.clone());
        keys.context("the keys are of no validator in this genesis")
    }

    /// What signs for Autobahn; `bls` as the genesis demands.
    pub fn autobahn(&self, committee: &Committee, bls: bool) -> anyhow::Result<AutobahnKeys> {
        let keys = AutobahnKeys::new(committee, self.consensus.clone(), bls.then(|| self.bls.clone()));
        keys.context("the keys are of no validator in this genesis")
    }
}

/// The identity in a `network.key` file.
pub fn network(path: &Path) -> anyhow::Result<NetworkIdentity> {
    let seed: B256 = read(path)?.parse().map_err(|_| anyhow!("{} holds no key", path.display()))?;
    Ok(NetworkIdentity::from_seed(seed.0))
}

fn read(path: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.trim().to_owned())
}
