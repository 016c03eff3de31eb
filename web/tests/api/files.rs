//! CSV files of an account's history.

use crate::{
    chain::{ALICE, BOB, EVIL, PLAIN},
    explorer::{EXPLORER, LONG},
};
use corniche_web::api::csv::MAX_ROWS;

/// Parses a file according to RFC 4180.
fn cells(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, quoted) {
            ('"', true) if characters.peek() == Some(&'"') => cell.extend(characters.next()),
            ('"', _) => quoted = !quoted,
            (',', false) => row.push(std::mem::take(&mut cell)),
            ('\r', false) => {
                assert_eq!(characters.next(), Some('\n'));
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            (character, _) => cell.push(character),
        }
    }
    assert!(row.is_empty() && cell.is_empty(), "the last line has an end");
    rows
}

fn column(rows: &[Vec<String>], name: &str) -> Vec<String> {
    let at = rows[0].iter().position(|column| column == name).unwrap();
    rows[1..].iter().map(|row| row[at].clone()).collect()
}

#[test]
fn file_contains_all_transactions() {
    let answer = EXPLORER.get(&format!("/api/v1/accounts/{ALICE}/transactions.csv"));
    assert_eq!(answer.header("content-disposition"), format!("attachment; filename=\"transactions-{ALICE}.csv\""));
    let rows = cells(&answer.text);
    assert_eq!(rows.len() as u64, 1 + 3 + 3 + 3 * PLAIN, "a line of names, and all");
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    let value = column(&rows, "value");
    assert_eq!((value[0].as_str(), value[2].as_str()), ("0.000000000000000001", "0.000000000000000042"));
    assert_eq!(column(&rows, "time")[0], "2023-11-14T22:13:41.000Z");
    assert_eq!(column(&rows, "method")[1], "transfer");
}

#[test]
fn compressed_file_is_complete() {
    for name in ["transactions", "transfers"] {
        let path = format!("/api/v1/accounts/{ALICE}/{name}.csv");
        let packed = EXPLORER.get_compressed(&path);
        // The last four bytes of gzip are the length of the text.
        let length = packed.last_chunk::<4>().map(|length| u32::from_le_bytes(*length));
        assert_eq!(length, Some(EXPLORER.get(&path).text.len() as u32), "{name}");
    }
}

#[test]
fn formulas_are_escaped() {
    let answer = EXPLORER.get(&format!("/api/v1/accounts/{BOB}/transfers.csv"));
    let rows = cells(&answer.text);
    let (symbols, tokens) = (column(&rows, "symbol"), column(&rows, "token"));
    let hostile = tokens.iter().position(|token| *token == EVIL.to_string()).unwrap();
    assert_eq!(symbols[hostile], "'=HYPERLINK(\"http://x\",\"y\")", "text, not a formula");
    let dangerous = |cell: &String| cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    assert_eq!(rows.iter().flatten().find(|cell| dangerous(cell)), None);
    let (direction, amount) = (column(&rows, "direction"), column(&rows, "amount"));
    assert_eq!((direction[0].as_str(), amount[hostile].as_str()), ("in", "1"));
}

#[test]
fn truncated_file_has_a_notice() {
    let path = format!("/api/v1/accounts/{ALICE}/transactions.csv");
    let rows = cells(&LONG.get(&path).text);
    assert_eq!(rows.len() as u64, 1 + MAX_ROWS + 1);
    let notice = rows.last().unwrap();
    assert_eq!(notice.len(), 1);
    assert!(notice[0].starts_with("truncated after 50000 rows"), "{notice:?}");
    let cursor = notice[0].rsplit("cursor=").next().unwrap();
    let rest = cells(&LONG.get(&format!("{path}?cursor={cursor}")).text);
    assert_eq!(column(&rest, "block"), ["0"], "the rest, and nothing twice");
}

#[test]
fn invalid_requests_are_rejected_before_the_file() {
    assert_eq!(EXPLORER.get("/api/v1/accounts/alice/transfers.csv").status, 400);
    assert_eq!(EXPLORER.get(&format!("/api/v1/accounts/{ALICE}/transfers.csv?cursor=1")).status, 400);
    assert_eq!(EXPLORER.get(&format!("/api/v1/accounts/{ALICE}/transfers.csv?limit=1")).status, 400);
}
