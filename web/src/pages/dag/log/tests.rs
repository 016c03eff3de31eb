//! Status, content and epochs of slots in the picture, the table, the summary and the panel.

use super::*;
use crate::{
    database::{Rows, sql},
    indexer::dag::{Form, NEOBFT, Round, rows},
    pages::{
        Failure, Query,
        dag::{self, DagQuery, facts, table},
        testing::{self, drawn},
    },
};
use alloy_primitives::{B256, keccak256};
use axum::extract::State;
use corniche_api::{DagVertex, LeaderSlot};
use std::sync::Arc;

/// Digest of the entry that `author` wrote into a slot.
fn digest(slot: u64, author: u64) -> B256 {
    keccak256(format!("{slot} {author}"))
}

/// A request, accepted `slot` seconds after the start.
fn request(slot: u64, author: u64, bytes: u64) -> DagVertex {
    DagVertex {
        round: slot,
        author,
        digest: digest(slot, author),
        parents: vec![],
        batch_bytes: bytes,
        batch_digest: (bytes > 0).then(|| keccak256(format!("batch {slot}"))),
        proposed_ms: None,
        accepted_ms: Some(1_000 * slot),
        holders: vec![],
    }
}

/// A final slot, 3 ms after the request was accepted. The digest is that of the entry by `validator`.
fn packet(slot: u64, validator: u64, why: &str) -> LeaderSlot {
    LeaderSlot {
        round: slot,
        rank: 0,
        validator,
        status: SlotStatus::Committed,
        digest: Some(digest(slot, validator)),
        why: Some(why.to_owned()),
        decided_ms: Some(1_000 * slot + 3),
        commit: Some(slot),
        voters: vec![],
        confirmers: vec![],
    }
}

fn gap(slot: u64, why: &str) -> LeaderSlot {
    LeaderSlot { status: SlotStatus::Skipped, digest: None, ..packet(slot, slot % 4, why) }
}

fn round(vertices: Vec<DagVertex>, slot: impl Into<Option<LeaderSlot>>) -> Round {
    Round { vertices, slots: slot.into().into_iter().collect() }
}

/// Slots 10 to 17: transactions, a clock, a gap, a heartbeat; a new epoch begins, whose first slot was rolled back. A request that
/// was not reported, and two slots that are not final.
fn rounds() -> [(u64, Round); 7] {
    [
        (10, round(vec![request(10, 1, 500)], packet(10, 1, "packet 9 of epoch 0"))),
        (11, round(vec![request(11, 2, 0)], packet(11, 2, "packet 10 of epoch 0"))),
        (12, round(vec![], gap(12, "gap at 11 of epoch 0"))),
        (13, round(vec![], packet(13, 1, "packet 12 of epoch 0"))),
        (14, round(vec![request(14, 0, 900), request(14, 3, 700)], packet(14, 3, "packet 1 of epoch 1"))),
        (15, round(vec![], packet(15, 2, "packet 2 of epoch 1"))),
        (16, round(vec![request(16, 0, 300)], None)),
    ]
}

fn window() -> Window {
    let of_four = Window { form: Form::Log, size: 4, quorum: 3, ..Window::default() };
    Window { first: 10, last: 17, oldest: 10, newest: 17, rounds: rounds().into(), blocks: vec![(9, 12, 7)], ..of_four }
}

fn picture(window: &Window) -> String {
    draw(window, &SelectedItem::default()).into_string()
}

fn panel(window: &Window, pick: Selection) -> String {
    facts::of(window, &SelectedItem::find(window, pick)).into_string()
}

/// Rows of the table, as text without tags, cells separated by `|`.
fn lines(window: &Window) -> Vec<String> {
    let page = super::table(window).into_string();
    let row = |row: &str| {
        let mut text = String::new();
        for part in row.replace("</td>", "|").split('<') {
            text += part.split_once('>').map_or(part, |(_, text)| text);
        }
        text.trim_end_matches('|').to_owned()
    };
    page.split("<tr").skip(2).map(|line| row(&format!("<tr{}", line.split("</tr>").next().unwrap()))).collect()
}

