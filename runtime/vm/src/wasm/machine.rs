//! The engine as the machine for the rules of state.

use super::engine::WasmEngine;
use super::error::CompileError;
use super::{creation, gas};
use crate::host::{Entry, Exit, ExitStatus, Host};
use crate::machine::{Code, Deployment, Machine, Prepared};
use crate::outcome::{ExecutionStatus, Fault};
use alloy_primitives::{Bytes, keccak256};
use corniche_abi::ABI_VERSION;
use corniche_state::AccountCode;
use corniche_types::StakingParameters;

impl Machine for WasmEngine {
    fn run(&self, account: AccountCode, code: Code<'_>, host: &mut dyn Host, entry: Entry) -> Exit {
        // Manually created states may omit the version.
        match gas::schedule(account.gas_version.max(1)) {
            Some(schedule) => self.run_code(schedule, &account.hash, code, host, entry),
            None => Exit::failed(ExitStatus::Fault(format!("code of an account has gas version {}", account.gas_version))),
        }
    }

    fn staking(&self) -> Option<&StakingParameters> {
        WasmEngine::staking(self)
    }

    fn prepare(&self, data: &Bytes, gas: u64, gas_version: u8) -> Prepared {
        let Some(schedule) = gas::schedule(gas_version) else {
            return Prepared {
                gas: 0,
                contract: Err(ExecutionStatus::Fault(Fault(format!("the rules name gas version {gas_version}")))),
            };
        };
        // Unpacking, validation and compilation are paid in advance; the price of every creation covers the rest of
        // decoding.
        let unpacking = gas::unpack_gas(creation::compressed_bytes(data));
        if unpacking > gas {
            return Prepared { gas: unpacking, contract: Err(ExecutionStatus::OutOfGas) };
        }
        let parsed = match creation::parse_creation(data) {
            Ok(parsed) => parsed,
            Err(error) => return Prepared { gas: unpacking, contract: Err(ExecutionStatus::Refused(error.to_string())) },
        };
        // Minimum price of decoding and refusing the module. An accepted module also pays for its branches.
        let least = unpacking + schedule.compile_gas(parsed.wasm.len(), []);
        if least > gas {
            return Prepared { gas: least, contract: Err(ExecutionStatus::OutOfGas) };
        }
        let code_hash = keccak256(&parsed.stored_code);
        match self.compile_under(schedule, &code_hash, &parsed.wasm, gas - unpacking) {
            Ok(contract) => Prepared {
                gas: unpacking + contract.compile_gas(),
                contract: Ok(Deployment {
                    code: parsed.stored_code,
                    code_hash,
                    abi_version: ABI_VERSION,
                    gas_version,
                    constructor_input: parsed.constructor_input,
                }),
            },
            Err(CompileError::OutOfGas { needed }) => {
                Prepared { gas: unpacking + needed, contract: Err(ExecutionStatus::OutOfGas) }
            }
            Err(CompileError::Fault(text) | CompileError::Start(text)) => {
                Prepared { gas: least, contract: Err(ExecutionStatus::Fault(Fault(text))) }
            }
            Err(error @ (CompileError::Invalid(_) | CompileError::Unpack(_))) => {
                Prepared { gas: least, contract: Err(ExecutionStatus::Refused(error.to_string())) }
            }
        }
    }

