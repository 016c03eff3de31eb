//! No block is missed or duplicated: the indexer against an unreliable node, interrupted at any instant and restarted.

use super::{
    chain::{Chain, Made},
    dump::{Dump, all, assert_same},
    model::Model,
    node::Scripted,
    postgres,
    random::Random,
    sqlite,
};
use alloy_primitives::Bytes;
use corniche_api::Execution;
use corniche_web::{
    app_state::AppState,
    database::{Database, Place},
    indexer::{Indexer, Keep, executions, uploads, write},
    indexer_status::{Halt, IndexerStatus},
    limits::{Rate, RateLimiter},
    live::Live,
    node::Node,
    peer_graph::PeerGraph,
    server,
};
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    process::{Command, Stdio},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const BLOCKS: u64 = 150;
const ENDS: u64 = 40;

/// Environment variable with the arguments of a child process: node and database.
const CHILD: &str = "CORNICHE_INDEX";

/// The DAG has another lane, whose rounds are not part of the chain.
pub const KEEP: Keep = Keep { dag_rounds: 0, calls: true };

/// Keeps the whole DAG as well.
pub const WITH_DAG: Keep = Keep { dag_rounds: 10_000, calls: true };

/// Creates an indexer that has not started yet.
pub async fn indexer(node: &Scripted, database: &Database) -> (Indexer, Arc<IndexerStatus>) {
    indexer_that_keeps(KEEP, node, database).await
}

/// Creates an indexer with these settings.
pub async fn indexer_that_keeps(keep: Keep, node: &Scripted, database: &Database) -> (Indexer, Arc<IndexerStatus>) {
    let indexer_status = Arc::new(IndexerStatus::new("CRN".into()));
    let indexer =
        Indexer::new(Node::new(&node.url), database, Arc::clone(&indexer_status), Live::default(), keep).await.unwrap();
    (indexer, indexer_status)
}

async fn follow(node: &Scripted, database: &Database) -> Option<Halt> {
    follow_and_keep(KEEP, node, database).await
}

async fn follow_and_keep(keep: Keep, node: &Scripted, database: &Database) -> Option<Halt> {
    let (mut indexer, indexer_status) = indexer_that_keeps(keep, node, database).await;
    go_on(&mut indexer, &indexer_status).await
}

/// Runs the indexer until it has nothing to do and no error, or halts.
pub async fn go_on(indexer: &mut Indexer, indexer_status: &IndexerStatus) -> Option<Halt> {
    for _ in 0..10_000 {
        match indexer.step().await {
            None => return indexer_status.snapshot().halt,
            Some(pause) if !pause.is_zero() && indexer_status.snapshot().last_error.is_none() => return None,
            Some(_) => {}
        }
    }
    panic!("no end: {:?}", indexer_status.snapshot());
}

/// Returns the expected database content for this chain.
async fn undisturbed(chain: &Chain) -> Dump {
    let node = Scripted::start(chain.clone()).await;
    let (database, _directory) = sqlite().await;
    assert_eq!(follow(&node, &database).await, None);
    let whole = Model::of(&chain.blocks, chain.certificates.values());
    let lines = whole.lines().into_iter().filter(|(query, _)| !query.contains("activity"));
    let held = all(&database).await;
    for (query, expected) in lines {
        assert_eq!(super::dump::rows(&database, query).await, expected, "{query}");
    }
    assert!(held["calls"].len() > 20 && held["certificates"].len() == chain.certificates.len());
    held
}

/// Returns the node's statistics of a block, without the transactions' times of receipt.
fn run_of(made: &Made) -> Execution {
    Execution { received_of: Bytes::new(), ..super::node::execution(made) }
}

#[tokio::test]
async fn execution_statistics_are_stored() {
    let chain = Chain::new(19, 100);
    let node = Scripted::start(chain.clone()).await;
    // The node restarted at block 30.
    node.keep_executions(Some(30));
    let (database, _directory) = sqlite().await;
    assert_eq!(follow(&node, &database).await, None);
    for made in &chain.blocks {
        let number = made.whole.block.number.to::<u64>();
        let known = executions::of_block(database.readers(), number).await.unwrap();
        assert_eq!(known, (number >= 30).then(|| run_of(made)), "block {number}");
    }
    // Stored statistics remain, whatever the node serves later.
    node.keep_executions(Some(1_000));
    assert_eq!(follow(&node, &database).await, None);
    assert!(executions::of_block(database.readers(), 50).await.unwrap().is_some());
}

