//! The signer's side of the socket: one thread, one client.
//!
//! The thread that calls [`Server::serve`] waits for a stop, a new connection and the client's requests together. So a request is
//! answered before the next one is read, and a client that hangs up frees its place before the next connection is judged.

use crate::{
    keys::SecretKeys,
    log_limit::LogLimit,
    mark_file::{MarkError, MarkFile},
    marks::Marks,
    request::{FrameError, Refusal, Request, Response, Scope, Statement, encode_frame, take_frame},
    socket::{connect_at_once, has_hung_up, peer_uid},
};
use corniche_types::{B256, Epoch};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::Mode,
    process::{getuid, umask},
};
use std::{
    fs,
    io::{self, Read, Write},
    os::unix::{
        fs::{FileTypeExt, lchown},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// Bytes that are read at once. Requests other than notices are far shorter.
const READ_BYTES: usize = 16 * 1024;

/// Configuration of a [`Server`].
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Path of the socket. Its directory must exist. If the signer runs neither as root nor as the user of its clients, the directory
    /// must belong to the signer's user: clients trust no other.
    pub socket: PathBuf,
    /// Directory of the marks.
    pub marks: PathBuf,
    /// User whose processes may connect; by default the signer's own. Another user gets the socket, which only root can arrange.
    pub uid: Option<u32>,
    /// First epoch that may be signed without earlier marks.
    pub from_epoch: Option<Epoch>,
}

/// Why a server does not start, or stops.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The marks cannot be read or written.
    #[error(transparent)]
    Marks(#[from] MarkError),
    /// Something listens on the socket.
    #[error("bind {path}: another process listens on this socket; stop it, or choose another path")]
    SocketInUse {
        /// The socket.
        path: PathBuf,
    },
    /// The path is a file of another kind, which is not removed.
    #[error("bind {path}: expected a free path or an old socket, got another file; choose another path")]
    NoSocket {
        /// The file.
        path: PathBuf,
    },
    /// The operating system reports an error.
    #[error("{operation} {path}: {source}")]
    Io {
        /// Failed operation.
        operation: &'static str,
        /// The socket.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// A signer that listens on a Unix socket.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    uid: u32,
    listener: UnixListener,
    stop: UnixStream,
    stop_handle: StopHandle,
    signer: Signer,
}

/// Stops a [`Server`] from another thread.
#[derive(Clone, Debug)]
pub struct StopHandle(Arc<UnixStream>);

impl StopHandle {
    /// Makes [`Server::serve`] return after the request that it answers. Never blocks. May be called before it serves, and again.
    pub fn stop(&self) {
        // A full buffer is a stop already.
        let _ = (&*self.0).write(&[1]);
    }
}

impl Server {
    /// Reads the marks and listens on the socket, to which only its owner can connect. Removes an old socket if nothing listens on it.
    pub fn bind(options: &ServerOptions, keys: Vec<SecretKeys>) -> Result<Self, ServerError> {
        // Before the socket: two signers with one directory never get as far as removing sockets.
        let (file, record) = MarkFile::open(&options.marks)?;
        let from_epoch = options.from_epoch;
        let marks = record.map(|record| Marks::resume(record, from_epoch));
        let path = options.socket.clone();
        let own = getuid().as_raw();
        let uid = options.uid.unwrap_or(own);
        remove_old_socket(&path)?;
        let listener = bind_private(&path).map_err(io_error("bind", &path))?;
        if uid != own {
            // The other user may have put a link in place of the socket, which must not be followed.
            lchown(&path, Some(uid), None).map_err(io_error("set the owner of", &path))?;
        }
        listener.set_nonblocking(true).map_err(io_error("listen on", &path))?;
        let (stop, handle) = UnixStream::pair().map_err(io_error("make the stop handle of", &path))?;
        handle.set_nonblocking(true).map_err(io_error("make the stop handle of", &path))?;
        let signer = Signer { keys, marks, file, from_epoch, refused: 0, refusals: LogLimit::default() };
        Ok(Self { path, uid, listener, stop, stop_handle: StopHandle(Arc::new(handle)), signer })
    }

    /// Returns a handle for a thread that handles signals.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop_handle.clone()
    }

    /// Answers requests until it is stopped. Returns an error if marks cannot be written: then no signature relies on them, and the
    /// process should end.
    pub fn serve(&mut self) -> Result<(), ServerError> {
        let mut client: Option<Connection> = None;
        loop {
            let ready = self.wait(client.as_ref()).map_err(io_error("wait for requests on", &self.path))?;
            if ready.stop {
                return Ok(());
            }
            if let Some(connection) = client.as_mut().filter(|_| ready.client)
                && !connection.serve(&mut self.signer)?
            {
                client = None;
            }
            if ready.listener
                && let Some(stream) = self.accept()?
            {
                if client.as_ref().is_none_or(|connection| has_hung_up(&connection.stream)) {
                    client = Some(Connection { stream, received: Vec::new(), is_greeted: false });
                } else {
                    tracing::warn!("refused a second client");
                    let _ = send(&stream, &Response::Busy);
                }
            }
        }
    }

    fn wait(&self, client: Option<&Connection>) -> io::Result<Ready> {
        let mut polled = vec![PollFd::new(&self.stop, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
        polled.extend(client.map(|client| PollFd::new(&client.stream, PollFlags::IN)));
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |place: usize| polled.get(place).is_some_and(|polled| !polled.revents().is_empty());
        Ok(Ready { stop: is_ready(0), listener: is_ready(1), client: is_ready(2) })
    }

    /// Returns the next connection of the allowed user, if there is one.
    fn accept(&self) -> Result<Option<UnixStream>, ServerError> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
                let is_gone = matches!(error.kind(), ConnectionAborted | Interrupted | WouldBlock);
                return if is_gone { Ok(None) } else { Err(io_error("accept on", &self.path)(error)) };
            }
        };
        stream.set_nonblocking(true).map_err(io_error("accept on", &self.path))?;
        let uid = peer_uid(&stream).map_err(io_error("check the peer of", &self.path))?;
        let is_allowed = uid == self.uid;
        if !is_allowed {
            tracing::warn!(uid, "refused a client of another user");
        }
        Ok(Some(stream).filter(|_| is_allowed))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Another server removes it as an old socket otherwise.
        let _ = fs::remove_file(&self.path);
    }
}

