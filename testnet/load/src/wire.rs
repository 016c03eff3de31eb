//! Persistent connection to a node's RPC. Each request is one write, so that the node under test is not woken twice.

use anyhow::{Context, ensure};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Uri, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::{net::TcpStream, runtime, time::timeout};

/// Timeout of a request, from connecting to the last byte of the response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// Connection that reconnects if the node has closed it.
pub struct Connection {
    runtime: runtime::Runtime,
    url: Uri,
    /// Host and port.
    address: String,
    sender: Option<http1::SendRequest<Full<Bytes>>>,
}

impl Connection {
    /// `url` is `http://HOST:PORT[/PATH]`; does not connect yet.
    pub fn new(url: &str) -> anyhow::Result<Self> {
        let url: Uri = url.parse().with_context(|| format!("{url} is not a URL"))?;
        ensure!(url.scheme_str() == Some("http"), "{url} does not begin with http://");
        let address = format!("{}:{}", url.host().unwrap_or_default(), url.port_u16().unwrap_or(80));
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { runtime, url, address, sender: None })
    }

    /// Posts `body` and returns the body of the response. A request that fails on an old connection is sent
    /// once more on a new one, so it may arrive twice.
    pub fn post(&mut self, body: &[u8]) -> anyhow::Result<Bytes> {
        let Self { runtime, url, address, sender } = self;
        let body = Bytes::copy_from_slice(body);
        let response = runtime.block_on(async {
            let was_connected = sender.is_some();
            match timeout(REQUEST_TIMEOUT, exchange(sender, address, url, &body)).await? {
                Err(error) if was_connected && error.is::<hyper::Error>() => {
                    timeout(REQUEST_TIMEOUT, exchange(sender, address, url, &body)).await?
                }
                result => result,
            }
        });
        response.with_context(|| format!("no response from {}", self.url))
    }
}

async fn exchange(
    sender: &mut Option<http1::SendRequest<Full<Bytes>>>,
    address: &str,
    url: &Uri,
    body: &Bytes,
) -> anyhow::Result<Bytes> {
    // Not used again before the whole response has arrived.
    let mut connected = match sender.take() {
        Some(connected) => connected,
        None => connect(address).await?,
    };
    connected.ready().await?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::post(path)
        .header(header::HOST, url.authority().map_or(address, |authority| authority.as_str()))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body.clone()))?;
    let response = connected.send_request(request).await?;
    let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await.map_err(anyhow::Error::from_boxed)?;
    *sender = Some(connected);
    Ok(body.to_bytes())
}

async fn connect(address: &str) -> anyhow::Result<http1::SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends with the sender; its errors are the requests' errors.
    tokio::spawn(connection);
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead, BufReader, Read, Write},
        net::TcpListener,
        thread,
    };

    /// Server that echoes requests' bodies, a fixed number of times per connection, and then closes it.
    fn echo(times_each: usize, connections: usize) -> (String, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serve = move || {
            for _ in 0..connections {
                let mut stream = BufReader::new(listener.accept().unwrap().0);
                for _ in 0..times_each {
                    let mut length = 0;
                    loop {
                        let mut line = String::new();
                        stream.read_line(&mut line).unwrap();
                        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                            length = value.trim().parse().unwrap();
                        }
                        if line == "\r\n" {
                            break;
                        }
                    }
                    let mut body = vec![0; length];
                    stream.read_exact(&mut body).unwrap();
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                    stream.get_mut().write_all(&[head.as_bytes(), &body].concat()).unwrap();
                }
            }
        };
        (url, thread::spawn(serve))
    }

    #[test]
    fn one_connection_carries_all_requests() {
        let sizes = [0, 1, 4_095, 4_096, 300_000];
        let (url, server) = echo(sizes.len(), 1);
        let mut connection = Connection::new(&url).unwrap();
        for size in sizes {
            let body: Vec<u8> = (0..size).map(|position| position as u8).collect();
            assert_eq!(connection.post(&body).unwrap(), body, "{size}");
        }
        server.join().unwrap();
    }

    #[test]
    fn closed_connection_is_opened_again() {
        let (url, server) = echo(2, 2);
        let mut connection = Connection::new(&url).unwrap();
        for round in 0..4u8 {
            assert_eq!(connection.post(&[round]).unwrap()[..], [round]);
        }
        server.join().unwrap();
        assert!(connection.post(b"nobody").is_err());
        assert!(Connection::new("https://127.0.0.1:1").is_err());
    }
}
