//! `corniche genesis`, and the genesis of networks that this program starts: the engines that it has, and the
//! predeployed contracts.

mod ceremony;
mod contracts;

use crate::{engines, keys};
use anyhow::{Context, ensure};
use clap::Subcommand;
use corniche_console::{dev_accounts::dev_accounts, exit, secret};
use corniche_contract_tool::in_whole_units;
use corniche_crypto::CoinSecretShare;
use corniche_network::PeerKey;
use corniche_service::{Network, NetworkSpec, VerifiedGenesis, funded};
use corniche_types::{
    Address, B256, Bytes, EngineConfig, Genesis, MulticastGroup, SignatureChecks, StakingParameters, ValidatorInfo, Votes,
};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Network on the default engine.
pub fn default_spec() -> NetworkSpec {
    NetworkSpec::new(EngineConfig { name: engines::DEFAULT.into(), parameters: BTreeMap::new() })
}

/// Creates every validator's keys, and the genesis with them and the predeployed contracts.
pub fn make_network(spec: &NetworkSpec) -> anyhow::Result<Network> {
    let network = corniche_service::make_network(&with_contracts(spec))?;
    engines::check(&network.genesis)?;
    Ok(network)
}

/// Creates the genesis for validators with their own keys; also returns their coin shares, in the same order.
fn make_genesis(spec: &NetworkSpec, validators: Vec<ValidatorInfo>) -> anyhow::Result<(Genesis, Vec<CoinSecretShare>)> {
    let (genesis, shares) = corniche_service::make_genesis(&with_contracts(spec), validators)?;
    engines::check(&genesis)?;
    Ok((genesis, shares))
}

/// Adds the predeployed contracts. An account in the spec overrides one.
fn with_contracts(spec: &NetworkSpec) -> NetworkSpec {
    NetworkSpec { accounts: contracts::contracts().chain(spec.accounts.clone()).collect(), ..spec.clone() }
}

/// Reads and verifies a genesis file, including its signatures.
pub fn load(path: &Path) -> anyhow::Result<VerifiedGenesis> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> anyhow::Result<VerifiedGenesis> {
    let genesis = VerifiedGenesis::new(Genesis::from_json(text)?)?;
    engines::check(&genesis)?;
    Ok(genesis)
}

/// Create or check a genesis: the parameters that all nodes of a network share
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Create a genesis and deal the shares of the threshold coin, which you could then know
    New(Box<New>),
    /// Begin a genesis whose validators deal the coin together: write the draft, and print its hash
    Draft(Box<Draft>),
    /// Deal the coin to the validators of a draft; one file for all
    Deal {
        #[command(flatten)]
        member: ceremony::Member,
        /// Hash of the draft that the others read; default: ask
        #[arg(long, value_name = "HASH")]
        yes: Option<B256>,
    },
    /// Check all dealings, and acknowledge those with the right values for these keys
    Acknowledge(ceremony::Member),
    /// Show the values of validators that have not acknowledged the dealing of these keys
    Open(ceremony::Member),
    /// Make the genesis from the files of all validators; the same bytes for everybody
    Seal(ceremony::Seal),
    /// Check a sealed genesis, and write the coin share of these keys into their directory
    Finish {
        #[command(flatten)]
        member: ceremony::Member,
        /// The sealed genesis
        #[arg(long, value_name = "FILE", default_value = "genesis.json")]
        genesis: PathBuf,
    },
    /// Check a genesis file and print its identifiers
    Check {
        #[arg(value_name = "FILE", default_value = "genesis.json")]
        file: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args, Debug)]
struct New {
    /// Number of validators whose keys are created too
    #[arg(long, value_name = "N", required_unless_present = "from", conflicts_with = "from")]
    validators: Option<usize>,
    /// Public key files of validators that created their own keys (`corniche keys new`), in committee order
    #[arg(long, value_name = "PUBLIC.json", num_args = 1..)]
    from: Vec<PathBuf>,
    /// Directory to create, for genesis.json and each validator's keys or coin share
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    chain: Chain,
}