    fn call_permit(&self) -> Option<Box<dyn Send>> {
        WasmEngine::call_permit(self).map(|permit| Box::new(permit) as Box<dyn Send>)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wasm::creation::EOF_PREFIX;
    use crate::wasm::{EngineConfig, NoCache};
    use std::sync::Arc;

    /// A bit writer; the lowest bit of each number comes first, as in brotli.
    #[derive(Default)]
    struct Bits(Vec<u8>, u32);

    impl Bits {
        fn put(&mut self, value: u32, count: u32) {
            for bit in 0..count {
                if self.1.is_multiple_of(8) {
                    self.0.push(0);
                }
                *self.0.last_mut().unwrap() |= ((value >> bit & 1) as u8) << (self.1 % 8);
                self.1 += 1;
            }
        }

        /// Writes a prefix code with one symbol.
        fn code(&mut self, symbol: u32, bits: u32) {
            self.put(0b0001, 4);
            self.put(symbol, bits);
        }
    }

    /// Meta-blocks of 84 bytes that write one byte each, and make the decoder fill a map of 16,384 contexts and move
    /// entries to the front.
    fn maps(bytes: usize) -> Vec<u8> {
        let mut bits = Bits::default();
        bits.put(0, 1);
        while bits.0.len() + 84 < bytes {
            bits.put(0, 3); // not the last; four nibbles
            bits.put(0, 17); // of one byte, compressed
            bits.put(0b111_1111_1111, 11); // 256 types of literal blocks
            bits.code(0, 9);
            bits.code(0, 5);
            bits.put(0, 2); // the first block is one literal long
            bits.put(0, 2); // one type of commands and of distances
            bits.put(0, 6);
            (0..256).for_each(|_| bits.put(0, 2)); // a context mode for each type
            bits.put(0b0001, 4); // two trees
            bits.put(0b11111, 5); // runs of up to 2^16
            bits.code(13, 5);
            bits.put(0, 13); // 8,192 zeros
            bits.put(0, 13); // another 8,192 zeros
            bits.put(1, 1); // move to front
            bits.put(0, 1); // one tree of distances
            bits.code(0, 8);
            bits.code(1, 8);
            bits.code(8, 10); // one literal
            bits.code(0, 6);
        }
        bits.put(0b11, 2);
        bits.0
    }

    /// Creation data that is expensive to decode and then refused.
    fn refused() -> Vec<(&'static str, Bytes)> {
        let packed = |stream: &[u8]| Bytes::from([&EOF_PREFIX[..], &[0], stream].concat());
        let mut damaged = maps(120_000);
        damaged.truncate(119_000);
        vec![("nothing", packed(&[])), ("maps", packed(&maps(120_000))), ("damaged maps", packed(&damaged))]
    }

    #[test]
    fn failed_unpacking_is_paid() {
        let engine =
            WasmEngine::new(&EngineConfig { executors: 1, callers: 0, ..EngineConfig::default() }, Arc::new(NoCache)).unwrap();
        for (name, data) in refused() {
            let price = gas::GAS_UNPACK + gas::GAS_UNPACK_PER_BYTE * data.len() as u64;
            let prepared = engine.prepare(&data, price, gas::LATEST.version);
            assert!(matches!(&prepared.contract, Err(ExecutionStatus::Refused(_))), "{name}: {:?}", prepared.contract);
            assert_eq!(prepared.gas, price, "{name}");
            // Nothing is unpacked without enough gas.
            let prepared = engine.prepare(&data, price - 1, gas::LATEST.version);
            assert!(matches!(prepared.contract, Err(ExecutionStatus::OutOfGas)), "{name}");
        }
        // The map has its intended effect: if complete, its content is refused, not its encoding.
        let (_, whole) = &refused()[1];
        assert!(
            matches!(engine.prepare(whole, 1 << 30, gas::LATEST.version).contract, Err(ExecutionStatus::Refused(why)) if why.contains("not WebAssembly"))
        );
    }

    /// `cargo test -p corniche-vm --lib -- --ignored --nocapture measure_unpacking`
    #[test]
    #[ignore = "prints figures"]
    #[allow(clippy::disallowed_types, clippy::print_stdout)]
    fn measure_unpacking() {
        for (name, data) in refused() {
            let once = || {
                let start = std::time::Instant::now();
                assert!(creation::parse_creation(&data).is_err());
                start.elapsed()
            };
            let best = (0..9).map(|_| once()).min().unwrap();
            let price = gas::unpack_gas(creation::compressed_bytes(&data));
            println!("{name}: {best:?} for {price} gas, {:.1} ns per gas", best.as_nanos() as f64 / price as f64);
        }
    }
}
