//! Ordering engines by their name in the genesis. No other code of the binary names an engine.

mod autobahn;
mod crashes;
mod mahi_mahi;
mod mir;
mod neobft;
mod remote;

use anyhow::{Context, bail, ensure};
use clap::builder::PossibleValuesParser;
use corniche_console::exit::{Exit, Failed};
use corniche_crypto::ConsensusKey;
use corniche_engine::Committee;
use corniche_network::{Channel, Limits};
use corniche_service::{EngineBuilder, EngineParts, Keyring, Signing};
use corniche_types::{EngineConfig, Genesis, SHARDED_ENGINE};
use std::{collections::BTreeMap, path::Path};

/// Name of an engine, and its functions for the binary.
struct EngineEntry {
    name: &'static str,
    /// Checks the engine's parameters.
    check: fn(&Genesis) -> Result<(), String>,
    /// Size in bytes of the largest message: with a full batch of the genesis, or a response of the maximum
    /// size that the parameters allow.
    max_message_bytes: fn(&Genesis) -> Result<usize, String>,
    /// Parameters, besides `batch_bytes`, that bound the largest message; empty if there are none.
    bounds: &'static str,
    build: EngineBuilder,
    /// Parameters for a chain with a single node; `None`: the engine needs more than a node.
    single_node: Option<&'static [(&'static str, u64)]>,
    /// True if sequencers order: the genesis has a multicast group.
    has_sequencer: bool,
}

const ENGINES: &[EngineEntry] =
    &[mahi_mahi::ENTRY, autobahn::ENTRY, neobft::ENTRY, mir::ENTRY, crashes::QUEPAXA, crashes::RACS, crashes::BAXOS];

/// Default engine of a new network.
pub const DEFAULT: &str = "mahi-mahi";

/// Possible values of `--engine`; the parser lists them in its error.
pub fn names() -> PossibleValuesParser {
    ENGINES.iter().map(|engine| engine.name).chain([SHARDED_ENGINE]).collect::<Vec<_>>().into()
}

/// Returns whether sequencers order, so that the genesis has a multicast group.
pub fn has_sequencers(name: &str) -> anyhow::Result<bool> {
    Ok(name != SHARDED_ENGINE && find(name)?.has_sequencer)
}

fn find(name: &str) -> anyhow::Result<&'static EngineEntry> {
    let known: Vec<_> = ENGINES.iter().map(|engine| engine.name).chain([SHARDED_ENGINE]).collect();
    let engine = ENGINES.iter().find(|engine| engine.name == name);
    engine.with_context(|| format!("this build has no engine named {name}; there are {}", known.join(", ")))
}

/// Checks that this build has the genesis' engine, and that the engine accepts its parameters.
pub fn check(genesis: &Genesis) -> anyhow::Result<()> {
    if genesis.engine.name == SHARDED_ENGINE {
        return corniche_basil_service::check(genesis);
    }
    let engine = find(&genesis.engine.name)?;
    if genesis.multicast.is_some() && !engine.has_sequencer {
        bail!("genesis: has a multicast group, which {} does not use; remove `multicast`", engine.name);
    }
    if let Err(error) = (engine.check)(genesis) {
        bail!("{error}");
    }
    check_frames(engine, genesis)
}

/// Faults that a chain tolerates, in plain words.
pub fn tolerates(genesis: &Genesis) -> String {
    match corniche_basil_service::faulty(genesis) {
        Ok(faulty) => format!("{faulty} of {} replicas in each shard, which may lie", 5 * faulty + 1),
        // Any chain with an engine.
        Err(_) => genesis.fault_model().tolerates().into(),
    }
}

/// Bytes that [`corniche_pipeline::PeerMessage`] adds to an engine's message.
const ENVELOPE_BYTES: usize = 14;

/// Refuses a chain whose validators could make messages too large to send. A single validator sends none.
fn check_frames(engine: &EngineEntry, genesis: &Genesis) -> anyhow::Result<()> {
    let max_frame = Limits::default().frame_bytes(Channel::Bulk, true);
    let largest = (engine.max_message_bytes)(genesis).map_err(anyhow::Error::msg)? + ENVELOPE_BYTES;
    if genesis.max_validators() == 1 || largest <= max_frame {
        return Ok(());
    }
    bail!(
        "genesis: expected messages of at most {max_frame} bytes, which is what a frame of the network carries, got {largest} with a \
         batch_bytes of {}; lower batch_bytes{}: the messages are too large by {}",
        genesis.batch_bytes,
        if engine.bounds.is_empty() { String::new() } else { format!(", or the engine's {}", engine.bounds) },
        largest - max_frame
    )
}

/// Refuses to continue with the data in `directory` if another engine was requested.
pub fn check_matches(genesis: &Genesis, requested: Option<&str>, directory: &Path) -> anyhow::Result<()> {
    let own = &genesis.engine.name;
    if let Some(requested) = requested.filter(|requested| requested != own) {
        let directory = directory.display();
        let message = format!(
            "{directory} holds a chain on {own}, not on {requested}; a genesis chooses once, so take another directory"
        );
        return Err(Failed::new(Exit::Usage, message).into());
    }
    Ok(())
}

/// Verifier and factory of a validator's engine.
pub fn build(genesis: &Genesis, keys: Keyring) -> anyhow::Result<EngineParts> {
    (find(&genesis.engine.name)?.build)(genesis, keys)
}

