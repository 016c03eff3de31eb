//! Requests: large batches, repetition, requests without an effect, and time (C1–C4, N2).

use crate::cluster::{Cluster, DELAY, LOST, index, plain};
use corniche_neobft::{
    Config,
    message::{BodyId, Content, Message, Request},
};
use corniche_testkit::{Delivery, texts};
use corniche_types::{Bytes, TimestampMs, wire};

const ALL: [usize; 4] = [0, 1, 2, 3];

pub fn large() -> String {
    "x".repeat(5_000)
}

pub fn payload(cluster: &Cluster, author: usize, content: Content, time: u64) -> Vec<u8> {
    let (author, time) = (index(author), TimestampMs(time));
    let signature = cluster.sign(author.as_usize(), &cluster.context().request(author, &content, time));
    wire::encode(&Request { author, content, time, signature })
}

pub fn inline(id: u64, text: &'static str, expires: u64) -> Content {
    Content::Inline { id, expires: TimestampMs(expires), batch: Bytes::from_static(text.as_bytes()) }
}

#[test]
fn large_batch_is_ordered_by_reference() {
    let mut cluster = Cluster::new(4, plain());
    let since = cluster.simulation.now();
    cluster.submit(1, &large());
    cluster.run_for(10 * DELAY);
    for node in ALL {
        assert_eq!(cluster.delays(node, &large(), since), Some(4), "body, acknowledgement, packet, REPLY");
    }
}

#[test]
fn missing_body_blocks_execution_and_not_ordering() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, from, to, message| {
        let is_body = matches!(message, Message::Body { .. } | Message::FetchBody { .. });
        if is_body && (to == 3 || from == 3) { LOST } else { Delivery::Normal }
    });
    cluster.submit(1, &large());
    cluster.run_for(10 * DELAY);
    cluster.submit(2, "next");
    cluster.run_for(10 * DELAY);
    assert_eq!(cluster.slots(3), [2, 2, 2, 0], "the log is final, but cannot be executed");
    assert_eq!(cluster.slots(0), [2; 4]);
    cluster.set_rule(|_, _, _, _| Delivery::Normal);
    cluster.run_until_delivered(&ALL, &["next"], 5_000);
    cluster.assert_equal_logs(ALL);
}

#[test]
fn repeated_request_has_one_effect() {
    let mut cluster = Cluster::new(4, plain());
    let payload = payload(&cluster, 2, inline(5, "once", 1_000_000), 1_000);
    for _ in 0..3 {
        let packet = cluster.stamp(&payload);
        cluster.arrive(&packet, &ALL);
    }
    cluster.run_for(10 * DELAY);
    assert!(ALL.iter().all(|node| cluster.slots(*node) == [3; 4]));
    let log = &cluster.seen(0).log;
    let found: Vec<_> = log.iter().map(|(_, ordered)| ordered.batches.len()).collect();
    assert_eq!(found, [1, 0, 0], "C4: each takes a slot");
    assert_eq!(texts(&log[0].1), ["once"]);
    cluster.assert_equal_logs(ALL);
}

#[test]
fn invalid_requests_take_a_slot_without_an_effect() {
    let mut cluster = Cluster::new(4, plain());
    let mut forged = payload(&cluster, 2, inline(5, "forged", 1_000_000), 1_000);
    *forged.last_mut().unwrap() ^= 1;
    let expired = payload(&cluster, 2, inline(6, "expired", 10), 1_000);
    let early = payload(&cluster, 1, inline(6, "first", 1_000_000), 5_000);
    for payload in [b"noise".to_vec(), forged, Vec::new(), early, expired] {
        let packet = cluster.stamp(&payload);
        cluster.arrive(&packet, &ALL);
    }
    cluster.run_for(10 * DELAY);
    assert!(ALL.iter().all(|node| cluster.slots(*node) == [5; 4]), "N2");
    let found: Vec<_> = cluster.seen(3).log.iter().map(|(_, ordered)| ordered.batches.len()).collect();
    assert_eq!(found, [0, 0, 0, 1, 0]);
}

