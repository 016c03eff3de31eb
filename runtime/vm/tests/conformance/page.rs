//! Text of `docs/vm-hooks.md`; the numbers come from the tables.

pub const HEAD: &str = "\
<!-- Made from sdk/abi: `WRITE_DOCS=1 cargo test -p corniche-vm --test hooks_page`. -->
# Host functions

Functions that a contract may import, with their effects and prices. `stylus-sdk` declares and calls them. Read this page to find the price of a call, if you come from Arbitrum, or if you
write contracts without an SDK. A module that imports anything else is refused at deployment, with the name of the import.

- Pointers and lengths are `i32`. An address has 20 bytes. A word has 32 bytes, big-endian. A length that a call writes is a little-endian `u32`.
- A range that is not entirely within memory ends the frame (*memory access out of bounds*) and consumes all its gas. A length of zero is allowed at any address up to the end of memory.
- *On Arbitrum* lists differences only.
- *Gas* is the base price of a call and its additional prices. It excludes the price of the `call` instruction. `tx_ink_price` is 10,000 ink a gas, as on Arbitrum. Storage, logs, calls and
  creations cost what Ethereum's rules say.

Every statement has a test (`runtime/vm/tests/conformance.rs`). Prices follow processor time (`cargo bench --bench host_calls`).
";

