//! WebSocket frames, RFC 6455, server side.
//!
//! Our own implementation instead of a library (tungstenite, which axum uses), to limit memory. A library's
//! buffers grow to the largest message and keep that size: 256 clients that fetched 16 MiB each once held 4
//! GiB outside every budget. Here a message is sent from its own memory, and received into memory that is
//! reserved as it arrives. An idle connection keeps only [`BUFFER`].

use crate::budget::{BodyBuffer, Budget};
use corniche_api::RpcError;
use corniche_origin::Origin;
use std::io::{self, IoSlice};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Read buffer of a connection, in bytes. Most requests are smaller; larger payloads are read directly into
/// the message.
const BUFFER: usize = 4 << 10;
/// Maximum payload of a ping, pong or close frame.
const MAX_CONTROL_BYTES: usize = 125;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// FIN bit in the first byte: last frame of the message.
const FIN: u8 = 0x80;
/// Mask bit in the second byte.
const MASK_BIT: u8 = 0x80;

/// Received message.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// Text or binary; both are treated alike.
    Message(BodyBuffer),
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
    /// Nothing beyond the texts of [`Frames::queue`].
    Queued,
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
pub(crate) struct MemoryBudget {
    pub budget: Budget,
    pub origin: Origin,
    /// Maximum size of one message.
    pub limit: usize,
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
struct PartialMessage {
    text: bool,
    started: Instant,
    /// Time since `started` in which the server did not read.
    unread: Duration,
    /// Total size of its frames, including the current one.
    size: usize,
    body: Result<BodyBuffer, RpcError>,
}

impl PartialMessage {
    /// Reserves room for the next piece of the frame; `None` if there is no memory.
    fn reserve_for(&mut self, frame: &Frame, memory: &MemoryBudget) -> Option<&mut BodyBuffer> {
        if let Ok(body) = &mut self.body {
            // While the size of the message is unknown, the reservation may exceed it.
            let limit = if frame.last { self.size } else { memory.limit };
            if let Err(error) = body.grow(frame.left.min(BUFFER), limit, &memory.budget, memory.origin) {
                self.body = Err(error);
            }
        }
        self.body.as_mut().ok()
    }
}

/// Upgraded connection.
pub(crate) struct Frames<S> {
    stream: S,
    memory: MemoryBudget,
    buffer: Box<[u8; BUFFER]>,
    /// Bytes of the buffer that are not parsed yet.
    unparsed: std::ops::Range<usize>,
    frame: Option<Frame>,
    message: Option<PartialMessage>,
    /// Payload of a control frame, which may arrive within a message.
    control: Vec<u8>,
    /// Frames for the next write.
    queued: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Frames<S> {
    pub fn new(stream: S, memory: MemoryBudget) -> Self {
        let buffer = Box::new([0; BUFFER]);
        let (control, queued) = (Vec::new(), Vec::new());
        Self { stream, memory, buffer, unparsed: 0..0, frame: None, message: None, control, queued }
    }

    /// Reads the next message; `None` if the client closed the connection. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Incoming>, Fault> {
        loop {
            let more = match self.frame {
                None => match self.parse_head()? {
                    Some(frame) => {
                        self.begin_frame(frame)?;
                        true
                    }
                    None => self.read_ahead().await?,
                },
                Some(frame) if frame.left == 0 => match self.end_frame(frame)? {
                    Some(incoming) => return Ok(Some(incoming)),
                    None => true,
                },
                Some(frame) => self.read_payload(frame).await?,
            };
            if !more {
                return Ok(None);
            }
        }
    }

    /// Time for which the client has been sending a message, without the time in which the server did not
    /// read.
    pub fn receiving_for(&self) -> Option<Duration> {
        self.message.as_ref().map(|message| message.started.elapsed().saturating_sub(message.unread))
    }

    /// Records that the server did not read since then, because it was waiting for something else.
    pub fn exclude_unread_since(&mut self, since: Instant) {
        if let Some(message) = &mut self.message {
            message.unread += since.elapsed();
        }
    }

