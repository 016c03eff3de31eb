//! The checkout that tests read.

use std::{path::Path, process::Command};

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("node/cli is two folders deep")
}

/// Lines that git prints; none outside of a repository, such as in an unpacked archive.
#[allow(dead_code)] // not every test asks git
pub fn lines_of(arguments: &[&str]) -> Vec<String> {
    let output =
        Command::new("git").args(["-c", "safe.directory=*"]).args(arguments).current_dir(root()).output().expect("git runs");
    if !output.status.success() {
        eprintln!("git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}
