//! Minimal HTTP/1.1 and WebSocket clients for tests.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpSocket, TcpStream};

/// Timeout for a broken server. No test waits for time to pass.
const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy)]
pub struct Client {
    address: SocketAddr,
    /// Local address of its connections.
    from: Ipv4Addr,
}

#[derive(Debug)]
pub struct HttpAnswer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl HttpAnswer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Code of the error in the body.
    pub fn code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {self:?}"))
    }
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        Self { address, from: Ipv4Addr::LOCALHOST }
    }

    /// Same client at another loopback address: 127.0.0.`last`.
    pub fn at(self, last: u8) -> Self {
        Self { from: Ipv4Addr::new(127, 0, 0, last), ..self }
    }

    pub async fn connect(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((self.from, 0))).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// Sends one request on its own connection.
    pub async fn http(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> HttpAnswer {
        let mut stream = self.connect().await;
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str("host: localhost\r\n");
        }
        if !headers.iter().any(|(name, _)| *name == "connection") {
            head.push_str("connection: close\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() && !headers.iter().any(|(name, _)| *name == "content-length" || *name == "transfer-encoding") {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        // A server that refuses early may not read the rest.
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(body).await;
        tokio::time::timeout(DEADLINE, read_answer(&mut stream)).await.expect("the server answers")
    }

    pub async fn post(&self, body: impl AsRef<[u8]>) -> HttpAnswer {
        self.http("POST", "/", &[("content-type", "application/json")], body.as_ref()).await
    }

    /// The whole response object.
    pub async fn call(&self, method: &str, params: Value) -> Value {
        let answer = self.post(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let response = answer.json();
        assert_eq!((&response["jsonrpc"], &response["id"]), (&json!("2.0"), &json!(1)));
        response
    }

    pub async fn result(&self, method: &str, params: Value) -> Value {
        let response = self.call(method, params.clone()).await;
        assert!(response.get("error").is_none(), "{method}({params}): {response}");
        response["result"].clone()
    }

    /// Code and message.
    pub async fn error(&self, method: &str, params: Value) -> (i64, String) {
        let response = self.call(method, params.clone()).await;
        let error = &response["error"];
        let code = error["code"].as_i64().unwrap_or_else(|| panic!("{method}({params}): {response}"));
        (code, error["message"].as_str().unwrap().to_string())
    }

    pub async fn websocket(&self) -> WebSocket {
        WebSocket::open(self.connect().await).await
    }
}

async fn read_answer(stream: &mut TcpStream) -> HttpAnswer {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.push(stream.read_u8().await.unwrap_or_else(|error| panic!("{error} in the head: {bytes:?}")));
    }
    let head = String::from_utf8(bytes).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: BTreeMap<String, String> =
        lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_lowercase(), value.into())).collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    HttpAnswer { status, headers, body: String::from_utf8(body).unwrap() }
}

/// Client frame: masked, with zeros.
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | opcode];
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | length as u8),
        length @ 126..=65_535 => {
            frame.push(0x80 | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

pub struct WebSocket {
    stream: BufReader<TcpStream>,
}

#[derive(Debug, PartialEq, Eq)]
enum Frame {
    Text(String),
    /// With code and reason, if present.
    Closed(Option<(u16, String)>),
}

impl WebSocket {
    async fn open(mut stream: TcpStream) -> Self {
        let head = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut stream = BufReader::new(stream);
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        assert!(head.to_lowercase().contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
        Self { stream }
    }

    pub async fn send(&mut self, text: &str) {
        self.send_frame(1, text.as_bytes()).await.unwrap();
    }

    pub async fn send_binary(&mut self, bytes: &[u8]) {
        self.send_frame(2, bytes).await.unwrap();
    }

    /// Splits the frame of a text after `at` bytes.
    pub fn cut(text: &str, at: usize) -> [Vec<u8>; 2] {
        let mut first = frame(1, text.as_bytes());
        let rest = first.split_off(at);
        [first, rest]
    }

    pub async fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn send_frame(&mut self, opcode: u8, payload: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(&frame(opcode, payload)).await
    }

    /// Next text; `None` if the server closed the connection.
    pub async fn next(&mut self) -> Option<Value> {
        match tokio::time::timeout(DEADLINE, self.frame()).await.expect("the server says something") {
            Frame::Text(text) => Some(serde_json::from_str(&text).unwrap()),
            Frame::Closed(_) => None,
        }
    }

    /// Reads a message without keeping it; returns its length.
    pub async fn skip(&mut self) -> usize {
        loop {
            let Ok((first, length)) = self.frame_head().await else { return 0 };
            let payload = &mut (&mut self.stream).take(length);
            let skipped = tokio::io::copy(payload, &mut tokio::io::sink()).await.unwrap() as usize;
            // A text, and not a ping: the server pings a client that says nothing for some time.
            if first & 0x0f == 1 {
                return skipped;
            }
        }
    }

    /// Reads until the server closes the connection; returns code and reason.
    pub async fn close_reason(&mut self) -> Option<(u16, String)> {
        loop {
            if let Frame::Closed(why) = tokio::time::timeout(DEADLINE, self.frame()).await.expect("the server says something") {
                return why;
            }
        }
    }

    /// First byte of a frame, and the length of its payload.
    async fn frame_head(&mut self) -> std::io::Result<(u8, u64)> {
        let first = self.stream.read_u8().await?;
        let length = match self.stream.read_u8().await? & 0x7f {
            126 => u64::from(self.stream.read_u16().await?),
            127 => self.stream.read_u64().await?,
            short => short.into(),
        };
        Ok((first, length))
    }

    async fn frame(&mut self) -> Frame {
        loop {
            let Ok((first, length)) = self.frame_head().await else { return Frame::Closed(None) };
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload).await.unwrap();
            match first & 0xf {
                1 => return Frame::Text(String::from_utf8(payload).unwrap()),
                8 => {
                    let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                    return Frame::Closed(code.map(|code| (code, String::from_utf8_lossy(&payload[2..]).into_owned())));
                }
                9 => {
                    let _ = self.send_frame(10, &payload).await;
                }
                _ => {}
            }
        }
    }

    /// Sends a request and reads until its response; notifications before it are discarded.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": "ws", "method": method, "params": params}).to_string()).await;
        loop {
            let message = self.next().await.expect("an answer");
            if message["id"] == "ws" {
                return message;
            }
        }
    }

    pub async fn subscribe(&mut self, params: Value) -> String {
        let answer = self.call("eth_subscribe", params).await;
        answer["result"].as_str().unwrap_or_else(|| panic!("{answer}")).to_string()
    }

    /// Result of the next notification, which must belong to the given subscription.
    pub async fn notification(&mut self, subscription: &str) -> Value {
        let message = self.next().await.expect("a notification");
        assert_eq!(message["jsonrpc"], "2.0");
        assert_eq!(message["method"], "eth_subscription", "{message}");
        assert!(message.get("id").is_none());
        assert_eq!(message["params"]["subscription"], subscription);
        message["params"]["result"].clone()
    }
}
