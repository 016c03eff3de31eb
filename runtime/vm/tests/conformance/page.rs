//! Text of `docs/vm-hooks.md`; the numbers come from the tables.

pub const HEAD: &str = "\
<!-- Made from sdk/abi: `WRITE_DOCS=1 cargo test -p corniche-vm --test hooks_page`. -->
# Host functions

What a contract may import, and what each function does here. `stylus-sdk` declares and calls them; this page is for those who want to know what that costs, who
come from Arbitrum, or who write contracts without an SDK. A module that imports anything else is refused at deployment, by name.

Pointers and lengths are `i32`. An address is 20 bytes, a word 32 bytes and big-endian, a length that a call writes a little-endian `u32`. A pointer that does not lie within memory
to its last byte ends the frame (*memory access out of bounds*, all gas gone); a length of zero is fine at any address up to the end of memory.

*Elsewhere* is what differs from Arbitrum; nothing stands there where nothing does. Gas is the base price of the call and what comes on top; in both places the price of the
`call` instruction is not in it (`tx_ink_price` is 10,000 ink a gas, like there). Storage, logs, calls and creations cost what Ethereum's rules say. Every statement here has a test
(`runtime/vm/tests/conformance.rs`), and prices are what a processor takes for it (`cargo bench --bench host_calls`).
";

