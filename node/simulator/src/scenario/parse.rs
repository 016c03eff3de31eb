//! Reads a scenario file, table by table. Each function contains the keys of one table and their defaults.

use super::{
    Adversary, Cost, Crypto, Disk, EngineName, Jitter, Load, Network, Payload, Scenario, ScenarioError, Sequencer, faults,
    read::{Field, Table},
    schema,
};
use corniche_types::{MAX_VOTES, Votes, Weights};
use std::collections::BTreeMap;
use toml::de::DeTable;

/// Maximum number of validators.
const MAX_NODES: u64 = 1_000;
/// Maximum duration, µs: one day.
const MAX_DURATION_US: u64 = 86_400_000_000;

/// Reads a scenario file.
///
/// # Errors
/// The first mistake in the file, with its line and a way to correct it.
pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    read(text, None)
}

/// Reads a scenario file for this engine instead of its own one. Parameters of the file's engine and its sequencer do not apply to
/// another engine.
///
/// # Errors
/// The first mistake in the file, or something that this engine does not support.
pub fn parse_for(text: &str, engine: EngineName) -> Result<Scenario, ScenarioError> {
    read(text, Some(engine))
}

fn read(text: &str, instead: Option<EngineName>) -> Result<Scenario, ScenarioError> {
    let document = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        ScenarioError::at(text, offset, format_args!("not TOML: {}", error.message()))
    })?;
    let root = Table::root(text, &document).only(schema::ROOT)?;
    let load_table = table(root, "load", "[load]", schema::LOAD)?;
    let engines: Vec<_> = EngineName::ALL.iter().map(|name| (name.id(), *name)).collect();
    let named = root.need("engine", "the ordering engine, such as \"mahi-mahi\"")?.choice(&engines)?;
    let engine = instead.unwrap_or(named);
    // Keys that belong to the named engine only.
    let of_engine = |key| root.get(key).filter(|_| engine == named);
    let nodes = root.need("nodes", "the number of validators")?.integer(1..=MAX_NODES)?;
    let nodes = usize::try_from(nodes).expect("at most a thousand");
    let duration_us = duration(root.need("duration", "the virtual time of the run, such as \"60s\"")?)?;
    let epoch_ms = root.get("epoch_ms").map(|length| epoch(length, engine)).transpose()?;
    check_adversary(root, engine)?;
    Ok(Scenario {
        engine: engine.id().to_owned(),
        engine_config: engine_config(of_engine("engine_config"), engine)?,
        nodes,
        votes: root.get("votes").map(|list| votes(list, nodes, engine)).transpose()?,
        epoch_ms,
        closing_ms: root.get("closing_ms").map(|length| closing(length, epoch_ms)).transpose()?,
        block_ms: root.get("block_ms").map_or(Ok(0), |length| length.integer(0..=MAX_BLOCK_MS))?,
        duration_us,
        seed: root.get("seed").map_or(Ok(0), |seed| seed.integer(0..=i64::MAX as u64))?,
        crypto: root.get("crypto").map_or(Ok(Crypto::Modelled), |crypto| crypto.choice(CRYPTO))?,
        network: table(root, "network", "[network]", schema::NETWORK)?.map_or_else(|| Ok(Network::default()), network)?,
        sequencer: sequencer(root, of_engine("sequencer"), engine, nodes)?,
        disk: table(root, "disk", "[disk]", schema::DISK)?.map_or_else(|| Ok(Disk::default()), disk)?,
        load: load_table.map_or_else(|| Ok(Load::none(duration_us)), |given| load(given, nodes, duration_us))?,
        contract: load_table.map_or(Ok(None), contract)?,
        cost: table(root, "cost", "[cost]", schema::COST)?.map_or_else(|| Ok(Cost::default()), cost)?,
        faults: root
            .get("fault")
            .map_or_else(|| Ok(Vec::new()), |list| faults::read(list, engine, nodes, duration_us, epoch_ms.is_some()))?,
    })
}

