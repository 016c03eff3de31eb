//! Connections with a bounded closing time.
//!
//! A proper close of a multiplexed connection waits until the peer has taken the remaining data, and libp2p
//! counts the connection until then. A peer that reads nothing would keep its socket and its slot forever.

use futures::FutureExt;
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::Sleep;

/// Time for the peer to take the remaining data.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Muxer with a timeout on closing; dropping it afterwards closes the socket.
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

    /// Connection whose peer takes no data.
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
    async fn close_is_bounded() {
        let mut muxer = BoundedClose::new(Full);
        muxer.timeout = Duration::from_millis(1);
        muxer.close().await.expect("it ends");
    }
}
