//! Frozen hashes of our own encodings. A change is a new protocol version: old and new nodes would disagree.

mod common;

use alloy_primitives::{B256, b256, hex, keccak256};
use common::{block, certificate, genesis, header, ordering, receipt};
use corniche_types::{Certificate, Epoch, FaultModel, Height, NextEpoch, OrderingRecord, Receipt, Resume, wire};

#[track_caller]
fn frozen(bytes: impl AsRef<[u8]>, expected: &str) {
    assert_eq!(hex::encode(bytes), expected);
}

#[test]
fn ordering_record() {
    assert_eq!(keccak256(wire::encode(&ordering())), ordering().hash());
    frozen(ordering().hash(), "73d11fecd77b516b86c8d16494feb8bd0f4fdf4d9c354f19b760c43effd34006");
    assert_eq!(ordering().extra_data().len(), 32);
}

#[test]
fn block_and_header() {
    frozen(block().hash(), "94141e02853a032a1af5620f4b033ae2580edb4e0e943ede01b0ccf066582ac1");
    frozen(keccak256(block().encode()), "8c131865773b0044396417808d4565054705b1734114bfa1a1a5094210a3c735");
}

/// The header is the list of London's 16 fields, written by hand, without other fields.
#[test]
fn header_has_sixteen_rlp_fields() {
    let string = |bytes: &[u8]| match bytes {
        [byte] if *byte < 0x80 => vec![*byte],
        bytes if bytes.len() < 56 => [&[0x80 + bytes.len() as u8], bytes].concat(),
        bytes => [&[0xb9], (bytes.len() as u16).to_be_bytes().as_slice(), bytes].concat(),
    };
    let number = |value: u64| {
        let bytes = value.to_be_bytes();
        string(&bytes[bytes.iter().take_while(|&&byte| byte == 0).count()..])
    };
    let header = header();
    let fields = [
        string(header.parent_hash.as_slice()),
        // keccak-256 of the empty list: no ommers.
        string(&hex!("1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347")),
        string(header.beneficiary.as_slice()),
        string(header.state_root.as_slice()),
        string(header.transactions_root.as_slice()),
        string(header.receipts_root.as_slice()),
        string(header.logs_bloom.as_slice()),
        number(0),
        number(header.number),
        number(header.gas_limit),
        number(header.gas_used),
        number(header.timestamp),
        string(&header.extra_data),
        string(header.mix_hash.as_slice()),
        string(&[0; 8]),
        number(12),
    ];
    let body = fields.concat();
    let rlp = [&[0xf9], (body.len() as u16).to_be_bytes().as_slice(), &body].concat();
    assert_eq!(corniche_types::header_hash(&header), keccak256(rlp));
}

#[test]
fn certificate_bytes() {
    let bytes =
        Certificate::signed_bytes(7, Epoch(1), B256::repeat_byte(2), Height(3), B256::repeat_byte(4), FaultModel::Byzantine);
    frozen(
        bytes,
        "0114000000636f726e696368652d63657274696669636174650700000000000000010000000000000002020202020202020202020202020202020202020202020202020202020202020300000000000000040404040404040404040404040404040404040404040404040404040404040401",
    );
    frozen(keccak256(wire::encode(&certificate())), "f5fb8915ffc91d14e8dd5aaa7a5229b98dbd7a1c83ae60a4d52600a63f0305f7");
}

#[test]
fn genesis_hash_and_committee() {
    frozen(genesis().hash(), "ce120cca3963aaeba59ce970724d9b21181b6ec87e0302dcc9059f74157aab30");
    frozen(genesis().committee_hash(), "0332108379c56591adaf818e9aea8b88b100c8d675df92bde6f5cf347ddcaa4b");
    frozen(
        corniche_types::header_hash(&genesis().header(B256::repeat_byte(1))),
        "598e850f002b7cbe38b95a5bab21dd8fc58af9a67a149b33da901cc4413ee296",
    );
}

#[test]
fn receipts() {
    frozen(keccak256(wire::encode(&receipt())), "74fc94624168fa7a5b2fbdd5ae2bc3ac1d1bed4b577510151299661aac2fbf5a");
    frozen(Receipt::root(&[receipt(), receipt()]), "dcb8842c0e3ab15be120400fdf714abeb6427ed7a088bc8b37680c46e45668e4");
    assert_eq!(Receipt::root(&[]), b256!("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"));
}

#[test]
fn resume_point() {
    let resume = Resume { index: corniche_types::CommitIndex(9), checkpoint: vec![1, 2, 3].into(), ..Resume::default() };
    frozen(wire::encode(&resume), "01090000000000000003000000010203");
}

#[test]
fn ordering_record_version_2() {
    let record = OrderingRecord { protocol_version: 2, ..ordering() };
    let (first, later) = (wire::encode(&ordering()), wire::encode(&record));
    assert_eq!((record.hash(), record.encode_hashed()), (keccak256(&later), later.clone()));
    // Version byte, marker and version, followed by the previous record.
    assert_eq!(later[..9], [1, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0]);
    assert_eq!(later[9..], first[1..]);
    assert_eq!(wire::decode(&later), Ok(record));
    assert_eq!(wire::decode(&first), Ok(ordering()));
    // Each record has one encoding: version 1 after the marker is refused.
    let mut again = later.clone();
    again[5] = 1;
    assert!(wire::decode::<OrderingRecord>(&again).is_err());
    // No other committee could follow under these versions.
    for version in [1, 2, 4] {
        let record = OrderingRecord { protocol_version: version, ..ordering() };
        let mut bytes = wire::encode(&record);
        let next = bytes.windows(32).rposition(|window| window == record.committee_hash).unwrap();
        bytes[next] ^= 1;
        let error = wire::decode::<OrderingRecord>(&bytes).unwrap_err().to_string();
        assert!(error.contains("expected no other committee next"), "{error}");
    }
}