/// An hour.
const MAX_BLOCK_MS: u64 = 3_600_000;
/// As in a genesis.
const MIN_EPOCH_MS: u64 = 1_000;
/// As in a genesis.
const MIN_CLOSING_MS: u64 = 240;

fn epoch(length: Field<'_>, engine: EngineName) -> Result<u64, ScenarioError> {
    if engine == EngineName::Neobft {
        return Err(length
            .refuse("epoch_ms: expected another engine, because a multicast group has a fixed committee; remove epoch_ms"));
    }
    length.integer(MIN_EPOCH_MS..=MAX_DURATION_US / 1_000)
}

/// Adversaries delay proposals, and with a sequencer nobody proposes.
fn check_adversary(root: Table<'_>, engine: EngineName) -> Result<(), ScenarioError> {
    let Some(network) = root.get("network").filter(|_| engine == EngineName::Neobft) else { return Ok(()) };
    match network.table("[network]")?.get("adversary") {
        Some(adversary) if adversary.choice(ADVERSARIES)? != Adversary::None => {
            Err(adversary.refuse("adversary: expected \"none\" with neobft, which has no proposals; use faults instead"))
        }
        _ => Ok(()),
    }
}

impl Default for Sequencer {
    /// In the path of the network, with tags of 8 bytes, without loss. Another one is installed in 50 ms.
    fn default() -> Self {
        Self { is_on_host: false, suite: 1, sign_every: 1, loss_ppm: 0, install_us: 50_000 }
    }
}

const PLACES: &[(&str, bool)] = &[("path", false), ("host", true)];
/// Maximum number of validators with suites 1 and 2.
const MAX_TAG_RECEIVERS: usize = 64;
/// Maximum number of validators with suites 4 and 5.
const MAX_GROUP: usize = 256;

/// Reads `[sequencer]`. Engines without a multicast group have none.
fn sequencer(root: Table<'_>, given: Option<Field<'_>>, engine: EngineName, nodes: usize) -> Result<Sequencer, ScenarioError> {
    let default = Sequencer::default();
    let Some(given) = given else {
        let is_possible = engine != EngineName::Neobft || nodes <= MAX_TAG_RECEIVERS;
        return if is_possible { Ok(default) } else { Err(root.refuse(too_many(default.suite, nodes))) };
    };
    if engine != EngineName::Neobft {
        return Err(given.refuse(format_args!("{} has no sequencer; use the engine \"neobft\"", engine.id())));
    }
    let table = given.table("[sequencer]")?.only(schema::SEQUENCER)?;
    let suite = match table.get("suite").map(|field| Ok((field, field.integer(1..=5)?))).transpose()? {
        Some((field, 3)) => return Err(field.refuse("suite: expected 1, 2, 4 or 5, got 3, which is for switches only")),
        Some((_, suite)) => suite as u8,
        None => default.suite,
    };
    let most = if suite <= 2 { MAX_TAG_RECEIVERS } else { MAX_GROUP };
    if nodes > most {
        return Err(given.refuse(too_many(suite, nodes)));
    }
    let sign_every = table.get("sign_every").map_or(Ok(u64::from(default.sign_every)), |field| field.integer(1..=64))?;
    Ok(Sequencer {
        is_on_host: table.get("place").map_or(Ok(default.is_on_host), |field| field.choice(PLACES))?,
        suite,
        sign_every: u32::try_from(sign_every).unwrap_or(default.sign_every),
        loss_ppm: table.get("loss").map_or(Ok(default.loss_ppm), |field| field.fraction())?,
        install_us: table.get("install_ms").map_or(Ok(default.install_us), |field| field.milliseconds())?,
    })
}

fn too_many(suite: u8, nodes: usize) -> String {
    let most = if suite <= 2 { MAX_TAG_RECEIVERS } else { MAX_GROUP };
    format!("sequencer: expected at most {most} nodes with suite {suite}, got {nodes}; use fewer, or suite 5")
}