#[test]
fn one_author_cannot_move_time_far_ahead() {
    let mut cluster = Cluster::new(4, plain());
    let times = |cluster: &Cluster| cluster.seen(0).log.iter().map(|(_, ordered)| ordered.time.0).collect::<Vec<_>>();
    let mut claim = |author, time| {
        let payload = payload(&cluster, author, Content::Clock, time);
        let packet = cluster.stamp(&payload);
        cluster.arrive(&packet, &ALL);
        cluster.run_for(5 * DELAY);
        times(&cluster).last().copied().unwrap()
    };
    assert_eq!(claim(0, 2_000), 1_500, "nobody else claimed a time yet");
    assert_eq!(claim(1, 2_010), 1_500);
    assert_eq!(claim(2, 2_020), 2_020, "a majority is past 2,000");
    assert_eq!(claim(3, 9_000_000), 2_010 + 1_500, "the median and 1,500 ms");
    assert_eq!(claim(0, 2_500), 3_510, "time never goes back");
}

#[test]
fn members_claim_their_time_every_second() {
    let mut cluster = Cluster::new(4, Config { clock_ms: 1_000, query_ms: 100, ..plain() });
    cluster.run_for(10_000);
    let [end, ..] = cluster.slots(0);
    assert!((32..=48).contains(&end), "{end} slots in ten seconds");
    let now = cluster.simulation.now().timestamp().0;
    let last = cluster.seen(0).log.last().unwrap().1.time.0;
    assert!(now - last <= 1_100, "{now} {last}");
}

#[test]
fn lost_request_is_sent_again() {
    let mut cluster = Cluster::new(4, Config { request_ms: 100, query_ms: 50, ..plain() });
    cluster.lose(&[(1, 0), (1, 1), (1, 2), (1, 3)]);
    cluster.submit(2, "a");
    // C3; the second packet also shows that the first one is lost (pitfall 11).
    cluster.run_until_delivered(&ALL, &["a"], 500);
    assert!(cluster.is_no_op(0, 1));
}

/// Two own batches are open from 0 and 6 ms on. What comes meanwhile goes into one request, when the first of them is final.
#[test]
fn batch_grows_while_others_are_open() {
    let mut cluster = Cluster::new(4, Config { open_requests: 2, request_interval_ms: 1, ..plain() });
    let since = cluster.simulation.now();
    for text in ["a", "b", "c", "d"] {
        cluster.submit(1, text);
        cluster.run_for(6);
    }
    cluster.run_for(10 * DELAY);
    let batches: Vec<_> = cluster.seen(0).log.iter().map(|(_, ordered)| texts(ordered)).collect();
    assert_eq!(batches, [vec!["a"], vec!["b"], vec!["c", "d"]]);
    assert_eq!(cluster.delays(0, "a", since), Some(2), "nothing waits while fewer are open");
    assert_eq!(cluster.delays(0, "c", since), Some(4), "sent when the author knows that the first is final");
    cluster.assert_equal_logs(ALL);
}

/// The interval after a batch grows to `max_stretch` times the least one, which a batch of four packets has.
#[test]
fn interval_grows_with_the_batch() {
    let config = Config { request_interval_ms: 1, max_stretch: 401, payload_bytes: 1_000, open_requests: 8, ..plain() };
    for (bytes, interval_ms) in [(4, 1), (500, 51), (900, 91)] {
        let mut cluster = Cluster::new(4, config.clone());
        let large = "x".repeat(bytes);
        cluster.submit(1, &large);
        cluster.submit(1, "next");
        cluster.run_for(200);
        let at = |text| cluster.seen(1).delivered_at(text).unwrap().0;
        assert_eq!(at("next") - at(&large), interval_ms * 1_000, "after {bytes} bytes");
    }
}

#[test]
fn full_batches_do_not_wait_for_each_other() {
    let mut cluster = Cluster::new(4, Config { open_requests: 1, request_interval_ms: 1, batch_bytes: 16, ..plain() });
    for text in ["eight888", "four", "nine"] {
        cluster.submit(1, text);
        cluster.run_for(5);
    }
    cluster.run_for(10 * DELAY);
    let at = |text| cluster.seen(1).delivered_at(text).unwrap().0;
    assert_eq!(at("four") - at("eight888"), 5_000, "the batch before is half full");
    assert_eq!(at("nine") - at("four"), 2 * DELAY * 1_000, "the batch before is small");
}

