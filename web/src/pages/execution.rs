//! Execution of a block on the node: numbers, a picture of lanes, and a table of lanes.

pub(crate) mod texts;

use crate::{format, pages::parts};
use corniche_api::Execution;
use maud::{Markup, html};
use std::{collections::BTreeMap, fmt::Write};

/// Maximum number of drawn transactions.
const MAX_DRAWN: usize = 600;

/// Units of the drawing: width of a transaction with its gap, height of a lane with its gap.
const STEP: usize = 4;
const ROW: usize = 14;

/// Counters of one lane.
#[derive(Default)]
struct Lane {
    transactions: u64,
    again: u64,
    ready: u64,
}

/// Section of the block's page.
pub fn section(execution: Option<&Execution>) -> Markup {
    let Some(execution) = execution else { return html! { p .note { (texts::UNKNOWN) } } };
    let mut lanes: BTreeMap<u8, Lane> = BTreeMap::new();
    for (lane, runs) in of_each(execution) {
        let lane = lanes.entry(lane).or_default();
        lane.transactions += 1;
        lane.again += u64::from(runs > 1);
        lane.ready += u64::from(runs == 0);
    }
    let number = format::number;
    html! {
        p .note { (texts::NOTE) }
        (parts::facts(&[
            (texts::LANES, html! { (texts::lanes(lanes.len(), &number(execution.threads))) }),
            (texts::RUNS, html! { (texts::runs(&number(execution.runs), &number(execution.runs_again))) }),
            (texts::WAITS, html! { (number(execution.waits)) }),
            (texts::ADOPTED, html! { (number(execution.adopted)) " " span .note { (texts::ADOPTED_NOTE) } }),
            (texts::TIME, html! { (format::micros(execution.duration_us)) " " span .note { (texts::TIME_NOTE) } }),
        ]))
        @if !lanes.is_empty() {
            (picture(execution, &lanes))
            (table(&lanes))
        }
    }
}

/// Lane and runs of each transaction.
fn of_each(execution: &Execution) -> impl Iterator<Item = (u8, u8)> {
    execution.lane_of.iter().copied().zip(execution.runs_of.iter().copied())
}

/// Lane and runs of a transaction in words, if known.
pub fn of_transaction(execution: &Execution, position: u64) -> Option<String> {
    let at = usize::try_from(position).ok()?;
    Some(texts::ran(*execution.lane_of.get(at)?, *execution.runs_of.get(at)?))
}

fn picture(execution: &Execution, lanes: &BTreeMap<u8, Lane>) -> Markup {
    let sum = |of: fn(&Lane) -> u64| format::number(lanes.values().map(of).sum());
    let label = texts::picture(&sum(|lane| lane.transactions), lanes.len(), &sum(|lane| lane.again), &sum(|lane| lane.ready));
    let rows: BTreeMap<u8, usize> = lanes.keys().copied().zip(0..).collect();
    let [mut once, mut again, mut ready] = [String::new(), String::new(), String::new()];
    let all = of_each(execution).count();
    for (at, (lane, runs)) in of_each(execution).take(MAX_DRAWN).enumerate() {
        let (path, height) = match runs {
            0 => (&mut ready, 2),
            1 => (&mut once, 6),
            _ => (&mut again, 12),
        };
        let (x, bottom) = (at * STEP, (rows[&lane] + 1) * ROW - 1);
        let _ = write!(path, "M{x} {bottom}h{}v-{height}h-{}z", STEP - 1, STEP - 1);
    }
    let (width, height) = (all.min(MAX_DRAWN) * STEP, rows.len() * ROW);
    html! {
        figure {
            svg .lanes viewBox={ "0 0 " (width) " " (height) } width="100%" height=(height) preserveAspectRatio="none" role="img" aria-label=(label) {
                @for row in 1..=rows.len() { path .floor d={ "M0 " (row * ROW) "H" (width) } {} }
                path .once d=(once) {}
                path .again d=(again) {}
                path .ready d=(ready) {}
            }
            figcaption { (texts::LEGEND) @if all > MAX_DRAWN { " " (texts::first(&format::number(MAX_DRAWN as u64))) } }
        }
    }
}

fn table(lanes: &BTreeMap<u8, Lane>) -> Markup {
    let row = |(number, lane): (&u8, &Lane)| {
        let count = |count: u64| html! { (format::number(count)) };
        vec![html! { (number) }, count(lane.transactions), count(lane.again), count(lane.ready)]
    };
    parts::table(
        texts::TITLE,
        &[texts::LANE, texts::TRANSACTIONS, texts::RAN_AGAIN, texts::READY],
        lanes.iter().map(row).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(lane_of: &[u8], runs_of: &[u8]) -> Execution {
        let (lane_of, runs_of) = (lane_of.to_vec().into(), runs_of.to_vec().into());
        Execution {
            threads: 8,
            runs: 9,
            runs_again: 3,
            adopted: 1,
            duration_us: 1_234,
            lane_of,
            runs_of,
            ..Execution::default()
        }
    }

    fn cells(page: &str) -> Vec<&str> {
        page.split("<td").skip(1).map(|cell| cell.split('>').nth(1).unwrap().split('<').next().unwrap()).collect()
    }

    #[test]
    fn lanes_are_counted_and_drawn() {
        let page = section(Some(&sample(&[0, 5, 0, 5, 5], &[1, 0, 3, 1, 2]))).into_string();
        assert_eq!(cells(&page), ["0", "2", "1", "0", "5", "3", "1", "1"]);
        for words in ["2 of 8 used", "9, of which 3 again", "1.23 ms", "5 transactions in 2 lanes; 2 executed again"] {
            assert!(page.contains(words), "{words} is not in {page}");
        }
        assert!(!page.contains("style="));
        assert_eq!(page.matches("M0 13h3v-6").count() + page.matches("M12 27h3v-6").count(), 2, "{page}");
    }

    #[test]
    fn unknown_execution_is_stated() {
        assert!(section(None).into_string().contains(texts::UNKNOWN));
        let one = sample(&[3], &[2]);
        assert!(section(Some(&one)).into_string().contains("1 transaction in 1 lane; 1 executed again"));
        assert_eq!(of_transaction(&one, 0).as_deref(), Some("lane 3, 2 executions"));
        assert_eq!(of_transaction(&one, 1), None);
    }

    #[test]
    fn large_block_is_drawn_in_part() {
        let page = section(Some(&sample(&[1; 5_000], &[1; 5_000]))).into_string();
        assert_eq!(cells(&page), ["1", "5,000", "0", "0"]);
        assert!(page.contains("Only the first 600 are drawn.") && page.len() < 20_000, "{} bytes", page.len());
    }

    /// A node may report anything: lists of different lengths, and more lanes than threads.
    #[test]
    fn inconsistent_statistics_are_truncated() {
        let page = section(Some(&sample(&[255, 9], &[255]))).into_string();
        assert_eq!(cells(&page), ["255", "1", "1", "0"]);
        section(Some(&sample(&[], &[1, 2])));
    }
}
