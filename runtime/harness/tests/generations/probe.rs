//! Features of the SDK's generations without other libraries. The contract exists in a version for 0.9 and one for
//! 0.10.

use super::contract;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::{SolCall, SolError, sol};
use corniche_harness::{Chain, Contract, creation};
use corniche_vm::ExecutionStatus;

sol! {
    function setScalars(uint256 number, int64 signed, uint8 small, bool flag, address owner, bytes32 word);
    function scalars() returns (uint256, int64, uint8, bool, address, bytes32);
    function setTexts(string text, bytes data);
    function text() returns (string);
    function data() returns (bytes);
    function push(uint64 value);
    function pop() returns (uint64);
    function list() returns (uint64[] memory);
    function put(address who, uint256 at, uint128 value);
    function at(address who, uint256 at) returns (uint128);
    function transientStore(bytes32 key, bytes32 value);
    function transientLoad(bytes32 key) returns (bytes32);
    function callOther(address to, bytes data) returns (bytes);
    function staticCallOther(address to, bytes data) returns (bytes);
    function delegateCallOther(address to, bytes data) returns (bytes);
    function create(bytes code) returns (address);
    function create2(bytes code, bytes32 salt) returns (address);
    function tell(string text);
    function tellRaw(bytes32[] topics, bytes data);
    function refuse(uint256 number);
    function panic();
    function place() returns (uint256, uint256, uint256, address, address, address);
    function account(address of) returns (uint256, uint256, bytes32);
    function hash(bytes data) returns (bytes32);

    struct Call3 { address target; bool allowFailure; bytes callData; }
    struct Result3 { bool success; bytes returnData; }
    function aggregate3(Call3[] calls) returns (Result3[] memory);

    event Told(address indexed who, uint256 indexed number, string text);
    error Refused(uint256 number, address who);
    error CalleeFailed(bytes data);
}

const GENERATIONS: [&str; 2] = ["probe_sdk_0_9", "probe_sdk_0_10"];

/// Deploys the contract of each generation on one chain; also returns two accounts.
fn both() -> (Chain, [Address; 2], [Address; 2]) {
    let mut chain = Chain::new();
    let people = ["alice", "bob"].map(|name| chain.account(name));
    let probes = GENERATIONS.map(|name| chain.by(people[0]).deploy(&contract(name), (U256::from(7),)).unwrap());
    (chain, probes, people)
}

fn encode(call: impl SolCall) -> Bytes {
    call.abi_encode().into()
}

fn compressed(contract: &Contract) -> Bytes {
    creation::compressed(&contract.wasm).unwrap().into()
}

#[test]
fn all_storage_types_round_trip() {
    let (mut chain, probes, [alice, bob]) = both();
    for probe in probes {
        let scalars = chain.view(probe, scalarsCall {});
        assert_eq!((scalars._0, scalars._4), (U256::from(7), alice), "its constructor ran");
        let word = keccak256("word");
        let set = setScalarsCall { number: U256::MAX, signed: -5, small: 255, flag: true, owner: bob, word };
        chain.by(alice).send(probe, set).unwrap();
        let scalars = chain.view(probe, scalarsCall {});
        let packed = (scalars._1, scalars._2, scalars._3, scalars._4);
        assert_eq!((scalars._0, packed, scalars._5), (U256::MAX, (-5, 255, true, bob), word));
        // Short strings fit into one slot; longer ones have another layout.
        for length in [0, 31, 32, 100, 3] {
            let (text, data) = ("é".repeat(length / 2), Bytes::from(vec![9; length]));
            chain.by(alice).send(probe, setTextsCall { text: text.clone(), data: data.clone() }).unwrap();
            assert_eq!((chain.view(probe, textCall {}), chain.view(probe, dataCall {})), (text, data));
        }
        for value in [1, 2, u64::MAX, 4, 5] {
            chain.by(alice).send(probe, pushCall { value }).unwrap();
        }
        assert_eq!(chain.by(alice).send(probe, popCall {}).unwrap().output, 5);
        assert_eq!(chain.view(probe, listCall {}), [1, 2, u64::MAX, 4]);
        chain.by(bob).send(probe, putCall { who: alice, at: U256::from(3), value: 1 << 100 }).unwrap();
        assert_eq!(chain.view(probe, atCall { who: alice, at: U256::from(3) }), 1 << 100);
        assert_eq!(chain.view(probe, atCall { who: bob, at: U256::from(3) }), 0);
    }
}

