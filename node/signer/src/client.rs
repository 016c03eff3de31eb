//! The node's side of the socket.
//!
//! Without a signature in time the engine abstains and continues. After a failure the connection is closed, so a late answer is
//! never mistaken for that of the next request.
//!
//! Nothing that arrives is trusted: the socket must be served by a user who may replace it, and each signature is verified. So
//! neither a broken signer nor an impostor makes the node send messages that its peers refuse.

use crate::{
    keys::VerifyingKeys,
    log_limit::LogLimit,
    request::{FrameError, PublicKeys, Refusal, Request, Response, Scope, Statement, StatementKind, encode_frame, take_frame},
    socket::{connect_at_once, has_hung_up, peer_uid},
};
use corniche_types::{B256, Bytes};
use rustix::process::geteuid;
use std::{
    fs,
    io::{self, Read, Write},
    os::unix::{fs::MetadataExt, net::UnixStream},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Time for an answer, with a new connection if necessary. The engine waits for it, and its shortest timers are a few hundred
/// milliseconds. A sync of the marks takes a few milliseconds.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_millis(50);

/// Time after a failure in which no request is sent. The engine asks for each vote at each message. Without a pause it would spend
/// [`RESPONSE_TIMEOUT`] on each one while the signer hangs.
pub const BACK_OFF: Duration = Duration::from_millis(500);

/// Time for the first connection. The signer may create its marks, and no engine waits.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a signer does not answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The socket fails, or the time is over.
    #[error("signer: {0}; check that it runs and that the path of its socket is right")]
    Io(#[from] io::Error),
    /// A message is too long, or no frame.
    #[error("signer: {0}; check that node and signer have the same version")]
    Frame(#[from] FrameError),
    /// The socket is served by a user who may not replace it.
    #[error(
        "signer: expected a process of this user, of root or of the owner of the socket's directory, got one of user {uid}; check the path of the socket"
    )]
    OtherUser {
        /// User of the process that listens.
        uid: u32,
    },
    /// The signer serves another chain.
    #[error("signer: {0}")]
    Refused(Refusal),
    /// Another client is connected.
    #[error("signer: another node is connected to it; stop that node first")]
    Busy,
    /// The signer has another version.
    #[error("signer: expected protocol version {}, which it does not support; update it", corniche_types::wire::VERSION)]
    Unsupported,
    /// The answer does not match the request.
    #[error("signer: invalid answer; check that node and signer have the same version")]
    Invalid,
    /// The signature does not verify with the key that the signer named.
    #[error("signer: wrong signature; check that node and signer have the same version")]
    WrongSignature,
}

/// Why there is no signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsigned {
    /// The signer refuses the statement. Do not ask again with other content in its place: a statement that was signed before may
    /// contradict it.
    #[error("the signer refuses the statement")]
    Refused,
    /// The signer does not answer, or its answer is invalid. It may have marked the statement as signed. The same statement may be
    /// asked for again.
    #[error("the signer is unavailable")]
    Unavailable,
}

/// Upper bounds of [`SignerStats::responses`], µs. The last one is [`RESPONSE_TIMEOUT`].
pub const RESPONSE_BUCKETS_US: [u64; 9] = [50, 100, 200, 500, 1_000, 2_000, 5_000, 20_000, 50_000];

/// Counters of a [`RemoteSigner`] since the first connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignerStats {
    /// True if the last request was answered.
    pub is_up: bool,
    /// Signatures received.
    pub signed: u64,
    /// Requests refused, by [`StatementKind`] in the order of [`StatementKind::ALL`].
    pub refused: [u64; StatementKind::ALL.len()],
    /// Requests without a valid answer, also those that were not sent because of [`BACK_OFF`].
    pub failures: u64,
    /// Time of all answered requests, ns.
    pub response_ns_sum: u64,
    /// Answered requests by their time: at most [`RESPONSE_BUCKETS_US`], and longer.
    pub responses: [u64; RESPONSE_BUCKETS_US.len() + 1],
}

/// Connection to a signer. Threads take turns.
#[derive(Debug)]
pub struct RemoteSigner {
    path: PathBuf,
    hello: Request,
    response_timeout: Duration,
    back_off: Duration,
    link: Mutex<Link>,
    /// Those of the newest connection.
    keys: Mutex<Vec<VerifyingKeys>>,
    journal: Mutex<Journal>,
}

/// State of the connection.
#[derive(Debug)]
enum Link {
    /// No request is in flight.
    Up(Connection),
    /// Closed after a failure at this time.
    Down(Instant),
}

