//! Texts about contracts: their code, their interface, and the forms that call them.

use std::fmt::Display;

/// Tab title.
pub const CODE: &str = "Code";
/// Tab title.
pub const INTERFACE: &str = "ABI";
/// Tab title.
pub const READ: &str = "Read contract";
/// Tab title.
pub const WRITE: &str = "Write contract";
/// Tab title.
pub const EVENTS: &str = "Events";
/// Error: the account has no code.
pub const NONE: &str = "no contract at this address";
/// Replaces the creator if no known transaction created the contract.
pub const MADE_BY_NOBODY: &str = "unknown: a genesis contract, or created by another contract";
/// Text between the creator and the transaction.
pub const MADE_IN: &str = "in";
/// Row label.
pub const CODE_HASH: &str = "Code hash";
/// Row label.
pub const DEPLOYED: &str = "Deployed size";
/// Tag after the size of compressed code.
pub const COMPRESSED: &str = "compressed";
/// Row label.
pub const MODULE: &str = "WebAssembly module";
/// Row label, and heading in the interface.
pub const FUNCTIONS: &str = "Functions";
/// Follows the size of the functions' code.
pub const OF_CODE: &str = "of code";
/// Row label.
pub const MEMORY: &str = "Initial memory";
/// Follows the number of memory pages.
pub const PAGES: &str = "pages";
/// Row label.
pub const PROBLEM: &str = "Parse error";
/// Heading.
pub const VERIFICATION: &str = "Source verification";
/// Row label.
pub const SOURCE: &str = "Source code";
/// Value of [`SOURCE`]. The explorer accepts no source code, so no other value exists.
pub const SOURCE_NOT_SHOWN: &str = "Not verified: this explorer accepts no source code.";
/// Short form of [`SOURCE_NOT_SHOWN`].
pub const SOURCE_NOT_SHOWN_SHORT: &str = "not verified; how to verify";
/// Text above the command that verifies the source.
pub const VERIFY: &str =
    "To check that a source builds to exactly this code, run this command in the directory of the contract:";
/// Button label.
pub const COPY_COMMAND: &str = "Copy command";
/// Text before the code hash.
pub const VERIFY_PRINTS: &str = "If the code matches, the command prints this code hash:";
/// Explains how the command works and what it does not compare.
pub const VERIFY_HOW: &str = "The command builds the source, reads the code at this address from the node that --rpc names, and compares the \
     two byte for byte. On a mismatch it shows the first difference. Constructor arguments and storage are not \
     compared. A build runs the build scripts of the source: build the source of a stranger only in a sandbox.";
/// Heading.
pub const IMPORTS: &str = "Imports";
/// Explains [`IMPORTS`].
pub const IMPORTS_NOTE: &str = "Host functions that the module uses: storage, calls, logs and others.";
/// Heading.
pub const EXPORTS: &str = "Exports";
/// Explains [`EXPORTS`].
pub const EXPORTS_NOTE: &str = "Functions that the module exports. Calls of the contract enter at user_entrypoint.";
/// Heading.
pub const SECTIONS: &str = "Custom sections";
/// Explains [`SECTIONS`].
pub const SECTIONS_NOTE: &str = "Data in the module that is not executed. corniche.abi is the ABI.";
/// Column header.
pub const FROM_MODULE: &str = "Module";
/// Column header.
pub const NAME: &str = "Name";
/// Column header.
pub const KIND: &str = "Kind";
/// Column header.
pub const SIZE: &str = "Size";
/// Note below a list that is cut off; the number of missing entries follows.
pub const AND_MORE: &str = "Not shown:";
/// Origin of the interface: the module.
pub const SOURCE_MODULE: &str = "The ABI is embedded in the module by the deployer. It is not verified.";
/// Origin of the interface: an upload.
pub const SOURCE_UPLOADED: &str = "A visitor uploaded this ABI. Most of its function selectors occur in the code. The names and the behaviour of \
     the functions are not verified.";
/// Note for a contract without an interface.
pub const SOURCE_NOBODY: &str = "No ABI: the module has none, and none was uploaded. Calls and events are shown as bytes.";
/// Short form of [`SOURCE_MODULE`].
pub const SOURCE_MODULE_SHORT: &str = "embedded in the module, not verified";
/// Short form of [`SOURCE_UPLOADED`].
pub const SOURCE_UPLOADED_SHORT: &str = "uploaded, not verified";
/// Short form of [`SOURCE_NOBODY`].
pub const SOURCE_NOBODY_SHORT: &str = "none; upload one";
/// Heading in the interface.
pub const ERRORS: &str = "Errors";
/// Heading in the interface, and field label of the upload form.
pub const JSON: &str = "JSON";
/// Link to the interface as a JSON file.
pub const JSON_FILE: &str = "Download ABI";
/// Button label.
pub const COPY_JSON: &str = "Copy ABI";
/// Heading and link label.
pub const UPLOAD: &str = "Upload an ABI";
/// Explains [`UPLOAD`].
pub const UPLOAD_NOTE: &str = "Enter the JSON ABI that a compiler writes. At least three in four of its function selectors must occur in the \
     code of the contract. The ABI is marked as uploaded and is visible to everyone. It cannot be replaced here.";
