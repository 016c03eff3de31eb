//! One value of each type; every field differs from its default.
#![allow(dead_code, reason = "each test file uses its part")]

use alloy_primitives::{Address, B256, Bloom, Bytes, U256};
use corniche_types::{
    BatchRef, Block, Certificate, CommitIndex, EngineConfig, Epoch, FaultModel, FeeRules, Genesis, GenesisAccount, Header,
    Height, Log, OrderedTransaction, OrderingRecord, Receipt, SignatureChecks, SignerBitmap, SkipReason, Skipped, TimestampMs,
    ValidatorIndex, ValidatorInfo,
};

pub fn ordering() -> OrderingRecord {
    OrderingRecord {
        protocol_version: 1,
        engine: "mahi-mahi".into(),
        epoch: Epoch(1),
        committee_hash: B256::repeat_byte(2),
        next: None,
        first_commit: CommitIndex(4),
        last_commit: CommitIndex(5),
        last_commit_consumed: 6,
        leader: ValidatorIndex(7),
        time: TimestampMs(8),
        randomness: B256::repeat_byte(9),
        batches: vec![BatchRef { author: ValidatorIndex(1), digest: B256::repeat_byte(10), first: 11, count: 2 }],
        transactions_hash: Block::transactions_hash(&ordered()),
        skipped: vec![Skipped { position: 1, hash: B256::repeat_byte(12), reason: SkipReason::NonceTooLow }],
        resume_hash: B256::repeat_byte(13),
    }
}

pub fn ordered() -> Vec<OrderedTransaction> {
    let raw = [Bytes::from_static(b"first"), Bytes::from_static(b"skipped"), Bytes::from_static(b"third")];
    raw.map(|raw| OrderedTransaction { author: ValidatorIndex(1), raw }).into()
}

pub fn header() -> Header {
    Header {
        parent_hash: B256::repeat_byte(1),
        beneficiary: Address::repeat_byte(2),
        state_root: B256::repeat_byte(3),
        transactions_root: B256::repeat_byte(4),
        receipts_root: B256::repeat_byte(5),
        logs_bloom: Bloom::repeat_byte(6),
        number: 7,
        gas_limit: 8_000_000,
        gas_used: 9_000,
        timestamp: 10,
        extra_data: ordering().extra_data(),
        mix_hash: B256::repeat_byte(11),
        base_fee_per_gas: Some(12),
        ..Header::default()
    }
}

pub fn block() -> Block {
    Block { header: header(), ordering: ordering(), ordered: ordered() }
}

pub fn certificate() -> Certificate {
    Certificate {
        epoch: Epoch(1),
        committee_hash: B256::repeat_byte(2),
        height: Height(3),
        header_hash: B256::repeat_byte(4),
        fault_model: FaultModel::Crash,
        signers: SignerBitmap::from_signers([0, 2, 9].map(ValidatorIndex), 10),
        signature: vec![5; 48].into(),
    }
}

pub fn receipt() -> Receipt {
    Receipt {
        transaction_hash: B256::repeat_byte(1),
        type_byte: 2,
        success: true,
        gas_used: 3,
        cumulative_gas_used: 4,
        effective_gas_price: 5,
        sender: Address::repeat_byte(6),
        to: Some(Address::repeat_byte(7)),
        contract_address: Some(Address::repeat_byte(8)),
        logs: vec![Log { address: Address::repeat_byte(9), topics: vec![B256::repeat_byte(10)], data: vec![11; 5].into() }],
        output: vec![12; 3].into(),
    }
}

pub fn genesis() -> Genesis {
    let account = GenesisAccount {
        balance: U256::from(1_000),
        nonce: 2,
        code: vec![3; 4].into(),
        storage: [(B256::repeat_byte(5), B256::repeat_byte(6))].into(),
    };
    let validator = ValidatorInfo {
        consensus_key: B256::repeat_byte(7),
        bls_key: vec![8; 96].into(),
        bls_proof: vec![9; 48].into(),
        network_key: B256::repeat_byte(10),
        fee_address: Address::repeat_byte(11),
        votes: corniche_types::Votes(1),
        stake: None,
    };
    Genesis {
        protocol_version: 1,
        upgrades: Vec::new(),
        chain_id: 77,
        currency: "COR".into(),
        timestamp_ms: TimestampMs(1_700_000_000_123),
        block_ms: 50,
        block_gas_limit: 30_000_000,
        batch_bytes: 1 << 20,
        batch_gas: 20_000_000,
        epoch_blocks: 1_000,
        fees: FeeRules { initial_base_fee: 1_000, target_gas_per_second: 15_000_000 },
        engine: EngineConfig { name: "mahi-mahi".into(), parameters: [("wave_length".to_string(), 5)].into() },
        validators: vec![validator],
        coin_shares: vec![vec![12; 96].into()],
        coin_public_key: vec![13; 96].into(),
        accounts: [(Address::repeat_byte(14), account)].into(),
        signatures: SignatureChecks::Everyone,
        staking: None,
        coin_draft: None,
        multicast: None,
    }
}
