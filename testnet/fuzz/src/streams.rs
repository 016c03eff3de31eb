//! Streams of bytes that are split into messages.

use std::future::Future;

const LIMIT: usize = 1 << 16;

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(future)
}

pub fn network_frames(bytes: &[u8]) {
    let messages = wait(corniche_network::read_frames(bytes, LIMIT));
    assert!(messages.iter().all(|message| message.len() <= LIMIT));
    let read: usize = messages.iter().map(|message| message.len() + 4).sum();
    assert!(read <= bytes.len(), "{read} bytes were read of {}", bytes.len());
}

pub fn network_seeds() -> Vec<Vec<u8>> {
    let frame = |length: u32| [&length.to_le_bytes()[..], &vec![7; length as usize]].concat();
    vec![[frame(0), frame(1), frame(300)].concat(), frame(LIMIT as u32), frame(LIMIT as u32 + 1)]
}

pub fn websocket_frames(bytes: &[u8]) {
    let read = wait(corniche_rpc::read_websocket(bytes, LIMIT));
    assert!(read <= bytes.len(), "{read} bytes of messages came from {}", bytes.len());
}

pub fn websocket_seeds() -> Vec<Vec<u8>> {
    let masked = |first: u8, payload: &[u8]| {
        let length = payload.len();
        let head = match length {
            0..126 => vec![first, 0x80 | length as u8],
            126..65_536 => vec![first, 0x80 | 126, (length >> 8) as u8, length as u8],
            _ => [&[first, 0x80 | 127][..], &(length as u64).to_be_bytes()].concat(),
        };
        let mask = [1, 2, 3, 4];
        let payload: Vec<u8> = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        [&head[..], &mask, &payload].concat()
    };
    vec![
        [masked(0x81, b"{\"jsonrpc\":\"2.0\"}"), masked(0x89, b"ping"), masked(0x88, &[3, 0xe8])].concat(),
        [masked(0x01, b"in "), masked(0x8a, b""), masked(0x80, b"parts")].concat(),
        [masked(0x82, &[0xff; 300]), masked(0x81, &vec![b'x'; 70_000])].concat(),
    ]
}
