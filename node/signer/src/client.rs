//! The node's side of the socket.
//!
//! Without a signature in time the engine abstains and continues. After a failure the connection is closed, so a late answer is
//! never mistaken for that of the next request.

use crate::request::{
    FrameError, PublicKeys, Refusal, Request, Response, Scope, Statement, StatementKind, encode_frame, take_frame,
};
use corniche_crypto::BLS_SIGNATURE_BYTES;
use corniche_types::{B256, Bytes};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Time for an answer, with a new connection if necessary. The engine waits for it, and its shortest timers are a few hundred
/// milliseconds. A sync of the marks takes a few milliseconds.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_millis(50);

/// Time for the first connection. The signer may create its marks, and no engine waits.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of an ed25519 signature.
const ED25519_SIGNATURE_BYTES: usize = 64;

/// Why a signer does not answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The socket fails, or the time is over.
    #[error("signer: {0}; check that it runs and that the path of its socket is right")]
    Io(#[from] io::Error),
    /// A message is too long, or no frame.
    #[error("signer: {0}; check that node and signer have the same version")]
    Frame(#[from] FrameError),
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
}

/// Counters of a [`RemoteSigner`] since the first connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignerStats {
    /// True if the last request was answered.
    pub is_up: bool,
    /// Signatures received.
    pub signed: u64,
    /// Requests refused, by [`StatementKind`] in the order of [`StatementKind::ALL`].
    pub refused: [u64; StatementKind::ALL.len()],
    /// Requests without an answer.
    pub failures: u64,
    /// Time of all answered requests, ns.
    pub response_ns_sum: u64,
}

/// Connection to a signer. Threads take turns.
#[derive(Debug)]
pub struct RemoteSigner {
    path: PathBuf,
    hello: Request,
    /// Those of the newest connection.
    keys: Mutex<Vec<PublicKeys>>,
    response_timeout: Duration,
    /// `None` after a failure.
    connection: Mutex<Option<Connection>>,
    stats: Mutex<SignerStats>,
}

impl RemoteSigner {
    /// Connects within 5 s. Fails with a sentence for the operator.
    pub fn connect(path: &Path, chain_id: u64, genesis: B256) -> Result<Self, ClientError> {
        let hello = Request::Hello { chain_id, genesis };
        let (connection, keys) = Connection::open(path, &hello, Instant::now() + CONNECT_TIMEOUT)?;
        Ok(Self {
            path: path.to_owned(),
            hello,
            keys: Mutex::new(keys),
            response_timeout: RESPONSE_TIMEOUT,
            connection: Mutex::new(Some(connection)),
            stats: Mutex::new(SignerStats { is_up: true, ..SignerStats::default() }),
        })
    }

    /// Replaces [`RESPONSE_TIMEOUT`], for instance in tests on slow disks.
    #[must_use]
    pub fn with_response_timeout(self, response_timeout: Duration) -> Self {
        Self { response_timeout, ..self }
    }

    /// Returns whether the signer holds these keys, as of the newest connection. Connects again if they are new: the signer may have been
    /// restarted with them.
    pub fn holds(&self, consensus: &B256, bls: &[u8]) -> bool {
        let is_known = || lock(&self.keys).iter().any(|(known, known_bls)| known == consensus && known_bls[..] == *bls);
        if !is_known() {
            let mut slot = lock(&self.connection);
            // The signer has one client at a time.
            *slot = None;
            *slot = self.connect_again(Instant::now() + self.response_timeout).ok();
        }
        is_known()
    }

    fn connect_again(&self, deadline: Instant) -> Result<Connection, ClientError> {
        let (connection, keys) = Connection::open(&self.path, &self.hello, deadline)?;
        *lock(&self.keys) = keys;
        Ok(connection)
    }

    /// Asks for a signature: 48 bytes if [`Statement::is_bls`], otherwise 64. Returns `None` if the signer refuses or does not
    /// answer in time; the next call connects again. Do not ask again with another statement in place of a refused one.
    ///
    /// The signature is not verified, which takes 40 µs to 1 ms. A wrong one harms only this validator: others ignore it.
    pub fn sign(&self, key: B256, scope: Scope, statement: Statement) -> Option<Bytes> {
        let kind = statement.kind();
        let mut slot = lock(&self.connection);
        let start = Instant::now();
        let result = self.exchange(&mut slot, start + self.response_timeout, key, scope, statement);
        drop(slot);
        let mut stats = lock(&self.stats);
        match result {
            Ok(answer) => {
                stats.response_ns_sum += u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                if !std::mem::replace(&mut stats.is_up, true) {
                    tracing::info!("the signer answers again");
                }
                let counter = if answer.is_ok() { &mut stats.signed } else { &mut stats.refused[kind as usize] };
                *counter += 1;
                answer.inspect_err(|refusal| tracing::warn!(kind = kind.name(), %refusal, "the signer refused")).ok()
            }
            Err(error) => {
                stats.failures += 1;
                if std::mem::replace(&mut stats.is_up, false) {
                    tracing::warn!(%error, "the signer does not answer; nothing is signed until it does");
                }
                None
            }
        }
    }

    /// Returns the counters.
    pub fn stats(&self) -> SignerStats {
        lock(&self.stats).clone()
    }

    /// The connection is put back only after a complete answer.
    fn exchange(
        &self,
        slot: &mut Option<Connection>,
        deadline: Instant,
        key: B256,
        scope: Scope,
        statement: Statement,
    ) -> Result<Result<Bytes, Refusal>, ClientError> {
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => self.connect_again(deadline)?,
        };
        let expected = if statement.is_bls() { BLS_SIGNATURE_BYTES } else { ED25519_SIGNATURE_BYTES };
        let answer = match connection.ask(&Request::Sign { key, scope, statement }, deadline)? {
            Response::Signed(signature) if signature.len() == expected => Ok(signature),
            Response::Refused(refusal) => Err(refusal),
            Response::Signed(_) | Response::Welcome { .. } | Response::Busy | Response::Unsupported => {
                return Err(ClientError::Invalid);
            }
        };
        *slot = Some(connection);
        Ok(answer)
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
    fn open(path: &Path, hello: &Request, deadline: Instant) -> Result<(Self, Vec<PublicKeys>), ClientError> {
        let mut connection = Self { stream: connect_at_once(path)? };
        match connection.ask(hello, deadline)? {
            Response::Welcome { keys } => Ok((connection, keys)),
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

/// Connects without waiting. A signer that hangs would otherwise block the caller as soon as its queue of connections is full.
pub(crate) fn connect_at_once(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Time left, never zero.
fn until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