/// Events that [`Server::wait`] found.
struct Ready {
    stop: bool,
    listener: bool,
    client: bool,
}

/// The connected client.
#[derive(Debug)]
struct Connection {
    /// Does not block.
    stream: UnixStream,
    /// Bytes of incomplete frames: less than one frame after each read.
    received: Vec<u8>,
    /// True after its Hello.
    is_greeted: bool,
}

impl Connection {
    /// Reads once and answers the complete requests. Returns false if the connection is to be closed.
    fn serve(&mut self, signer: &mut Signer) -> Result<bool, MarkError> {
        // Its requests would spend marks for signatures that nobody receives.
        if has_hung_up(&self.stream) {
            return Ok(false);
        }
        let mut chunk = [0; READ_BYTES];
        match self.stream.read(&mut chunk) {
            Ok(0) => return Ok(false),
            Ok(count) => self.received.extend_from_slice(&chunk[..count]),
            Err(error) => return Ok(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)),
        }
        loop {
            let (answer, stays_open) = match take_frame(&mut self.received) {
                Ok(None) => return Ok(true),
                Ok(Some(request)) => match self.answer(signer, request)? {
                    Some(answer) => answer,
                    None => return Ok(false),
                },
                Err(FrameError::Version { .. }) => (Response::Unsupported, false),
                Err(FrameError::Oversized { .. } | FrameError::Malformed) => return Ok(false),
            };
            if send(&self.stream, &answer).is_err() || !stays_open {
                return Ok(false);
            }
        }
    }

    /// Returns the answer to a request, and whether the connection stays open after it. `None` closes it without an answer.
    fn answer(&mut self, signer: &mut Signer, request: Request) -> Result<Option<(Response, bool)>, MarkError> {
        let answer = match request {
            Request::Hello { chain_id, genesis } => {
                let answer = signer.hello(chain_id, genesis)?;
                self.is_greeted = matches!(answer, Response::Welcome { .. });
                answer
            }
            Request::Sign { .. } if !self.is_greeted => return Ok(None),
            Request::Sign { key, scope, statement } => signer.sign(key, &scope, &statement)?,
        };
        Ok(Some((answer, self.is_greeted)))
    }
}

