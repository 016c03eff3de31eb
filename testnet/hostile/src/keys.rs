//! A validator's keys, read from the testnet's directory: the attacker replaces this validator.

use anyhow::{Context, anyhow};
use corniche_autobahn::crypto::ValidatorKeys as AutobahnKeys;
use corniche_crypto::{BlsSecretKey, CoinSecretShare, ConsensusKey};
use corniche_engine::Committee;
use corniche_mahi_mahi::crypto::ValidatorKeys as MahiMahiKeys;
use corniche_network::NetworkIdentity;
use corniche_types::{B256, Epoch};
use std::{fs, path::Path};

/// All signing keys of one validator.
#[derive(Clone)]
pub struct Keys {
    pub network: NetworkIdentity,
    consensus: ConsensusKey,
    pub bls: BlsSecretKey,
    coin: CoinSecretShare,
}

impl Keys {
    /// Reads a `keys` directory as written by `corniche testnet up`.
    pub fn load(directory: &Path) -> anyhow::Result<Self> {
        let read = |name: &str| read(&directory.join(name));
        let broken = |name: &str| anyhow!("{name} in {}: expected a key", directory.display());
        Ok(Self {
            network: network(&directory.join("network.key"))?,
            consensus: ConsensusKey::from_hex(&read("consensus.key")?).map_err(|_| broken("consensus.key"))?,
            bls: BlsSecretKey::from_hex(&read("bls.key")?).map_err(|_| broken("bls.key"))?,
            coin: CoinSecretShare::from_hex(&read("coin.key")?).map_err(|_| broken("coin.key"))?,
        })
    }

    /// Signing keys for Mahi-Mahi. The share of the coin is that of the genesis, which other committees do not have.
    pub fn mahi_mahi(&self, committee: &Committee) -> anyhow::Result<MahiMahiKeys> {
        let coin = (committee.epoch() == Epoch(0)).then(|| self.coin.clone());
        let keys = MahiMahiKeys::new(committee, self.consensus.clone(), coin);
        keys.context("no member of the committee has these keys")
    }

    /// Signing keys for Autobahn; `bls` as in the genesis.
    pub fn autobahn(&self, committee: &Committee, bls: bool) -> anyhow::Result<AutobahnKeys> {
        let keys = AutobahnKeys::new(committee, self.consensus.clone(), bls.then(|| self.bls.clone()));
        keys.context("no member of the committee has these keys")
    }
}

/// The identity in a `network.key` file.
pub fn network(path: &Path) -> anyhow::Result<NetworkIdentity> {
    let seed: B256 = read(path)?.parse().map_err(|_| anyhow!("{}: expected a key", path.display()))?;
    Ok(NetworkIdentity::from_seed(seed.0))
}

fn read(path: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.trim().to_owned())
}
