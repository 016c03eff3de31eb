//! Requests of `cargo stylus` 0.10.10 when it checks, deploys and activates: in its order, as recorded
//! between the unmodified tool and a node, with the code it had built.
//!
//! The code is the contract of `cargo stylus new` (`number()` and more), with a payable constructor that
//! takes the initial number.

mod common;

use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, address, hex, keccak256};
use common::Node;
use corniche_crypto::EthereumKey;
use serde_json::{Value, json};

/// As sent by the tool: `EF F0 00 00` and the compressed module.
const CODE: &str = include_str!("fixtures/counted.hex");
const PROGRAMS: Address = address!("0000000000000000000000000000000000000071");
const CACHES: Address = address!("0000000000000000000000000000000000000072");
const DEPLOYER: Address = address!("cEcba2F1DC234f70Dd89F2041029807F8D03A990");
/// Arbitrary unused addresses, as used by the tool.
const SOMEWHERE: Address = address!("9c6bc237749caabc77f44603fdbf174f6de74c35");
const SOMEBODY: Address = address!("450f6be3254430d272abe46749053dfd309518d4");

fn code() -> Bytes {
    hex::decode(CODE.trim()).unwrap().into()
}

/// Prefix of 43 bytes that the tool puts in front of code.
fn creation(code: &[u8]) -> Vec<u8> {
    [&[0x7f][..], &word(code.len() as u64), &hex!("80602b6000396000f300"), code].concat()
}

fn word(number: u64) -> [u8; 32] {
    U256::from(number).to_be_bytes()
}

fn bytes(data: &[u8]) -> Vec<u8> {
    let padding = data.len().next_multiple_of(32) - data.len();
    [&word(data.len() as u64)[..], data, &vec![0; padding]].concat()
}

fn input(signature: &str, arguments: &[u8]) -> Bytes {
    [&keccak256(signature)[..4], arguments].concat().into()
}

/// deploy(bytes,bytes,uint256,bytes32), for a constructor that takes `first`.
fn deployment(first: &[u8], value: u64, salt: B256) -> Bytes {
    let code = bytes(&creation(&code()));
    let head = [word(128), word(128 + code.len() as u64), word(value), salt.0];
    let constructor = bytes(&input("stylus_constructor()", first));
    input("deploy(bytes,bytes,uint256,bytes32)", &[head.as_flattened(), &code, &constructor].concat())
}

/// User of the tool: the first development account.
struct User<'n> {
    node: &'n Node,
    key: EthereumKey,
}

impl<'n> User<'n> {
    fn of(node: &'n Node) -> Self {
        let key = node.says["accounts"][0]["key"].as_str().unwrap();
        Self { node, key: EthereumKey::from_hex(key).unwrap() }
    }

    fn number(&self, method: &str, params: Value) -> u64 {
        let answer = self.node.call(method, params);
        answer.as_str().unwrap().parse::<U256>().unwrap().to()
    }

    /// Estimates, signs with a tip of 0, sends and waits.
    fn send(&self, to: Option<Address>, value: u64, input: Bytes) -> Value {
        let from = self.key.address();
        let mut request = json!({"from": from, "value": U256::from(value), "input": input});
        if let Some(to) = to {
            request["to"] = json!(to);
        }
        let gas = self.number("eth_estimateGas", json!([request, "pending"]));
        let transaction = TxEip1559 {
            chain_id: self.number("eth_chainId", json!([])),
            nonce: self.number("eth_getTransactionCount", json!([from, "pending"])),
            gas_limit: gas,
            max_fee_per_gas: self.number("eth_gasPrice", json!([])).into(),
            max_priority_fee_per_gas: 0,
            to: to.map_or(TxKind::Create, TxKind::Call),
            value: U256::from(value),
            input,
            ..TxEip1559::default()
        };
        let hash = self.node.call("eth_sendRawTransaction", json!([self.key.sign(transaction)]));
        // Each poll is a request, so this waits without a clock.
        let look = || Some(self.node.call("eth_getTransactionReceipt", json!([hash]))).filter(Value::is_object);
        let receipt = (0..20_000).find_map(|_| look()).expect("a receipt");
        assert_eq!(receipt["status"], "0x1", "{receipt}");
        receipt
    }

    /// Version and fee of an activation, with state overrides for the code and for the balance of the sender.
    fn supposed_activation(&self, at: Address, code: &Bytes) -> Value {
        let call = json!({
            "from": SOMEBODY, "to": PROGRAMS, "value": "0xde0b6b3a7640000",
            "input": input("activateProgram(address)", at.into_word().as_slice()),
        });
        let supposed = json!({SOMEBODY.to_string(): {"balance": U256::MAX}, at.to_string(): {"code": code}});
        self.node.answer("eth_call", &json!([call, "latest", supposed]))
    }

