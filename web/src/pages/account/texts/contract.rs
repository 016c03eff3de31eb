//! Texts about contracts: their code, their interface, and the forms that call them.

use std::fmt::Display;

pub const CODE: &str = "Code";
pub const INTERFACE: &str = "ABI";
pub const READ: &str = "Read contract";
pub const WRITE: &str = "Write contract";
pub const EVENTS: &str = "Events";
pub const NONE: &str = "no contract at this address";
pub const MADE_BY_NOBODY: &str = "unknown: a genesis contract, or created by another contract";
pub const MADE_IN: &str = "at txn";
pub const CODE_HASH: &str = "Code hash";
pub const DEPLOYED: &str = "Deployed size";
pub const COMPRESSED: &str = "compressed";
pub const MODULE: &str = "WebAssembly module";
pub const FUNCTIONS: &str = "Functions";
pub const OF_CODE: &str = "of code";
pub const MEMORY: &str = "Initial memory";
/// Label of a number of pages of 64 KiB.
pub const PAGES: &str = "pages:";
pub const PROBLEM: &str = "Parse error";
pub const VERIFICATION: &str = "Source verification";
pub const SOURCE: &str = "Source code";
pub const SOURCE_NOT_SHOWN: &str = "Not verified: this explorer accepts no source code.";
pub const SOURCE_NOT_SHOWN_SHORT: &str = "not verified; how to verify";
pub const VERIFY: &str =
    "To check that a source builds to exactly this code, run this command in the directory of the contract:";
pub const COPY_COMMAND: &str = "Copy command";
pub const VERIFY_PRINTS: &str = "If the code matches, the command prints this code hash:";
/// Explains how the command works and what it does not compare.
pub const VERIFY_HOW: &str = "The command builds the source, reads the code at this address from the node that --rpc names, and compares the \
     two byte for byte. On a mismatch it shows the first difference. Constructor arguments and storage are not \
     compared. A build runs the build scripts of the source: build the source of a stranger only in a sandbox.";
pub const IMPORTS: &str = "Imports";
pub const IMPORTS_NOTE: &str = "Host functions that the module uses: storage, calls, logs and others.";
pub const EXPORTS: &str = "Exports";
pub const EXPORTS_NOTE: &str = "Functions that the module exports. Calls of the contract enter at user_entrypoint.";
pub const SECTIONS: &str = "Custom sections";
pub const SECTIONS_NOTE: &str = "Data in the module that is not executed. corniche.abi is the ABI.";
pub const FROM_MODULE: &str = "Module";
pub const NAME: &str = "Name";
pub const KIND: &str = "Kind";
pub const SIZE: &str = "Size";
/// Note below a list that is cut off; the number of missing entries follows.
pub const AND_MORE: &str = "Not shown:";
pub const SOURCE_MODULE: &str = "The ABI is embedded in the module by the deployer. It is not verified.";
pub const SOURCE_UPLOADED: &str = "A visitor uploaded this ABI. Most of its function selectors occur in the code. The names and the behaviour of \
     the functions are not verified.";
pub const SOURCE_NOBODY: &str = "No ABI: the module has none, and none was uploaded. Calls and events are shown as bytes.";
pub const SOURCE_MODULE_SHORT: &str = "embedded in the module, not verified";
pub const SOURCE_UPLOADED_SHORT: &str = "uploaded, not verified";
pub const SOURCE_NOBODY_SHORT: &str = "none; upload one";
pub const ERRORS: &str = "Errors";
pub const JSON: &str = "JSON";
pub const JSON_FILE: &str = "Download ABI";
pub const COPY_JSON: &str = "Copy ABI";
pub const UPLOAD: &str = "Upload an ABI";
pub const UPLOAD_NOTE: &str = "Enter the JSON ABI that a compiler writes. At least three in four of its function selectors must occur in the \
     code of the contract. The ABI is marked as uploaded and is visible to everyone. It cannot be replaced here.";
pub const UPLOAD_DO: &str = "Upload";
pub const NO_JSON: &str =
    "Invalid ABI: expected a JSON array of functions, events and errors, or an object with the field \"abi\".";
/// Upload error; the maximum size follows.
pub const TOO_LARGE: &str = "ABI too large: expected at most";
pub const NO_INTERFACE: &str = "The functions of this contract are unknown, because it has no ABI.";
pub const READ_NOTE: &str = "Calls the contract at the latest block. The call is free and changes nothing.";
pub const NOTHING_TO_READ: &str = "This contract has no read-only functions.";
pub const WRITE_NOTE: &str = "Sends a transaction. You pay gas; the change is permanent.";
pub const BY_STANDARD: &str =
    "The ABI of this contract does not contain this function. The form below follows the token standard.";
pub const NOTHING_TO_WRITE: &str = "This contract has no functions that change its state.";
pub const ASK: &str = "Query";
/// Button label; the function's name follows.
pub const SEND: &str = "Send";
pub const COINS: &str = "Value";
pub const EARLIER: &str = "Previous functions";
pub const LATER: &str = "Next functions";
pub const RETURNED_NOTHING: &str = "The function returned no value.";
pub const RETURNED_OTHER: &str = "The return data does not match the ABI, or it is too large to decode:";
pub const NO_ANSWER: &str = "Node unavailable.";
pub const TOO_MANY_FIELDS: &str = "No form: the function has too many parameters.";
pub const ADDRESS_HINT: &str = "0x and 40 hexadecimal digits";
pub const TOO_LONG: &str = "value too long for a transaction";
pub const NO_AMOUNT: &str = "Enter a number with at most 18 decimals";
pub const WALLET: &str = "Wallet";
pub const WALLET_NEEDS_SCRIPT: &str =
    "Sending requires JavaScript and a wallet. Without them, the form shows the calldata to send by other means.";
pub const CONNECT: &str = "Connect wallet";
pub const BY_HAND: &str = "Not sent. Calldata for a transaction to this contract:";
pub const BY_COMMAND: &str = "From the command line:";
pub const EVENT: &str = "Event";
pub const ALL_EVENTS: &str = "All events";
pub const SHOW: &str = "Filter";
pub const BAD_EVENT: &str = "Invalid event: expected its first topic (0x and 64 hexadecimal digits).";
pub const BAD_SELECTOR: &str = "Invalid function: expected its selector (8 hexadecimal digits).";
pub const NO_SELECTOR: &str = "No function: the parameter f must be a selector.";

/// Upload error: only `found` of the interface's `all` functions have their selector in the code.
pub fn not_mentioned(found: usize, all: usize) -> String {
    format!(
        "ABI rejected: {found} of {all} function selectors occur in the code; expected at least three in four. A proxy contract \
         has no functions of its own; upload the ABI at its implementation."
    )
}

/// Error: the interface has no function with this selector.
pub fn no_function(selector: &str) -> String {
    format!("The ABI of this contract has no function with the selector 0x{selector}.")
}

/// Error: a read-only function was requested on the page that sends transactions.
pub fn only_reads(function: &str) -> String {
    format!("{function} is read-only: call it on the page \"{READ}\".")
}

/// Error: a function that changes state was requested on the page that only reads.
pub fn changes(function: &str) -> String {
    format!("{function} changes the state: call it on the page \"{WRITE}\".")
}

/// Command that sends a call. Each argument in `arguments` starts with a space.
pub fn send(address: impl Display, signature: &str, arguments: &str) -> String {
    format!("corniche contract send {address} {signature}{arguments}")
}

/// `command` with an amount of wei to send.
pub fn with_value(command: &str, wei: impl Display) -> String {
    format!("{command} --value {wei}")
}
