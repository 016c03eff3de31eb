//! Requests and responses.

use crate::support::{Node, config, dialling, eventually, key, pair, tcp, within};
use corniche_network::{NetworkConfig, RequestError, Transport};
use futures::future::join_all;
use std::time::Duration;

async fn answered(transport: Transport) {
    let (mut first, mut second) = pair(config(1, transport), config(2, transport)).await;
    // Each sends the other several requests at once, with small and large responses.
    for (asker, answerer) in [(&first.handle, &mut second)] {
        let asking =
            [0usize, 1, 5_000_000].map(|size| asker.request(answerer.key, (size as u64).to_le_bytes().to_vec().into()));
        let answering = async {
            for _ in 0..3 {
                let (from, bytes, reply) = answerer.request().await;
                assert_eq!(from.id, asker.key());
                let size = u64::from_le_bytes(bytes[..].try_into().unwrap());
                reply.send(vec![9; size as usize].into());
            }
        };
        let (answers, ()) = within("all answers", futures::future::join(join_all(asking), answering)).await;
        let sizes: Vec<_> = answers.into_iter().map(|answer| answer.unwrap().len()).collect();
        assert_eq!(sizes, [0, 1, 5_000_000]);
    }
    let asking = second.handle.request(first.key, b"back".to_vec().into());
    let answering = async {
        let (_, bytes, reply) = first.request().await;
        reply.send(bytes);
    };
    assert_eq!(within("the answer", futures::future::join(asking, answering)).await.0.unwrap().to_vec(), b"back".as_slice());
    eventually("all is counted", || second.handle.stats().general.requests_served == 3).await;
}

#[tokio::test]
async fn request_over_tcp() {
    answered(Transport::Tcp).await;
}

#[tokio::test]
async fn request_over_quic() {
    answered(Transport::Quic).await;
}

#[tokio::test]
async fn dropped_reply_is_refusal() {
    let (first, mut second) = pair(tcp(1), tcp(2)).await;
    let asking = tokio::spawn(first.handle.request(second.key, b"?".to_vec().into()));
    drop(second.request().await);
    assert_eq!(within("the refusal", asking).await.unwrap(), Err(RequestError::Refused));
}

#[tokio::test]
async fn response_above_sender_limit_is_refusal() {
    let mut modest = tcp(2);
    modest.limits.response_bytes = 1000;
    let (first, mut second) = pair(tcp(1), modest).await;
    let asking = tokio::spawn(first.handle.request(second.key, b"?".to_vec().into()));
    second.request().await.2.send(vec![0; 1001].into());
    assert_eq!(within("the refusal", asking).await.unwrap(), Err(RequestError::Refused));
    assert!(first.handle.is_up(&second.key));
}

#[tokio::test]
async fn response_above_receiver_limit_is_fault() {
    let mut modest = tcp(1);
    modest.limits.response_bytes = 1000;
    let (mut first, mut second) = pair(modest, tcp(2)).await;
    let asking = tokio::spawn(first.handle.request(second.key, b"?".to_vec().into()));
    second.request().await.2.send(vec![0; 1001].into());
    let error = within("the error", asking).await.unwrap().unwrap_err();
    assert_eq!(error, RequestError::AnswerTooLarge { length: 1001, limit: 1000 });
    first.down(second.key).await;
    assert_eq!(first.handle.stats().general.faults, 1);
}

#[tokio::test]
async fn oversized_request_is_fault() {
    let mut modest = tcp(2);
    modest.limits.request_bytes = 1000;
    let (first, mut second) = pair(tcp(1), modest).await;
    let error = within("the error", first.handle.request(second.key, vec![0; 1001].into())).await.unwrap_err();
    assert!(matches!(error, RequestError::Refused | RequestError::Failed(_)), "{error:?}");
    second.down(first.key).await;
    assert_eq!(second.handle.stats().general.faults, 1);
}

#[tokio::test]
async fn oversized_request_is_not_sent() {
    let (first, second) = pair(tcp(1), tcp(2)).await;
    let limit = tcp(1).limits.request_bytes;
    let error = first.handle.request(second.key, vec![0; limit + 1].into()).await.unwrap_err();
    assert_eq!(error, RequestError::RequestTooLarge { length: limit + 1, limit });
    assert_eq!(first.handle.request(key(3), vec![].into()).await, Err(RequestError::NotConnected));
    assert_eq!(first.handle.stats().general.requests_sent, 0);
}

fn impatient(config: NetworkConfig) -> NetworkConfig {
    let mut config = config;
    config.timing.request = Duration::from_millis(200);
    config
}

#[tokio::test]
async fn missing_response_times_out() {
    let (first, mut second) = pair(impatient(tcp(1)), tcp(2)).await;
    let asking = tokio::spawn(first.handle.request(second.key, b"?".to_vec().into()));
    let (_, _, reply) = second.request().await;
    assert_eq!(within("the timeout", asking).await.unwrap(), Err(RequestError::TimedOut));
    reply.send(vec![1].into());
    assert!(first.handle.is_up(&second.key));
}

#[tokio::test]
async fn requests_in_flight_are_bounded() {
    let limit = tcp(1).limits.requests_in_flight;
    let mut generous = tcp(2);
    generous.limits.answers_per_peer = limit;
    let (first, mut second) = pair(tcp(1), generous).await;
    let asking: Vec<_> = (0..limit).map(|_| tokio::spawn(first.handle.request(second.key, b"?".to_vec().into()))).collect();
    let mut replies = Vec::new();
    for _ in 0..limit {
        replies.push(second.request().await.2);
    }
    assert_eq!(first.handle.request(second.key, b"?".to_vec().into()).await, Err(RequestError::Busy));
    replies.into_iter().for_each(|reply| reply.send(vec![1].into()));
    for answer in asking {
        assert_eq!(within("the answer", answer).await.unwrap().unwrap().to_vec(), [1].as_slice());
    }
    let again = tokio::spawn(first.handle.request(second.key, b"?".to_vec().into()));
    second.request().await.2.send(vec![2].into());
    assert_eq!(within("the answer", again).await.unwrap().unwrap().to_vec(), [2].as_slice());
}

