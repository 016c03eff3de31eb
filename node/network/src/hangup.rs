//! Connections that end in bounded time.
//!
//! Closing a multiplexed connection properly waits for the peer to take what is left, and libp2p counts the connection until then. A
//! peer that reads nothing would keep its socket, and its slot, for ever.

use futures::FutureExt;
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::Sleep;

/// For the peer to take what is left.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A muxer whose close ends after a bounded time; dropping it then closes the socket.
pub(crate) struct BoundedClose<M> {
    inner: M,
    timeout: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<M> BoundedClose<M> {
    pub fn new(inner: M) -> Self {
        Self { inner, timeout: CLOSE_TIMEOUT, deadline: None }
    }
}

impl<M: StreamMuxer + Unpin> StreamMuxer for BoundedClose<M> {
    type Substream = M::Substream;
    type Error = M::Error;

    fn poll_inbound(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<M::Substream, M::Error>> {
        Pin::new(&mut self.get_mut().inner).poll_inbound(context)
    }

    fn poll_outbound(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<M::Substream, M::Error>> {
        Pin::new(&mut self.get_mut().inner).poll_outbound(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), M::Error>> {
        let this = self.get_mut();
        if let Poll::Ready(closed) = Pin::new(&mut this.inner).poll_close(context) {
            return Poll::Ready(closed);
        }
        let timeout = this.timeout;
        let deadline = this.deadline.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        deadline.poll_unpin(context).map(Ok)
    }

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<StreamMuxerEvent, M::Error>> {
        Pin::new(&mut self.get_mut().inner).poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libp2p::core::muxing::StreamMuxerExt;
    use std::io;

    /// A connection whose peer takes nothing.
    struct Full;

    impl StreamMuxer for Full {
        type Substream = futures::io::Cursor<Vec<u8>>;
        type Error = io::Error;

        fn poll_inbound(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<Self::Substream>> {
            Poll::Pending
        }

        fn poll_outbound(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<Self::Substream>> {
            Poll::Pending
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<StreamMuxerEvent>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn a_connection_ends_whatever_its_peer_does() {
        let mut muxer = BoundedClose::new(Full);
        muxer.timeout = Duration::from_millis(1);
        muxer.close().await.expect("it ends");
    }
}