#[test]
fn ordering_record_version_5() {
    let plain = OrderingRecord { protocol_version: 5, ..ordering() };
    let last = OrderingRecord {
        next: Some(NextEpoch { committee_hash: B256::repeat_byte(3), light_root: B256::repeat_byte(4), protocol_version: 6 }),
        ..plain.clone()
    };
    frozen(plain.hash(), "15aae4565e13119862ed462e7a385d9708b5015fac8eb40259267417d43acdcd");
    frozen(last.hash(), "be49cb384c0f09a6c78fc258801c95e548ff5e1f4b7ae27d43b6b62c8f4a4d9a");
    assert_eq!((plain.next_committee_hash(), last.next_committee_hash()), (plain.committee_hash, B256::repeat_byte(3)));
    for record in [plain, last] {
        assert_eq!(wire::decode(&wire::encode(&record)), Ok(record.clone()));
        // Engine and version come first, the tail's hash last.
        let (head, tail) = (record.encode_hashed(), record.encode_tail());
        assert_eq!(head[..18], *b"\x01\x09\0\0\0mahi-mahi\x05\0\0\0");
        assert_eq!(head[head.len() - 32..], *keccak256(&tail));
        assert_eq!(wire::decode(&tail), Ok((record.batches.clone(), record.skipped.clone())));
        assert!(wire::decode::<OrderingRecord>(&head).is_err(), "a head is no record of version 1");
    }
}

/// A client that follows epochs reads heads only (validators.md, E5).
#[test]
fn largest_head_is_below_400_bytes() {
    let next = NextEpoch { committee_hash: B256::ZERO, light_root: B256::ZERO, protocol_version: u32::MAX };
    let record = OrderingRecord { protocol_version: 5, engine: "x".repeat(64), next: Some(next), ..ordering() };
    let bytes = record.encode_hashed().len();
    assert!(bytes <= 400, "{bytes}");
}

#[test]
fn committee_hash_covers_genesis_since_version_2() {
    let other = |genesis: corniche_types::Genesis| corniche_types::Genesis { accounts: Default::default(), ..genesis };
    let first = genesis();
    assert_eq!(first.protocol_version, 1);
    assert_eq!(first.committee_hash(), other(first.clone()).committee_hash());
    let second = corniche_types::Genesis { protocol_version: 2, ..first.clone() };
    assert_ne!(second.committee_hash(), first.committee_hash());
    assert_ne!(second.committee_hash(), other(second.clone()).committee_hash());
    frozen(second.committee_hash(), "d1e7eb6455ed37fe4d128acf89d72ec23e1c67c16e0b3ee5e26ab2b569fac39a");
}

#[test]
fn upgrades_are_excluded_from_genesis_hash() {
    use corniche_types::{Genesis, Height, Upgrade};
    let plain = genesis();
    let upgraded = Genesis { upgrades: vec![Upgrade { height: 100, protocol_version: 2 }], ..plain.clone() };
    assert_eq!(upgraded.hash(), plain.hash());
    assert_eq!(upgraded.committee_hash(), plain.committee_hash());
    let version = |height| upgraded.rules_at(Height(height)).version;
    assert_eq!([0, 1, 99, 100, 101].map(version), [1, 1, 1, 2, 2]);
    assert_eq!(Genesis::from_json(&upgraded.to_json()), Ok(upgraded.clone()));
    assert!(!plain.to_json().contains("upgrades"), "a file without upgrades reads as before");
    let refused = |upgrades: &[(u64, u32)]| {
        let upgrades = upgrades.iter().map(|&(height, protocol_version)| Upgrade { height, protocol_version }).collect();
        Genesis::from_json(&Genesis { upgrades, ..plain.clone() }.to_json()).unwrap_err().to_string()
    };
    assert!(refused(&[(100, 9)]).contains("install a newer build"));
    assert!(refused(&[(100, 1)]).contains("must ascend"));
    assert!(refused(&[(1, 2)]).contains("must ascend"));
    assert!(refused(&[(100, 2), (100, 2)]).contains("must ascend"));
}

/// Where epochs end, announcements decide about the version (U2), so a second schedule is refused. Without epochs heights decide.
#[test]
fn epochs_and_heights_of_upgrades_exclude_each_other() {
    use corniche_types::{Genesis, Height, StakingParameters, Upgrade};
    let upgrades = vec![Upgrade { height: 100, protocol_version: 5 }];
    let genesis = |epoch_ms| {
        let staking = Some(StakingParameters { epoch_ms, ..StakingParameters::default() });
        Genesis { protocol_version: 4, upgrades: upgrades.clone(), staking, ..genesis() }
    };
    let with_epochs = genesis(StakingParameters::default().epoch_ms);
    assert!(with_epochs.epochs().is_some());
    let refusal = Genesis::from_json(&with_epochs.to_json()).unwrap_err().to_string();
    assert!(refusal.contains("upgrades must be empty where epochs end, got 1"), "{refusal}");
    assert_eq!(with_epochs.version_at(Height(1), 7), 7, "the version of the epoch, known or not");
    let without = Genesis { staking: None, ..with_epochs };
    assert_eq!([99, 100].map(|height| without.version_at(Height(height), 7)), [4, 5]);
}
