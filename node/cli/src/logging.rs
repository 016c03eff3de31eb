//! Log of the process on standard error.

/// Starts the log with the filter in `CORNICHE_LOG`.
pub fn start() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("CORNICHE_LOG").unwrap_or_else(|_| "info,libp2p=warn".into());
    // With several nodes in one process, the first one's log stays.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).try_init();
}
