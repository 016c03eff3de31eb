//! Secrets in files that only their owner can read.

use anyhow::{Context, bail};
use std::{
    fs,
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// Writes one secret as a line of text into a new file of mode 0600.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot create {}", path.display()))?;
    writeln!(file, "{text}").and_then(|()| file.sync_all()).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads one secret. Errors contain the file's name, never its content.
pub fn read<T, E>(path: &Path, parse: impl FnOnce(&str) -> Result<T, E>) -> anyhow::Result<T> {
    let file = fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 != 0 {
        bail!("{} can be read by others (mode {:o}); `chmod 600` it if nobody did", path.display(), mode & 0o777);
    }
    let text = std::io::read_to_string(file).with_context(|| format!("cannot read {}", path.display()))?;
    parse(text.trim()).map_err(|_| anyhow::anyhow!("{} does not hold the kind of key its name says", path.display()))
}
