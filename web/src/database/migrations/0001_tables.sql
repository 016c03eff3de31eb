-- Tables of the explorer's database, in SQLite's dialect. For PostgreSQL, `migrations.rs` replaces INTEGER by BIGINT and
-- BLOB by BYTEA, and removes WITHOUT ROWID.
--
-- A *place* is a block number times 2^20 plus a position within the block. Transactions, logs, transfers and calls have
-- separate positions. Places also serve as pagination cursors: every list is read downwards from a place. Amounts of
-- 256 bits are stored as 32 bytes, big-endian, so that the database sorts them by value.

-- Facts about the chain, and the progress of each part of the indexer.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE blocks (
    number INTEGER PRIMARY KEY,
    hash BLOB NOT NULL,
    parent BLOB NOT NULL,
    -- Block time agreed by consensus, in Unix milliseconds.
    time_ms INTEGER NOT NULL,
    -- Times on the explorer's clock: when it received the block, and when the node reported it as certified. Null for
    -- blocks that existed before the explorer started to observe. The explorer polls again only after it has written
    -- the previous response, so under load both times lag behind the network.
    seen_ms INTEGER,
    certified_ms INTEGER,
    -- Index of the leader in the committee.
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

-- Parts of validators' batches in a block, in order. `position` is that of the part's first transaction in the block's
-- order, counted from 0 over all batches.
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

-- Transactions that were ordered but not executed.
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
    -- Null for a contract creation; `created` has the new address.
    recipient BLOB,
    created BLOB,
    kind INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    value BLOB NOT NULL,
    -- The first four bytes of `input`, or all of it if it is shorter.
    selector BLOB NOT NULL,
    gas_limit INTEGER NOT NULL,
    gas_used INTEGER NOT NULL,
    -- Gas used by this and all earlier transactions of the block.
    cumulative_gas INTEGER NOT NULL,
    -- Effective gas price in wei.
    gas_price INTEGER NOT NULL,
    max_fee INTEGER,
    max_tip INTEGER,
    succeeded INTEGER NOT NULL,
    -- Index of the validator whose batch included it.
    author INTEGER,
    logs INTEGER NOT NULL,
    time_ms INTEGER NOT NULL,
    -- The last column, so that SQLite need not skip over it to read others. Lists read all columns but this one.
    input BLOB NOT NULL
);
CREATE UNIQUE INDEX transactions_by_hash ON transactions (hash);

-- Accounts involved in a transaction. Bits of `roles`: 1 sender, 2 recipient, 4 created contract, 8 emitted a log, 16
-- inner call, 32 token transfer.
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
    -- The first topic, which identifies the event.
    event BLOB,
    data BLOB NOT NULL
);
CREATE INDEX logs_by_transaction ON logs (transaction_place, place);
CREATE INDEX logs_by_address ON logs (address, place);
CREATE INDEX logs_by_event ON logs (address, event, place);

-- Inner calls, from traces. Empty if the node serves no traces.
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

-- Reverted transactions, from traces: the error, its message if any, and the beginning of the return data.
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