/// Keys and marks. After an error nothing may be signed any more.
#[derive(Debug)]
struct Signer {
    keys: Vec<SecretKeys>,
    /// `None` until the first Hello ever.
    marks: Option<Marks>,
    file: MarkFile,
    from_epoch: Option<Epoch>,
    /// Statements refused since the start.
    refused: u64,
    refusals: LogLimit,
}

impl Signer {
    fn hello(&mut self, chain_id: u64, genesis: B256) -> Result<Response, MarkError> {
        if let Some(marks) = &self.marks {
            if let Err(refusal) = marks.check_chain(chain_id, genesis) {
                tracing::warn!(%refusal, "refused a client of another chain");
                return Ok(Response::Refused(refusal));
            }
        } else {
            let marks = Marks::new(chain_id, genesis, self.from_epoch);
            self.file.write(marks.record())?;
            self.marks = Some(marks);
        }
        Ok(Response::Welcome { keys: self.keys.iter().map(SecretKeys::public).collect() })
    }

    fn sign(&mut self, key: B256, scope: &Scope, statement: &Statement) -> Result<Response, MarkError> {
        let Some(keys) = self.keys.iter().find(|keys| keys.consensus.public() == key) else {
            return Ok(Response::Refused(Refusal::UnknownKey { key }));
        };
        let marks = self.marks.as_mut().expect("invariant: a client is greeted before it asks for signatures");
        let verdict = marks.admit(scope, statement);
        if verdict.is_changed {
            self.file.write(marks.record())?;
        }
        Ok(match verdict.outcome {
            Ok(()) => Response::Signed(keys.sign(scope, statement)),
            Err(refusal) => {
                self.refused += 1;
                if self.refusals.allows(Instant::now()) {
                    let (kind, epoch, total) = (statement.kind().name(), scope.epoch.0, self.refused);
                    tracing::warn!(kind, epoch, %refusal, total, "refused to sign");
                }
                Response::Refused(refusal)
            }
        })
    }
}

/// Sends an answer. Fails if the client has left so many answers unread that the socket's buffer is full.
fn send(mut stream: &UnixStream, answer: &Response) -> io::Result<()> {
    let frame = encode_frame(answer).map_err(io::Error::other)?;
    stream.write_all(&frame)
}

/// Binds a socket that only its owner can use. It never has another mode, so that no later change of the mode can follow a link
/// that somebody put in its place.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    // The mask belongs to the process: two threads would restore each other's.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // Other threads may create directories meanwhile, which need the x bit of their owner. On a socket this bit has no meaning.
    let before = umask(Mode::RWXG | Mode::RWXO);
    let listener = UnixListener::bind(path);
    umask(before);
    listener
}

fn remove_old_socket(path: &Path) -> Result<(), ServerError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => return Err(ServerError::NoSocket { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error("check", path)(error)),
    }
    match connect_at_once(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(io_error("remove", path))
        }
        Ok(_) | Err(_) => Err(ServerError::SocketInUse { path: path.to_owned() }),
    }
}

fn io_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ServerError {
    move |source| ServerError::Io { operation, path: path.to_owned(), source }
}
