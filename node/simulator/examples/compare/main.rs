//! Compares the engines in the same networks, and Autobahn and NeoBFT with their papers. Prints Markdown for the documentation.
//!
//! ```text
//! cargo run -p corniche-simulator --example compare -- [quick|full] [model|…]… [seeds=N]
//! ```
//! `quick` takes a minute and is rough; `full`, the default, makes the tables of the documentation and draws the plots
//! of docs/images.

#![allow(clippy::print_stdout)] // The tables are the result.

mod away;
mod blips;
#[path = "../common/mod.rs"]
mod common;
mod engines;
mod hedging;
mod model;
mod neobft;
mod setting;

use common::Section;

const SECTIONS: [Section; 7] = [
    ("model", model::table),
    ("blips", blips::tables),
    ("engines", engines::latencies),
    ("costs", engines::costs),
    ("away", away::table),
    ("neobft", neobft::tables),
    ("hedging", hedging::table),
];

fn main() {
    common::run_sections(&SECTIONS, SECTIONS.len());
}
