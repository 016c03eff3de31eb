//! A small chain with everything that the API serves: transfers of tokens of three standards, approvals, failures, a
//! skipped transaction, a contract with an ABI, and tokens with hostile names.

use alloy_primitives::{Address, B256, Bytes, U64, U256, address, b256, keccak256};
use corniche_api::{BatchRange, DagVertex, LeaderSlot, Ordering, SkippedTransaction, SlotStatus};
use corniche_web::{
    database::{Database, Place, Rows},
    indexer::{
        contracts::{Code, ModuleInfo},
        dag::{self, Round},
        digest::digest,
        events::{APPROVAL, APPROVAL_FOR_ALL, TRANSFER, TRANSFER_SINGLE},
        tokens::TokenMetadata,
        write::{self, FetchedMetadata},
    },
    node::{Block, Log, Receipt, Transaction, WholeBlock},
};
use std::ops::RangeInclusive;

pub const ALICE: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
pub const BOB: Address = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
/// An ERC-20 with an ABI.
pub const GOLD: Address = Address::repeat_byte(0x60);
/// An ERC-721.
pub const ART: Address = Address::repeat_byte(0x72);
/// An ERC-1155.
pub const ITEMS: Address = Address::repeat_byte(0x11);
/// An ERC-20 whose symbol is a formula and whose name is a script.
pub const EVIL: Address = Address::repeat_byte(0xee);
/// A hash that occurs only as that of a skipped transaction.
pub const SKIPPED: B256 = b256!("5ca1ab1e00000000000000000000000000000000000000000000000000000001");

pub const ABI: &str = r#"[
    {"type":"function","name":"transfer","inputs":[{"name":"to","type":"address"},{"name":"amount","type":"uint256"}],"outputs":[],"stateMutability":"nonpayable"},
    {"type":"event","name":"Transfer","inputs":[{"name":"from","type":"address","indexed":true},{"name":"to","type":"address","indexed":true},{"name":"amount","type":"uint256","indexed":false}],"anonymous":false}
]"#;

/// Time of the first block. The block interval is half a second.
pub const BEGIN_MS: u64 = 1_700_000_000_000;

/// Number of blocks with one payment from Alice to Bob, after the blocks with other events.
pub const PLAIN: u64 = 40;

/// Rounds of the DAG that are stored. Each has one leader, whose commit has the round's number.
pub const ROUNDS: RangeInclusive<u64> = 11..=80;

pub fn hash(block: u64) -> B256 {
    keccak256(format!("block {block}"))
}

/// Placeholder for a transaction's bytes.
pub fn signed(block: u64, position: u64) -> Bytes {
    format!("transaction {block} {position}").into_bytes().into()
}

pub fn transaction_hash(block: u64, position: u64) -> B256 {
    keccak256(signed(block, position))
}

/// A transaction and its receipt without a place in a block.
pub struct Step {
    from: Address,
    to: Option<Address>,
    value: u64,
    input: Vec<u8>,
    created: Option<Address>,
    succeeded: bool,
    logs: Vec<Log>,
}

impl Step {
    pub fn pay(from: Address, to: Address, value: u64) -> Self {
        Self { from, to: Some(to), value, input: Vec::new(), created: None, succeeded: true, logs: Vec::new() }
    }

    pub fn call(from: Address, to: Address, logs: Vec<Log>) -> Self {
        let mut input = keccak256("transfer(address,uint256)")[..4].to_vec();
        input.extend(BOB.into_word());
        input.extend(U256::from(5).to_be_bytes::<32>());
        Self { input, logs, ..Self::pay(from, to, 0) }
    }

    pub fn make(from: Address, created: Address, logs: Vec<Log>) -> Self {
        Self { to: None, created: Some(created), input: vec![1, 2, 3, 4, 5], logs, ..Self::pay(from, from, 0) }
    }

    fn failed(self) -> Self {
        Self { succeeded: false, logs: Vec::new(), ..self }
    }
}

fn log(address: Address, topics: &[B256], words: &[U256]) -> Log {
    let data: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes::<32>()).collect();
    Log { address, topics: topics.to_vec(), data: data.into() }
}

/// 10^18.
pub fn whole(number: u64) -> U256 {
    U256::from(number) * U256::from(10).pow(U256::from(18))
}

pub fn moved(token: Address, from: Address, to: Address, amount: U256) -> Log {
    log(token, &[TRANSFER, from.into_word(), to.into_word()], &[amount])
}

fn moved_one(token: Address, from: Address, to: Address, id: u64) -> Log {
    log(token, &[TRANSFER, from.into_word(), to.into_word(), U256::from(id).into()], &[])
}

fn moved_some(token: Address, from: Address, to: Address, id: u64, amount: u64) -> Log {
    let topics = [TRANSFER_SINGLE, from.into_word(), from.into_word(), to.into_word()];
    log(token, &topics, &[U256::from(id), U256::from(amount)])
}

