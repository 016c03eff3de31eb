//! The Multicall3 contract of every genesis, on the virtual machine.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

mod common;
use alloy_primitives::{Address, Bytes, U256, keccak256};
use common::{GAS, TestState, context, module, selector, wasm};
use corniche_vm::host::{Exit, ExitStatus, FrameContext};

/// The module in every genesis.
const FROZEN: &[u8] = include_bytes!("../../../contracts/multicall3/multicall3.wasm");

const ECHO: Address = Address::repeat_byte(0xec);
const PAID: Address = Address::repeat_byte(0xbd);
const NOBODY: Address = Address::repeat_byte(0x0b);

#[test]
fn frozen_code_matches_source() {
    assert_eq!(
        keccak256(FROZEN),
        keccak256(wasm("multicall3")),
        "another compiler, or the source has changed: freeze it anew deliberately"
    );
    assert_eq!(
        keccak256(FROZEN).to_string(),
        "0xef8677226fad7c560b89dfbdf418624607e8c2fc3a628da7a2e42b6422c0f562",
        "changing it changes every new genesis"
    );
}

/// A world with two contracts. One returns its input, or reverts with it if it starts with byte 8. The other returns
/// the value it received.
fn world() -> TestState {
    let hooks = r#"(import "vm_hooks" "read_args" (func $args (param i32)))
        (import "vm_hooks" "write_result" (func $result (param i32 i32)))
        (import "vm_hooks" "msg_value" (func $value (param i32)))"#;
    let echo = "(call $args (i32.const 0)) (call $result (i32.const 0) (local.get $length)) (i32.eq (i32.load8_u (i32.const 0)) (i32.const 8))";
    let paid = "(call $value (i32.const 0)) (call $result (i32.const 0) (i32.const 32)) (i32.const 0)";
    let mut world = TestState::default();
    world.code.insert(ECHO, module(hooks, echo));
    world.code.insert(PAID, module(hooks, paid));
    world
}

/// One call of a batch.
#[derive(Clone, Default)]
struct Call {
    to: Address,
    lenient: Option<bool>,
    value: Option<U256>,
    data: Vec<u8>,
}

fn call(to: Address, data: &[u8]) -> Call {
    Call { to, data: data.to_vec(), ..Call::default() }
}

fn word(number: u64) -> [u8; 32] {
    U256::from(number).to_be_bytes()
}

fn bytes(data: &[u8]) -> Vec<u8> {
    let padding = data.len().next_multiple_of(32) - data.len();
    [&word(data.len() as u64)[..], data, &vec![0; padding]].concat()
}

impl Call {
    fn encode(&self) -> Vec<u8> {
        let mut head = vec![self.to.into_word().0];
        head.extend(self.lenient.map(|lenient| word(lenient.into())));
        head.extend(self.value.map(|value| value.to_be_bytes()));
        head.push(word(32 * (head.len() as u64 + 1)));
        [head.as_flattened(), &bytes(&self.data)].concat()
    }
}

fn list(elements: &[Vec<u8>]) -> Vec<u8> {
    let mut offset = 32 * elements.len();
    let offsets = elements.iter().map(|element| {
        offset += element.len();
        word((offset - element.len()) as u64)
    });
    let offsets: Vec<_> = offsets.collect();
    [&word(elements.len() as u64)[..], offsets.as_flattened(), &elements.concat()].concat()
}

/// Encodes a call with leading arguments and an array of calls.
fn input(signature: &str, leading: &[u64], calls: &[Call]) -> Vec<u8> {
    let mut head: Vec<_> = leading.iter().map(|argument| word(*argument)).collect();
    head.push(word(32 * (head.len() as u64 + 1)));
    let calls: Vec<_> = calls.iter().map(Call::encode).collect();
    [&selector(signature)[..], head.as_flattened(), &list(&calls)].concat()
}

fn send(input: &[u8], value: u64) -> Exit {
    world().run_in(FROZEN, FrameContext { value: U256::from(value), ..context() }, input, GAS)
}

fn must(input: &[u8]) -> Bytes {
    let exit = send(input, 0);
    assert_eq!(exit.status, ExitStatus::Return, "{}", exit.output);
    exit.output
}

/// (bool success, bytes data)
fn outcome(success: bool, data: &[u8]) -> Vec<u8> {
    [&word(success.into())[..], &word(64), &bytes(data)].concat()
}

/// Encodes these words and the array of outcomes, to which the last word is the offset.
fn answer(words: &[u64], elements: &[Vec<u8>]) -> Vec<u8> {
    let words: Vec<_> = words.iter().map(|number| word(*number)).collect();
    [words.as_flattened(), &list(elements)].concat()
}

