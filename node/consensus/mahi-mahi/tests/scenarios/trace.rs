//! The trace of an execution for people: it reports every step once, in order, with its reason.

use crate::{
    cluster::{Cluster, quick},
    drawing::Drawing,
    thesis_figures::{FIGURE_6_2, LEADERS_6_2},
};
use corniche_engine::{Output, TraceEvent};
use corniche_types::{CommitIndex, ValidatorIndex};

fn traces(outputs: Vec<Output>) -> Vec<TraceEvent> {
    outputs.into_iter().filter_map(|output| if let Output::Trace(event) = output { Some(event) } else { None }).collect()
}

fn figure_6_2() -> (Drawing, Vec<TraceEvent>) {
    let drawing = Drawing::parse(4, 5, FIGURE_6_2);
    let events = traces(drawing.outputs(&LEADERS_6_2, 0..drawing.blocks().count()));
    (drawing, events)
}

#[test]
fn accepted_blocks_are_traced_with_parents() {
    let (drawing, events) = figure_6_2();
    let told = events.iter().filter_map(|event| if let TraceEvent::Accepted(vertex) = event { Some(vertex) } else { None });
    assert!(told.eq(&drawing.blocks().map(|block| block.vertex()).collect::<Vec<_>>()));
    let vertex = drawing.blocks().nth(4).unwrap().vertex();
    assert_eq!((vertex.id.round, vertex.id.author, vertex.batch_bytes), (2, ValidatorIndex(0), 3));
    assert_eq!(vertex.parents, ["0@1", "1@1", "2@1"].map(|name| drawing.reference(name).into()));
    let batch = &drawing.blocks().nth(4).unwrap().content().batch;
    assert_eq!(vertex.batch_digest, Some(corniche_crypto::digest(batch)), "as ordering records name it");
}

#[test]
fn slots_are_traced_with_reason() {
    let (drawing, events) = figure_6_2();
    let mut told: Vec<_> = events
        .into_iter()
        .filter_map(|event| match event {
            TraceEvent::Decided { round, rank, leader, committed, why } => Some((round, rank, leader.0, committed, why)),
            _ => None,
        })
        .collect();
    told.sort();
    let expected = [
        (1, 0, Some("3@1"), "anchor (6, 1) holds a certificate"),
        (1, 1, Some("0@1"), "direct: 3 of 4 certify"),
        (2, 0, Some("0@2"), "direct: 3 of 4 certify"),
        (2, 1, Some("1@2"), "direct: 3 of 4 certify"),
        (3, 0, Some("1@3"), "direct: 3 of 4 certify"),
        (3, 1, Some("3@3"), "direct: 3 of 4 certify"),
        (4, 0, Some("0@4"), "direct: 3 of 4 certify"),
        (4, 1, Some("3@4"), "direct: 3 of 4 certify"),
        (5, 0, Some("3@5"), "direct: 3 of 4 certify"),
        (5, 1, Some("0'@5"), "direct: 3 of 4 certify"),
        (6, 0, None, "skipped: 3 of 4 do not vote for it"),
        (6, 1, Some("1@6"), "direct: 3 of 4 certify"),
    ];
    for (told, (round, rank, block, why)) in told.iter().zip(expected) {
        let leader = LEADERS_6_2[round as usize - 1].1[rank as usize];
        let digest = block.map(|name| drawing.reference(name).digest);
        assert_eq!(*told, (round, rank, leader, digest, why.to_owned()));
    }
    assert_eq!(told.len(), expected.len(), "each once, and nothing else");
}

/// Figure 6.2's committed slots, in slot order: a slot decided early waits for its turn.
#[test]
fn commits_are_traced_before_delivery() {
    let drawing = Drawing::parse(4, 5, FIGURE_6_2);
    let (mut told, mut delivered) = (Vec::new(), Vec::new());
    for output in drawing.outputs(&LEADERS_6_2, 0..drawing.blocks().count()) {
        match output {
            Output::Trace(TraceEvent::Delivered { round, rank, commit }) => told.push((round, rank, commit)),
            Output::Deliver(ordered) => {
                delivered.push(ordered.index);
                assert_eq!(told.last().map(|(.., commit)| *commit), Some(ordered.index));
            }
            _ => {}
        }
    }
    let slots = (1..=5).flat_map(|round| [(round, 0), (round, 1)]).chain([(6, 1)]);
    let expected: Vec<_> = slots.zip(1..).map(|((round, rank), commit)| (round, rank, CommitIndex(commit))).collect();
    assert_eq!(told, expected);
    assert_eq!(delivered.len(), told.len());
}

#[test]
fn leaders_are_traced_once_before_decision() {
    let (_, events) = figure_6_2();
    let elected = |round| {
        let leaders = LEADERS_6_2[round as usize - 1].1.iter().copied().map(ValidatorIndex).collect();
        TraceEvent::Elected { round, leaders }
    };
    let at = |wanted: &dyn Fn(&TraceEvent) -> bool| {
        events.iter().enumerate().filter(|(_, event)| wanted(event)).map(|(position, _)| position).collect::<Vec<_>>()
    };
    for round in 1..=6 {
        let told = at(&|event| *event == elected(round));
        let decided = at(&|event| matches!(event, TraceEvent::Decided { round: of, .. } if *of == round));
        assert_eq!((told.len(), decided.len()), (1, 2), "round {round}");
        assert!(told[0] < decided[0], "round {round}");
    }
    assert_eq!(at(&|event| matches!(event, TraceEvent::Elected { .. })).len(), 6, "coins 1 to 4 elect nobody");
}

#[test]
fn own_blocks_are_traced_once() {
    let mut cluster = Cluster::honest(4, quick(), 5);
    cluster.run_for(100);
    cluster.submit(0, "t");
    cluster.run_for(200);
    let (mut proposed, mut accepted) = (Vec::new(), Vec::new());
    for event in cluster.seen(0).traced.clone() {
        match event {
            TraceEvent::Proposed(vertex) => {
                assert_eq!(vertex.batch_digest.is_some(), vertex.batch_bytes > 0, "{vertex:?}");
                proposed.push(vertex);
            }
            TraceEvent::Accepted(vertex) if vertex.id.author.0 == 0 => {
                assert_eq!(Some(&vertex), proposed.get(accepted.len()), "accepted what was proposed before");
                accepted.push(vertex);
            }
            _ => {}
        }
    }
    assert!(accepted.len() > 3 && accepted.len() == proposed.len());
    let commits = cluster.seen(0).log.len();
    cluster.crash(0);
    cluster.restart(0, commits);
    let accepted = |event: &TraceEvent| matches!(event, TraceEvent::Accepted(_));
    assert!(!cluster.seen(0).traced.iter().any(accepted), "told in the earlier life");
}
