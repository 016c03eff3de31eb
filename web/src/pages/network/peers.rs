//! Peers of the node, and the latency between the nodes that the explorer queries.

use crate::{
    format,
    pages::network::texts,
    pages::parts,
    peer_graph::{NodePeers, Poll, committee_index},
};
use corniche_api::{Peer, Validators};
use maud::{Markup, html};

/// Maximum number of rows of the table, and of rows and columns of the matrix. The API returns all.
const MAX_ROWS: usize = 50;
const MAX_VALIDATORS: usize = 24;

/// Bounds of the shades in microseconds: from each one on, a round trip has the next darker shade.
const STEPS: [u64; 4] = [1_000, 10_000, 50_000, 150_000];

/// Table of the node and its peers, validators first.
pub fn table(committee: Option<&Validators>, row: Option<&NodePeers>) -> Markup {
    let Some(NodePeers { own, peers: Some(peers) }) = row else { return html! { p .note { (texts::OFFLINE) } } };
    let index_of = |peer: &Peer| committee.and_then(|committee| committee_index(committee, peer));
    let cells = |(peer, is_own): (&Peer, bool)| {
        let round_trip = peer.round_trip_us.map_or(texts::NOT_MEASURED.into(), format::micros);
        vec![
            html! { (name(index_of(peer), peer)) @if is_own { " " span .tag { (texts::OWN) } } },
            html! { @match &peer.version { Some(version) => code .data { (version) }, None => span .note { (texts::UNKNOWN) } } },
            html! { @if is_own { "–" } @else { (round_trip) } },
            html! { @match peer.connected_ms { Some(ms) => (parts::time(ms)), None => "–" } },
        ]
    };
    let mut sorted: Vec<_> = peers.iter().collect();
    sorted.sort_by_key(|peer| index_of(peer).unwrap_or(u64::MAX));
    let peers = sorted.into_iter().map(|peer| (peer, false));
    let rows: Vec<_> = own.iter().map(|own| (own, true)).chain(peers).map(cells).collect();
    let (all, columns) = (rows.len(), [texts::PEER, texts::SOFTWARE, texts::ROUND_TRIP, texts::SINCE]);
    html! {
        (parts::table(texts::PEERS, &columns, rows.into_iter().take(MAX_ROWS).collect()))
        @if all > MAX_ROWS { p .note { (texts::of_all(MAX_ROWS, all, "/api/v1/peers")) } }
    }
}

/// Name of a peer: a validator by its position, any other node by its peer id.
fn name(index_of: Option<u64>, peer: &Peer) -> Markup {
    match index_of {
        Some(index) => parts::validator(index),
        None => html! { (texts::FULL_NODE) " " (parts::peer(&peer.peer_id)) },
    }
}

/// Matrix of round trips from the queried nodes to all validators.
pub fn matrix(committee: Option<&Validators>, poll: &Poll) -> Markup {
    let Some(committee) = committee else { return html! { p .note { (texts::NO_COMMITTEE) } } };
    let all = committee.validators.len();
    let columns = 0..all.min(MAX_VALIDATORS) as u64;
    let index_of_node = |row: &NodePeers| row.own.as_ref().and_then(|own| committee_index(committee, own));
    let mut rows: Vec<_> = poll.rows.iter().map(|row| (index_of_node(row), row)).collect();
    let known = (0..all as u64).filter(|index| rows.iter().any(|(index_of, _)| *index_of == Some(*index))).count();
    // The sort is stable: nodes without a position keep their order.
    rows.sort_by_key(|(index_of, _)| index_of.unwrap_or(u64::MAX));
    html! {
        p .note { (texts::MATRIX_NOTE) }
        // The matrix may be wider than the window, so it takes the focus and scrolls with the keyboard.
        div .wide tabindex="0" role="region" aria-label=(texts::MATRIX) {
            table .matrix {
                caption .hidden { (texts::MATRIX) }
                thead { tr {
                    th scope="col" { (texts::FROM) }
                    @for index in columns.clone() { th scope="col" { (crate::texts::validator(index)) } }
                } }
                tbody { @for (index_of, row) in rows.into_iter().take(MAX_VALIDATORS) { tr {
                    th scope="row" { (node_name(index_of, row)) }
                    (latency_cells(committee, columns.clone(), index_of, row))
                } } }
            }
        }
        p { (texts::SHADES) @for step in 0..=STEPS.len() { " " span .{ "step-" (step) } { (shade(step)) } } }
        @if known < all { p .note { (texts::missing_rows(known, all)) } }
        @if all > MAX_VALIDATORS { p .note { (texts::of_all(MAX_VALIDATORS, all, "/api/v1/peers")) } }
    }
}

/// Name of a queried node.
fn node_name(index_of: Option<u64>, row: &NodePeers) -> Markup {
    match &row.own {
        Some(own) => name(index_of, own),
        None => html! { (texts::UNNAMED) },
    }
}

