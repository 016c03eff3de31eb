//! Message delays (§5): exact numbers on a network whose links all take one delay. The sequencer is in the path, so it adds none.

use crate::cluster::{Cluster, DELAY, index, plain};
use corniche_aom_wire::{Suite, encode_request};
use corniche_engine::{Engine, Input, Output, Ticket, Verifier};
use corniche_neobft::{
    Config, Neobft, NeobftVerifier, Setup,
    message::{Message, Slot},
};
use corniche_neobft_testing::{FakeKeys, FakeSignatures, ModelledGroup, committee};
use corniche_testkit::{Group, Micros};
use corniche_types::{Resume, TimestampMs, wire};
use std::sync::Arc;

const ALL: [usize; 4] = [0, 1, 2, 3];

fn is_reply(message: &Message) -> bool {
    matches!(message, Message::Reply { .. } | Message::Sync { .. })
}

#[test]
fn request_is_final_after_two_delays() {
    let mut cluster = Cluster::new(4, plain());
    let (since, before) = (cluster.simulation.now(), cluster.count(0, |_| true));
    cluster.submit(1, "a");
    cluster.run_for(10 * DELAY);
    for node in ALL {
        assert_eq!(cluster.delays(node, "a", since), Some(2), "validator {node}: packet, REPLY");
    }
    assert_eq!(cluster.count(0, |_| true) - before, 1, "one message per replica and request");
    assert_eq!(cluster.count(0, is_reply), 1);
    cluster.assert_equal_logs(ALL);
}

/// The engine alone: three packets, whose records become durable together. Its one REPLY is for the last slot, and REPLYs of two
/// others for that slot make all three final.
#[test]
fn records_that_became_durable_together_share_a_reply() {
    let (config, committee, now) = (plain(), committee(4), TimestampMs(1_000));
    let mut group = ModelledGroup::new(&committee, &config, Suite::SipHash64);
    let mut engine = Neobft::new(Setup {
        config: config.clone(),
        committee: committee.clone(),
        signer: Arc::new(FakeKeys(index(0))),
        signatures: Arc::new(FakeSignatures),
        records: Vec::new(),
        unsigned: true,
        resume: Resume::default(),
        now,
    });
    let verifier = NeobftVerifier::new(config, committee, Arc::new(FakeSignatures));
    group.keys(Micros::ZERO, 0).into_iter().for_each(|key| engine.handle(now, Input::Sequencer(key)));
    let mut outputs = |inputs: Vec<Input>| -> Vec<Output> {
        inputs.into_iter().for_each(|input| engine.handle(now, input));
        std::iter::from_fn(|| engine.poll()).collect()
    };
    let request = encode_request(1, b"anything").unwrap().into();
    let packets = (0..3).flat_map(|_| group.stamp(Micros::ZERO, &request).swap_remove(0)).map(Input::Packet).collect();
    let written: Vec<_> = outputs(packets).iter().filter_map(persisted).map(Input::Durable).collect();
    assert_eq!(written.len(), 3);
    let replies: Vec<_> = outputs(written).iter().filter_map(sent).filter(is_reply).collect();
    let [Message::Reply { slot: Slot(3), .. }] = replies.as_slice() else { panic!("expected one REPLY: {replies:?}") };
    let reply =
        |from| Input::Message { from: index(from), message: verifier.verify(index(from), &replies[0].encode()).unwrap() };
    let outputs = outputs(vec![reply(1), reply(2)]);
    let delivered = outputs.iter().filter(|output| matches!(output, Output::Deliver(_))).count();
    assert_eq!(delivered, 3);
}

fn persisted(output: &Output) -> Option<Ticket> {
    if let Output::Persist(ticket, _) = output { Some(*ticket) } else { None }
}

fn sent(output: &Output) -> Option<Message> {
    if let Output::Send { message, .. } = output { wire::decode(message).ok() } else { None }
}

#[test]
fn packets_of_one_moment_share_a_reply() {
    let mut cluster = Cluster::new(4, plain());
    for node in ALL {
        cluster.submit(node, &format!("t{node}"));
    }
    cluster.run_for(10 * DELAY);
    for node in ALL {
        assert_eq!(cluster.slots(node), [4; 4]);
    }
}

#[test]
fn sequencer_on_a_host_costs_one_delay() {
    let mut cluster = Cluster::new(4, plain());
    cluster.group.borrow_mut().extra_delay = Micros::from_millis(DELAY);
    let since = cluster.simulation.now();
    cluster.submit(1, "a");
    cluster.run_for(10 * DELAY);
    assert_eq!(cluster.delays(3, "a", since), Some(3));
}

#[test]
fn byzantine_network_costs_one_delay() {
    let mut cluster = Cluster::new(4, Config { byzantine_network: true, ..plain() });
    let since = cluster.simulation.now();
    cluster.submit(1, "a");
    cluster.run_for(10 * DELAY);
    for node in ALL {
        assert_eq!(cluster.delays(node, "a", since), Some(3), "packet, CONFIRM, REPLY");
        assert_eq!(cluster.count(node, |message| matches!(message, Message::Confirm { .. })), 1);
    }
}

