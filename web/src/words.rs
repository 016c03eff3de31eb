//! What the explorer says, in one place: to reword it, or to say it in another language, nothing else has to be touched.

pub mod account;
pub mod api;
pub mod changes;
pub mod contract;
pub mod dag;
pub mod execution;
pub mod home;
pub mod network;
pub mod search;
pub mod statistics;
pub mod tokens;
pub mod transaction;
pub mod validators;

/// The product.
pub const NAME: &str = "Corniche";
/// Of the window.
pub const EXPLORER: &str = "Corniche explorer";

/// In the navigation, with their pages in the same order.
pub mod nav {
    /// Newest blocks.
    pub const BLOCKS: &str = "Blocks";
    /// Newest transactions.
    pub const TRANSACTIONS: &str = "Transactions";
    /// Tokens.
    pub const TOKENS: &str = "Tokens";
    /// The committee.
    pub const VALIDATORS: &str = "Validators";
    /// The ordering.
    pub const DAG: &str = "Ordering";
    /// Daily numbers.
    pub const STATISTICS: &str = "Statistics";
    /// Peers.
    pub const NETWORK: &str = "Network";
    /// For programs.
    pub const API: &str = "API";
    /// Skips the navigation.
    pub const SKIP: &str = "Skip to content";
    /// The label of the search field, and what stands in it.
    pub const SEARCH: &str = "Search";
    /// What may be searched for.
    pub const SEARCH_HINT: &str = "Hash, block, address, token or method";
    /// Switches the colours.
    pub const THEME: &str = "Dark or light";
    /// Switches the unit of amounts.
    pub const UNIT: &str = "Unit of amounts";
}

/// The four words of a transaction, and how it may end otherwise; the same as in RPC and logs.
pub mod status {
    /// Waits in a pool.
    pub const PENDING: &str = "pending";
    /// Has its place.
    pub const ORDERED: &str = "ordered";
    /// Is in a block.
    pub const EXECUTED: &str = "executed";
    /// Signed by a quorum.
    pub const CERTIFIED: &str = "certified";
    /// Left the pool.
    pub const DROPPED: &str = "dropped";
    /// Another one took its place.
    pub const REPLACED: &str = "replaced";
    /// Executed, and took nothing back but its fee.
    pub const SUCCEEDED: &str = "succeeded";
    /// Executed, and undone but for its fee.
    pub const REVERTED: &str = "reverted";
}

/// Of blocks.
pub mod block {
    /// Before the number.
    pub const TITLE: &str = "Block";
    /// Parts of the page.
    pub const OVERVIEW: &str = "Overview";
    /// Parts of the page.
    pub const ORDERING: &str = "Ordering";
    /// What it means.
    pub const ORDERING_NOTE: &str =
        "Validators proposed batches; the engine agreed on one order for them, and the block is the next piece of that order.";
    /// Parts of the page.
    pub const CERTIFICATE: &str = "Certificate";
    /// What it means.
    pub const CERTIFICATE_NOTE: &str = "A quorum signed this block or a later one: nobody can take it back.";
    /// None yet.
    pub const NO_CERTIFICATE: &str = "Not certified yet: it is executed, and waits for the signatures of a quorum.";
    /// Parts of the page.
    pub const TRANSACTIONS: &str = "Transactions";
    /// Parts of the page.
    pub const SKIPPED: &str = "Ordered and not executed";
    /// What it means.
    pub const SKIPPED_NOTE: &str =
        "Ordered is not valid: every node checks again, and what fails the check costs nothing and leaves no receipt.";
    /// Rows.
    pub const HASH: &str = "Hash";
    /// Rows.
    pub const PARENT: &str = "Parent";
    /// Rows.
    pub const TIME: &str = "Time agreed on";
    /// The same in a column.
    pub const AGE: &str = "When";
    /// Rows.
    pub const STATUS: &str = "Status";
    /// Rows.
    pub const GAS: &str = "Gas used";
    /// Rows.
    pub const BASE_FEE: &str = "Base fee";
    /// Rows.
    pub const SIZE: &str = "Size";
    /// Rows.
    pub const STATE_ROOT: &str = "State root";
    /// Rows.
    pub const RANDOMNESS: &str = "Randomness";
    /// Rows.
    pub const RECORD: &str = "Hash of the ordering record";
    /// Rows.
    pub const LEADER: &str = "Leader";
    /// Rows.
    pub const FEE_ADDRESS: &str = "Leader's fee address";
    /// Rows.
    pub const COMMITS: &str = "Commits";
    /// Rows: where the leaders of these commits are.
    pub const ROUNDS: &str = "Rounds of their leaders";
    /// Rows: the same under Autobahn.
    pub const SLOTS: &str = "Slots";
    /// Where a batch is drawn.
    pub const PICTURE: &str = "in the picture";
    /// Rows.
    pub const BATCHES: &str = "Batches";
    /// Columns.
    pub const AUTHOR: &str = "Proposed by";
    /// Columns.
    pub const DIGEST: &str = "Batch";
    /// Columns.
    pub const RANGE: &str = "Transactions of it";
    /// Columns.
    pub const REASON: &str = "Reason";
    /// Rows.
    pub const SIGNERS: &str = "Signed by";
    /// Rows.
    pub const MISSED: &str = "Not among the signers";
    /// Rows.
    pub const COVERS: &str = "Certificate of block";
    /// Rows.
    pub const SIGNATURE: &str = "Aggregate signature";
    /// The genesis block.
    pub const GENESIS: &str = "The first block was not ordered by anybody: it is what the network began with.";
    /// Neighbours.
    pub const EARLIER: &str = "Earlier block";
    /// Neighbours.
    pub const LATER: &str = "Later block";
}