/// Function, meaning, differences to other chains, additional cost.
pub const ENTRIES: &[(&str, &str, &str, &str)] = &[
    (
        "account_balance",
        "Balance of the account at the address into a word; 0 for who is not there.",
        "",
        "100, or 2,600 the first time in a transaction",
    ),
    (
        "account_code",
        "Copies a part of an account's code (offset, length); answers how much was there. Beyond the end nothing is copied, and nothing is filled with zeros.",
        "",
        "100 or 2,600, and each byte copied",
    ),
    ("account_code_size", "Bytes of an account's code, as it was sent (compressed, if it was).", "", "100 or 2,600"),
    (
        "account_codehash",
        "keccak-256 of an account's code: of no bytes for who has none, zero for who is not there.",
        "",
        "100 or 2,600",
    ),
    ("block_basefee", "Base fee of the block, wei, a word.", "", ""),
    ("block_coinbase", "Whom the block's tips go to: the proposer's fee address.", "The sequencer's.", ""),
    ("block_gas_limit", "The genesis' `block_gas_limit`.", "A constant.", ""),
    (
        "block_number",
        "Height of this chain.",
        "An estimate of Ethereum's height: what counts blocks there counts others here.",
        "",
    ),
    (
        "block_randomness",
        "The block's randomness, a word: from the validators' common coin, the same for all transactions of a block.",
        "Not there.",
        "",
    ),
    (
        "certified_hash",
        "The hash of a header (number, where it goes) that a quorum certified before this block ran: in block N of those from N − 8,255 to N − 65. 0: written; 1: there is none, and nothing is written.",
        "Not there.",
        "100, or 2,100 the first time in a transaction; nothing when out of range",
    ),
    ("block_timestamp", "Seconds of the block; never less than in the block before.", "", ""),
    (
        "call_contract",
        "Calls (address, input, value, gas, where its length goes). 0: it returned; 1: it reverted; 2: it failed, could not be paid for or was too deep. At most all but a 64th of the gas goes along; 2,300 more when a value does.",
        "1,024 frames; 256 here.",
        "100 or 2,600; 9,000 with a value, 25,000 more to who is not there; each byte of input; what the callee used",
    ),
    ("chainid", "The chain's id.", "", ""),
    ("contract_address", "The address whose state the frame acts on: under a delegate call the caller's.", "", ""),
    (
        "create1",
        "Makes a contract (code, value, where address and length go). Address by nonce, zero when it failed; what a constructor reverted with is the return data. Code in any of the three forms of a deployment, the constructor's input behind it.",
        "Code is activated apart from it.",
        "32,000, 2 a word, each byte, and what a deployment pays",
    ),
    (
        "create2",
        "The same, with a salt; address by salt and code.",
        "Code is activated apart from it.",
        "the same and 6 a word",
    ),
    (
        "delegate_call_contract",
        "Runs another's code on one's own state, with one's own sender and value. Static stays static.",
        "",
        "100 or 2,600; each byte of input; what it used",
    ),
    (
        "emit_log",
        "Emits a log: so many topics of 32 bytes first, then data. More than four topics, or fewer bytes than they take, end the frame.",
        "",
        "375 and 375 a topic, 8 a byte of data, and each byte",
    ),
    ("evm_gas_left", "Gas left after this call.", "", ""),
    ("evm_ink_left", "Ink left after this call: a gas is 10,000.", "", ""),
    (
        "exit_early",
        "Ends the frame at once with this status: 0 returns, anything else reverts. The result is what was written.",
        "",
        "",
    ),
    ("math_add_mod", "First word = (first + second) mod third, without overflow; 0 when the third is.", "", ""),
    ("math_div", "First word = first / second; 0 when the second is.", "", ""),
    ("math_mod", "First word = first mod second; 0 when the second is.", "", ""),
    ("math_mul_mod", "First word = (first × second) mod third, without overflow; 0 when the third is.", "", ""),
    (
        "math_pow",
        "First word = first to the power of second, modulo 2^256.",
        "",
        "50 for each significant byte of the exponent",
    ),
    ("msg_reentrant", "1 when another open frame acts on the same address. A delegate call enters nothing.", "", ""),
    (
        "msg_sender",
        "Who called: under a delegate call who called the caller.",
        "Of a transaction sent from Ethereum an alias.",
        "",
    ),
    ("msg_value", "Wei that came with the call: under a delegate call with the caller's; 0 in a static one.", "", ""),
    ("native_keccak256", "keccak-256 of so many bytes into a word, which may overlap them.", "", "150 and 32 a word"),
    (
        "pay_for_memory_grow",
        "Announces growth of memory. It does nothing: a page is paid where it is made (`memory.grow`), by who does not announce it too.",
        "Growth is paid by this call, exponentially.",
        "",
    ),
    ("read_args", "Copies the input.", "", "each byte"),
    (
        "read_return_data",
        "Copies a part of what the last call or creation answered (offset, length); answers how much was there.",
        "",
        "each byte copied",
    ),
    ("return_data_size", "Bytes that the last call or creation answered; 0 after one that failed without words.", "", ""),
    (
        "static_call_contract",
        "Calls, and nothing below may change state: a store that is flushed, a transient store, a counter, a log, a value or a creation there ends its frame.",
        "",
        "100 or 2,600; each byte of input; what it used",
    ),
    (
        "storage_cache_bytes32",
        "Writes a word into the frame's cache (key, value). Nothing is stored until a flush.",
        "The first eight are free.",
        "60 for a key that is not dirty in it yet",
    ),
    (
        "storage_flush_cache",
        "Stores what is dirty in the cache, in the order of keys; anything but 0 empties the cache besides.",
        "",
        "a store each (EIP-2200, 2929, 3529): 100, 2,900 or 20,000, and 2,100 the first time",
    ),
    (
        "storage_load_bytes32",
        "Reads a word through the cache (key, where it goes). What another frame wrote meanwhile is seen after a flush that empties the cache.",
        "",
        "100 or 2,100 when it is not in the cache",
    ),
    ("transient_load_bytes32", "Reads a transient word (EIP-1153).", "", "100"),
    (
        "transient_store_bytes32",
        "Writes a transient word: gone after the transaction, undone with a frame that fails, refused in a static one.",
        "",
        "100",
    ),
    ("tx_gas_price", "What the transaction pays for a gas, wei, a word.", "The base fee.", ""),
    ("tx_ink_price", "Ink of a gas: 10,000.", "The chain's to change.", ""),
    ("tx_origin", "Who signed the transaction.", "Of a transaction sent from Ethereum an alias.", ""),
    (
        "write_result",
        "What the frame answers, whether it returns or reverts. The last one counts.",
        "",
        "each byte, twice priced: see below",
    ),
    (
        "counter_add",
        "Adds to the number in a slot (slot, amount, limit) without reading it. 0: done; 1: it would be above the limit, and nothing changed.",
        "Not there.",
        "2,900; 2,100 the first time; 17,100 when it finds zero",
    ),
    (
        "counter_sub",
        "Takes away from the number in a slot (slot, amount, floor). 0: done; 1: it would be below the floor.",
        "Not there.",
        "2,900; 2,100 the first time",
    ),
];

pub const PRICES: &str = "
## What comes on top

| what | gas |
|---|---|
";

pub const TAIL: &str = "
Arithmetic of the machine and calls of functions are hundredths of a gas to little more than one; `runtime/vm/tests/fixtures/gas-1.txt` has every instruction. A load costs more the more
pages memory has, because a value that lies far away is waited for: a Rust contract starts with 17 pages, most of them a stack it does not use, and `-C link-arg=-zstack-size=32768`
leaves one or two.

## What has no meaning here

There is no chain below this one, so there is nothing to ask about it: no L1 block number, no L1 fee, no aliases of Ethereum's addresses. The module `console` is
there on development chains only, for traces; elsewhere a module that imports it is refused, as one that imports `debug` is everywhere. What Arbitrum's precompiles answer about programs is answered at 0x71 and 0x72
([deploy a contract](deploy-a-contract.md)).
";
