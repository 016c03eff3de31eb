//! Keep-alive connection to a node's RPC with minimal HTTP overhead: a request is one write, a response
//! usually one read. A client library costs several times as much, on the measured processors.

use anyhow::{Context, bail, ensure};
use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    time::Duration,
};

/// Timeout of reads and writes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum size of a response's head, and of a response.
const MAX_HEAD_BYTES: usize = 16 << 10;
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Connection that reconnects if the node has closed it.
pub struct Connection {
    address: SocketAddr,
    /// Head of the request up to the value of Content-Length.
    head: String,
    stream: Option<TcpStream>,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    /// `url` is `http://HOST:PORT[/PATH]`; does not connect yet.
    pub fn new(url: &str) -> anyhow::Result<Self> {
        let rest = url.strip_prefix("http://").with_context(|| format!("{url} does not begin with http://"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let named =
            if host.rsplit(']').next().is_some_and(|end| end.contains(':')) { host.to_owned() } else { format!("{host}:80") };
        let address = named.to_socket_addrs().with_context(|| format!("cannot find {host}"))?.next();
        let head = format!("POST /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: ");
        let address = address.with_context(|| format!("{host} has no address"))?;
        Ok(Self { address, head, stream: None, request: Vec::new(), answer: Vec::new() })
    }

    /// Posts `body` and returns the body of the response. A request on a connection that was closed is sent
    /// once more, so it may arrive twice.
    pub fn post(&mut self, body: &[u8]) -> anyhow::Result<&[u8]> {
        self.request.clear();
        write!(self.request, "{}{}\r\n\r\n", self.head, body.len())?;
        self.request.extend_from_slice(body);
        let kept = self.stream.is_some();
        let body = match self.exchange() {
            Err(error) if kept && was_closed(&error) => self.exchange(),
            result => result,
        };
        let start = body.with_context(|| format!("no answer from {}", self.address))?;
        Ok(&self.answer[start..])
    }

    /// Sends the request and reads one response; returns the offset of its body.
    fn exchange(&mut self) -> anyhow::Result<usize> {
        // The connection must not be reused before the whole response is read.
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => connect(self.address)?,
        };
        stream.write_all(&self.request)?;
        self.answer.clear();
        let head = read_head(&mut stream, &mut self.answer)?;
        let end = match head.length {
            Some(length) => head.body + length,
            None => join_chunks(&mut stream, &mut self.answer, head.body)?,
        };
        while self.answer.len() < end {
            read_some(&mut stream, &mut self.answer)?;
        }
        ensure!(self.answer.len() == end, "bytes after the answer");
        if !head.closes {
            self.stream = Some(stream);
        }
        Ok(head.body)
    }
}

fn connect(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn was_closed(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    matches!(
        kind,
        Some(ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted)
    )
}

/// Offset and length of a response's body, and whether the node closes the connection after it.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    body: usize,
    /// `None`: chunked, each chunk with its length in front.
    length: Option<usize>,
    closes: bool,
}

fn read_head(stream: &mut impl Read, answer: &mut Vec<u8>) -> anyhow::Result<Head> {
    loop {
        read_some(stream, answer)?;
        if let Some(position) = answer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = std::str::from_utf8(&answer[..position]).context("the answer's head is not text")?;
            return parse_head(head, position + 4);
        }
        ensure!(answer.len() <= MAX_HEAD_BYTES, "the answer's head is too long");
    }
}

fn parse_head(head: &str, body: usize) -> anyhow::Result<Head> {
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    ensure!(status.starts_with("HTTP/1.1 "), "not an HTTP answer: {status:.60}");
    let (mut length, mut closes, mut chunked) = (None, false, false);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.parse::<usize>().context("the answer's length is not a number")?);
        } else if name.eq_ignore_ascii_case("connection") {
            closes |= value.eq_ignore_ascii_case("close");
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked |= value.eq_ignore_ascii_case("chunked");
        }
    }
    match length {
        _ if chunked => Ok(Head { body, length: None, closes }),
        Some(length) if length <= MAX_ANSWER_BYTES => Ok(Head { body, length: Some(length), closes }),
        _ => bail!("an answer of no known or of too great a length: {status:.60}"),
    }
}

