//! Positions and labels of cars and cuts.

use super::*;
use crate::{
    indexer::dag::{AUTOBAHN, Form, Round},
    pages::{
        Query,
        dag::{self, DagQuery, facts, table},
        parts,
        testing::{self, drawn},
    },
};
use alloy_primitives::keccak256;
use axum::extract::State;
use std::sync::Arc;

fn digest(lane: u64, place: u64) -> B256 {
    keccak256(format!("{lane} {place}"))
}

/// A car that was accepted at time `at` and builds on the one before it in its lane.
fn car(lane: u64, place: u64, at: u64) -> DagVertex {
    DagVertex {
        round: place,
        author: lane,
        digest: digest(lane, place),
        parents: if place > 1 { vec![digest(lane, place - 1)] } else { vec![] },
        batch_bytes: 500,
        batch_digest: None,
        proposed_ms: None,
        accepted_ms: Some(at),
        holders: vec![],
    }
}

/// Slot `number`, decided `number` seconds after the start.
fn agreed(number: u64, why: &str) -> LeaderSlot {
    LeaderSlot {
        round: number,
        rank: 0,
        validator: number % 4,
        status: SlotStatus::Committed,
        digest: Some(keccak256(format!("cut {number}"))),
        why: Some(why.to_owned()),
        decided_ms: Some(1_000 * number),
        commit: Some(number),
        voters: vec![],
        confirmers: vec![],
    }
}

/// Slots 1 to 3, all decided on the fast path.
fn slots() -> Vec<LeaderSlot> {
    (1..=3).map(|number| agreed(number, "fast in view 0")).collect()
}

/// Window of slots 1 to 3 and four validators, with the given slots and cars.
fn window(slots: Vec<LeaderSlot>, cars: Vec<DagVertex>) -> Window {
    let rounds = slots.into_iter().map(|slot| (slot.round, Round { vertices: vec![], slots: vec![slot] })).collect();
    let of_four = Window { form: Form::Lanes, size: 4, quorum: 3, ..Window::default() };
    let mut window = Window { first: 1, last: 3, oldest: 1, newest: 3, rounds, cars, ..of_four };
    window.divide();
    window
}

fn picture(window: &Window) -> String {
    draw(window, &SelectedItem::default()).into_string()
}

fn panel(window: &Window, pick: Selection) -> String {
    facts::of(window, &SelectedItem::find(window, pick)).into_string()
}

fn columns(window: &Window) -> Vec<Option<u64>> {
    window.cars.iter().map(|car| column_of(window, car)).collect()
}

fn named(digest: B256) -> String {
    format!("v{}", name(digest))
}

#[test]
fn car_is_drawn_before_next_cut() {
    let cars = vec![car(0, 1, 500), car(0, 2, 1_000), car(1, 1, 1_001), car(2, 1, 2_999), car(3, 1, 3_001)];
    let window = window(slots(), cars);
    assert_eq!(columns(&window), [Some(1), Some(1), Some(2), Some(3), None]);
    let layout = Layout::of(&window);
    for (car, column) in window.cars.iter().zip(columns(&window)) {
        let (left, width) = column.map_or(layout.after, |slot| layout.columns[&slot]);
        let (x, y) = layout.points[&car.digest];
        assert!((left..left + width - 3).contains(&x), "{car:?} at {x}, its column at {left}, {width} wide");
        assert_eq!(y, layout.y(car.author));
    }
    assert!(layout.points[&digest(0, 1)].0 < layout.points[&digest(0, 2)].0, "what came first stands first");
    assert!((0..3).all(|lane| layout.y(lane) + layout.row == layout.y(lane + 1)));
    let page = picture(&window);
    assert!(drawn(&page, &named(digest(0, 2))).contains("class=\"vertex ordered\""));
    assert!(drawn(&page, &named(digest(3, 1))).contains("class=\"vertex\""), "it waits for the next cut");
}

#[test]
fn crowded_column_is_wider() {
    let crowd = (1..=30).map(|place| car(2, place, 1_000 + place)).collect();
    let window = window(slots(), crowd);
    let layout = Layout::of(&window);
    let [first, (left, width), last] = [1, 2, 3].map(|slot| layout.columns[&slot]);
    assert_eq!((first.1, last), (COLUMN, (left + width, COLUMN)));
    assert!(width > COLUMN);
    let stand: Vec<u64> = window.cars.iter().map(|car| layout.points[&car.digest].0).collect();
    assert!(stand.is_sorted_by(|one, next| one < next), "{stand:?}");
    assert!(stand[0] >= left && stand[29] < left + width - 3, "{stand:?} between {left} and {width} further");
}