impl RemoteSigner {
    /// Connects within 5 s. Fails with a sentence for the operator.
    ///
    /// The process that listens must belong to this user, to root, or to the owner of the socket's directory. These may replace
    /// the socket at any time. The owner of the socket itself proves nothing: in a directory like `/tmp` it can be anybody.
    pub fn connect(path: &Path, chain_id: u64, genesis: B256) -> Result<Self, ClientError> {
        let hello = Request::Hello { chain_id, genesis };
        let (connection, keys) = Connection::open(path, &hello, Instant::now() + CONNECT_TIMEOUT)?;
        Ok(Self {
            path: path.to_owned(),
            hello,
            response_timeout: RESPONSE_TIMEOUT,
            back_off: BACK_OFF,
            link: Mutex::new(Link::Up(connection)),
            keys: Mutex::new(keys),
            journal: Mutex::new(Journal::default()),
        })
    }

    /// Replaces [`RESPONSE_TIMEOUT`], for instance in tests on slow disks.
    #[must_use]
    pub fn with_response_timeout(self, response_timeout: Duration) -> Self {
        Self { response_timeout, ..self }
    }

    /// Replaces [`BACK_OFF`], for instance in tests without pauses.
    #[must_use]
    pub fn with_back_off(self, back_off: Duration) -> Self {
        Self { back_off, ..self }
    }

    /// Returns whether the signer holds these keys, as of the newest connection. If they are unknown and there is no connection,
    /// connects again after [`BACK_OFF`]: the signer may have been restarted with them. A working connection is never dropped,
    /// because a running signer gets no further keys.
    pub fn holds(&self, consensus: &B256, bls: &[u8]) -> bool {
        let is_known = || {
            let is_same = |(known, known_bls): PublicKeys| known == *consensus && known_bls[..] == *bls;
            lock(&self.keys).iter().any(|known| is_same(known.public()))
        };
        if !is_known() {
            match self.with_connection(|_, _| Ok(())) {
                Some(Ok(())) => lock(&self.journal).answered(),
                Some(Err(error)) => lock(&self.journal).failed(&error),
                None => {}
            }
        }
        is_known()
    }

    /// Asks for a signature: 48 bytes if [`Statement::is_bls`], otherwise 64. A failure closes the connection. Until [`BACK_OFF`] is
    /// over, calls return [`Unsigned::Unavailable`] without touching the socket. Then the next one connects again.
    ///
    /// The signature is verified with the public key that the signer named. This takes about 40 µs, or 1 ms for BLS.
    pub fn sign(&self, key: B256, scope: Scope, statement: Statement) -> Result<Bytes, Unsigned> {
        let kind = statement.kind();
        let result = self.with_connection(|connection, start| {
            let answer = self.exchange(connection, start, key, scope, statement)?;
            Ok((answer, start.elapsed()))
        });
        let mut journal = lock(&self.journal);
        match result {
            Some(Ok((answer, time))) => {
                journal.answered();
                journal.stats.response_ns_sum += u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                let bucket = RESPONSE_BUCKETS_US.partition_point(|most| u128::from(*most) < time.as_micros());
                journal.stats.responses[bucket] += 1;
                match &answer {
                    Ok(_) => journal.stats.signed += 1,
                    Err(refusal) => journal.refused(kind, refusal),
                }
                answer.map_err(|_| Unsigned::Refused)
            }
            Some(Err(error)) => {
                journal.failed(&error);
                Err(Unsigned::Unavailable)
            }
            None => {
                journal.stats.failures += 1;
                Err(Unsigned::Unavailable)
            }
        }
    }

    /// Returns the counters.
    pub fn stats(&self) -> SignerStats {
        lock(&self.journal).stats.clone()
    }

    /// Runs `act` with the connection and the start time, and closes the connection if it fails. Connects again if the last attempt
    /// failed, or if the signer has hung up: then no request was in flight. Returns `None` during the back-off.
    fn with_connection<T>(
        &self,
        act: impl FnOnce(&mut Connection, Instant) -> Result<T, ClientError>,
    ) -> Option<Result<T, ClientError>> {
        let mut link = lock(&self.link);
        let start = Instant::now();
        if let Link::Down(since) = *link
            && start.saturating_duration_since(since) < self.back_off
        {
            return None;
        }
        // The connection is put back only after a complete answer.
        let connection = match std::mem::replace(&mut *link, Link::Down(start)) {
            Link::Up(connection) if !has_hung_up(&connection.stream) => Ok(connection),
            Link::Up(_) | Link::Down(_) => self.connect_again(start + self.response_timeout),
        };
        let result = connection.and_then(|mut connection| Ok((act(&mut connection, start)?, connection)));
        Some(match result {
            Ok((value, connection)) => {
                *link = Link::Up(connection);
                Ok(value)
            }
            Err(error) => {
                *link = Link::Down(Instant::now());
                Err(error)
            }
        })
    }

