//! The members of a sharded chain, from its genesis: the replicas of each shard, and the gateways.
//!
//! The genesis lists all members as validators: first the replicas of shard 0, then those of shard 1 and so on, then the gateways.

use anyhow::{Context, bail, ensure};
use corniche_basil::config::Config;
use corniche_basil::message::Peer;
use corniche_basil::shards::Shards;
use corniche_network::PeerKey;
use corniche_types::{B256, Genesis, SHARDED_ENGINE, ValidatorIndex};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Intervals between two blocks, ms.
const BLOCK_MS: RangeInclusive<u64> = 100..=60_000;

/// Members of a chain, and the rules that the genesis gives them.
pub struct Members {
    pub shards: Arc<Shards>,
    pub config: Config,
    /// By their position in the genesis.
    peers: Vec<Peer>,
    by_key: BTreeMap<PeerKey, Peer>,
    keys: BTreeMap<Peer, PeerKey>,
}

impl Members {
    /// # Errors
    ///
    /// The genesis is of another mode, or its parameters do not fit its list of validators.
    pub fn of(genesis: &Genesis) -> anyhow::Result<Self> {
        ensure!(
            genesis.engine.name == SHARDED_ENGINE,
            "genesis: expected the engine {SHARDED_ENGINE}, got {}",
            genesis.engine.name
        );
        ensure!(genesis.staking.is_none(), "genesis: {SHARDED_ENGINE} has no staking; remove `staking`");
        ensure!(genesis.upgrades.is_empty(), "genesis: {SHARDED_ENGINE} has no upgrades yet; remove `upgrades`");
        ensure!(
            BLOCK_MS.contains(&genesis.block_ms),
            "genesis: block_ms is {}; {SHARDED_ENGINE} makes a block each {} to {} ms",
            genesis.block_ms,
            BLOCK_MS.start(),
            BLOCK_MS.end()
        );
        let mut config = Config { close_ms: genesis.block_ms, ..Config::default() };
        let (mut shards, mut gateways) = (1, 1);
        for (name, value) in &genesis.engine.parameters {
            match name.as_str() {
                "shards" => shards = usize::try_from(*value)?,
                "gateways" => gateways = usize::try_from(*value)?,
                "delta_ms" => config.delta_ms = *value,
                "reply_batch" => config.reply_batch = usize::try_from(*value)?,
                "reply_delay_ms" => config.reply_delay_ms = *value,
                "fast_path_ms" => config.fast_path_ms = *value,
                "recover_ms" => config.recover_ms = *value,
                "resend_ms" => config.resend_ms = *value,
                "close_after_ms" => config.close_after_ms = *value,
                "keep_ms" => config.keep_ms = *value,
                other => bail!("genesis: {SHARDED_ENGINE} has no parameter {other}; remove it"),
            }
        }
        let least = config.close_ms.saturating_add(config.close_after_ms).saturating_mul(5);
        ensure!(
            config.keep_ms >= least,
            "genesis: keep_ms is {}; expected at least {least}, so that gateways can make blocks before replicas forget them",
            config.keep_ms
        );
        let members = genesis.validators.len();
        let replicas = members.checked_sub(gateways).filter(|replicas| shards > 0 && replicas % shards == 0);
        let each = replicas.map(|replicas| replicas / shards).filter(|each| each % 5 == 1);
        let each = each.with_context(|| {
            format!(
                "genesis: {members} validators with {shards} shards and {gateways} gateways; expected 5f + 1 replicas for each \
                 shard, and the gateways after them"
            )
        })?;
        ensure!(each > 1, "genesis: one replica for each shard; expected at least 6, because a single one tolerates no fault");
        let keys = |shard: usize| {
            genesis.validators[shard * each..(shard + 1) * each].iter().map(|validator| validator.consensus_key).collect()
        };
        let shards = Shards::new(genesis.chain_id, 0, each / 5, (0..shards).map(keys).collect())?;
        let shards = Arc::new(shards);
        let replicas = shards.ids().flat_map(|shard| shards.replicas(shard)).map(Peer::Replica);
        let gateways = genesis.validators.iter().skip(shards.count() * each);
        let peers: Vec<_> = replicas.chain(gateways.map(|gateway| Peer::Client(gateway.consensus_key))).collect();
        let network_keys = || genesis.validators.iter().map(|validator| PeerKey(validator.network_key));
        Ok(Self {
            by_key: network_keys().zip(peers.iter().copied()).collect(),
            keys: peers.iter().copied().zip(network_keys()).collect(),
            peers,
            config,
            shards,
        })
    }