/// Contracts of both generations call each other.
#[test]
fn all_call_kinds() {
    let (mut chain, [one, other], [_, bob]) = both();
    for (caller, callee) in [(one, other), (other, one)] {
        let asked = callOtherCall { to: callee, data: encode(placeCall {}) };
        let answer = chain.by(bob).send(caller, asked).unwrap().output;
        let place = placeCall::abi_decode_returns(&answer).unwrap();
        assert_eq!((place._3, place._4, place._5), (caller, bob, callee), "sender, origin, itself");

        let asked = delegateCallOtherCall { to: callee, data: encode(placeCall {}) };
        let answer = chain.by(bob).send(caller, asked).unwrap().output;
        let place = placeCall::abi_decode_returns(&answer).unwrap();
        assert_eq!((place._3, place._5), (bob, caller), "another's code, one's own sender and address");
        let stored = encode(putCall { who: caller, at: U256::from(1), value: 77 });
        chain.by(bob).send(caller, delegateCallOtherCall { to: callee, data: stored.clone() }).unwrap();
        let at = atCall { who: caller, at: U256::from(1) };
        assert_eq!((chain.view(caller, at.clone()), chain.view(callee, at)), (77, 0), "one's own storage");

        let looked = staticCallOtherCall { to: callee, data: encode(scalarsCall {}) };
        let answer = chain.by(bob).call(caller, looked).unwrap();
        assert_eq!(scalarsCall::abi_decode_returns(&answer).unwrap()._0, U256::from(7));
        // A write in a static call aborts the callee without revert data.
        let refused = chain.by(bob).send(caller, staticCallOtherCall { to: callee, data: stored }).err().unwrap();
        assert!(refused.error::<CalleeFailed>().unwrap().data.is_empty());

        // The call carries value, and an error is returned completely.
        chain.by(bob).value(U256::from(5)).send(caller, callOtherCall { to: callee, data: Bytes::new() }).unwrap();
        let refuse = encode(refuseCall { number: U256::from(3) });
        let refused = chain.by(bob).value(U256::from(5)).send(caller, callOtherCall { to: callee, data: refuse });
        let inner = refused.err().unwrap().error::<CalleeFailed>().unwrap().data;
        // A function that is not payable rejects the value before it returns its own error.
        assert!(Refused::abi_decode(&inner).is_err());
        let refuse = encode(refuseCall { number: U256::from(3) });
        let refused = chain.by(bob).send(caller, callOtherCall { to: callee, data: refuse }).err().unwrap();
        let inner = Refused::abi_decode(&refused.error::<CalleeFailed>().unwrap().data).unwrap();
        assert_eq!((inner.number, inner.who), (U256::from(3), caller));
    }
    assert_eq!((chain.balance(one), chain.balance(other)), (U256::from(5), U256::from(5)));
}

#[test]
fn contracts_create_contracts() {
    let (mut chain, [one, other], [alice, _]) = both();
    for (maker, made) in [(one, GENERATIONS[1]), (other, GENERATIONS[0])] {
        let code = compressed(&contract(made));
        let nonce = chain.nonce(maker);
        assert_eq!(nonce, 1, "as EIP-161 has it");
        let child = chain.by(alice).value(U256::from(9)).send(maker, createCall { code: code.clone() }).unwrap().output;
        assert_eq!((child, chain.balance(child)), (maker.create(nonce), U256::from(9)));
        // No constructor ran, since none was requested.
        assert_eq!(chain.view(child, scalarsCall {})._4, Address::ZERO);

        let with_arguments = |number: u64| -> Bytes {
            let arguments = U256::from(number).to_be_bytes::<32>();
            creation::with_arguments(&contract(made).wasm, &arguments).unwrap().into()
        };
        let (salt, code) = (keccak256("salt"), with_arguments(8));
        let call = create2Call { code: code.clone(), salt };
        let child = chain.by(alice).send(maker, call.clone()).unwrap().output;
        assert_eq!(child, maker.create2_from_code(salt, &code));
        let scalars = chain.view(child, scalarsCall {});
        assert_eq!((scalars._0, scalars._4), (U256::from(8), maker));
        // A second deployment at one address fails, and a constructor's error is passed on to the caller.
        let refused = chain.by(alice).send(maker, call).err().unwrap();
        assert!(refused.error::<CalleeFailed>().unwrap().data.is_empty());
        let refused = chain.by(alice).send(maker, createCall { code: with_arguments(13) }).err().unwrap();
        let inner = Refused::abi_decode(&refused.error::<CalleeFailed>().unwrap().data).unwrap();
        assert_eq!((inner.number, inner.who), (U256::from(13), maker));
    }
}

