//! Ends networks when the program is interrupted: their processes have process groups of their own, so a terminal does not.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};
use tokio::signal::unix::{SignalKind, signal};

/// Exit code of an interrupted program, as shells report it.
const INTERRUPTED: i32 = 130;

/// Binary and directory of each running network.
static RUNNING: Mutex<Vec<(PathBuf, PathBuf)>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<(PathBuf, PathBuf)>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn register(corniche: &Path, directory: &Path) {
    running().push((corniche.to_owned(), directory.to_owned()));
}

pub(crate) fn unregister(directory: &Path) {
    running().retain(|(_, registered)| registered != directory);
}

/// Ends all networks and then this program at SIGINT and SIGTERM.
///
/// # Errors
///
/// The system has no room for a thread.
pub fn end_networks_on_interrupt() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _guard = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let wait = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        for (corniche, directory) in running().iter() {
            end(corniche, directory);
            // This program's own cleanup does not run.
            let _ = fs::remove_dir_all(directory);
        }
        std::process::exit(INTERRUPTED);
    };
    thread::Builder::new().name("interrupt".into()).spawn(wait).map(drop)
}

/// Stops a network.
pub(crate) fn end(corniche: &Path, directory: &Path) {
    let mut command = Command::new(corniche);
    command.args(["testnet", "down", "--dir"]).arg(directory);
    // There is nobody to report a failure to.
    let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}
