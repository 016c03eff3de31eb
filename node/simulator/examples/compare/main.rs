//! Compares the engines in the same networks, and engines with their papers. Prints Markdown for the documentation.
//!
//! ```text
//! cargo run -p corniche-simulator --example compare -- [quick|full] [model|…]… [seeds=N]
//! ```
//! `quick` takes a minute and is rough; `full`, the default, makes the tables of the documentation and draws the plots
//! of docs/images.

#![allow(clippy::print_stdout)] // The tables are the result.

mod attacks;
mod away;
mod blips;
#[path = "../common/mod.rs"]
mod common;
mod contention;
mod engines;
mod hedging;
mod model;
mod neobft;
mod scale;
mod setting;
mod view_changes;

use common::Section;

/// Number of sections that a run without names executes. The others are parts of these.
const USUAL: usize = 9;
const SECTIONS: [Section; 15] = [
    ("model", model::table),
    ("blips", blips::tables),
    ("engines", engines::latencies),
    ("costs", engines::costs),
    ("away", away::table),
    ("neobft", neobft::tables),
    ("hedging", hedging::table),
    ("attacks", attacks::tables),
    ("scale", scale::tables),
    ("minority", attacks::minority),
    ("view-changes", view_changes::table),
    ("contention", contention::table),
    ("uplink", scale::uplink),
    ("mir-sizes", scale::sizes),
    ("mir-faults", scale::faults),
];

fn main() {
    common::run_sections(&SECTIONS, USUAL);
}
