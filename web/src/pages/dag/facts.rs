//! Details panel: facts about the selected item.

use super::{
    SelectedItem, log,
    rounds::{short_name, verdict},
    votes::Votes,
    window::{Window, arrival_ms},
};
use crate::{
    abi, format,
    indexer::dag::Form,
    links::{self, Selection},
    pages::dag::texts,
    pages::parts,
    views::log::Entry,
};
use alloy_primitives::B256;
use corniche_api::{DagVertex, LeaderSlot, SlotStatus};
use maud::{Markup, html};

/// Maximum number of proposals or validators in a row.
const MAX_LISTED: usize = 200;

/// Returns the panel for the selected item.
pub fn of(window: &Window, selected: &SelectedItem<'_>) -> Markup {
    if let Some(entry) = &selected.entry {
        return entry_facts(entry, &selected.blocks);
    }
    match (selected.vertex, selected.slot) {
        (Some(vertex), _) => vertex_facts(window, vertex, &selected.blocks),
        (_, Some(slot)) => slot_facts(window, slot, selected.votes.as_ref()),
        _ => html! { p .note { (texts::facts_gone(window.form)) } },
    }
}

fn vertex_facts(window: &Window, vertex: &DagVertex, blocks: &[u64]) -> Markup {
    let children = window.vertices().filter(|child| child.parents.contains(&vertex.digest));
    let led = window.rounds.get(&vertex.round).filter(|_| window.form == Form::Rounds);
    let led: Vec<_> =
        led.map(|round| round.slots.iter().filter(|slot| slot.validator == vertex.author).collect()).unwrap_or_default();
    let place = if window.form.has_lanes() { texts::POSITION } else { texts::ROUND };
    let bytes = if vertex.batch_bytes == 0 { texts::NO_BYTES.to_owned() } else { format::bytes(vertex.batch_bytes) };
    let never = || html! { (texts::UNKNOWN) };
    let accepted = vertex.accepted_ms.map_or_else(never, |at| {
        let took = vertex.proposed_ms.map(|from| at.saturating_sub(from));
        html! { (moment(at)) @if let Some(took) = took { ", " (texts::after_signed(&format::duration(took))) } }
    });
    let mut rows = vec![
        (texts::AUTHOR, parts::validator(vertex.author)),
        (place, html! { (format::number(vertex.round)) }),
        (texts::DIGEST, parts::hash(vertex.digest)),
        (texts::BYTES, html! { (bytes) }),
        (texts::PARENTS, links_to(window, vertex.parents.iter().copied())),
        (texts::CHILDREN, links_to(window, children.map(|child| child.digest))),
    ];
    if let Some(batch) = vertex.batch_digest {
        rows.push((texts::BATCH, parts::hash(batch)));
        rows.push((texts::BLOCKS, block_links(blocks)));
    }
    if let Some(at) = vertex.proposed_ms {
        rows.push((texts::PROPOSED, moment(at)));
    }
    rows.push((texts::ACCEPTED, accepted));
    if window.form.has_lanes() {
        rows.push((texts::HOLDERS, signers(&vertex.holders, &count(window, &vertex.holders))));
    }
    for slot in led {
        let link = links::dag_pick(window.middle(), Selection::Slot(slot.round, slot.rank));
        rows.push((texts::LEADER, html! { a href=(link) { (texts::rank(slot.rank + 1)) } ", " (verdict(slot)) }));
    }
    parts::facts(&rows)
}