    /// Queues a text, which is sent in one write with those queued before and with the next frame.
    pub fn queue(&mut self, text: &str) {
        let (head, length) = encode_head(TEXT, text.len());
        self.queued.extend_from_slice(&head[..length]);
        self.queued.extend_from_slice(text.as_bytes());
    }

    /// Number of queued bytes.
    pub fn queued_bytes(&self) -> usize {
        self.queued.len()
    }

    /// Sends a frame directly from its payload, after the queued ones. Not cancel-safe: after a cancelled send,
    /// nothing more can be sent.
    pub async fn send(&mut self, outgoing: Outgoing<'_>) -> io::Result<()> {
        match outgoing {
            Outgoing::Text(text) => self.write(TEXT, text.as_bytes()).await,
            Outgoing::Queued => self.write_parts(&[]).await,
            Outgoing::Ping => self.write(PING, &[]).await,
            Outgoing::Pong(payload) => self.write(PONG, payload).await,
            Outgoing::Close(None, _) => self.write(CLOSE, &[]).await,
            Outgoing::Close(Some(code), reason) => {
                let reason = &reason[..reason.floor_char_boundary(MAX_CONTROL_BYTES - 2)];
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
        let (head, length) = encode_head(opcode, payload.len());
        self.write_parts(&[&head[..length], payload]).await
    }

    /// Writes the queued frames, then these bytes.
    async fn write_parts(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        // Not kept: an idle connection needs no memory for it.
        let queued = std::mem::take(&mut self.queued);
        let mut parts: Vec<_> = std::iter::once(&queued[..]).chain(parts.iter().copied()).map(IoSlice::new).collect();
        let mut left = &mut parts[..];
        // Empty slices are not written.
        IoSlice::advance_slices(&mut left, 0);
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
        if self.unparsed.start > 0 {
            self.buffer.copy_within(self.unparsed.clone(), 0);
            self.unparsed = 0..self.unparsed.len();
        }
        let read = self.stream.read(&mut self.buffer[self.unparsed.end..]).await?;
        self.unparsed.end += read;
        Ok(read > 0)
    }

    /// Parses the head of a frame, once it is complete.
    fn parse_head(&mut self) -> Result<Option<Frame>, Fault> {
        let [first, second, rest @ ..] = &self.buffer[self.unparsed.clone()] else { return Ok(None) };
        let length = match second & !MASK_BIT {
            126 => rest.split_first_chunk().map(|(length, rest)| (u16::from_be_bytes(*length).into(), rest)),
            127 => rest.split_first_chunk().map(|(length, rest)| (u64::from_be_bytes(*length), rest)),
            short => Some((short.into(), rest)),
        };
        if second & MASK_BIT == 0 {
            return Err(Fault::Protocol("unmasked client frame"));
        }
        let Some((length, rest)) = length else { return Ok(None) };
        let Some((mask, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let left = usize::try_from(length).ok().filter(|length| *length <= self.memory.limit.max(MAX_CONTROL_BYTES));
        let frame =
            Frame { opcode: first & 0xf, last: first & FIN != 0, mask: *mask, read: 0, left: left.ok_or(Fault::TooLarge)? };
        if first & 0x70 != 0 {
            return Err(Fault::Protocol("frame of an extension that was not negotiated"));
        }
        self.unparsed.start = self.unparsed.end - rest.len();
        Ok(Some(frame))
    }

    fn begin_frame(&mut self, frame: Frame) -> Result<(), Fault> {
        match (frame.opcode, &mut self.message) {
            (TEXT | BINARY, message @ None) => {
                let (text, started, body) = (frame.opcode == TEXT, Instant::now(), Ok(BodyBuffer::default()));
                *message = Some(PartialMessage { text, started, unread: Duration::ZERO, size: frame.left, body });
            }
            (TEXT | BINARY, Some(_)) => return Err(Fault::Protocol("new message inside a fragmented message")),
            (CONTINUATION, Some(message)) => message.size += frame.left,
            (CONTINUATION, None) => return Err(Fault::Protocol("continuation frame without a message")),
            (CLOSE | PING | PONG, _) if frame.last && frame.left <= MAX_CONTROL_BYTES => self.control.clear(),
            _ => return Err(Fault::Protocol("unknown frame type")),
        }
        if self.message.as_ref().is_some_and(|message| message.size > self.memory.limit) {
            return Err(Fault::TooLarge);
        }
        self.frame = Some(frame);
        Ok(())
    }

    /// Reads a piece of the frame's payload; returns false at the end of the stream.
    async fn read_payload(&mut self, frame: Frame) -> Result<bool, Fault> {
        let Self { stream, memory, buffer, unparsed, message, control, .. } = self;
        let unparsed_is_empty = unparsed.start == unparsed.end;
        let body = match message {
            Some(message) if frame.opcode < CLOSE => message.reserve_for(&frame, memory),
            _ => None,
        };
        let taken = match body {
            Some(body) if unparsed_is_empty && frame.left > BUFFER => {
                let room = frame.left.min(body.free());
                let bytes = &mut body.bytes;
                let taken = stream.take(room as u64).read_buf(bytes).await?;
                if taken == 0 {
                    return Ok(false);
                }
                let from = bytes.len() - taken;
                unmask(&mut bytes[from..], &frame);
                taken
            }
            _ if unparsed_is_empty => return Ok(self.read_ahead().await?),
            body => {
                let taken = frame.left.min(unparsed.len());
                let piece = &mut buffer[unparsed.start..][..taken];
                unmask(piece, &frame);
                match body {
                    Some(body) => body.bytes.extend_from_slice(piece),
                    None if frame.opcode >= CLOSE => control.extend_from_slice(piece),
                    None => {}
                }
                unparsed.start += taken;
                taken
            }
        };
        self.frame = Some(Frame { read: frame.read + taken, left: frame.left - taken, ..frame });
        Ok(true)
    }

    /// Ends a frame; returns the message that it completes.
    fn end_frame(&mut self, frame: Frame) -> Result<Option<Incoming>, Fault> {
        self.frame = None;
        let message = match frame.opcode {
            CLOSE => return close_code(&self.control).map(|code| Some(Incoming::Close(code))),
            PING => return Ok(Some(Incoming::Ping(std::mem::take(&mut self.control)))),
            PONG => return Ok(Some(Incoming::Pong)),
            _ => self.message.take_if(|_| frame.last),
        };
        match message {
            None => Ok(None),
            Some(PartialMessage { body: Err(error), .. }) => Ok(Some(Incoming::Refused(error))),
            Some(PartialMessage { body: Ok(body), text, .. }) => {
                if text && std::str::from_utf8(&body.bytes).is_err() {
                    return Err(Fault::NotText);
                }
                Ok(Some(Incoming::Message(body)))
            }
        }
    }
}

/// Code in the payload of a close frame (RFC 6455, sections 5.5.1 and 7.4); `None` if it is empty.
fn close_code(payload: &[u8]) -> Result<Option<u16>, Fault> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return if payload.is_empty() { Ok(None) } else { Err(Fault::Protocol("incomplete close code")) };
    };
    if std::str::from_utf8(reason).is_err() {
        return Err(Fault::NotText);
    }
    match u16::from_be_bytes(*code) {
        code @ (1000..=1003 | 1007..=1014 | 3000..=4999) => Ok(Some(code)),
        _ => Err(Fault::Protocol("invalid close code")),
    }
}

/// Head of an unmasked, unfragmented message: a buffer of ten bytes and the length used.
fn encode_head(opcode: u8, length: usize) -> ([u8; 10], usize) {
    let mut head = [0; 10];
    head[0] = FIN | opcode;
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
    let wide_mask = [a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d];
    for bytes in bytes.chunks_mut(wide_mask.len()) {
        for (byte, mask) in bytes.iter_mut().zip(wide_mask) {
            *byte ^= mask;
        }
    }
}

#[cfg(test)]
mod tests;