    /// The member with this position in the genesis.
    pub fn peer(&self, index: ValidatorIndex) -> Option<Peer> {
        self.peers.get(usize::from(index.0)).copied()
    }

    /// Position of a member in the genesis.
    pub fn index_of(&self, peer: Peer) -> Option<ValidatorIndex> {
        let position = self.peers.iter().position(|other| *other == peer)?;
        Some(ValidatorIndex(u16::try_from(position).ok()?))
    }

    /// The member behind a connection; `None` for a stranger.
    pub fn at(&self, key: &PeerKey) -> Option<Peer> {
        self.by_key.get(key).copied()
    }

    pub fn network_key(&self, peer: Peer) -> Option<PeerKey> {
        self.keys.get(&peer).copied()
    }

    /// Number of replicas: they come first.
    pub fn replicas(&self) -> usize {
        self.shards.count() * self.shards.all()
    }

    pub fn gateways(&self) -> impl Iterator<Item = B256> + '_ {
        self.peers.iter().filter_map(|peer| match peer {
            Peer::Client(key) => Some(*key),
            Peer::Replica(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_service::{NetworkSpec, make_network};
    use corniche_types::EngineConfig;

    fn genesis(validators: usize, parameters: &[(&str, u64)]) -> Genesis {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let engine = EngineConfig { name: SHARDED_ENGINE.into(), parameters };
        make_network(&NetworkSpec { validators, block_ms: 1_000, ..NetworkSpec::new(engine) }).unwrap().genesis
    }

    #[test]
    fn members_have_their_place_in_the_genesis() {
        let genesis = genesis(14, &[("shards", 2), ("gateways", 2), ("keep_ms", 20_000)]);
        let members = Members::of(&genesis).unwrap();
        assert_eq!((members.shards.count(), members.shards.all(), members.config.keep_ms), (2, 6, 20_000));
        for (index, validator) in (0..14).map(ValidatorIndex).zip(&genesis.validators) {
            let peer = members.peer(index).unwrap();
            match peer {
                Peer::Replica(id) => {
                    assert_eq!(index.0, id.shard.0 * 6 + id.member);
                    assert_eq!(members.shards.key(id), Some(&validator.consensus_key));
                }
                Peer::Client(key) => {
                    assert!(index.0 >= 12 && key == validator.consensus_key && members.gateways().any(|gateway| gateway == key))
                }
            }
            assert_eq!(members.at(&PeerKey(validator.network_key)), Some(peer));
            assert_eq!(members.index_of(peer), Some(index));
        }
        assert_eq!(members.at(&PeerKey(B256::ZERO)), None);
    }

    #[test]
    fn parameters_that_do_not_fit_are_refused() {
        let refusal = |validators, parameters: &[(&str, u64)]| {
            Members::of(&genesis(validators, parameters)).map(drop).unwrap_err().to_string()
        };
        assert!(refusal(12, &[("shards", 2)]).contains("expected 5f + 1 replicas"));
        assert!(refusal(3, &[("shards", 2)]).contains("at least 6"));
        assert!(refusal(7, &[("shards", 0)]).contains("0 shards"));
        assert!(refusal(7, &[("keep_ms", 19_999)]).contains("expected at least 20000"));
        assert!(refusal(7, &[("wave_length", 5)]).contains("has no parameter wave_length"));
        let fast = Genesis { block_ms: 0, ..genesis(7, &[]) };
        assert!(Members::of(&fast).map(drop).unwrap_err().to_string().contains("block_ms is 0"));
    }
}
