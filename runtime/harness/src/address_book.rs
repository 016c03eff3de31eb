//! Names for traces: labels of accounts, and functions, events and errors from contracts' ABIs.

use crate::contract::Contract;
use crate::revert::Revert;
use crate::symbols::Symbols;
use alloy_dyn_abi::{DynSolValue, EventExt, FunctionExt, JsonAbiExt};
use alloy_json_abi::{Function, JsonAbi, Param};
use alloy_primitives::{Address, B256, Bytes};
use corniche_types::Log;
use corniche_vm::CodeLocation;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Metadata of code: name, interface and symbols.
type CodeMetadata = (String, Arc<JsonAbi>, Option<Arc<Symbols>>);

/// Names for readers of traces. They never affect a result.
#[derive(Clone, Debug, Default)]
pub struct AddressBook {
    labels: BTreeMap<Address, String>,
    /// By address, for contracts deployed in any way.
    interfaces: BTreeMap<Address, Arc<JsonAbi>>,
    /// Metadata by code hash, for contracts that other contracts deploy.
    codes: BTreeMap<B256, CodeMetadata>,
    symbols: BTreeMap<Address, Arc<Symbols>>,
}

impl AddressBook {
    pub fn label(&mut self, address: Address, name: &str) {
        self.labels.insert(address, name.into());
    }

    /// Adds a contract's interface.
    pub fn interface(&mut self, address: Address, abi: JsonAbi) {
        self.interfaces.insert(address, Arc::new(abi));
    }

    /// Adds a contract's symbols: function names and source lines.
    pub fn symbols(&mut self, address: Address, symbols: Symbols) {
        self.symbols.insert(address, Arc::new(symbols));
    }

    /// Adds a contract that may be deployed at `address`.
    pub(crate) fn add_symbols(&mut self, address: Address, contract: &Contract) {
        self.symbols.extend(contract.symbols.clone().map(|symbols| (address, symbols)));
    }

    /// Returns whether symbols of the contract are known.
    pub(crate) fn has_symbols(&self, address: &Address) -> bool {
        self.symbols.contains_key(address)
    }

    /// Describes where a contract's run failed, innermost function first. Empty without symbols.
    pub(crate) fn backtrace(&self, address: &Address, backtrace: &[CodeLocation]) -> Vec<String> {
        self.symbols.get(address).map(|symbols| symbols.describe(backtrace)).unwrap_or_default()
    }

    /// Adds metadata for code with this hash, at any address.
    pub(crate) fn add_code(&mut self, hash: B256, contract: &Contract) {
        let Contract { name, abi, symbols, .. } = contract;
        self.codes.insert(hash, (name.clone(), Arc::new(abi.clone()), symbols.clone()));
    }

    /// Adds the metadata of an account whose code hash is known.
    pub(crate) fn add_by_code_hash(&mut self, address: Address, code_hash: B256) {
        if let Some((name, abi, symbols)) = self.codes.get(&code_hash) {
            self.labels.entry(address).or_insert_with(|| name.clone());
            self.interfaces.entry(address).or_insert_with(|| abi.clone());
            if let Some(symbols) = symbols {
                self.symbols.entry(address).or_insert_with(|| symbols.clone());
            }
        }
    }

    /// Returns the account's label, or the first and last bytes of its address.
    pub fn name(&self, address: &Address) -> String {
        self.labels.get(address).cloned().unwrap_or_else(|| {
            let text = address.to_string();
            format!("{}…{}", &text[..6], &text[38..])
        })
    }

    /// Returns the function that `input` calls, according to the contract's interface.
    pub(crate) fn function(&self, to: &Address, input: &[u8]) -> Option<&Function> {
        let selector = input.first_chunk::<4>()?;
        self.interfaces.get(to)?.functions().find(|function| function.selector() == *selector)
    }

    /// Formats a call, like `transfer(bob, 10)`; as bytes if the function is unknown.
    pub fn call(&self, to: &Address, input: &[u8]) -> String {
        match self.function(to, input).and_then(|function| Some((function, function.abi_decode_input(&input[4..]).ok()?))) {
            Some((function, values)) => format!("{}({})", function.name, self.values(&function.inputs, &values)),
            None => bytes(input),
        }
    }

