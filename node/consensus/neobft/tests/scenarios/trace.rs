//! Events of the log for people (`corniche_getDag`).

use crate::{
    cluster::{Cluster, DELAY, LOST, index, plain},
    requests::{inline, payload},
};
use corniche_engine::{TraceEvent, batch_digest};
use corniche_neobft::message::{Message, Slot, View};
use corniche_testkit::Delivery;
use corniche_types::{CommitIndex, ValidatorIndex};

const ALL: [usize; 4] = [0, 1, 2, 3];

/// Packet 1 goes to all, packet 2 is lost everywhere, packet 3 goes to all.
#[test]
fn log_is_traced_with_its_gaps() {
    let mut cluster = Cluster::new(4, plain());
    let is_answer = |message: &Message| matches!(message, Message::GapReceive { .. } | Message::QueryReply { .. });
    cluster.set_rule(move |_, _, _, message| if is_answer(message) { LOST } else { Delivery::Normal });
    let packets = [(5, "first"), (6, "lost"), (7, "third")].map(|(id, text)| {
        let payload = payload(&cluster, 2, inline(id, text, 1_000_000), 1_000);
        cluster.stamp(&payload)
    });
    cluster.arrive(&packets[0], &ALL);
    cluster.arrive(&packets[2], &ALL);
    cluster.run_for(20 * DELAY);
    for node in ALL {
        let digest = |slot| cluster.engine(node).log_hash(Slot(slot)).unwrap();
        let traced = &cluster.seen(node).traced;
        let vertices: Vec<_> = traced
            .iter()
            .filter_map(|event| match event {
                TraceEvent::Accepted(vertex) => {
                    let id = vertex.id;
                    Some((id.round, id.author, id.digest, vertex.batch_bytes, vertex.batch_digest))
                }
                _ => None,
            })
            .collect();
        let vertex = |slot, text: &str| (slot, index(2), digest(slot), text.len() as u32, Some(batch_digest(text.as_bytes())));
        assert_eq!(vertices, [vertex(1, "first"), vertex(3, "third")]);
        let verdicts: Vec<_> = traced
            .iter()
            .filter_map(|event| match event {
                TraceEvent::Decided { round, rank: 0, leader, committed, why } => {
                    Some((*round, *leader, *committed, why.as_str()))
                }
                _ => None,
            })
            .collect();
        let expected = [
            (1, index(2), Some(digest(1)), "packet 1 of epoch 0"),
            (2, ValidatorIndex(2), None, "gap at 2 of epoch 0"),
            (3, index(2), Some(digest(3)), "packet 3 of epoch 0"),
        ];
        assert_eq!(verdicts, expected);
        let delivered = (1..=3).map(|slot| TraceEvent::Delivered { round: slot, rank: 0, commit: CommitIndex(slot) });
        assert!(delivered.into_iter().all(|event| traced.contains(&event)));
        assert_eq!(cluster.view(node), View::default());
    }
}
