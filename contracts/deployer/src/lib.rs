//! Creates a contract and calls its constructor in one transaction, with the interface that `cargo stylus deploy` expects.
//!
//! Every genesis contains this contract at the address that the tool uses. So it is written like `multicall3`: without an SDK, an
//! allocator or panics, and with the same memory module.
//!
//! - `deploy(bytes code, bytes call, uint256 value, bytes32 salt) returns (address)` creates the contract, and calls it with
//!   `call` and `value` unless `call` is empty. It refunds the excess and logs `ContractDeployed(address)`. If `salt` is zero,
//!   the address depends on the number of earlier creations; otherwise it depends on code, salt and call.
//! - `initSalt(bytes32 salt, bytes call) returns (bytes32)` returns the salt that determines the address: keccak256 of both.
//!
//! Revert data of the new contract is passed on in `ContractInitializationError(address,bytes)`. A deployment includes
//! activation, so there is no activation fee. Differences from the published contract: `ContractDeploymentError(bytes)` does not
//! repeat the code, and inconsistent arguments revert without data.
#![cfg(target_arch = "wasm32")]
#![no_std]

mod hooks;
#[allow(dead_code)] // some functions are used by multicall3 only
#[path = "../../multicall3/src/memory.rs"]
mod memory;

use memory::{input, Output, Place};

/// keccak256("ContractDeployed(address)")
const DEPLOYED: [u8; 32] = [
    0x8f, 0xfc, 0xdc, 0x15, 0xa2, 0x83, 0xd7, 0x06, 0xd3, 0x82, 0x81, 0xf5, 0x00, 0x27, 0x0d, 0x8b, 0x5a, 0x65, 0x69, 0x18,
    0xf5, 0x55, 0xde, 0x09, 0x13, 0xd7, 0x45, 0x5e, 0x3e, 0x6b, 0xc1, 0xbf,
];

/// A revert. The output holds the revert data, if there is any.
struct Refusal;

/// Turns a missing value into a revert without data.
trait Needed<T> {
    fn needed(self) -> Result<T, Refusal>;
}

impl<T> Needed<T> for Option<T> {
    fn needed(self) -> Result<T, Refusal> {
        self.ok_or(Refusal)
    }
}

#[no_mangle]
pub extern "C" fn user_entrypoint(length: usize) -> usize {
    let (input, mut output) = input(length);
    let refused = run(input, &mut output).is_err();
    output.write();
    refused.into()
}

fn run(input: Place, output: &mut Output) -> Result<(), Refusal> {
    let (selector, arguments) = input.selector().needed()?;
    match selector {
        // deploy(bytes,bytes,uint256,bytes32)
        0xa9a8_e4e9 => deploy(arguments, output),
        // initSalt(bytes32,bytes), not payable
        0x9f40_b385 if hooks::value() == [0; 32] => {
            let salt = salt_of(arguments.word(0).needed()?, arguments.bytes(32).needed()?, output)?;
            output.word(&salt).needed()
        }
        _ => Err(Refusal),
    }
}

fn deploy(arguments: Place, output: &mut Output) -> Result<(), Refusal> {
    let (code, call) = (arguments.bytes(0).needed()?, arguments.bytes(32).needed()?);
    let (value, salt) = (arguments.word(64).needed()?, arguments.word(96).needed()?);
    let excess = difference(&hooks::value(), value).needed()?;
    if code.length() == 0 {
        // EmptyBytecode()
        return refuse(output, 0x2174_4a59);
    }
    let salt = if *salt == [0; 32] { None } else { Some(salt_of(salt, call, output)?) };
    let contract = match hooks::create(code, salt.as_ref()) {
        Ok(contract) => contract,
        Err(0) => {
            // ContractDeploymentError(bytes)
            let _ = refuse(output, 0x794c_92ce);
            output.number(32).needed()?;
            output.number(0).needed()?;
            return Err(Refusal);
        }
        Err(returned) => {
            output.returned_bare(returned).needed()?;
            return Err(Refusal);
        }
    };
    let mut word = [0; 32];
    word[12..].copy_from_slice(&contract);
    if call.length() != 0 {
        if let Err(returned) = hooks::call(&contract, call, value) {
            // ContractInitializationError(address,bytes)
            let _ = refuse(output, 0x88d8_f57d);
            output.word(&word).needed()?;
            output.number(64).needed()?;
            output.number(returned as u64).needed()?;
            output.returned(returned).needed()?;
            return Err(Refusal);
        }
    } else if *value != [0; 32] {
        // InitValueButNotInitData()
        return refuse(output, 0x00cc_7971);
    }
    if excess != [0; 32] && hooks::call(&hooks::sender(), Place::EMPTY, &excess).is_err() {
        // RefundExcessValueError(uint256)
        let _ = refuse(output, 0x3ea9_9169);
        output.word(&excess).needed()?;
        return Err(Refusal);
    }
    let mut event = [0; 64];
    event[..32].copy_from_slice(&DEPLOYED);
    event[32..].copy_from_slice(&word);
    hooks::log(&event);
    output.word(&word).needed()
}

/// Reverts with the error of this selector. Arguments may follow.
fn refuse(output: &mut Output, error: u32) -> Result<(), Refusal> {
    output.append(&error.to_be_bytes()).needed()?;
    Err(Refusal)
}

/// Returns keccak256(salt ‖ call). The output is the buffer: it must be empty before the call, and is empty afterwards.
fn salt_of(salt: &[u8; 32], call: Place, output: &mut Output) -> Result<[u8; 32], Refusal> {
    output.word(salt).needed()?;
    output.append(call.contents()).needed()?;
    Ok(hooks::keccak256(output.leave()))
}

/// Returns `one` - `other`, or `None` if `other` is larger.
fn difference(one: &[u8; 32], other: &[u8; 32]) -> Option<[u8; 32]> {
    let (mut rest, mut borrowed) = (*one, false);
    for (digit, other) in rest.iter_mut().zip(other).rev() {
        let (once, first) = digit.overflowing_sub(*other);
        let (twice, second) = once.overflowing_sub(borrowed.into());
        (*digit, borrowed) = (twice, first || second);
    }
    (!borrowed).then_some(rest)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