#[test]
fn slots_have_status_and_content() {
    use Content::*;
    use EntryStatus::{Final, Gap, Pending};
    let window = window();
    let found: Vec<_> =
        entries(&window).iter().map(|entry| (entry.slot, entry.status, entry.content, entry.author())).collect();
    let expected = [
        (10, Final, Transactions(500), Some(1)),
        (11, Final, Clock, Some(2)),
        (12, Gap, Nothing, None),
        (13, Final, Heartbeat, None),
        (14, Final, Transactions(700), Some(3)),
        (15, Final, Unknown, Some(2)),
        (16, Pending, Transactions(300), Some(0)),
        (17, Pending, Unknown, None),
    ];
    assert_eq!(found, expected);
}

/// Numbers 10 to 13 of Mir-BFT: transactions, an empty batch, null in a new epoch, a batch that was not reported.
#[test]
fn numbers_have_batches_of_their_leaders() {
    let rounds = [
        (10, round(vec![request(10, 1, 500)], packet(10, 1, "committed in epoch 0"))),
        (11, round(vec![request(11, 2, 0)], packet(11, 2, "committed in epoch 0"))),
        (12, round(vec![], gap(12, "null in epoch 1"))),
        (13, round(vec![], packet(13, 1, "committed in epoch 1"))),
    ];
    let window = Window { form: Form::Numbers, last: 13, newest: 13, rounds: rounds.into(), ..window() };
    use Content::{Empty, Nothing, Transactions, Unknown};
    use EntryStatus::{Final, Gap};
    let found: Vec<_> = entries(&window).iter().map(|entry| (entry.status, entry.content, entry.author())).collect();
    let expected =
        [(Final, Transactions(500), Some(1)), (Final, Empty, Some(2)), (Gap, Nothing, None), (Final, Unknown, Some(1))];
    assert_eq!(found, expected);
    let lines = lines(&window);
    assert_eq!(lines[2], "Epoch 1 begins: the leaders change", "{lines:?}");
    assert_eq!(lines[1], format!("12|1|12|–|none|null {}|–", texts::NULL_MEANS), "{lines:?}");
    assert!(panel(&window, Selection::Slot(12, 0)).contains("found no batch"), "{lines:?}");
}

#[test]
fn table_lists_slots_newest_first() {
    let gap = format!("12|0|11|–|none|gap {}|–", texts::GAP_MEANS);
    let expected = [
        "17|–|–|–|unknown|not final yet in the log|–",
        "16|–|–|validator 0|300 B|not final yet in the log|–",
        "15|1|2|validator 2|unknown|final|–",
        "14|1|1|validator 3|700 B|final|3 ms",
        "Epoch 1 begins: the sequencer was replaced",
        "13|0|12|–|heartbeat|final|–",
        &gap,
        "11|0|10|validator 2|clock|final|3 ms",
        "10|0|9|validator 1|500 B, block 7 |final|3 ms",
    ];
    assert_eq!(lines(&window()), expected);
    let page = super::table(&window()).into_string();
    assert_eq!(page.matches("<tr class=\"is-gap\">").count(), 1);
    assert_eq!(page.matches("href=\"/block/7\"").count(), 1, "only the slot with transactions links to the block: {page}");
    assert!(page.contains("<td colspan=\"7\">") && page.contains("href=\"/dag?round=10&amp;pick=12.0#facts\""), "{page}");
}

#[test]
fn summary_counts_slots() {
    let page = summary(&window()).into_string();
    for says in [
        "<dt>Slots</dt><dd>10 to 17</dd>",
        "<dt>Epochs</dt><dd>0 to 1</dd>",
        "<dt>Packets</dt><dd>5 final, 2 not final yet</dd>",
        "<dt>Gaps</dt><dd><span class=\"tag bad\">1</span></dd>",
    ] {
        assert!(page.contains(says), "{says} is not in {page}");
    }
    let first = Window { last: 11, ..window() };
    let page = summary(&first).into_string();
    for says in ["<dd>10 to 11</dd>", "<dt>Epochs</dt><dd>0</dd>", "<dd>2 final</dd>", "<dt>Gaps</dt><dd>0</dd>"] {
        assert!(page.contains(says), "{says} is not in {page}");
    }
    let nothing = summary(&Window { rounds: [].into(), ..window() }).into_string();
    assert!(nothing.contains("<dt>Epochs</dt><dd>unknown</dd>") && nothing.contains("<dd>0 final, 8 not final yet</dd>"));
}

