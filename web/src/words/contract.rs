//! Texts about contracts: their code, their interface, and the forms that call them.

use std::fmt::Display;

/// Tab title.
pub const CODE: &str = "Code";
/// Tab title.
pub const INTERFACE: &str = "Interface";
/// Tab title.
pub const READ: &str = "Read";
/// Tab title.
pub const WRITE: &str = "Write";
/// Tab title.
pub const EVENTS: &str = "Events";
/// Error: the account has no code.
pub const NONE: &str = "there is no contract at this address, so there is nothing to show here";
/// Replaces the creator if no known transaction created the contract.
pub const MADE_BY_NOBODY: &str = "not known: it was there from the first block on, or another contract made it";
/// Text between the creator and the transaction.
pub const MADE_IN: &str = "in";
/// Row label.
pub const CODE_HASH: &str = "Code hash";
/// Row label.
pub const DEPLOYED: &str = "As deployed";
/// Tag after the size of compressed code.
pub const COMPRESSED: &str = "compressed";
/// Row label.
pub const MODULE: &str = "WebAssembly module";
/// Row label, and heading in the interface.
pub const FUNCTIONS: &str = "Functions";
/// Follows the size of the functions' code.
pub const OF_CODE: &str = "of code";
/// Row label.
pub const MEMORY: &str = "Memory to begin with";
/// Follows the number of memory pages.
pub const PAGES: &str = "pages";
/// Row label.
pub const PROBLEM: &str = "Cannot be read because";
/// Heading.
pub const VERIFICATION: &str = "Source verification";
/// Row label.
pub const SOURCE: &str = "Source";
/// Value of [`SOURCE`]. The explorer accepts no source code, so no other value exists.
pub const SOURCE_NOT_SHOWN: &str = "Not verified: this explorer takes no source code.";
/// Short form of [`SOURCE_NOT_SHOWN`].
pub const SOURCE_NOT_SHOWN_SHORT: &str = "not verified here: how to check it yourself";
/// Text above the command that verifies the source.
pub const VERIFY: &str =
    "If you have the source, you can check that it builds to exactly this code. Run this in the folder of the contract:";
/// Button label.
pub const COPY_COMMAND: &str = "Copy the command";
/// Text before the code hash.
pub const VERIFY_PRINTS: &str = "If it does, the command says so and prints this code hash:";
/// Explains how the command works and what it does not compare.
pub const VERIFY_HOW: &str = "The command builds the source, asks the node that --rpc names for the code at this address, \
     and compares the two byte for byte. If they differ, it says where. This explorer has no part in it. The arguments of \
     the constructor and what the contract has stored are not compared. To build a source is to run its build scripts: build \
     that of a stranger where it can do no harm.";
/// Heading.
pub const IMPORTS: &str = "Imports";
/// Explains [`IMPORTS`].
pub const IMPORTS_NOTE: &str = "What the module asks the chain for: storage, calls, logs and the like.";
/// Heading.
pub const EXPORTS: &str = "Exports";
/// Explains [`EXPORTS`].
pub const EXPORTS_NOTE: &str = "What the module offers. A contract is entered by user_entrypoint.";
/// Heading.
pub const SECTIONS: &str = "Custom sections";
/// Explains [`SECTIONS`].
pub const SECTIONS_NOTE: &str = "What the module carries and does not run. corniche.abi is its interface.";
/// Column header.
pub const FROM_MODULE: &str = "From";
/// Column header.
pub const NAME: &str = "Name";
/// Column header.
pub const KIND: &str = "Kind";
/// Column header.
pub const SIZE: &str = "Size";
/// Note below a list that is cut off; the number of missing entries follows.
pub const AND_MORE: &str = "More that are not shown:";
/// Origin of the interface: the module.
pub const SOURCE_MODULE: &str =
    "The interface is carried in the module itself: whoever deployed the contract put it there, and nobody has checked it.";
/// Origin of the interface: an upload.
pub const SOURCE_UPLOADED: &str = "The interface was uploaded to this explorer: it is whatever its uploader said. Most of its functions' selectors stand in \
     the code; what they are called and what they do, nobody has checked.";
/// Note for a contract without an interface.
pub const SOURCE_NOBODY: &str =
    "This contract carries no interface, and nobody has uploaded one: its calls and events are shown as bytes.";
/// Short form of [`SOURCE_MODULE`].
pub const SOURCE_MODULE_SHORT: &str = "carried in the module, nobody has checked it";
/// Short form of [`SOURCE_UPLOADED`].
pub const SOURCE_UPLOADED_SHORT: &str = "uploaded by somebody, nobody has checked it";
/// Short form of [`SOURCE_NOBODY`].
pub const SOURCE_NOBODY_SHORT: &str = "none: upload one";
/// Heading in the interface.
pub const ERRORS: &str = "Errors";
/// Heading in the interface, and field label of the upload form.
pub const JSON: &str = "JSON";
/// Link to the interface as a JSON file.
pub const JSON_FILE: &str = "The interface as a file";
/// Button label.
pub const COPY_JSON: &str = "Copy the interface";
/// Heading and link label.
pub const UPLOAD: &str = "Upload an interface";
/// Explains [`UPLOAD`].
pub const UPLOAD_NOTE: &str = "The JSON ABI as compilers write it. This explorer keeps it for everybody if at least three in four of its functions' selectors \
     stand in the contract's code, and says that somebody uploaded it. The first one stays: nobody can put another in its place here.";
