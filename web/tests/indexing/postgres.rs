//! A PostgreSQL server for tests: in a temporary directory, on a Unix socket, stopped when the value is dropped.

use sqlx::{AnyConnection, AssertSqlSafe, Connection};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tempfile::TempDir;

const MISSING: &str =
    "there is no PostgreSQL on this machine: install it, for instance the package postgresql (its server need not run)";

/// A running server with an empty database.
pub struct Postgres {
    directory: TempDir,
    /// Dropping it stops the server.
    end: Option<mpsc::Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

impl Postgres {
    /// Starts a server in a new directory in `place`.
    pub async fn start_in(place: &Path) -> Self {
        let programs = programs();
        let directory = TempDir::new_in(place).expect("a temporary directory");
        let data = directory.path().join("data");
        if is_root() {
            // PostgreSQL refuses to run as root, so the directory belongs to its own user.
            fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
            let owned = Command::new("chown").arg("postgres:").arg(directory.path()).status().expect("chown");
            assert!(owned.success(), "there is no user postgres for PostgreSQL to run as; the package postgresql makes one");
        }
        let mut initdb = unprivileged(&programs.join("initdb"));
        initdb.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D"]).arg(&data);
        let made = initdb.output().expect("initdb");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let mut server = unprivileged(&programs.join("postgres"));
        server.arg("-D").arg(&data).arg("-k").arg(directory.path());
        server.args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_wal_size=4GB", "-c", "shared_buffers=256MB"]);
        let (end, keeper) = keep(server);
        let postgres = Self { directory, end: Some(end), keeper: Some(keeper) };
        let began = Instant::now();
        while let Err(error) = AnyConnection::connect(&postgres.url("postgres")).await {
            assert!(began.elapsed() < Duration::from_secs(60), "PostgreSQL does not answer: {error}");
            tokio::task::yield_now().await;
        }
        postgres
    }

    /// Creates a database of this name and returns its URL.
    pub async fn database(&self, name: &str) -> String {
        let mut connection = AnyConnection::connect(&self.url("postgres")).await.expect("a connection");
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut connection).await.expect("a database");
        self.url(name)
    }

    fn url(&self, name: &str) -> String {
        sqlx::any::install_default_drivers();
        format!("postgres://postgres@localhost/{name}?host={}", self.directory.path().display())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// Runs the server from a thread of equal lifetime. The server ends with that thread, also if this process is killed.
fn keep(mut server: Command) -> (mpsc::Sender<()>, JoinHandle<()>) {
    let (end, ended) = mpsc::channel();
    let keeper = std::thread::spawn(move || {
        let mut server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("PostgreSQL");
        let _ = ended.recv();
        stop(&mut server);
    });
    (end, keeper)
}

fn stop(server: &mut Child) {
    let asked = Command::new("kill").arg("-QUIT").arg(server.id().to_string()).status();
    if !asked.is_ok_and(|status| status.success()) {
        let _ = server.kill();
    }
    let _ = server.wait();
}

/// Runs a program as the user postgres if we are root. It is killed when this process ends.
fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]);
    }
    command.args(["--pdeathsig", "QUIT"]).arg(program).current_dir("/");
    command
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Returns the directory of the server programs, which distributions do not put into the path.
fn programs() -> PathBuf {
    let in_path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    let versions =
        ["/usr/lib/postgresql", "/usr/local/lib/postgresql"].into_iter().filter_map(|place| fs::read_dir(place).ok());
    let mut versions: Vec<_> = versions.flatten().filter_map(|version| Some(version.ok()?.path().join("bin"))).collect();
    versions.sort();
    let places = in_path.into_iter().chain(versions.into_iter().rev());
    places.into_iter().find(|place| place.join("initdb").exists() && place.join("postgres").exists()).expect(MISSING)
}
