//! Limit of open files.

use crate::NodeConfig;
use anyhow::ensure;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Connections with one validator, or with one of `peers`.
const PER_PEER: usize = 4;
/// Peers that have not proven a key, clients of metrics, the store, logs, compiled code.
const OTHER_FILES: usize = 768;

/// Raises the soft limit of this process to the hard limit. Returns the limit in force, `u64::MAX` if there is
/// none.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // Fails where the system's maximum is below the hard limit.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Checks that this limit is enough. Otherwise idle clients could use up all files, and the node could not read its log or
/// compiled code.
///
/// # Errors
///
/// The limit is too low for the connections that `config` and the committee allow.
pub fn check(config: &NodeConfig, validators: usize, limit: u64) -> anyhow::Result<()> {
    let (connections, guests) = (config.serve.connections, config.limits.guests);
    let other = OTHER_FILES + PER_PEER * (validators + config.peers.len());
    let needed = connections.saturating_add(guests).saturating_add(other) as u64;
    ensure!(
        limit >= needed,
        "open files: expected a limit of at least {needed} (connections {connections} + guests {guests} + {other}), got {limit}; \
         raise the hard limit (ulimit -Hn, LimitNOFILE of systemd), or lower connections in [serve]"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_files_are_refused() {
        let mut config = NodeConfig::default();
        assert!(check(&config, 4, 1_872).is_ok() && check(&config, 4, u64::MAX).is_ok());
        let error = check(&config, 4, 1_024).unwrap_err().to_string();
        assert!(error.contains("at least 1872 (connections 1024 + guests 64 + 784), got 1024; raise"), "{error}");
        assert!(check(&config, 5, 1_872).is_err(), "each validator connects");
        config.serve.connections = 176;
        assert!(check(&config, 4, 1_024).is_ok());
        config.serve.connections = usize::MAX;
        assert!(check(&config, 4, 4_096).is_err());
    }

    #[test]
    fn soft_limit_becomes_the_hard_limit() {
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum.map(|files| files - 1), ..limit }).unwrap();
        assert_eq!(raise_open_files(), limit.maximum.unwrap_or(u64::MAX));
    }
}