fn closing(length: Field<'_>, epoch_ms: Option<u64>) -> Result<u64, ScenarioError> {
    let Some(epoch_ms) = epoch_ms else {
        return Err(length.refuse("closing_ms: expected epoch_ms; add it, or remove closing_ms"));
    };
    length.integer(MIN_CLOSING_MS..=epoch_ms / 4)
}

const CRYPTO: &[(&str, Crypto)] = &[("modelled", Crypto::Modelled), ("real", Crypto::Real)];
const MODELS: &[(&str, Jitter)] = &[("uniform", Jitter::Uniform), ("pareto", Jitter::Pareto)];
const ADVERSARIES: &[(&str, Adversary)] =
    &[("none", Adversary::None), ("random", Adversary::Random), ("worst", Adversary::Worst), ("leaders", Adversary::Leaders)];
const PAYLOADS: &[(&str, Payload)] =
    &[("none", Payload::None), ("transfer", Payload::Transfer), ("counter", Payload::Counter), ("erc20", Payload::Erc20)];

fn table<'t>(root: Table<'t>, key: &'t str, place: &'static str, known: &[&str]) -> Result<Option<Table<'t>>, ScenarioError> {
    root.get(key).map(|field| field.table(place)?.only(known)).transpose()
}

/// Reads the votes of the validators. The genesis has to accept them.
fn votes(field: Field<'_>, nodes: usize, engine: EngineName) -> Result<Vec<Votes>, ScenarioError> {
    let items = field.list("a list of numbers, such as [2, 2, 2, 1]")?;
    if items.len() != nodes {
        return Err(field.refuse(format_args!("votes: expected {nodes} numbers, one per validator, got {}", items.len())));
    }
    let one = |item: &Field<'_>| Ok(Votes(u32::try_from(item.integer(1..=MAX_VOTES.0.into())?).unwrap_or(u32::MAX)));
    let votes = items.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    let weights = Weights::new(votes.iter().copied(), engine.fault_model());
    weights.check().map_err(|problem| field.refuse(format_args!("votes: the validators {problem}")))?;
    Ok(votes)
}

fn duration(field: Field<'_>) -> Result<u64, ScenarioError> {
    match field.time()? {
        0 => Err(field.refuse("duration: expected more than 0, got 0")),
        MAX_DURATION_US.. => Err(field.refuse("duration: expected less than a day; use a shorter one, such as \"60s\"")),
        duration_us => Ok(duration_us),
    }
}

/// Reads the engine's own parameters. The engine has accepted them.
fn engine_config(given: Option<Field<'_>>, engine: EngineName) -> Result<BTreeMap<String, u64>, ScenarioError> {
    let Some(given) = given else { return Ok(BTreeMap::new()) };
    let fields = given.table("[engine_config]")?.fields();
    let entry = |field: &Field<'_>| Ok((field.key().to_owned(), field.integer(0..=u64::MAX)?));
    let parameters = fields.iter().map(entry).collect::<Result<BTreeMap<_, _>, _>>()?;
    // The engine's message names the rejected parameter, which gives the line.
    let guilty = |message: &str| {
        let words: Vec<_> = message.split(|character: char| !character.is_alphanumeric() && character != '_').collect();
        fields.iter().find(|field| words.contains(&field.key())).copied().unwrap_or(given)
    };
    engine.check(&parameters).map_err(|message| guilty(&message).refuse(message))?;
    Ok(parameters)
}

impl Default for Network {
    /// 50 ms between any two nodes, 10 Gbit/s, no faults.
    fn default() -> Self {
        Self {
            regions: vec!["everywhere".to_owned()],
            one_way_us: vec![vec![50_000]],
            jitter_ppm: 0,
            model: Jitter::Uniform,
            loss_ppm: 0,
            reorder_ppm: 0,
            duplicate_ppm: 0,
            bytes_per_second: 1_250_000_000,
            adversary: Adversary::None,
            adversary_delay_us: 1_000_000,
        }
    }
}