#[tokio::test]
async fn excess_requests_are_refused() {
    let mut modest = tcp(2);
    modest.limits.requests_in_flight = 1;
    let (first, mut second) = pair(tcp(1), modest).await;
    let one = tokio::spawn(first.handle.request(second.key, b"1".to_vec().into()));
    let (_, _, reply) = second.request().await;
    let error = within("the refusal", first.handle.request(second.key, b"2".to_vec().into())).await.unwrap_err();
    assert!(matches!(error, RequestError::Refused | RequestError::Failed(_)), "{error:?}");
    reply.send(vec![1].into());
    assert_eq!(within("the answer", one).await.unwrap().unwrap().to_vec(), [1].as_slice());
    assert!(second.handle.stats().general.requests_refused >= 1);
}

#[tokio::test]
async fn request_ends_with_link() {
    let (first, mut second) = pair(tcp(1), tcp(2)).await;
    let asking = tokio::spawn(first.handle.request(second.key, b"?".to_vec().into()));
    let held = second.request().await;
    second.handle.shutdown().await;
    let error = within("the error", asking).await.unwrap().unwrap_err();
    assert!(matches!(error, RequestError::Refused | RequestError::Failed(_) | RequestError::NotConnected), "{error:?}");
    drop(held);
}

/// Server node, with one peer per number.
async fn served<const COUNT: usize>(server: NetworkConfig, peers: [u8; COUNT]) -> (Node, [Node; COUNT]) {
    let mut server = Node::start(server).await;
    let mut connected = Vec::new();
    for number in peers {
        let mut peer = Node::start(dialling(tcp(number), &[&server])).await;
        server.up(peer.key).await;
        peer.up(server.key).await;
        connected.push(peer);
    }
    (server, connected.try_into().unwrap_or_else(|_| unreachable!()))
}

#[tokio::test]
async fn responses_take_turns_per_peer() {
    let (mut server, [greedy, other]) = served(tcp(1), [100, 2]).await;
    let asking = [1, 2].map(|number| tokio::spawn(greedy.handle.request(server.key, vec![number].into())));
    let (_, first, reply) = server.request().await;
    let elsewhere = tokio::spawn(other.handle.request(server.key, vec![3].into()));
    let (from, third, other_reply) = server.request().await;
    assert_eq!((from.id, &third[..]), (other.key, &[3][..]), "not the second of the first peer");
    other_reply.send(third);
    within("the answer", elsewhere).await.unwrap().unwrap();
    reply.send(first);
    let (from, second, reply) = server.request().await;
    assert_eq!(from.id, greedy.key);
    reply.send(second);
    for asked in asking {
        within("the answer", asked).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn guests_share_response_slots() {
    let mut narrow = tcp(1);
    narrow.limits.guest_answers = 1;
    let (mut server, [guest, late]) = served(narrow, [100, 101]).await;
    let validator = Node::start(dialling(tcp(2), &[&server])).await;
    server.up(validator.key).await;
    let server_key = server.key;
    let ask = |node: &Node| tokio::spawn(node.handle.request(server_key, vec![7].into()));
    let (first, second) = (ask(&guest), ask(&late));
    let (from, bytes, reply) = server.request().await;
    let third = ask(&validator);
    let (of_validator, _, other_reply) = server.request().await;
    assert_eq!(of_validator.id, validator.key);
    other_reply.send(bytes.clone());
    within("the answer", third).await.unwrap().unwrap();
    reply.send(bytes.clone());
    let (last, _, reply) = server.request().await;
    assert_ne!(last.id, from.id);
    reply.send(bytes);
    for asked in [first, second] {
        within("the answer", asked).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn response_rate_is_limited_per_peer() {
    let mut slow = impatient(tcp(1));
    slow.limits.guest_answer_bytes_per_second = 1;
    let (mut server, [guest, validator]) = served(slow, [100, 2]).await;
    let server_key = server.key;
    let answering = tokio::spawn(async move {
        loop {
            server.request().await.2.send(vec![9; 1000].into());
        }
    });
    assert_eq!(within("the first", guest.handle.request(server_key, vec![].into())).await.unwrap().len(), 1000);
    // The next response would have to wait for fifteen minutes.
    assert_eq!(within("the refusal", guest.handle.request(server_key, vec![].into())).await, Err(RequestError::Refused));
    for _ in 0..10 {
        let answer = within("the answer", validator.handle.request(server_key, vec![].into())).await;
        assert_eq!(answer.unwrap().len(), 1000);
    }
    answering.abort();
}

#[tokio::test]
async fn response_rate_is_limited_for_guests() {
    let mut slow = impatient(tcp(1));
    slow.limits.guests_answer_bytes_per_second = 1;
    let (mut server, [guest, other, validator]) = served(slow, [100, 101, 2]).await;
    let server_key = server.key;
    let answering = tokio::spawn(async move {
        loop {
            server.request().await.2.send(vec![9; 1000].into());
        }
    });
    assert_eq!(within("the first", guest.handle.request(server_key, vec![].into())).await.unwrap().len(), 1000);
    // Another guest, without a response so far.
    assert_eq!(within("the refusal", other.handle.request(server_key, vec![].into())).await, Err(RequestError::Refused));
    let answer = within("the answer", validator.handle.request(server_key, vec![].into())).await;
    assert_eq!(answer.unwrap().len(), 1000);
    answering.abort();
}