/// Function, effect, differences to Arbitrum, additional price.
pub const ENTRIES: &[(&str, &str, &str, &str)] = &[
    (
        "account_balance",
        "Writes the balance of the account at this address, a word; 0 for an account that does not exist.",
        "",
        "100, or 2,600 the first time in a transaction",
    ),
    (
        "account_code",
        "Copies a part of an account's code (offset, length). Returns the number of bytes copied. Bytes beyond the end of the code are not written.",
        "",
        "100 or 2,600, and each byte copied",
    ),
    ("account_code_size", "Returns the size of an account's code as sent, which may be compressed.", "", "100 or 2,600"),
    (
        "account_codehash",
        "Writes the keccak-256 of an account's code: the hash of no bytes for an account without code, zero for one that does not exist.",
        "",
        "100 or 2,600",
    ),
    ("block_basefee", "Writes the block's base fee in wei, a word.", "", ""),
    (
        "block_coinbase",
        "Writes the header's beneficiary: the fee address of the block's leader. Tips go to the author of each batch instead.",
        "The sequencer's.",
        "",
    ),
    ("block_gas_limit", "Returns the genesis' `block_gas_limit`.", "A constant.", ""),
    (
        "block_number",
        "Returns the height of this chain.",
        "An estimate of Ethereum's height, so code that counts blocks counts others.",
        "",
    ),
    (
        "block_randomness",
        "Writes the block's randomness, a word. All transactions of a block get the same ([randomness](chain-features.md#randomness)).",
        "Missing.",
        "",
    ),
    (
        "certified_hash",
        "Writes the hash of a header (number, destination) that a quorum certified before this block ran: in block N one from N − 8,255 to N − 65. Returns 0 if it was written, 1 if there is none.",
        "Missing.",
        "100, or 2,100 the first time in a transaction; nothing if out of range",
    ),
    ("block_timestamp", "Returns the time of the block in seconds. It never decreases.", "", ""),
    (
        "call_contract",
        "Calls a contract (address, input, value, gas, destination of the result's length). Returns 0 for a return, 1 for a revert, 2 for a failure, a value that the caller does not have, or too many frames. The callee gets at most all but a 64th of the gas, and 2,300 more with a value.",
        "1,024 frames; 256 here.",
        "100 or 2,600; 9,000 with a value, 25,000 more to an account that does not exist; each byte of input; the gas of the callee",
    ),
    ("chainid", "Returns the chain id.", "", ""),
    ("contract_address", "Writes the address on whose state the frame acts: in a delegate call the caller's.", "", ""),
    (
        "create1",
        "Creates a contract (code, value, destinations of the address and of the return data's length). The address depends on the nonce; it is zero if the creation failed. The return data is that of a reverted constructor. The code has one of the three [forms](deploy-a-contract.md#creation-data) of a deployment, followed by the constructor's input.",
        "Code is activated separately.",
        "32,000, 2 a word, each byte, and the price of a deployment",
    ),
    (
        "create2",
        "Creates a contract like `create1`, with a salt. The address depends on salt and code.",
        "Code is activated separately.",
        "32,000, 8 a word, each byte, and the price of a deployment",
    ),
    (
        "delegate_call_contract",
        "Runs another contract's code on the state of this frame, with its sender and value. In a static call it stays static.",
        "",
        "100 or 2,600; each byte of input; the gas of the callee",
    ),
    (
        "emit_log",
        "Emits a log with this number of topics: first the topics, 32 bytes each, then data. More than four topics, or fewer bytes than the topics take, end the frame.",
        "",
        "375 and 375 a topic, 8 a byte of data, and each byte",
    ),
    ("evm_gas_left", "Returns the gas left after this call.", "", ""),
    ("evm_ink_left", "Returns the ink left after this call. A gas is 10,000 ink.", "", ""),
    (
        "exit_early",
        "Ends the frame with this status: 0 returns, any other value reverts. The result is the one of `write_result`.",
        "",
        "",
    ),
    ("math_add_mod", "Writes (first + second) mod third into the first word, without overflow; 0 if the third is 0.", "", ""),
    ("math_div", "Writes first / second into the first word; 0 if the second is 0.", "", ""),
    ("math_mod", "Writes first mod second into the first word; 0 if the second is 0.", "", ""),
    ("math_mul_mod", "Writes (first × second) mod third into the first word, without overflow; 0 if the third is 0.", "", ""),
    (
        "math_pow",
        "Writes first to the power of second, modulo 2^256, into the first word.",
        "",
        "50 for each significant byte of the exponent",
    ),
    (
        "msg_reentrant",
        "Returns 1 if another open frame acts on this address. A delegate call does not enter an address.",
        "",
        "",
    ),
    (
        "msg_sender",
        "Writes the caller: in a delegate call the caller of the caller.",
        "An alias for transactions sent from Ethereum.",
        "",
    ),
    (
        "msg_value",
        "Writes the wei sent with the call: in a delegate call that of the caller's frame, in a static call 0.",
        "",
        "",
    ),
    (
        "native_keccak256",
        "Writes the keccak-256 of this number of bytes, a word. Input and destination may overlap.",
        "",
        "150 and 32 a word",
    ),
    (
        "pay_for_memory_grow",
        "Does nothing. Every page is paid when `memory.grow` creates it, announced or not.",
        "This call pays for growth, exponentially.",
        "",
    ),
    ("read_args", "Copies the input.", "", "each byte"),
    (
        "read_return_data",
        "Copies a part of the return data of the last call or creation (offset, length). Returns the number of bytes copied.",
        "",
        "each byte copied",
    ),
    (
        "return_data_size",
        "Returns the size of the return data of the last call or creation; 0 after a failure without data.",
        "",
        "",
    ),
    (
        "static_call_contract",
        "Calls a contract. A frame below that tries to change state ends: by a flush with stores, a transient store, a counter, a log, a value or a creation.",
        "",
        "100 or 2,600; each byte of input; the gas of the callee",
    ),
    (
        "storage_cache_bytes32",
        "Writes a word to the frame's cache (key, value). Only a flush stores it.",
        "The first eight are free.",
        "60 for a key that is not dirty in the cache yet",
    ),
    (
        "storage_flush_cache",
        "Stores the dirty words of the cache, in the order of keys. A parameter other than 0 also empties the cache.",
        "",
        "a store each (EIP-2200, 2929, 3529): 100, 2,900 or 20,000, and 2,100 the first time",
    ),
    (
        "storage_load_bytes32",
        "Reads a word through the cache (key, destination). Writes of other frames are visible after a flush that empties the cache.",
        "",
        "100 or 2,100 if it is not in the cache",
    ),
    ("transient_load_bytes32", "Reads a transient word (EIP-1153).", "", "100"),
    (
        "transient_store_bytes32",
        "Writes a transient word. It is dropped after the transaction, reverted with a frame that fails, and refused in a static call.",
        "",
        "100",
    ),
    ("tx_gas_price", "Writes the price that the transaction pays for a gas in wei, a word.", "The base fee.", ""),
    ("tx_ink_price", "Returns the ink of a gas: 10,000.", "The chain can change it.", ""),
    ("tx_origin", "Writes the signer of the transaction.", "An alias for transactions sent from Ethereum.", ""),
    (
        "write_result",
        "Sets the result of the frame, for a return or a revert. The last call counts.",
        "",
        "each byte, at two prices: see below",
    ),
    (
        "counter_add",
        "Adds to the number in a slot (slot, amount, limit) without reading it. Returns 0 if done, 1 if the sum would exceed the limit; then nothing changes.",
        "Missing.",
        "2,900; 2,100 the first time; 17,100 if the number was zero",
    ),
    (
        "counter_sub",
        "Subtracts from the number in a slot (slot, amount, floor) without reading it. Returns 0 if done, 1 if the rest would be below the floor; then nothing changes.",
        "Missing.",
        "2,900; 2,100 the first time",
    ),
];

pub const PRICES: &str = "
## Additional prices

| for | gas |
|---|---|
";

pub const TAIL: &str = "
Arithmetic and calls of functions cost from a hundredth of a gas to little more than two. `runtime/vm/tests/fixtures/gas-2.txt` has every instruction. A load costs more with more pages of memory,
because values that are far away take longer to arrive. A Rust contract starts with 17 pages, most of them unused stack; `-C link-arg=-zstack-size=32768` leaves one or two.
[Rules and gas of contracts](contract-rules.md#gas) has the other prices.

## Missing functions

This chain has no chain below it: no L1 block number, no L1 fee, no aliases of Ethereum's addresses. A module that imports `console` is accepted on development chains only, for traces. A module that imports
`debug` is refused everywhere. The addresses 0x71 and 0x72 answer queries of tools about programs, like Arbitrum's precompiles ([use cargo stylus](cargo-stylus.md)).
";