/// Uses one indexer for all chains, which remembers how far it had read.
async fn runs_of_a_chain_that_goes_back(database: &Database) {
    let first = Chain::new(21, 60);
    let node = Scripted::for_development(first.clone()).await;
    let (mut indexer, indexer_status) = indexer(&node, database).await;
    for chain in [first.clone(), first.fork(30, 1, 50), first.fork(20, 2, 90)] {
        node.take(chain.clone());
        assert_eq!(go_on(&mut indexer, &indexer_status).await, None);
        for made in &chain.blocks[1..] {
            let number = made.whole.block.number.to::<u64>();
            let known = executions::of_block(database.readers(), number).await.unwrap();
            assert_eq!(known, Some(run_of(made)), "block {number} of {}", chain.blocks.len());
            for position in 0..made.whole.block.transactions.len() as u64 {
                let known = executions::received_ms(database.readers(), Place::new(number, position)).await.unwrap();
                assert_eq!(known, Some(super::node::received_ms(position)).filter(|ms| *ms > 0), "{position} of {number}");
            }
        }
        let beyond = executions::of_block(database.readers(), chain.blocks.len() as u64).await.unwrap();
        assert_eq!(beyond, None, "of a block that is gone");
    }
}

#[tokio::test]
async fn execution_statistics_are_reverted() {
    let (database, _directory) = sqlite().await;
    runs_of_a_chain_that_goes_back(&database).await;
    runs_of_a_chain_that_goes_back(&Database::open(&postgres().await.database("runs").await).await.unwrap()).await;
}

#[tokio::test]
async fn node_without_statistics_is_followed() {
    let chain = Chain::new(20, 60);
    let expected = undisturbed(&chain).await;
    let node = Scripted::start(chain).await;
    node.keep_executions(None);
    let (database, _directory) = sqlite().await;
    assert_eq!(follow(&node, &database).await, None);
    let mut held = all(&database).await;
    let indexer_status =
        |lines: &Vec<String>| lines.iter().filter(|line| !line.contains("\"executions\"")).cloned().collect::<Vec<_>>();
    let expected: BTreeMap<_, _> = expected.iter().map(|(table, lines)| (table.clone(), indexer_status(lines))).collect();
    held.values_mut().for_each(|lines| *lines = indexer_status(lines));
    assert_same(&expected, &held, "with and without what blocks took");
    assert_eq!(super::dump::rows(&database, "SELECT * FROM executions").await, Vec::<String>::new());
}

/// Polls a future this many times, and drops it.
struct Polls<F> {
    inner: Pin<Box<F>>,
    left: u64,
}

impl<F: Future> Future for Polls<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(left) = self.left.checked_sub(1) else { return Poll::Ready(None) };
        self.left = left;
        self.inner.as_mut().poll(context).map(Some)
    }
}