#[test]
fn expired_batches_give_way() {
    let config = Config { expiry_ms: 1_000, clock_ms: 500, query_ms: 100, request_ms: 60_000, open_requests: 2, ..plain() };
    let mut cluster = Cluster::new(4, config);
    cluster.run_for(1_000);
    cluster.group.borrow_mut().loss = Some(Box::new(|_, _| true));
    for text in ["a", "b", "c"] {
        cluster.submit(2, text);
        cluster.run_for(10);
    }
    cluster.run_for(80);
    cluster.group.borrow_mut().loss = None;
    assert_eq!(cluster.seen(2).queue, ["c"], "two lost batches are open");
    cluster.run_until_delivered(&ALL, &["c"], 5_000);
    assert_eq!(cluster.seen(2).requeued.len(), 2);
}

#[test]
fn expired_batch_returns_to_its_author() {
    let config = Config { expiry_ms: 1_000, clock_ms: 500, query_ms: 100, request_ms: 60_000, ..plain() };
    let mut cluster = Cluster::new(4, config);
    cluster.run_for(1_000);
    cluster.group.borrow_mut().loss = Some(Box::new(|_, _| true));
    cluster.submit(2, "a");
    cluster.run_for(100);
    cluster.group.borrow_mut().loss = None;
    cluster.run_for(5_000);
    assert_eq!(cluster.seen(2).requeued.len(), 1);
    assert_eq!(cluster.seen(2).delivered_at("a"), None);
}

#[test]
fn expired_copy_does_not_discredit_the_sequencer() {
    let config = Config { query_ms: 50, clock_ms: 100, aom_ms: 1_000, request_ms: 60_000, ..plain() };
    let mut cluster = Cluster::new(4, config);
    cluster.run_for(1_000);
    // Validator 3 sends a batch to the others, and to the group only when it has expired.
    let now = cluster.simulation.now().timestamp().0;
    let late = payload(&cluster, 3, inline(5, "late", now + 200), now);
    for to in [0, 1, 2] {
        assert!(cluster.tell(3, to, &Message::Copy(late.clone().into())));
    }
    cluster.run_for(400);
    let packet = cluster.stamp(&late);
    cluster.arrive(&packet, &ALL);
    cluster.run_for(20_000);
    assert!(ALL.iter().all(|node| cluster.count(*node, |message| matches!(message, Message::Suspect { .. })) == 0));
    assert_eq!([cluster.view(0).epoch, cluster.group.borrow().epoch()], [0, 0]);
    assert_eq!(cluster.seen(0).delivered_at("late"), None);
    cluster.assert_equal_logs(ALL);
}

#[test]
fn forgotten_batch_counts_as_repeated() {
    let mut cluster = Cluster::new(4, plain());
    let first = payload(&cluster, 2, inline(1, "first", 1_000_000), 1_000);
    for id in 1..=40 {
        let payload = payload(&cluster, 2, inline(id, "first", 1_000_000), 1_000);
        let packet = cluster.stamp(&payload);
        cluster.arrive(&packet, &ALL);
        cluster.run_for(3 * DELAY);
    }
    let packet = cluster.stamp(&first);
    cluster.arrive(&packet, &ALL);
    cluster.run_for(5 * DELAY);
    let effects: Vec<_> = cluster.seen(0).log.iter().map(|(_, ordered)| ordered.batches.len()).collect();
    assert_eq!((effects.len(), effects.iter().sum::<usize>(), effects.last()), (41, 40, Some(&0)), "N2");
}

#[test]
fn body_must_have_its_digest() {
    let mut cluster = Cluster::new(4, plain());
    let batch = Bytes::from_static(&[7; 2_000]);
    let body = BodyId::of(index(1), 5, TimestampMs(30_000), &batch);
    for wrong in [Bytes::from_static(&[8; 2_000]), batch.slice(1..)] {
        assert!(!cluster.tell(1, 2, &Message::Body { body, batch: wrong }));
    }
    assert!(cluster.tell(1, 2, &Message::Body { body, batch }));
}