#[test]
fn picture_shows_status_by_shape() {
    let page = picture(&window());
    for (id, class, shape, title) in [
        ("s10-0", "slot is-committed", "<rect", "Slot 10, final: number 9 of epoch 0, validator 1, 500 B"),
        ("s11-0", "slot is-committed", "<rect", "Slot 11, final: number 10 of epoch 0, validator 2, clock"),
        ("s12-0", "slot is-skipped", "<path", "Slot 12, gap: number 11 of epoch 0"),
        ("s13-0", "slot is-committed", "<rect", "Slot 13, final: number 12 of epoch 0, heartbeat"),
        ("s15-0", "slot is-committed", "<rect", "Slot 15, final: number 2 of epoch 1, validator 2, unknown"),
        ("s16-0", "slot is-undecided", "<circle", "Slot 16, not final yet: validator 0, 300 B"),
        ("s17-0", "slot is-undecided", "<circle", "Slot 17, not final yet: unknown"),
    ] {
        let sign = drawn(&page, id);
        assert!(sign.contains(&format!("class=\"{class}\"")) && sign.contains(shape), "{id}: {sign}");
        assert!(sign.contains(&format!("<title>{title}</title>")), "{title} is not in {sign}");
    }
    assert_eq!(page.matches("class=\"vertex ordered\"").count(), 3, "slots 10, 11 and 14: {page}");
    assert_eq!(page.matches("class=\"vertex\"").count(), 1, "slot 16: {page}");
    let chosen = draw(&window(), &SelectedItem::find(&window(), Selection::Slot(12, 0))).into_string();
    assert!(drawn(&chosen, "s12-0").contains("class=\"slot is-skipped chosen\""), "{chosen}");
    assert_eq!(chosen.matches(" chosen\"").count(), 1, "{chosen}");
}

#[test]
fn epoch_begins_at_its_first_slot() {
    let begins = |window: &Window| -> Vec<u64> {
        entries(window).iter().filter(|entry| entry.begins_epoch).map(|entry| entry.slot).collect()
    };
    let page = picture(&window());
    assert_eq!((begins(&window()), page.matches("class=\"epoch\"").count()), (vec![14], 1));
    assert!(page.contains(&format!("d=\"M{} ", MARGIN + 4 * COLUMN)) && page.contains(">epoch 1<"), "{page}");
    let later = |before| Window { first: 14, before, ..window() };
    assert_eq!(
        begins(&later(Some(round(vec![], packet(13, 1, "packet 12 of epoch 0"))))),
        [14],
        "its slot before is not drawn"
    );
    assert_eq!(begins(&later(None)), [] as [u64; 0], "the slot before is unknown");
    let mut open = window();
    open.rounds.remove(&14);
    assert_eq!(begins(&open), [15], "the first slot that is known to be of the epoch");
    open.rounds.get_mut(&15).unwrap().slots[0].why = Some("another rule".into());
    assert_eq!(begins(&open), [] as [u64; 0]);
}

/// The request that the verdict names counts. Without a verdict the latest one does.
#[test]
fn rolled_back_request_is_replaced() {
    let mut window = window();
    let slot = |window: &Window| {
        let entry = entries(window).swap_remove(4);
        (entry.author(), entry.content, entry.replaced.iter().map(|vertex| vertex.author).collect::<Vec<_>>())
    };
    assert_eq!(slot(&window), (Some(3), Content::Transactions(700), vec![0]));
    let replaced = parts::hash(digest(14, 0)).into_string();
    for pick in [Selection::Slot(14, 0), Selection::Vertex(digest(14, 0)), Selection::Vertex(digest(14, 3))] {
        let panel = panel(&window, pick);
        assert!(panel.contains(&format!("<dt>Replaced</dt><dd>{replaced} </dd>")), "{pick}: {panel}");
        assert!(panel.contains("700 B") && !panel.contains("900 B"), "{pick}: {panel}");
    }
    for last in [0, 1] {
        let round = window.rounds.get_mut(&14).unwrap();
        round.slots.clear();
        round.vertices[last].accepted_ms = Some(14_500);
        round.vertices[1 - last].accepted_ms = Some(14_000);
        let (author, bytes) = [(0, 900), (3, 700)][last];
        assert_eq!(slot(&window), (Some(author), Content::Transactions(bytes), vec![3 - author]));
    }
    // A gap or a heartbeat may take the place of a request, too.
    for (verdict, content) in [
        (gap(14, "gap at 1 of epoch 1"), Content::Nothing),
        (LeaderSlot { digest: Some(B256::ZERO), ..packet(14, 2, "packet 1 of epoch 1") }, Content::Heartbeat),
    ] {
        window.rounds.get_mut(&14).unwrap().slots = vec![verdict];
        assert_eq!(slot(&window), (None, content, vec![0, 3]));
    }
}

