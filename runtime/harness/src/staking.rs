//! The staking contract on a chain in memory: its state at genesis, keys of validators, and the calendar of epochs.

use alloy_primitives::{Address, B256, U256, keccak256};
use corniche_crypto::{BlsSecretKey, CoinKey, ConsensusKey};
use corniche_staking::{
    GenesisValidator, SigningKeys, Slots, add_staking, calendar,
    coin::Need,
    interface::SubmittedKeys,
    record::{Header, Registry},
    sign_keys,
};
use corniche_state::Changes;
use corniche_types::{Height, STAKING_ADDRESS, StakingParameters, TimestampMs, Votes};
use std::convert::Infallible;

/// Protocol version that validators announce.
const VERSION: u32 = 2;

/// Signs the keys of a validator for its owner, for a call of `register` or `rotate`. The keys depend on the name only.
pub fn validator_keys(name: &str, owner: Address, chain_id: u64) -> SubmittedKeys {
    sign_keys(&Secrets::new(name).signing(), owner, chain_id)
}

struct Secrets {
    consensus: ConsensusKey,
    bls: BlsSecretKey,
    network: ConsensusKey,
    coin: CoinKey,
}

impl Secrets {
    fn new(name: &str) -> Self {
        let seed = |kind: &str| keccak256(format!("{kind} of {name}")).0;
        Self {
            consensus: ConsensusKey::from_seed(seed("consensus key")),
            bls: BlsSecretKey::from_seed(seed("BLS key")),
            network: ConsensusKey::from_seed(seed("network key")),
            coin: CoinKey::from_seed(seed("coin key")),
        }
    }

    fn signing(&self) -> SigningKeys<'_> {
        SigningKeys { consensus: &self.consensus, bls: &self.bls, network: &self.network, coin: self.coin.public() }
    }
}

/// Writes the staking contract and `min_validators` validators with one vote each. `start` is the genesis time.
pub(crate) fn write_genesis(changes: &mut Changes, parameters: &StakingParameters, start: TimestampMs) {
    let validator = |number: u32| {
        let name = format!("validator {number}");
        let owner = Address::from_word(keccak256(&name));
        GenesisValidator { owner, fee: owner, keys: Secrets::new(&name).signing().public(), votes: Votes(1) }
    };
    let validators: Vec<_> = (0..parameters.min_validators).map(validator).collect();
    add_staking(changes, parameters, start, &validators, |_| committee_hash(0));
}

/// Runs the running epoch to its end at this height, or at `now` if the end is past. All registered validators announce
/// themselves. Returns the time of the end and the rewards.
pub(crate) fn end_epoch(
    changes: &mut Changes,
    parameters: &StakingParameters,
    height: u64,
    now: TimestampMs,
) -> (TimestampMs, Vec<(Address, U256)>) {
    match run_epoch(&mut StakingSlots(changes), parameters, Height(height), now) {
        Ok(ended) => ended,
        Err(never) => match never {},
    }
}

fn run_epoch(
    slots: &mut StakingSlots<'_>,
    parameters: &StakingParameters,
    height: Height,
    now: TimestampMs,
) -> Result<(TimestampMs, Vec<(Address, U256)>), Infallible> {
    let header = Header::load(slots)?;
    let times = calendar::announcement_time(header.start, parameters).zip(calendar::end_time(header.start, parameters));
    let (announced, end) = times.expect("epochs never end with these parameters");
    for id in Registry::load(slots)?.ids(slots)? {
        calendar::announce(slots, parameters, id, VERSION, announced)?;
    }
    calendar::freeze(slots, parameters, Need::Never)?;
    let end = end.max(now);
    let started = calendar::activate(slots, parameters, height, end, |epoch, _, _| committee_hash(epoch.0))?;
    Ok((end, started.rewards))
}

/// The harness computes no hashes of committees.
fn committee_hash(epoch: u64) -> B256 {
    keccak256(epoch.to_be_bytes())
}

/// The contract's slots, as blocks write them.
struct StakingSlots<'a>(&'a mut Changes);

impl Slots for StakingSlots<'_> {
    type Error = Infallible;

    fn load(&mut self, slot: B256) -> Result<B256, Infallible> {
        Ok(self.0.storage.get(&(STAKING_ADDRESS, slot)).copied().unwrap_or_default())
    }

    fn store(&mut self, slot: B256, value: B256) -> Result<(), Infallible> {
        self.0.storage.insert((STAKING_ADDRESS, slot), value);
        Ok(())
    }

    fn has_code(&mut self, account: Address) -> Result<bool, Infallible> {
        Ok(matches!(self.0.accounts.get(&account), Some(Some(account)) if account.has_code()))
    }
}