/// Configuration of an engine for a chain with a single node.
pub fn single_node(name: &str) -> anyhow::Result<EngineConfig> {
    if name == SHARDED_ENGINE {
        bail!(
            "{name} needs six replicas for each shard, and a gateway; start a network with `corniche testnet up --engine {name}`"
        );
    }
    let engine = find(name)?;
    let Some(parameters) = engine.single_node else {
        bail!("{name} needs a sequencer beside the node; start a network with `corniche testnet up --engine {name}`")
    };
    let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<BTreeMap<_, _>>();
    Ok(EngineConfig { name: engine.name.to_owned(), parameters })
}

/// Refuses a remote signer, which knows the statements of Mahi-Mahi and Autobahn only.
fn refuse_remote_signer(engine: &str, keys: &Keyring) -> anyhow::Result<()> {
    let is_remote = keys.sets().any(|keys| matches!(keys.signing, Signing::Remote(_)));
    ensure!(!is_remote, "a remote signer does not know the statements of {engine} yet; use keys in `keys`, without `signer`");
    Ok(())
}

/// Consensus key of this validator in a committee of an engine that has no remote signer.
fn consensus_key(keys: &Keyring, committee: &Committee) -> ConsensusKey {
    match keys.member_of(committee).map(|(_, own)| &own.signing) {
        Some(Signing::Own { consensus, .. }) => consensus.clone(),
        _ => unreachable!("only members have engines, and remote signers were refused"),
    }
}

/// Keys of the genesis are checked at the start, all others when they are registered.
const VALID_KEYS: &str = "invariant: every committee has valid keys";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genesis::{default_spec, make_network};
    use corniche_pipeline::PeerMessage;
    use corniche_service::NetworkSpec;
    use corniche_types::{Bytes, Epoch, MulticastGroup};

    fn engine(name: &str, parameters: &[(&str, u64)]) -> EngineConfig {
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        EngineConfig { name: name.into(), parameters }
    }

    fn check_spec(spec: NetworkSpec) -> Result<(), String> {
        make_network(&spec).map(drop).map_err(|error| format!("{error:#}"))
    }

    fn check_with(name: &str, validators: usize, batch_bytes: u32, parameters: &[(&str, u64)]) -> Result<(), String> {
        check_spec(NetworkSpec { validators, batch_bytes, engine: engine(name, parameters), ..default_spec() })
    }

    #[test]
    fn batch_larger_than_frame_is_refused() {
        for name in ["mahi-mahi", "autobahn", "mir", "quepaxa", "sadl-racs", "baxos"] {
            let error = check_with(name, 4, 8 << 20, &[]).unwrap_err();
            assert!(error.contains("expected messages of at most 8388608 bytes"), "{error}");
            // The suggestion in the error is sufficient and minimal.
            let by: u32 = error.rsplit(' ').next().unwrap().parse().unwrap();
            assert_eq!(check_with(name, 4, (8 << 20) - by, &[]), Ok(()));
            assert!(check_with(name, 4, (8 << 20) - by + 1, &[]).is_err());
            assert!(by < 16 << 10, "chains with batches that fit are accepted: {by}");
            assert_eq!(check_with(name, 100, 7 << 20, &[]), Ok(()));
            assert_eq!(check_with(name, 1, 16 << 20, &[]), Ok(()), "nobody is there to be sent anything");
        }
        for name in ["mahi-mahi", "autobahn"] {
            assert!(check_with(name, 4, 1 << 20, &[("fetch_bytes", 9 << 20)]).is_err());
        }
    }

    fn check_group(
        name: &str,
        validators: usize,
        parameters: &[(&str, u64)],
        suite: u8,
        has_group: bool,
    ) -> Result<(), String> {
        let group = MulticastGroup { group: 1, suite, sequencers: vec![vec![7; 32].into()] };
        let multicast = has_group.then_some(group);
        check_spec(NetworkSpec { validators, engine: engine(name, parameters), multicast, ..default_spec() })
    }

    #[test]
    fn sequencers_belong_to_their_engine() {
        assert_eq!(check_group("neobft", 4, &[], 1, true), Ok(()));
        assert_eq!(check_group("neobft", 64, &[], 5, true), Ok(()));
        let byzantine = [("byzantine_network", 1)];
        assert_eq!(check_group("neobft", 10, &byzantine, 1, true), Ok(()));
        let error = check_group("neobft", 16, &byzantine, 1, true).unwrap_err();
        assert!(error.contains("or the engine's fetch_bytes, or open_slots and sync_slots"), "{error}");
        let smaller = [byzantine[0], ("open_slots", 256), ("sync_slots", 64)];
        assert_eq!(check_group("neobft", 16, &smaller, 1, true), Ok(()));
        let error = check_group("neobft", 4, &[], 1, false).unwrap_err();
        assert!(error.contains("add `multicast` to the genesis"), "{error}");
        let error = check_group("autobahn", 4, &[], 1, true).unwrap_err();
        assert!(error.contains("has a multicast group, which autobahn does not use"), "{error}");
        assert!(single_node("neobft").unwrap_err().to_string().contains("testnet up --engine neobft"));
    }

    #[test]
    fn envelope_size_is_exact() {
        let message = PeerMessage::engine(Epoch(1), Bytes::from(vec![0; 1_000]));
        assert_eq!(message.encode().len(), 1_000 + ENVELOPE_BYTES);
    }
}