fn slot_facts(window: &Window, slot: &LeaderSlot, votes: Option<&Votes>) -> Markup {
    let mut rows = vec![
        (
            texts::LEADER,
            html! { (parts::validator(slot.validator)) @if window.form == Form::Rounds { ", " (texts::rank_in_round(slot.rank + 1)) } },
        ),
        (texts::place(window.form), html! { (format::number(slot.round)) }),
        (texts::VERDICT, html! { (sign(slot)) }),
    ];
    if let Some(why) = slot.why.as_deref() {
        rows.push((texts::WHY, html! { q { (abi::text(why)) } " – " (rule_description(why)) }));
    }
    rows.push((texts::DECIDED, decided(window, slot)));
    if window.form.has_lanes() {
        let text = |signers: &[u64]| texts::signers_of_quorum(&count(window, signers), window.quorum);
        rows.push((texts::VOTES, signers(&slot.voters, &text(&slot.voters))));
        if !slot.confirmers.is_empty() {
            rows.push((texts::CONFIRMATIONS, signers(&slot.confirmers, &text(&slot.confirmers))));
        }
    }
    if let Some(votes) = votes {
        let leader = votes.leader.map(|digest| links_to(window, [digest].into_iter()));
        rows.push((texts::PROPOSAL, leader.unwrap_or(html! { (texts::NO_VERTEX) })));
        let (yes, no) = (votes.voters.len(), votes.others.len());
        let count = match window.weighted_total() {
            None => texts::votes(yes, yes + no, votes.vote_round, window.quorum),
            Some(total) => texts::weighted_votes((yes, yes + no), votes.vote_round, (votes.weight, total), window.quorum),
        };
        rows.push((texts::VOTES, html! { (count) ": " (links_to(window, votes.voters.iter().copied())) }));
        let count = texts::certificates(votes.certificates.len(), votes.certify_round);
        rows.push((texts::CERTIFICATES, html! { (count) ": " (links_to(window, votes.certificates.iter().copied())) }));
    }
    if let Some(digest) = slot.digest {
        rows.push((texts::DIGEST, parts::hash(digest)));
    }
    if let Some(commit) = window.commit_of(slot) {
        rows.push((texts::COMMIT, html! { (format::number(commit)) }));
        rows.push((texts::BLOCKS, block_links(&window.blocks_of([slot]))));
    }
    parts::facts(&rows)
}

/// Facts about a slot of a log.
fn entry_facts(entry: &Entry<'_>, blocks: &[u64]) -> Markup {
    let unknown = || html! { (texts::UNKNOWN) };
    let mut rows = vec![(texts::SLOT, html! { (format::number(entry.slot)) }), (texts::STATUS, log::status(entry))];
    if let Some(why) = entry.verdict.and_then(|slot| slot.why.as_deref()) {
        rows.push((texts::WHY, html! { q { (abi::text(why)) } " – " (rule_description(why)) }));
    }
    if let Some(stamp) = entry.stamp {
        rows.push((texts::EPOCH, html! { (format::number(stamp.epoch)) }));
        if entry.form == Form::Log {
            rows.push((texts::NUMBER, html! { (format::number(stamp.number)) }));
        }
    }
    if let Some(author) = entry.author() {
        rows.push((texts::AUTHOR, parts::validator(author)));
    }
    rows.push((texts::CONTENT, html! { (log::content_text(entry.content)) }));
    if let Some(digest) = entry.vertex.map(|vertex| vertex.digest).or(entry.verdict.and_then(|slot| slot.digest)) {
        rows.push((texts::DIGEST, parts::hash(digest)));
    }
    if let Some(vertex) = entry.vertex {
        if let Some(batch) = vertex.batch_digest {
            rows.push((texts::BATCH, parts::hash(batch)));
            rows.push((texts::BLOCKS, block_links(blocks)));
        }
        if let Some(at) = vertex.proposed_ms {
            rows.push((texts::PROPOSED, moment(at)));
        }
        rows.push((texts::ACCEPTED, vertex.accepted_ms.map_or_else(unknown, moment)));
    }
    if let Some(slot) = entry.verdict {
        let took = entry.took_ms().map(format::duration);
        let signed_only = entry.vertex.is_some_and(|vertex| vertex.accepted_ms.is_none());
        let after = took.map(|took| if signed_only { texts::after_author_signed(&took) } else { texts::after_accepted(&took) });
        let at = slot.decided_ms.map_or_else(unknown, moment);
        rows.push((texts::FINALIZED, html! { (at) @if let Some(after) = after { ", " (after) } }));
        rows.push((texts::COMMIT, html! { (format::number(slot.commit.unwrap_or(slot.round))) }));
    }
    if !entry.replaced.is_empty() {
        rows.push((texts::REPLACED, html! { @for vertex in &entry.replaced { (parts::hash(vertex.digest)) " " } }));
    }
    parts::facts(&rows)
}

