-- What the explorer remembers of a chain. Written in SQLite's words; PostgreSQL is told BIGINT for INTEGER, BYTEA for BLOB, and no
-- WITHOUT ROWID (database.rs).
--
-- A *place* is a block's number times 2^20 plus a position within the block: of a transaction, a log, a transfer or a call, whichever the
-- table is of. Places are cursors too: every list goes down from one.
-- Amounts of 256 bits are 32 bytes, big end first, so that the database orders them as numbers.

-- One row for each fact about the chain itself and how far each part of the indexer has come.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE blocks (
    number INTEGER PRIMARY KEY,
    hash BLOB NOT NULL,
    parent BLOB NOT NULL,
    -- As agreed on with its order, Unix milliseconds.
    time_ms INTEGER NOT NULL,
    -- When the explorer had it, and when it asked the node and was told that it is certified, by its own clock; null for what was there
    -- before it looked. It asks again when it has written what it was told of, so under load both are later than the network was.
    seen_ms INTEGER,
    certified_ms INTEGER,
    -- Validators by position in the committee.
    leader INTEGER,
    fee_address BLOB NOT NULL,
    first_commit INTEGER,
    last_commit INTEGER,
    transactions INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    gas_used INTEGER NOT NULL,
    gas_limit INTEGER NOT NULL,
    base_fee INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    state_root BLOB NOT NULL,
    transactions_root BLOB NOT NULL,
    receipts_root BLOB NOT NULL,
    randomness BLOB NOT NULL,
    extra BLOB NOT NULL
);
CREATE UNIQUE INDEX blocks_by_hash ON blocks (hash);
CREATE INDEX blocks_by_time ON blocks (time_ms, number);
CREATE INDEX blocks_by_leader ON blocks (leader, number);
CREATE INDEX blocks_by_commit ON blocks (last_commit);

-- Parts of validators' batches that a block was made of, in order; positions count from 0 over all of them.
CREATE TABLE batches (
    block INTEGER NOT NULL,
    position INTEGER NOT NULL,
    author INTEGER NOT NULL,
    digest BLOB NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (block, position)
) WITHOUT ROWID;
CREATE INDEX batches_by_digest ON batches (digest, author, block);

-- Ordered and not executed.
CREATE TABLE skipped (
    block INTEGER NOT NULL,
    position INTEGER NOT NULL,
    hash BLOB NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (block, position)
) WITHOUT ROWID;
CREATE INDEX skipped_by_hash ON skipped (hash, block);

CREATE TABLE transactions (
    place INTEGER PRIMARY KEY,
    hash BLOB NOT NULL,
    sender BLOB NOT NULL,
    -- Null for a creation; `created` has what was made.
    recipient BLOB,
    created BLOB,
    kind INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    value BLOB NOT NULL,
    -- The first four bytes of `input`; fewer where it has fewer.
    selector BLOB NOT NULL,
    gas_limit INTEGER NOT NULL,
    gas_used INTEGER NOT NULL,
    -- By it and those before it in its block.
    cumulative_gas INTEGER NOT NULL,
    -- Wei per gas that were paid.
    gas_price INTEGER NOT NULL,
    max_fee INTEGER,
    max_tip INTEGER,
    succeeded INTEGER NOT NULL,
    -- The validator whose batch carried it.
    author INTEGER,
    logs INTEGER NOT NULL,
    time_ms INTEGER NOT NULL,
    -- The last column, so that SQLite walks over none of it on its way to another: lists read all but this.
    input BLOB NOT NULL
);
CREATE UNIQUE INDEX transactions_by_hash ON transactions (hash);

-- Who had a part in a transaction: 1 sent it, 2 was sent it, 4 was made by it, 8 a log of theirs, 16 a call inside, 32 a token of theirs moved.
CREATE TABLE activity (
    address BLOB NOT NULL,
    place INTEGER NOT NULL,
    roles INTEGER NOT NULL,
    PRIMARY KEY (address, place)
) WITHOUT ROWID;

