//! Precompiles in transactions, calls and contracts. A fixture freezes the output and price of each.

use super::scripts::*;
use crate::{
    Call, PrecompileError,
    host::{CallKind, CallStatus},
    outcome::ExecutionStatus,
    precompile, precompiles,
};
use alloy_primitives::{Address, B256, Bytes, U256, hex};
use ark_ec::AffineRepr;
use corniche_state::KECCAK_EMPTY;

const PLENTY: u64 = 100_000_000;

fn address(number: u16) -> Address {
    Address::from_word(B256::from(U256::from(number)))
}

const SHA256: u16 = 2;
const IDENTITY: u16 = 4;
const PAIRING: u16 = 8;
const BLAKE2: u16 = 9;

struct Vector {
    name: &'static str,
    address: Address,
    gas: u64,
    input: Bytes,
    /// `None` if it fails.
    output: Option<Bytes>,
}

fn vectors() -> Vec<Vector> {
    let bytes = |text: &str| Bytes::from(hex::decode(text.trim_matches('-')).unwrap());
    let lines = include_str!("../../tests/fixtures/precompiles.txt").lines().filter(|line| !line.starts_with('#'));
    let vectors = lines.map(|line| {
        let [name, number, gas, input, output] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        Vector {
            name,
            address: address(u16::from_str_radix(number, 16).unwrap()),
            gas: gas.parse().unwrap(),
            input: bytes(input),
            output: (output != "fails").then(|| bytes(output)),
        }
    });
    vectors.collect()
}