/// Slots become final in their order, so a slot before a final one is final.
#[test]
fn slot_without_verdict_before_final_one_is_unknown() {
    let mut window = window();
    window.rounds.get_mut(&11).unwrap().slots.clear();
    window.rounds.remove(&13);
    let status = |window: &Window, slot: u64| entries(window)[slot as usize - 10].status;
    for (slot, expected) in [(11, EntryStatus::Unknown), (13, EntryStatus::Unknown), (16, EntryStatus::Pending)] {
        assert_eq!(status(&window, slot), expected, "{slot}");
    }
    let page = picture(&window);
    assert!(drawn(&page, "s13-0").contains("<title>Slot 13, unknown: unknown</title><rect class=\"gap\""), "{page}");
    assert!(summary(&window).into_string().contains("3 final, 2 not final yet, 2 unknown"));
    window.after.insert(18, round(vec![], packet(18, 2, "packet 5 of epoch 1")));
    assert_eq!((status(&window, 16), status(&window, 17)), (EntryStatus::Unknown, EntryStatus::Unknown));
}

#[test]
fn panel_describes_slot() {
    let window = window();
    let shows = |pick: Selection, expected: &[&str], absent: &[&str]| {
        let panel = panel(&window, pick);
        for says in expected {
            assert!(panel.contains(says), "{pick}: {says} is not in {panel}");
        }
        for says in absent {
            assert!(!panel.contains(says), "{pick}: {says} is in {panel}");
        }
    };
    let packet = [
        "<dt>Slot</dt><dd>10</dd>",
        "<span class=\"tag good\">final</span>",
        "<q>packet 9 of epoch 0</q> – a quorum of validators has the packet",
        "<dt>Epoch</dt><dd>0</dd>",
        "<dt>Number</dt><dd>9</dd>",
        "<dt>Content</dt><dd>500 B</dd>",
        "data-ms=\"10000\"",
        "data-ms=\"10003\"",
        ", 3 ms after it was accepted",
        "<dt>Commit</dt><dd>10</dd>",
    ];
    let batch = Selection::Batch(1, keccak256("batch 10"));
    for pick in [Selection::Slot(10, 0), Selection::Vertex(digest(10, 1)), batch] {
        shows(pick, &packet, &["Replaced"]);
    }
    let gap = ["<span class=\"tag bad\">gap</span> lost everywhere", "<q>gap at 11 of epoch 0</q> – nobody had the packet"];
    shows(Selection::Slot(12, 0), &gap, &["Proposed by", "Accepted", "Digest"]);
    let pending = ["<span class=\"tag is-pending\">not final yet</span> in the log", "<dd>300 B</dd>"];
    shows(Selection::Slot(16, 0), &pending, &["Commit", "<dt>Epoch</dt>", "<dt>Final</dt>"]);
    shows(Selection::Slot(17, 0), &["<dt>Content</dt><dd>unknown</dd>"], &["Proposed by"]);
    for pick in [Selection::Slot(18, 0), Selection::Vertex(B256::ZERO), Selection::Batch(2, keccak256("batch 10"))] {
        shows(pick, &[texts::FACTS_GONE_LOG], &["<dt>"]);
    }
}

#[test]
fn own_request_without_acceptance_counts_from_signature() {
    let mut window = window();
    let vertex = &mut window.rounds.get_mut(&10).unwrap().vertices[0];
    (vertex.proposed_ms, vertex.accepted_ms) = (Some(9_998), None);
    let signed = panel(&window, Selection::Slot(10, 0));
    assert!(
        signed.contains(", 5 ms after its author signed it") && signed.contains("<dt>Accepted</dt><dd>unknown</dd>"),
        "{signed}"
    );
    window.rounds.get_mut(&10).unwrap().slots[0].decided_ms = None;
    let untimed = panel(&window, Selection::Slot(10, 0));
    assert!(untimed.contains("<dt>Final</dt><dd>unknown</dd>"), "{untimed}");
}

