//! The engine as the rules of state see it.

use super::engine::{CompileError, Entry, WasmEngine};
use super::{creation, gas};
use crate::host::{Exit, Host};
use crate::machine::{Code, Deployment, Machine, Prepared};
use crate::outcome::{End, Fault};
use alloy_primitives::{Bytes, keccak256};
use corniche_abi::ABI_VERSION;
use corniche_state::Account;

impl Machine for WasmEngine {
    fn run(&self, account: &Account, code: Code<'_>, host: &mut dyn Host, entry: Entry) -> Exit {
        self.run_code(&account.code_hash, code, host, entry)
    }

    fn prepare(&self, data: &Bytes, gas: u64) -> Prepared {
        // Reading is covered by what every creation costs (its work is bounded by `MAX_MODULE_BYTES`); checking and compiling are paid first.
        let parsed = match creation::parse_creation(data) {
            Ok(parsed) => parsed,
            Err(error) => return Prepared { gas: 0, contract: Err(End::Refused(error.to_string())) },
        };
        // What reading the module and refusing it costs at least; a module that is accepted pays for its branches too.
        let least = gas::compile_gas(parsed.wasm.len(), []);
        if least > gas {
            return Prepared { gas: least, contract: Err(End::OutOfGas) };
        }
        let code_hash = keccak256(&parsed.stored_code);
        match self.compile_within(&code_hash, &parsed.wasm, gas) {
            Ok(contract) => Prepared {
                gas: contract.compile_gas(),
                contract: Ok(Deployment {
                    code: parsed.stored_code,
                    code_hash,
                    abi_version: ABI_VERSION,
                    gas_version: gas::GAS_VERSION,
                    constructor_input: parsed.constructor_input,
                }),
            },
            Err(CompileError::OutOfGas { needed }) => Prepared { gas: needed, contract: Err(End::OutOfGas) },
            Err(CompileError::Fault(text)) => Prepared { gas: least, contract: Err(End::Fault(Fault(text))) },
            Err(error @ (CompileError::Invalid(_) | CompileError::Unpack(_))) => {
                Prepared { gas: least, contract: Err(End::Refused(error.to_string())) }
            }
        }
    }

    fn call_permit(&self) -> Option<Box<dyn Send>> {
        WasmEngine::call_permit(self).map(|permit| Box::new(permit) as Box<dyn Send>)
    }
}
