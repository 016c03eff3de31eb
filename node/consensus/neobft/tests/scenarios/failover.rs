//! Failover of the sequencer (E1–E5).

use crate::{
    cluster::{Cluster, DELAY, LOST, index, plain},
    requests::{inline, payload},
};
use corniche_neobft::{
    Config,
    message::{Confirmed, Message, Slot, Statement, View, ViewCertificate},
};
use corniche_testkit::{Delivery, Group, Micros};
use corniche_types::Bytes;

const ALL: [usize; 4] = [0, 1, 2, 3];

fn quick() -> Config {
    Config { query_ms: 50, gap_ms: 1_000, view_ms: 500, request_ms: 100, aom_ms: 200, ..plain() }
}

fn epochs(cluster: &Cluster) -> Vec<u32> {
    ALL.iter().map(|node| cluster.view(*node).epoch).collect()
}

#[test]
fn silent_sequencer_is_replaced() {
    let mut cluster = Cluster::new(4, quick());
    cluster.submit(1, "a");
    cluster.run_for(10 * DELAY);
    cluster.group.borrow_mut().faults.is_silent = true;
    cluster.submit(2, "b");
    cluster.run_until_delivered(&ALL, &["a", "b"], 5_000);
    assert_eq!((cluster.group.borrow().epoch(), epochs(&cluster)), (1, vec![1; 4]));
    cluster.submit(3, "c");
    cluster.run_until_delivered(&ALL, &["c"], 1_000);
    cluster.assert_equal_logs(ALL);
    // Packets of the new epoch continue the log: slot = L_e + seq.
    let [end, ..] = cluster.slots(0);
    assert_eq!(end, 1 + cluster.group.borrow().seq());
}

/// No user waits for anything. The clocks that members send do not come.
#[test]
fn dead_sequencer_of_an_idle_group_is_replaced() {
    let mut cluster = Cluster::new(4, Config { clock_ms: 1_000, ..quick() });
    cluster.run_for(5_000);
    assert_eq!(epochs(&cluster), [0; 4], "clocks show that it works");
    cluster.group.borrow_mut().faults.is_silent = true;
    cluster.run_for(2_500);
    assert_eq!(epochs(&cluster), [1; 4]);
    cluster.run_for(5_000);
    assert_eq!(epochs(&cluster), [1; 4], "the next one works");
    cluster.submit(2, "a");
    cluster.run_until_delivered(&ALL, &["a"], 100);
}

/// All that an author may have open is lost with the sequencer. The next one gets it, and then what waited.
#[test]
fn open_requests_outlive_the_sequencer() {
    let mut cluster = Cluster::new(4, Config { open_requests: 2, ..quick() });
    cluster.run_for(10 * DELAY);
    cluster.group.borrow_mut().faults.is_silent = true;
    for text in ["a", "b", "c"] {
        cluster.submit(2, text);
        cluster.run_for(DELAY);
    }
    assert_eq!(cluster.seen(2).queue, ["c"]);
    cluster.run_until_delivered(&ALL, &["a", "b", "c"], 5_000);
    assert_eq!(epochs(&cluster), [1; 4]);
    cluster.assert_equal_logs(ALL);
}

#[test]
fn jump_of_the_sequence_replaces_the_sequencer() {
    let mut cluster = Cluster::new(4, Config { max_jump: 20, ..quick() });
    cluster.submit(1, "a");
    cluster.run_for(10 * DELAY);
    cluster.group.borrow_mut().faults.jump = 30;
    cluster.submit(2, "b");
    cluster.run_until_delivered(&ALL, &["a", "b"], 5_000);
    assert_eq!(epochs(&cluster), [1; 4], "L6");
    assert!(cluster.slots(0)[0] < 30, "the jump was not unrolled into NO-OPs");
}

#[test]
fn equivocating_sequencer_is_found_and_replaced() {
    let mut cluster = Cluster::new(4, Config { byzantine_network: true, ..quick() });
    cluster.submit(1, "a");
    cluster.run_for(10 * DELAY);
    cluster.group.borrow_mut().faults.equivocates_to = [2, 3].into();
    cluster.submit(2, "b");
    cluster.run_for(DELAY);
    cluster.submit(0, "c");
    cluster.run_until_delivered(&ALL, &["a", "b", "c"], 10_000);
    cluster.assert_equal_logs(ALL);
}

