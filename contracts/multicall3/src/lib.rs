//! Many calls in one, with the interface of Multicall3, by which wallets and libraries batch their reads.
//!
//! Every genesis contains this contract, so it is optimised for size and gas: no SDK, no allocator, no panics.
//! The input stays in place, and each call takes its input from there. Results are written directly
//! to their place in the output. Memory beyond both is fresh, so unwritten bytes are zero.
//!
//! Differences from the published contract, caused by the chain: contracts cannot read block hashes, and this one cannot read the
//! randomness. So `getBlockHash`, `getLastBlockHash`, block hashes in results, and `getCurrentBlockDifficulty` are zero.
#![cfg(target_arch = "wasm32")]
#![no_std]

mod hooks;
#[allow(dead_code)] // some functions are used by the deployer only
mod memory;

use memory::{input, Output, Place};

/// A revert.
enum Refusal {
    /// Invalid input, or out of memory.
    Bare,
    Because(&'static str),
}

/// Turns a missing value into a revert without data.
trait Needed<T> {
    fn needed(self) -> Result<T, Refusal>;
}

impl<T> Needed<T> for Option<T> {
    fn needed(self) -> Result<T, Refusal> {
        self.ok_or(Refusal::Bare)
    }
}

const CALL_FAILED: Refusal = Refusal::Because("Multicall3: call failed");
const VALUE_MISMATCH: Refusal = Refusal::Because("Multicall3: value mismatch");

/// The fields of a call: words of its head.
#[derive(Clone, Copy)]
enum Form {
    /// (address target, bytes data)
    Plain,
    /// (address target, bool allowFailure, bytes data)
    Lenient,
    /// (address target, bool allowFailure, uint256 value, bytes data)
    Paid,
}

#[derive(Clone, Copy, PartialEq)]
enum Answer {
    /// bytes
    Data,
    /// (bool success, bytes data)
    Outcome,
}

#[no_mangle]
pub extern "C" fn user_entrypoint(length: usize) -> usize {
    let (input, mut output) = input(length);
    let refusal = match run(input, &mut output) {
        Ok(()) => None,
        Err(refusal) => {
            output.clear();
            Some(refusal)
        }
    };
    if let Some(Refusal::Because(text)) = refusal {
        // Error(string). Omitted if there is no room.
        let _ = output.error(text);
    }
    output.write();
    refusal.is_some().into()
}

fn run(input: Place, output: &mut Output) -> Result<(), Refusal> {
    let (selector, arguments) = input.selector().needed()?;
    match selector {
        // aggregate((address,bytes)[])
        0x252d_ba42 => {
            output.number(hooks::block_number()).needed()?;
            output.number(64).needed()?;
            aggregate(arguments, 0, Form::Plain, Answer::Data, false, output)
        }
        // aggregate3((address,bool,bytes)[])
        0x82ad_56cb => {
            output.number(32).needed()?;
            aggregate(arguments, 0, Form::Lenient, Answer::Outcome, false, output)
        }
        // aggregate3Value((address,bool,uint256,bytes)[])
        0x174d_ea71 => {
            output.number(32).needed()?;
            aggregate(arguments, 0, Form::Paid, Answer::Outcome, false, output)
        }
        // tryAggregate(bool,(address,bytes)[])
        0xbce3_8bd7 => {
            let lenient = !arguments.truth(0).needed()?;
            output.number(32).needed()?;
            aggregate(arguments, 32, Form::Plain, Answer::Outcome, lenient, output)
        }
        // tryBlockAndAggregate(bool,(address,bytes)[])
        0x3995_42e9 => {
            let lenient = !arguments.truth(0).needed()?;
            block_and_aggregate(arguments, 32, lenient, output)
        }
        // blockAndAggregate((address,bytes)[])
        0xc307_7fa9 => block_and_aggregate(arguments, 0, false, output),
        _ => view(selector, arguments, output),
    }
}

/// View functions are not payable.
fn view(selector: u32, arguments: Place, output: &mut Output) -> Result<(), Refusal> {
    let paid = hooks::value();
    if paid != [0; 32] {
        return Err(Refusal::Bare);
    }
    let answered = match selector {
        // getBlockNumber()
        0x42cb_b15c => output.number(hooks::block_number()),
        // getChainId()
        0x3408_e470 => output.number(hooks::chain_id()),
        // getCurrentBlockGasLimit()
        0x86d5_16e8 => output.number(hooks::block_gas_limit()),
        // getCurrentBlockTimestamp()
        0x0f28_c97d => output.number(hooks::block_timestamp()),
        // getBasefee()
        0x3e64_a696 => output.word(&hooks::base_fee()),
        // getCurrentBlockCoinbase()
        0xa8b0_574e => output.word(&hooks::coinbase()),
        // getEthBalance(address)
        0x4d23_01cc => arguments.address(0).and_then(|address| output.word(&hooks::balance(address))),
        // getBlockHash(uint256)
        0xee82_ac5e => arguments.word(0).and_then(|_| output.number(0)),
        // getLastBlockHash(), getCurrentBlockDifficulty()
        0x27e8_6d6e | 0x7242_5d9d => output.number(0),
        _ => None,
    };
    answered.needed()
}

fn block_and_aggregate(arguments: Place, calls: usize, lenient: bool, output: &mut Output) -> Result<(), Refusal> {
    output.number(hooks::block_number()).needed()?;
    output.number(0).needed()?;
    output.number(96).needed()?;
    aggregate(arguments, calls, Form::Plain, Answer::Outcome, lenient, output)
}

/// Makes the calls of the array that the argument at `at` points to, and appends the array of results.
fn aggregate(
    arguments: Place,
    at: usize,
    form: Form,
    answer: Answer,
    lenient: bool,
    output: &mut Output,
) -> Result<(), Refusal> {
    let (calls, count) = arguments.array(at).needed()?;
    output.number(count as u64).needed()?;
    let offsets = output.length();
    output.skip(32 * count).needed()?;
    let mut spent = [0; 32];
    for index in 0..count {
        let call = calls.follow(32 * index).needed()?;
        let (lenient, value, data) = match form {
            Form::Plain => (lenient, None, 32),
            Form::Lenient => (call.truth(32).needed()?, None, 64),
            Form::Paid => (call.truth(32).needed()?, Some(call.word(64).needed()?), 96),
        };
        let target = call.address(0).needed()?;
        let data = call.bytes(data).needed()?;
        if let Some(value) = value {
            add(&mut spent, value);
        }
        let (success, length) = hooks::call(target, data, value.unwrap_or(&[0; 32]));
        if !success && !lenient {
            return Err(CALL_FAILED);
        }
        output.number_at(offsets + 32 * index, (output.length() - offsets) as u64);
        if answer == Answer::Outcome {
            output.number(success.into()).needed()?;
            output.number(64).needed()?;
        }
        output.number(length as u64).needed()?;
        output.returned(length).needed()?;
    }
    if matches!(form, Form::Paid) && spent != hooks::value() {
        return Err(VALUE_MISMATCH);
    }
    Ok(())
}

/// Modulo 2^256, as in the published contract.
fn add(sum: &mut [u8; 32], value: &[u8; 32]) {
    let mut carry = 0;
    for (digit, other) in sum.iter_mut().zip(value).rev() {
        let total = u16::from(*digit) + u16::from(*other) + carry;
        *digit = total as u8;
        carry = total >> 8;
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}