/// Button label.
pub const UPLOAD_DO: &str = "Upload";
/// Upload error.
pub const NO_JSON: &str =
    "This is no JSON ABI: an array of functions, events and errors, or an object that holds one under \"abi\".";
/// Upload error; the maximum size follows.
pub const TOO_LARGE: &str = "An interface is at most";
/// Upload error.
pub const CARRIED: &str = "this contract carries its interface in its own code, and nothing takes that one's place";
/// Upload error.
pub const TAKEN: &str =
    "somebody uploaded an interface for this contract before, and the first one stays: look at it at the top of this page";
/// Upload error.
pub const NO_CONTRACT: &str = "the blocks that this explorer has read leave no contract at this address";
/// Upload error.
pub const BUSY: &str = "this explorer is busy reading blocks: try again in a moment";
/// Upload error.
pub const STOPPED: &str = "this explorer has stopped reading blocks and keeps nothing new";
/// Note on a page without forms, and error for a call without an interface.
pub const NO_INTERFACE: &str =
    "Nobody has said what this contract's functions are called, so they cannot be called by name here.";
/// Explains [`READ`].
pub const READ_NOTE: &str = "Asks the contract, as it is after the newest block. It costs nothing and changes nothing.";
/// Note on a page without forms.
pub const NOTHING_TO_READ: &str = "It has no functions that only read.";
/// Explains [`WRITE`].
pub const WRITE_NOTE: &str = "Calls the contract by a transaction, which costs a fee and stays.";
/// Text above the form of a token-standard function that the interface does not contain.
pub const BY_STANDARD: &str =
    "The interface of this contract does not list this function. The form below is as the token standards define the function.";
/// Note on a page without forms.
pub const NOTHING_TO_WRITE: &str = "It has no functions that change anything.";
/// Button label.
pub const ASK: &str = "Ask";
/// Button label; the function's name follows.
pub const SEND: &str = "Send";
/// Label of the field for the amount of the chain's currency.
pub const COINS: &str = "Sent with it";
/// Link to the previous functions.
pub const EARLIER: &str = "Functions before";
/// Link to the next functions.
pub const LATER: &str = "Functions after";
/// Result below the form.
pub const RETURNED_NOTHING: &str = "It returned nothing, as its interface says.";
/// Result below the form.
pub const RETURNED_OTHER: &str =
    "It returned something that its interface does not describe, or that is too large to be shown as values:";
/// Result below the form.
pub const NO_ANSWER: &str = "The node does not answer.";
/// Note for a function without a form.
pub const TOO_MANY_FIELDS: &str = "It takes more parameters than a form here has fields for.";
/// Placeholder of an address field.
pub const ADDRESS_HINT: &str = "0x…, 40 digits";
/// Field error.
pub const TOO_DEEP: &str = "this type is too large or too deep to be asked for here";
/// Field error.
pub const TOO_LONG: &str = "this is longer than a transaction can be";
/// Field error.
pub const NO_AMOUNT: &str = "this is no amount: digits, and at most 18 of them after a point";
/// Heading.
pub const WALLET: &str = "Wallet";
/// Text for browsers without scripts.
pub const WALLET_NEEDS_SCRIPT: &str = "To send from here, a browser needs scripts and a wallet. Without them, a form answers with the bytes to send by other means.";
/// Button label.
pub const CONNECT: &str = "Connect a wallet";
/// Text above the bytes of a call.
pub const BY_HAND: &str = "Nothing has been sent. The call, as data of a transaction to this contract:";
/// Text above a command.
pub const BY_COMMAND: &str = "The same from the command line:";
/// Field label.
pub const EVENT: &str = "Event";
/// Option that selects all events.
pub const ALL_EVENTS: &str = "all";
/// Button label.
pub const SHOW: &str = "Show";
/// Error: invalid event topic.
pub const BAD_EVENT: &str = "An event is named by its first topic: 0x and 64 digits.";
/// Error: invalid selector.
pub const BAD_SELECTOR: &str = "A function is named by its selector: 8 hexadecimal digits.";
/// Error: the request contains no selector.
pub const NO_SELECTOR: &str = "No function is named: f is its selector.";

/// Upload error: only `found` of the interface's `all` functions have their selector in the code.
pub fn not_mentioned(found: usize, all: usize) -> String {
    format!(
        "This is not this contract's interface. Functions of it whose selectors stand in the code: {found} of {all}. A contract that hands \
         calls on to another one has no functions of its own."
    )
}

/// Error: the interface has no function with this selector.
pub fn no_function(selector: &str) -> String {
    format!("This contract's interface has no function with the selector 0x{selector}.")
}

/// Error: a read-only function was requested on the page that sends transactions.
pub fn only_reads(function: &str) -> String {
    format!("{function} only reads: it is called from the page \"{READ}\".")
}

/// Error: a function that changes state was requested on the page that only reads.
pub fn changes(function: &str) -> String {
    format!("{function} changes the state: it is called from the page \"{WRITE}\".")
}

/// Field error: the text is no value of this type.
pub fn no_value(kind: &str) -> String {
    format!("this is no {kind}")
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