fn error(text: &str) -> Vec<u8> {
    [&[0x08, 0xc3, 0x79, 0xa0][..], &word(32), &bytes(text.as_bytes())].concat()
}

const AGGREGATE: &str = "aggregate((address,bytes)[])";
const AGGREGATE3: &str = "aggregate3((address,bool,bytes)[])";
const AGGREGATE3_VALUE: &str = "aggregate3Value((address,bool,uint256,bytes)[])";
const BLOCK_AND_AGGREGATE: &str = "blockAndAggregate((address,bytes)[])";
const TRY_AGGREGATE: &str = "tryAggregate(bool,(address,bytes)[])";
const TRY_BLOCK_AND_AGGREGATE: &str = "tryBlockAndAggregate(bool,(address,bytes)[])";

fn good() -> Vec<Call> {
    vec![call(ECHO, b"one"), call(NOBODY, b"two"), call(ECHO, &[1; 33]), call(ECHO, &[2; 64])]
}

fn good_outcomes() -> Vec<Vec<u8>> {
    vec![outcome(true, b"one"), outcome(true, b""), outcome(true, &[1; 33]), outcome(true, &[2; 64])]
}

#[test]
fn every_aggregate_function() {
    let plain: Vec<_> = [&b"one"[..], b"", &[1; 33], &[2; 64]].map(bytes).into();
    assert_eq!(must(&input(AGGREGATE, &[], &good())), answer(&[42, 64], &plain));
    assert_eq!(must(&input(TRY_AGGREGATE, &[0], &good())), answer(&[32], &good_outcomes()));
    assert_eq!(must(&input(TRY_AGGREGATE, &[1], &good())), answer(&[32], &good_outcomes()));
    for leading in [&[][..], &[0], &[1]] {
        let signature = if leading.is_empty() { BLOCK_AND_AGGREGATE } else { TRY_BLOCK_AND_AGGREGATE };
        assert_eq!(must(&input(signature, leading, &good())), answer(&[42, 0, 96], &good_outcomes()));
    }
    let lenient = |lenient| good().into_iter().map(|call| Call { lenient: Some(lenient), ..call }).collect::<Vec<_>>();
    for calls in [lenient(true), lenient(false)] {
        assert_eq!(must(&input(AGGREGATE3, &[], &calls)), answer(&[32], &good_outcomes()));
    }
    for signature in [AGGREGATE3, AGGREGATE3_VALUE] {
        assert_eq!(must(&input(signature, &[], &[])), answer(&[32], &[]));
    }
    assert_eq!(must(&input(AGGREGATE, &[], &[])), answer(&[42, 64], &[]));
}

#[test]
fn failed_call_reverts_or_is_reported() {
    let calls = [call(ECHO, b"good"), call(ECHO, b"\x08bad"), call(ECHO, b"after")];
    let told = [outcome(true, b"good"), outcome(false, b"\x08bad"), outcome(true, b"after")];
    assert_eq!(must(&input(TRY_AGGREGATE, &[0], &calls)), answer(&[32], &told));
    assert_eq!(must(&input(TRY_BLOCK_AND_AGGREGATE, &[0], &calls)), answer(&[42, 0, 96], &told));
    let lenient = |which: [bool; 3]| -> Vec<Call> {
        calls.iter().zip(which).map(|(call, lenient)| Call { lenient: Some(lenient), ..call.clone() }).collect()
    };
    assert_eq!(must(&input(AGGREGATE3, &[], &lenient([false, true, false]))), answer(&[32], &told));
    for refused in [
        input(AGGREGATE, &[], &calls),
        input(BLOCK_AND_AGGREGATE, &[], &calls),
        input(TRY_AGGREGATE, &[1], &calls),
        input(TRY_BLOCK_AND_AGGREGATE, &[1], &calls),
        input(AGGREGATE3, &[], &lenient([true, false, true])),
    ] {
        let exit = send(&refused, 0);
        assert_eq!((exit.status, &exit.output[..]), (ExitStatus::Revert, &error("Multicall3: call failed")[..]));
    }
}

