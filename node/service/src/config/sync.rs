//! Where a node's blocks begin: what it fetches, which blocks it keeps, and whether it makes snapshots.

use super::NodeConfig;
use anyhow::bail;
use corniche_console::exit::{Exit, Failed};
use corniche_store::History;
use corniche_types::{EpochChange, Genesis, TimestampMs, TrustExpired, TrustPoint, TrustRoot, header_hash};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Blocks to keep.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BlockHistory {
    /// Number of newest blocks to keep, at least 100,000. Without it, all are kept. Older ones are deleted once a snapshot of
    /// the state is above them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
}

/// See [`BlockHistory::blocks`].
const MIN_KEPT_BLOCKS: u64 = 100_000;

/// How a node with an empty data directory reaches the head of the chain.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sync {
    pub mode: SyncMode,
    /// Trust of a node with an empty data directory beside the genesis: the end of an epoch, as `corniche validator status` of somebody
    /// prints it, or `"genesis"`: nothing, however old the genesis is. Without it the genesis is enough as long as it is young.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
}

/// See [`Sync::trust`]. Written as `genesis`, or as a [`TrustPoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Trust {
    Genesis,
    Point(TrustPoint),
}

impl FromStr for Trust {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "genesis" {
            return Ok(Self::Genesis);
        }
        text.parse().map(Self::Point).map_err(|error| format!("{error}, or \"genesis\""))
    }
}

impl TryFrom<String> for Trust {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map_err(|error| format!("[sync] trust: {error}"))
    }
}

impl From<Trust> for String {
    fn from(trust: Trust) -> Self {
        match trust {
            Trust::Genesis => "genesis".into(),
            Trust::Point(point) => point.to_string(),
        }
    }
}

impl Sync {
    /// The block that must be in the chain.
    pub fn trust_point(&self) -> Option<TrustPoint> {
        match self.trust {
            Some(Trust::Point(point)) => Some(point),
            Some(Trust::Genesis) | None => None,
        }
    }

    /// Checks that a node with an empty data directory may begin now (validators.md, L5).
    ///
    /// # Errors
    ///
    /// The genesis is too old, or the trust point is of another chain. The exit code is [`Exit::Usage`].
    pub fn check(&self, genesis: &Genesis, now: TimestampMs) -> anyhow::Result<()> {
        self.check_root(genesis, now).map_err(|reason| Failed::new(Exit::Usage, reason).into())
    }

    /// Checks that these changes, the first of which ends epoch 0, contain the trusted block.
    ///
    /// # Errors
    ///
    /// They have another end of that epoch, or do not reach it, or it is too old. The exit code is [`Exit::Usage`].
    pub fn check_changes(&self, genesis: &Genesis, changes: &[EpochChange], now: TimestampMs) -> anyhow::Result<()> {
        let Some(point) = self.trust_point() else { return Ok(()) };
        let (epoch, expected) = (point.epoch, point.hash);
        let end = usize::try_from(epoch.0).ok().and_then(|position| changes.get(position));
        let reason = match end.map(|change| (change, header_hash(&change.header))) {
            Some((_, found)) if point.contradicts(epoch, found) => {
                format!("trust: expected epoch {epoch} to end in block {expected}, got {found}; this is another chain")
            }
            Some((change, _)) => return check_point(genesis, point, change, now),
            None => format!(
                "trust: expected the end of epoch {epoch}, got the ends of {} epochs; take a newer snapshot or an older trust point",
                changes.len()
            ),
        };
        Err(Failed::new(Exit::Usage, reason).into())
    }

    fn check_root(&self, genesis: &Genesis, now: TimestampMs) -> Result<(), String> {
        if let Some(point) = self.trust_point()
            && point.chain_id != genesis.chain_id
        {
            return Err(format!("trust: expected a point of chain {}, got one of chain {}", genesis.chain_id, point.chain_id));
        }
        if self.trust.is_none()
            && let Err(expired) = TrustRoot::genesis(genesis).check_age(now)
        {
            return Err(too_old(&expired));
        }
        Ok(())
    }
}

/// Checks that a trusted block, which ends an epoch in this change, is recent enough to begin with (validators.md, L5).
///
/// # Errors
///
/// It is too old. The exit code is [`Exit::Usage`].
pub fn check_point(genesis: &Genesis, point: TrustPoint, change: &EpochChange, now: TimestampMs) -> anyhow::Result<()> {
    let root = TrustRoot::genesis(genesis).at(point, &change.header);
    root.check_age(now).map_err(|expired| Failed::new(Exit::Usage, too_old(&expired)).into())
}

fn too_old(expired: &TrustExpired) -> String {
    format!("{expired}. Set [sync] trust in the configuration to it, or to \"genesis\" to accept that")
}

/// See [`Sync`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncMode {
    /// From a snapshot if the head of peers is more than 20,000 blocks ahead, and the node is no archive; otherwise block by block.
    #[default]
    Auto,
    /// Block by block from the genesis.
    Blocks,
    /// From the newest snapshot that peers offer.
    Snapshot,
}

/// Snapshots of the state for other nodes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Snapshots {
    /// True if the node makes them. Others can then join from it, and it can delete old blocks.
    pub make: bool,
}

impl Default for Snapshots {
    fn default() -> Self {
        Self { make: true }
    }
}

