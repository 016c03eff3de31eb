//! A chain with nothing but the staking contract: accounts call it, and its calendar is turned by hand.

#![allow(dead_code, clippy::unwrap_used)] // each test file uses a part; test helpers unwrap

use alloy_primitives::{Address, B256, Bytes, LogData, U256};
use alloy_sol_types::{SolCall, SolError};
use corniche_crypto::{BlsSecretKey, CoinKey, ConsensusKey};
use corniche_staking::{
    AuthorKeys, GenesisValidator, Keys, NoticeAuthor, SigningKeys, Slots, ValidatorId,
    calendar::{self, Announcement, Frozen, Started},
    coin::Need,
    contract::{self, Call, CallError, Context, Output},
    genesis_slots,
    interface::{Staking, SubmittedKeys},
    record::{Committee, Header, Phase, Registry},
    sign_keys,
};
use corniche_types::{Epoch, Height, StakingParameters, TimestampMs, Votes};
use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
};

pub const CHAIN_ID: u64 = 77;
const GENESIS_MS: u64 = 1_000_000;

/// Stake for so many votes at the lowest price.
pub fn votes(count: u64) -> U256 {
    StakingParameters::default().vote_wei * U256::from(count)
}

/// Epochs of 1,000 ms, with announcements from 500 ms and the freeze at 750 ms.
pub fn short_epochs() -> StakingParameters {
    StakingParameters { epoch_ms: 1_000, closing_ms: 250, unbonding_epochs: 3, ..StakingParameters::default() }
}

pub fn account(number: u64) -> Address {
    Address::left_padding_from(&(0xacc0_0000 + number).to_be_bytes())
}

/// Secrets of a validator, from a number.
pub struct Secrets {
    pub consensus: ConsensusKey,
    pub bls: BlsSecretKey,
    pub network: ConsensusKey,
    pub coin: CoinKey,
    pub keys: Keys,
}

impl Secrets {
    pub fn new(number: u64) -> Self {
        Self::mixed([number; 4])
    }

    /// Keys of several numbers, by column: consensus, BLS, network and coin.
    pub fn mixed(numbers: [u64; 4]) -> Self {
        let seed = |kind: u8| {
            let mut seed = [kind; 32];
            seed[..8].copy_from_slice(&numbers[usize::from(kind) - 1].to_be_bytes());
            seed
        };
        let (consensus, network) = (ConsensusKey::from_seed(seed(1)), ConsensusKey::from_seed(seed(3)));
        let bls = BlsSecretKey::from_seed(seed(2));
        let coin = CoinKey::from_seed(seed(4));
        let keys = SigningKeys { consensus: &consensus, bls: &bls, network: &network, coin: coin.public() }.public();
        Self { consensus, bls, network, coin, keys }
    }

    /// Makes the validator's notices, of a node that knows version 7.
    pub fn author(&self) -> NoticeAuthor {
        let keys = AuthorKeys::new(self.consensus.clone(), Some(self.coin.clone()));
        NoticeAuthor { keys: vec![keys], chain_id: CHAIN_ID, version: 7 }
    }

    pub fn sign(&self, owner: Address) -> SubmittedKeys {
        self.sign_for(owner, CHAIN_ID)
    }

    pub fn sign_for(&self, owner: Address, chain_id: u64) -> SubmittedKeys {
        let coin = self.keys.coin.into();
        let secrets = SigningKeys { consensus: &self.consensus, bls: &self.bls, network: &self.network, coin };
        sign_keys(&secrets, owner, chain_id)
    }

    pub fn register(&self, owner: Address) -> Staking::registerCall {
        Staking::registerCall { keys: self.sign(owner), fee: owner, operator: owner }
    }

    pub fn rotate(&self, id: u32, owner: Address) -> Staking::rotateCall {
        Staking::rotateCall { id, keys: self.sign(owner) }
    }
}

/// Storage, and accounts with code.
#[derive(Clone, Default)]
pub struct Memory {
    pub slots: BTreeMap<B256, B256>,
    pub contracts: BTreeSet<Address>,
}

impl Slots for Memory {
    type Error = Infallible;

    fn load(&mut self, slot: B256) -> Result<B256, Infallible> {
        self.slots.load(slot)
    }

    fn store(&mut self, slot: B256, value: B256) -> Result<(), Infallible> {
        self.slots.store(slot, value)
    }

    fn has_code(&mut self, account: Address) -> Result<bool, Infallible> {
        Ok(self.contracts.contains(&account))
    }
}

pub struct Chain {
    pub memory: Memory,
    pub parameters: StakingParameters,
    pub balance: U256,
    /// Events of all calls.
    pub logs: Vec<LogData>,
}

