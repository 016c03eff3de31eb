//! WebSocket frames, RFC 6455, as a server reads and writes them.
//!
//! Our own rather than a library's (tungstenite, as axum brings it) for the sake of memory. A library's buffers grow to the largest message and
//! keep that size: 256 clients that fetched 16 MiB once held 4 GiB which no budget counted. Here a message is sent from where it lies, and
//! received into memory that is lent as it arrives. What a connection keeps is [`BUFFER`].

use crate::budget::{Budget, Gathered};
use corniche_api::RpcError;
use corniche_origin::Origin;
use std::io::{self, IoSlice};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Bytes that a connection reads ahead. Most requests are smaller; what is larger is read past the buffer.
const BUFFER: usize = 4 << 10;
/// Of a ping, a pong or a close.
const MAX_CONTROL: usize = 125;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// In the first byte: the last frame of its message.
const LAST: u8 = 0x80;
/// In the second.
const MASKED: u8 = 0x80;

/// What a client says.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// Text or binary: what it is called does not matter.
    Message(Gathered),
    /// A message that there was no memory for. It was passed over.
    Refused(RpcError),
    Ping(Vec<u8>),
    Pong,
    /// The code with which it is to be answered: its own, as clients expect.
    Close(Option<u16>),
}

/// What the server says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outgoing<'a> {
    Text(&'a str),
    Ping,
    Pong(&'a [u8]),
    Close(Option<u16>, &'a str),
}

/// Why nothing more can be read.
#[derive(Debug)]
pub(crate) enum Fault {
    Io(io::Error),
    TooLarge,
    NotText,
    Protocol(&'static str),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// From what messages are received into.
#[derive(Debug)]
pub(crate) struct Lender {
    pub budget: Budget,
    pub origin: Origin,
    /// Bytes of one message.
    pub most: usize,
}

/// The frame that is being read.
#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: u8,
    last: bool,
    mask: [u8; 4],
    read: usize,
    left: usize,
}

/// The message that is being read.
#[derive(Debug)]
struct Gathering {
    text: bool,
    begun: Instant,
    /// Of the time since then, in which nobody read.
    unread: Duration,
    /// Bytes of its frames, the one that is being read included.
    size: usize,
    gathered: Result<Gathered, RpcError>,
}

impl Gathering {
    /// Where the next piece of the frame goes: nowhere when there is no memory for it.
    fn with_room(&mut self, frame: &Frame, lender: &Lender) -> Option<&mut Gathered> {
        if let Ok(gathered) = &mut self.gathered {
            // More than the message takes is lent only while nobody knows how much that is.
            let most = if frame.last { self.size } else { lender.most };
            if let Err(error) = gathered.make_room(frame.left.min(BUFFER), most, &lender.budget, lender.origin) {
                self.gathered = Err(error);
            }
        }
        self.gathered.as_mut().ok()
    }
}

/// A connection that was upgraded.
pub(crate) struct Frames<S> {
    stream: S,
    lender: Lender,
    buffer: Box<[u8; BUFFER]>,
    /// Which of the buffer's bytes are not looked at yet.
    ahead: std::ops::Range<usize>,
    frame: Option<Frame>,
    message: Option<Gathering>,
    /// Payload of a ping, pong or close, which may come in the middle of a message.
    control: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Frames<S> {
    pub fn new(stream: S, lender: Lender) -> Self {
        let buffer = Box::new([0; BUFFER]);
        Self { stream, lender, buffer, ahead: 0..0, frame: None, message: None, control: Vec::new() }
    }

    /// What the client says next; `None` when it is gone. May be dropped at any time and called again.
    pub async fn next(&mut self) -> Result<Option<Incoming>, Fault> {
        loop {
            let more = match self.frame {
                None => match self.head()? {
                    Some(frame) => {
                        self.begin(frame)?;
                        true
                    }
                    None => self.read_ahead().await?,
                },
                Some(frame) if frame.left == 0 => match self.end(frame)? {
                    Some(incoming) => return Ok(Some(incoming)),
                    None => true,
                },
                Some(frame) => self.take(frame).await?,
            };
            if !more {
                return Ok(None);
            }
        }
    }

    /// For how long the client has been sending a message, not counting what nobody would have read.
    pub fn sending_for(&self) -> Option<Duration> {
        self.message.as_ref().map(|message| message.begun.elapsed().saturating_sub(message.unread))
    }

    /// Nobody has read since then, because there was something to wait for.
    pub fn nobody_read_since(&mut self, since: Instant) {
        if let Some(message) = &mut self.message {
            message.unread += since.elapsed();
        }
    }

    /// Sends a frame, from where its payload lies. Who drops this before it is done can send nothing more.
    pub async fn send(&mut self, outgoing: Outgoing<'_>) -> io::Result<()> {
        match outgoing {
            Outgoing::Text(text) => self.write(TEXT, text.as_bytes()).await,
            Outgoing::Ping => self.write(PING, &[]).await,
            Outgoing::Pong(payload) => self.write(PONG, payload).await,
            Outgoing::Close(None, _) => self.write(CLOSE, &[]).await,
            Outgoing::Close(Some(code), reason) => {
                let reason = &reason[..reason.floor_char_boundary(MAX_CONTROL - 2)];
                self.write(CLOSE, &[&code.to_be_bytes(), reason.as_bytes()].concat()).await
            }
        }
    }

    /// Says nothing more, and waits for the client to be gone: a connection that is dropped with bytes unread is reset, and the client may
    /// never read what it was told last.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        while self.stream.read(&mut self.buffer[..]).await? > 0 {}
        Ok(())
    }

    async fn write(&mut self, opcode: u8, payload: &[u8]) -> io::Result<()> {
        let (head, length) = head_of(opcode, payload.len());
        let mut parts = [IoSlice::new(&head[..length]), IoSlice::new(payload)];
        let mut left = &mut parts[..];
        while !left.is_empty() {
            match self.stream.write_vectored(left).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => IoSlice::advance_slices(&mut left, written),
            }
        }
        self.stream.flush().await
    }

    /// False when there is nothing more to read.
    async fn read_ahead(&mut self) -> io::Result<bool> {
        if self.ahead.start > 0 {
            self.buffer.copy_within(self.ahead.clone(), 0);
            self.ahead = 0..self.ahead.len();
        }
        let read = self.stream.read(&mut self.buffer[self.ahead.end..]).await?;
        self.ahead.end += read;
        Ok(read > 0)
    }

    /// The head of a frame, once it is there.
    fn head(&mut self) -> Result<Option<Frame>, Fault> {
        let [first, second, rest @ ..] = &self.buffer[self.ahead.clone()] else { return Ok(None) };
        let length = match second & !MASKED {
            126 => rest.split_first_chunk().map(|(length, rest)| (u16::from_be_bytes(*length).into(), rest)),
            127 => rest.split_first_chunk().map(|(length, rest)| (u64::from_be_bytes(*length), rest)),
            short => Some((short.into(), rest)),
        };
        if second & MASKED == 0 {
            return Err(Fault::Protocol("a frame of a client that is not masked"));
        }
        let Some((length, rest)) = length else { return Ok(None) };
        let Some((mask, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let left = usize::try_from(length).ok().filter(|length| *length <= self.lender.most.max(MAX_CONTROL));
        let frame =
            Frame { opcode: first & 0xf, last: first & LAST != 0, mask: *mask, read: 0, left: left.ok_or(Fault::TooLarge)? };
        if first & 0x70 != 0 {
            return Err(Fault::Protocol("a frame of an extension that was not agreed on"));
        }
        self.ahead.start = self.ahead.end - rest.len();
        Ok(Some(frame))
    }

    fn begin(&mut self, frame: Frame) -> Result<(), Fault> {
        match (frame.opcode, &mut self.message) {
            (TEXT | BINARY, message @ None) => {
                let (text, begun, gathered) = (frame.opcode == TEXT, Instant::now(), Ok(Gathered::default()));
                *message = Some(Gathering { text, begun, unread: Duration::ZERO, size: frame.left, gathered });
            }
            (TEXT | BINARY, Some(_)) => return Err(Fault::Protocol("a message in the middle of another")),
            (CONTINUATION, Some(message)) => message.size += frame.left,
            (CONTINUATION, None) => return Err(Fault::Protocol("more of a message that did not begin")),
            (CLOSE | PING | PONG, _) if frame.last && frame.left <= MAX_CONTROL => self.control.clear(),
            _ => return Err(Fault::Protocol("a frame of no known kind")),
        }
        if self.message.as_ref().is_some_and(|message| message.size > self.lender.most) {
            return Err(Fault::TooLarge);
        }
        self.frame = Some(frame);
        Ok(())
    }

    /// Takes a piece of the frame's payload; false when there is nothing more to read.
    async fn take(&mut self, frame: Frame) -> Result<bool, Fault> {
        let Self { stream, lender, buffer, ahead, message, control, .. } = self;
        let nothing_ahead = ahead.start == ahead.end;
        let gathered = match message {
            Some(message) if frame.opcode < CLOSE => message.with_room(&frame, lender),
            _ => None,
        };
        let taken = match gathered {
            Some(gathered) if nothing_ahead && frame.left > BUFFER => {
                let room = frame.left.min(gathered.room());
                let bytes = &mut gathered.bytes;
                let taken = stream.take(room as u64).read_buf(bytes).await?;
                if taken == 0 {
                    return Ok(false);
                }
                let from = bytes.len() - taken;
                unmask(&mut bytes[from..], &frame);
                taken
            }
            _ if nothing_ahead => return Ok(self.read_ahead().await?),
            gathered => {
                let taken = frame.left.min(ahead.len());
                let piece = &mut buffer[ahead.start..][..taken];
                unmask(piece, &frame);
                match gathered {
                    Some(gathered) => gathered.bytes.extend_from_slice(piece),
                    None if frame.opcode >= CLOSE => control.extend_from_slice(piece),
                    None => {}
                }
                ahead.start += taken;
                taken
            }
        };
        self.frame = Some(Frame { read: frame.read + taken, left: frame.left - taken, ..frame });
        Ok(true)
    }

    /// What the frame completes.
    fn end(&mut self, frame: Frame) -> Result<Option<Incoming>, Fault> {
        self.frame = None;
        let message = match frame.opcode {
            CLOSE => return close_code(&self.control).map(|code| Some(Incoming::Close(code))),
            PING => return Ok(Some(Incoming::Ping(std::mem::take(&mut self.control)))),
            PONG => return Ok(Some(Incoming::Pong)),
            _ => self.message.take_if(|_| frame.last),
        };
        match message {
            None => Ok(None),
            Some(Gathering { gathered: Err(error), .. }) => Ok(Some(Incoming::Refused(error))),
            Some(Gathering { gathered: Ok(gathered), text, .. }) => {
                if text && std::str::from_utf8(&gathered.bytes).is_err() {
                    return Err(Fault::NotText);
                }
                Ok(Some(Incoming::Message(gathered)))
            }
        }
    }
}

/// The code in the payload of a close (RFC 6455, sections 5.5.1 and 7.4); none in an empty one.
fn close_code(payload: &[u8]) -> Result<Option<u16>, Fault> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return if payload.is_empty() { Ok(None) } else { Err(Fault::Protocol("half a close code")) };
    };
    if std::str::from_utf8(reason).is_err() {
        return Err(Fault::NotText);
    }
    match u16::from_be_bytes(*code) {
        code @ (1000..=1003 | 1007..=1014 | 3000..=4999) => Ok(Some(code)),
        _ => Err(Fault::Protocol("a close code that is not for use")),
    }
}

/// Of a whole message that is not masked: ten bytes, and how many of them count.
fn head_of(opcode: u8, length: usize) -> ([u8; 10], usize) {
    let mut head = [0; 10];
    head[0] = LAST | opcode;
    match length {
        0..126 => {
            head[1] = length as u8;
            (head, 2)
        }
        126..65_536 => {
            head[1] = 126;
            head[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            (head, 4)
        }
        _ => {
            head[1] = 127;
            head[2..].copy_from_slice(&(length as u64).to_be_bytes());
            (head, 10)
        }
    }
}

/// The bytes that come next in the frame.
fn unmask(bytes: &mut [u8], frame: &Frame) {
    let mut mask = frame.mask;
    mask.rotate_left(frame.read % 4);
    let [a, b, c, d] = mask;
    // So many at a time as a register holds.
    let wide = [a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d];
    for bytes in bytes.chunks_mut(wide.len()) {
        for (byte, mask) in bytes.iter_mut().zip(wide) {
            *byte ^= mask;
        }
    }
}

#[cfg(test)]
mod tests;
