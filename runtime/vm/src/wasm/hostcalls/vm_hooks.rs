//! Functions of `vm_hooks`, by group.

use super::{Call, Frame, Outcome, Stop, perform};
use crate::block_reads::BlockField;
use crate::host::CallKind;
use crate::wasm::gas::{self, INK_PER_GAS};
use alloy_primitives::U256;
use corniche_abi::VM_HOOKS_MODULE;
use wasmtime::{Caller, Linker};

/// Binds one function of the table.
macro_rules! hook {
    ($linker:ident, $name:ident($call:ident $(, $argument:ident: $ty:ty)*) -> $result:ty $body:block) => {{
        let name = stringify!($name);
        let ink = corniche_abi::find(name).ok_or_else(|| wasmtime::Error::msg("a host call is missing in the table"))?.ink;
        $linker.func_wrap(VM_HOOKS_MODULE, name, move |caller: Caller<'_, Frame>, $($argument: $ty),*| -> wasmtime::Result<$result> {
            perform(caller, name, ink, |$call: &mut Call<'_>| -> Outcome<$result> { $body })
        })?;
    }};
}

/// Binds all functions of the table.
pub(super) fn link(linker: &mut Linker<Frame>) -> wasmtime::Result<()> {
    input_output(linker)?;
    storage(linker)?;
    calls(linker)?;
    accounts(linker)?;
    environment(linker)?;
    arithmetic(linker)?;
    memory_growth(linker)
}

/// Input and output.
fn input_output(linker: &mut Linker<Frame>) -> wasmtime::Result<()> {
    hook!(linker, read_args(call, destination: i32) -> () {
        call.charge_bytes(call.caller.data().input.len())?;
        call.write_own(destination, |frame| &frame.input)
    });
    hook!(linker, write_result(call, data: i32, length: i32) -> () {
        call.charge(gas::INK_PER_RESULT_BYTE * u64::from(length as u32))?;
        let output = call.read_bytes(data, length)?;
        call.frame().output = output;
        Ok(())
    });
    hook!(linker, exit_early(call, status: i32) -> () {
        let _ = call;
        Err(Stop::Exit(status))
    });
    Ok(())
}

/// Storage.
fn storage(linker: &mut Linker<Frame>) -> wasmtime::Result<()> {
    hook!(linker, storage_load_bytes32(call, key: i32, destination: i32) -> () {
        let key = call.word(key)?;
        let value = call.storage_load(key)?;
        call.write(destination, value.as_slice())
    });
    hook!(linker, storage_cache_bytes32(call, key: i32, value: i32) -> () {
        let (key, value) = (call.word(key)?, call.word(value)?);
        call.storage_cache(key, value)
    });
    hook!(linker, storage_flush_cache(call, clear: i32) -> () { call.storage_flush(clear != 0) });
    hook!(linker, transient_load_bytes32(call, key: i32, destination: i32) -> () {
        let (key, gas_left) = (call.word(key)?, call.gas_left());
        let loaded = call.host().transient_load(&key, gas_left);
        let value = call.charge_result(loaded)?;
        call.write(destination, value.as_slice())
    });
    hook!(linker, transient_store_bytes32(call, key: i32, value: i32) -> () {
        let (key, value, gas_left) = (call.word(key)?, call.word(value)?, call.gas_left());
        let stored = call.host().transient_store(&key, &value, gas_left);
        call.charge_result(stored)
    });
    hook!(linker, emit_log(call, data: i32, length: i32, topics: i32) -> () { call.emit_log(data, length, topics) });
    Ok(())
}

/// Calls and creations.
fn calls(linker: &mut Linker<Frame>) -> wasmtime::Result<()> {
    hook!(linker, call_contract(call, to: i32, data: i32, length: i32, value: i32, gas: i64, length_out: i32) -> i32 {
        let value = call.number(value)?;
        call.call(CallKind::Call, to, (data, length), value, gas, length_out)
    });
    hook!(linker, delegate_call_contract(call, to: i32, data: i32, length: i32, gas: i64, length_out: i32) -> i32 {
        call.call(CallKind::Delegate, to, (data, length), U256::ZERO, gas, length_out)
    });
    hook!(linker, static_call_contract(call, to: i32, data: i32, length: i32, gas: i64, length_out: i32) -> i32 {
        call.call(CallKind::Static, to, (data, length), U256::ZERO, gas, length_out)
    });
    hook!(linker, create1(call, code: i32, length: i32, endowment: i32, address_out: i32, length_out: i32) -> () {
        call.create((code, length), endowment, None, address_out, length_out)
    });
    hook!(linker, create2(call, code: i32, length: i32, endowment: i32, salt: i32, address_out: i32, length_out: i32) -> () {
        call.create((code, length), endowment, Some(salt), address_out, length_out)
    });
    hook!(linker, return_data_size(call) -> i32 { Ok(call.frame().return_data.len() as i32) });
    hook!(linker, read_return_data(call, destination: i32, offset: i32, size: i32) -> i32 {
        let data = call.frame().return_data.clone();
        call.write_part(destination, &data, offset, size)
    });
    Ok(())
}

