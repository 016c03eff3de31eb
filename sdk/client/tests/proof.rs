//! Tests of finality proofs: claims of a fake node are accepted only if a quorum signed them.

#![allow(clippy::unwrap_used)] // the lint spares test functions, not their helpers

use alloy_consensus::Header;
use alloy_rpc_types_eth::Block;
use corniche_client::{Client, ClientError, Wait, is_stale};
use corniche_crypto::{BlsSecretKey, LightClient, bls_aggregate};
use corniche_types::{
    Account, Address, B256, Bytes, Certificate, CommitIndex, EngineConfig, Epoch, EpochChange, FeeRules, Genesis, Height,
    LightMember, NextEpoch, Proof, ProofError, RecordHead, SignatureChecks, SignerBitmap, StakingParameters, TimestampMs,
    TrustPoint, U256, ValidatorIndex, ValidatorInfo, keccak256, light_root,
    proof::{self, Terminal, TreeKey},
    wire,
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    thread,
    time::Duration,
};

/// Four validators and the blocks 1 to 3.
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
            votes: corniche_types::Votes(1),
            stake: None,
        };
        let genesis = Genesis {
            protocol_version: 1,
            upgrades: Vec::new(),
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
            signatures: SignatureChecks::Everyone,
            staking: None,
            coin_draft: None,
            multicast: None,
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

    /// Returns a certificate of block 3 with these signers.
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

    /// Starts a fake node with this certificate and these headers.
    fn node(&self, certificate: Option<&Certificate>, headers: &[Header]) -> Client {
        let certificate = json!(certificate.map(corniche_api::Certificate::from));
        // Served under the hashes of the right headers, so that a wrong header is a false claim.
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

    fn light(&self) -> LightClient {
        LightClient::from_genesis(&self.genesis).unwrap()
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
fn descendant_certificate_proves_block() {
    let chain = Chain::new();
    let certificate = chain.certificate(&[0, 2, 3]);
    let client = chain.node(Some(&certificate), &chain.headers);
    for number in 1..=3 {
        let proof = client.prove(number as u64, chain.hash(number), &mut chain.light()).unwrap();
        assert_eq!(proof.unwrap(), certificate);
    }
}

#[test]
fn missing_certificate_is_not_error() {
    let chain = Chain::new();
    let proof = chain.node(None, &chain.headers).prove(1, chain.hash(1), &mut chain.light()).unwrap();
    assert_eq!(proof, None);
}

#[test]
fn different_block_at_height_is_unproven() {
    let chain = Chain::new();
    let client = chain.node(Some(&chain.certificate(&[0, 1, 2])), &chain.headers);
    let problem = unproven(client.prove(1, B256::repeat_byte(1), &mut chain.light()));
    assert!(problem.contains("is 0x"), "{problem}");
}

#[test]
fn less_than_quorum_proves_nothing() {
    let chain = Chain::new();
    let client = chain.node(Some(&chain.certificate(&[0, 1])), &chain.headers);
    let problem = unproven(client.prove(1, chain.hash(1), &mut chain.light()));
    assert!(problem.contains("expected signers with at least 3 votes, got 2"), "{problem}");
}

#[test]
fn header_with_wrong_hash_is_rejected() {
    let chain = Chain::new();
    let mut headers = chain.headers.clone();
    headers[1].parent_hash = B256::repeat_byte(9);
    let client = chain.node(Some(&chain.certificate(&[0, 1, 2])), &headers);
    let problem = unproven(client.prove(1, B256::repeat_byte(9), &mut chain.light()));
    assert!(problem.contains("with hash"), "{problem}");
}

#[test]
fn certificate_of_other_network_is_rejected() {
    let chain = Chain::new();
    let mut other = Chain::new();
    other.genesis.chain_id = 8;
    let client = chain.node(Some(&other.certificate(&[0, 1, 2])), &chain.headers);
    unproven(client.prove(3, chain.hash(3), &mut chain.light()));
}

#[test]
fn certificate_with_wrong_number_is_rejected() {
    let mut chain = Chain::new();
    // All four validators sign it, and it is the hash of a header; but the header has number 2.
    chain.headers[2].number = 2;
    let client = chain.node(Some(&chain.certificate(&[0, 1, 2, 3])), &chain.headers);
    let problem = unproven(client.prove(2, chain.hash(2), &mut chain.light()));
    assert_eq!(problem, "expected block number 3, got 2");
}

#[test]
fn account_is_proven_from_genesis() {
    let mut chain = Chain::new();
    let (rich, account) = (Address::repeat_byte(1), Account { nonce: 7, balance: U256::from(5), ..Account::default() });
    // A state with one account: its leaf is the root.
    let key = TreeKey::account(&rich);
    let value = proof::account_value(&account);
    let terminal = Terminal::Leaf { key: key.0, value_hash: proof::value_hash(&value) };
    let path = Proof { siblings: Vec::new(), terminal };
    let absent = path.to_parts(&TreeKey::storage(&rich, &B256::ZERO), &[]);
    chain.headers[2].state_root = root_of(&rich, &value);
    let answer = json!({
        "address": rich, "accountProof": path.to_parts(&key, &value), "balance": "0x5", "nonce": "0x7",
        "codeHash": account.code_hash, "storageHash": B256::ZERO,
        "storageProof": [{ "key": B256::ZERO, "value": "0x0", "proof": absent }],
    });
    let serve = |answer: Value, headers: &[Header]| {
        let certificate = json!(corniche_api::Certificate::from(&chain.certificate(&[0, 1, 2])));
        let (hash, header) = (chain.hash(3), headers[2].clone());
        serve(move |request| match request["method"].as_str().unwrap() {
            "corniche_getHeads" => {
                let head = json!({ "hash": hash, "number": "0x3", "timestampMs": "0x0" });
                json!({ "executed": head, "certified": head })
            }
            "corniche_getCertificate" => certificate.clone(),
            "eth_getBlockByHash" => json!(Block::<B256>::empty(alloy_rpc_types_eth::Header::new(header.clone()))),
            "eth_getProof" => answer.clone(),
            other => panic!("{other}"),
        })
    };
    let ask = |client: Client| client.prove_account(rich, &[B256::ZERO], &mut chain.light());
    let (proven, header) = ask(serve(answer.clone(), &chain.headers)).unwrap();
    assert_eq!((proven.balance, proven.nonce, proven.storage[0].value), (U256::from(5), 7, B256::ZERO));
    assert_eq!(header, chain.headers[2]);

    let refused = |client: Client, expected: &str| match ask(client) {
        Err(ClientError::Unproven { number: 3, problem }) => assert!(problem.contains(expected), "{problem}"),
        other => panic!("{other:?}"),
    };
    for (field, lie) in
        [("balance", json!("0x6")), ("nonce", json!("0x8")), ("codeHash", json!(B256::ZERO)), ("accountProof", json!([]))]
    {
        let mut lying = answer.clone();
        lying[field] = lie;
        refused(serve(lying, &chain.headers), "proof");
    }
    // The right account in another state, which no validator signed.
    let mut headers = chain.headers.clone();
    headers[2].state_root = B256::repeat_byte(9);
    refused(serve(answer, &headers), "with hash");
}

/// Returns the root of a state with only this account: the leaf itself. Any proof against a wrong root reveals it.
fn root_of(holder: &Address, value: &[u8]) -> B256 {
    let key = TreeKey::account(holder);
    let path = Proof { siblings: Vec::new(), terminal: Terminal::Leaf { key: key.0, value_hash: proof::value_hash(value) } };
    match proof::verify_account(&B256::ZERO, holder, &path.to_parts(&key, value)) {
        Err(ProofError::RootMismatch { found, .. }) => found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn dropped_transaction_ends_wait() {
    let chain = Chain::new();
    let gone = |status: Value| {
        let client = serve(move |_| status.clone());
        client.wait_final(B256::repeat_byte(7), &mut chain.light(), Wait::at_most(Duration::from_secs(3_600)))
    };
    let reason = |status: Value| match gone(status) {
        Err(ClientError::Dropped { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(json!({ "status": "dropped", "reason": "nonce too low" })), "nonce too low");
    assert!(reason(json!({ "status": "replaced", "by": B256::repeat_byte(1) })).starts_with("replaced by 0x0101"));
    let client = serve(|_| json!(null));
    let waited = client.wait_final(B256::repeat_byte(7), &mut chain.light(), Wait::at_most(Duration::ZERO));
    assert!(matches!(waited, Err(ClientError::Deadline { .. })));
}

#[test]
fn wait_final_proves_block() {
    let chain = Chain::new();
    let (certificate, hash) = (chain.certificate(&[1, 2, 3]), chain.hash(3));
    let ask = |claimed: B256| {
        let certificate = json!(corniche_api::Certificate::from(&certificate));
        let client = serve(move |request| match request["method"].as_str().unwrap() {
            "corniche_getTransactionStatus" => json!({ "status": "certified", "blockHash": claimed, "blockNumber": "0x3" }),
            "corniche_getCertificate" => certificate.clone(),
            other => panic!("{other}"),
        });
        client.wait_final(B256::repeat_byte(7), &mut chain.light(), Wait::default())
    };
    assert_eq!(ask(hash).unwrap(), (3, certificate.clone()));
    assert!(matches!(ask(B256::repeat_byte(8)), Err(ClientError::Unproven { number: 3, .. })));
}

/// Validators of an old genesis may have left, so it proves nothing unless the caller accepts it. Chains without epochs have no such age.
#[test]
fn old_genesis_is_refused_unless_accepted() {
    let mut chain = Chain::new();
    chain.genesis.staking = Some(StakingParameters::default());
    let client = chain.node(Some(&chain.certificate(&[0, 1, 2])), &chain.headers);
    let refused = client.prove(3, chain.hash(3), &mut chain.light()).unwrap_err();
    assert!(matches!(&refused, ClientError::TrustExpired(_)), "{refused:?}");
    assert!(refused.to_string().contains("`corniche validator status`"), "{refused}");
    assert!(client.prove(3, chain.hash(3), &mut chain.light().accept_expired_trust()).is_ok());
}

#[test]
fn client_begins_at_a_trust_point() {
    let chain = Chain::new();
    // Validator 3 leaves after epoch 4, and the others know the hash of its last block.
    let votes = corniche_types::Votes(1);
    let members: Vec<_> = chain.keys[..3].iter().map(|key| LightMember { bls_key: key.public().to_bytes(), votes }).collect();
    let next = NextEpoch {
        committee_hash: B256::repeat_byte(5),
        light_root: light_root(chain.genesis.fault_model(), &members),
        protocol_version: 5,
    };
    let head = wire::encode(&RecordHead {
        engine: "mahi-mahi".into(),
        protocol_version: 5,
        epoch: Epoch(4),
        committee_hash: B256::ZERO,
        next: Some(next),
        commits: (CommitIndex(1), CommitIndex(2), 0),
        agreed: (ValidatorIndex(0), TimestampMs(5), B256::ZERO),
        hashes: (B256::ZERO, B256::ZERO, B256::ZERO),
    });
    let header = Header { number: 90, extra_data: keccak256(&head).to_vec().into(), ..Header::default() };
    let point = TrustPoint { chain_id: 7, epoch: Epoch(4), hash: header.hash_slow() };
    // Keys and votes stayed: the change has no members.
    let change = EpochChange { certificate: chain.certificate(&[0]), header, head: head.into(), members: None };
    let seat = |(index, member): (usize, &LightMember)| {
        json!({ "index": format!("{index:#x}"), "id": null, "blsKey": Bytes::from(member.bls_key), "votes": "0x1",
                "consensusKey": null, "networkKey": null, "feeAddress": null })
    };
    let seats: Vec<_> = members.iter().enumerate().map(seat).collect();
    let begin = |seats: &[Value], point: TrustPoint| {
        let committee = json!({ "epoch": "0x5", "committeeHash": B256::ZERO, "quorum": "0x3", "members": seats });
        let changes = json!([corniche_api::EpochChange::from(&change)]);
        let client = serve(move |request| match (request["method"].as_str().unwrap(), &request["params"][0]) {
            ("corniche_getEpochChanges", epoch) => {
                if *epoch == json!("0x4") {
                    changes.clone()
                } else {
                    json!([])
                }
            }
            ("corniche_getCommittee", epoch) if *epoch == json!("0x5") => committee.clone(),
            other => panic!("{other:?}"),
        });
        client.light_client(&chain.genesis, point)
    };
    let light = begin(&seats, point).unwrap();
    assert_eq!((light.committees().newest().epoch(), light.trust_point()), (Epoch(5), Some(point)));
    let refused = |seats: &[Value], point, says: &str| match begin(seats, point) {
        Err(ClientError::Unproven { problem, .. }) => assert!(problem.contains(says), "{problem}"),
        other => panic!("{other:?}"),
    };
    // A node that repeats what is known cannot hold the client up.
    let changes = json!([corniche_api::EpochChange::from(&change)]);
    let repeating = serve(move |_| changes.clone());
    let mut held_up = light.clone();
    match repeating.follow(&mut held_up, Epoch(1 << 60)) {
        Err(ClientError::Unproven { problem, .. }) => assert!(problem.contains("the committee after epoch 5"), "{problem}"),
        other => panic!("{other:?}"),
    }
    refused(&seats[1..], point, "expected members with the root in the block");
    refused(&seats, TrustPoint { hash: B256::ZERO, ..point }, "expected block 0x00");
    refused(&seats, TrustPoint { epoch: Epoch(9), ..point }, "the node does not know the end of epoch 9");
}

/// Quorums certified two blocks of one height. The client keeps both certificates, and believes nothing more.
#[test]
fn second_block_of_a_height_stops_the_client() {
    let chain = Chain::new();
    let mut other = Chain::new();
    other.headers[2].gas_used = 1;
    let mut light = chain.light();
    let [first, second] = [&chain, &other].map(|chain| chain.certificate(&[0, 1, 2]));
    chain.node(Some(&first), &chain.headers).prove(3, chain.hash(3), &mut light).unwrap();
    for _ in 0..2 {
        let client = other.node(Some(&second), &other.headers);
        match client.prove(3, other.hash(3), &mut light) {
            Err(ClientError::Conflict(conflict)) => assert_eq!(conflict.certificates, [first.clone(), second.clone()]),
            result => panic!("{result:?}"),
        }
    }
}

#[test]
fn old_heads_are_stale() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let stale = |age| is_stale(&Header { timestamp: now - age, ..Header::default() });
    assert_eq!([stale(0), stale(100), stale(182)], [false, false, true]);
}