/// Position 4 of lane 1 is before the start of the picture.
#[test]
fn cars_link_to_drawn_parents() {
    let window = window(slots(), vec![car(0, 1, 500), car(1, 5, 600), car(0, 2, 1_500)]);
    let layout = Layout::of(&window);
    let [(x, y), (to_x, to_y)] = [2, 1].map(|place| layout.points[&digest(0, place)]);
    assert_eq!(chain(&window, &layout), format!("M{x} {y}L{to_x} {to_y}"));
}

#[test]
fn selection_and_parents_are_marked() {
    let window = window(slots(), vec![car(0, 1, 500), car(1, 1, 600), car(0, 2, 1_500)]);
    let classes = |pick, id: &str| {
        let page = draw(&window, &SelectedItem::find(&window, pick)).into_string();
        drawn(&page, id).split('"').nth(1).unwrap().to_owned()
    };
    let car = Selection::Vertex(digest(0, 2));
    assert_eq!(classes(car, &named(digest(0, 2))), "vertex ordered chosen");
    assert_eq!(classes(car, &named(digest(0, 1))), "vertex ordered parent");
    assert_eq!(classes(car, &named(digest(1, 1))), "vertex ordered");
    assert_eq!(classes(Selection::Slot(2, 0), "s2-0"), "cut chosen");
    assert_eq!(classes(Selection::Slot(2, 0), "s1-0"), "cut");
}

#[test]
fn cut_shows_fast_or_slow_path() {
    for (why, class, shape) in [
        ("fast in view 0", "cut", "<rect class=\"badge\""),
        ("slow in view 0", "cut is-slow", "l9 9-9 9-9-9z\""),
        // Two leaders timed out.
        ("fast in view 2", "cut", "<rect class=\"badge\""),
        ("slow in view 2", "cut is-slow", "l9 9-9 9-9-9z\""),
    ] {
        let window = window(vec![agreed(1, "fast in view 0"), agreed(2, why)], vec![]);
        let page = picture(&window);
        let sign = drawn(&page, "s2-0");
        assert!(sign.contains(&format!("class=\"{class}\"")), "{class}: {sign}");
        assert!(sign.contains(&format!("<title>Slot 2, Validator 2 leads: committed, {why}</title>")), "{why}: {sign}");
        assert!(sign.contains(shape), "{shape}: {sign}");
        let table = table::lanes(&window).into_string();
        assert!(table.contains(&format!("v2, committed: {why}<")), "{why}: {table}");
    }
}

/// Autobahn never reports these two states, but a node might.
#[test]
fn undecided_slot_is_a_gap() {
    for status in [SlotStatus::Undecided, SlotStatus::Skipped] {
        let window = window(vec![agreed(1, "fast in view 0"), LeaderSlot { status, ..agreed(2, "slow") }], vec![]);
        let page = picture(&window);
        assert!(page.contains("<title>Slot 2: unknown</title>"), "{status:?}: {page}");
        assert!(page.contains("id=\"s1-0\"") && !page.contains("id=\"s2-0\""), "{status:?}: {page}");
    }
}

#[test]
fn panel_explains_rule_of_cut() {
    for (why, says) in [
        ("fast in view 0", "all validators voted for the cut of the first leader"),
        ("slow in view 0", "not all validators voted in time: a quorum voted for the cut of the first leader"),
        ("fast in view 1", "earlier leaders of the slot timed out. Then all validators voted"),
        ("slow in view 12", "earlier leaders of the slot timed out. Then a quorum voted"),
    ] {
        let panel = panel(&window(vec![agreed(1, why)], vec![]), Selection::Slot(1, 0));
        assert!(panel.contains(&format!("<q>{why}</q> – {says}")), "{panel}");
        assert!(panel.contains("<dt>Slot</dt><dd>1</dd>") && panel.contains("<dt>Commit</dt><dd>1</dd>"), "{panel}");
    }
}

/// Slot 2 was decided before slot 1, and nothing is known about slot 3.
#[test]
fn unknown_slot_is_a_gap() {
    let window = window(vec![agreed(2, "fast in view 0")], vec![car(0, 1, 1_500), car(0, 2, 2_500)]);
    assert_eq!(columns(&window), [Some(2), None]);
    let page = picture(&window);
    assert_eq!(page.matches("class=\"gap\"").count(), 2);
    for number in [1, 3] {
        assert!(page.contains(&format!("<title>Slot {number}: unknown</title>")), "{page}");
    }
    assert!(!page.contains("id=\"s1-0\"") && !page.contains("id=\"s3-0\""), "{page}");
}