async fn ended_again_and_again(seed: u64, url: &str) {
    let chain = Chain::new(seed, BLOCKS);
    let expected = undisturbed(&chain).await;
    let node = Scripted::start(chain).await;
    node.be_moody(seed);
    let mut random = Random::new(seed);
    for _ in 0..ENDS {
        let database = Database::open(url).await.unwrap();
        let (mut indexer, _) = indexer(&node, &database).await;
        let steps = async move { while indexer.step().await.is_some() {} };
        let most = random.pick(&[20, 200, 2_000]);
        let polls = Polls { inner: Box::pin(steps), left: random.below(most) };
        assert_eq!(polls.await, None, "seed {seed}: the indexer stopped");
    }
    node.be_well();
    let database = Database::open(url).await.unwrap();
    assert_eq!(follow(&node, &database).await, None);
    assert_same(&expected, &all(&database).await, &format!("seed {seed}, undisturbed and ended {ENDS} times"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_indexer_resumes_on_sqlite() {
    for seed in 1..=6 {
        let (_database, directory) = sqlite().await;
        ended_again_and_again(seed, &format!("sqlite://{}", directory.path().join("explorer.db").display())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_indexer_resumes_on_postgres() {
    let postgres = postgres().await;
    for seed in 7..=9 {
        ended_again_and_again(seed, &postgres.database(&format!("ended{seed}")).await).await;
    }
}

/// Returns the expected database content for this chain and its DAG.
async fn undisturbed_with_dag(chain: &Chain) -> Dump {
    let node = Scripted::start(chain.clone()).await;
    node.show_dag();
    let (database, _directory) = sqlite().await;
    assert_eq!(follow_and_keep(WITH_DAG, &node, &database).await, None);
    let held = all(&database).await;
    assert_eq!([held["dag_rounds"].len(), held["leaders"].len()], [chain.blocks.len() - 1; 2]);
    for (table, lines) in undisturbed(chain).await {
        assert!(["dag_rounds", "leaders"].contains(&table.as_str()) || held[&table] == lines, "{table}");
    }
    held
}

async fn killed_again_and_again(seed: u64, kills: u64, url: &str) {
    let chain = Chain::new(seed, BLOCKS);
    let expected = undisturbed_with_dag(&chain).await;
    let node = Scripted::start(chain).await;
    node.show_dag();
    node.be_moody(seed);
    let mut random = Random::new(seed);
    for _ in 0..kills {
        let told = format!("{} {url}", node.url);
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "resume::child", "--ignored", "--test-threads=1"]).env(CHILD, told);
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let asked = node.asked(4 + random.below(24));
        tokio::time::timeout(Duration::from_secs(60), asked).await.expect("the child asks the node");
        // The scheduler decides the instant within the processing of the response.
        for _ in 0..random.below(400) {
            tokio::task::yield_now().await;
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    node.be_well();
    let database = Database::open(url).await.unwrap();
    assert_eq!(follow_and_keep(WITH_DAG, &node, &database).await, None);
    assert_same(&expected, &all(&database).await, &format!("seed {seed}, undisturbed and killed {kills} times"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_process_resumes_on_sqlite() {
    let (_database, directory) = sqlite().await;
    killed_again_and_again(10, 12, &format!("sqlite://{}", directory.path().join("explorer.db").display())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_process_resumes_on_postgres() {
    let postgres = postgres().await;
    killed_again_and_again(27, 5, &postgres.database("killed").await).await;
}

#[tokio::test]
#[ignore = "the process that its neighbour kills"]
async fn child() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let (node, database) = told.split_once(' ').unwrap();
    let database = Database::open(database).await.unwrap();
    let indexer_status = Arc::new(IndexerStatus::new("CRN".into()));
    let mut indexer = Indexer::new(Node::new(node), &database, indexer_status, Live::default(), WITH_DAG).await.unwrap();
    while indexer.step().await.is_some() {}
}

#[tokio::test]
async fn reverted_chain_is_indexed_again() {
    let first = Chain::new(11, 60);
    let node = Scripted::for_development(first.clone()).await;
    let (database, _directory) = sqlite().await;
    assert_eq!(follow(&node, &database).await, None);
    // A shorter, an equally long and a longer chain, and a revert to genesis; each time from the previous state.
    for (keep, length) in [(40, 50), (50, 50), (30, 90), (1, 1), (1, 70)] {
        let chain = first.fork(keep, 100 + length, length);
        node.take(chain.clone());
        assert_eq!(follow(&node, &database).await, None);
        let model = Model::of(&chain.blocks, chain.certificates.values());
        let balances = model.lines().into_iter().filter(|(query, _)| !query.contains("activity"));
        for (query, expected) in balances {
            assert_eq!(super::dump::rows(&database, query).await, expected, "{length} blocks, {keep} of them kept: {query}");
        }
    }
}

#[tokio::test]
async fn revert_during_sync_is_followed() {
    let chain = Chain::new(12, 100);
    let node = Scripted::for_development(chain.clone()).await;
    let (database, _directory) = sqlite().await;
    let mut random = Random::new(12);
    for round in 0..20 {
        let (indexer, _) = indexer(&node, &database).await;
        let mut indexer = indexer;
        let steps = async move { while indexer.step().await.is_some() {} };
        let polls = Polls { inner: Box::pin(steps), left: random.below(300) };
        assert_eq!(polls.await, None);
        node.take(chain.fork(1 + random.below(90) as usize, round, 40 + random.below(100)));
    }
    let last = chain.fork(50, 99, 110);
    node.take(last.clone());
    assert_eq!(follow(&node, &database).await, None);
    let fresh = Scripted::for_development(last).await;
    let (other, _directory) = sqlite().await;
    assert_eq!(follow(&fresh, &other).await, None);
    assert_same(&all(&other).await, &all(&database).await, "a fresh database and one that went back");
}

#[tokio::test]
async fn syncing_node_is_not_a_contradiction() {
    let chain = Chain::new(13, 60);
    let node = Scripted::start(chain).await;
    let (database, _directory) = sqlite().await;
    assert_eq!(follow(&node, &database).await, None);
    let before = all(&database).await;
    node.lag(20);
    assert_eq!(follow(&node, &database).await, None);
    assert_same(&before, &all(&database).await, "before and while the node catches up");
}

/// The first response is sent only after the last request, so sequential requests would never be answered.
#[tokio::test]
async fn blocks_are_requested_concurrently() {
    let chain = Chain::new(29, 64);
    let node = Scripted::start(chain).await;
    node.answer_together(4);
    let (database, _directory) = sqlite().await;
    let (mut indexer, indexer_status) = indexer(&node, &database).await;
    for _ in 0..2 {
        assert!(indexer.step().await.is_some());
    }
    let now = indexer_status.snapshot();
    assert_eq!((now.indexed.map(|(number, _)| number), now.last_error), (Some(63), None));
}

#[tokio::test]
async fn small_responses_reach_the_head() {
    let chain = Chain::new(19, 60);
    let expected = undisturbed(&chain).await;
    let node = Scripted::start(chain).await;
    for room in [1, 3] {
        node.has_room_for(room);
        let (database, _directory) = sqlite().await;
        assert_eq!(follow(&node, &database).await, None);
        assert_same(&expected, &all(&database).await, &format!("undisturbed, and {room} blocks at once"));
    }
}

/// Adds a timeout of 60 seconds, because the event may never happen.
async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("what is waited for")
}

#[tokio::test]
async fn traces_are_requested_concurrently() {
    let chain = Chain::new(19, 60);
    let expected = undisturbed(&chain).await;
    let node = Scripted::start(chain).await;
    let (database, _directory) = sqlite().await;
    let (mut indexer, indexer_status) = indexer(&node, &database).await;
    node.hold_traces();
    let answer = async {
        node.traces_asked(4).await;
        node.answer_traces();
    };
    let followed = async { tokio::join!(go_on(&mut indexer, &indexer_status), answer).0 };
    assert_eq!(in_time(followed).await, None);
    assert_same(&expected, &all(&database).await, "undisturbed, and with traces that are asked for at the same time");
}

#[tokio::test]
async fn failed_trace_blocks_later_traces() {
    let chain = Chain::new(19, 60);
    let expected = undisturbed(&chain).await;
    let has_calls = |made: &&Made| made.whole.receipts.iter().any(|receipt| receipt.gas_used.to::<u64>() > 21_000);
    let with_calls: Vec<u64> = chain.blocks.iter().filter(has_calls).map(|made| made.whole.block.number.to()).collect();
    let node = Scripted::start(chain).await;
    let (database, _directory) = sqlite().await;
    let (mut indexer, indexer_status) = indexer(&node, &database).await;
    // The first, a middle and the last one of the blocks that are requested together.
    for at in [0, 2, 6] {
        let (before, failing) = (with_calls[..at].last().copied(), with_calls[at]);
        node.fail_to_trace(Some(failing));
        assert_eq!(go_on(&mut indexer, &indexer_status).await, None);
        assert_eq!(indexer_status.snapshot().traced, Some(before.unwrap_or(0)));
        let later = format!("SELECT place FROM calls WHERE place >= {}", Place::first(failing).0);
        assert_eq!(super::dump::rows(&database, &later).await, Vec::<String>::new(), "block {failing} fails");
    }
    node.fail_to_trace(None);
    assert_eq!(go_on(&mut indexer, &indexer_status).await, None);
    assert_same(&expected, &all(&database).await, "undisturbed, and with traces that failed");
}

#[tokio::test]
async fn traces_of_reverted_blocks_are_dropped() {
    let first = Chain::new(19, 60);
    for length in [3, 60, 90] {
        let last = first.fork(2, 26, length);
        let node = Scripted::for_development(first.clone()).await;
        let (database, _directory) = sqlite().await;
        let (mut indexer, indexer_status) = indexer(&node, &database).await;
        node.hold_traces();
        let go_back = async {
            node.traces_asked(4).await;
            node.take(last.clone());
            node.answer_traces();
        };
        let followed = async { tokio::join!(go_on(&mut indexer, &indexer_status), go_back).0 };
        assert_eq!(in_time(followed).await, None);
        // Blocks that no longer exist cannot be traced; the next turn detects the reason.
        assert_eq!(go_on(&mut indexer, &indexer_status).await, None);
        let fresh = Scripted::for_development(last.clone()).await;
        let (other, _directory) = sqlite().await;
        assert_eq!(follow(&fresh, &other).await, None);
        assert_same(&all(&other).await, &all(&database).await, &format!("{length} blocks, fresh and after others"));
    }
}

#[tokio::test]
async fn certified_time_is_when_the_head_was_received() {
    let node = Scripted::start(Chain::new(20, 20)).await;
    let (database, _directory) = sqlite().await;
    assert_eq!(follow(&node, &database).await, None);
    let lines = super::dump::rows(&database, "SELECT certified_ms AS at FROM blocks WHERE certified_ms IS NOT NULL").await;
    let times: Vec<u64> = lines.iter().map(|line| line.trim_start_matches("at=").parse().unwrap()).collect();
    let asked = node.certificates_asked_ms();
    assert!(!times.is_empty() && times.iter().all(|time| *time <= asked), "asked at {asked}: {times:?}");
}

#[tokio::test]
async fn contradicting_chain_halts_indexer() {
    let first = Chain::new(14, 60);
    for length in [50, 60, 80] {
        let node = Scripted::start(first.clone()).await;
        let (database, _directory) = sqlite().await;
        assert_eq!(follow(&node, &database).await, None);
        let before = all(&database).await;
        node.take(first.fork(40, 5, length));
        let halt = follow(&node, &database).await;
        assert!(matches!(halt, Some(Halt::Contradiction { number: 49 | 59 })), "{length} blocks: {halt:?}");
        assert_same(&before, &all(&database).await, "before and after the contradiction");
    }
}

#[tokio::test]
async fn other_genesis_halts_with_advice() {
    let (database, _directory) = sqlite().await;
    let node = Scripted::start(Chain::new(15, 20)).await;
    assert_eq!(follow(&node, &database).await, None);
    let before = all(&database).await;
    // At the same address, while the explorer is offline or running; for development chains and others.
    for node in [Scripted::start(Chain::new(16, 30)).await, Scripted::for_development(Chain::new(16, 30)).await] {
        let (mut indexer, indexer_status) = indexer(&node, &database).await;
        assert_eq!(indexer.step().await, None);
        let halt = indexer_status.snapshot().halt;
        assert!(matches!(halt, Some(Halt::AnotherChain { .. })), "{halt:?}");
        let (status, page) = home(&node, &database, indexer_status).await;
        assert_eq!(status, 503);
        for words in ["the database has chain 42", "empty database"] {
            assert!(page.contains(words), "{words} is not in {page}");
        }
    }
    assert_same(&before, &all(&database).await, "before and after another genesis");
}

#[tokio::test]
async fn wiped_development_chain_halts_indexer() {
    let node = Scripted::for_development(Chain::new(17, 30)).await;
    let (database, _directory) = sqlite().await;
    let (mut indexer, indexer_status) = indexer(&node, &database).await;
    while indexer.step().await.is_some_and(|pause| pause.is_zero()) {}
    node.take(Chain::new(18, 30));
    assert_eq!(indexer.step().await, None);
    assert!(matches!(indexer_status.snapshot().halt, Some(Halt::AnotherChain { .. })), "{:?}", indexer_status.snapshot().halt);
    let mut connection = database.writer().await.unwrap();
    assert_eq!(write::tip(&mut connection).await.unwrap().map(|tip| tip.number), Some(29));
}

#[tokio::test]
async fn wiped_node_has_another_chain() {
    for length in [1, 20, 30, 50] {
        let node = Scripted::start(Chain::new(17, 30)).await;
        let (database, _directory) = sqlite().await;
        let (mut indexer, indexer_status) = indexer(&node, &database).await;
        assert_eq!(go_on(&mut indexer, &indexer_status).await, None);
        let before = all(&database).await;
        node.take(Chain::new(18, length));
        let halt = go_on(&mut indexer, &indexer_status).await;
        assert!(matches!(halt, Some(Halt::AnotherChain { .. })), "{length} blocks: {halt:?}");
        assert_same(&before, &all(&database).await, "before and after another genesis");
    }
}

#[tokio::test]
async fn unrequested_block_is_rejected() {
    let chain = Chain::new(26, 60);
    let expected = undisturbed(&chain).await;
    let node = Scripted::start(chain).await;
    node.be_mistaken(true);
    let (database, _directory) = sqlite().await;
    let (mut indexer, indexer_status) = indexer(&node, &database).await;
    for _ in 0..2 {
        assert!(indexer.step().await.is_some());
    }
    let waits = indexer_status.snapshot().last_error.unwrap_or_default();
    assert!(waits.contains("expected block "), "{waits:?}");
    assert_eq!(indexer_status.snapshot().indexed, None);
    node.be_mistaken(false);
    assert_eq!(go_on(&mut indexer, &indexer_status).await, None);
    assert_same(&expected, &all(&database).await, "undisturbed, and of a node that was mistaken");
}

/// Returns status and text of the home page.
async fn home(node: &Scripted, database: &Database, indexer_status: Arc<IndexerStatus>) -> (u16, String) {
    let (uploads, _) = uploads::channel();
    let app = AppState {
        uploads,
        database: database.clone(),
        node: Node::new(&node.url),
        peer_graph: PeerGraph::new([&node.url]),
        indexer_status,
        live: Live::default(),
        limits: RateLimiter::new(Rate::default()),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(server::serve(listener, server::router(Arc::new(app)), Vec::new()));
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    served.abort();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}