#[test]
fn signed_packets_cost_no_delay() {
    let mut cluster = Cluster::with_suite(4, plain(), Suite::Ed25519);
    let since = cluster.simulation.now();
    cluster.submit(1, "a");
    cluster.run_for(10 * DELAY);
    assert_eq!(cluster.delays(0, "a", since), Some(2));
}

#[test]
fn silent_replica_costs_nothing() {
    let mut cluster = Cluster::new(4, plain());
    cluster.simulation.crash(3);
    let since = cluster.simulation.now();
    cluster.submit(1, "a");
    cluster.run_for(10 * DELAY);
    assert_eq!(cluster.delays(0, "a", since), Some(2), "Zyzzyva would need all four");
}

#[test]
fn loss_at_one_replica_costs_two_delays_there() {
    let mut cluster = Cluster::new(4, plain());
    cluster.lose(&[(1, 2)]);
    let since = cluster.simulation.now();
    cluster.submit(1, "a");
    cluster.run_for(DELAY / 2);
    // The next packet shows the gap.
    cluster.submit(1, "b");
    cluster.run_for(20 * DELAY);
    for node in [0, 1, 3] {
        assert_eq!(cluster.delays(node, "a", since), Some(2), "the others do not notice");
    }
    let notified = since.0 + (DELAY + DELAY / 2) * 1_000;
    let at = cluster.seen(2).delivered_at("a").unwrap();
    assert_eq!(at.0 - notified, 2 * DELAY * 1_000, "QUERY and QUERY-REPLY");
    let is_signed =
        |message: &Message| !matches!(message, Message::Reply { .. } | Message::Query { .. } | Message::QueryReply { .. });
    for node in ALL {
        assert_eq!(
            cluster.count(node, |message| is_signed(message) && !matches!(message, Message::Progress { .. })),
            0,
            "{node}"
        );
    }
    cluster.assert_equal_logs(ALL);
}

#[test]
fn loss_at_the_leader_is_repaired_in_five_delays() {
    let mut cluster = Cluster::new(4, plain());
    cluster.lose(&[(1, 0)]);
    let since = cluster.simulation.now();
    cluster.submit(1, "a");
    cluster.run_for(DELAY / 2);
    cluster.submit(1, "b");
    cluster.run_for(20 * DELAY);
    for node in [1, 2, 3] {
        assert_eq!(cluster.delays(node, "a", since), Some(2));
    }
    let notified = since.0 + (DELAY + DELAY / 2) * 1_000;
    let at = cluster.seen(0).delivered_at("a").unwrap();
    assert_eq!(at.0 - notified, 5 * DELAY * 1_000, "FIND, RECV, DECISION, PREPARE, COMMIT");
    assert!(!cluster.is_no_op(0, 1));
    cluster.assert_equal_logs(ALL);
}

#[test]
fn loss_everywhere_is_a_no_op_after_five_delays() {
    let mut cluster = Cluster::new(4, plain());
    cluster.lose(&[(1, 0), (1, 1), (1, 2), (1, 3)]);
    cluster.submit(1, "a");
    cluster.run_for(DELAY / 2);
    let since = cluster.simulation.now();
    cluster.submit(2, "b");
    // Packet b, then FIND, DROP, DECISION, PREPARE, COMMIT, then REPLY.
    cluster.run_for(6 * DELAY - 1);
    assert!(ALL.iter().all(|node| cluster.slots(*node)[0] == 0), "blocked until the decision is committed");
    cluster.run_for(1);
    assert!(ALL.iter().all(|node| cluster.slots(*node)[0] == 2 && cluster.is_no_op(*node, 1)));
    cluster.run_for(10 * DELAY);
    for node in ALL {
        assert_eq!(cluster.delays(node, "b", since), Some(7));
    }
    cluster.assert_equal_logs(ALL);
    // C3: the author sends the lost request again.
    cluster.run_until_delivered(&ALL, &["a"], 10_000);
}

#[test]
fn leader_change_takes_three_delays_and_a_reply() {
    let mut cluster = Cluster::new(4, plain());
    cluster.submit(1, "a");
    cluster.run_for(10 * DELAY);
    let since = cluster.simulation.now();
    // Members with F + 1 votes suspect the leader.
    let view = corniche_neobft::message::View { epoch: 0, leader: 1 };
    for (from, to) in [(2, 0), (3, 0), (2, 1), (3, 1), (3, 2), (0, 2), (0, 3), (2, 3)] {
        cluster.receive(from, to, &Message::Suspect { view }.encode());
    }
    assert!(ALL.iter().all(|node| cluster.engine(*node).is_changing_view()));
    assert!(cluster.run_while(1_000, |cluster| ALL.iter().any(|node| cluster.engine(*node).is_changing_view())));
    let passed = cluster.simulation.now().0 - since.0;
    assert_eq!(passed, 3 * DELAY * 1_000, "VIEW-CHANGE, VIEW-START, VIEW-CONFIRM");
    assert!(ALL.iter().all(|node| cluster.view(*node) == view));
    let since = cluster.simulation.now();
    cluster.submit(3, "b");
    cluster.run_for(10 * DELAY);
    assert_eq!(cluster.delays(0, "b", since), Some(2));
    cluster.assert_equal_logs(ALL);
}
