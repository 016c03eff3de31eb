//! Answers queries of tools for Stylus contracts about programs, at the addresses that these tools use: 0x71, and 0x72
//! for the cache.
//!
//! On Arbitrum, code is activated after its deployment, for a fee and a limited time. Here the deployment does
//! everything, so all deployed code is active, for free and forever. `cargo stylus check` simulates code at an address
//! and activates it by a call, which pays for validation like all simulated code. `cargo stylus deploy` deploys and
//! then activates once more, which changes nothing.
//!
//! | function | answer |
//! |---|---|
//! | `activateProgram(address)` | version, and a fee of 0; sent wei is returned. Without code: `ProgramNotWasm()` |
//! | `programVersion(address)`, `programTimeLeft(address)` | version; 2^64 − 1 seconds. Without code: `ProgramNotActivated()` |
//! | `codehashVersion(bytes32)` | `ProgramNotActivated()`: no search by hash here; the tool then checks the code |
//! | `stylusVersion()`, `inkPrice()`, `pageLimit()`, `expiryDays()`, `keepaliveDays()` | 2; ink of one gas; 128; 2^16 − 1; 0 |
//! | at 0x72: `allCacheManagers()` | none: there are no bids for places in a cache |
//! | at 0x72: `codehashIsCached(bytes32)` | true: no purchase could make it cheaper |
//!
//! Each call costs [`PRICE`], plus EIP-2929's price for an account that it reads. Everything else reverts without data,
//! and so does a value sent to anything except an activation. No function changes state.

use crate::{
    frame::{Message, World},
    host::CallKind,
    outcome::{ExecutionStatus, FrameOutcome},
    precompile::STYLUS_CACHE,
    wasm::gas::INK_PER_GAS,
};
use alloy_primitives::{Address, Bytes, U256};

/// Gas per call.
const PRICE: u64 = 200;
/// Stylus version with all host functions.
const VERSION: u64 = 2;
const PAGES: u64 = 128;
const EXPIRY_DAYS: u64 = u16::MAX as u64;

const ACTIVATE: [u8; 4] = [0x58, 0xc7, 0x80, 0xc2];
const PROGRAM_VERSION: [u8; 4] = [0xcc, 0x8f, 0x4e, 0x88];
const TIME_LEFT: [u8; 4] = [0xc7, 0x75, 0xa6, 0x2a];
const CODEHASH_VERSION: [u8; 4] = [0xd7, 0x0c, 0x0c, 0xa7];
const STYLUS_VERSION: [u8; 4] = [0xa9, 0x96, 0xe0, 0xc2];
const INK_PRICE: [u8; 4] = [0xd1, 0xc1, 0x7a, 0xbc];
const PAGE_LIMIT: [u8; 4] = [0x97, 0x86, 0xf9, 0x6e];
const EXPIRY: [u8; 4] = [0x30, 0x9f, 0x65, 0x55];
const KEEPALIVE: [u8; 4] = [0x0a, 0x93, 0x64, 0x55];
const CACHE_MANAGERS: [u8; 4] = [0x0e, 0xc1, 0xd7, 0x73];
const IS_CACHED: [u8; 4] = [0xa7, 0x2f, 0x17, 0x9b];
const NOT_WASM: [u8; 4] = [0x27, 0xf3, 0x82, 0x12];
const NOT_ACTIVATED: [u8; 4] = [0x6f, 0x80, 0x9c, 0x4e];

/// An answer, before gas is charged.
enum QueryResult {
    Words(Vec<u64>),
    Revert(&'static [u8]),
}

impl World<'_> {
    /// Handles a call to an address for which [`is_stylus`](crate::precompile::is_stylus) is true; its value has already been transferred.
    pub fn stylus(&mut self, message: &Message) -> FrameOutcome {
        let (selector, argument) = match message.input.split_first_chunk() {
            Some((selector, rest)) => (*selector, rest.first_chunk::<32>()),
            None => ([0; 4], None),
        };
        let address =
            argument.and_then(|word| word[..12].iter().all(|byte| *byte == 0).then(|| Address::from_slice(&word[12..])));
        let cache = message.code_of == STYLUS_CACHE;
        let looks = !cache && matches!(selector, ACTIVATE | PROGRAM_VERSION | TIME_LEFT);
        let mut price = PRICE;
        let mut is_program = false;
        if let Some(address) = address.filter(|_| looks && message.gas >= PRICE) {
            price += self.access_account(&address);
            is_program = message.gas >= price && self.journal.account_code(&address).is_contract();
        }
        let Some(gas_left) = message.gas.checked_sub(price) else { return FrameOutcome::failed(ExecutionStatus::OutOfGas, 0) };
        let paid = message.kind == CallKind::Call && !message.value.is_zero();
        let answer = match selector {
            _ if paid && (cache || selector != ACTIVATE) => QueryResult::Revert(&[]),
            // Offset of the array, and its length.
            CACHE_MANAGERS if cache => QueryResult::Words(vec![32, 0]),
            IS_CACHED if cache && argument.is_some() => QueryResult::Words(vec![1]),
            _ if cache => QueryResult::Revert(&[]),
            _ if looks && address.is_none() => QueryResult::Revert(&[]),
            ACTIVATE if is_program => QueryResult::Words(vec![VERSION, 0]),
            ACTIVATE => QueryResult::Revert(&NOT_WASM),
            _ if looks && !is_program => QueryResult::Revert(&NOT_ACTIVATED),
            PROGRAM_VERSION | STYLUS_VERSION => QueryResult::Words(vec![VERSION]),
            TIME_LEFT => QueryResult::Words(vec![u64::MAX]),
            CODEHASH_VERSION if argument.is_some() => QueryResult::Revert(&NOT_ACTIVATED),
            INK_PRICE => QueryResult::Words(vec![INK_PER_GAS]),
            PAGE_LIMIT => QueryResult::Words(vec![PAGES]),
            EXPIRY => QueryResult::Words(vec![EXPIRY_DAYS]),
            KEEPALIVE => QueryResult::Words(vec![0]),
            _ => QueryResult::Revert(&[]),
        };
        match answer {
            QueryResult::Words(words) => {
                let returned = !paid || self.transfer(&message.address, &message.caller, message.value);
                debug_assert!(returned, "the call has transferred this value");
                let output: Vec<u8> = words.into_iter().flat_map(|word| U256::from(word).to_be_bytes::<32>()).collect();
                FrameOutcome { end: ExecutionStatus::Success, output: output.into(), gas_left }
            }
            QueryResult::Revert(data) => {
                FrameOutcome { end: ExecutionStatus::Revert, output: Bytes::from_static(data), gas_left }
            }
        }
    }
}