-- standard: 20, 721 or 1155. Names and symbols are reported by untrusted contracts, and truncated.
CREATE TABLE tokens (
    address BLOB PRIMARY KEY,
    standard INTEGER NOT NULL,
    name TEXT NOT NULL,
    symbol TEXT NOT NULL,
    -- Lower case, for search.
    name_key BLOB NOT NULL,
    symbol_key BLOB NOT NULL,
    -- 0 for tokens with ids.
    decimals INTEGER NOT NULL,
    -- Sum of the token's events.
    supply BLOB NOT NULL,
    holders INTEGER NOT NULL,
    transfers INTEGER NOT NULL,
    first_block INTEGER NOT NULL,
    -- 0 if the events transferred more than a holder had.
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
    -- Null for tokens without ids.
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

-- token_id is empty for tokens without ids. Zero balances are deleted.
CREATE TABLE balances (
    token BLOB NOT NULL,
    holder BLOB NOT NULL,
    token_id BLOB NOT NULL,
    amount BLOB NOT NULL,
    PRIMARY KEY (token, holder, token_id)
) WITHOUT ROWID;
CREATE INDEX balances_by_holder ON balances (holder, token, token_id);
CREATE INDEX balances_by_amount ON balances (token, token_id, amount, holder);

-- The newest allowance of each owner, token and spender, from events. For tokens with ids, `amount` is 1 if `spender`
-- may transfer all of them, else 0.
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

-- abi_source: module, uploaded or empty. facts: JSON with properties of the code (size, imports, exports, memory).
CREATE TABLE contracts (
    address BLOB PRIMARY KEY,
    creator BLOB,
    -- Place of the transaction that created it; null for genesis contracts.
    transaction_place INTEGER,
    code_hash BLOB NOT NULL,
    code_bytes INTEGER NOT NULL,
    abi TEXT NOT NULL,
    abi_source TEXT NOT NULL,
    facts TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX contracts_by_transaction ON contracts (transaction_place);
CREATE INDEX contracts_by_code ON contracts (code_hash, address);

-- Signatures of functions and events in the known ABIs.
CREATE TABLE selectors (
    selector BLOB NOT NULL,
    signature TEXT NOT NULL,
    -- Name in lower case, for search.
    name_key BLOB NOT NULL,
    PRIMARY KEY (selector, signature)
) WITHOUT ROWID;
CREATE INDEX selectors_by_name ON selectors (name_key);

CREATE TABLE certificates (
    height INTEGER PRIMARY KEY,
    -- The block after the previous certificate's height: this certificate finalizes `first` to `height`.
    first INTEGER NOT NULL,
    signers BLOB NOT NULL,
    signature BLOB NOT NULL,
    fault_model TEXT NOT NULL,
    seen_ms INTEGER NOT NULL
);

-- Record of a validator for each day (days since 1970).
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

-- Rounds of the DAG (Autobahn: slots) as one validator reported them. `content` is the JSON of a round from
-- `corniche_getDag`. Old rounds are deleted. Under Autobahn the position of a car in its lane is unrelated to slot
-- numbers, so cars have their own table and are found by time.
CREATE TABLE dag_rounds (
    round INTEGER PRIMARY KEY,
    seen_ms INTEGER NOT NULL,
    content TEXT NOT NULL
);

-- Leaders of commits, as reported by the node. Blocks refer to commits, so these rows remain when a round is deleted.
CREATE TABLE leaders (
    number INTEGER PRIMARY KEY,
    round INTEGER NOT NULL,
    rank INTEGER NOT NULL
);

-- Cars (Autobahn) at a position of a lane. A list, because a validator may equivocate. `at_ms` is the time when the
-- first one was received.
CREATE TABLE dag_cars (
    lane INTEGER NOT NULL,
    position INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (lane, position)
) WITHOUT ROWID;
CREATE INDEX dag_cars_by_time ON dag_cars (at_ms);

-- Statistics of the execution of a block on the followed node. They describe one run of one node, not the chain. There
-- is no row if the node did not report them in time.
CREATE TABLE executions (
    block INTEGER PRIMARY KEY,
    -- Lanes are numbered from 0.
    threads INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    runs_again INTEGER NOT NULL,
    waits INTEGER NOT NULL,
    adopted INTEGER NOT NULL,
    duration_us INTEGER NOT NULL,
    -- One byte for each transaction: the lane that produced its result, and the number of runs (0: the result was
    -- ready).
    lane_of BLOB NOT NULL,
    runs_of BLOB NOT NULL,
    -- Eight bytes for each transaction, big-endian: when it entered that node's pool, in Unix milliseconds on the
    -- node's clock (0: unknown). Empty if the node does not report it.
    received_of BLOB NOT NULL
);