#[test]
fn value_is_forwarded_completely() {
    let paid = |value: u64| Call { to: PAID, lenient: Some(false), value: Some(U256::from(value)), data: vec![] };
    let calls = input(AGGREGATE3_VALUE, &[], &[paid(255), paid(0), paid(700)]);
    let exit = send(&calls, 955);
    let told = [255, 0, 700].map(|value| outcome(true, &word(value)));
    assert_eq!((exit.status, &exit.output[..]), (ExitStatus::Return, &answer(&[32], &told)[..]));
    for value in [954, 956, 0] {
        let exit = send(&calls, value);
        assert_eq!((exit.status, &exit.output[..]), (ExitStatus::Revert, &error("Multicall3: value mismatch")[..]));
    }
    // The sum wraps modulo 2^256, as in the published contract; the call itself fails, since the contract has too
    // little wei.
    let huge = Call { value: Some(U256::MAX), ..paid(0) };
    assert_eq!(send(&input(AGGREGATE3_VALUE, &[], &[huge, paid(6)]), 5).status, ExitStatus::Return);
    // The other functions are payable too, and keep the wei.
    assert_eq!(send(&input(AGGREGATE, &[], &good()), 3).status, ExitStatus::Return);
}

#[test]
fn view_functions() {
    let context = context();
    let block = &context.block;
    let table = [
        ("getBlockNumber()", word(42)),
        ("getChainId()", word(block.chain_id)),
        ("getCurrentBlockGasLimit()", word(block.gas_limit)),
        ("getCurrentBlockTimestamp()", word(block.timestamp)),
        ("getBasefee()", word(block.base_fee)),
        ("getCurrentBlockCoinbase()", block.coinbase.into_word().0),
        ("getLastBlockHash()", word(0)),
        ("getCurrentBlockDifficulty()", word(0)),
    ];
    for (signature, expected) in table {
        assert_eq!(must(&selector(signature))[..], expected, "{signature}");
        let exit = send(&selector(signature), 1);
        assert_eq!((exit.status, exit.output.len()), (ExitStatus::Revert, 0), "{signature} takes no money");
    }
    let asked = [&selector("getEthBalance(address)")[..], ECHO.into_word().as_slice()].concat();
    assert_eq!(must(&asked)[..], word(0xec));
    assert_eq!(must(&[&selector("getBlockHash(uint256)")[..], &word(41)].concat())[..], word(0));
}

#[test]
fn invalid_input_reverts_without_data() {
    let whole = input(AGGREGATE3, &[], &[Call { lenient: Some(true), ..call(ECHO, &[5; 40]) }]);
    assert_eq!(send(&whole, 0).status, ExitStatus::Return);
    // The padding at the end is optional.
    for length in 0..whole.len() - 24 {
        let exit = send(&whole[..length], 0);
        assert_eq!((exit.status, exit.output.len()), (ExitStatus::Revert, 0), "cut to {length}");
    }
    // Offsets, lengths, addresses and booleans, each changed in one byte.
    for at in (4..whole.len() - 64).filter(|at| (at - 4) % 32 < 28) {
        let address = (4 + 3 * 32 + 12..4 + 4 * 32).contains(&at);
        let mut other = whole.clone();
        other[at] ^= 0x80;
        assert_eq!(send(&other, 0).status, if address { ExitStatus::Return } else { ExitStatus::Revert }, "byte {at}");
    }
    for unknown in [&b""[..], b"\x01", b"\x00\x00\x00\x00", b"abcdefgh"] {
        assert_eq!(send(unknown, 0).status, ExitStatus::Revert);
    }
    assert_eq!(send(&selector("getEthBalance(address)"), 0).status, ExitStatus::Revert);
    let lenient = [&selector(TRY_AGGREGATE)[..], &word(2), &word(64), &word(0)].concat();
    assert_eq!(send(&lenient, 0).status, ExitStatus::Revert, "two is no truth");
}

#[test]
fn many_calls_and_large_results() {
    let calls: Vec<_> = (0..200u8).map(|index| Call { lenient: Some(true), ..call(ECHO, &vec![index | 16; 700]) }).collect();
    let told: Vec<_> = calls.iter().map(|call| outcome(true, &call.data)).collect();
    let exit = world().run(FROZEN, &input(AGGREGATE3, &[], &calls), 100_000_000);
    assert_eq!((exit.status, exit.output.len()), (ExitStatus::Return, answer(&[32], &told).len()));
    assert_eq!(exit.output, answer(&[32], &told));
    // A call that calls itself.
    let inner = input(AGGREGATE3, &[], &calls[..2]);
    let mut world = world();
    world.code.insert(common::CONTRACT, FROZEN.to_vec());
    let exit = world.run(FROZEN, &input(AGGREGATE, &[], &[call(common::CONTRACT, &inner)]), GAS);
    assert_eq!(exit.output, answer(&[42, 64], &[bytes(&answer(&[32], &told[..2]))]));
}