/// Accounts.
fn accounts(linker: &mut Linker<Frame>) -> wasmtime::Result<()> {
    hook!(linker, account_balance(call, address: i32, destination: i32) -> () {
        let (address, gas_left) = (call.address(address)?, call.gas_left());
        let balance = call.host().balance(&address, gas_left);
        let balance = call.charge_result(balance)?;
        call.write_number(destination, balance)
    });
    hook!(linker, account_code(call, address: i32, offset: i32, size: i32, destination: i32) -> i32 {
        let code = call.code_of(address)?;
        call.write_part(destination, &code, offset, size)
    });
    hook!(linker, account_code_size(call, address: i32) -> i32 { Ok(call.code_of(address)?.len() as i32) });
    hook!(linker, account_codehash(call, address: i32, destination: i32) -> () {
        let (address, gas_left) = (call.address(address)?, call.gas_left());
        let hash = call.host().code_hash(&address, gas_left);
        let hash = call.charge_result(hash)?;
        call.write(destination, hash.as_slice())
    });
    Ok(())
}

/// The block, the transaction, the frame.
fn environment(linker: &mut Linker<Frame>) -> wasmtime::Result<()> {
    hook!(linker, block_basefee(call, destination: i32) -> () {
        let fee = call.host().block(BlockField::BaseFee).base_fee;
        call.write_number(destination, U256::from(fee))
    });
    hook!(linker, block_coinbase(call, destination: i32) -> () {
        let coinbase = call.host().block(BlockField::Coinbase).coinbase;
        call.write(destination, coinbase.as_slice())
    });
    hook!(linker, block_gas_limit(call) -> i64 { Ok(call.host().block(BlockField::GasLimit).gas_limit as i64) });
    hook!(linker, block_number(call) -> i64 { Ok(call.host().block(BlockField::Number).number as i64) });
    hook!(linker, block_timestamp(call) -> i64 { Ok(call.host().block(BlockField::Timestamp).timestamp as i64) });
    hook!(linker, chainid(call) -> i64 { Ok(call.host().block(BlockField::ChainId).chain_id as i64) });
    hook!(linker, contract_address(call, destination: i32) -> () {
        let address = call.host().context().address;
        call.write(destination, address.as_slice())
    });
    hook!(linker, msg_sender(call, destination: i32) -> () {
        let caller = call.host().context().caller;
        call.write(destination, caller.as_slice())
    });
    hook!(linker, msg_value(call, destination: i32) -> () {
        let value = call.host().context().value;
        call.write_number(destination, value)
    });
    hook!(linker, msg_reentrant(call) -> i32 { Ok(i32::from(call.host().context().reentrant)) });
    hook!(linker, tx_origin(call, destination: i32) -> () {
        let origin = call.host().context().origin;
        call.write(destination, origin.as_slice())
    });
    hook!(linker, tx_gas_price(call, destination: i32) -> () {
        let price = call.host().context().gas_price;
        call.write_number(destination, U256::from(price))
    });
    hook!(linker, tx_ink_price(call) -> i32 {
        let _ = call;
        Ok(INK_PER_GAS as i32)
    });
    hook!(linker, evm_gas_left(call) -> i64 { Ok(call.gas_left() as i64) });
    hook!(linker, evm_ink_left(call) -> i64 { Ok(call.ink as i64) });
    Ok(())
}

/// Arithmetic and hashing. Division or modulus by zero gives zero.
fn arithmetic(linker: &mut Linker<Frame>) -> wasmtime::Result<()> {
    hook!(linker, native_keccak256(call, data: i32, length: i32, output: i32) -> () { call.keccak(data, length, output) });
    hook!(linker, math_div(call, value: i32, divisor: i32) -> () {
        call.math(value, divisor, |value, divisor| value.checked_div(divisor).unwrap_or_default())
    });
    hook!(linker, math_mod(call, value: i32, modulus: i32) -> () {
        call.math(value, modulus, |value, modulus| value.checked_rem(modulus).unwrap_or_default())
    });
    hook!(linker, math_pow(call, value: i32, exponent: i32) -> () { call.math_pow(value, exponent) });
    hook!(linker, math_add_mod(call, value: i32, addend: i32, modulus: i32) -> () {
        call.math_modulo(value, addend, modulus, |value, addend, modulus| value.add_mod(addend, modulus))
    });
    hook!(linker, math_mul_mod(call, value: i32, factor: i32, modulus: i32) -> () {
        call.math_modulo(value, factor, modulus, |value, factor, modulus| value.mul_mod(factor, modulus))
    });
    Ok(())
}

/// Instrumentation charges for growth when it happens; contracts still announce it.
fn memory_growth(linker: &mut Linker<Frame>) -> wasmtime::Result<()> {
    hook!(linker, pay_for_memory_grow(call, pages: i32) -> () {
        let _ = (call, pages);
        Ok(())
    });
    Ok(())
}
