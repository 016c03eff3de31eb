//! Options of the command line.

use clap::Parser;
use std::path::PathBuf;

/// Attack a network of real processes on this machine and measure the effect on honest users
#[derive(Parser, Debug)]
#[command(name = "corniche-hostile")]
pub struct Options {
    /// Names of the attacks to run; default: all
    #[arg(value_name = "ATTACK")]
    pub names: Vec<String>,
    /// List the attacks and exit
    #[arg(long)]
    pub list: bool,
    /// Send a few messages of each attack, then check that the network still executes a transfer; no time limits
    #[arg(long, conflicts_with_all = ["json", "seconds", "rate"])]
    pub smoke: bool,
    /// Number of validators of each network; the attacker replaces the maximum number of faulty ones
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub validators: usize,
    /// Ordering engines, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "mahi-mahi,autobahn")]
    pub engine: Vec<String>,
    /// Duration of each load and of each attack in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub seconds: u64,
    /// Number of transfers per second of the honest users
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub rate: u32,
    /// Seed of the attackers' choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// File for the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Keep the directories of the networks, which contain their logs
    #[arg(long)]
    pub keep: bool,
    /// Path of the node binary under test
    #[arg(long, value_name = "FILE", env = "CORNICHE_BIN", default_value = "target/debug/corniche")]
    pub corniche: PathBuf,
}