    fn call(&self, to: Address, input: &Bytes) -> Value {
        self.node.answer("eth_call", &json!([{"from": self.key.address(), "to": to, "input": input}, "latest"]))
    }

    fn number_in(&self, contract: Address) -> Value {
        self.call(contract, &input("number()", &[]))["result"].clone()
    }
}

fn words(numbers: &[u64]) -> Value {
    json!(Bytes::from(numbers.iter().flat_map(|number| word(*number)).collect::<Vec<_>>()))
}

fn selector(error: &str) -> Value {
    json!(input(error, &[]))
}

#[test]
fn deploy_checks_and_activates() {
    let node = Node::start(&[]);
    let user = User::of(&node);
    // The tool first asks if it is already activated, and recognises the error.
    let asked = user.call(PROGRAMS, &input("codehashVersion(bytes32)", keccak256(code()).as_slice()));
    assert_eq!((&asked["error"]["code"], &asked["error"]["data"]), (&json!(3), &selector("ProgramNotActivated()")));
    assert_eq!(user.supposed_activation(SOMEWHERE, &code())["result"], words(&[2, 0]), "version, and the fee");
    // This also detects and reports a module that the chain does not accept.
    let floats = Bytes::from_static(&hex!(
        "0061736d01000000 0106 01 60017f017f 0302 0100 0503 010001 071c 02 066d656d6f72790200 0f757365725f656e747279706f696e740000"
        "0a0c 01 0a 00 4300000000 1a 4100 0b"
    ));
    let refused = user.supposed_activation(SOMEWHERE, &floats);
    assert!(refused["error"]["message"].as_str().is_some_and(|why| why.contains("f32")), "{refused}");

    let receipt = user.send(None, 0, creation(&code()).into());
    let contract: Address = receipt["contractAddress"].as_str().unwrap().parse().unwrap();
    assert_eq!(node.call("eth_getCode", json!([contract, "latest"])), json!(code()));
    assert_eq!(user.supposed_activation(contract, &code())["result"], words(&[2, 0]));
    user.send(Some(PROGRAMS), 0, input("activateProgram(address)", contract.into_word().as_slice()));
    assert_eq!(user.number_in(contract), words(&[0]), "nobody constructed it");

    assert_eq!(user.call(CACHES, &input("allCacheManagers()", &[]))["result"], words(&[32, 0]));
}

#[test]
fn constructor_uses_deployer() {
    let node = Node::start(&[]);
    let user = User::of(&node);
    let deployed = keccak256("ContractDeployed(address)");
    let salt = B256::repeat_byte(7);
    let salted = keccak256([&salt[..], &input("stylus_constructor()", &word(42))].concat());
    for (salt, expected) in [
        (B256::ZERO, DEPLOYER.create(1)),
        (B256::ZERO, DEPLOYER.create(2)),
        (salt, DEPLOYER.create2_from_code(salted, creation(&code()))),
    ] {
        let receipt = user.send(Some(DEPLOYER), 5, deployment(&word(42), 5, salt));
        // The tool uses the first log with this topic, and its 32 bytes of data.
        let logs = receipt["logs"].as_array().unwrap();
        let log = logs.iter().find(|log| log["topics"][0] == json!(deployed)).unwrap();
        assert_eq!((&log["address"], &log["data"]), (&json!(DEPLOYER), &json!(expected.into_word())));
        assert_eq!(user.number_in(expected), words(&[42]));
        assert_eq!(node.call("eth_getBalance", json!([expected, "latest"])), "0x5");
        assert_eq!(node.call("eth_getBalance", json!([DEPLOYER, "latest"])), "0x0");
        // Its constructor runs only once.
        let again = user.call(expected, &input("stylus_constructor()", &word(1)));
        assert!(again["error"].is_object(), "{again}");
    }
    let refused = |input: Bytes| user.call(DEPLOYER, &input)["error"]["data"].clone();
    let again = refused(deployment(&word(42), 0, salt));
    let nothing = [&[0x79, 0x4c, 0x92, 0xce][..], &word(32), &word(0)].concat();
    assert_eq!(again, json!(Bytes::from(nothing)), "ContractDeploymentError(bytes): something is there already");
    let reverted = refused(deployment(&[], 0, B256::ZERO));
    assert!(reverted.as_str().unwrap().starts_with("0x88d8f57d"), "ContractInitializationError(address,bytes): {reverted}");
    assert_eq!(node.call("eth_getTransactionCount", json!([DEPLOYER, "latest"])), "0x4");
}