impl Chain {
    /// Starts with validators 0, 1 and so on, of these votes. `account(i)` owns validator i.
    pub fn new(parameters: StakingParameters, votes: &[u32]) -> Self {
        let validator = |(number, votes): (u64, &u32)| GenesisValidator {
            owner: account(number),
            fee: account(number),
            keys: Secrets::new(number).keys,
            votes: Votes(*votes),
        };
        let validators: Vec<_> = (0..).zip(votes).map(validator).collect();
        let hash = |_: &Committee| committee_hash(Epoch(0));
        let (slots, balance) = genesis_slots(&parameters, TimestampMs(GENESIS_MS), &validators, hash);
        Self { memory: Memory { slots, ..Memory::default() }, parameters, balance, logs: Vec::new() }
    }

    /// Calls the contract, and moves value as the virtual machine does.
    pub fn run(&mut self, call: &Call<'_>) -> Result<Output, Bytes> {
        let before = (!call.is_static).then(|| self.memory.clone());
        let context = Context { chain_id: CHAIN_ID, parameters: &self.parameters };
        match contract::call(&mut self.memory, call, &context) {
            Ok(output) => {
                self.balance += call.value;
                self.balance -= output.pay.map_or(U256::ZERO, |(_, amount)| amount) + output.burn;
                self.logs.extend(output.logs.clone());
                Ok(output)
            }
            Err(CallError::Revert(data)) => {
                self.memory = before.unwrap_or_else(|| std::mem::take(&mut self.memory));
                Err(data)
            }
            Err(CallError::Slots(never)) => match never {},
        }
    }

    pub fn send<C: SolCall>(&mut self, sender: Address, value: U256, call: &C) -> Result<C::Return, Bytes> {
        let output = self.run(&Call { sender, value, input: &call.abi_encode(), is_static: false })?;
        Ok(C::abi_decode_returns(&output.data).unwrap())
    }

    /// Expects a call to revert with this error.
    pub fn refuse<C: SolCall>(&mut self, sender: Address, value: U256, call: &C, error: &impl SolError) {
        let found = self.send(sender, value, call).err().unwrap_or_else(|| panic!("{} succeeded", C::SIGNATURE));
        assert_eq!(found, error.abi_encode(), "{}", C::SIGNATURE);
    }

    pub fn read<C: SolCall>(&mut self, call: &C) -> C::Return {
        let input = call.abi_encode();
        let output = self.run(&Call { sender: Address::ZERO, value: U256::ZERO, input: &input, is_static: true });
        C::abi_decode_returns(&output.unwrap().data).unwrap()
    }

    pub fn header(&mut self) -> Header {
        Header::load(&mut self.memory).unwrap()
    }

    pub fn registered(&mut self) -> Vec<ValidatorId> {
        let mut ids = Registry::load(&mut self.memory).unwrap().ids(&mut self.memory).unwrap();
        ids.sort();
        ids
    }

    /// Announces a validator at the first time at which that is possible.
    pub fn announce(&mut self, id: ValidatorId) -> Announcement {
        self.announce_version(id, 2)
    }

    /// Like [`Self::announce`], for a node that knows this version.
    pub fn announce_version(&mut self, id: ValidatorId, version: u32) -> Announcement {
        let header = self.header();
        let now = calendar::announcement_time(header.start, &self.parameters).unwrap();
        calendar::announce(&mut self.memory, &self.parameters, id, version, now).unwrap()
    }

    /// Runs the steps that are due at so many milliseconds after the freeze, on a chain whose genesis coin is known.
    pub fn advance(&mut self, after_freeze: u64) -> Phase {
        let freeze = calendar::freeze_time(self.header().start, &self.parameters).unwrap();
        let now = TimestampMs(freeze.0 + after_freeze);
        calendar::advance(&mut self.memory, &self.parameters, Need::SoonAfterGenesis, CHAIN_ID, now).unwrap();
        self.header().phase
    }

    pub fn freeze(&mut self) -> Frozen {
        calendar::freeze(&mut self.memory, &self.parameters, Need::Never).unwrap()
    }

    /// Ends the epoch on time.
    pub fn activate(&mut self) -> Started {
        let header = self.header();
        let (height, end) = (Height(header.start_height.0 + 10), calendar::end_time(header.start, &self.parameters).unwrap());
        calendar::activate(&mut self.memory, &self.parameters, height, end, |epoch, _, _| committee_hash(epoch)).unwrap()
    }

    /// Runs an epoch to its end: all validators announce themselves.
    pub fn next_epoch(&mut self) -> Started {
        for id in self.registered() {
            assert_eq!(self.announce(id), Announcement::Taken);
        }
        self.freeze();
        self.activate()
    }

    /// Runs an epoch in which nobody announces: the committee is kept.
    pub fn silent_epoch(&mut self) -> Started {
        assert_eq!(self.freeze(), Frozen::Kept);
        self.activate()
    }

    /// Checks that the balance is all stake: nobody has sent anything else.
    pub fn check_balance(&mut self) {
        let mut sum = U256::ZERO;
        for id in self.registered() {
            let validator = self.read(&Staking::validatorCall { id: id.0 });
            sum += validator.bonded + validator.queued;
        }
        assert_eq!(self.balance, sum);
    }
}

pub fn committee_hash(epoch: Epoch) -> B256 {
    B256::with_last_byte(epoch.0 as u8 + 1)
}
