//! Message framing: a length of four bytes, little-endian, then the message.

use futures::{AsyncRead, AsyncReadExt};
use std::{io, time::Duration};
use tokio::time::timeout;

/// Size of the header of every message.
pub(crate) const HEADER_BYTES: usize = 4;

/// Memory for a long message is allocated in steps of this size, as its bytes arrive.
const MAX_INITIAL_ALLOCATION: usize = 256 * 1024;

/// Reason why a message could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The stream ended between two messages.
    #[error("the stream was closed")]
    Closed,
    #[error("a message of {length} bytes, the limit is {limit}")]
    Oversized { length: usize, limit: usize },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Header of a message. The caller has checked the length against a limit far below 4 GiB.
pub(crate) fn header(length: usize) -> [u8; HEADER_BYTES] {
    u32::try_from(length).expect("message limits are below 4 GiB").to_le_bytes()
}

/// Reads a header; the body must be read next.
pub(crate) async fn read_length(reader: &mut (impl AsyncRead + Unpin), limit: usize) -> Result<usize, FrameError> {
    let mut header = [0; HEADER_BYTES];
    let mut filled = 0;
    while filled < HEADER_BYTES {
        match reader.read(&mut header[filled..]).await? {
            0 if filled == 0 => return Err(FrameError::Closed),
            0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            count => filled += count,
        }
    }
    let length = u32::from_le_bytes(header) as usize;
    if length > limit { Err(FrameError::Oversized { length, limit }) } else { Ok(length) }
}

/// Reads a body into its own memory, so that it does not pin the reader's buffer. Each step of
/// [`MAX_INITIAL_ALLOCATION`] must arrive within `stall`.
pub(crate) async fn read_body(reader: &mut (impl AsyncRead + Unpin), length: usize, stall: Duration) -> io::Result<Vec<u8>> {
    let mut body = Vec::with_capacity(length.min(MAX_INITIAL_ALLOCATION));
    while body.len() < length {
        let start = body.len();
        body.resize(length.min(start + MAX_INITIAL_ALLOCATION), 0);
        timeout(stall, reader.read_exact(&mut body[start..])).await??;
    }
    Ok(body)
}

/// Reads one whole message. The caller must apply a timeout.
pub(crate) async fn read(reader: &mut (impl AsyncRead + Unpin), limit: usize) -> Result<Vec<u8>, FrameError> {
    let length = read_length(reader, limit).await?;
    Ok(read_body(reader, length, Duration::MAX).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::io::Cursor;

    async fn read_from(bytes: &[u8], limit: usize) -> Result<Vec<u8>, FrameError> {
        read(&mut Cursor::new(bytes), limit).await
    }

    #[tokio::test]
    async fn messages_round_trip() {
        for length in [0, 1, MAX_INITIAL_ALLOCATION, MAX_INITIAL_ALLOCATION + 1, 3 * MAX_INITIAL_ALLOCATION] {
            let body: Vec<u8> = (0..length).map(|position| position as u8).collect();
            let bytes = [header(length).as_slice(), &body].concat();
            assert_eq!(read_from(&bytes, length).await.expect("whole"), body);
        }
    }

    #[tokio::test]
    async fn end_of_stream_differs_from_torn_message() {
        assert!(matches!(read_from(&[], 10).await, Err(FrameError::Closed)));
        assert!(matches!(read_from(&[1, 0], 10).await, Err(FrameError::Io(_))));
        assert!(matches!(read_from(&[2, 0, 0, 0, 7], 10).await, Err(FrameError::Io(_))));
    }

    #[tokio::test]
    async fn oversized_length_is_refused_without_allocation() {
        let refused = read_from(&[0xff; 4], 10).await;
        assert!(matches!(refused, Err(FrameError::Oversized { length: 0xffff_ffff, limit: 10 })));
    }
}
