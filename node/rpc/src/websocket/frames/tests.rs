use super::*;
use crate::budget::Resource;
use corniche_api::Reason;
use proptest::prelude::*;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{DuplexStream, ReadBuf};

const MAX_MESSAGE_BYTES: usize = 100_000;

/// Server end with `memory` bytes for messages, and client end.
fn pair(memory: usize, pipe: usize) -> (Frames<DuplexStream>, DuplexStream) {
    let resource = Resource { reason: Reason::ServerBusy, units: "bytes", largest: memory };
    let budget = Budget::new(resource, memory, true);
    let (ours, theirs) = tokio::io::duplex(pipe);
    let origin = Origin::of([127, 0, 0, 1].into());
    (Frames::new(ours, MemoryBudget { budget, origin, limit: MAX_MESSAGE_BYTES }), theirs)
}

fn frame(first: u8, mask: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let (head, length) = encode_head(first & 0xf, payload.len());
    let mut frame = head[..length].to_vec();
    frame[0] = first;
    frame[1] |= MASK_BIT;
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Messages that the server reads from these bytes. The read is cancelled and repeated whenever no data is
/// available.
async fn read(memory: usize, pipe: usize, bytes: &[u8]) -> (Vec<Incoming>, Result<(), Fault>) {
    let (mut frames, mut client) = pair(memory, pipe);
    let mut read = Vec::new();
    let writing = async move { client.write_all(bytes).await };
    let reading = async {
        loop {
            match futures::poll!(Box::pin(frames.next())) {
                std::task::Poll::Pending => tokio::task::yield_now().await,
                std::task::Poll::Ready(Ok(Some(incoming))) => read.push(incoming),
                std::task::Poll::Ready(Ok(None)) => return Ok(()),
                std::task::Poll::Ready(Err(fault)) => return Err(fault),
            }
        }
    };
    // After a fault the server reads no further; the client's write then fails.
    let ended = tokio::select! {
        ended = reading => ended,
        Err(_) = writing => Ok(()),
    };
    (read, ended)
}

fn message(incoming: &Incoming) -> Option<&[u8]> {
    match incoming {
        Incoming::Message(body) => Some(&body.bytes),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn fragmented_messages_are_reassembled(
        cuts in proptest::collection::vec(prop_oneof![0usize..300, 0usize..20_000, Just(BUFFER), Just(65_536)], 1..5),
        mask: [u8; 4],
        pipe in prop_oneof![Just(1usize), 2usize..9_000, Just(1 << 20)],
        pings: bool,
    ) {
        let mut sent = Vec::new();
        let (mut whole, mut bytes) = (Vec::new(), Vec::new());
        for (number, cut) in cuts.iter().enumerate() {
            let piece: Vec<u8> = (0..*cut).map(|at| (at * 7 + number) as u8).collect();
            let last = if number + 1 == cuts.len() { FIN } else { 0 };
            bytes.extend(frame(last | if number == 0 { BINARY } else { CONTINUATION }, mask, &piece));
            if pings && last == 0 {
                bytes.extend(frame(FIN | PING, mask, &[number as u8; 5]));
            }
            whole.extend(piece);
        }
        bytes.extend(frame(FIN | TEXT, [0; 4], b"{}"));
        sent.extend([whole, b"{}".to_vec()]);
        let (read, ended) = futures::executor::block_on(read(4 * MAX_MESSAGE_BYTES, pipe, &bytes));
        if sent[0].len() > MAX_MESSAGE_BYTES {
            prop_assert!(matches!(ended, Err(Fault::TooLarge)), "{ended:?}");
            return Ok(());
        }
        prop_assert!(ended.is_ok(), "{ended:?}");
        let messages: Vec<&[u8]> = read.iter().filter_map(message).collect();
        prop_assert_eq!(messages, sent);
        let ping_count = read.iter().filter(|incoming| matches!(incoming, Incoming::Ping(payload) if payload.len() == 5)).count();
        prop_assert_eq!(ping_count, if pings { cuts.len() - 1 } else { 0 });
    }
}

#[tokio::test]
async fn invalid_frame_closes_connection() {
    let mask = [1, 2, 3, 4];
    let text = |payload: &[u8]| frame(FIN | TEXT, mask, payload);
    let faults = [
        (vec![FIN | TEXT, 1, b'x'], "Protocol"),
        (frame(FIN | 0x40 | TEXT, mask, b"x"), "Protocol"),
        (frame(FIN | CONTINUATION, mask, b"x"), "Protocol"),
        ([frame(TEXT, mask, b"x"), text(b"y")].concat(), "Protocol"),
        (frame(FIN | 3, mask, b"x"), "Protocol"),
        (frame(FIN | 11, mask, b"x"), "Protocol"),
        (frame(PING, mask, b"x"), "Protocol"),
        (frame(FIN | PING, mask, &[0; 126]), "Protocol"),
        (frame(FIN | CLOSE, mask, &[3]), "Protocol"),
        (frame(FIN | CLOSE, mask, &999_u16.to_be_bytes()), "Protocol"),
        (frame(FIN | CLOSE, mask, &1005_u16.to_be_bytes()), "Protocol"),
        (frame(FIN | CLOSE, mask, &[3, 232, 0xff]), "NotText"),
        (text(&[0xff]), "NotText"),
        ([frame(TEXT, mask, &[0xc3]), frame(FIN | CONTINUATION, mask, b"x")].concat(), "NotText"),
        (text(&vec![b'x'; MAX_MESSAGE_BYTES + 1])[..20].to_vec(), "TooLarge"),
        (vec![FIN | TEXT, MASK_BIT | 127, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0], "TooLarge"),
        ([frame(TEXT, mask, &[b'x'; MAX_MESSAGE_BYTES]), frame(FIN | CONTINUATION, mask, b"x")].concat(), "TooLarge"),
    ];
    for (bytes, expected) in faults {
        let (read, ended) = read(4 * MAX_MESSAGE_BYTES, 1 << 20, &bytes).await;
        let fault = format!("{:?}", ended.unwrap_err());
        assert!(fault.starts_with(expected) && read.is_empty(), "{fault}, not {expected}: {read:?}");
    }
    // A character may be split over two frames, and the connection may end anywhere.
    let halves = [frame(TEXT, mask, &[0xc3]), frame(FIN | CONTINUATION, mask, &[0xa4])].concat();
    let (read_whole, _) = read(MAX_MESSAGE_BYTES, 1 << 20, &halves).await;
    assert_eq!(message(&read_whole[0]), Some("ä".as_bytes()));
    for length in 0..halves.len() {
        let (read, ended) = read(MAX_MESSAGE_BYTES, 1 << 20, &halves[..length]).await;
        assert!(read.is_empty() && ended.is_ok(), "{read:?}, {ended:?}");
    }
}

/// The code and reason that a page passes to `close` are returned to it.
#[tokio::test]
async fn close_code_is_returned() {
    let codes: [(&[u8], Option<u16>); 4] =
        [(&[], None), (&[3, 232], Some(1000)), (&[15, 161, b'b', b'y', b'e'], Some(4001)), (&[11, 184], Some(3000))];
    for (payload, expected) in codes {
        let (read, _) = read(MAX_MESSAGE_BYTES, 1 << 10, &frame(FIN | CLOSE, [9, 8, 7, 6], payload)).await;
        assert!(matches!(read[..], [Incoming::Close(code)] if code == expected), "{payload:?}: {read:?}");
    }
}

/// A client that downloads a large response cannot send meanwhile; that time must not count as slow sending.
#[tokio::test]
async fn unread_time_is_not_counted() {
    let (mut frames, mut client) = pair(MAX_MESSAGE_BYTES, 1 << 20);
    let bytes = frame(FIN | TEXT, [0; 4], &[b'x'; MAX_MESSAGE_BYTES]);
    client.write_all(&bytes[..BUFFER]).await.unwrap();
    assert!(futures::poll!(Box::pin(frames.next())).is_pending());
    let since = Instant::now().checked_sub(Duration::from_secs(45)).unwrap();
    frames.message.as_mut().unwrap().started = since;
    assert!(frames.receiving_for().unwrap() >= Duration::from_secs(45));
    frames.exclude_unread_since(since);
    assert!(frames.receiving_for().unwrap() < Duration::from_secs(45));
}

#[tokio::test]
async fn message_without_memory_is_skipped() {
    let mask = [5, 6, 7, 8];
    let (large, small) = (vec![b'x'; 50_000], b"small".as_slice());
    let bytes = [
        frame(FIN | TEXT, mask, &large),
        frame(TEXT, mask, &large[..5_000]),
        frame(FIN | PING, mask, b"still there?"),
        frame(FIN | CONTINUATION, mask, &large[..15_001]),
        frame(FIN | TEXT, mask, small),
    ];
    let (read, ended) = read(20_000, 1 << 10, &bytes.concat()).await;
    assert!(ended.is_ok());
    let [Incoming::Refused(_), Incoming::Ping(_), Incoming::Refused(_), last] = &read[..] else { panic!("{read:?}") };
    assert_eq!(message(last), Some(small));
}

#[tokio::test]
async fn announced_length_reserves_no_memory() {
    let (mut frames, mut client) = pair(MAX_MESSAGE_BYTES, 1 << 20);
    let bytes = frame(FIN | TEXT, [0; 4], &[b'x'; MAX_MESSAGE_BYTES]);
    client.write_all(&bytes[..2 * BUFFER]).await.unwrap();
    assert!(futures::poll!(Box::pin(frames.next())).is_pending());
    let partial = frames.message.as_ref().unwrap().body.as_ref().unwrap();
    assert!(partial.bytes.len() > BUFFER && partial.bytes.capacity() <= 4 * BUFFER, "{}", partial.bytes.capacity());
    assert!(frames.receiving_for().is_some());
    client.write_all(&bytes[2 * BUFFER..]).await.unwrap();
    let Ok(Some(Incoming::Message(whole))) = frames.next().await else { panic!("no message") };
    assert!(
        whole.bytes.len() == MAX_MESSAGE_BYTES
            && whole.bytes.capacity() == MAX_MESSAGE_BYTES
            && frames.receiving_for().is_none()
    );
}

#[tokio::test]
async fn sent_frames_match_rfc() {
    let (mut frames, mut client) = pair(MAX_MESSAGE_BYTES, 100);
    let long = "x".repeat(70_000);
    let cases = [
        (Outgoing::Text("{}"), [&[0x81, 2], b"{}".as_slice()].concat()),
        (Outgoing::Text(&long[..126]), [&[0x81, 126, 0, 126], &long.as_bytes()[..126]].concat()),
        (Outgoing::Text(&long), [&[0x81, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70], long.as_bytes()].concat()),
        (Outgoing::Ping, vec![0x89, 0]),
        (Outgoing::Close(None, ""), vec![0x88, 0]),
        (Outgoing::Pong(b"ping"), [&[0x8a, 4], b"ping".as_slice()].concat()),
        (Outgoing::Close(Some(1001), "gone"), [&[0x88, 6, 3, 233], b"gone".as_slice()].concat()),
        (Outgoing::Close(Some(1001), &long), [&[0x88, 125, 3, 233], &long.as_bytes()[..123]].concat()),
    ];
    for (outgoing, expected) in cases {
        let mut read = vec![0; expected.len()];
        let (sent, received) = tokio::join!(frames.send(outgoing), client.read_exact(&mut read));
        assert!(sent.is_ok() && received.is_ok() && read == expected, "{outgoing:?}: {read:?}");
    }
}

/// Counts writes.
struct CountedWrites {
    written: Vec<u8>,
    writes: usize,
}

impl AsyncRead for CountedWrites {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for CountedWrites {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.written.extend_from_slice(bytes);
        this.writes += 1;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(self: Pin<&mut Self>, context: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let joined: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        self.poll_write(context, &joined)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn queued_texts_share_a_write() {
    let resource = Resource { reason: Reason::ServerBusy, units: "bytes", largest: 1 };
    let memory = MemoryBudget { budget: Budget::new(resource, 1, true), origin: Origin::of([127, 0, 0, 1].into()), limit: 1 };
    let mut frames = Frames::new(CountedWrites { written: Vec::new(), writes: 0 }, memory);
    let texts: Vec<_> = (0..32).map(|number| format!("{number}").repeat(number * 10)).collect();
    let sent = |texts: &[String]| -> Vec<u8> {
        let frame =
            |text: &String| [&encode_head(TEXT, text.len()).0[..encode_head(TEXT, text.len()).1], text.as_bytes()].concat();
        texts.iter().flat_map(frame).collect()
    };
    frames.send(Outgoing::Queued).await.unwrap();
    assert_eq!(frames.stream.writes, 0);
    texts.iter().for_each(|text| frames.queue(text));
    assert_eq!((frames.stream.writes, frames.queued_bytes()), (0, sent(&texts).len()));
    frames.send(Outgoing::Queued).await.unwrap();
    assert!(frames.stream.written == sent(&texts));
    assert_eq!((frames.stream.writes, frames.queued.capacity()), (1, 0));
    // The order is kept before any other frame.
    frames.stream.written.clear();
    frames.queue(&texts[1]);
    frames.send(Outgoing::Text(&texts[2])).await.unwrap();
    assert!(frames.stream.written == sent(&texts[1..3]));
    assert_eq!(frames.stream.writes, 2);
}