fn approved(token: Address, owner: Address, spender: Address, amount: U256) -> Log {
    log(token, &[APPROVAL, owner.into_word(), spender.into_word()], &[amount])
}

/// Makes a block of these steps. The transaction at position `skip`, if any, was ordered but not executed.
pub fn block(number: u64, steps: Vec<Step>, skip: Option<u64>) -> WholeBlock {
    let gas = |step: &Step| if step.input.is_empty() { 21_000 } else { 50_000 };
    let used: u64 = steps.iter().map(gas).sum();
    let count = steps.len() as u64 + u64::from(skip.is_some());
    let ordering = (number > 0).then(|| Ordering {
        protocol_version: 2,
        engine: "mahi-mahi".into(),
        epoch: 0,
        committee_hash: B256::ZERO,
        next_committee_hash: B256::ZERO,
        first_commit: 2 * number - 1,
        last_commit: 2 * number,
        last_commit_consumed: 0,
        leader: number % 4,
        timestamp_ms: BEGIN_MS + 500 * number,
        randomness: B256::ZERO,
        batches: vec![BatchRange { author: number % 4, digest: keccak256(number.to_string()), first: 0, count }],
        transactions_hash: B256::ZERO,
        skipped: skip
            .map(|position| SkippedTransaction { position, hash: SKIPPED, reason: "nonce too low".into() })
            .into_iter()
            .collect(),
        resume_hash: B256::ZERO,
        encoded: Bytes::new(),
        encoded_tail: None,
    });
    let head = Block {
        number: U64::from(number),
        hash: hash(number),
        parent_hash: number.checked_sub(1).map(hash).unwrap_or_default(),
        timestamp: U64::from((BEGIN_MS + 500 * number) / 1_000),
        miner: BOB,
        gas_used: U64::from(used),
        gas_limit: U64::from(100_000_000),
        base_fee_per_gas: U256::from(1_000_000_000),
        size: U64::from(1_000),
        state_root: B256::repeat_byte(1),
        transactions_root: B256::repeat_byte(2),
        receipts_root: B256::repeat_byte(3),
        mix_hash: B256::repeat_byte(4),
        extra_data: Bytes::new(),
        transactions: Vec::new(),
    };
    let mut whole = WholeBlock { block: head, receipts: Vec::new(), ordering };
    for (step, position) in steps.into_iter().zip(0..) {
        let gas = gas(&step);
        whole.block.transactions.push(Transaction {
            hash: transaction_hash(number, position),
            from: step.from,
            to: step.to,
            nonce: U64::from(number * 100 + position),
            value: U256::from(step.value),
            input: step.input.into(),
            gas: U64::from(90_000),
            kind: U64::from(2),
            max_fee_per_gas: Some(U256::from(2_000_000_000u64)),
            max_priority_fee_per_gas: Some(U256::from(7)),
        });
        whole.receipts.push(Receipt {
            transaction_hash: transaction_hash(number, position),
            status: U64::from(u64::from(step.succeeded)),
            gas_used: U64::from(gas),
            effective_gas_price: U256::from(1_000_000_007u64),
            contract_address: step.created,
            logs: step.logs,
        });
    }
    whole
}

/// Returns the whole chain.
fn blocks() -> Vec<WholeBlock> {
    let nobody = Address::ZERO;
    let mut blocks = vec![
        block(0, vec![], None),
        block(
            1,
            vec![
                Step::make(ALICE, GOLD, vec![moved(GOLD, nobody, ALICE, whole(1_000))]),
                Step::make(ALICE, ART, (1..=30).map(|id| moved_one(ART, nobody, ALICE, id)).collect()),
                Step::make(BOB, ITEMS, (1..=9).map(|id| moved_some(ITEMS, nobody, BOB, id, 5)).collect()),
                Step::make(BOB, EVIL, vec![moved(EVIL, nobody, ALICE, whole(7)), moved(EVIL, nobody, BOB, whole(1))]),
            ],
            None,
        ),
        block(
            2,
            vec![
                Step::call(ALICE, GOLD, vec![moved(GOLD, ALICE, BOB, whole(5))]),
                Step::call(ALICE, GOLD, vec![approved(GOLD, ALICE, BOB, U256::MAX), approved(GOLD, ALICE, ITEMS, whole(2))]),
                Step::call(
                    ALICE,
                    ART,
                    vec![
                        log(ART, &[APPROVAL_FOR_ALL, ALICE.into_word(), BOB.into_word()], &[U256::ONE]),
                        moved_one(ART, ALICE, BOB, 3),
                    ],
                ),
                Step::call(BOB, GOLD, vec![moved(GOLD, BOB, ALICE, whole(99))]).failed(),
            ],
            Some(1),
        ),
    ];
    for number in 3..3 + PLAIN {
        let paid = Step::call(ALICE, GOLD, vec![moved(GOLD, ALICE, BOB, U256::from(number))]);
        blocks.push(block(number, vec![Step::pay(ALICE, BOB, number), paid, Step::pay(BOB, ALICE, 1)], None));
    }
    blocks
}