#[test]
fn service_needs_an_epoch_certificate() {
    let cluster = Cluster::new(4, quick());
    let view = View { epoch: 1, leader: 0 };
    let confirmed = Confirmed { view, base: Slot(0), slot: Slot(0), hash: cluster.context().genesis_hash() };
    let certificate = |nodes: &[usize], signed: Confirmed| {
        let votes = cluster.votes(nodes, &Statement::ViewConfirm(signed));
        Bytes::from(corniche_types::wire::encode(&ViewCertificate { confirmed, votes }))
    };
    let other = Confirmed { slot: Slot(1), ..confirmed };
    let (few, doubled) = (certificate(&[0, 1], confirmed), certificate(&[0, 1, 1], confirmed));
    let mut group = cluster.group.borrow_mut();
    let refused = [Bytes::new(), Bytes::from_static(b"please"), few, doubled, certificate(&[0, 1, 3], other)];
    for certificate in &refused {
        assert!(group.ask(Micros::START, 3, 1, certificate).is_none(), "E2: f replicas force nothing");
    }
    assert_eq!((group.refused, group.epoch()), (5, 0));
    assert!(group.ask(Micros::START, 3, 1, &certificate(&[0, 1, 3], confirmed)).is_some());
}

#[test]
fn author_that_sends_only_copies_does_not_discredit_the_sequencer() {
    let mut cluster = Cluster::new(4, quick());
    let content = corniche_neobft::message::Content::Inline {
        id: 7,
        expires: corniche_types::TimestampMs(1_000_000),
        batch: Bytes::from_static(b"copy"),
    };
    let (author, time) = (crate::cluster::index(3), corniche_types::TimestampMs(1_000));
    let signature = cluster.sign(3, &cluster.context().request(author, &content, time));
    let request = corniche_neobft::message::Request { author, content, time, signature };
    let copy = corniche_neobft::message::Message::Copy(corniche_types::wire::encode(&request).into());
    for node in [0, 1, 2] {
        cluster.tell(3, node, &copy);
    }
    cluster.run_until_delivered(&ALL, &["copy"], 1_000);
    cluster.run_for(1_000);
    assert_eq!(epochs(&cluster), [0; 4], "others forward the copy to the group");
}

#[test]
fn restart_after_a_failover_finds_the_new_epoch() {
    let mut cluster = Cluster::new(4, quick());
    cluster.simulation.crash(0);
    cluster.group.borrow_mut().faults.is_silent = true;
    cluster.submit(2, "b");
    cluster.run_until_delivered(&[1, 2, 3], &["b"], 5_000);
    cluster.simulation.restart(0);
    cluster.submit(1, "c");
    cluster.run_until_delivered(&ALL, &["b", "c"], 5_000);
    assert!(cluster.view(0).epoch >= 1);
    cluster.assert_equal_logs(ALL);
}

#[test]
fn service_is_asked_until_a_packet_comes() {
    let mut cluster = Cluster::new(4, Config { aom_ms: 1_000, ..quick() });
    let asked = |cluster: &Cluster, epoch| cluster.group.borrow().asked.get(&epoch).copied().unwrap_or_default();
    assert!(asked(&cluster, 0) >= 4, "at the start, although the key is known");
    cluster.submit(1, "a");
    cluster.run_until_delivered(&ALL, &["a"], 1_000);
    let before = asked(&cluster, 0);
    cluster.run_for(1_000);
    assert_eq!(asked(&cluster, 0), before, "a sequencer serves the epoch");
    // The first requests for the next sequencer are lost. All have its key.
    cluster.group.borrow_mut().faults.is_silent = true;
    cluster.group.borrow_mut().is_unreachable = true;
    cluster.submit(2, "b");
    assert!(cluster.run_while(5_000, |cluster| ALL.iter().any(|node| cluster.engine(*node).progress().0.epoch == 0)));
    cluster.run_for(60);
    cluster.group.borrow_mut().is_unreachable = false;
    cluster.run_until_delivered(&ALL, &["b"], 5_000);
    assert_eq!((asked(&cluster, 1) > 0, epochs(&cluster)), (true, vec![1; 4]));
    let before = asked(&cluster, 1);
    cluster.run_for(1_000);
    assert_eq!(asked(&cluster, 1), before);
    // A restarted validator has heard nothing yet.
    cluster.group.borrow_mut().faults.is_silent = true;
    cluster.simulation.crash(3);
    cluster.simulation.restart(3);
    cluster.run_for(500);
    assert!(asked(&cluster, 1) >= before + 5);
    cluster.group.borrow_mut().faults.is_silent = false;
    cluster.submit(3, "c");
    cluster.run_until_delivered(&ALL, &["c"], 1_000);
    let before = asked(&cluster, 1);
    cluster.run_for(1_000);
    assert_eq!(asked(&cluster, 1), before);
}

