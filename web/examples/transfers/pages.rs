//! Measures the time of every page over loopback through the real router.

use super::{
    besides,
    random::Random,
    traffic::{Traffic, VALIDATORS},
};
use alloy_primitives::{Address, B256};
use corniche_api::{Validator, Validators};
use corniche_types::{FaultModel, SignatureChecks};
use corniche_web::{
    api::{ENDPOINTS, etherscan::ACTIONS},
    app_state::AppState,
    database::{Database, Place},
    indexer_status::IndexerStatus,
    limits::{Rate, RateLimiter},
    live::Live,
    node::Node,
    peer_graph::PeerGraph,
    server,
};
use std::{net::SocketAddr, sync::Arc, time::Duration, time::Instant};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Number of measured requests for each kind of page, and of warm-up requests before.
const REQUESTS: usize = 300;
const WARM: usize = 5;

/// The search redirects to an exact result.
const FOUND: [u16; 2] = [200, 303];

const BAR: Duration = Duration::from_millis(50);

/// Pages and API requests. `{hot}` is one of the ten busiest accounts, `{account}` any account; `{gold}` one of the ten
/// busiest tokens; `{place}` any place in the chain; `{named}` a block by its hash; `{round}` one of the newest rounds,
/// `{batch}` a batch of one of these; `{failure}` a failed transaction.
const PAGES: &[&str] = &[
    "/",
    "/blocks",
    "/blocks?before={place}",
    "/block/{block}",
    "/block/{block}?before={place}",
    "/block/{named}",
    "/txs",
    "/txs?before={place}",
    "/tx/{hash}",
    "/tx/{failure}",
    "/tx/{hash}?changes",
    "/address/{hot}",
    "/address/{hot}?before={place}",
    "/address/{account}",
    "/address/{hot}/transactions",
    "/address/{hot}/transactions?before={place}",
    "/address/{hot}/transfers",
    "/address/{hot}/transfers?before={place}",
    "/address/{account}/transfers",
    "/address/{hot}/calls",
    "/address/{hot}/calls?before={place}",
    "/address/{hot}/tokens",
    "/address/{hot}/approvals",
    "/address/{gold}",
    "/address/{gold}/events",
    "/address/{gold}/events?before={place}",
    "/address/{gold}/events?event=0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
    "/address/{gold}/events?event=0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ee",
    "/address/{gold}/code",
    "/address/{gold}/abi",
    "/address/{gold}/abi.json",
    "/address/{gold}/read",
    "/address/{gold}/write",
    "/tokens",
    "/token/{gold}",
    "/token/{gold}?before={place}",
    "/token/{token}",
    "/token/{gold}/holders",
    "/token/{gold}/days",
    "/token/{gold}/days?until=2023-11-20",
    "/validators",
    "/validator/1",
    "/validator/1?before={place}",
    "/statistics",
    "/statistics?until=2023-11-20",
    "/network",
    "/dag",
    "/dag?round={round}",
    "/dag?round={round}&pick={round}.0",
    "/dag?round={round}&pick=0-{batch}",
    "/search",
    "/search?q={hash}",
    "/search?q={account}",
    "/search?q={block}",
    "/search?q={batch}",
    "/search?q=0xa9059cbb",
    "/search?q=tkn1",
    "/search?q=transfer",
    "/search?q=nothing",
    "/api",
    "/api/v1/status",
    "/api/v1/search?q=tkn1",
    "/api/v1/blocks",
    "/api/v1/blocks/{block}",
    "/api/v1/blocks/{block}/transactions",
    "/api/v1/transactions",
    "/api/v1/transactions/{hash}",
    "/api/v1/transactions/{hash}/logs",
    "/api/v1/transactions/{hash}/transfers",
    "/api/v1/transactions/{hash}/calls",
    "/api/v1/accounts/{hot}",
    "/api/v1/accounts/{hot}/transactions",
    "/api/v1/accounts/{hot}/transfers",
    "/api/v1/accounts/{hot}/calls",
    "/api/v1/accounts/{hot}/balances",
    "/api/v1/accounts/{hot}/approvals",
    "/api/v1/accounts/{account}/transactions.csv",
    "/api/v1/accounts/{account}/transfers.csv",
    "/api/v1/tokens",
    "/api/v1/tokens/{gold}",
    "/api/v1/tokens/{gold}/holders",
    "/api/v1/tokens/{gold}/transfers",
    "/api/v1/contracts",
    "/api/v1/contracts/{gold}",
    "/api/v1/validators",
    "/api/v1/peers",
    "/api/v1/certificates",
    "/api/v1/certificates/{block}",
    "/api/v1/dag",
    "/api/v1/dag?from={round}",
    "/api/v1/statistics/days",
    "/api?module=account&action=txlist&address={hot}",
    "/api?module=account&action=txlist&address={hot}&sort=desc&page=10&offset=100",
    "/api?module=account&action=txlistinternal&address={hot}",
    "/api?module=account&action=txlistinternal&txhash={hash}",
    "/api?module=account&action=tokentx&address={hot}",
    "/api?module=account&action=tokentx&contractaddress={gold}",
    "/api?module=account&action=tokentx&address={hot}&contractaddress={gold}",
    "/api?module=account&action=tokennfttx&address={hot}",
    "/api?module=account&action=token1155tx&address={hot}",
    "/api?module=account&action=tokenbalance&address={hot}&contractaddress={gold}",
    "/api?module=contract&action=getabi&address={gold}",
    "/api?module=contract&action=getsourcecode&address={gold}",
    "/api?module=contract&action=getcontractcreation&contractaddresses={gold}",
    "/api?module=contract&action=verifysourcecode",
    "/api?module=contract&action=checkverifystatus&guid=0",
    "/api?module=transaction&action=gettxreceiptstatus&txhash={hash}",
    "/api?module=transaction&action=getstatus&txhash={hash}",
    "/api?module=transaction&action=getstatus&txhash={failure}",
    "/api?module=block&action=getblocknobytime&timestamp=1700050000&closest=before",
    "/api?module=block&action=getblocknobytime&timestamp=1700050000&closest=after",
    "/api?module=stats&action=tokensupply&contractaddress={gold}",
];