#[derive(clap::Args, Debug)]
struct Draft {
    /// Public key files of the validators (`corniche keys new`), in committee order
    #[arg(long, value_name = "PUBLIC.json", num_args = 1.., required = true)]
    from: Vec<PathBuf>,
    /// File to create
    #[arg(long, value_name = "FILE", default_value = "draft.json")]
    out: PathBuf,
    #[command(flatten)]
    chain: Chain,
}

/// A new chain.
#[derive(clap::Args, Debug)]
struct Chain {
    /// Votes of each validator in committee order, for instance `2,2,2,1`; default: one each
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = votes)]
    votes: Vec<Votes>,
    /// Chain id; default: derived from a random seed
    #[arg(long, value_name = "ID")]
    chain_id: Option<u64>,
    /// Ticker of the native currency
    #[arg(long, value_name = "TICKER", default_value = "CRN")]
    currency: String,
    /// Minimum time between two blocks in milliseconds; a fifth of it while blocks have few transactions
    #[arg(long, value_name = "MS", default_value_t = 50)]
    block_ms: u64,
    /// Ordering engine
    #[arg(long, value_name = "NAME", default_value = engines::DEFAULT, value_parser = engines::names())]
    engine: String,
    /// Parameter of the engine, for instance `wave_length=5`; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    parameter: Vec<(String, u64)>,
    /// Signature checks: `everyone` (each validator checks each) or `sharded` (f + 1 check and attest the sender)
    #[arg(long, value_name = "MODE", default_value = "everyone")]
    signatures: SignatureChecks,
    #[command(flatten)]
    staking: Staking,
    /// Public key of a sequencer, in hexadecimal digits, in the order of their epochs; for an engine with sequencers. May be repeated
    #[arg(long, value_name = "KEY")]
    sequencer: Vec<Bytes>,
    /// Suite of the sequencers' packets: 1 or 2 (keyed hashes), 4 (secp256k1) or 5 (ed25519)
    #[arg(long, value_name = "SUITE", default_value_t = 1, requires = "sequencer")]
    suite: u8,
    /// Number of the multicast group; unique among the chains of a sequencer
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "sequencer")]
    group: u32,
    /// Account to fund, and its amount in whole units of the currency; may be repeated
    #[arg(long, value_name = "ADDRESS=UNITS", value_parser = fund)]
    fund: Vec<(Address, u64)>,
    /// Fund the ten development accounts, whose keys are PUBLIC
    #[arg(long)]
    dev_accounts: bool,
}

/// Staking of a new network.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Staking {
    /// Staking, with its parameters, for instance `--staking min_validators=1 vote_wei=1000000000000000000`; default: no staking
    #[arg(long, value_name = "NAME=VALUE", num_args = 0.., value_parser = staking_parameter)]
    staking: Option<Vec<(String, Value)>>,
}

impl Staking {
    /// Returns the parameters; those that are not given have their defaults.
    pub fn parameters(&self) -> anyhow::Result<Option<StakingParameters>> {
        let Some(given) = &self.staking else { return Ok(None) };
        let object: Map<_, _> = given.iter().cloned().collect();
        Ok(Some(serde_json::from_value(object.into())?))
    }
}

/// Parses a parameter of staking from the command line. Amounts in wei may exceed the numbers of JSON, so they are texts there.
fn staking_parameter(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let value = value.parse::<u64>().map_or_else(|_| value.into(), Value::from);
    let alone = Map::from_iter([(name.to_owned(), value.clone())]);
    serde_json::from_value::<StakingParameters>(alone.into()).map_err(|error| format!("{name}: {error}"))?;
    Ok((name.to_owned(), value))
}

/// Parses an engine parameter from the command line.
pub fn parameter(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.parse().map_err(|_| format!("{value} is not a number"))?))
}

