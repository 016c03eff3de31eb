//! Both engines in the same networks, and Autobahn beside its paper (§6): Markdown for the documentation on standard output.
//!
//! ```text
//! cargo run -p corniche-simulator --example compare -- [quick|full] [model|…]… [seeds=N]
//! ```
//! `quick` takes a minute and is rough; `full`, the default, makes the tables of the documentation.

#![allow(clippy::print_stdout)] // The tables are the result.

mod blips;
#[path = "../common/mod.rs"]
mod common;
mod model;
mod plot;
#[allow(dead_code)] // Not every table is here yet.
mod setting;

use common::Section;

const SECTIONS: [Section; 2] = [("model", model::table), ("blips", blips::tables)];

fn main() {
    common::run_sections(&SECTIONS, SECTIONS.len());
}
