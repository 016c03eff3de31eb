//! A light check of finality: what a node double claims is believed only as far as a quorum signed it.

#![allow(clippy::unwrap_used)] // the lint spares test functions, not their helpers

use alloy_consensus::Header;
use alloy_rpc_types_eth::Block;
use corniche_client::{Client, ClientError};
use corniche_crypto::{BlsSecretKey, CommitteeKeys, bls_aggregate};
use corniche_types::{
    Address, B256, Bytes, Certificate, EngineConfig, Epoch, FeeRules, Genesis, Height, SignerBitmap, TimestampMs,
    ValidatorIndex, ValidatorInfo,
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    thread,
};

/// Four validators, the blocks 1 to 3, and whatever a node says about them.
struct Chain {
    genesis: Genesis,
    keys: Vec<BlsSecretKey>,
    headers: Vec<Header>,
}

impl Chain {
    fn new() -> Self {
        let keys: Vec<_> = (1..=4u8).map(|seed| BlsSecretKey::from_seed([seed; 32])).collect();
        let validator = |key: &BlsSecretKey| ValidatorInfo {
            consensus_key: B256::ZERO,
            bls_key: key.public().to_bytes().into(),
            bls_proof: key.prove_possession().to_bytes().into(),
            network_key: B256::ZERO,
            fee_address: Address::ZERO,
        };
        let genesis = Genesis {
            protocol_version: 1,
            chain_id: 7,
            currency: "T".into(),
            timestamp_ms: TimestampMs(0),
            block_ms: 0,
            block_gas_limit: 1_000_000,
            batch_bytes: 200_000,
            batch_gas: 1_000_000,
            epoch_blocks: 1_000,
            fees: FeeRules { initial_base_fee: 1, target_gas_per_second: 1 },
            engine: EngineConfig { name: "mahi-mahi".into(), parameters: Default::default() },
            validators: keys.iter().map(validator).collect(),
            coin_shares: Vec::new(),
            coin_public_key: Bytes::new(),
            accounts: Default::default(),
        };
        let mut headers: Vec<Header> = Vec::new();
        for number in 1..=3 {
            let parent_hash = headers.last().map_or(B256::ZERO, Header::hash_slow);
            headers.push(Header { number, parent_hash, base_fee_per_gas: Some(7), ..Header::default() });
        }
        Self { genesis, keys, headers }
    }

    fn hash(&self, number: usize) -> B256 {
        self.headers[number - 1].hash_slow()
    }

    /// Block 3, signed by these validators.
    fn certificate(&self, signers: &[u16]) -> Certificate {
        let (epoch, height, hash) = (Epoch(0), Height(3), self.hash(3));
        let (committee_hash, fault_model) = (self.genesis.committee_hash(), self.genesis.fault_model());
        let message = Certificate::signed_bytes(self.genesis.chain_id, epoch, committee_hash, height, hash, fault_model);
        let signatures: Vec<_> = signers.iter().map(|&signer| self.keys[usize::from(signer)].sign(&message)).collect();
        Certificate {
            epoch,
            committee_hash,
            height,
            header_hash: hash,
            fault_model,
            signers: SignerBitmap::from_signers(signers.iter().copied().map(ValidatorIndex), 4),
            signature: bls_aggregate(&signatures).unwrap().to_bytes().into(),
        }
    }

    /// A node that serves this certificate and these headers.
    fn node(&self, certificate: Option<&Certificate>, headers: &[Header]) -> Client {
        let certificate = json!(certificate.map(corniche_api::Certificate::from));
        // Under the right hashes, so that a wrong header is a lie.
        let by_hash: Vec<_> = self.headers.iter().map(Header::hash_slow).zip(headers.to_vec()).collect();
        serve(move |request| match request["method"].as_str().unwrap() {
            "corniche_getCertificate" => certificate.clone(),
            "eth_getBlockByHash" => {
                let asked: B256 = request["params"][0].as_str().unwrap().parse().unwrap();
                let header = by_hash.iter().find(|(hash, _)| *hash == asked).map(|(_, header)| header.clone());
                json!(header.map(|header| Block::<B256>::empty(alloy_rpc_types_eth::Header::new(header))))
            }
            other => panic!("{other}"),
        })
    }

    fn committee(&self) -> CommitteeKeys {
        CommitteeKeys::from_genesis(&self.genesis).unwrap()
    }
}

fn serve(answer: impl Fn(&Value) -> Value + Send + 'static) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line == "\r\n" || line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let result = answer(&serde_json::from_slice(&body).unwrap());
            let text = json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", text.len());
            let _ = stream.write_all((head + &text).as_bytes());
        }
    });
    Client::new(url)
}

fn unproven(result: Result<Option<Certificate>, ClientError>) -> String {
    match result {
        Err(ClientError::Unproven { problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_certificate_of_a_descendant_proves_the_block() {
    let chain = Chain::new();
    let certificate = chain.certificate(&[0, 2, 3]);
    let client = chain.node(Some(&certificate), &chain.headers);
    for number in 1..=3 {
        let proof = client.prove(number as u64, chain.hash(number), &chain.committee()).unwrap();
        assert_eq!(proof.unwrap(), certificate);
    }
}

#[test]
fn no_certificate_yet_is_not_a_lie() {
    let chain = Chain::new();
    let proof = chain.node(None, &chain.headers).prove(1, chain.hash(1), &chain.committee()).unwrap();
    assert_eq!(proof, None);
}

#[test]
fn another_block_at_that_height_is_not_proven() {
    let chain = Chain::new();
    let client = chain.node(Some(&chain.certificate(&[0, 1, 2])), &chain.headers);
    let problem = unproven(client.prove(1, B256::repeat_byte(1), &chain.committee()));
    assert!(problem.contains("is 0x"), "{problem}");
}

#[test]
fn less_than_a_quorum_proves_nothing() {
    let chain = Chain::new();
    let client = chain.node(Some(&chain.certificate(&[0, 1])), &chain.headers);
    let problem = unproven(client.prove(1, chain.hash(1), &chain.committee()));
    assert!(problem.contains("quorum"), "{problem}");
}

#[test]
fn a_header_that_hashes_to_something_else_is_not_believed() {
    let chain = Chain::new();
    let mut headers = chain.headers.clone();
    headers[1].parent_hash = B256::repeat_byte(9);
    let client = chain.node(Some(&chain.certificate(&[0, 1, 2])), &headers);
    let problem = unproven(client.prove(1, B256::repeat_byte(9), &chain.committee()));
    assert!(problem.contains("hashes to"), "{problem}");
}

#[test]
fn another_networks_certificate_proves_nothing() {
    let chain = Chain::new();
    let mut other = Chain::new();
    other.genesis.chain_id = 8;
    let client = chain.node(Some(&other.certificate(&[0, 1, 2])), &chain.headers);
    unproven(client.prove(3, chain.hash(3), &chain.committee()));
}

#[test]
fn a_certificate_of_a_block_that_calls_itself_another_proves_nothing() {
    let mut chain = Chain::new();
    // All four sign it, and it is the hash of a header; but the header is of block 2.
    chain.headers[2].number = 2;
    let client = chain.node(Some(&chain.certificate(&[0, 1, 2, 3])), &chain.headers);
    let problem = unproven(client.prove(2, chain.hash(2), &chain.committee()));
    assert_eq!(problem, "block 3 calls itself block 2");
}
