//! Scenarios of the Mahi-Mahi engine, one per file. `drawing` turns text into DAGs, `cluster` runs whole committees on
//! a virtual clock, `crypto` contains the modelled keys and coin.

#![allow(clippy::unwrap_used)] // in a test the panic is the report

mod cluster;
mod crypto;
mod drawing;

mod agreement;
mod beyond;
mod checklist;
mod clocks;
mod coin;
mod coin_attack;
mod decisions;
mod delays;
mod equivocation;
mod fixtures;
mod garbage;
mod headings;
mod hundred;
mod idle;
mod incremental;
mod lost_disk;
mod memory;
mod pacing;
mod plain;
mod real_crypto;
mod restart;
mod resume;
mod siblings;
mod signer;
mod single;
mod synchroniser;
mod thesis_figures;
mod trace;
mod votes;
