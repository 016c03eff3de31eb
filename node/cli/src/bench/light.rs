//! `corniche bench light`: bytes and processor time with which a light client follows the ends of epochs.

use crate::genesis;
use anyhow::Context;
use corniche_api::{Certificate as ServedCertificate, EpochChange as ServedChange};
use corniche_console::exit;
use corniche_crypto::{BlsSecretKey, LightClient, bls_aggregate};
use corniche_service::{Network, NetworkSpec};
use corniche_types::{
    B256, Bloom, Certificate, CommitIndex, Epoch, EpochChange, FaultModel, Genesis, Header, Height, LightMember, NextEpoch,
    RecordHead, SignerBitmap, StakingParameters, TimestampMs, U256, ValidatorIndex, Votes, Weights, header_hash, keccak256,
    light_root, wire,
};
use serde_json::{Value, json};
use std::{path::PathBuf, time::Instant};

/// Blocks of an epoch.
const EPOCH_BLOCKS: u64 = 1_000_000;

/// Measure how a light client follows the committees of many epochs, on one thread and without a network
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Validators of each committee
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=300))]
    validators: u16,
    /// Epochs to follow
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    epochs: u32,
    /// Also write the epochs as JSON, to measure other verifiers
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// One committee, or two that take turns.
type Sets<'s> = &'s [Vec<BlsSecretKey>];

/// The epochs of a chain, and a block after them.
struct Followed {
    changes: Vec<EpochChange>,
    block: (Header, Certificate),
}

struct Chain<'c> {
    genesis: &'c Genesis,
    sets: Sets<'c>,
    epoch: Epoch,
    committee: B256,
}

impl Chain<'_> {
    fn keys(&self, epoch: Epoch) -> &[BlsSecretKey] {
        &self.sets[epoch.0 as usize % self.sets.len()]
    }

    fn members(&self, epoch: Epoch) -> Vec<LightMember> {
        self.keys(epoch).iter().map(|key| LightMember { bls_key: key.public().to_bytes(), votes: Votes(1) }).collect()
    }

    /// A header without a zero that the encoding would leave out.
    fn header(&self, number: u64, extra_data: B256) -> Header {
        let filled = B256::repeat_byte(0x5a);
        Header {
            parent_hash: filled,
            beneficiary: self.genesis.validators[0].fee_address,
            state_root: filled,
            transactions_root: filled,
            receipts_root: filled,
            logs_bloom: Bloom::repeat_byte(0x5a),
            difficulty: U256::ZERO,
            number,
            gas_limit: self.genesis.block_gas_limit,
            gas_used: self.genesis.block_gas_limit / 2,
            timestamp: self.end(self.epoch).0 / 1_000,
            extra_data: extra_data.to_vec().into(),
            mix_hash: filled,
            base_fee_per_gas: Some(self.genesis.fees.initial_base_fee),
            ..Header::default()
        }
    }

    fn end(&self, epoch: Epoch) -> TimestampMs {
        let epoch_ms = self.genesis.epochs().map_or(0, |staking| staking.epoch_ms);
        TimestampMs(self.genesis.timestamp_ms.0 + epoch_ms * (epoch.0 + 1))
    }

    /// Signs with the fewest members that are a quorum.
    fn certify(&self, header: &Header) -> anyhow::Result<Certificate> {
        let (keys, fault_model) = (self.keys(self.epoch), FaultModel::Byzantine);
        let quorum = Weights::one_each(keys.len(), fault_model).quorum().as_usize();
        let (height, header_hash) = (Height(header.number), header_hash(header));
        let message =
            Certificate::signed_bytes(self.genesis.chain_id, self.epoch, self.committee, height, header_hash, fault_model);
        let signatures: Vec<_> = keys[..quorum].iter().map(|key| key.sign(&message)).collect();
        let signature = bls_aggregate(&signatures).context("no signatures")?.to_bytes().to_vec().into();
        let signers = SignerBitmap::from_signers((0..quorum as u16).map(ValidatorIndex), keys.len());
        let (epoch, committee_hash) = (self.epoch, self.committee);
        Ok(Certificate { epoch, committee_hash, height, header_hash, fault_model, signers, signature })
    }

    fn end_epoch(&mut self) -> anyhow::Result<EpochChange> {
        let members = self.members(self.epoch.next());
        let next = NextEpoch {
            committee_hash: keccak256(self.committee),
            light_root: light_root(FaultModel::Byzantine, &members),
            protocol_version: self.genesis.protocol_version,
        };
        let committee_hash = next.committee_hash;
        let filled = B256::repeat_byte(0x5a);
        let head: corniche_types::Bytes = wire::encode(&RecordHead {
            engine: self.genesis.engine.name.clone(),
            protocol_version: self.genesis.protocol_version,
            epoch: self.epoch,
            committee_hash: self.committee,
            next: Some(next),
            commits: (CommitIndex(1), CommitIndex(2), 0),
            agreed: (ValidatorIndex(0), self.end(self.epoch), filled),
            hashes: (filled, filled, filled),
        })
        .into();
        let header = self.header(EPOCH_BLOCKS * (self.epoch.0 + 1), keccak256(&head));
        let certificate = self.certify(&header)?;
        (self.epoch, self.committee) = (self.epoch.next(), committee_hash);
        Ok(EpochChange { header, head, certificate, members: (self.sets.len() > 1).then_some(members) })
    }
}