/// Returns the node's data about contracts and tokens.
pub fn metadata() -> FetchedMetadata {
    let name = |name: &str, symbol: &str| TokenMetadata { name: name.into(), symbol: symbol.into(), decimals: 18 };
    let code = |abi: &str| Code { hash: B256::repeat_byte(9), bytes: 1_234, abi: abi.into(), facts: ModuleInfo::default() };
    FetchedMetadata {
        tokens: [
            (GOLD, name("Gold", "GLD")),
            (ART, TokenMetadata { decimals: 0, ..name("Golden pictures", "ART") }),
            // Its contract returns 18 decimals, although its tokens have ids.
            (ITEMS, name("Items", "ITM")),
            (EVIL, name("<script>alert(1)</script>", "=HYPERLINK(\"http://x\",\"y\")")),
        ]
        .into(),
        contracts: [(GOLD, code(ABI)), (ART, code("")), (ITEMS, code("")), (EVIL, code(""))].into(),
    }
}

/// Returns a round with its leader's proposal.
pub fn round(number: u64) -> Round {
    let (digest, leader) = (keccak256(format!("proposal {number}")), number % 4);
    let vertex = DagVertex {
        round: number,
        author: leader,
        digest,
        parents: Vec::new(),
        batch_bytes: 500,
        batch_digest: None,
        proposed_ms: None,
        accepted_ms: Some(BEGIN_MS),
        holders: Vec::new(),
    };
    let slot = LeaderSlot {
        round: number,
        rank: 0,
        validator: leader,
        status: SlotStatus::Committed,
        digest: Some(digest),
        why: None,
        decided_ms: Some(BEGIN_MS + 1),
        commit: Some(number),
        voters: Vec::new(),
        confirmers: Vec::new(),
    };
    Round { vertices: vec![vertex], slots: vec![slot] }
}

/// Writes the chain in two groups, and the data of the indexer's other lanes.
pub async fn fill(database: &Database) {
    let mut writer = database.writer().await.unwrap();
    let digests: Vec<_> = blocks().iter().map(|whole| digest(whole, Some(BEGIN_MS)).unwrap()).collect();
    let mut digests = digests.into_iter();
    write::write(&mut writer, digests.by_ref().take(2).collect(), &metadata()).await.unwrap();
    write::write(&mut writer, digests.collect(), &FetchedMetadata::default()).await.unwrap();

    let columns = &["height", "first", "signers", "signature", "fault_model", "seen_ms"];
    let mut certificates = Rows::new("certificates", columns);
    for height in 1..=20u64 {
        let signers = vec![0b1011u8];
        certificates.push([
            (2 * height).into(),
            (2 * height - 1).into(),
            signers.into(),
            vec![7u8; 48].into(),
            "byzantine".to_owned().into(),
            BEGIN_MS.into(),
        ]);
    }
    certificates.write(&mut writer).await.unwrap();

    let columns =
        &["place", "transaction_place", "depth", "kind", "sender", "recipient", "value", "selector", "gas_used", "error"];
    let mut calls = Rows::new("calls", columns);
    let mut sides = Rows::new("call_sides", &["address", "place"]);
    for (position, kind) in ["CALL", "DELEGATECALL", "CREATE", "STATICCALL", "CALL"].into_iter().enumerate() {
        let place = Place::new(2, position as u64);
        let error = (position == 4).then(|| "out of gas".to_owned());
        calls.push([
            place.into(),
            Place::new(2, 0).into(),
            1u64.into(),
            kind.to_owned().into(),
            GOLD.into(),
            BOB.into(),
            U256::from(position).into(),
            Some(vec![1u8, 2, 3, 4]).into(),
            700u64.into(),
            error.into(),
        ]);
        sides.push([GOLD.into(), place.into()]);
        sides.push([BOB.into(), place.into()]);
    }
    calls.write(&mut writer).await.unwrap();
    sides.write(&mut writer).await.unwrap();
    let mut undone = Rows::new("undone", &["place", "error", "reason", "output"]);
    let reason = Some("not <enough>".to_owned());
    undone.push([Place::new(2, 3).into(), "execution reverted".to_owned().into(), reason.into(), vec![1u8].into()]);
    undone.write(&mut writer).await.unwrap();

    for rows in dag::rows(ROUNDS.map(|number| (number, round(number))), BEGIN_MS) {
        rows.write(&mut writer).await.unwrap();
    }
}
