//! All encodings are reversible and unique, and no input makes a decoder panic.

mod common;

use alloy_consensus::{Signed, TxEip1559, TxEip2930, TxEnvelope, TxLegacy};
use alloy_eips::{
    eip2718::{Decodable2718, Encodable2718},
    eip2930::{AccessList, AccessListItem},
};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{
    Block, Certificate, CommitIndex, DecodeError, Epoch, FaultModel, Genesis, GenesisAccount, GenesisStake, Height,
    MAX_TRANSACTION_BYTES, MulticastGroup, OrderingRecord, Receipt, Resume, STAKING_ADDRESS, SignatureChecks, SignerBitmap,
    SkipReason, Skipped, StakingParameters, Transaction, Upgrade, ValidatorIndex, ValidatorInfo, Votes, certified,
    wire::{self, WireError},
};
use proptest::{collection::vec, prelude::*, sample::Index};

/// Checks the round trip, and that a changed version, a missing and an additional byte are refused.
#[track_caller]
fn travels<T: BorshSerialize + BorshDeserialize + PartialEq + std::fmt::Debug>(value: &T) {
    let bytes = wire::encode(value);
    assert_eq!(wire::decode::<T>(&bytes).as_ref(), Ok(value));
    let surplus = [bytes.as_slice(), &[0]].concat();
    assert!(matches!(wire::decode::<T>(&surplus), Err(WireError::Malformed(_))));
    assert!(wire::decode::<T>(&bytes[..bytes.len() - 1]).is_err());
    let mut other_version = bytes.clone();
    other_version[0] += 1;
    assert_eq!(wire::decode::<T>(&other_version), Err(WireError::Version { found: Some(2) }));
    assert_eq!(wire::decode::<T>(&[]), Err(WireError::Version { found: None }));
}

