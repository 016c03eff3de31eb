//! Decoders: peers' messages, transactions, genesis files.

use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{B256, hex, keccak256};
use corniche_admission::batch;
use corniche_certify::Share;
use corniche_crypto::VerifiedTransaction;
use corniche_pipeline::{FollowedBlock, PeerMessage};
use corniche_types::{Address, Bytes, Genesis, Height, Transaction, Upgrade, ValidatorInfo, wire};

/// Decodes as a validator does. A decoded message must encode to its original bytes.
pub fn peer_message(bytes: &[u8]) {
    let _ = PeerMessage::carries_certificate(bytes) || PeerMessage::carries_transactions(bytes);
    let _ = PeerMessage::carries_attestations(bytes);
    let inner = PeerMessage::engine_bytes(bytes).map(Bytes::copy_from_slice);
    if let Ok(message) = PeerMessage::decode(bytes) {
        assert!(message.encode()[..] == *bytes, "one encoding");
    }
    let bytes = Bytes::copy_from_slice(bytes);
    for bytes in inner.into_iter().chain([bytes]) {
        let raw = batch::decode(&bytes);
        assert!(raw.iter().map(|raw| raw.len()).sum::<usize>() <= bytes.len());
        if let Ok(share) = Share::decode(&bytes) {
            assert!(share.encode()[..] == bytes[..], "one encoding");
        }
        if let Ok(block) = wire::decode::<FollowedBlock>(&bytes) {
            assert!(wire::encode(&block)[..] == bytes[..], "one encoding");
        }
    }
}

pub fn peer_message_seeds() -> Vec<Vec<u8>> {
    let transactions = transaction_seeds();
    let engine = PeerMessage::Engine(Bytes::from_static(&[1, 2, 3]));
    let forwarded = PeerMessage::Transactions(transactions.iter().cloned().map(Bytes::from).collect());
    let attested = transactions.iter().map(|raw| (keccak256(raw), Address::repeat_byte(1)));
    let attestations = PeerMessage::Attestations(attested.collect());
    let messages = [engine, forwarded, attestations].map(|message| message.encode().to_vec());
    messages.into_iter().chain((0..8).map(|kind| [&[wire::VERSION, kind][..], &[0; 200]].concat())).collect()
}

pub fn transaction(bytes: &[u8]) {
    let gas = Transaction::declared_gas(bytes);
    match Transaction::decode(Bytes::copy_from_slice(bytes)) {
        Err(error) => assert_eq!(gas, Err(error)),
        Ok(transaction) => {
            assert_eq!(gas, Ok(transaction.gas_limit()));
            assert_eq!(transaction.hash(), keccak256(bytes));
            assert_eq!(transaction.envelope().encoded_2718(), bytes, "one encoding");
            let _ = (transaction.max_cost(), transaction.access_list(), transaction.effective_gas_price(7));
            let chain_id = transaction.chain_id().unwrap_or(1);
            let _ = VerifiedTransaction::verify(transaction, chain_id);
        }
    }
}

/// The example of EIP-155, and transactions of type 1 and 2 with random signatures.
pub fn transaction_seeds() -> Vec<Vec<u8>> {
    let eip155 = hex!(
        "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"
    );
    let signature = hex!(
        "01a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"
    );
    let typed =
        |kind: u8, fields: &[u8]| [&[kind, 0xf8, (fields.len() + signature.len()) as u8][..], fields, &signature].concat();
    vec![
        eip155.to_vec(),
        typed(1, &hex!("0709850432a817c80082520894353535353535353535353535353535353535353580821234c0")),
        typed(
            2,
            &hex!(
                "07090182052082520894353535353535353535353535353535353535353580821234d7d694353535353535353535353535353535353535353535c0"
            ),
        ),
    ]
}

/// An accepted genesis must have rules at each height, and must not change when written and read again.
pub fn genesis(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(genesis) = Genesis::from_json(text) else { return };
    let again = Genesis::from_json(&genesis.to_json()).expect("what is written can be read");
    assert_eq!(again, genesis);
    assert_eq!((again.hash(), again.committee_hash()), (genesis.hash(), genesis.committee_hash()));
    for height in [0, 1, 2, u64::MAX] {
        let _ = genesis.rules_at(Height(height));
    }
    let _ = (genesis.is_development(), genesis.fault_model(), genesis.header(B256::ZERO));
}

pub fn genesis_seeds() -> Vec<Vec<u8>> {
    let seed = |engine: &str, size: usize, upgrades: &[Upgrade]| {
        let validator = ValidatorInfo {
            consensus_key: B256::repeat_byte(1),
            bls_key: Bytes::from_static(&[2; 96]),
            bls_proof: Bytes::from_static(&[3; 48]),
            network_key: B256::repeat_byte(4),
            fee_address: Address::repeat_byte(5),
            votes: corniche_types::Votes(1),
            stake: None,
        };
        let genesis = Genesis {
            upgrades: upgrades.to_vec(),
            coin_shares: vec![Bytes::from_static(&[6; 96]); size],
            ..corniche_testkit::genesis(engine, vec![validator; size])
        };
        genesis.to_json().into_bytes()
    };
    vec![seed("mahi-mahi", 4, &[Upgrade { height: 100, protocol_version: 2 }]), seed("autobahn", 1, &[])]
}
