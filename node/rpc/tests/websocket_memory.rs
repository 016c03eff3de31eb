//! Memory that a WebSocket keeps while idle and takes while busy: limits on bytes in flight mean little if
//! buffers only grow.
#![allow(unsafe_code, reason = "an allocator that counts")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers fail the test too, and the figures are for people")]

mod common;

use common::{ECHO, Fixture, WebSocket, log, transfer};
use corniche_rpc::RpcConfig;
use serde_json::json;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

#[global_allocator]
static HELD: Counting = Counting(AtomicUsize::new(0));

/// Allocator that counts the allocated bytes.
struct Counting(AtomicUsize);

// SAFETY: all calls are forwarded unchanged to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.0.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Maximum number of bytes that an idle socket may keep.
const KEPT: usize = 32 << 10;
const SOCKETS: usize = 32;
/// Data of a log, in bytes; the response has 16 MB.
const DATA: usize = 8_000_000;

/// Resident memory of the process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().map_or(0, |kib| kib.parse::<usize>().unwrap() << 10)
}

/// Runs `work` on every socket, one after the other; returns the bytes that each keeps afterwards. The server
/// processes messages in order, so the response to a later message shows that it has finished the earlier
/// ones.
async fn kept(sockets: &mut [WebSocket], what: &str, mut work: impl AsyncFnMut(&mut WebSocket)) -> usize {
    for socket in sockets.iter_mut() {
        socket.call("eth_chainId", json!([])).await;
    }
    let before = (HELD.0.load(Ordering::Relaxed), resident());
    for socket in sockets.iter_mut() {
        work(socket).await;
        socket.call("eth_chainId", json!([])).await;
    }
    let each = |before: usize, after: usize| after.saturating_sub(before) / sockets.len();
    let kept = each(before.0, HELD.0.load(Ordering::Relaxed));
    println!("{what}: {} KiB kept by each socket, {} KiB resident", kept >> 10, each(before.1, resident()) >> 10);
    kept
}

/// A single test, because the allocator counts for the whole process.
#[tokio::test]
async fn websocket_frees_large_messages() {
    let fixture =
        Fixture::with(RpcConfig { max_request_bytes_in_flight: 4 << 20, spare_loopback: true, ..RpcConfig::default() }).await;
    fixture.chain.mine(&[(transfer(0), vec![corniche_types::Log { data: vec![7; DATA].into(), ..log(ECHO, &[1]) }])]);
    let mut sockets = Vec::new();
    for _ in 0..SOCKETS {
        sockets.push(fixture.client.websocket().await);
    }
    let fetched = kept(&mut sockets, "an answer of 16 MB", async |socket| {
        let get_logs = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getLogs", "params": [{"fromBlock": "0x1"}]});
        socket.send(&get_logs.to_string()).await;
        assert!(socket.skip().await > 2 * DATA);
    })
    .await;
    let asked = kept(&mut sockets, "a request of 2 MB", async |socket| {
        let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]{}}}"#, " ".repeat(2_000_000));
        socket.send(&call).await;
        assert_eq!(socket.next().await.unwrap()["result"], "0x1e61");
    })
    .await;
    assert!(fetched < KEPT && asked < KEPT, "{fetched} bytes kept of an answer, {asked} of a request");
}