    /// Formats a call's return value; empty if there are no bytes.
    pub fn output(&self, to: &Address, input: &[u8], output: &[u8]) -> String {
        match self.function(to, input).and_then(|function| function.abi_decode_output(output).ok()) {
            Some(values) => values.iter().map(|value| self.value(value)).collect::<Vec<_>>().join(", "),
            None if output.is_empty() => String::new(),
            None => bytes(output),
        }
    }

    /// Formats revert data: `Error(string)`, `Panic(uint256)`, an error of this or any other known contract, or bytes.
    pub fn error(&self, by: &Address, data: &[u8]) -> String {
        // A contract may forward another contract's error, which its own ABI does not contain.
        let interfaces = self.interfaces.get(by).into_iter().chain(self.interfaces.values()).map(|abi| &**abi);
        match Revert::decode(data, interfaces) {
            Some(Revert::Text(text)) => format!("\"{text}\""),
            Some(Revert::Panic(code)) => format!("panic {}", self.value(&code)),
            Some(Revert::Custom(error, values)) => format!("{}({})", error.name, self.values(&error.inputs, &values)),
            None if data.is_empty() => "without a reason".into(),
            None => bytes(data),
        }
    }

    /// Formats a log, like `Transfer(from: alice, to: bob, value: 10)`. Uses the ABI of the contract whose code emitted
    /// it, otherwise the ABI of the log's address. Behind a proxy these differ.
    pub fn log(&self, by: &Address, log: &Log) -> String {
        let known = [by, &log.address].into_iter().filter_map(|address| self.interfaces.get(address)).find_map(|abi| {
            let event = abi.events().find(|event| log.topics.first() == Some(&event.selector()))?;
            let decoded = event.decode_log_parts(log.topics.iter().copied(), &log.data).ok()?;
            let (mut indexed, mut rest) = (decoded.indexed.iter(), decoded.body.iter());
            let values = event.inputs.iter().map(|input| {
                let value = if input.indexed { indexed.next() } else { rest.next() };
                format!("{}: {}", input.name, value.map(|value| self.value(value)).unwrap_or_default())
            });
            Some(format!("{}({})", event.name, values.collect::<Vec<_>>().join(", ")))
        });
        known.unwrap_or_else(|| {
            let topics: Vec<_> = log.topics.iter().map(|topic| bytes(topic.as_slice())).collect();
            format!("[{}] {}", topics.join(", "), bytes(&log.data))
        })
    }

    fn values(&self, inputs: &[Param], values: &[DynSolValue]) -> String {
        let named = inputs.iter().zip(values).map(|(input, value)| match input.name.as_str() {
            "" => self.value(value),
            name => format!("{name}: {}", self.value(value)),
        });
        named.collect::<Vec<_>>().join(", ")
    }

    fn value(&self, value: &DynSolValue) -> String {
        let list = |values: &[DynSolValue]| values.iter().map(|value| self.value(value)).collect::<Vec<_>>().join(", ");
        match value {
            DynSolValue::Bool(value) => value.to_string(),
            DynSolValue::Int(value, _) => value.to_string(),
            DynSolValue::Uint(value, _) => value.to_string(),
            DynSolValue::Address(address) => self.name(address),
            DynSolValue::FixedBytes(word, size) => bytes(&word[..*size]),
            DynSolValue::Function(function) => bytes(function.as_slice()),
            DynSolValue::Bytes(data) => bytes(data),
            DynSolValue::String(text) => format!("{text:?}"),
            DynSolValue::Array(values) | DynSolValue::FixedArray(values) => format!("[{}]", list(values)),
            DynSolValue::Tuple(values) => format!("({})", list(values)),
        }
    }
}

/// Formats bytes as hexadecimal; truncates long ones.
fn bytes(data: &[u8]) -> String {
    const MAX_BYTES: usize = 68;
    if data.len() <= MAX_BYTES {
        return Bytes::copy_from_slice(data).to_string();
    }
    format!("{}… ({} bytes)", Bytes::copy_from_slice(&data[..MAX_BYTES]), data.len())
}
