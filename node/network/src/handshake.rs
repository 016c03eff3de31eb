//! Handshake: checks that both nodes use the same protocol version and the same chain.
//!
//! The first message on the votes stream, in both directions, is a [`Hello`]. The opener of the stream sends
//! first. The other side always answers, even if it refuses, so that both logs can report the difference.

use crate::{
    ChainIdentity,
    frame::{self, FrameError},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{B256, wire};
use futures::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// Version of all protocols on our streams.
pub(crate) const PROTOCOL: u32 = 1;

/// A hello has about 60 bytes; later versions may be longer.
const HELLO_BYTES_LIMIT: usize = 1024;

/// First message of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(crate) struct Hello {
    pub protocol: u32,
    pub chain_id: u64,
    pub genesis_hash: B256,
    /// Random number chosen at start: distinguishes a restarted peer from a second connection with the same
    /// one.
    pub instance: u64,
    /// True if the sender currently has a link with the receiver.
    pub linked: bool,
}

/// Difference between two nodes. Not a fault, but they cannot connect.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum Mismatch {
    #[error("it speaks protocol version {theirs}, this node {ours}")]
    Protocol { ours: u32, theirs: u32 },
    #[error("it is on chain {theirs}, this node on {ours}")]
    Chain { ours: u64, theirs: u64 },
    #[error("its genesis is {theirs}, this node's {ours}")]
    Genesis { ours: B256, theirs: B256 },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// Not a hello.
    #[error("invalid hello: {0}")]
    Garbage(String),
    /// The connection or the stream failed.
    #[error("{0}")]
    Broken(String),
}

impl From<FrameError> for HandshakeError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Oversized { .. } => Self::Garbage(error.to_string()),
            FrameError::Closed | FrameError::Io(_) => Self::Broken(error.to_string()),
        }
    }
}

impl From<std::io::Error> for HandshakeError {
    fn from(error: std::io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

impl Hello {
    pub fn new(chain: ChainIdentity, instance: u64, linked: bool) -> Self {
        let ChainIdentity { chain_id, genesis_hash } = chain;
        Self { protocol: PROTOCOL, chain_id, genesis_hash, instance, linked }
    }

    fn check(&self, theirs: &Self) -> Result<(), Mismatch> {
        if theirs.protocol != self.protocol {
            return Err(Mismatch::Protocol { ours: self.protocol, theirs: theirs.protocol });
        }
        if theirs.chain_id != self.chain_id {
            return Err(Mismatch::Chain { ours: self.chain_id, theirs: theirs.chain_id });
        }
        if theirs.genesis_hash != self.genesis_hash {
            return Err(Mismatch::Genesis { ours: self.genesis_hash, theirs: theirs.genesis_hash });
        }
        Ok(())
    }
}

/// Sends first.
pub(crate) async fn greet(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), ours: &Hello) -> Result<Hello, HandshakeError> {
    write(stream, ours).await?;
    let theirs = read(stream).await?;
    ours.check(&theirs)?;
    Ok(theirs)
}

/// Answers.
pub(crate) async fn respond(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), ours: &Hello) -> Result<Hello, HandshakeError> {
    let theirs = read(stream).await?;
    write(stream, ours).await?;
    ours.check(&theirs)?;
    Ok(theirs)
}

/// Waits until the other side has read our answer and closed. An earlier close of the connection might
/// overtake the answer.
pub(crate) async fn linger(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    if stream.close().await.is_ok() {
        let _ = frame::read_length(stream, 0).await;
    }
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), hello: &Hello) -> Result<(), HandshakeError> {
    let bytes = wire::encode(hello);
    stream.write_all(&[frame::header(bytes.len()).as_slice(), &bytes].concat()).await?;
    Ok(stream.flush().await?)
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Hello, HandshakeError> {
    let bytes = frame::read(stream, HELLO_BYTES_LIMIT).await?;
    wire::decode(&bytes).map_err(|error| HandshakeError::Garbage(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hello_format_is_frozen() {
        let chain = ChainIdentity { chain_id: 0x0102, genesis_hash: B256::repeat_byte(0xab) };
        let bytes = wire::encode(&Hello::new(chain, 7, true));
        let expected = [&[1][..], &[1, 0, 0, 0], &[2, 1, 0, 0, 0, 0, 0, 0], &[0xab; 32], &[7, 0, 0, 0, 0, 0, 0, 0], &[1]];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn mismatches_are_named() {
        let chain = ChainIdentity { chain_id: 1, genesis_hash: B256::repeat_byte(1) };
        let ours = Hello::new(chain, 1, false);
        assert_eq!(ours.check(&Hello { instance: 2, linked: true, ..ours }), Ok(()));
        assert!(matches!(ours.check(&Hello { protocol: 2, ..ours }), Err(Mismatch::Protocol { ours: 1, theirs: 2 })));
        assert!(matches!(ours.check(&Hello { chain_id: 2, ..ours }), Err(Mismatch::Chain { ours: 1, theirs: 2 })));
        let other_genesis = Hello { genesis_hash: B256::ZERO, ..ours };
        assert!(matches!(ours.check(&other_genesis), Err(Mismatch::Genesis { .. })));
    }
}