#[test]
fn equivocating_cars_are_both_drawn() {
    let other = DagVertex { digest: keccak256("another"), ..car(2, 1, 700) };
    let window = window(slots(), vec![car(1, 1, 650), car(2, 1, 700), other, car(2, 2, 800)]);
    let both = [digest(2, 1), keccak256("another")];
    assert_eq!(equivocations(&window.cars), both.into());
    let points = &Layout::of(&window).points;
    let [one, another] = both.map(|digest| points[&digest]);
    assert!(one.0 < another.0 && one.1 == another.1, "side by side: {one:?}, {another:?}");
    let page = picture(&window);
    for digest in both {
        let car = drawn(&page, &named(digest));
        assert!(
            car.contains("<title>Car 1, Validator 2: 500 B, parents: 0, equivocation: two proposals for one position</title>"),
            "{car}"
        );
    }
    assert_eq!(page.matches(texts::CONTRADICTION).count(), 2);
    assert_eq!(table::lanes(&window).into_string().matches(texts::CONTRADICTION).count(), 2);
}

#[test]
fn unknown_cars_leave_lanes_empty() {
    let window = window(vec![], vec![]);
    let page = picture(&window);
    assert_eq!((page.matches("class=\"lane\"").count(), page.matches("class=\"gap\"").count()), (4, 3));
    assert!(!page.contains("class=\"vertex") && !page.contains("class=\"cut"), "{page}");
    assert_eq!(table::lanes(&window).into_string().matches(texts::UNKNOWN).count(), 3);
    let nobody = picture(&Window { form: Form::Lanes, ..Window::default() });
    assert_eq!((nobody.matches("class=\"lane\"").count(), nobody.matches("class=\"gap\"").count()), (0, 1));
}

#[tokio::test]
async fn empty_page_describes_lanes() {
    let filled = testing::test_app().await;
    filled.introduce(AUTOBAHN);
    let at = DagQuery { round: None, pick: None };
    let page = dag::show(State(Arc::clone(&filled.app)), Query(at)).await.unwrap().0.into_string();
    assert!(page.contains(texts::EMPTY) && page.contains(texts::WORDS_LANES[0].1), "{page}");
}

#[test]
fn table_lists_unordered_cars() {
    let mut window = window(slots(), vec![car(0, 1, 500), car(3, 1, 3_500)]);
    let table = table::lanes(&window).into_string();
    let (waits, rest) = table.split_once("Car 1, Validator 3").unwrap();
    assert!(waits.contains(texts::NOT_CUT) && rest.contains("Car 1, Validator 0"), "{table}");
    assert!(picture(&window).contains(texts::NOT_CUT));
    // If newer slots exist, no car waits; the remaining cars are second ones for their position.
    window.newest = 30;
    assert!(picture(&window).contains(texts::CAME_LATER) && !picture(&window).contains(texts::NOT_CUT));
    window.cars.truncate(1);
    for page in [picture(&window), table::lanes(&window).into_string()] {
        assert!(!page.contains(texts::CAME_LATER) && !page.contains(texts::NOT_CUT), "{page}");
    }
}

#[test]
fn rule_of_cut_is_escaped() {
    let evil = "slow</title><script>alert(1)</script>\"\u{202e}\u{0}";
    let window = window(vec![agreed(1, evil)], vec![]);
    let selected = SelectedItem::find(&window, Selection::Slot(1, 0));
    for part in [draw(&window, &selected), table::lanes(&window), facts::of(&window, &selected)] {
        let page = part.into_string();
        assert!(page.contains("slow&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;"), "{page}");
        assert!(!page.contains("<script") && !page.contains('\u{202e}') && !page.contains('\0'), "{page}");
    }
}

/// Slot 1 was decided on the fast path and slot 2 on the slow path. The signers of slot 3 and of one of the two cars are
/// unknown.
fn signed() -> Window {
    let slots = vec![
        LeaderSlot { voters: vec![0, 1, 2, 3], ..agreed(1, "fast in view 0") },
        LeaderSlot { voters: vec![0, 1, 3], confirmers: vec![1, 2, 3], ..agreed(2, "slow in view 0") },
        agreed(3, "slow in view 0"),
    ];
    window(slots, vec![DagVertex { holders: vec![0, 2], ..car(0, 1, 500) }, car(1, 1, 600)])
}