#[test]
fn rule_is_escaped() {
    let evil = "packet</title><script>alert(1)</script>\"\u{202e}\u{0}";
    let mut window = window();
    window.rounds.get_mut(&10).unwrap().slots[0].why = Some(evil.into());
    let page = panel(&window, Selection::Slot(10, 0));
    assert!(page.contains("packet&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;"), "{page}");
    let selected = SelectedItem::find(&window, Selection::Slot(10, 0));
    for page in [page, draw(&window, &selected).into_string(), super::table(&window).into_string()] {
        assert!(!page.contains("<script") && !page.contains('\u{202e}') && !page.contains('\0'), "{page}");
    }
}

#[test]
fn legend_explains_log() {
    let legend = table::legend(Form::Log).into_string();
    for says in [texts::SIGN_FINAL, texts::SIGN_GAP, texts::SIGN_PENDING, texts::SIGN_EPOCH, texts::SIGN_PACKET] {
        assert!(legend.contains(says), "{says} is not in {legend}");
    }
    let terms = table::explanation(Form::Log).into_string();
    for term in ["Packet", "Sequencer", "Epoch of the group", "Gap", "View"] {
        assert!(terms.contains(&format!("<dt>{term}</dt>")), "{term} is not in {terms}");
    }
}

async fn page(filled: &testing::TestApp, at: Option<u64>, pick: Option<Selection>) -> Result<String, Failure> {
    let at = DagQuery { round: at, pick: pick.map(|pick| pick.to_string()) };
    Ok(dag::show(State(Arc::clone(&filled.app)), Query(at)).await?.0.into_string())
}

#[tokio::test]
async fn page_shows_stored_log() {
    let mut filled = testing::test_app().await;
    filled.introduce(NEOBFT);
    let empty = page(&filled, None, None).await.unwrap();
    assert!(empty.contains("<h1>Packet log</h1>") && empty.contains(texts::EMPTY_LOG), "{empty}");
    assert!(empty.contains(texts::WORDS_LOG[0].1), "{empty}");
    let Err(Failure::NotFound(missing)) = page(&filled, Some(17), None).await else { panic!("the log is empty") };
    assert_eq!(missing, "Slot 17 not found: no slots are known yet.");
    for rows in rows(rounds(), 1) {
        filled.write(rows).await;
    }
    filled.write_block(7, 1_000).await;
    let mut writer = filled.app.database.writer().await.unwrap();
    sql("UPDATE blocks SET first_commit = 9, last_commit = 12 WHERE number = 7").execute(&mut *writer).await.unwrap();
    let mut batches = Rows::new("batches", &["block", "position", "author", "digest", "first", "count"]);
    batches.push([7_u64.into(), 0_u64.into(), 1_u64.into(), keccak256("batch 10").into(), 0_u64.into(), 5_u64.into()]);
    filled.write(batches).await;
    let whole = page(&filled, None, None).await.unwrap();
    for says in
        ["<h1>Packet log</h1>", "<title>Packet log ", "500 B, block <a href=\"/block/7\">", "Epoch 1 begins", "id=\"s16-0\""]
    {
        assert!(whole.contains(says), "{says} is not in {whole}");
    }
    assert!(whole.contains("data-follows=\"yes\"") && !whole.contains("<details"), "{whole}");
    let picked = page(&filled, Some(12), Some(Selection::Batch(1, keccak256("batch 10")))).await.unwrap();
    let panel = picked.split("id=\"fact\"").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(panel.contains("href=\"/block/7\"") && panel.contains("<dt>Slot</dt><dd>10</dd>"), "{panel}");
    assert!(!picked.contains("data-follows"), "{picked}");
    let Err(Failure::NotFound(missing)) = page(&filled, Some(17), None).await else { panic!("slot 17 is not stored") };
    assert_eq!(missing, "Slot 17 not found: slots 10 to 16 are stored.");
    // Without the committee, the rules show the form.
    Arc::get_mut(&mut filled.app).unwrap().indexer_status = Arc::default();
    assert!(page(&filled, None, None).await.unwrap().contains("<h1>Packet log</h1>"));
}