/// Parses one validator's votes from the command line.
pub fn votes(text: &str) -> Result<Votes, String> {
    text.parse().map(Votes).map_err(|_| format!("{text} is not a number of votes"))
}

fn fund(text: &str) -> Result<(Address, u64), String> {
    let (address, units) = text.split_once('=').ok_or("expected ADDRESS=UNITS")?;
    let address = address.parse().map_err(|_| format!("{address} is not an address"))?;
    Ok((address, units.parse().map_err(|_| format!("{units} is not a whole number"))?))
}

/// Runs `corniche genesis`.
pub fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::New(new) => new.run(),
        Command::Draft(draft) => draft.run(),
        Command::Deal { member, yes } => member.deal(yes),
        Command::Acknowledge(member) => member.acknowledge(),
        Command::Open(member) => member.open(),
        Command::Seal(seal) => {
            exit::result(identity_json(&seal.run()?));
            Ok(())
        }
        Command::Finish { member, genesis } => member.finish(&genesis),
        Command::Check { file, json } => {
            let genesis = load(&file)?;
            exit::result(if json { identity_json(&genesis) } else { identity_text(&genesis) });
            Ok(())
        }
    }
}

fn read_validators(paths: &[PathBuf]) -> anyhow::Result<Vec<ValidatorInfo>> {
    paths.iter().map(|path| keys::read_public(path)).collect()
}

impl New {
    fn run(self) -> anyhow::Result<()> {
        let spec = NetworkSpec { validators: self.validators.unwrap_or_default(), ..self.chain.spec()? };
        ensure!(!self.out.exists(), "{} exists; a genesis is never overwritten", self.out.display());
        let genesis = if self.from.is_empty() { self.write_network(&spec)? } else { self.write_dealt(&spec)? };
        let path = self.out.join("genesis.json");
        fs::write(&path, genesis.to_json() + "\n").with_context(|| format!("cannot write {}", path.display()))?;
        exit::result(identity_json(&genesis));
        Ok(())
    }

    /// Writes `validator-<i>/keys/` for each validator.
    fn write_network(&self, spec: &NetworkSpec) -> anyhow::Result<Genesis> {
        let network = make_network(spec)?;
        for (index, keys) in network.validators.iter().enumerate() {
            keys::save(keys, &self.out.join(format!("validator-{index}")).join("keys"))?;
        }
        exit::note(format_args!("genesis.json and the validators' keys are in {}", self.out.display()));
        Ok(network.genesis)
    }

    /// Writes `coin-shares/validator-<i>.key` for each validator.
    fn write_dealt(&self, spec: &NetworkSpec) -> anyhow::Result<Genesis> {
        let (genesis, shares) = make_genesis(spec, read_validators(&self.from)?)?;
        let directory = self.out.join("coin-shares");
        fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
        for (index, share) in shares.iter().enumerate() {
            secret::write(&directory.join(format!("validator-{index}.key")), &share.to_hex())?;
        }
        exit::note(format_args!(
            "genesis.json is in {}; give each validator its file of coin-shares/ in private, to keep as keys/coin.key, then delete them here",
            self.out.display()
        ));
        Ok(genesis)
    }
}

impl Draft {
    fn run(self) -> anyhow::Result<()> {
        let validators = read_validators(&self.from)?;
        let key = |validator: &ValidatorInfo| validator.stake.as_ref().map(|stake| stake.coin_key.clone());
        let coin_keys: Option<Vec<_>> = validators.iter().map(key).collect();
        let coin_keys = coin_keys.context("a public key file has no coin_key; create the keys with this version")?;
        // Checks everything but the coin, which nobody keeps.
        let (genesis, _) = make_genesis(&self.chain.spec()?, validators)?;
        let hash = ceremony::write_draft(genesis, coin_keys, &self.out)?;
        exit::note(format_args!("{} is for all validators; compare the hash before you deal", self.out.display()));
        exit::result(serde_json::json!({ "draft": hash }));
        Ok(())
    }
}