/// After a bit flip, decoding gives an error or a value with exactly these bytes.
fn has_one_encoding<T: BorshSerialize + BorshDeserialize>(value: &T, bit: Index) {
    let mut bytes = wire::encode(value);
    let bit = bit.index(bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
    if let Ok(decoded) = wire::decode::<T>(&bytes) {
        assert_eq!(wire::encode(&decoded), bytes, "two encodings of one value");
    }
}

#[test]
fn every_type_round_trips() {
    travels(&common::block());
    travels(&common::ordering());
    travels(&common::certificate());
    travels(&common::receipt());
    travels(&Resume { index: CommitIndex(3), checkpoint: vec![1, 2].into(), ..Resume::default() });
}

/// The file of a chain from before these fields stays as it is.
#[test]
fn optional_fields_round_trip() {
    let sharded = Genesis { signatures: SignatureChecks::Sharded, ..common::genesis() };
    let mut weighted = common::genesis();
    weighted.validators[0].votes = Votes(2);
    for genesis in [common::genesis(), sharded, weighted] {
        assert_eq!(serde_json::from_str::<Genesis>(&genesis.to_json()).unwrap(), genesis);
    }
    let text = common::genesis().to_json();
    assert!(!text.contains("signatures") && !text.contains("votes"));
}

#[test]
fn genesis_hash_ignores_formatting() {
    let genesis = common::genesis();
    let text = genesis.to_json();
    assert_eq!(Genesis::from_json(&text).unwrap(), genesis);
    let dense: String = text.split_whitespace().collect();
    assert_eq!(Genesis::from_json(&dense).unwrap().hash(), genesis.hash());
    let unknown = text.replacen("\"currency\"", "\"colour\": \"red\", \"currency\"", 1);
    assert!(Genesis::from_json(&unknown).is_err(), "an unknown field is a misunderstanding");
}

#[test]
fn genesis_hash_covers_every_field() {
    type Change = fn(&mut Genesis);
    let changes: [Change; 18] = [
        |g| g.protocol_version = 2,
        |g| g.chain_id += 1,
        |g| g.currency.push('X'),
        |g| g.timestamp_ms.0 += 1,
        |g| g.block_ms += 1,
        |g| g.block_gas_limit += 1,
        |g| g.batch_bytes += 1,
        |g| g.batch_gas += 1,
        |g| g.epoch_blocks += 1,
        |g| g.fees.initial_base_fee += 1,
        |g| g.fees.target_gas_per_second += 1,
        |g| g.engine.parameters.clear(),
        |g| g.validators[0].fee_address = Address::ZERO,
        |g| g.coin_shares[0] = Bytes::new(),
        |g| g.coin_public_key = Bytes::new(),
        |g| g.accounts.clear(),
        |g| g.signatures = SignatureChecks::Sharded,
        |g| g.validators[0].votes = Votes(2),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut changed = common::genesis();
        change(&mut changed);
        assert_ne!(changed.hash(), common::genesis().hash(), "change {number}");
    }
}

#[test]
fn invalid_genesis_names_field() {
    type Change = fn(&mut Genesis);
    let changes: [(&str, Change); 20] = [
        ("protocol_version", |g| g.protocol_version = 9),
        ("validators", |g| g.validators.clear()),
        ("coin_shares", |g| g.coin_shares.clear()),
        ("block_gas_limit", |g| g.block_gas_limit = 1),
        ("batch_gas", |g| g.batch_gas = g.block_gas_limit + 1),
        ("batch_bytes", |g| g.batch_bytes = 1_000),
        ("fees", |g| g.fees.initial_base_fee = 0),
        ("epoch_blocks", |g| g.epoch_blocks = 0),
        ("signatures are sharded over 3 validators, needed are 4 to 64; use everyone", |g| shard(g, 3)),
        ("signatures are sharded over 65 validators, needed are 4 to 64; use everyone", |g| shard(g, 65)),
        ("validators have a contract as a fee address", |g| {
            let code = Bytes::from_static(b"\0asm");
            g.accounts.insert(g.validators[0].fee_address, GenesisAccount { code, ..GenesisAccount::default() });
        }),
        ("accounts have code or storage at", |g| {
            let code = Bytes::from_static(b"\0asm");
            g.accounts.insert(certified::ADDRESS, GenesisAccount { code, ..GenesisAccount::default() });
        }),
        ("accounts have code or storage at", |g| {
            let storage = [(B256::ZERO, B256::repeat_byte(1))].into();
            g.accounts.insert(certified::ADDRESS, GenesisAccount { storage, ..GenesisAccount::default() });
        }),
        ("validators have 0 votes at index 1, must be 1 to 64", |g| give_votes(g, &[1, 0, 1, 1])),
        ("validators have 65 votes at index 0, must be 1 to 64", |g| give_votes(g, &[65, 64, 64, 64])),
        ("validators have 3 of 8 votes at index 0: it could stop the chain alone; give it at most 2", |g| {
            give_votes(g, &[3, 2, 2, 1]);
        }),
        ("validators have several votes, which needs protocol_version 2, got 1", |g| {
            give_votes(g, &[2, 2, 2, 1]);
            g.protocol_version = 1;
        }),
        ("validators are 3, with one vote each; several votes need at least 4 validators", |g| give_votes(g, &[2, 2, 2])),
        ("validators have 1024 votes, must be at most 1000", |g| give_votes(g, &[64; 16])),
        ("coin_shares are 4, one per vote needed, which are 7", |g| {
            give_votes(g, &[2, 2, 2, 1]);
            g.coin_shares = vec![Bytes::new(); 4];
        }),
    ];
    for (field, change) in changes {
        let mut changed = common::genesis();
        change(&mut changed);
        let error = Genesis::from_json(&changed.to_json()).unwrap_err().to_string();
        assert!(format!("{error} ").starts_with(&format!("genesis: {field} ")), "{field}: {error}");
    }
}

/// A genesis of four validators with stake.
fn staked() -> Genesis {
    let stake = Some(GenesisStake { owner: Address::repeat_byte(1), coin_key: vec![2; 48].into() });
    let mut genesis = Genesis { staking: Some(StakingParameters::default()), ..common::genesis() };
    give_votes(&mut genesis, &[2, 2, 2, 1]);
    genesis.protocol_version = 5;
    genesis.validators.iter_mut().for_each(|validator| validator.stake = stake.clone());
    genesis
}

#[test]
fn staking_round_trips() {
    let genesis = staked();
    assert_eq!(Genesis::from_json(&genesis.to_json()), Ok(genesis.clone()));
    assert!(!common::genesis().to_json().contains("stak"));
    let changes: [fn(&mut Genesis); 4] = [
        |it| it.staking = None,
        |it| it.staking.as_mut().unwrap().epoch_ms += 1,
        |it| it.validators[3].stake.as_mut().unwrap().owner = Address::ZERO,
        |it| it.validators[3].stake.as_mut().unwrap().coin_key = vec![3; 48].into(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut changed = genesis.clone();
        change(&mut changed);
        assert_ne!((changed.hash(), changed.committee_hash()), (genesis.hash(), genesis.committee_hash()), "{number}");
        assert_ne!(changed.committee_hash(), genesis.committee_hash(), "{number}");
    }
}

/// A genesis with two sequencers that sign.
fn with_sequencers() -> Genesis {
    let multicast = MulticastGroup { group: 1, suite: 5, sequencers: vec![vec![7; 32].into(), vec![8; 32].into()] };
    Genesis { multicast: Some(multicast), ..common::genesis() }
}

#[test]
fn sequencers_round_trip() {
    let genesis = with_sequencers();
    assert_eq!(Genesis::from_json(&genesis.to_json()), Ok(genesis.clone()));
    assert!(!common::genesis().to_json().contains("multicast"));
    let changes: [fn(&mut MulticastGroup); 4] =
        [|it| it.group = 2, |it| it.suite = 1, |it| it.sequencers.reverse(), |it| it.sequencers.truncate(1)];
    for (number, change) in changes.into_iter().enumerate() {
        let mut changed = genesis.clone();
        changed.multicast.iter_mut().for_each(change);
        assert_ne!(changed.hash(), genesis.hash(), "{number}");
    }
    assert_ne!(genesis.hash(), common::genesis().hash());
    let group = genesis.multicast.unwrap();
    assert_eq!([0, 1, 2, u32::MAX].map(|epoch| group.sequencer(epoch)), [0, 1, 0, 1]);
}

#[test]
fn invalid_sequencers_are_rejected() {
    fn group(genesis: &mut Genesis) -> &mut MulticastGroup {
        genesis.multicast.as_mut().expect("the genesis has a group")
    }
    type Change = (&'static str, fn(&mut Genesis));
    let changes: [Change; 7] = [
        ("has suite 3, expected 1, 2, 4 or 5", |it| group(it).suite = 3),
        ("has suite 6, expected 1, 2, 4 or 5", |it| group(it).suite = 6),
        ("has 0 sequencers, needed are 1 to 16", |it| group(it).sequencers.clear()),
        ("has 17 sequencers, needed are 1 to 16", |it| group(it).sequencers = vec![vec![7; 32].into(); 17]),
        ("has a key of 31 bytes for sequencer 1, expected 32 for suite 5", |it| group(it).sequencers[1] = vec![7; 31].into()),
        ("has suite 1 for 65 validators, possible are 64; use suite 5", |it| {
            give_votes(it, &[1; 65]);
            group(it).suite = 1;
        }),
        ("needs a fixed committee, but epochs end; set staking.epoch_ms to 0", |it| {
            *it = Genesis { multicast: it.multicast.take(), ..staked() };
        }),
    ];
    for (expected, change) in changes {
        let mut changed = with_sequencers();
        change(&mut changed);
        let error = Genesis::from_json(&changed.to_json()).unwrap_err().to_string();
        assert_eq!(error, format!("genesis: multicast {expected}"));
    }
}

#[test]
fn incomplete_staking_is_rejected() {
    fn parameters(genesis: &mut Genesis) -> &mut StakingParameters {
        genesis.staking.as_mut().expect("the genesis has staking")
    }
    type Change = (&'static str, fn(&mut Genesis));
    let changes: [Change; 9] = [
        ("validators have a stake at index 0, which needs `staking`", |it| it.staking = None),
        ("staking needs protocol_version 5, got 4", |it| it.protocol_version = 4),
        ("validators have no stake at index 2, which `staking` needs: owner and coin_key", |it| it.validators[2].stake = None),
        ("validators have the staking contract as fee_address at index 1", |it| {
            it.validators[1].fee_address = STAKING_ADDRESS;
        }),
        ("accounts have an entry for 0x000000000000000000000000000000000000C010, where the staking contract is", |it| {
            it.accounts.insert(STAKING_ADDRESS, Default::default());
        }),
        ("staking.closing_ms: expected 240 to 21600000, got 1", |it| parameters(it).closing_ms = 1),
        ("staking.max_validators: expected at least the 4 of the genesis, got 3", |it| {
            *parameters(it) = StakingParameters { max_validators: 3, min_validators: 3, ..Default::default() };
        }),
        ("staking.most_votes: expected at least 2, as in the genesis, got 1", |it| parameters(it).most_votes = Votes(1)),
        ("staking.max_votes: expected at least the 7 of the genesis, got 6", |it| {
            let (most_votes, max_votes) = (Votes(2), Votes(6));
            *parameters(it) =
                StakingParameters { most_votes, max_votes, max_validators: 4, min_validators: 2, ..Default::default() };
        }),
    ];
    for (expected, change) in changes {
        let mut changed = staked();
        change(&mut changed);
        let error = Genesis::from_json(&changed.to_json()).unwrap_err().to_string();
        assert_eq!(error, format!("genesis: {expected}"));
    }
}

/// As many validators as votes.
fn give_votes(genesis: &mut Genesis, votes: &[u32]) {
    genesis.protocol_version = 2;
    let validator = |votes: &u32| ValidatorInfo { votes: Votes(*votes), ..genesis.validators[0].clone() };
    genesis.validators = votes.iter().map(validator).collect();
    genesis.coin_shares = vec![Bytes::new(); genesis.weights().total().as_usize()];
}

fn shard(genesis: &mut Genesis, validators: usize) {
    genesis.signatures = SignatureChecks::Sharded;
    genesis.validators = vec![genesis.validators[0].clone(); validators];
}

/// A chain of version 1 may have any limit, also after an upgrade, and has to load.
#[test]
fn excessive_block_gas_limit_is_rejected() {
    let read = |protocol_version, block_gas_limit| {
        let upgrade = Upgrade { height: 9, protocol_version: 2 };
        let upgrades = if protocol_version == 1 { vec![upgrade] } else { Vec::new() };
        let genesis = Genesis { protocol_version, upgrades, block_gas_limit, ..common::genesis() };
        Genesis::from_json(&genesis.to_json()).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(read(1, 1 << 40), Ok(()));
    assert_eq!(read(2, 1_000_000_000), Ok(()));
    assert_eq!(
        read(2, 1_000_000_001).unwrap_err(),
        "genesis: block_gas_limit is 1000000001, above 1000000000: contracts take up to 16 ns a gas, so a block could take 16 s; lower it"
    );
}

#[test]
fn executed_excludes_skipped() {
    let block = common::block();
    let executed: Vec<&[u8]> = block.executed().map(|transaction| transaction.raw.as_ref()).collect();
    assert_eq!(executed, [b"first".as_slice(), b"third"]);
}

#[test]
fn undecodable_transactions_are_classified() {
    let decode = |bytes: &[u8]| Transaction::decode(Bytes::copy_from_slice(bytes)).unwrap_err();
    assert!(matches!(decode(&[]), DecodeError::Malformed(_)));
    for type_byte in [0u8, 3, 4, 0x7f, 0xbf] {
        let error = decode(&[type_byte, 0xc0]);
        assert_eq!(error, DecodeError::TypeNotSupported { type_byte });
        assert_eq!(error.to_string(), "transaction type not supported");
    }
    assert!(matches!(decode(&[0xc0]), DecodeError::Malformed(_)));
    assert!(matches!(decode(&[2, 0xc0]), DecodeError::Malformed(_)));
    let oversized = decode(&vec![0xf8; MAX_TRANSACTION_BYTES + 1]);
    assert_eq!(oversized, DecodeError::Oversized { size: MAX_TRANSACTION_BYTES + 1 });
    assert!(oversized.to_string().starts_with("oversized data"));
}

#[test]
fn rejects_trailing_bytes() {
    let raw = envelope(2, 1, 2, 3, 4, 5, true, vec![], vec![]).encoded_2718();
    assert!(Transaction::decode(raw.clone().into()).is_ok());
    assert!(Transaction::decode([raw.as_slice(), &[0]].concat().into()).is_err());
}

#[test]
fn rejects_leading_zero() {
    // Nonce 9, encoded as 0x820009.
    let raw = envelope(0, 9, 2, 3, 4, 5, true, vec![], vec![]).encoded_2718();
    let at = raw.iter().position(|&byte| byte == 9).expect("the nonce");
    let mut padded = raw.clone();
    padded.splice(at..=at, [0x82, 0x00, 0x09]);
    padded[0] += 2;
    assert!(padded[0] < 0xf8, "the list's length is in its first byte");
    assert!(Transaction::decode(padded.into()).is_err());
}

/// Our decoder accepts the same bytes as alloy's, with equal results; so does the decoder of gas limits.
fn decode(raw: &[u8]) -> Option<Transaction> {
    let ours = Transaction::decode(Bytes::copy_from_slice(raw)).ok();
    let mut rest = raw;
    let alloys = TxEnvelope::decode_2718(&mut rest).ok().filter(|_| rest.is_empty());
    let alloys = alloys.filter(|envelope| (envelope.tx_type() as u8) < 3);
    assert_eq!(ours.as_ref().map(Transaction::envelope), alloys.as_ref(), "{raw:02x?}");
    assert_eq!(ours.as_ref().map(Transaction::hash), alloys.map(|envelope| *envelope.tx_hash()), "{raw:02x?}");
    assert_eq!(ours.as_ref().map(Transaction::gas_limit), Transaction::declared_gas(raw).ok(), "{raw:02x?}");
    ours
}

/// Like the property below, exhaustively for one replaced byte at every position.
#[test]
fn every_byte_affects_transaction() {
    for type_byte in 0..3 {
        let original = envelope(type_byte, 9, 200, 3, 4, 5, true, vec![0, 1, 200], vec![(1, 1)]).encoded_2718();
        for at in 0..original.len() {
            for byte in 0..=255 {
                let mut raw = original.clone();
                raw[at] = byte;
                if let Some(decoded) = decode(&raw) {
                    assert_eq!(decoded.envelope().encoded_2718(), raw, "type {type_byte}, byte {at} as {byte:#x}");
                }
            }
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "a transaction has that many fields")]
fn envelope(
    type_byte: u8,
    nonce: u64,
    fee: u128,
    gas_limit: u64,
    value: u128,
    chain_id: u32,
    call: bool,
    input: Vec<u8>,
    access: Vec<(u8, u8)>,
) -> TxEnvelope {
    let to = if call { TxKind::Call(Address::repeat_byte(9)) } else { TxKind::Create };
    let (value, input, chain_id) = (U256::from(value), Bytes::from(input), u64::from(chain_id));
    let items = access.into_iter().map(|(address, keys)| AccessListItem {
        address: Address::repeat_byte(address),
        storage_keys: (0..keys % 4).map(B256::repeat_byte).collect(),
    });
    let access_list = AccessList(items.collect());
    let signature = Signature::new(U256::from(fee) + U256::from(1), U256::from(nonce) + U256::from(1), nonce % 2 == 1);
    match type_byte {
        0 => {
            let chain_id = Some(chain_id);
            Signed::new_unhashed(TxLegacy { chain_id, nonce, gas_price: fee, gas_limit, to, value, input }, signature).into()
        }
        1 => {
            let transaction = TxEip2930 { chain_id, nonce, gas_price: fee, gas_limit, to, value, access_list, input };
            Signed::new_unhashed(transaction, signature).into()
        }
        _ => {
            let (max_fee_per_gas, max_priority_fee_per_gas) = (fee, fee / 2);
            let transaction = TxEip1559 {
                chain_id,
                nonce,
                gas_limit,
                max_fee_per_gas,
                max_priority_fee_per_gas,
                to,
                value,
                access_list,
                input,
            };
            Signed::new_unhashed(transaction, signature).into()
        }
    }
}

fn any_envelope() -> impl Strategy<Value = TxEnvelope> {
    let fields = (0u8..3, any::<u64>(), any::<u128>(), any::<u64>(), any::<u128>(), any::<u32>(), any::<bool>());
    let lists = (vec(any::<u8>(), 0..300), vec(any::<(u8, u8)>(), 0..4));
    (fields, lists).prop_map(|((t, nonce, fee, gas, value, chain, call), (input, access))| {
        envelope(t, nonce, fee, gas, value, chain, call, input, access)
    })
}

fn bytes32() -> impl Strategy<Value = B256> {
    any::<[u8; 32]>().prop_map(B256::new)
}

proptest! {
    #[test]
    fn transactions_round_trip(envelope in any_envelope()) {
        let raw = Bytes::from(envelope.encoded_2718());
        let transaction = Transaction::decode(raw.clone()).unwrap();
        prop_assert_eq!(transaction.envelope(), &envelope);
        prop_assert_eq!(transaction.raw(), &raw);
        prop_assert_eq!(transaction.hash(), *envelope.tx_hash());
    }

    /// Two different byte strings never decode to equal transactions: otherwise one payment would have two hashes.
    #[test]
    fn transaction_encoding_is_canonical(envelope in any_envelope(), at in any::<Index>(), byte: u8, kind in 0u8..3) {
        let mut raw = envelope.encoded_2718();
        let at = at.index(raw.len());
        match kind {
            0 => raw[at] = byte,
            1 => raw.insert(at, byte),
            _ => drop(raw.remove(at)),
        }
        if let Some(decoded) = decode(&raw) {
            prop_assert_eq!(decoded.envelope().encoded_2718(), raw);
        }
    }

    #[test]
    fn noise_never_panics(bytes in vec(any::<u8>(), 0..400)) {
        let _ = decode(&bytes);
        let _ = wire::decode::<Block>(&bytes);
        let _ = wire::decode::<Certificate>(&bytes);
        let _ = wire::decode::<Receipt>(&bytes);
        let _ = wire::decode::<OrderingRecord>(&bytes);
    }

    #[test]
    fn bit_flip_changes_value_or_fails(bit in any::<Index>()) {
        has_one_encoding(&common::block(), bit);
        has_one_encoding(&common::ordering(), bit);
        has_one_encoding(&common::certificate(), bit);
        has_one_encoding(&common::receipt(), bit);
    }

    #[test]
    fn certificates_round_trip(
        epoch: u64, height: u64, hash in bytes32(), committee in bytes32(), byzantine: bool,
        signers in vec(0u16..100, 0..100), signature: Vec<u8>,
    ) {
        travels(&Certificate {
            epoch: Epoch(epoch),
            committee_hash: committee,
            height: Height(height),
            header_hash: hash,
            fault_model: if byzantine { FaultModel::Byzantine } else { FaultModel::Crash },
            signers: SignerBitmap::from_signers(signers.into_iter().map(ValidatorIndex), 100),
            signature: signature.into(),
        });
    }

    #[test]
    fn bitmaps_round_trip_signers(size in 1usize..200, chosen in vec(any::<Index>(), 0..200)) {
        let mut signers: Vec<ValidatorIndex> =
            chosen.iter().map(|index| ValidatorIndex(index.index(size) as u16)).collect();
        let bitmap = SignerBitmap::from_signers(signers.iter().copied(), size);
        signers.sort();
        signers.dedup();
        prop_assert_eq!(bitmap.signers(size), Some(signers));
        prop_assert_eq!(bitmap.signers(size + 8), None);
    }

    #[test]
    fn signed_bytes_cover_every_field(
        a in (any::<u64>(), any::<u64>(), bytes32(), any::<u64>(), bytes32(), any::<bool>()),
        b in (any::<u64>(), any::<u64>(), bytes32(), any::<u64>(), bytes32(), any::<bool>()),
        which in 0usize..6,
    ) {
        let bytes = |f: (u64, u64, B256, u64, B256, bool)| {
            let model = if f.5 { FaultModel::Byzantine } else { FaultModel::Crash };
            Certificate::signed_bytes(f.0, Epoch(f.1), f.2, Height(f.3), f.4, model)
        };
        let mut changed = a;
        match which {
            0 => changed.0 = b.0,
            1 => changed.1 = b.1,
            2 => changed.2 = b.2,
            3 => changed.3 = b.3,
            4 => changed.4 = b.4,
            _ => changed.5 = !a.5,
        }
        prop_assert_eq!(bytes(a) == bytes(changed), a == changed);
    }

    #[test]
    fn ordering_records_round_trip(positions in vec((any::<u32>(), bytes32(), 0usize..15), 0..20), consumed: u32) {
        use SkipReason::*;
        let reasons = [
            Undecodable, BadSignature, WrongChain, NonceTooLow, NonceTooHigh, Underfunded, Underpriced, IntrinsicGas, GasLimit,
            TipAboveFee, SenderNotEoa, InitCodeSize, NonceMax, Notice, NoticeRefused,
        ];
        let skipped = positions
            .into_iter()
            .map(|(position, hash, reason)| Skipped { position, hash, reason: reasons[reason] })
            .collect();
        travels(&OrderingRecord { skipped, last_commit_consumed: consumed, ..common::ordering() });
    }
}
