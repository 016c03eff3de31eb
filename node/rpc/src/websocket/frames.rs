//! WebSocket frames, RFC 6455, server side.
//!
//! Our own implementation instead of a library (tungstenite, which axum uses), to limit memory. A library's
//! buffers grow to the largest message and keep that size: 256 clients that fetched 16 MiB each once held 4
//! GiB outside every budget. Here a message is sent from its own memory, and received into memory that is
//! reserved as it arrives. An idle connection keeps only [`BUFFER`].

use crate::budget::{Budget, Gathered};
use corniche_api::RpcError;
use corniche_origin::Origin;
use std::io::{self, IoSlice};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Read buffer of a connection, in bytes. Most requests are smaller; larger payloads are read directly into
/// the message.
const BUFFER: usize = 4 << 10;
/// Maximum payload of a ping, pong or close frame.
const MAX_CONTROL: usize = 125;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// FIN bit in the first byte: last frame of the message.
const LAST: u8 = 0x80;
/// Mask bit in the second byte.
const MASKED: u8 = 0x80;

/// Received message.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// Text or binary; both are treated alike.
    Message(Gathered),
    /// Message for which there was no memory. It was skipped.
    Refused(RpcError),
    Ping(Vec<u8>),
    Pong,
    /// Code to reply with: clients expect their own code back.
    Close(Option<u16>),
}

/// Message to send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outgoing<'a> {
    Text(&'a str),
    Ping,
    Pong(&'a [u8]),
    Close(Option<u16>, &'a str),
}

/// Error after which nothing more can be read.
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

/// Source of memory for received messages.
#[derive(Debug)]
pub(crate) struct Lender {
    pub budget: Budget,
    pub origin: Origin,
    /// Maximum size of one message.
    pub most: usize,
}

/// Frame that is being read.
#[derive(Clone, Copy, Debug)]
struct Frame {
    opcode: u8,
    last: bool,
    mask: [u8; 4],
    read: usize,
    left: usize,
}

/// Message that is being read.
#[derive(Debug)]
struct Gathering {
    text: bool,
    begun: Instant,
    /// Time since `begun` in which the server did not read.
    unread: Duration,
    /// Total size of its frames, including the current one.
    size: usize,
    gathered: Result<Gathered, RpcError>,
}

impl Gathering {
    /// Reserves room for the next piece of the frame; `None` if there is no memory.
    fn with_room(&mut self, frame: &Frame, lender: &Lender) -> Option<&mut Gathered> {
        if let Ok(gathered) = &mut self.gathered {
            // While the size of the message is unknown, the reservation may exceed it.
            let most = if frame.last { self.size } else { lender.most };
            if let Err(error) = gathered.make_room(frame.left.min(BUFFER), most, &lender.budget, lender.origin) {
                self.gathered = Err(error);
            }
        }
        self.gathered.as_mut().ok()
    }
}

/// Upgraded connection.
pub(crate) struct Frames<S> {
    stream: S,
    lender: Lender,
    buffer: Box<[u8; BUFFER]>,
    /// Bytes of the buffer that are not parsed yet.
    ahead: std::ops::Range<usize>,
    frame: Option<Frame>,
    message: Option<Gathering>,
    /// Payload of a control frame, which may arrive within a message.
    control: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Frames<S> {
    pub fn new(stream: S, lender: Lender) -> Self {
        let buffer = Box::new([0; BUFFER]);
        Self { stream, lender, buffer, ahead: 0..0, frame: None, message: None, control: Vec::new() }
    }

    /// Reads the next message; `None` if the client closed the connection. Cancel-safe.
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

    /// Time for which the client has been sending a message, without the time in which the server did not
    /// read.
    pub fn sending_for(&self) -> Option<Duration> {
        self.message.as_ref().map(|message| message.begun.elapsed().saturating_sub(message.unread))
    }

    /// Records that the server did not read since then, because it was waiting for something else.
    pub fn nobody_read_since(&mut self, since: Instant) {
        if let Some(message) = &mut self.message {
            message.unread += since.elapsed();
        }
    }

    /// Sends a frame directly from its payload. Not cancel-safe: after a cancelled send, nothing more can be
    /// sent.
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

    /// Shuts down sending, and waits until the client closes its side. A connection that is dropped with
    /// unread bytes is reset, and the client might not receive the last messages.
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

    /// Returns false at the end of the stream.
    async fn read_ahead(&mut self) -> io::Result<bool> {
        if self.ahead.start > 0 {
            self.buffer.copy_within(self.ahead.clone(), 0);
            self.ahead = 0..self.ahead.len();
        }
        let read = self.stream.read(&mut self.buffer[self.ahead.end..]).await?;
        self.ahead.end += read;
        Ok(read > 0)
    }

    /// Parses the head of a frame, once it is complete.
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

    /// Reads a piece of the frame's payload; returns false at the end of the stream.
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

    /// Ends a frame; returns the message that it completes.
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

/// Code in the payload of a close frame (RFC 6455, sections 5.5.1 and 7.4); `None` if it is empty.
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

/// Head of an unmasked, unfragmented message: a buffer of ten bytes and the length used.
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

/// Unmasks the next bytes of the frame.
fn unmask(bytes: &mut [u8], frame: &Frame) {
    let mut mask = frame.mask;
    mask.rotate_left(frame.read % 4);
    let [a, b, c, d] = mask;
    // Chunks have the width of a SIMD register.
    let wide = [a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d];
    for bytes in bytes.chunks_mut(wide.len()) {
        for (byte, mask) in bytes.iter_mut().zip(wide) {
            *byte ^= mask;
        }
    }
}

#[cfg(test)]
mod tests;
