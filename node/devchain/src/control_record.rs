//! Control records among the ordered transactions of a development chain.
//!
//! A [`ControlRecord`] takes the path of a transaction: engine, block, state, log. So a chain that restarts, or
//! executes its ordered bytes again, makes the same blocks. Its encoding is not a valid transaction, because no
//! transaction has type 0x7f: every other chain skips such a record as undecodable.

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_admission::batch::MIN_TRANSACTION_BYTES;
use corniche_crypto::ImpersonationPermit;
use corniche_pipeline::{BlockSettings, Directive, Directives};
use corniche_state::{ABI_VERSION, Account, Changes, KECCAK_EMPTY, Overlay, StateView};
use corniche_types::{Address, B256, Bytes, OrderedTransaction, ProtocolRules, TimestampMs, U256, keccak256};

/// First byte of a control record: a type that no transaction has.
const TAG: u8 = 0x7f;

/// Control record.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum ControlRecord {
    /// Sets the time of the open block.
    Time(TimestampMs),
    /// Ends the block, with or without transactions. The number identifies the requester; 0: none.
    End(u64),
    SetBalance(Address, U256),
    SetNonce(Address, u64),
    SetCode(Address, Bytes),
    SetStorage(Address, B256, B256),
    /// Sets the minimum base fee of this block, in wei per gas.
    BaseFee(u64),
    /// Sets the randomness of this block.
    Randomness(B256),
}

impl ControlRecord {
    /// Padded to the minimum length of a batch's entry.
    pub fn encode(&self) -> Bytes {
        let body = borsh::to_vec(self).expect("writing into memory cannot fail");
        let mut raw = [&[TAG][..], &body].concat();
        raw.resize(raw.len().max(MIN_TRANSACTION_BYTES), 0);
        raw.into()
    }

    /// `None` for transactions and everything else.
    pub fn decode(raw: &[u8]) -> Option<Self> {
        let mut body = raw.strip_prefix(&[TAG])?;
        let record = Self::deserialize(&mut body).ok()?;
        body.iter().all(|byte| *byte == 0).then_some(record)
    }

    /// Account that it changes.
    pub fn account(&self) -> Option<Address> {
        match self {
            Self::Time(_) | Self::End(_) | Self::BaseFee(_) | Self::Randomness(_) => None,
            Self::SetBalance(address, _)
            | Self::SetNonce(address, _)
            | Self::SetCode(address, _)
            | Self::SetStorage(address, ..) => Some(*address),
        }
    }
}

/// [`Directives`] of a development chain. Block building and execution hold it as long as they run, so both accept
/// transactions of impersonated accounts until they end.
pub struct ControlRecords {
    _permit: ImpersonationPermit,
}

impl ControlRecords {
    pub fn new(chain_id: u64) -> Self {
        Self { _permit: ImpersonationPermit::new(chain_id) }
    }
}

impl Directives for ControlRecords {
    fn directive(&self, entry: &[u8]) -> Option<Directive> {
        let record = ControlRecord::decode(entry)?;
        let time = if let ControlRecord::Time(time) = record { Some(time) } else { None };
        Some(Directive { time, ends_block: matches!(record, ControlRecord::End(_)), account: record.account() })
    }

    fn settings(&self, ordered: &[OrderedTransaction]) -> BlockSettings {
        settings(ordered)
    }

    fn changes(&self, ordered: &[OrderedTransaction], view: &dyn StateView, rules: &ProtocolRules) -> Changes {
        changes(ordered, view, rules)
    }
}

/// Changes made by a block's control records on top of `view`.
pub fn changes(ordered: &[OrderedTransaction], view: &dyn StateView, rules: &ProtocolRules) -> Changes {
    let mut changes = Changes::default();
    for record in ordered.iter().filter_map(|ordered| ControlRecord::decode(&ordered.raw)) {
        let Some(address) = record.account() else { continue };
        let mut account = (Overlay { base: view, changes: &changes }).account(&address).unwrap_or_default();
        match record {
            ControlRecord::SetBalance(_, balance) => account.balance = balance,
            ControlRecord::SetNonce(_, nonce) => account.nonce = nonce,
            ControlRecord::SetCode(_, code) => set_code(&mut account, code, rules, &mut changes),
            ControlRecord::SetStorage(_, slot, value) => {
                changes.storage.insert((address, slot), value);
                // A nonexistent account cannot have storage.
                account.nonce = account.nonce.max(u64::from(account.is_empty()));
            }
            ControlRecord::Time(_) | ControlRecord::End(_) | ControlRecord::BaseFee(_) | ControlRecord::Randomness(_) => {}
        }
        changes.accounts.insert(address, (!account.is_empty()).then_some(account));
    }
    changes
}

/// Header fields that a block's control records set; of several records the last one counts.
pub fn settings(ordered: &[OrderedTransaction]) -> BlockSettings {
    let mut settings = BlockSettings::default();
    for record in ordered.iter().filter_map(|ordered| ControlRecord::decode(&ordered.raw)) {
        match record {
            ControlRecord::BaseFee(wei) => settings.base_fee = Some(wei),
            ControlRecord::Randomness(value) => settings.randomness = Some(value),
            _ => {}
        }
    }
    settings
}

fn set_code(account: &mut Account, code: Bytes, rules: &ProtocolRules, changes: &mut Changes) {
    if code.is_empty() {
        (account.code_hash, account.abi_version, account.gas_version) = (KECCAK_EMPTY, 0, 0);
    } else {
        account.code_hash = keccak256(&code);
        (account.abi_version, account.gas_version) = (ABI_VERSION, rules.gas_version);
        changes.code.insert(account.code_hash, code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_admission::batch;
    use corniche_engine::{Batch, Ordered};
    use corniche_pipeline::{BlockBuilder, EpochStart};
    use corniche_service::{NetworkSpec, make_network};
    use corniche_types::{CommitIndex, EngineConfig, Height, Resume, ValidatorIndex};
    use std::sync::Arc;

    #[test]
    fn network_skips_control_records() {
        let engine = EngineConfig { name: "autobahn".into(), parameters: Default::default() };
        let genesis = Arc::new(make_network(&NetworkSpec::new(engine)).unwrap().genesis);
        let mut builder = BlockBuilder::new(&genesis, &EpochStart::genesis(&genesis), Height(0), None, Resume::default());
        let time = TimestampMs(genesis.timestamp_ms.0 + 60_000);
        let records = [
            ControlRecord::Time(TimestampMs(u64::MAX)),
            ControlRecord::SetBalance(Address::repeat_byte(1), U256::MAX),
            ControlRecord::BaseFee(7),
            ControlRecord::Randomness(B256::repeat_byte(7)),
            ControlRecord::End(3),
        ];
        let batch = Batch { bytes: batch::encode(&records.map(|record| record.encode())).unwrap() };
        builder.push(Ordered {
            index: CommitIndex(1),
            leader: ValidatorIndex(0),
            time,
            randomness: B256::ZERO,
            batches: vec![(ValidatorIndex(0), batch)],
            checkpoint: Bytes::new(),
        });
        let plan = builder.poll().unwrap();
        assert_eq!((plan.time, plan.randomness, plan.ordered), (time, B256::ZERO, Vec::new()));
        assert!(builder.poll().is_none(), "no record ended a block");
    }
}