/// Of transactions.
pub mod transaction {
    /// Heading.
    pub const TITLE: &str = "Transaction";
    /// Columns and rows.
    pub const HASH: &str = "Hash";
    /// Columns and rows.
    pub const BLOCK: &str = "Block";
    /// Columns and rows.
    pub const FROM: &str = "From";
    /// Columns and rows.
    pub const TO: &str = "To";
    /// Columns and rows.
    pub const VALUE: &str = "Value";
    /// Columns and rows.
    pub const METHOD: &str = "Method";
    /// Columns and rows.
    pub const FEE: &str = "Fee";
    /// Columns and rows.
    pub const AGE: &str = "When";
    /// Rows.
    pub const STATUS: &str = "Status";
    /// Rows.
    pub const RESULT: &str = "Result";
    /// Rows and columns.
    pub const AUTHOR: &str = "Proposed by";
    /// Columns: how the node ran it.
    pub const EXECUTION: &str = "Executed in";
    /// Rows.
    pub const NONCE: &str = "Nonce";
    /// Rows.
    pub const KIND: &str = "Type";
    /// Rows.
    pub const GAS: &str = "Gas";
    /// Rows.
    pub const GAS_PRICE: &str = "Price of gas";
    /// Rows.
    pub const INPUT: &str = "Input";
    /// Rows.
    pub const CREATED: &str = "Contract made";
    /// For a creation, in place of the recipient.
    pub const CREATION: &str = "makes a contract";
    /// Without input.
    pub const TRANSFER: &str = "transfer";
    /// Parts of the page.
    pub const OVERVIEW: &str = "Overview";
    /// Parts of the page.
    pub const LOGS: &str = "Logs";
    /// Parts of the page.
    pub const CALLS: &str = "Calls";
    /// Parts of the page.
    pub const TRANSFERS: &str = "Tokens moved";
    /// Parts of the page.
    pub const RAW: &str = "Raw";
    /// None.
    pub const NO_TRANSACTIONS: &str = "No transactions.";
    /// Times on the way.
    pub const TIMELINE: &str = "On its way";
    /// Of the timeline.
    pub const RECEIVED: &str = "received";
}

/// Of what a transaction changed.
pub mod changes {
    /// Heading.
    pub const TITLE: &str = "State changes";
    /// Columns.
    pub const ACCOUNT: &str = "Account";
    /// Columns.
    pub const WHAT: &str = "What";
    /// Columns.
    pub const BEFORE: &str = "Before";
    /// Columns.
    pub const AFTER: &str = "After";
    /// Code was put there.
    pub const CODE: &str = "Code";
    /// 32 bytes of storage.
    pub const SLOT: &str = "Slot";
    /// The node did not tell.
    pub const UNKNOWN: &str = "The node does not say: it serves no traces, or no longer holds the state before this block.";
    /// Of a long list.
    pub const MORE: &str = "There are more; the node's debug_traceTransaction tells them all.";
}

