//! QuePaxa, SADL-RACS and Baxos for the binary: they tolerate crashes only. They sign nothing, so they need none of the keys.

use super::EngineEntry;
use corniche_engine::Engine;
use corniche_pipeline::EngineFactory;
use corniche_service::{EngineParts, EngineStart, Keyring, VerifierFactory, fresh_seed};
use corniche_types::Genesis;
use std::sync::Arc;

/// Entry of an engine of a crate. The crates have the same names for their types; `seed` is there if the engine draws random numbers.
macro_rules! entry {
    ($name:literal, $engine:ident::$type:ident, $verifier:ident $(, $seed:ident)?) => {{
        use $engine::{Config, Setup};

        fn build(genesis: &Genesis, keys: Keyring) -> anyhow::Result<EngineParts> {
            let config = Config::from_genesis(genesis).map_err(anyhow::Error::msg)?;
            let verifier_config = config.clone();
            let verifier: VerifierFactory =
                Box::new(move |committee| Arc::new($engine::$verifier::new(verifier_config.clone(), committee.clone())));
            let factory: EngineFactory = Box::new(move |start| {
                let EngineStart { committee, epoch, records, has_all_records: unsigned, resume, now, .. } = start;
                let config = Config { genesis_time: epoch.time, genesis_randomness: epoch.randomness, ..config.clone() };
                let (me, _) = keys.member_of(&committee).expect("invariant: only members have engines");
                $(let $seed = fresh_seed();)?
                Box::new($engine::$type::new(Setup { config, committee, me, $($seed,)? records, unsigned, resume, now }))
                    as Box<dyn Engine>
            });
            Ok((verifier, factory))
        }

        EngineEntry {
            name: $name,
            check: |genesis| Config::from_genesis(genesis).map(drop),
            max_message_bytes: |genesis| Ok(Config::from_genesis(genesis)?.max_message_bytes(genesis.max_validators())),
            bounds: "",
            build,
            single_node: Some(&[("batch_interval_ms", 0)]),
            has_sequencer: false,
        }
    }};
}

pub const QUEPAXA: EngineEntry = entry!("quepaxa", corniche_quepaxa::QuePaxa, QuePaxaVerifier, seed);
pub const RACS: EngineEntry = entry!("sadl-racs", corniche_racs::Racs, RacsVerifier);
pub const BAXOS: EngineEntry = entry!("baxos", corniche_baxos::Baxos, BaxosVerifier, seed);