fn network(given: Table<'_>) -> Result<Network, ScenarioError> {
    let default = Network::default();
    let (regions, one_way_us) = distances(given, &default)?;
    let fraction = |key| given.get(key).map_or(Ok(0), |field: Field<'_>| field.fraction());
    Ok(Network {
        regions,
        one_way_us,
        jitter_ppm: fraction("jitter")?,
        model: given.get("model").map_or(Ok(default.model), |field| field.choice(MODELS))?,
        loss_ppm: fraction("loss")?,
        reorder_ppm: fraction("reorder")?,
        duplicate_ppm: fraction("duplicate")?,
        bytes_per_second: given.get("bandwidth_mbps").map_or(Ok(default.bytes_per_second), megabits)?,
        adversary: given.get("adversary").map_or(Ok(default.adversary), |field| field.choice(ADVERSARIES))?,
        adversary_delay_us: given.get("adversary_delay_ms").map_or(Ok(default.adversary_delay_us), |it| it.milliseconds())?,
    })
}

/// Reads region names and one-way delays: a matrix over regions, or one delay for all.
fn distances(given: Table<'_>, default: &Network) -> Result<(Vec<String>, Vec<Vec<u64>>), ScenarioError> {
    let uniform = |delay_us| (default.regions.clone(), vec![vec![delay_us]]);
    match (given.get("regions"), given.get("rtt_ms"), given.get("delay_ms")) {
        (None, None, None) => Ok(uniform(default.one_way_us[0][0])),
        (None, None, Some(delay)) => Ok(uniform(delay.milliseconds()?)),
        (_, _, Some(delay)) => Err(delay.refuse("delay_ms: expected no regions; remove delay_ms, or regions and rtt_ms")),
        (Some(regions), Some(rtt), None) => {
            let regions = names(regions)?;
            Ok((regions.clone(), matrix(rtt, &regions)?))
        }
        (Some(alone), None, None) => Err(alone.refuse("regions: expected rtt_ms with a row and a column per region; add it")),
        (None, Some(alone), None) => Err(alone.refuse("rtt_ms: expected regions, the names of its rows and columns; add them")),
    }
}

fn names(field: Field<'_>) -> Result<Vec<String>, ScenarioError> {
    let want = "a list of names, such as [\"us-east-2\", \"eu-south-1\"]";
    let mut names: Vec<String> = Vec::new();
    for item in field.list(want)? {
        let name = item.string("a list of names")?;
        if names.iter().any(|known| known == name) {
            return Err(item.refuse(format_args!("regions: expected distinct names, got \"{name}\" twice")));
        }
        names.push(name.to_owned());
    }
    if names.is_empty() { Err(field.refuse(format_args!("regions: expected {want}, got an empty list"))) } else { Ok(names) }
}

/// Reads one-way delays: half of each round trip.
fn matrix(field: Field<'_>, regions: &[String]) -> Result<Vec<Vec<u64>>, ScenarioError> {
    let size = regions.len();
    let rows = field.list("a list of rows")?;
    if rows.len() != size {
        return Err(field.refuse(format_args!("rtt_ms: expected {size} rows, got {}; add one per region", rows.len())));
    }
    let row = |(row, region): (Field<'_>, &String)| {
        let cells = row.list("a list of rows, each a list of numbers")?;
        if cells.len() != size {
            let found = cells.len();
            return Err(row.refuse(format_args!("rtt_ms: expected {size} numbers in the row of \"{region}\", got {found}")));
        }
        cells.iter().map(|cell| Ok(cell.milliseconds()? / 2)).collect()
    };
    rows.into_iter().zip(regions).map(row).collect()
}

/// Converts megabits per second to bytes per second.
fn megabits(field: Field<'_>) -> Result<u64, ScenarioError> {
    match field.scaled(125_000, 10_000_000)? {
        0 => Err(field.refuse("bandwidth_mbps: expected more than 0, got 0")),
        bytes => Ok(bytes),
    }
}

impl Default for Disk {
    /// A solid-state disk: 1 ms for a durable write, 8 Gbit/s.
    fn default() -> Self {
        Self { latency_us: 1_000, bytes_per_second: 1_000_000_000 }
    }
}

fn disk(given: Table<'_>) -> Result<Disk, ScenarioError> {
    let default = Disk::default();
    Ok(Disk {
        latency_us: given.get("latency_ms").map_or(Ok(default.latency_us), |field| field.milliseconds())?,
        bytes_per_second: given.get("bandwidth_mbps").map_or(Ok(default.bytes_per_second), megabits)?,
    })
}

impl Load {
    /// A load without submissions.
    fn none(duration_us: u64) -> Self {
        Self {
            millirate: 0,
            tx_bytes: 512,
            payload: Payload::None,
            start_us: 0,
            stop_us: duration_us,
            first_node: 0,
            patience_us: 5_000_000,
        }
    }
}

fn load(given: Table<'_>, nodes: usize, duration_us: u64) -> Result<Load, ScenarioError> {
    let default = Load::none(duration_us);
    let rate = given.need("rate", "transactions per second over all nodes")?;
    let start_us = given.get("start").map_or(Ok(0), |field| field.time())?;
    let stop_us = given.get("stop").map_or(Ok(default.stop_us), |field| match field.time()? {
        late if late > duration_us => Err(field.refuse("stop: expected at most duration; use an earlier time")),
        stop_us => Ok(stop_us),
    })?;
    if start_us >= stop_us {
        let place = given.get("start").or(given.get("stop")).unwrap_or(rate);
        return Err(place.refuse("load: expected start before stop; use an earlier start or a later stop"));
    }
    let bytes = given.get("tx_bytes").map_or(Ok(u64::from(default.tx_bytes)), |field| field.integer(128..=131_072))?;
    Ok(Load {
        millirate: rate.scaled(1_000, 1_000_000)?,
        tx_bytes: u32::try_from(bytes).expect("at most 128 KiB"),
        payload: given.get("payload").map_or(Ok(default.payload), |field| field.choice(PAYLOADS))?,
        start_us,
        stop_us,
        first_node: given.get("first_node").map_or(Ok(default.first_node), |field| field.node(nodes))?,
        patience_us: given.get("patience").map_or(Ok(default.patience_us), |field| match field.time()? {
            0 => Err(field.refuse("patience: expected more than 0, got 0")),
            patience_us => Ok(patience_us),
        })?,
    })
}

/// Path of the wasm file that the payload calls.
fn contract(load: Table<'_>) -> Result<Option<String>, ScenarioError> {
    let payload = load.get("payload");
    let calls = matches!(payload.map(|field| field.choice(PAYLOADS)).transpose()?, Some(Payload::Counter | Payload::Erc20));
    match (load.get("contract"), payload) {
        (None, Some(payload)) if calls => {
            Err(payload.refuse("payload: expected contract, the path of its wasm file; add it, relative to this file"))
        }
        (Some(alone), _) if !calls => {
            Err(alone.refuse("contract: expected the payload \"counter\" or \"erc20\"; remove contract"))
        }
        (contract, _) => contract.map(|field| Ok(field.string("the path of a wasm file")?.to_owned())).transpose(),
    }
}

impl Default for Cost {
    /// Measured on one core of a cloud machine, combining for ten validators: `examples/crypto_cost.rs`.
    fn default() -> Self {
        Self { sign_us: 20, verify_us: 40, recover_us: 35, share_us: 160, combine_us: 1_400 }
    }
}

fn cost(given: Table<'_>) -> Result<Cost, ScenarioError> {
    let default = Cost::default();
    let cost = |key, default| given.get(key).map_or(Ok(default), |field: Field<'_>| field.integer(0..=1_000_000));
    Ok(Cost {
        sign_us: cost("sign_us", default.sign_us)?,
        verify_us: cost("verify_us", default.verify_us)?,
        recover_us: cost("recover_us", default.recover_us)?,
        share_us: cost("share_us", default.share_us)?,
        combine_us: cost("combine_us", default.combine_us)?,
    })
}