#[test]
fn known_answers_and_prices() {
    let vectors = vectors();
    for precompile in precompiles() {
        assert!(vectors.iter().any(|vector| vector.address == precompile), "{precompile} has no vector");
    }
    let wrong: Vec<_> = vectors.iter().filter_map(|vector| vector.check().err().map(|why| (vector.name, why))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

impl Vector {
    fn check(&self) -> Result<(), String> {
        let precompile = precompile::at(&self.address).unwrap();
        let ended = |gas| precompile.run(&self.input, gas);
        let expect = |gas, end: Result<&Bytes, &str>, gas_left| {
            let ended = ended(gas);
            let as_expected = match end {
                Ok(output) => (&ended.end, &ended.output) == (&ExecutionStatus::Success, output),
                Err("out of gas") => ended.end == ExecutionStatus::OutOfGas,
                Err(_) => matches!(ended.end, ExecutionStatus::Precompile(_)) && ended.output.is_empty(),
            };
            let right = as_expected && ended.gas_left == gas_left;
            if right { Ok(()) } else { Err(format!("with {gas} gas: {ended:?}")) }
        };
        match &self.output {
            Some(output) => {
                expect(PLENTY, Ok(output), PLENTY - self.gas)?;
                expect(self.gas, Ok(output), 0)?;
            }
            None => expect(PLENTY, Err("fails"), 0)?,
        }
        self.gas.checked_sub(1).map_or(Ok(()), |less| expect(less, Err("out of gas"), 0))
    }
}

#[test]
fn pairing_of_many_pairs() {
    let vectors = vectors();
    let find = |name| vectors.iter().find(|vector| vector.name == name).unwrap().input.clone();
    let (one, opposites) = (find("pairing-one"), find("pairing-opposites"));
    let run = |input: Vec<u8>| precompile::at(&address(PAIRING)).unwrap().run(&input.into(), PLENTY);
    let pairs = |count: usize| opposites.repeat(count / 2);
    for count in [16, 34, 100] {
        let ended = run(pairs(count));
        assert_eq!((ended.end, ended.output[31]), (ExecutionStatus::Success, 1));
        assert_eq!(PLENTY - ended.gas_left, 110_000 + 75_000 * count as u64);
        assert_eq!(run([pairs(count), one.to_vec()].concat()).output[31], 0);
    }
}

#[test]
fn rejects_g2_points_outside_subgroup() {
    use ark_bn254::{Fq, Fq2, G2Affine};
    use ark_ff::{BigInteger, PrimeField};
    let points = (1u64..).filter_map(|x| G2Affine::get_point_from_x_unchecked(Fq2::new(Fq::from(x), Fq::from(1u64)), true));
    let outside = points.filter(|point| !point.is_in_correct_subgroup_assuming_on_curve());
    for point in outside.take(20) {
        let (x, y) = point.xy().unwrap();
        let coordinates = [x.c1, x.c0, y.c1, y.c0].map(|part| part.into_bigint().to_bytes_be()).concat();
        let input = [&[0; 64][..], &coordinates].concat();
        let ended = precompile::at(&address(PAIRING)).unwrap().run(&input.into(), PLENTY);
        assert_eq!(ended.end, ExecutionStatus::Precompile(PrecompileError::Point));
    }
}

/// Runs a script as a contract with 100 wei; returns the chain.
fn run(script: impl Fn(&mut Guest<'_>) -> Result<Bytes, Stop> + Send + Sync + 'static) -> Chain {
    let mut chain = Chain::new();
    let to = chain.contract("main", script);
    chain.set_balance(to, 100);
    let receipt = chain.send_to(to).receipt;
    assert!(receipt.success, "{receipt:?}");
    chain
}

#[test]
fn contracts_call_precompiles() {
    run(|guest| {
        for kind in [CallKind::Call, CallKind::Static, CallKind::Delegate] {
            let before = guest.gas;
            let returned = guest.call(kind, address(SHA256), 0, u64::MAX, b"abc")?;
            assert_eq!(returned.status, CallStatus::Success);
            assert_eq!(returned.output[..], hex!("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
            // Always warm, from the start.
            assert_eq!((returned.gas, before - guest.gas), (100 + 72, 100 + 72), "{kind:?}");
        }
        out(0)
    });
}

#[test]
fn failed_precompile_consumes_its_gas() {
    run(|guest| {
        let returned = guest.call(CallKind::Call, address(BLAKE2), 0, 5_000, b"short")?;
        assert_eq!((returned.status, returned.output.len(), returned.gas), (CallStatus::Failure, 0, 100 + 5_000));
        // Like running out of gas.
        let returned = guest.call(CallKind::Call, address(SHA256), 0, 71, b"abc")?;
        assert_eq!((returned.status, returned.output.len(), returned.gas), (CallStatus::Failure, 0, 100 + 71));
        let returned = guest.call(CallKind::Call, address(SHA256), 0, 72, b"abc")?;
        assert_eq!((returned.status, returned.gas), (CallStatus::Success, 100 + 72));
        out(0)
    });
}

#[test]
fn failed_precompile_returns_value() {
    let chain = run(|guest| {
        let (sha, blake) = (address(SHA256), address(BLAKE2));
        // The account does not exist yet, so it is created; the stipend is added.
        let returned = guest.call(CallKind::Call, sha, 3, 0, b"abc")?;
        assert_eq!((returned.status, returned.gas), (CallStatus::Success, 100 + 9_000 + 25_000 + 72 - 2_300));
        let returned = guest.call(CallKind::Call, sha, 4, 0, b"abc")?;
        assert_eq!((returned.status, returned.gas), (CallStatus::Success, 100 + 9_000 + 72 - 2_300));
        let returned = guest.call(CallKind::Call, blake, 5, 0, b"short")?;
        assert_eq!((returned.status, returned.gas), (CallStatus::Failure, 100 + 9_000 + 25_000));
        // A delegate call transfers no value.
        guest.call(CallKind::Delegate, address(IDENTITY), 6, u64::MAX, b"")?;
        out(0)
    });
    assert_eq!((chain.balance(address(SHA256)), chain.balance(address(BLAKE2))), (7, 0));
    assert_eq!(chain.balance(contract("main")), 93);
    assert_eq!(chain.account(address(IDENTITY)), Default::default(), "being called leaves nothing behind");
}

#[test]
fn precompile_has_no_code() {
    run(|guest| {
        let sha = address(SHA256);
        let code = guest.host.code(&sha, guest.gas)?;
        assert_eq!((code.value.len(), code.gas), (0, 100));
        let hash = guest.host.code_hash(&sha, guest.gas)?;
        assert_eq!((hash.value, hash.gas), (B256::ZERO, 100), "nobody sent it anything: it does not exist");
        guest.call(CallKind::Call, sha, 1, 0, b"")?;
        assert_eq!(guest.host.code_hash(&sha, guest.gas)?.value, KECCAK_EMPTY);
        assert_eq!(guest.host.balance(&sha, guest.gas)?.value, U256::from(1));
        out(0)
    });
}

#[test]
fn depth_and_balance_limit_precompiles() {
    run(|guest| {
        let returned = guest.call(CallKind::Call, address(SHA256), 101, u64::MAX, b"")?;
        assert_eq!(returned.status, CallStatus::Failure, "it has 100 wei");
        out(0)
    });
    let mut chain = Chain::new();
    let to = chain.contract("main", |guest| {
        // Each frame calls the next, and the last call fails: a precompile there would exceed the depth too.
        let deeper = guest.call(CallKind::Call, contract("main"), 0, u64::MAX, b"")?;
        let returned = guest.call(CallKind::Call, address(IDENTITY), 0, u64::MAX, b"x")?;
        let is_last = deeper.status == CallStatus::Failure;
        assert_eq!(returned.status, if is_last { CallStatus::Failure } else { CallStatus::Success });
        out(0)
    });
    let receipt = chain.send(alloy_consensus::TxEip1559 { gas_limit: BLOCK_GAS, ..chain.draft(to) }).receipt;
    assert!(receipt.success, "{receipt:?}");
}

#[test]
fn transactions_call_precompiles() {
    let mut chain = Chain::new();
    let draft = |chain: &Chain, to: u16, input: &'static [u8], gas_limit| alloy_consensus::TxEip1559 {
        input: Bytes::from_static(input),
        gas_limit,
        value: U256::from(7),
        ..chain.draft(address(to))
    };
    let intrinsic = 21_000 + 3 * 16;
    let receipt = chain.send(draft(&chain, SHA256, b"abc", intrinsic + 72)).receipt;
    assert_eq!((receipt.success, receipt.gas_used), (true, intrinsic + 72));
    assert_eq!(receipt.output[..], hex!("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
    assert_eq!(chain.balance(address(SHA256)), 7);
    let receipt = chain.send(draft(&chain, SHA256, b"abc", intrinsic + 71)).receipt;
    assert_eq!((receipt.success, receipt.gas_used), (false, intrinsic + 71));
    assert_eq!(receipt.output, b"out of gas"[..]);
    let receipt = chain.send(draft(&chain, BLAKE2, b"abc", intrinsic + 5_000)).receipt;
    assert_eq!((receipt.success, receipt.gas_used), (false, intrinsic + 5_000));
    assert_eq!(receipt.output, b"precompile: invalid input length"[..]);
    assert_eq!((chain.balance(address(SHA256)), chain.balance(address(BLAKE2))), (7, 0));
}

#[test]
fn calls_and_estimates_use_precompiles() {
    let chain = Chain::new();
    let request = |to: u16, input: &'static [u8]| Call {
        to: Some(address(to)),
        input: Bytes::from_static(input),
        gas: BLOCK_GAS,
        ..Call::default()
    };
    assert_eq!(chain.call(request(IDENTITY, b"hello")).output, b"hello"[..]);
    let estimate = chain.estimate(request(SHA256, b"")).unwrap();
    assert!((21_060..21_060 + 21_060 / 64 + 1).contains(&estimate), "no plain transfer: {estimate}");
    assert_eq!(
        chain.estimate(request(BLAKE2, b"x")).unwrap_err().outcome.end,
        ExecutionStatus::Precompile(PrecompileError::Length)
    );
}

#[test]
fn code_at_precompile_address_never_runs() {
    let mut chain = Chain::new();
    let sha = address(SHA256);
    let other = chain.contract("other", |_| out(5));
    let account = chain.account(other);
    chain.state.accounts.insert(sha, Some(account));
    assert_eq!(chain.call(Call { to: Some(other), gas: BLOCK_GAS, ..Call::default() }).output[..], word(5).0);
    let outcome = chain.call(Call { to: Some(sha), gas: BLOCK_GAS, ..Call::default() });
    assert_eq!(outcome.output[..], hex!("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
}

/// `cargo test -p corniche-vm -p corniche-executor -p corniche-state --lib -- --ignored --nocapture measure_precompiles`
#[test]
#[ignore = "prints figures"]
#[allow(clippy::disallowed_types, clippy::print_stdout)]
fn measure_precompiles() {
    let mut inputs: Vec<(String, Address, Bytes)> =
        vectors().into_iter().map(|vector| (vector.name.into(), vector.address, vector.input)).collect();
    let zeros = |length: usize| Bytes::from(vec![0; length]);
    for number in [2, 3, 4] {
        inputs.extend([100, 100_000].map(|length| (format!("{length} bytes"), address(number), zeros(length))));
    }
    for bytes in [1, 8, 16, 24, 32, 33, 40, 48, 64, 65, 128, 256, 512, 1_024] {
        for exponent in [vec![1], vec![2], vec![3], vec![0xff; 4], vec![0xff; 32], vec![0xff; 33], vec![0xff; 1_024]] {
            for zeros in [0, 1, bytes / 4, bytes / 2, bytes * 3 / 4, bytes - 1] {
                let mut modulus = vec![0xff; bytes];
                modulus[bytes - zeros..].fill(0);
                let lengths = [bytes, exponent.len(), bytes].map(|length| word(length as u64).0);
                let input = [lengths.as_flattened(), &vec![0xfb; bytes], &exponent, &modulus].concat();
                let name = format!("modexp {bytes}^{}({}) mod {bytes}({zeros})", exponent.len(), exponent[0]);
                inputs.push((name, address(5), input.into()));
            }
        }
    }
    for (name, address, input) in inputs {
        let precompile = precompile::at(&address).unwrap();
        let once = || {
            let start = std::time::Instant::now();
            let ended = precompile.run(&input, 1 << 40);
            (start.elapsed(), (1 << 40) - ended.gas_left)
        };
        let (best, gas) = (0..5).map(|_| once()).min().unwrap();
        // Every call also pays its own price.
        let gas = gas + 100;
        if gas < 1 << 40 {
            println!("{address} {name}: {best:?} for {gas} gas: {:.1} ns per gas", best.as_nanos() as f64 / gas as f64);
        }
    }
}
