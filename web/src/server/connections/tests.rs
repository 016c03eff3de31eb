//! Tests with a clock on which every timeout expires at once. Everything that has a timeout ends; nothing else does.

use super::*;
use axum::{
    body::Bytes,
    response::sse::{Event, Sse},
    routing::{get, post},
};
use futures::{StreamExt, future::BoxFuture, poll};
use std::{net::Ipv4Addr, time::Instant};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    net::TcpStream,
    sync::broadcast,
    task::yield_now,
};

#[derive(Clone)]
struct InstantTimer;

struct Elapsed;

impl Future for Elapsed {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

impl Sleep for Elapsed {}

impl Timer for InstantTimer {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Elapsed)
    }

    fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Elapsed)
    }
}

/// Opens a connection that sends `says`, with a buffer of `room` bytes.
async fn connection(says: &str, room: usize, router: Router) -> (DuplexStream, BoxFuture<'static, ()>) {
    let (mut near, far) = duplex(room);
    near.write_all(says.as_bytes()).await.unwrap();
    (near, Box::pin(serve_connection(far, (Ipv4Addr::LOCALHOST, 1).into(), router, Arc::default(), InstantTimer)))
}

/// Returns `true` if the connection is closed, without waiting for external events.
async fn is_over(connection: &mut BoxFuture<'static, ()>) -> bool {
    for _ in 0..16 {
        if poll!(&mut *connection).is_ready() {
            return true;
        }
        // Yields, because the runtime limits the work of a task between two yields.
        yield_now().await;
    }
    false
}

fn here() -> Router {
    Router::new().route("/", get(async || "here")).route("/", post(async |body: Bytes| body))
}

#[tokio::test]
async fn incomplete_head_closes_connection() {
    for says in ["", "GET / HTTP/1.1\r\nhost: h", "GET / HTTP/1.1\r\nhost: here\r\n"] {
        let (_near, mut connection) = connection(says, 1 << 10, here()).await;
        assert!(is_over(&mut connection).await, "{says:?}");
    }
}

#[tokio::test]
async fn idle_connection_is_closed_after_response() {
    let (mut near, mut connection) = connection("GET / HTTP/1.1\r\nhost: here\r\n\r\n", 1 << 10, here()).await;
    assert!(is_over(&mut connection).await);
    let mut answer = String::new();
    near.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("here"), "{answer}");
}

#[tokio::test]
async fn incomplete_body_gets_timeout_response() {
    let says = "POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 10\r\n\r\nhal";
    let (mut near, mut connection) = connection(says, 1 << 10, here()).await;
    assert!(is_over(&mut connection).await);
    let mut answer = String::new();
    near.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[tokio::test]
async fn client_that_reads_nothing_is_closed() {
    let large = Router::new().route("/", get(async || "large ".repeat(100_000)));
    let (_near, mut connection) = connection("GET / HTTP/1.1\r\nhost: here\r\n\r\n", 64, large).await;
    assert!(is_over(&mut connection).await);
}

#[tokio::test]
async fn event_stream_has_no_time_limit() {
    let (send, _) = broadcast::channel::<u64>(4);
    let heard = send.clone();
    let live = async move || {
        let events = futures::stream::unfold(heard.subscribe(), async |mut heard| {
            let number = heard.recv().await.ok()?;
            Some((Ok::<_, Infallible>(Event::default().data(number.to_string())), heard))
        });
        Sse::new(events.boxed())
    };
    let router = Router::new().route("/live", get(live));
    let (mut near, mut connection) = connection("GET /live HTTP/1.1\r\nhost: here\r\n\r\n", 1 << 10, router).await;
    let mut text = String::new();
    for number in 0..100 {
        assert!(!is_over(&mut connection).await, "{text}");
        send.send(number).unwrap();
        assert!(!is_over(&mut connection).await, "{text}");
        let mut bytes = [0; 1 << 10];
        let read = near.read(&mut bytes).await.unwrap();
        text += std::str::from_utf8(&bytes[..read]).unwrap();
        assert!(text.contains(&format!("data: {number}\n")), "{text}");
    }
    drop(near);
    assert!(is_over(&mut connection).await);
}

#[tokio::test]
async fn connections_per_address_are_limited() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(serve(listener, here(), Vec::new()));
    let ask = async |mut socket: TcpStream| {
        let mut answer = String::new();
        // A rejected client may fail to write, or find nothing to read.
        let _ = socket.write_all(b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").await;
        let _ = socket.read_to_string(&mut answer).await;
        answer
    };
    let mut open = Vec::new();
    for _ in 0..MAX_PER_ADDRESS {
        open.push(TcpStream::connect(address).await.unwrap());
    }
    assert_eq!(ask(TcpStream::connect(address).await.unwrap()).await, "");
    assert!(ask(open.pop().unwrap()).await.ends_with("here"));
    served.abort();
}