/// Number of validators that signed, with their votes if validators have several.
fn count(window: &Window, signers: &[u64]) -> String {
    match window.weighted_total() {
        None => texts::signers(signers.len(), window.size),
        Some(total) => texts::weighted_signers(signers.len(), window.size, window.weigh(signers.iter().copied()), total),
    }
}

/// Validators that signed, after the text with their number.
fn signers(signers: &[u64], text: &str) -> Markup {
    html! {
        @if signers.is_empty() { (texts::UNKNOWN) }
        @else { (text) ":" }
        @for signer in signers.iter().take(MAX_LISTED) { " " (parts::validator(*signer)) }
    }
}

pub fn block_links(blocks: &[u64]) -> Markup {
    html! { @if blocks.is_empty() { (texts::NO_BLOCK) } @for block in blocks { (parts::block(*block)) " " } }
}

/// Time of the verdict, and the time since the leader's proposal.
fn decided(window: &Window, slot: &LeaderSlot) -> Markup {
    let Some(at) = slot.decided_ms else {
        return html! { @if slot.status == SlotStatus::Undecided { (texts::UNDECIDED) } @else { (texts::UNKNOWN) } };
    };
    let vertex = slot.digest.and_then(|digest| window.vertex(digest));
    let took = vertex.and_then(arrival_ms).map(|from| at.saturating_sub(from));
    let signed = vertex.and_then(|vertex| vertex.proposed_ms).map(|from| at.saturating_sub(from));
    html! {
        (moment(at))
        @if let Some(signed) = signed { ", " (texts::after_leader_signed(&format::duration(signed))) }
        @else if let Some(took) = took { ", " (texts::after_leader_came(&format::duration(took))) }
    }
}

/// A time with milliseconds: seconds are too coarse for this page.
fn moment(ms: u64) -> Markup {
    let exact = format::iso(ms);
    html! { time datetime=(exact) data-ms=(ms) { (exact) } }
}

fn sign(slot: &LeaderSlot) -> Markup {
    let good = match slot.status {
        SlotStatus::Committed => "good",
        SlotStatus::Skipped => "bad",
        SlotStatus::Undecided => "is-pending",
    };
    html! { span .tag.(good) { (verdict(slot)) } }
}

/// Links to proposals, in the given order.
fn links_to(window: &Window, digests: impl Iterator<Item = B256>) -> Markup {
    let digests: Vec<B256> = digests.take(MAX_LISTED).collect();
    html! {
        @if digests.is_empty() { "–" }
        @for digest in digests {
            @match window.vertex(digest) {
                Some(vertex) => { a href=(links::dag_pick(window.middle(), Selection::Vertex(digest))) { (short_name(vertex)) } " " },
                None => { (parts::hash_in_short(digest)) " " },
            }
        }
    }
}

/// Explains the engine's rule. Returns a generic text for unknown rules.
fn rule_description(why: &str) -> &'static str {
    texts::RULES.iter().find(|(start, _)| why.starts_with(start)).map_or(texts::OTHER_RULE, |(_, said)| *said)
}

/// Blocks that contain transactions of the picture's rounds.
pub fn blocks(window: &Window) -> Markup {
    let blocks = window.blocks_of(window.rounds.values().flat_map(|round| &round.slots));
    html! {
        section #blocks {
            h2 { (texts::BLOCKS_HERE) }
            p .note { (texts::BLOCKS_NOTE) }
            p { (block_links(&blocks)) }
        }
    }
}