/// The cells of a row.
fn latency_cells(committee: &Validators, columns: std::ops::Range<u64>, own: Option<u64>, row: &NodePeers) -> Markup {
    let Some(peers) = &row.peers else {
        return html! { td colspan=(columns.end.max(1)) { span .note { (texts::OFFLINE) } } };
    };
    let link = |index: u64| peers.iter().find(|peer| committee_index(committee, peer) == Some(index));
    html! {
        @for index in columns {
            @let column = crate::texts::validator(index);
            @match link(index).map(|peer| peer.round_trip_us) {
                _ if own == Some(index) => td data-column=(column) { "–" },
                Some(Some(us)) => td .{ "step-" (step(us)) } data-column=(column) { (format::micros(us)) },
                Some(None) => td data-column=(column) { span .note { (texts::NOT_MEASURED) } },
                None => td data-column=(column) { span .note { (texts::NO_LINK) } },
            }
        }
    }
}

fn step(us: u64) -> usize {
    STEPS.iter().filter(|bound| us >= **bound).count()
}

/// Range of round trips with this shade.
fn shade(step: usize) -> String {
    let ms = |at: usize| STEPS.get(at).map(|us| us / 1_000);
    match (step.checked_sub(1).and_then(ms), ms(step)) {
        (_, Some(below)) => texts::below(below),
        (from, None) => texts::from(from.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::testing::{self, links};
    use alloy_primitives::B256;

    fn peer(key: u8, validator: Option<u64>, round_trip_us: Option<u64>) -> Peer {
        Peer {
            peer_id: format!("12D3KooWabcdefghijklmnop{key}"),
            network_key: B256::with_last_byte(key),
            validator,
            fee_address: None,
            version: Some("corniche/0.1.0".into()),
            connected_ms: Some(1_700_000_000_000),
            round_trip_us,
        }
    }

    fn row(own: u8, peers: Vec<Peer>) -> NodePeers {
        NodePeers { own: Some(peer(own, Some(own.into()), None)), peers: Some(peers) }
    }

    fn linked(key: u8, us: u64) -> Peer {
        peer(key, Some(key.into()), Some(us))
    }

    #[tokio::test]
    async fn peers_are_sorted_validators_first() {
        let filled = testing::test_app().await;
        let committee = filled.app.status().committee;
        // One peer claims a position that belongs to another key.
        let peers = vec![peer(9, Some(1), None), linked(3, 420), linked(1, 12_340)];
        let page = table(committee.as_ref(), Some(&row(2, peers))).into_string();
        assert_eq!(links(&page, "/validator/"), ["2", "1", "3"]);
        for part in [texts::OWN, "12.3 ms", "0.42 ms", texts::NOT_MEASURED, texts::FULL_NODE, "12D3KooW…lmnop9", "2023-11-14"]
        {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        let many = table(committee.as_ref(), Some(&row(2, vec![linked(3, 1); 60]))).into_string();
        assert_eq!((many.matches("<tr>").count(), many.contains("50 of 61")), (51, true), "{many}");
        assert!(table(committee.as_ref(), Some(&NodePeers::default())).into_string().contains(texts::OFFLINE));
    }

    #[tokio::test]
    async fn matrix_has_a_row_per_node() {
        let filled = testing::test_app().await;
        let committee = filled.app.status().committee;
        let silent = NodePeers { own: Some(peer(3, Some(3), None)), peers: None };
        let full = NodePeers { own: Some(peer(9, None, None)), peers: Some(vec![linked(0, 200_000)]) };
        let unheard = NodePeers { own: None, peers: None };
        let rows = vec![unheard, full, silent, row(1, vec![linked(0, 420), linked(3, 12_345), peer(2, Some(2), None)])];
        let page = matrix(committee.as_ref(), &Poll { polled_ms: 0, rows }).into_string();
        let rows: Vec<_> = page.split("<th scope=\"row\">").skip(1).collect();
        assert_eq!(rows.len(), 4, "{page}");
        assert!(rows[0].contains("/validator/1") && rows[1].contains("/validator/3"), "{page}");
        let cells: Vec<_> = rows[0].split("<td").skip(1).map(|cell| cell.split("</td>").next().unwrap()).collect();
        assert_eq!(cells[0], " class=\"step-0\" data-column=\"validator 0\">0.42 ms");
        assert_eq!(cells[1], " data-column=\"validator 1\">–");
        assert!(cells[2].contains(texts::NOT_MEASURED), "{}", cells[2]);
        assert_eq!(cells[3], " class=\"step-2\" data-column=\"validator 3\">12.3 ms");
        assert!(rows[1].contains("colspan=\"4\"") && rows[1].contains(texts::OFFLINE), "{}", rows[1]);
        assert!(rows[2].contains(texts::UNNAMED) && rows[2].contains(texts::OFFLINE), "{}", rows[2]);
        assert!(rows[3].contains(texts::FULL_NODE) && rows[3].contains("step-4") && rows[3].contains(texts::NO_LINK));
        assert!(page.contains(&texts::missing_rows(2, 4)), "{page}");
        assert_eq!(page.matches("scope=\"col\"").count(), 5);
    }

    #[test]
    fn shades_have_bounds() {
        assert_eq!([0, 999, 1_000, 49_999, 50_000, 150_000, u64::MAX].map(step), [0, 0, 1, 2, 3, 4, 4]);
        assert_eq!([shade(0), shade(3), shade(4)], [texts::below(1), texts::below(150), texts::from(150)]);
    }
}