impl Chain {
    fn spec(&self) -> anyhow::Result<NetworkSpec> {
        let mut accounts = BTreeMap::new();
        if self.dev_accounts {
            exit::note("warning: the private keys of the development accounts are public; never give them anything of value");
            accounts.extend(dev_accounts().into_iter().map(|account| (account.address, funded(10_000))));
        }
        accounts.extend(self.fund.iter().map(|(address, units)| (*address, funded(*units))));
        if accounts.is_empty() {
            exit::note(
                "warning: no account is funded, so nobody will be able to pay for a transaction (--fund, --dev-accounts)",
            );
        }
        let parameters = self.parameter.iter().cloned().collect();
        Ok(NetworkSpec {
            votes: self.votes.clone(),
            chain_id: self.chain_id,
            currency: self.currency.clone(),
            block_ms: self.block_ms,
            engine: EngineConfig { name: self.engine.clone(), parameters },
            accounts,
            signatures: self.signatures,
            staking: self.staking.parameters()?,
            multicast: self.multicast(),
            ..default_spec()
        })
    }

    fn multicast(&self) -> Option<MulticastGroup> {
        let (group, suite, sequencers) = (self.group, self.suite, self.sequencer.clone());
        (!sequencers.is_empty()).then_some(MulticastGroup { group, suite, sequencers })
    }
}

fn identity_json(genesis: &Genesis) -> String {
    let value = serde_json::json!({
        "chainId": genesis.chain_id,
        "genesisHash": genesis.hash(),
        "committeeHash": genesis.committee_hash(),
        "engine": genesis.engine.name,
        "tolerates": engines::tolerates(genesis),
        "signatures": genesis.signatures,
        "staking": genesis.staking,
        "multicast": genesis.multicast,
        "coinDraft": genesis.coin_draft,
        "validators": genesis.validators.len(),
        "votes": genesis.validators.iter().map(|validator| validator.votes).collect::<Vec<_>>(),
        "quorum": genesis.weights().quorum(),
        "peerIds": peer_ids(genesis),
    });
    format!("{value:#}")
}

fn identity_text(genesis: &Genesis) -> String {
    let one_each = genesis.weights().are_one_each();
    let votes = |validator: &ValidatorInfo| match validator.votes {
        _ if one_each => String::new(),
        Votes(1) => "  1 vote".to_owned(),
        votes => format!("  {votes} votes"),
    };
    let listed = peer_ids(genesis).into_iter().zip(&genesis.validators).enumerate();
    let validators: Vec<_> =
        listed.map(|(index, (id, validator))| format!("\n  {index:<11} /p2p/{id}{}", votes(validator))).collect();
    let staking = match &genesis.staking {
        Some(it) => format!("{} {} per vote, epochs of {} ms", in_whole_units(it.vote_wei), genesis.currency, it.epoch_ms),
        None => "none".into(),
    };
    let coin = match genesis.coin_draft {
        Some(draft) => format!("dealt by the validators, according to this file, for draft {draft}"),
        None => "dealt by the creator of the genesis, who could know it".into(),
    };
    format!(
        "chain id      {}\ngenesis hash  {}\nengine        {}, which tolerates {}\nsignatures    {}\nstaking       {staking}\ncoin          {coin}\naccounts      {}\n\
         validators    {}{}",
        genesis.chain_id,
        genesis.hash(),
        genesis.engine.name,
        engines::tolerates(genesis),
        genesis.signatures,
        genesis.accounts.len(),
        genesis.validators.len(),
        validators.concat()
    )
}

