//! Of contracts: what their code says, and how they are asked and changed.

use std::fmt::Display;

/// Parts of the page.
pub const CODE: &str = "Code";
/// Parts of the page.
pub const INTERFACE: &str = "Interface";
/// Parts of the page.
pub const READ: &str = "Read";
/// Parts of the page.
pub const WRITE: &str = "Write";
/// Parts of the page.
pub const EVENTS: &str = "Events";
/// An account without code.
pub const NONE: &str = "there is no contract at this address, so there is nothing to show here";
/// Made by no transaction that is known.
pub const MADE_BY_NOBODY: &str = "not known: it was there from the first block on, or another contract made it";
/// Between its maker and the transaction.
pub const MADE_IN: &str = "in";
/// Rows.
pub const CODE_HASH: &str = "Code hash";
/// Rows.
pub const DEPLOYED: &str = "As deployed";
/// Of the code.
pub const COMPRESSED: &str = "compressed";
/// Rows.
pub const MODULE: &str = "WebAssembly module";
/// Rows, and parts of an interface.
pub const FUNCTIONS: &str = "Functions";
/// After their bytes.
pub const OF_CODE: &str = "of code";
/// Rows.
pub const MEMORY: &str = "Memory to begin with";
/// After their number.
pub const PAGES: &str = "pages";
/// Rows.
pub const PROBLEM: &str = "Cannot be read because";
/// Heading.
pub const VERIFICATION: &str = "Source verification";
/// Rows.
pub const SOURCE: &str = "Source";
/// What is known of it. No source is ever taken here, so there is nothing else to know.
pub const SOURCE_NOT_SHOWN: &str = "Not verified: this explorer takes no source code.";
/// The same in short.
pub const SOURCE_NOT_SHOWN_SHORT: &str = "not verified here: how to check it yourself";
/// Above the command.
pub const VERIFY: &str =
    "If you have the source, you can check that it builds to exactly this code. Run this in the folder of the contract:";
/// Of the button.
pub const COPY_COMMAND: &str = "Copy the command";
/// Before the code hash.
pub const VERIFY_PRINTS: &str = "If it does, the command says so and prints this code hash:";
/// How.
pub const VERIFY_HOW: &str = "The command builds the source, asks the node that --rpc names for the code at this address, \
     and compares the two byte for byte. If they differ, it says where. This explorer has no part in it. The arguments of \
     the constructor and what the contract has stored are not compared. To build a source is to run its build scripts: build \
     that of a stranger where it can do no harm.";
/// Heading.
pub const IMPORTS: &str = "Imports";
/// What they are.
pub const IMPORTS_NOTE: &str = "What the module asks the chain for: storage, calls, logs and the like.";
/// Heading.
pub const EXPORTS: &str = "Exports";
/// What they are.
pub const EXPORTS_NOTE: &str = "What the module offers. A contract is entered by user_entrypoint.";
/// Heading.
pub const SECTIONS: &str = "Custom sections";
/// What they are.
pub const SECTIONS_NOTE: &str = "What the module carries and does not run. corniche.abi is its interface.";
/// Columns.
pub const FROM_MODULE: &str = "From";
/// Columns.
pub const NAME: &str = "Name";
/// Columns.
pub const KIND: &str = "Kind";
/// Columns.
pub const SIZE: &str = "Size";
/// After a list that was cut; the number follows.
pub const AND_MORE: &str = "More that are not shown:";
/// Who says what the functions are called.
pub const SOURCE_MODULE: &str =
    "The interface is carried in the module itself: whoever deployed the contract put it there, and nobody has checked it.";
/// Who says what the functions are called.
pub const SOURCE_UPLOADED: &str = "The interface was uploaded to this explorer: it is whatever its uploader said. Most of its functions' selectors stand in \
     the code; what they are called and what they do, nobody has checked.";
/// Who says what the functions are called.
pub const SOURCE_NOBODY: &str =
    "This contract carries no interface, and nobody has uploaded one: its calls and events are shown as bytes.";
/// The same in short.
pub const SOURCE_MODULE_SHORT: &str = "carried in the module, nobody has checked it";
/// The same in short.
pub const SOURCE_UPLOADED_SHORT: &str = "uploaded by somebody, nobody has checked it";
/// The same in short.
pub const SOURCE_NOBODY_SHORT: &str = "none: upload one";
/// Parts of an interface.
pub const ERRORS: &str = "Errors";
/// Parts of an interface.
pub const JSON: &str = "JSON";
/// The link.
pub const JSON_FILE: &str = "The interface as a file";
/// Of the button.
pub const COPY_JSON: &str = "Copy the interface";
/// Heading and link.
pub const UPLOAD: &str = "Upload an interface";
/// What happens.
pub const UPLOAD_NOTE: &str = "The JSON ABI as compilers write it. This explorer keeps it for everybody if at least three in four of its functions' selectors \
     stand in the contract's code, and says that somebody uploaded it. The first one stays: nobody can put another in its place here.";
/// The button.
pub const UPLOAD_DO: &str = "Upload";
/// Refused.
pub const NO_JSON: &str =
    "This is no JSON ABI: an array of functions, events and errors, or an object that holds one under \"abi\".";
