//! Skipped leaders of Mahi-Mahi in the picture, the panel, the table, the legend and the explanation.

use super::*;
use crate::{indexer::dag::Round, pages::testing::drawn};
use alloy_primitives::{B256, keccak256};
use corniche_api::SlotStatus::{self, Committed, Skipped, Undecided};

fn digest(author: u64, round: u64) -> B256 {
    keccak256(format!("{author} {round}"))
}

/// Authors of a round's proposals: validator 2 was offline in round 2.
fn authors(round: u64) -> impl Iterator<Item = u64> {
    (0..4).filter(move |author| (round, *author) != (2, 2))
}

/// A proposal that builds on all proposals of the round before. Exception: validator 3's proposal of round 3 came late, and
/// only validator 0 builds on it.
fn vertex(round: u64, author: u64) -> DagVertex {
    let before = round.saturating_sub(1);
    let parents = authors(before).filter(|parent| before > 0 && ((before, *parent) != (3, 3) || author == 0));
    DagVertex {
        round,
        author,
        digest: digest(author, round),
        parents: parents.map(|parent| digest(parent, before)).collect(),
        batch_bytes: 0,
        batch_digest: None,
        proposed_ms: None,
        accepted_ms: Some(1_000 * round),
        holders: vec![],
    }
}

/// Rounds 1 to 4. Validator 2 led round 2 without a proposal, validator 3 led round 3 with one that came late.
fn window() -> Window {
    let verdicts = [
        (1, Committed, "direct: 3 of 4 certify"),
        (2, Skipped, "skipped: no block"),
        (3, Skipped, "skipped: 3 of 4 do not vote for it"),
        (4, Committed, "direct: 4 of 4 certify"),
    ];
    let round_of = |(round, status, why): (u64, SlotStatus, &str)| {
        let validator = round % 4;
        let digest = (status == Committed).then(|| digest(validator, round));
        let (why, decided_ms) = (Some(why.to_owned()), Some(1_000 * round + 3_500));
        let (voters, confirmers) = (vec![], vec![]);
        let slot = LeaderSlot { round, rank: 0, validator, status, digest, why, decided_ms, commit: None, voters, confirmers };
        (round, Round { vertices: authors(round).map(|author| vertex(round, author)).collect(), slots: vec![slot] })
    };
    let rounds = verdicts.into_iter().map(round_of).collect();
    Window { first: 1, last: 4, oldest: 1, newest: 4, rounds, size: 4, quorum: 3, ..Window::default() }
}

fn panel(pick: Selection) -> String {
    let window = window();
    facts::of(&window, &SelectedItem::find(&window, pick)).into_string()
}

#[test]
fn skipped_leader_is_a_crossed_diamond() {
    let page = rounds::draw(&window(), &SelectedItem::default()).into_string();
    for (id, title) in [
        ("s2-0", "Leader 1 of round 2: validator 2, skipped (no block)"),
        ("s3-0", "Leader 1 of round 3: validator 3, skipped (3 of 4 do not vote for it)"),
    ] {
        let sign = drawn(&page, id);
        assert!(sign.contains("class=\"slot is-skipped\"") && sign.contains(&format!("<title>{title}</title>")), "{sign}");
        let (_, path) = sign.split_once("<path d=\"").unwrap();
        assert_eq!((path.matches('M').count(), path.matches('Z').count()), (3, 1), "a diamond and two strokes: {path}");
        assert!(!sign.contains("<rect") && !sign.contains("<circle"), "{sign}");
    }
    let committed = drawn(&page, "s1-0");
    assert!(committed.contains("class=\"slot is-committed\"") && committed.contains("<rect"), "{committed}");
}

#[test]
fn proposal_of_skipped_leader_is_ordered_later() {
    let window = window();
    let ordered = rounds::ordered(&window);
    assert!(ordered.contains(&digest(3, 3)), "validator 0, which leads round 4, builds on it");
    assert!(!ordered.contains(&digest(1, 4)), "nobody's history has it yet");
    let page = rounds::draw(&window, &SelectedItem::default()).into_string();
    let late = drawn(&page, &format!("v{}", rounds::name(digest(3, 3))));
    assert!(late.contains("class=\"vertex ordered\""), "{late}");
}

#[test]
fn panel_shows_skip_rule() {
    let empty = panel(Selection::Slot(2, 0));
    for says in [
        "<span class=\"tag bad\">skipped</span>",
        "<q>skipped: no block</q> – no proposal of the leader",
        "0 of 4 proposals of round 4, a quorum is 3",
    ] {
        assert!(empty.contains(says), "{says} is not in {empty}");
    }
    assert!(!empty.contains("<dt>Commit</dt>"), "it led to none: {empty}");
    let late = panel(Selection::Slot(3, 0));
    assert!(late.contains("a quorum does not vote for it"), "{late}");
    let proposal = panel(Selection::Vertex(digest(3, 3)));
    assert!(proposal.contains("rank 1</a>, skipped"), "{proposal}");
}

#[test]
fn panel_counts_unequal_votes() {
    let window = Window { votes: vec![2, 2, 2, 1], quorum: 5, ..window() };
    let panel = |pick| facts::of(&window, &SelectedItem::find(&window, pick)).into_string();
    for (pick, says) in [
        (Selection::Slot(1, 0), "4 of 4 proposals of round 3, 7 of 7 votes, a quorum is 5"),
        (Selection::Slot(2, 0), "0 of 4 proposals of round 4, 0 of 7 votes, a quorum is 5"),
    ] {
        let panel = panel(pick);
        assert!(panel.contains(says), "{says} is not in {panel}");
    }
}

#[test]
fn table_and_legend_show_skips() {
    let table = table::rounds(&window()).into_string();
    for says in ["v2, skipped: no block<", "v3, skipped: 3 of 4 do not vote for it<", "v1, committed: direct: 3 of 4 certify, "]
    {
        assert!(table.contains(says), "{says} is not in {table}");
    }
    let legend = table::legend(Form::Rounds).into_string();
    assert!(legend.contains("class=\"slot is-skipped\"") && legend.contains(texts::SIGN_SKIPPED), "{legend}");
    assert!(table::explanation(Form::Rounds).into_string().contains("<dt>Skip</dt>"));
}

#[test]
fn table_marks_equivocation() {
    let mut window = window();
    let vertices = &mut window.rounds.get_mut(&3).unwrap().vertices;
    vertices.insert(1, DagVertex { digest: keccak256("another"), ..vertex(3, 0) });
    assert_eq!(window::equivocations(&window.rounds[&3].vertices), [digest(0, 3), keccak256("another")].into());
    assert_eq!(table::rounds(&window).into_string().matches(texts::CONTRADICTION).count(), 2);
}

/// A node of another version may omit the time of the decision.
#[test]
fn verdict_without_time_is_not_undecided() {
    for (status, says) in [(Skipped, "unknown"), (Undecided, "undecided")] {
        let mut window = window();
        let slot = &mut window.rounds.get_mut(&2).unwrap().slots[0];
        (slot.status, slot.decided_ms) = (status, None);
        let page = facts::of(&window, &SelectedItem::find(&window, Selection::Slot(2, 0))).into_string();
        assert!(page.contains(&format!("<dt>Decided</dt><dd>{says}</dd>")), "{page}");
    }
}