/// Of accounts.
pub mod account {
    /// Heading.
    pub const TITLE: &str = "Account";
    /// Heading of one with code.
    pub const CONTRACT: &str = "Contract";
    /// Parts of the page.
    pub const OVERVIEW: &str = "Overview";
    /// Rows.
    pub const BALANCE: &str = "Balance";
    /// Rows.
    pub const NONCE: &str = "Nonce";
    /// What it means.
    pub const NONCE_NOTE: &str = "transactions it has sent, or contracts it has made";
    /// Rows, and parts of the page.
    pub const TRANSACTIONS: &str = "Transactions";
    /// What the list holds.
    pub const TRANSACTIONS_NOTE: &str = "Everything this address had a part in: sent, was sent, was made by, logged in, was called in, or had a token \
         moved by.";
    /// The first of them.
    pub const NEWEST_TRANSACTIONS: &str = "Newest transactions";
    /// The way to all of them.
    pub const ALL_TRANSACTIONS: &str = "All transactions";
    /// Rows.
    pub const MADE_BY: &str = "Made by";
    /// Rows.
    pub const FIRST_SEEN: &str = "First seen in block";
    /// In no block.
    pub const NEVER_SEEN: &str = "in no transaction that this explorer has read";
    /// The node did not answer.
    pub const UNKNOWN: &str = "the node does not answer";
    /// Rows and columns.
    pub const TOKEN: &str = "Token";
    /// Parts of the page.
    pub const HOLDINGS: &str = "Tokens held";
    /// What the list holds.
    pub const HOLDINGS_NOTE: &str = "As the tokens' own events add up. Anybody can make a token and give it to anybody.";
    /// Columns.
    pub const STANDARD: &str = "Standard";
    /// Columns.
    pub const ID: &str = "Id";
    /// In place of one id.
    pub const ALL_IDS: &str = "all ids together";
    /// Columns.
    pub const AMOUNT: &str = "Amount";
    /// A token that contradicts itself.
    pub const INCONSISTENT: &str = "does not add up";
    /// What it means.
    pub const INCONSISTENT_NOTE: &str = "Its events moved what nobody had.";
    /// Parts of the page.
    pub const TRANSFERS: &str = "Token transfers";
    /// What the list holds.
    pub const TRANSFERS_NOTE: &str = "Tokens that came or went, as the tokens' own events say.";
    /// Columns.
    pub const DIRECTION: &str = "Way";
    /// Of a transfer.
    pub const IN: &str = "in";
    /// Of a transfer.
    pub const OUT: &str = "out";
    /// Of a transfer.
    pub const TO_ITSELF: &str = "to itself";
    /// In place of a sender.
    pub const MINTED: &str = "made new";
    /// In place of a recipient.
    pub const BURNED: &str = "gone for good";
    /// Parts of the page.
    pub const APPROVALS: &str = "Approvals";
    /// What the list holds.
    pub const APPROVALS_NOTE: &str = "Who may take this account's tokens without asking again, as the newest approval of each kind said. What was taken \
         since may have used an amount up.";
    /// Columns.
    pub const SPENDER: &str = "Who";
    /// Columns.
    pub const MAY: &str = "May take";
    /// Columns.
    pub const SINCE: &str = "Since";
    /// Columns and links.
    pub const REVOKE: &str = "Take back";
    /// Of an allowance.
    pub const MAY_NOTHING: &str = "nothing any more";
    /// Of an allowance.
    pub const UNLIMITED: &str = "unlimited";
    /// Of an allowance.
    pub const MAY_EVERYTHING: &str = "everything of this token, now and whatever comes later";
    /// Of an allowance.
    pub const MAY_ALL_IDS: &str = "every id of this token, now and whatever comes later";
    /// Of an allowance.
    pub const MAY_UP_TO: &str = "up to";
    /// Of an allowance.
    pub const MAY_ID: &str = "one piece,";
    /// Parts of the page.
    pub const CALLS: &str = "Inner calls";
    /// What the list holds.
    pub const CALLS_NOTE: &str = "Calls between contracts inside of transactions, from and to this address. They are known where the node serves traces.";
    /// Back to the beginning of a list.
    pub const FIRST: &str = "First";
    /// Further on in a list.
    pub const MORE: &str = "More";
}