#[test]
fn suspicion_of_the_sequencer_ends_with_its_reason() {
    let config = Config { max_jump: 20, sync_slots: 16, ..quick() };
    let mut cluster = Cluster::new(4, config);
    // Validator 3 misses more numbers than it believes to be missing.
    cluster.group.borrow_mut().loss = Some(Box::new(|seq, receiver| receiver == 3 && seq <= 40));
    cluster.set_rule(|_, from, to, _| if from == 3 || to == 3 { LOST } else { Delivery::Normal });
    for number in 0..42 {
        cluster.submit(number % 3, &format!("t{number}"));
        cluster.run_for(DELAY);
    }
    cluster.run_for(5 * DELAY);
    let suspects = |cluster: &Cluster| cluster.engine(3).suspects(index(3));
    assert_eq!(suspects(&cluster), Some(View { epoch: 1, leader: 0 }), "L6");
    cluster.clear_rule();
    cluster.run_until_delivered(&ALL, &["t41"], 5_000);
    cluster.run_for(500);
    assert_eq!(suspects(&cluster), None);
    // So one liar causes no failover.
    for to in [0, 1, 3] {
        cluster.tell(2, to, &Message::Suspect { view: View { epoch: 1, leader: 0 } });
    }
    cluster.run_for(1_000);
    assert_eq!(epochs(&cluster), [0; 4]);
    cluster.assert_equal_logs(ALL);
}

#[test]
fn suspicion_ends_when_the_request_comes() {
    let mut cluster = Cluster::new(4, quick());
    // Only validator 3 gets a copy, and nothing comes from the sequencer for a while.
    let content = crate::requests::inline(7, "late", 1_000_000);
    let request: Bytes = crate::requests::payload(&cluster, 1, content, 1_000).into();
    cluster.group.borrow_mut().faults.is_silent = true;
    cluster.tell(1, 3, &Message::Copy(request.clone()));
    cluster.run_for(500);
    let suspects = |cluster: &Cluster| cluster.engine(3).suspects(index(3));
    assert_eq!(suspects(&cluster), Some(View { epoch: 1, leader: 0 }), "V1");
    cluster.group.borrow_mut().faults.is_silent = false;
    let packet = cluster.stamp(&request);
    cluster.arrive(&packet, &ALL);
    cluster.run_until_delivered(&ALL, &["late"], 1_000);
    cluster.run_for(100);
    assert_eq!(suspects(&cluster), None);
    assert_eq!(epochs(&cluster), [0; 4]);
}

/// F1: only two of three correct members know that a packet was lost everywhere, and no later packet comes. No leader can resolve its number.
#[test]
fn number_that_no_leader_can_resolve_ends_with_the_epoch() {
    let mut cluster = Cluster::new(4, quick());
    cluster.simulation.crash(0);
    let packets: Vec<_> = (0..2)
        .map(|number| {
            let payload = payload(&cluster, 1, inline(5 + number, "any", 1_000_000), 1_000);
            cluster.stamp(&payload)
        })
        .collect();
    cluster.arrive(&packets[1], &[1, 3]);
    cluster.group.borrow_mut().faults.is_silent = true;
    cluster.submit(2, "later");
    cluster.run_until_delivered(&[1, 2, 3], &["later"], 60_000);
    assert!([1, 2, 3].iter().all(|node| cluster.view(*node).epoch > 0));
    cluster.assert_equal_logs([1, 2, 3]);
}

#[test]
fn copy_whose_packet_was_dropped_gets_its_time_again() {
    let mut cluster = Cluster::new(4, Config { aom_ms: 1_000, gap_ms: 10_000, ..quick() });
    let content = crate::requests::inline(7, "late", 1_000_000);
    let request: Bytes = crate::requests::payload(&cluster, 3, content, 1_000).into();
    let (first, second) = (cluster.stamp(&request), cluster.stamp(b"y"));
    // Validator 1 alone has the packet, and the slot stays open for longer than a request may take.
    let is_answer = |message: &Message| {
        matches!(message, Message::GapReceive { .. } | Message::GapDrop { .. } | Message::QueryReply { .. })
    };
    let open_until = cluster.simulation.now() + Micros::from_millis(1_500);
    cluster.set_rule(
        move |now, from, _, message| {
            if is_answer(message) && (from == 1 || now < open_until) { LOST } else { Delivery::Normal }
        },
    );
    cluster.tell(3, 1, &Message::Copy(request));
    cluster.arrive(&first, &[1]);
    cluster.arrive(&second, &ALL);
    cluster.run_for(1_800);
    assert!(cluster.is_no_op(1, 1) && cluster.slots(1)[3] >= 2);
    let is_suspicion = |message: &Message| matches!(message, Message::Suspect { .. });
    assert_eq!(cluster.count(1, is_suspicion), 0, "nobody could deliver it yet");
    // It is forwarded to the group.
    cluster.run_until_delivered(&ALL, &["late"], 1_000);
    assert_eq!(epochs(&cluster), [0; 4]);
}