#[test]
fn transient_storage_lasts_one_transaction() {
    let (mut chain, [one, other], [alice, _]) = both();
    let (key, value) = (keccak256("key"), keccak256("value"));
    let many = chain.by(alice).deploy(&contract("multicall3"), ()).unwrap();
    for probe in [one, other] {
        let call = |data| Call3 { target: probe, allowFailure: true, callData: data };
        let calls = vec![
            call(encode(transientStoreCall { key, value })),
            call(encode(transientLoadCall { key })),
            // A failed call's writes are reverted.
            call(encode(delegateCallOtherCall { to: many, data: Bytes::from(b"no function") })),
            call(encode(transientLoadCall { key })),
        ];
        let answers = chain.by(alice).send(many, aggregate3Call { calls }).unwrap().output;
        assert_eq!(answers.iter().map(|answer| answer.success).collect::<Vec<_>>(), [true, true, false, true]);
        for answer in [&answers[1], &answers[3]] {
            assert_eq!(B256::from_slice(&answer.returnData), value);
        }
        assert_eq!(chain.view(probe, transientLoadCall { key }), B256::ZERO, "another transaction");
    }
}

#[test]
fn events_and_errors_are_decoded() {
    let (mut chain, probes, [alice, _]) = both();
    for probe in probes {
        let told = chain.by(alice).send(probe, tellCall { text: "hello".into() }).unwrap();
        let event = &told.events_of::<Told>(probe)[0];
        assert_eq!((event.who, event.number, event.text.as_str()), (alice, U256::from(7), "hello"));
        let topics: Vec<_> = (0..4).map(B256::with_last_byte).collect();
        for count in 0..=4 {
            let raw = tellRawCall { topics: topics[..count].to_vec(), data: Bytes::from(vec![1; 40]) };
            let log = &chain.by(alice).send(probe, raw).unwrap().logs[0];
            assert_eq!((&log.topics[..], log.data.len()), (&topics[..count], 40));
        }
        let refused = chain.by(alice).send(probe, refuseCall { number: U256::from(1) }).err().unwrap();
        assert_eq!(refused.error::<Refused>().unwrap().who, alice);
        let panicked = chain.by(alice).send(probe, panicCall {}).err().unwrap();
        assert!(!matches!(panicked.end, ExecutionStatus::Success) && panicked.data.is_empty(), "{panicked:?}");
    }
}

#[test]
fn contract_reads_its_context() {
    let (chain, probes, [alice, _]) = both();
    for probe in probes {
        let place = chain.clone().by(alice).call(probe, placeCall {}).unwrap();
        let (height, time) = (U256::from(chain.height()), U256::from(chain.time()));
        assert_eq!((place._0, place._1, place._2, place._3), (U256::from(31_337), height, time, alice));
        assert_eq!((place._4, place._5), (alice, probe));
        let person = chain.view(probe, accountCall { of: alice });
        assert_eq!((person._0, person._1, person._2), (chain.balance(alice), U256::ZERO, keccak256([])));
        let nobody = chain.view(probe, accountCall { of: Address::repeat_byte(0x99) });
        assert_eq!((nobody._0, nobody._1, nobody._2), (U256::ZERO, U256::ZERO, B256::ZERO));
        let code = chain.view(probe, accountCall { of: probe });
        assert!(code._1 > U256::from(10_000) && !code._2.is_zero());
        assert_eq!(chain.view(probe, hashCall { data: Bytes::from(b"abc") }), keccak256("abc"));
    }
}