fn make_epochs(genesis: &Genesis, sets: Sets<'_>, epochs: u32) -> anyhow::Result<Followed> {
    let mut chain = Chain { genesis, sets, epoch: Epoch(0), committee: genesis.committee_hash() };
    let changes = (0..epochs).map(|_| chain.end_epoch()).collect::<anyhow::Result<_>>()?;
    let header = chain.header(EPOCH_BLOCKS * chain.epoch.0 + 1, B256::ZERO);
    let certificate = chain.certify(&header)?;
    Ok(Followed { changes, block: (header, certificate) })
}

/// Follows all epochs, and returns a line of the table.
fn measure(genesis: &Genesis, followed: &Followed, name: &str) -> anyhow::Result<String> {
    let mut client = LightClient::from_genesis(genesis)?;
    let mut times = Vec::with_capacity(followed.changes.len());
    for change in &followed.changes {
        let started = Instant::now();
        // Each change is verified at its time, so that no root is too old.
        client.advance(change, TimestampMs(change.header.timestamp * 1_000))?;
        times.push(started.elapsed());
    }
    times.sort_unstable();
    let median_ms = times[times.len() / 2].as_secs_f64() * 1_000.0;
    let (header, certificate) = &followed.block;
    client.certified(certificate, TimestampMs(header.timestamp * 1_000))?.check(header)?;
    let epochs = followed.changes.len() as f64;
    let bytes = followed.changes.iter().map(|change| wire::encode(change).len()).sum::<usize>() as f64 / epochs;
    let json: usize = followed.changes.iter().map(|change| json!(ServedChange::from(change)).to_string().len()).sum();
    let json = json as f64 / epochs;
    let year = bytes * 365.0 / 1e6;
    Ok(format!("{name:<10} {bytes:>12.0} {json:>12.0} {year:>12.2} {median_ms:>12.2}"))
}

fn to_json(followed: &Followed) -> Value {
    let changes: Vec<_> = followed.changes.iter().map(ServedChange::from).collect();
    let (header, certificate) = &followed.block;
    json!({ "changes": changes, "certificate": ServedCertificate::from(certificate), "header": header })
}

/// Runs `corniche bench light`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let validators = usize::from(args.validators);
    let staking = StakingParameters {
        max_validators: u32::from(args.validators).max(100),
        max_votes: Votes(512),
        min_validators: 1,
        ..StakingParameters::default()
    };
    // The last epoch ends now.
    let now = genesis::default_spec().timestamp_ms.0;
    let timestamp_ms = TimestampMs(now.saturating_sub(staking.epoch_ms * u64::from(args.epochs)));
    let spec = NetworkSpec { validators, timestamp_ms, staking: Some(staking), seed: [1; 32], ..genesis::default_spec() };
    let Network { genesis, validators: members } = genesis::make_network(&spec)?;
    let first: Vec<_> = members.into_iter().map(|keys| keys.bls).collect();
    let second = (0..validators).map(|index| BlsSecretKey::from_seed(keccak256(index.to_be_bytes()).0)).collect();
    let sets = [first, second];
    let (same, new) = (make_epochs(&genesis, &sets[..1], args.epochs)?, make_epochs(&genesis, &sets, args.epochs)?);
    let lines = [
        format!("{validators} validators, {} epochs\n", args.epochs),
        format!("{:<10} {:>12} {:>12} {:>12} {:>12}", "", "bytes", "bytes, JSON", "MB a year", "median, ms"),
        measure(&genesis, &same, "same set")?,
        measure(&genesis, &new, "all new")?,
    ];
    if let Some(file) = &args.write {
        let text = json!({ "genesis": genesis.to_json(), "same": to_json(&same), "new": to_json(&new) }).to_string();
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    exit::result(lines.join("\n"));
    Ok(())
}