#[test]
fn signers_are_marked_in_their_lanes() {
    let window = signed();
    let layout = Layout::of(&window);
    let page = |pick| draw(&window, &SelectedItem::find(&window, pick)).into_string();
    let count = |page: &str, sign: &str| page.matches(&format!("class=\"sign {sign}\"")).count();
    let nothing = picture(&window);
    assert_eq!((count(&nothing, "voter"), count(&nothing, "certificate")), (0, 0), "{nothing}");
    let picks = [
        (Selection::Slot(1, 0), 4, 0),
        (Selection::Slot(2, 0), 3, 3),
        (Selection::Slot(3, 0), 0, 0),
        // The author's own copy has no sign.
        (Selection::Vertex(digest(0, 1)), 1, 0),
        (Selection::Vertex(digest(1, 1)), 0, 0),
    ];
    for (pick, votes, confirmations) in picks {
        let page = page(pick);
        assert_eq!((count(&page, "voter"), count(&page, "certificate")), (votes, confirmations), "{pick}: {page}");
    }
    let cut = page(Selection::Slot(2, 0));
    let (left, width) = layout.columns[&2];
    let x = left + width - 3;
    for lane in [0, 1, 3] {
        let sign = triangle(x - BESIDE, layout.y(lane)).into_string();
        assert!(cut.contains(&sign), "{sign} is not in {cut}");
    }
    for lane in [1, 2, 3] {
        let sign = star(x + BESIDE, layout.y(lane)).into_string();
        assert!(cut.contains(&sign), "{sign} is not in {cut}");
    }
    let held = page(Selection::Vertex(digest(0, 1)));
    let sign = triangle(layout.points[&digest(0, 1)].0, layout.y(2)).into_string();
    assert!(held.contains(&sign), "{sign} is not in {held}");
}

#[test]
fn panel_names_voters_and_holders() {
    let window = signed();
    let named = |validators: &[u64]| -> String {
        validators.iter().map(|validator| format!(" {}", parts::validator(*validator).into_string())).collect()
    };
    let fast = panel(&window, Selection::Slot(1, 0));
    let votes = format!("<dt>Votes</dt><dd>4 of 4 validators, a quorum is 3:{}</dd>", named(&[0, 1, 2, 3]));
    assert!(fast.contains(&votes) && !fast.contains(texts::CONFIRMATIONS), "{fast}");
    let slow = panel(&window, Selection::Slot(2, 0));
    for (word, validators) in [("Votes", [0, 1, 3]), ("Confirmations", [1, 2, 3])] {
        let says = format!("<dt>{word}</dt><dd>3 of 4 validators, a quorum is 3:{}</dd>", named(&validators));
        assert!(slow.contains(&says), "{says} is not in {slow}");
    }
    let untold = panel(&window, Selection::Slot(3, 0));
    assert!(untold.contains("<dt>Votes</dt><dd>unknown</dd>") && !untold.contains(texts::CONFIRMATIONS), "{untold}");
    let held = panel(&window, Selection::Vertex(digest(0, 1)));
    let says = format!("<dt>Held by</dt><dd>2 of 4 validators:{}</dd>", named(&[0, 2]));
    assert!(held.contains(&says), "{says} is not in {held}");
    let untold = panel(&window, Selection::Vertex(digest(1, 1)));
    assert!(untold.contains("<dt>Held by</dt><dd>unknown</dd>"), "{untold}");
}

#[test]
fn panel_counts_unequal_votes() {
    let window = Window { votes: vec![2, 2, 2, 1], quorum: 5, ..signed() };
    for (pick, says) in [
        (Selection::Slot(1, 0), "<dt>Votes</dt><dd>4 of 4 validators with 7 of 7 votes, a quorum is 5:"),
        (Selection::Slot(2, 0), "<dt>Confirmations</dt><dd>3 of 4 validators with 5 of 7 votes, a quorum is 5:"),
        (Selection::Vertex(digest(0, 1)), "<dt>Held by</dt><dd>2 of 4 validators with 4 of 7 votes:"),
    ] {
        let panel = panel(&window, pick);
        assert!(panel.contains(says), "{says} is not in {panel}");
    }
}

#[test]
fn table_and_legend_show_signers() {
    let table = table::lanes(&signed()).into_string();
    for says in [
        "v1, committed: fast in view 0, voted by v0 v1 v2 v3<",
        "v2, committed: slow in view 0, voted by v0 v1 v3, confirmed by v1 v2 v3<",
        "v3, committed: slow in view 0<",
        "Car 1, Validator 0: 500 B, parents: 0, held by v0 v2<",
        "Car 1, Validator 1: 500 B, parents: 0<",
    ] {
        assert!(table.contains(says), "{says} is not in {table}");
    }
    assert_eq!(names(&[0, 1, 2, 3, 4, 5, 6, 7, 8]), "9 validators", "a line stays one");
    let legend = table::legend(Form::Lanes).into_string();
    assert!(legend.contains(texts::SIGN_SIGNED) && legend.contains(texts::SIGN_CONFIRMED), "{legend}");
}

/// There are four lanes.
#[test]
fn unknown_signers_are_not_drawn() {
    let mut window = signed();
    window.rounds.get_mut(&1).unwrap().slots[0].voters = vec![3, 4, u64::MAX];
    window.cars[0].holders = vec![4, u64::MAX];
    for (pick, votes) in [(Selection::Slot(1, 0), 1), (Selection::Vertex(digest(0, 1)), 0)] {
        let page = draw(&window, &SelectedItem::find(&window, pick)).into_string();
        assert_eq!(page.matches("class=\"sign voter\"").count(), votes, "{pick}: {page}");
    }
}