CREATE TABLE accounts (
    address BLOB PRIMARY KEY,
    first_block INTEGER NOT NULL,
    transactions INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE logs (
    place INTEGER PRIMARY KEY,
    -- Place of its transaction.
    transaction_place INTEGER NOT NULL,
    address BLOB NOT NULL,
    topics BLOB NOT NULL,
    -- The first topic, which names the event.
    event BLOB,
    data BLOB NOT NULL
);
CREATE INDEX logs_by_transaction ON logs (transaction_place, place);
CREATE INDEX logs_by_address ON logs (address, place);
CREATE INDEX logs_by_event ON logs (address, event, place);

-- Calls inside transactions, from traces: not there where the node serves none.
CREATE TABLE calls (
    place INTEGER PRIMARY KEY,
    transaction_place INTEGER NOT NULL,
    depth INTEGER NOT NULL,
    kind TEXT NOT NULL,
    sender BLOB NOT NULL,
    recipient BLOB,
    value BLOB NOT NULL,
    selector BLOB,
    gas_used INTEGER NOT NULL,
    error TEXT
);
CREATE INDEX calls_by_transaction ON calls (transaction_place, place);

-- Why transactions were undone, from traces as well: the error, its text where it has one, and the beginning of what was answered.
CREATE TABLE undone (
    place INTEGER PRIMARY KEY,
    error TEXT NOT NULL,
    reason TEXT,
    output BLOB NOT NULL
);

CREATE TABLE call_sides (
    address BLOB NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (address, place)
) WITHOUT ROWID;

-- standard: 20, 721 or 1155. Texts are what a stranger's contract said, cut to size.
CREATE TABLE tokens (
    address BLOB PRIMARY KEY,
    standard INTEGER NOT NULL,
    name TEXT NOT NULL,
    symbol TEXT NOT NULL,
    -- Both in lower case, for search.
    name_key BLOB NOT NULL,
    symbol_key BLOB NOT NULL,
    -- 0 for tokens with ids.
    decimals INTEGER NOT NULL,
    -- What its events add up to.
    supply BLOB NOT NULL,
    holders INTEGER NOT NULL,
    transfers INTEGER NOT NULL,
    first_block INTEGER NOT NULL,
    -- 0 when its events moved what nobody had.
    consistent INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX tokens_by_name ON tokens (name_key);
CREATE INDEX tokens_by_symbol ON tokens (symbol_key);
CREATE INDEX tokens_by_holders ON tokens (holders, address);

CREATE TABLE transfers (
    place INTEGER PRIMARY KEY,
    transaction_place INTEGER NOT NULL,
    token BLOB NOT NULL,
    sender BLOB NOT NULL,
    recipient BLOB NOT NULL,
    -- Of a token with ids; null otherwise.
    token_id BLOB,
    amount BLOB NOT NULL,
    time_ms INTEGER NOT NULL
);
CREATE INDEX transfers_by_transaction ON transfers (transaction_place, place);
CREATE INDEX transfers_by_token ON transfers (token, place);

CREATE TABLE transfer_sides (
    address BLOB NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (address, place)
) WITHOUT ROWID;

-- token_id is empty for tokens without ids. Rows of nothing are not kept.
CREATE TABLE balances (
    token BLOB NOT NULL,
    holder BLOB NOT NULL,
    token_id BLOB NOT NULL,
    amount BLOB NOT NULL,
    PRIMARY KEY (token, holder, token_id)
) WITHOUT ROWID;
CREATE INDEX balances_by_holder ON balances (holder, token, token_id);
CREATE INDEX balances_by_amount ON balances (token, token_id, amount, holder);

-- The newest allowance of each owner, token and spender, as events said it. For tokens with ids `spender` may do all (1) or nothing (0).
CREATE TABLE approvals (
    owner BLOB NOT NULL,
    token BLOB NOT NULL,
    spender BLOB NOT NULL,
    token_id BLOB NOT NULL,
    amount BLOB NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (owner, token, spender, token_id)
) WITHOUT ROWID;
CREATE INDEX approvals_by_id ON approvals (owner, token, token_id);

-- abi_source: module, uploaded or empty. facts: JSON of what the code is (bytes, imports, exports, memory).
CREATE TABLE contracts (
    address BLOB PRIMARY KEY,
    creator BLOB,
    -- Place of the transaction that made it; null for those of the genesis.
    transaction_place INTEGER,
    code_hash BLOB NOT NULL,
    code_bytes INTEGER NOT NULL,
    abi TEXT NOT NULL,
    abi_source TEXT NOT NULL,
    facts TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX contracts_by_transaction ON contracts (transaction_place);
CREATE INDEX contracts_by_code ON contracts (code_hash, address);

-- What ABIs of contracts here call their functions and events.
CREATE TABLE selectors (
    selector BLOB NOT NULL,
    signature TEXT NOT NULL,
    -- The name in lower case, for search.
    name_key BLOB NOT NULL,
    PRIMARY KEY (selector, signature)
) WITHOUT ROWID;
CREATE INDEX selectors_by_name ON selectors (name_key);

CREATE TABLE certificates (
    height INTEGER PRIMARY KEY,
    -- The block after the one before's height: what it made final reaches from here to `height`.
    first INTEGER NOT NULL,
    signers BLOB NOT NULL,
    signature BLOB NOT NULL,
    fault_model TEXT NOT NULL,
    seen_ms INTEGER NOT NULL
);

-- A validator's record, one row for each day (days since 1970).
CREATE TABLE validator_days (
    validator INTEGER NOT NULL,
    day INTEGER NOT NULL,
    led INTEGER NOT NULL,
    batches INTEGER NOT NULL,
    transactions INTEGER NOT NULL,
    signed INTEGER NOT NULL,
    missed INTEGER NOT NULL,
    PRIMARY KEY (validator, day)
) WITHOUT ROWID;
CREATE INDEX validator_days_by_day ON validator_days (day, validator);

CREATE TABLE days (
    day INTEGER PRIMARY KEY,
    blocks INTEGER NOT NULL,
    transactions INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    gas_used INTEGER NOT NULL,
    transfers INTEGER NOT NULL,
    contracts INTEGER NOT NULL,
    new_accounts INTEGER NOT NULL
);

CREATE TABLE token_days (
    token BLOB NOT NULL,
    day INTEGER NOT NULL,
    transfers INTEGER NOT NULL,
    supply BLOB NOT NULL,
    PRIMARY KEY (token, day)
) WITHOUT ROWID;

-- Rounds (Autobahn: slots) of the ordering as one validator told them: JSON of what `corniche_getDag` says of a round. Old ones go.
-- Under Autobahn a car's position in its lane has nothing to do with slots' numbers, so cars are kept by lane and found by time.
CREATE TABLE dag_rounds (
    round INTEGER PRIMARY KEY,
    seen_ms INTEGER NOT NULL,
    content TEXT NOT NULL
);

-- Where commits of the ordering were led, as the node told it. Blocks name commits, so this stays when a round goes.
CREATE TABLE leaders (
    number INTEGER PRIMARY KEY,
    round INTEGER NOT NULL,
    rank INTEGER NOT NULL
);

-- Cars (Autobahn) at a position of a lane, a list because a validator may contradict itself; when the first one was taken in.
CREATE TABLE dag_cars (
    lane INTEGER NOT NULL,
    position INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (lane, position)
) WITHOUT ROWID;
CREATE INDEX dag_cars_by_time ON dag_cars (at_ms);

-- What running a block took on the node that was followed, in that run of the node: no facts of the chain, and not there where the node did
-- not tell in time.
CREATE TABLE executions (
    block INTEGER PRIMARY KEY,
    -- Lanes are numbered from 0.
    threads INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    runs_again INTEGER NOT NULL,
    waits INTEGER NOT NULL,
    adopted INTEGER NOT NULL,
    duration_us INTEGER NOT NULL,
    -- A byte for each transaction: the lane that came to its result, and how often it ran (0: its result was ready).
    lane_of BLOB NOT NULL,
    runs_of BLOB NOT NULL,
    -- Eight bytes for each, the big end first: when it came to that node's pool, Unix milliseconds by its clock (0: not known). Empty where the
    -- node does not tell.
    received_of BLOB NOT NULL
);