/// Actions that need a node.
const OF_THE_NODE: [&str; 2] = ["balance", "balancemulti"];

/// Checks that the whole API is measured.
fn nothing_is_forgotten() {
    // Parameters have other names here.
    let pattern = |path: &str| -> Vec<String> {
        let path = path.split('?').next().unwrap_or_default();
        path.split('/').map(|part| if part.starts_with('{') { "{}".to_owned() } else { part.to_owned() }).collect()
    };
    for endpoint in ENDPOINTS {
        assert!(PAGES.iter().any(|page| pattern(page) == pattern(endpoint.path)), "{} is not measured", endpoint.path);
    }
    for action in ACTIONS.iter().map(|action| &action.reference).filter(|action| !OF_THE_NODE.contains(&action.name)) {
        let question = format!("/api?module={}&action={}", action.module, action.name);
        let is_asked = |page: &&str| page.strip_prefix(&question).is_some_and(|rest| rest.is_empty() || rest.starts_with('&'));
        assert!(PAGES.iter().any(is_asked), "{question} is not measured");
    }
}

/// Measures all pages. Returns `true` if all are below the limit.
pub async fn measure(database: Database, traffic: &Traffic, name: &str) -> bool {
    nothing_is_forgotten();
    let rate = Rate { burst: 1e15, per_second: 1e15 };
    let (uploads, _) = corniche_web::indexer::uploads::channel();
    let app = AppState {
        database,
        // No node, because only the explorer is measured.
        node: Node::new("http://127.0.0.1:9"),
        peer_graph: PeerGraph::new(["http://127.0.0.1:9"]),
        indexer_status: Arc::new(IndexerStatus::new("CRN".into())),
        live: Live::default(),
        limits: RateLimiter::new(rate),
        uploads,
    };
    app.indexer_status.set_chain(1, B256::ZERO, false, committee());
    app.indexer_status.set_indexed(traffic.blocks, 0);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let served = tokio::spawn(server::serve(listener, server::router(Arc::new(app)), Vec::new()));
    let mut random = Random::new(7);
    let mut below = true;
    for page in PAGES {
        let mut times = Vec::with_capacity(REQUESTS);
        let (mut status, mut bytes) = (0, 0);
        for request in 0..WARM + REQUESTS {
            let path = fill(page, traffic, &mut random);
            let began = Instant::now();
            (status, bytes) = get(address, &path).await;
            if request >= WARM {
                times.push(began.elapsed());
            }
            if !FOUND.contains(&status) {
                break;
            }
        }
        if !FOUND.contains(&status) {
            println!("{name}{page}: {status}");
            below = false;
            continue;
        }
        times.sort_unstable();
        let at = |part: usize| times[(times.len() - 1) * part / 100];
        let (half, most) = (at(50), at(99));
        below &= most <= BAR;
        let over = if most > BAR { ", over the bar" } else { "" };
        println!("{name}{page}: p50 {:.1} ms, p99 {:.1} ms, {bytes} bytes{over}", ms(half), ms(most));
    }
    served.abort();
    below
}

fn committee() -> Validators {
    let validator = |index| Validator {
        index,
        consensus_key: B256::with_last_byte(index as u8),
        bls_key: [index as u8; 96].into(),
        network_key: B256::with_last_byte(index as u8),
        fee_address: Address::with_last_byte(index as u8),
        votes: 1,
    };
    let validators = (0..VALIDATORS).map(validator).collect();
    Validators {
        epoch: 0,
        committee_hash: B256::ZERO,
        engine: "mahi-mahi".into(),
        fault_model: FaultModel::Byzantine,
        quorum: 3,
        signatures: SignatureChecks::Everyone,
        validators,
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn fill(page: &str, traffic: &Traffic, random: &mut Random) -> String {
    let (accounts, tokens, transfers) = traffic.counts();
    let mut path = page.to_owned();
    let mut put = |name: &str, value: String| path = path.replace(name, &value);
    put("{hot}", traffic.account(random.below(10)).to_string());
    put("{account}", traffic.account(random.below(accounts)).to_string());
    put("{gold}", traffic.token(random.below(10)).to_string());
    put("{token}", traffic.token(random.below(tokens)).to_string());
    put("{block}", (1 + random.below(traffic.blocks)).to_string());
    put("{named}", traffic.block(1 + random.below(traffic.blocks)).to_string());
    put("{place}", Place::first(1 + random.below(traffic.blocks)).0.to_string());
    let round = traffic.blocks - random.below(traffic.blocks.min(1_000));
    put("{round}", round.to_string());
    put("{batch}", besides::batch(round).to_string());
    put("{failure}", traffic.failure(1 + random.below(traffic.blocks)).to_string());
    put("{hash}", traffic.transfer(random.below(transfers)).to_string());
    path
}

/// Returns status and size of the response in bytes.
async fn get(address: SocketAddr, path: &str) -> (u16, usize) {
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    let request = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.expect("a request");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.expect("an answer");
    let text = String::from_utf8_lossy(&answer);
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, answer.len())
}