/// Of contracts: what their code says, and how they are asked and changed.
pub mod contract {
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
    pub const VERIFICATION: &str = "Source";
    /// What is known of it.
    pub const NOT_VERIFIED: &str = "Nobody has shown this explorer the source of this contract. Whoever has it can see whether it is the source of exactly this \
         code:";
    /// How.
    pub const VERIFY_HOW: &str = "The command builds the source and compares what comes out with the code at this address, byte for byte. It asks a node, and \
         trusts no explorer.";
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
         stand in the contract's code, and says that somebody uploaded it.";
    /// In place of another one.
    pub const UPLOAD_AGAIN: &str = "It takes the place of the one above if more of its functions stand in the code.";
    /// The button.
    pub const UPLOAD_DO: &str = "Upload";
    /// Refused.
    pub const NO_JSON: &str =
        "This is no JSON ABI: an array of functions, events and errors, or an object that holds one under \"abi\".";
    /// Refused; the size follows.
    pub const TOO_LARGE: &str = "An interface is at most";
    /// Refused; the numbers follow.
    pub const NOT_MENTIONED: &str = "This is not this contract's interface. Functions of it whose selectors stand in the code:";
    /// Why it may be so.
    pub const NOT_MENTIONED_HINT: &str = "A contract that hands calls on to another one has no functions of its own.";
    /// Refused; a number follows.
    pub const NO_BETTER: &str =
        "There is an interface already that names as much of this contract: functions whose selectors stand in the code:";
    /// The other number follows.
    pub const NO_BETTER_YOURS: &str = "and of this one";
    /// No forms.
    pub const NO_INTERFACE: &str =
        "Nobody has said what this contract's functions are called, so they cannot be called by name here.";
    /// What the page does.
    pub const READ_NOTE: &str = "Asks the contract, as it is after the newest block. It costs nothing and changes nothing.";
    /// No forms.
    pub const NOTHING_TO_READ: &str = "It has no functions that only read.";
    /// What the page does.
    pub const WRITE_NOTE: &str = "Calls the contract by a transaction, which costs a fee and stays.";
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
}

pub mod dag;

/// Of lists.
pub mod list {
    /// Further down.
    pub const OLDER: &str = "Older";
    /// Back up.
    pub const NEWEST: &str = "Newest";
    /// Back up, in lists that are not by time.
    pub const FIRST: &str = "First page";
    /// Further down in them.
    pub const FURTHER: &str = "Next page";
    /// Nothing in it.
    pub const EMPTY: &str = "Nothing here.";
    /// Copies a value.
    pub const COPY: &str = "Copy";
    /// A place in a list that cannot be read.
    pub const BAD_CURSOR: &str = "This address names no place in the list: begin with its first page.";
}

/// Of failures.
pub mod failure {
    /// Heading.
    pub const NOT_FOUND: &str = "Not found";
    /// What to do.
    pub const NOT_FOUND_HINT: &str = "Search for a hash, a block's number, an address, a token or a method's name.";
    /// Heading.
    pub const BUSY: &str = "Too many requests";
    /// What to do.
    pub const BUSY_HINT: &str = "This address asked for more than its share. Wait a few seconds and load the page again.";
    /// Heading.
    pub const BROKEN: &str = "This did not work";
    /// What to do.
    pub const BROKEN_HINT: &str = "It is this explorer's fault, and its log says more. Load the page again in a moment.";
    /// Heading.
    pub const HALTED: &str = "This explorer stopped";
    /// What it cannot read.
    pub const BAD_REQUEST: &str = "That address is not right";
    /// Above every page while the node does not answer.
    pub const WAITS: &str = "The node does not answer. What is shown is what was known before.";
    /// Where its operator finds more.
    pub const WAITS_HINT: &str = "The log of this explorer says why.";
    /// Above every page while it catches up.
    pub const BEHIND: &str = "Catching up with the node:";
}