/// Removes the chunk framing from the response, from offset `body` on, until the last chunk; returns the end
/// of the body.
fn join_chunks(stream: &mut impl Read, answer: &mut Vec<u8>, body: usize) -> anyhow::Result<usize> {
    let mut end = body;
    loop {
        let line = loop {
            match answer[end..].windows(2).position(|window| window == b"\r\n") {
                Some(length) => break length,
                None => read_some(stream, answer)?,
            }
        };
        let size = std::str::from_utf8(&answer[end..end + line])?.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).context("a chunk's length is not a number")?;
        ensure!(size <= MAX_ANSWER_BYTES - (end - body), "an answer of too great a length");
        // Its length line, the chunk, and the line end after it.
        let whole = end + line + 2 + size + 2;
        while answer.len() < whole {
            read_some(stream, answer)?;
        }
        ensure!(answer[whole - 2..whole] == *b"\r\n", "a chunk is not of its length");
        answer.copy_within(end + line + 2..whole - 2, end);
        answer.drain(end + size..whole);
        end += size;
        if size == 0 {
            return Ok(end);
        }
    }
}

/// Reads available bytes, at least one.
fn read_some(stream: &mut impl Read, answer: &mut Vec<u8>) -> anyhow::Result<()> {
    let start = answer.len();
    answer.resize(start + (4 << 10).max(start.min(64 << 10)), 0);
    let read = loop {
        match stream.read(&mut answer[start..]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => break result,
        }
    };
    answer.truncate(start + *read.as_ref().unwrap_or(&0));
    match read? {
        0 => Err(std::io::Error::from(ErrorKind::UnexpectedEof).into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::BufRead, io::BufReader, net::TcpListener, thread};

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
                        if let Some(value) = line.strip_prefix("content-length: ") {
                            length = value.trim().parse().unwrap();
                        }
                        if line == "\r\n" {
                            break;
                        }
                    }
                    let mut body = vec![0; length];
                    stream.read_exact(&mut body).unwrap();
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                    // In pieces, as a network may deliver it.
                    stream.get_mut().write_all(&head.as_bytes()[..20]).unwrap();
                    stream.get_mut().write_all(&[&head.as_bytes()[20..], &body].concat()).unwrap();
                }
            }
        };
        (url, thread::spawn(serve))
    }

    #[test]
    fn answers_of_every_size_come_back_over_one_connection() {
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
    fn a_connection_that_the_node_closed_is_made_again() {
        let (url, server) = echo(2, 2);
        let mut connection = Connection::new(&url).unwrap();
        for round in 0..4u8 {
            assert_eq!(connection.post(&[round]).unwrap(), [round]);
        }
        server.join().unwrap();
        assert!(connection.post(b"nobody").is_err());
    }

    /// Stream that returns one byte at a time.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let (drop, rest) = self.0.split_at(self.0.len().min(1));
            into[..drop.len()].copy_from_slice(drop);
            self.0 = rest;
            Ok(drop.len())
        }
    }

    #[test]
    fn chunks_are_joined_however_they_arrive() {
        let joined = |text: &[u8], arrived: usize| {
            let mut answer = [b"head", &text[..arrived]].concat();
            let end = join_chunks(&mut Drops(&text[arrived..]), &mut answer, 4)?;
            anyhow::Ok((String::from_utf8(answer[4..end].to_vec())?, answer.len() - end))
        };
        let text = b"5\r\nhello\r\n00B; name=value\r\n, \r\nworld!!\r\n0\r\n\r\n";
        for arrived in 0..=text.len() {
            assert_eq!(joined(text, arrived).unwrap(), ("hello, \r\nworld!!".into(), 0), "{arrived}");
        }
        assert_eq!(joined(b"0\r\n\r\nmore", 9).unwrap().1, 4, "what follows is left for the caller to object to");
        for wrong in [&b"5\r\nhell\r\n0\r\n\r\n"[..], b"x\r\n", b"5\r\nhel", b"-1\r\n", b"ffffffffff\r\n"] {
            assert!(joined(wrong, 0).is_err(), "{}", String::from_utf8_lossy(wrong));
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        assert_eq!(
            parse_head("HTTP/1.1 200 OK\r\nCONTENT-length: 7\r\nconnection: Close", 10).unwrap(),
            Head { body: 10, length: Some(7), closes: true }
        );
        for head in [
            "SMTP",
            "HTTP/1.1 200 OK",
            "HTTP/1.1 200 OK\r\ncontent-length: x",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999",
        ] {
            assert!(parse_head(head, 10).is_err(), "{head}");
        }
        assert!(Connection::new("https://127.0.0.1:1").is_err());
    }
}