/// Refuses settings that contradict each other.
pub(super) fn check(config: &NodeConfig) -> anyhow::Result<()> {
    let states = config.state.history;
    if config.sync.mode == SyncMode::Snapshot && states == History::Archive {
        bail!("[sync] mode: expected \"auto\" or \"blocks\" for an archive, got \"snapshot\"; an archive needs all blocks");
    }
    let Some(blocks) = config.history.blocks else { return Ok(()) };
    match states {
        _ if blocks < MIN_KEPT_BLOCKS => bail!(
            "[history] blocks: expected at least {MIN_KEPT_BLOCKS}, got {blocks}; correct it, or remove the line to keep all"
        ),
        _ if !config.snapshots.make => bail!(
            "[history] blocks: expected snapshots.make = true, because blocks are deleted only below a snapshot; set it, or remove this line"
        ),
        History::Archive => {
            bail!("[history] blocks: expected all blocks for an archive; remove this line, or state.history = \"archive\"")
        }
        History::Blocks(states) if blocks < states => {
            bail!("[history] blocks: expected at least state.history, {states}, got {blocks}; old states need their blocks")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradicting_settings_are_refused() {
        let checked = |text: &str| {
            let config: NodeConfig = toml::from_str(&format!("genesis = 'g.json'\n{text}")).unwrap();
            check(&config).map_err(|error| error.to_string())
        };
        for accepted in [
            "",
            "[state]\nhistory = 'archive'",
            "[sync]\nmode = 'snapshot'",
            "[history]\nblocks = 100000",
            "[history]\nblocks = 100000\n[state]\nhistory = 100000",
        ] {
            assert_eq!(checked(accepted), Ok(()), "{accepted}");
        }
        for (refused, reason) in [
            ("[history]\nblocks = 99999", "at least 100000, got 99999"),
            ("[history]\nblocks = 100000\n[snapshots]\nmake = false", "snapshots.make = true"),
            ("[history]\nblocks = 100000\n[state]\nhistory = 'archive'", "all blocks for an archive"),
            ("[history]\nblocks = 100000\n[state]\nhistory = 100001", "at least state.history, 100001, got 100000"),
            ("[sync]\nmode = 'snapshot'\n[state]\nhistory = 'archive'", "an archive needs all blocks"),
        ] {
            assert!(checked(refused).unwrap_err().contains(reason), "{refused}");
        }
    }

    #[test]
    fn changes_must_contain_the_trusted_block() {
        let change = |number: u64| {
            let header = corniche_types::Header { number, timestamp: 1_000, ..Default::default() };
            let certificate = corniche_types::Certificate {
                epoch: corniche_types::Epoch(0),
                committee_hash: Default::default(),
                height: corniche_types::Height(number),
                header_hash: Default::default(),
                fault_model: corniche_types::FaultModel::Byzantine,
                signers: corniche_types::SignerBitmap(Default::default()),
                signature: Default::default(),
            };
            EpochChange { header, head: Default::default(), certificate, members: None }
        };
        let changes = [change(5), change(9)];
        let genesis = Genesis { staking: Some(corniche_types::StakingParameters::default()), ..crate::testing::genesis() };
        let serves_until = 1_000_000 + genesis.staking.as_ref().unwrap().trust_ms();
        let check_at = |epoch: u64, hash, now| {
            let point = TrustPoint { chain_id: 7, epoch: corniche_types::Epoch(epoch), hash };
            let sync = Sync { trust: Some(Trust::Point(point)), ..Sync::default() };
            let error = sync.check_changes(&genesis, &changes, TimestampMs(now)).err()?;
            assert_eq!(error.downcast_ref::<Failed>().map(|failed| failed.exit), Some(Exit::Usage));
            Some(error.to_string())
        };
        let check = |epoch, hash| check_at(epoch, hash, serves_until);
        let trusted = header_hash(&changes[1].header);
        assert_eq!(check(1, trusted), None);
        assert!(check(0, trusted).unwrap().contains("another chain"));
        assert!(check(2, trusted).unwrap().contains("got the ends of 2 epochs"));
        let expired = check_at(1, trusted, serves_until + 1).unwrap();
        assert!(
            expired.starts_with("the trust point corniche-trust:1:7:1:0x") && expired.contains("Set [sync] trust"),
            "{expired}"
        );
        for trust in [None, Some(Trust::Genesis)] {
            assert!(Sync { trust, ..Sync::default() }.check_changes(&genesis, &[], TimestampMs(0)).is_ok());
        }
    }

    #[test]
    fn an_old_genesis_needs_a_trust_point() {
        let genesis = Genesis { staking: Some(corniche_types::StakingParameters::default()), ..crate::testing::genesis() };
        let (start, limit) = (genesis.timestamp_ms.0, genesis.staking.as_ref().unwrap().trust_ms());
        let check = |trust: &str, age: u64| {
            let config: NodeConfig = toml::from_str(&format!("genesis = 'g.json'\n[sync]\n{trust}")).unwrap();
            config.sync.check(&genesis, TimestampMs(start + age)).map_err(|error| error.to_string())
        };
        let point = |chain| format!("trust = 'corniche-trust:1:{chain}:3:0x{}'", "ab".repeat(32));
        assert_eq!(check("", limit), Ok(()));
        assert!(check("", limit + 1).unwrap_err().contains("Set [sync] trust"));
        assert_eq!(check("trust = 'genesis'", limit + 1), Ok(()));
        assert_eq!(check(&point(genesis.chain_id), limit + 1), Ok(()));
        assert!(check(&point(genesis.chain_id + 1), 0).unwrap_err().contains("got one of chain"));
        let refused = toml::from_str::<NodeConfig>("genesis = 'g.json'\n[sync]\ntrust = 'yes'").unwrap_err().to_string();
        assert!(refused.contains("corniche-trust:1:CHAIN:EPOCH:HASH"), "{refused}");
        let without_end = Genesis { staking: None, ..genesis.clone() };
        assert!(Sync::default().check(&without_end, TimestampMs(u64::MAX)).is_ok());
    }
}