/// Refused; the size follows.
pub const TOO_LARGE: &str = "An interface is at most";
/// Refused.
pub const CARRIED: &str = "this contract carries its interface in its own code, and nothing takes that one's place";
/// Refused.
pub const TAKEN: &str =
    "somebody uploaded an interface for this contract before, and the first one stays: look at it at the top of this page";
/// Refused.
pub const NO_CONTRACT: &str = "the blocks that this explorer has read leave no contract at this address";
/// Refused.
pub const BUSY: &str = "this explorer is busy reading blocks: try again in a moment";
/// Refused.
pub const STOPPED: &str = "this explorer has stopped reading blocks and keeps nothing new";
/// No forms.
pub const NO_INTERFACE: &str =
    "Nobody has said what this contract's functions are called, so they cannot be called by name here.";
/// What the page does.
pub const READ_NOTE: &str = "Asks the contract, as it is after the newest block. It costs nothing and changes nothing.";
/// No forms.
pub const NOTHING_TO_READ: &str = "It has no functions that only read.";
/// What the page does.
pub const WRITE_NOTE: &str = "Calls the contract by a transaction, which costs a fee and stays.";
/// Above the form of a function of the token standards.
pub const BY_STANDARD: &str =
    "The interface of this contract does not list this function. The form below is as the token standards define the function.";
/// No forms.
pub const NOTHING_TO_WRITE: &str = "It has no functions that change anything.";
/// The button.
pub const ASK: &str = "Ask";
/// The button; the function's name follows.
pub const SEND: &str = "Send";
/// A field.
pub const COINS: &str = "Sent with it";
/// Neighbours.
pub const EARLIER: &str = "Functions before";
/// Neighbours.
pub const LATER: &str = "Functions after";
/// An answer.
pub const RETURNED_NOTHING: &str = "It returned nothing, as its interface says.";
/// An answer.
pub const RETURNED_OTHER: &str =
    "It returned something that its interface does not describe, or that is too large to be shown as values:";
/// An answer.
pub const NO_ANSWER: &str = "The node does not answer.";
/// Of a function.
pub const TOO_MANY_FIELDS: &str = "It takes more parameters than a form here has fields for.";
/// In a field that is empty.
pub const ADDRESS_HINT: &str = "0x…, 40 digits";
/// Of a field.
pub const TOO_DEEP: &str = "this type is too large or too deep to be asked for here";
/// Of a field.
pub const TOO_LONG: &str = "this is longer than a transaction can be";
/// Of a field.
pub const NO_AMOUNT: &str = "this is no amount: digits, and at most 18 of them after a point";
/// Heading.
pub const WALLET: &str = "Wallet";
/// Without a script.
pub const WALLET_NEEDS_SCRIPT: &str = "To send from here, a browser needs scripts and a wallet. Without them, a form answers with the bytes to send by other means.";
/// The button.
pub const CONNECT: &str = "Connect a wallet";
/// Above the bytes of a call.
pub const BY_HAND: &str = "Nothing has been sent. The call, as data of a transaction to this contract:";
/// Above a command.
pub const BY_COMMAND: &str = "The same from the command line:";
/// A field.
pub const EVENT: &str = "Event";
/// All of them.
pub const ALL_EVENTS: &str = "all";
/// The button.
pub const SHOW: &str = "Show";
/// What cannot be read.
pub const BAD_EVENT: &str = "An event is named by its first topic: 0x and 64 digits.";
/// What cannot be read.
pub const BAD_SELECTOR: &str = "A function is named by its selector: 8 hexadecimal digits.";
/// Nothing was said of what to call.
pub const NO_SELECTOR: &str = "No function is named: f is its selector.";

/// Refused: so many of its functions stand in the code, and of so many.
pub fn not_mentioned(found: usize, all: usize) -> String {
    format!(
        "This is not this contract's interface. Functions of it whose selectors stand in the code: {found} of {all}. A contract that hands \
         calls on to another one has no functions of its own."
    )
}

/// There is none, by its digits.
pub fn no_function(selector: &str) -> String {
    format!("This contract's interface has no function with the selector 0x{selector}.")
}

/// Asked for where transactions are made.
pub fn only_reads(function: &str) -> String {
    format!("{function} only reads: it is called from the page \"{READ}\".")
}

/// Asked for where nothing is changed.
pub fn changes(function: &str) -> String {
    format!("{function} changes the state: it is called from the page \"{WRITE}\".")
}

/// Of a field: no value of this type.
pub fn no_value(kind: &str) -> String {
    format!("this is no {kind}")
}

/// The command that compares a source with the code.
pub fn verify(address: impl Display) -> String {
    format!("corniche contract verify {address}")
}

/// The command that sends a call; every argument has a space before it.
pub fn send(address: impl Display, signature: &str, arguments: &str) -> String {
    format!("corniche contract send {address} {signature}{arguments}")
}

/// The same with wei.
pub fn with_value(command: &str, wei: impl Display) -> String {
    format!("{command} --value {wei}")
}
