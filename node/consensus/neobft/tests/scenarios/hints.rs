//! Hints for speculative execution (§5.2).

use crate::{
    cluster::{Cluster, DELAY, LOST, index, plain},
    requests::{inline, large, payload},
};
use corniche_neobft::message::{Entry, Message, Slot, View};
use corniche_testkit::{Delivery, texts};

const ALL: [usize; 4] = [0, 1, 2, 3];

/// Texts of the hints since the last start.
fn hints(cluster: &Cluster, node: usize) -> Vec<String> {
    let batches = cluster.seen(node).available.iter().map(|(_, batch)| &batch.bytes);
    batches.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).collect()
}

fn delivered(cluster: &Cluster, node: usize) -> Vec<String> {
    cluster.seen(node).log.iter().flat_map(|(_, ordered)| texts(ordered)).collect()
}

#[test]
fn request_is_available_once_and_before_it_is_delivered() {
    let mut cluster = Cluster::new(4, plain());
    cluster.submit(1, "a");
    cluster.run_for(DELAY);
    for node in ALL {
        let seen = cluster.seen(node);
        assert_eq!((seen.available.len(), seen.available[0].0, seen.log.len()), (1, index(1), 0), "validator {node}");
    }
    cluster.submit(2, &large());
    cluster.run_for(100 * DELAY);
    for node in ALL {
        assert_eq!(hints(&cluster, node), ["a".to_owned(), large()]);
        assert_eq!(delivered(&cluster, node), hints(&cluster, node));
    }
}

#[test]
fn requests_without_an_effect_are_not_available() {
    let mut cluster = Cluster::new(4, plain());
    let once = payload(&cluster, 2, inline(5, "once", 1_000_000), 1_000);
    let mut forged = payload(&cluster, 2, inline(6, "forged", 1_000_000), 1_000);
    *forged.last_mut().unwrap() ^= 1;
    let packets = [once.clone(), once.clone(), forged, once].map(|payload| cluster.stamp(&payload));
    packets.iter().for_each(|packet| cluster.arrive(packet, &ALL));
    cluster.run_for(10 * DELAY);
    assert!(ALL.iter().all(|node| cluster.slots(*node) == [4; 4] && hints(&cluster, *node) == ["once"]));
}

#[test]
fn rollback_repeats_no_hint_and_leads_to_the_agreed_log() {
    let mut cluster = Cluster::new(4, plain());
    // Validator 1 has the first packet, but the leader hears nothing from it.
    let is_answer = |message: &Message| matches!(message, Message::GapReceive { .. } | Message::QueryReply { .. });
    cluster.set_rule(move |_, from, _, message| if from == 1 && is_answer(message) { LOST } else { Delivery::Normal });
    let [first, second] = [(5, "first"), (6, "second")].map(|(id, text)| {
        let payload = payload(&cluster, 2, inline(id, text, 1_000_000), 1_000);
        cluster.stamp(&payload)
    });
    cluster.arrive(&first, &[1]);
    cluster.arrive(&second, &ALL);
    assert_eq!(hints(&cluster, 1), ["first", "second"]);
    cluster.run_for(10 * DELAY);
    for node in ALL {
        assert!(cluster.is_no_op(node, 1) && cluster.slots(node)[3] == 2, "G9");
        assert_eq!(delivered(&cluster, node), ["second"]);
    }
    assert_eq!(hints(&cluster, 1), ["first", "second"]);
    assert_eq!(hints(&cluster, 3), ["second"]);
    cluster.assert_equal_logs(ALL);
}

#[test]
fn slot_with_another_request_is_available_again() {
    let mut cluster = Cluster::new(4, plain());
    let [old, new] = [(5, "old"), (6, "new")].map(|(id, text)| payload(&cluster, 1, inline(id, text, 1_000_000), 1_000));
    let packet = cluster.stamp(&old);
    cluster.arrive(&packet, &[2]);
    // The next epoch begins without it.
    let next = View { epoch: 1, leader: 0 };
    cluster.set_rule(
        |_, from, _, message| if from == 2 && matches!(message, Message::ViewChange(_)) { LOST } else { Delivery::Normal },
    );
    for (from, to) in ALL.into_iter().flat_map(|from| ALL.map(|to| (from, to))).filter(|(from, to)| from != to) {
        cluster.tell(from, to, &Message::Suspect { view: next });
    }
    cluster.run_for(20 * DELAY);
    assert!(ALL.iter().all(|node| cluster.view(*node) == next && cluster.slots(*node)[0] == 0));
    let packet = cluster.stamp(&new);
    cluster.arrive(&packet, &ALL);
    assert!(matches!(cluster.engine(2).entry(Slot(1)), Some(Entry::Request(packet)) if packet.epoch == 1));
    assert_eq!(hints(&cluster, 2), ["old", "new"]);
    cluster.run_for(10 * DELAY);
    assert!(ALL.iter().all(|node| delivered(&cluster, *node) == ["new"]));
}