    fn connect_again(&self, deadline: Instant) -> Result<Connection, ClientError> {
        let (connection, keys) = Connection::open(&self.path, &self.hello, deadline)?;
        *lock(&self.keys) = keys;
        Ok(connection)
    }

    fn exchange(
        &self,
        connection: &mut Connection,
        start: Instant,
        key: B256,
        scope: Scope,
        statement: Statement,
    ) -> Result<Result<Bytes, Refusal>, ClientError> {
        let request = Request::Sign { key, scope, statement: statement.clone() };
        match connection.ask(&request, start + self.response_timeout)? {
            Response::Signed(signature) => {
                let named = lock(&self.keys).iter().find(|keys| keys.consensus() == key).copied();
                let is_valid = named.is_some_and(|keys| keys.verify(&scope, &statement, &signature));
                if is_valid { Ok(Ok(signature)) } else { Err(ClientError::WrongSignature) }
            }
            Response::Refused(refusal) => Ok(Err(refusal)),
            Response::Welcome { .. } | Response::Busy | Response::Unsupported => Err(ClientError::Invalid),
        }
    }
}

/// Counters and log lines.
#[derive(Debug)]
struct Journal {
    stats: SignerStats,
    refusals: LogLimit,
    failures: LogLimit,
}

impl Default for Journal {
    fn default() -> Self {
        let stats = SignerStats { is_up: true, ..SignerStats::default() };
        Self { stats, refusals: LogLimit::default(), failures: LogLimit::default() }
    }
}

impl Journal {
    fn answered(&mut self) {
        if !std::mem::replace(&mut self.stats.is_up, true) {
            tracing::info!("the signer answers again");
        }
    }

    fn refused(&mut self, kind: StatementKind, refusal: &Refusal) {
        let total = &mut self.stats.refused[kind as usize];
        *total += 1;
        if self.refusals.allows(Instant::now()) {
            tracing::warn!(kind = kind.name(), %refusal, total, "the signer refused");
        }
    }

    fn failed(&mut self, error: &ClientError) {
        self.stats.failures += 1;
        self.stats.is_up = false;
        if self.failures.allows(Instant::now()) {
            let total = self.stats.failures;
            tracing::warn!(%error, total, "the signer does not answer; nothing is signed until it does");
        }
    }
}

/// The connection is taken out during a request, and counters are numbers: a panic leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection without requests in flight.
#[derive(Debug)]
struct Connection {
    stream: UnixStream,
}

impl Connection {
    /// Connects and says Hello.
    fn open(path: &Path, hello: &Request, deadline: Instant) -> Result<(Self, Vec<VerifyingKeys>), ClientError> {
        let stream = connect_at_once(path)?;
        check_user(&stream, path)?;
        let mut connection = Self { stream };
        match connection.ask(hello, deadline)? {
            Response::Welcome { keys } => {
                let keys: Option<_> = keys.iter().map(VerifyingKeys::parse).collect();
                Ok((connection, keys.ok_or(ClientError::Invalid)?))
            }
            Response::Refused(refusal) => Err(ClientError::Refused(refusal)),
            Response::Busy => Err(ClientError::Busy),
            Response::Unsupported => Err(ClientError::Unsupported),
            Response::Signed(_) => Err(ClientError::Invalid),
        }
    }

    fn ask(&mut self, request: &Request, deadline: Instant) -> Result<Response, ClientError> {
        self.stream.set_write_timeout(Some(until(deadline)?))?;
        let sent = encode_frame(request).map(|frame| self.stream.write_all(&frame))?;
        let mut received = Vec::new();
        let mut chunk = [0; 1024];
        loop {
            if let Some(answer) = take_frame(&mut received)? {
                return if received.is_empty() { Ok(answer) } else { Err(ClientError::Invalid) };
            }
            self.stream.set_read_timeout(Some(until(deadline)?))?;
            match self.stream.read(&mut chunk) {
                // A signer that is busy closes the connection without reading. Its answer counts, not the failed write.
                Ok(0) => return Err(sent.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()).into()),
                Ok(count) => received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Checks that the process at the other end belongs to a user who may replace the socket; see [`RemoteSigner::connect`].
fn check_user(stream: &UnixStream, path: &Path) -> Result<(), ClientError> {
    let uid = peer_uid(stream)?;
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_trusted = uid == 0 || uid == geteuid().as_raw() || uid == fs::metadata(directory)?.uid();
    if is_trusted { Ok(()) } else { Err(ClientError::OtherUser { uid }) }
}

/// Time left, never zero.
fn until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