/// Button label.
pub const UPLOAD_DO: &str = "Upload";
/// Upload error.
pub const NO_JSON: &str =
    "Invalid ABI: expected a JSON array of functions, events and errors, or an object with the field \"abi\".";
/// Upload error; the maximum size follows.
pub const TOO_LARGE: &str = "ABI too large: expected at most";
/// Upload error.
pub const CARRIED: &str = "the module contains an ABI, which an upload cannot replace";
/// Upload error.
pub const TAKEN: &str = "an ABI was already uploaded for this contract, and it cannot be replaced; see the top of this page";
/// Upload error.
pub const NO_CONTRACT: &str = "no contract at this address in the indexed blocks";
/// Upload error.
pub const BUSY: &str = "upload queue full or indexer busy; retry in a moment";
/// Upload error.
pub const STOPPED: &str = "the indexer has stopped and accepts no uploads";
/// Note on a page without forms, and error for a call without an interface.
pub const NO_INTERFACE: &str = "The functions of this contract are unknown, because it has no ABI.";
/// Explains [`READ`].
pub const READ_NOTE: &str = "Calls the contract at the latest block. The call is free and changes nothing.";
/// Note on a page without forms.
pub const NOTHING_TO_READ: &str = "This contract has no read-only functions.";
/// Explains [`WRITE`].
pub const WRITE_NOTE: &str = "Sends a transaction. You pay gas; the change is permanent.";
/// Text above the form of a token-standard function that the interface does not contain.
pub const BY_STANDARD: &str =
    "The ABI of this contract does not contain this function. The form below follows the token standard.";
/// Note on a page without forms.
pub const NOTHING_TO_WRITE: &str = "This contract has no functions that change its state.";
/// Button label.
pub const ASK: &str = "Query";
/// Button label; the function's name follows.
pub const SEND: &str = "Send";
/// Label of the field for the amount of the chain's currency.
pub const COINS: &str = "Value";
/// Link to the previous functions.
pub const EARLIER: &str = "Previous functions";
/// Link to the next functions.
pub const LATER: &str = "Next functions";
/// Result below the form.
pub const RETURNED_NOTHING: &str = "The function returned no value.";
/// Result below the form.
pub const RETURNED_OTHER: &str = "The return data does not match the ABI, or it is too large to decode:";
/// Result below the form.
pub const NO_ANSWER: &str = "Node unavailable.";
/// Note for a function without a form.
pub const TOO_MANY_FIELDS: &str = "No form: the function has too many parameters.";
/// Placeholder of an address field.
pub const ADDRESS_HINT: &str = "0x and 40 hexadecimal digits";
/// Field error.
pub const TOO_DEEP: &str = "this type is too large or nested too deeply for a form";
/// Field error.
pub const TOO_LONG: &str = "value too long for a transaction";
/// Field error.
pub const NO_AMOUNT: &str = "Enter a number with at most 18 decimals";
/// Heading.
pub const WALLET: &str = "Wallet";
/// Text for browsers without scripts.
pub const WALLET_NEEDS_SCRIPT: &str =
    "Sending requires JavaScript and a wallet. Without them, the form shows the calldata to send by other means.";
/// Button label.
pub const CONNECT: &str = "Connect wallet";
/// Text above the bytes of a call.
pub const BY_HAND: &str = "Not sent. Calldata for a transaction to this contract:";
/// Text above a command.
pub const BY_COMMAND: &str = "From the command line:";
/// Field label.
pub const EVENT: &str = "Event";
/// Option that selects all events.
pub const ALL_EVENTS: &str = "All events";
/// Button label.
pub const SHOW: &str = "Filter";
/// Error: invalid event topic.
pub const BAD_EVENT: &str = "Invalid event: expected its first topic (0x and 64 hexadecimal digits).";
/// Error: invalid selector.
pub const BAD_SELECTOR: &str = "Invalid function: expected its selector (8 hexadecimal digits).";
/// Error: the request contains no selector.
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

/// Field error: the text is no value of this type.
pub fn no_value(kind: &str) -> String {
    format!("invalid {kind}")
}

/// Command that compares a source with the code.
pub fn verify(address: impl Display) -> String {
    format!("corniche contract verify {address}")
}

/// Command that sends a call. Each argument in `arguments` starts with a space.
pub fn send(address: impl Display, signature: &str, arguments: &str) -> String {
    format!("corniche contract send {address} {signature}{arguments}")
}

/// `command` with an amount of wei to send.
pub fn with_value(command: &str, wei: impl Display) -> String {
    format!("{command} --value {wei}")
}