/// Names of the validators for `peers` in a `node.toml`, in committee order.
fn peer_ids(genesis: &Genesis) -> Vec<String> {
    genesis.validators.iter().map(|validator| PeerKey(validator.network_key).to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::{TimestampMs, U256};

    fn spec() -> NetworkSpec {
        NetworkSpec { seed: [3; 32], timestamp_ms: TimestampMs(1_800_000_000_000), ..default_spec() }
    }

    #[test]
    fn predeployed_contract_addresses() {
        let genesis = make_network(&spec()).unwrap().genesis;
        let address: Address = "0xcA11bde05977b3631167028862bE2a173976CA11".parse().unwrap();
        let account = &genesis.accounts[&address];
        assert_eq!((account.nonce, account.balance), (1, U256::ZERO));
        // Frozen: the same inputs must always give the same genesis.
        assert_eq!(
            corniche_types::keccak256(&account.code).to_string(),
            "0xef8677226fad7c560b89dfbdf418624607e8c2fc3a628da7a2e42b6422c0f562"
        );
        assert_eq!(genesis.hash().to_string(), "0xfa5bb19996f106970985f40834d139bccd559471b2c6c2d0abc78c9d3431588e");
        let deployer = &genesis.accounts[&"0xcEcba2F1DC234f70Dd89F2041029807F8D03A990".parse::<Address>().unwrap()];
        assert_eq!((deployer.nonce, deployer.balance), (1, U256::ZERO));
        assert_eq!(
            corniche_types::keccak256(&deployer.code).to_string(),
            "0x5c8d085618749f3568134a83dc881edf31111b0ae25a7d12b7d96419d8234cbf"
        );
        let own = BTreeMap::from([(address, funded(1))]);
        let other = make_network(&NetworkSpec { accounts: own, ..spec() }).unwrap().genesis;
        assert_eq!(other.accounts[&address], funded(1), "who wants something else there gets it");
    }

    #[test]
    fn staking_parameters_are_parsed() {
        let given = |texts: &[&str]| {
            let parse = |text: &&str| staking_parameter(text).unwrap();
            Staking { staking: Some(texts.iter().map(parse).collect()) }.parameters().unwrap().unwrap()
        };
        assert_eq!(Staking::default().parameters().unwrap(), None);
        assert_eq!(given(&[]), StakingParameters::default());
        let own = given(&["min_validators=1", "vote_wei=20000000000000000000000", "reward_wei=7", "most_votes=3"]);
        let (vote_wei, reward_wei) = (U256::from(20_000_000_000_000_000_000_000u128), U256::from(7));
        let defaults = StakingParameters::default();
        assert_eq!(own, StakingParameters { min_validators: 1, vote_wei, reward_wei, most_votes: Votes(3), ..defaults });
        for (bad, named) in [
            ("epoch_ms", "NAME=VALUE"),
            ("epoch_ms=soon", "epoch_ms: "),
            ("epoch_ms=-1", "epoch_ms: "),
            ("vote_wei=1.5", "vote_wei: "),
            ("epoch_blocks=7", "epoch_blocks"),
        ] {
            let error = staking_parameter(bad).unwrap_err();
            assert!(error.contains(named), "{bad}: {error}");
        }
    }

    #[test]
    fn staking_is_printed() {
        let staking = Some(StakingParameters::default());
        let genesis = make_network(&NetworkSpec { staking, ..spec() }).unwrap().genesis;
        assert!(identity_text(&genesis).contains("\nstaking       10000 CRN per vote, epochs of 86400000 ms\n"));
        assert!(identity_json(&genesis).contains("\"min_validators\": 4"));
        assert!(identity_text(&make_network(&spec()).unwrap().genesis).contains("\nstaking       none\n"));
    }

    #[test]
    fn development_accounts_are_the_usual_ones() {
        let addresses: Vec<_> = dev_accounts().iter().map(|account| account.address.to_checksum(None)).collect();
        assert_eq!(addresses[0], "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        assert_eq!(addresses[1], "0x70997970C51812dc3A010C7d01b50e0d17dc79C8");
        assert_eq!(addresses[9], "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720");
    }
}
