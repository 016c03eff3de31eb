//! Client and server on real sockets and real files.
#![allow(clippy::unwrap_used)] // also in helpers

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_crypto::{BlsSecretKey, ConsensusKey};
use corniche_signer::{
    ClientError, FILE_NAME, MAX_FRAME_BYTES, MarkError, Refusal, RemoteSigner, Request, Response, Scope, SecretKeys, Server,
    ServerError, ServerOptions, SignerStats, Statement, StatementKind, StopHandle, Unsigned, encode_frame, take_frame,
};
use corniche_types::evidence::VoteKind;
use corniche_types::{B256, Bytes, Epoch, FaultModel, Height};
use std::{
    fs,
    io::{ErrorKind, Read, Write},
    os::unix::{
        fs::{PermissionsExt, chown},
        net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    thread::JoinHandle,
    time::Duration,
};
use tempfile::TempDir;

const CHAIN: u64 = 7;
const GENESIS: B256 = B256::repeat_byte(9);
/// Tests run on slow and busy disks.
const PATIENCE: Duration = Duration::from_secs(60);

fn secrets(number: u8) -> SecretKeys {
    let bls = BlsSecretKey::from_seed([100 + number; 32]);
    SecretKeys { consensus: ConsensusKey::from_seed([number; 32]), bls }
}

fn key() -> B256 {
    secrets(1).public().0
}

fn scope() -> Scope {
    Scope { chain_id: CHAIN, epoch: Epoch(1), committee_hash: B256::ZERO }
}

fn header(height: u64, hash: u8) -> Statement {
    Statement::Header { height: Height(height), hash: B256::repeat_byte(hash), fault_model: FaultModel::Byzantine }
}

fn vote(slot: u64, cut: u8) -> Statement {
    Statement::Vote { kind: VoteKind::Prepared, slot, view: 0, cut: B256::repeat_byte(cut), bls: false }
}

/// Directory of a signer.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("signer.sock")
    }

    fn options(&self) -> ServerOptions {
        let marks = self.0.path().join("marks");
        ServerOptions { socket: self.socket(), marks, uid: None, from_epoch: Some(Epoch(1)) }
    }

    fn start(&self) -> Running {
        self.start_with(vec![secrets(1)])
    }

    fn start_with(&self, keys: Vec<SecretKeys>) -> Running {
        Running::new(Server::bind(&self.options(), keys).unwrap())
    }

    fn client(&self) -> RemoteSigner {
        RemoteSigner::connect(&self.socket(), CHAIN, GENESIS)
            .unwrap()
            .with_response_timeout(PATIENCE)
            .with_back_off(Duration::ZERO)
    }

    fn raw(&self) -> Raw {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Raw { stream, received: Vec::new() }
    }

    /// Marks as a crash would leave them now.
    fn marks_now(&self) -> Vec<u8> {
        fs::read(self.options().marks.join(FILE_NAME)).unwrap()
    }
}

/// A server on a thread of its own.
struct Running {
    stop: StopHandle,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

impl Running {
    fn new(mut server: Server) -> Self {
        let stop = server.stop_handle();
        Self { stop, thread: Some(std::thread::spawn(move || server.serve())) }
    }

    fn stop_after(self, act: impl FnOnce()) {
        act();
        self.stop();
    }

    fn stop(mut self) {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

/// A client that sends any bytes.
struct Raw {
    stream: UnixStream,
    received: Vec<u8>,
}

impl Raw {
    fn send(&mut self, request: &Request) {
        self.stream.write_all(&encode_frame(request).unwrap()).unwrap();
    }

    fn hello(&mut self) {
        self.send(&Request::Hello { chain_id: CHAIN, genesis: GENESIS });
        assert!(matches!(self.answer(), Some(Response::Welcome { .. })));
    }

    fn answer(&mut self) -> Option<Response> {
        self.take()
    }

    /// `None` if the connection is closed.
    fn take<T: BorshSerialize + BorshDeserialize>(&mut self) -> Option<T> {
        loop {
            if let Some(answer) = take_frame(&mut self.received).unwrap() {
                return Some(answer);
            }
            let mut chunk = [0; 64];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.received.extend(&chunk[..count]),
                // The signer left bytes unread.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn signatures_cross_the_socket() {
    let place = Place::new();
    let server = place.start_with(vec![secrets(1), secrets(2)]);
    let client = place.client();
    assert!([1, 2].map(|number| secrets(number).public()).iter().all(|(consensus, bls)| client.holds(consensus, bls)));
    for number in [1, 2] {
        let keys = secrets(number);
        for statement in [header(u64::from(number), 1), vote(u64::from(number), 1)] {
            let signature = client.sign(keys.public().0, scope(), statement.clone());
            assert_eq!(signature, Ok(keys.sign(&scope(), &statement)));
        }
    }
    let notice = Statement::Notice { payload: vec![5; 100_000].into() };
    assert!(client.sign(key(), scope(), notice).is_ok());
    let stats = client.stats();
    assert_eq!((stats.is_up, stats.signed, stats.failures), (true, 5, 0));
    assert!(stats.response_ns_sum > 0);
    server.stop();
}

#[test]
fn refusals_are_counted_and_do_not_disconnect() {
    let place = Place::new();
    let server = place.start();
    let client = place.client();
    assert!(client.sign(key(), scope(), header(5, 1)).is_ok());
    assert_eq!(client.sign(key(), scope(), header(5, 2)), Err(Unsigned::Refused));
    assert_eq!(client.sign(secrets(2).public().0, scope(), vote(1, 1)), Err(Unsigned::Refused), "unknown key");
    assert!(client.sign(key(), scope(), vote(1, 2)).is_ok(), "an unknown key spends no marks");
    let stats = client.stats();
    assert_eq!((stats.is_up, stats.signed, stats.failures), (true, 2, 0));
    let refused = StatementKind::ALL.map(|kind| stats.refused[kind as usize]);
    assert_eq!((refused[StatementKind::Header as usize], refused[StatementKind::Vote as usize]), (1, 1));
    assert_eq!(refused.iter().sum::<u64>(), 2);
    server.stop();
}

#[test]
fn requests_are_answered_in_order() {
    let place = Place::new();
    let _server = place.start();
    let mut raw = place.raw();
    raw.hello();
    let sign = |statement| encode_frame(&Request::Sign { key: key(), scope: scope(), statement }).unwrap();
    let requests: Vec<u8> = (1..50).flat_map(|height| [sign(header(height, 1)), sign(header(height, 2))].concat()).collect();
    raw.stream.write_all(&requests).unwrap();
    for height in 1..50 {
        assert_eq!(raw.answer(), Some(Response::Signed(secrets(1).sign(&scope(), &header(height, 1)))));
        assert_eq!(raw.answer(), Some(Response::Refused(Refusal::Height { mark: height })));
    }
}

#[test]
fn second_client_gets_busy() {
    let place = Place::new();
    let _server = place.start();
    let mut first = place.raw();
    first.hello();
    let mut second = place.raw();
    assert_eq!((second.answer(), second.answer()), (Some(Response::Busy), None));
    let error = RemoteSigner::connect(&place.socket(), CHAIN, GENESIS).unwrap_err();
    assert!(matches!(error, ClientError::Busy), "{error}");
    // The first one is not disturbed.
    first.hello();
}

#[test]
fn place_is_free_at_once() {
    let place = Place::new();
    let _server = place.start();
    for _ in 0..100 {
        let mut raw = place.raw();
        raw.hello();
    }
}

#[test]
fn client_that_hangs_up_spends_no_marks() {
    let place = Place::new();
    place.start().stop_after(|| place.raw().hello());
    let server = Server::bind(&place.options(), vec![secrets(1)]).unwrap();
    let before = place.marks_now();
    // All this is in the socket's queue before the signer looks.
    let mut raw = place.raw();
    raw.send(&Request::Hello { chain_id: CHAIN, genesis: GENESIS });
    raw.send(&Request::Sign { key: key(), scope: scope(), statement: header(1, 1) });
    drop(raw);
    let server = Running::new(server);
    place.raw().hello();
    assert_eq!(place.marks_now(), before);
    server.stop();
}

#[test]
fn oversized_frame_closes() {
    let place = Place::new();
    let _server = place.start();
    let mut raw = place.raw();
    raw.hello();
    let length = u32::try_from(MAX_FRAME_BYTES + 1).unwrap();
    raw.stream.write_all(&length.to_le_bytes()).unwrap();
    assert_eq!(raw.answer(), None);
    place.raw().hello();
}

#[test]
fn longest_frame_is_read() {
    let place = Place::new();
    let _server = place.start();
    let mut raw = place.raw();
    raw.hello();
    let request = |bytes: usize| Request::Sign {
        key: key(),
        scope: scope(),
        statement: Statement::Notice { payload: Bytes::from(vec![0; bytes]) },
    };
    let overhead = encode_frame(&request(0)).unwrap().len() - 4;
    raw.send(&request(MAX_FRAME_BYTES - overhead));
    assert!(matches!(raw.answer(), Some(Response::Signed(_))));
    assert!(encode_frame(&request(MAX_FRAME_BYTES - overhead + 1)).is_err());
}

#[test]
fn other_version_is_unsupported() {
    let place = Place::new();
    let _server = place.start();
    let mut raw = place.raw();
    let mut frame = encode_frame(&Request::Hello { chain_id: CHAIN, genesis: GENESIS }).unwrap();
    frame[4] = 2;
    raw.stream.write_all(&frame).unwrap();
    assert_eq!((raw.answer(), raw.answer()), (Some(Response::Unsupported), None));
}

#[test]
fn junk_closes() {
    let place = Place::new();
    let _server = place.start();
    let trailing = {
        let mut frame = encode_frame(&Request::Hello { chain_id: CHAIN, genesis: GENESIS }).unwrap();
        frame[0] += 1;
        frame.push(0);
        frame
    };
    for junk in [vec![0; 4], vec![2, 0, 0, 0, 1, 9], b"GET / HTTP/1.1\r\n\r\n".to_vec(), trailing] {
        let mut raw = place.raw();
        raw.stream.write_all(&junk).unwrap();
        assert_eq!(raw.answer(), None, "{junk:?}");
    }
    place.raw().hello();
}

#[test]
fn first_request_must_be_hello() {
    let place = Place::new();
    let _server = place.start();
    let mut raw = place.raw();
    raw.send(&Request::Sign { key: key(), scope: scope(), statement: header(1, 1) });
    assert_eq!(raw.answer(), None);
}

#[test]
fn other_chain_is_closed() {
    let place = Place::new();
    let server = place.start();
    drop(place.client());
    for (chain_id, genesis) in [(CHAIN + 1, GENESIS), (CHAIN, B256::ZERO)] {
        let mut raw = place.raw();
        raw.send(&Request::Hello { chain_id, genesis });
        let refusal = Refusal::OtherChain { chain_id: CHAIN, genesis: GENESIS };
        assert_eq!((raw.answer(), raw.answer()), (Some(Response::Refused(refusal)), None));
    }
    server.stop();
    // The first Hello binds the marks for ever.
    let _server = place.start();
    let error = RemoteSigner::connect(&place.socket(), CHAIN + 1, GENESIS).unwrap_err();
    assert!(error.to_string().contains("expected chain 7"), "{error}");
}

#[test]
fn client_reconnects_after_server_restarts() {
    let place = Place::new();
    let server = place.start();
    let client = place.client();
    assert!(client.sign(key(), scope(), header(1, 1)).is_ok());
    server.stop();
    assert_eq!(client.sign(key(), scope(), header(2, 1)), Err(Unsigned::Unavailable));
    assert_eq!(client.sign(key(), scope(), header(2, 1)), Err(Unsigned::Unavailable));
    assert_eq!((client.stats().is_up, client.stats().failures), (false, 2));
    let server = place.start();
    assert!(client.sign(key(), scope(), header(2, 1)).is_ok(), "nothing is skipped");
    assert!(client.stats().is_up);
    server.stop();
}

#[test]
fn client_does_not_notice_a_quick_restart() {
    let place = Place::new();
    let server = place.start();
    let client = place.client().with_back_off(Duration::MAX);
    let first = client.sign(key(), scope(), header(1, 1));
    server.stop();
    let server = place.start();
    assert!(first.is_ok());
    assert_eq!(client.sign(key(), scope(), header(1, 1)), first);
    assert_eq!(client.stats().failures, 0);
    server.stop();
}

#[test]
fn client_leaves_the_socket_alone_after_a_failure() {
    let place = Place::new();
    let server = place.start();
    let client = place.client().with_back_off(Duration::MAX);
    server.stop();
    assert_eq!(client.sign(key(), scope(), header(1, 1)), Err(Unsigned::Unavailable));
    let listener = UnixListener::bind(place.socket()).unwrap();
    listener.set_nonblocking(true).unwrap();
    for _ in 0..10 {
        assert_eq!(client.sign(key(), scope(), header(1, 1)), Err(Unsigned::Unavailable));
        assert!(!client.holds(&secrets(2).public().0, &secrets(2).public().1));
    }
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "nobody connected");
    assert_eq!((client.stats().is_up, client.stats().failures), (false, 11), "all requests are counted");
}

#[test]
fn client_uses_further_keys_after_reconnection() {
    let place = Place::new();
    let server = place.start();
    let client = place.client();
    server.stop();
    let server = place.start_with(vec![secrets(1), secrets(2)]);
    let further = secrets(2).public().0;
    assert!(client.sign(further, scope(), header(1, 1)).is_ok());
    assert_eq!(client.sign(secrets(3).public().0, scope(), header(2, 1)), Err(Unsigned::Refused));
    assert_eq!(client.stats().refused.iter().sum::<u64>(), 1);
    server.stop();
}

#[test]
fn client_asks_for_further_keys_only_after_a_restart() {
    let place = Place::new();
    let server = place.start();
    let client = place.client();
    let holds = |number| {
        let (consensus, bls) = secrets(number).public();
        client.holds(&consensus, &bls)
    };
    assert_eq!([1, 2, 2].map(holds), [true, false, false]);
    server.stop();
    assert_eq!([1, 2].map(holds), [true, false], "as of the last connection");
    assert!(!client.stats().is_up);
    let server = place.start_with(vec![secrets(1), secrets(2)]);
    assert_eq!([2, 1, 3].map(holds), [true, true, false]);
    assert!(client.stats().is_up);
    assert!(!client.holds(&secrets(1).public().0, &secrets(2).public().1), "keys of two sets");
    server.stop();
}

/// A signer that gives one answer to each request, whatever it is.
fn fake_signer(listener: UnixListener, connections: Vec<Vec<Response>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for answers in connections {
            let mut raw = Raw { stream: listener.accept().unwrap().0, received: Vec::new() };
            for answer in answers {
                let _: Request = raw.take().unwrap();
                raw.stream.write_all(&encode_frame(&answer).unwrap()).unwrap();
            }
            // Until the client closes, which fails the test otherwise.
            assert_eq!(raw.take::<Request>(), None);
        }
    })
}

#[test]
fn unknown_keys_do_not_disturb_a_working_connection() {
    let place = Place::new();
    let listener = UnixListener::bind(place.socket()).unwrap();
    let signed = Response::Signed(secrets(1).sign(&scope(), &header(1, 1)));
    let signer = fake_signer(listener, vec![vec![Response::Welcome { keys: vec![secrets(1).public()] }, signed]]);
    let client = place.client();
    for _ in 0..10 {
        assert!(!client.holds(&secrets(2).public().0, &secrets(2).public().1));
    }
    // A second connection would get no answer.
    assert!(client.sign(key(), scope(), header(1, 1)).is_ok());
    drop(client);
    signer.join().unwrap();
}

#[test]
fn wrong_signatures_are_failures() {
    let place = Place::new();
    let listener = UnixListener::bind(place.socket()).unwrap();
    let welcome = || Response::Welcome { keys: vec![secrets(1).public()] };
    let signed = |number, statement| Response::Signed(secrets(number).sign(&scope(), &statement));
    let wrong = [
        signed(2, header(1, 1)),
        signed(1, header(1, 2)),
        signed(1, vote(1, 1)),
        Response::Signed(vec![0; 48].into()),
        Response::Signed(Bytes::new()),
        welcome(),
        Response::Busy,
    ];
    let failures = wrong.len() as u64;
    let mut connections = wrong.map(|answer| vec![welcome(), answer]).to_vec();
    // The connection stays open after valid answers.
    let unnamed = signed(2, header(1, 1));
    connections.push(vec![welcome(), signed(1, header(1, 1)), Response::Refused(Refusal::OtherReport), unnamed]);
    let signer = fake_signer(listener, connections);
    let client = place.client();
    for failure in 1..=failures {
        assert_eq!(client.sign(key(), scope(), header(1, 1)), Err(Unsigned::Unavailable));
        let SignerStats { is_up, failures, .. } = client.stats();
        assert_eq!((is_up, failures), (false, failure));
    }
    assert!(client.sign(key(), scope(), header(1, 1)).is_ok());
    assert_eq!(client.sign(key(), scope(), header(1, 1)), Err(Unsigned::Refused));
    let other = secrets(2).public().0;
    assert_eq!(client.sign(other, scope(), header(1, 1)), Err(Unsigned::Unavailable), "a key that was not named");
    assert_eq!((client.stats().signed, client.stats().failures), (1, failures + 1));
    signer.join().unwrap();
}

#[test]
fn invalid_public_keys_are_refused() {
    let place = Place::new();
    let listener = UnixListener::bind(place.socket()).unwrap();
    let signer = fake_signer(listener, vec![vec![Response::Welcome { keys: vec![(B256::ZERO, [0; 96])] }]]);
    let error = RemoteSigner::connect(&place.socket(), CHAIN, GENESIS).unwrap_err();
    assert!(matches!(error, ClientError::Invalid), "{error}");
    signer.join().unwrap();
}

#[test]
fn signer_of_another_user_is_refused() {
    use rustix::{process::Uid, thread::set_thread_res_uid};
    if !rustix::process::geteuid().is_root() {
        // Only root can act as another user.
        return;
    }
    let place = Place::new();
    fs::set_permissions(place.0.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let (socket, other) = (place.socket(), 12_345);
    let listener = std::thread::spawn(move || {
        let uid = Uid::from_raw(other);
        set_thread_res_uid(uid, uid, uid).unwrap();
        UnixListener::bind(socket).unwrap()
    });
    let listener = listener.join().unwrap();
    let error = RemoteSigner::connect(&place.socket(), CHAIN, GENESIS).unwrap_err();
    assert!(matches!(error, ClientError::OtherUser { uid } if uid == other), "{error}");
    // The owner of the directory may replace the socket, and is trusted with it.
    chown(place.0.path(), Some(other), None).unwrap();
    drop(listener.accept().unwrap());
    let signer = fake_signer(listener, vec![vec![Response::Welcome { keys: Vec::new() }]]);
    drop(place.client());
    signer.join().unwrap();
}

#[test]
fn client_does_not_wait_for_a_signer_that_hangs() {
    let place = Place::new();
    let server = place.start();
    let client = place.client().with_response_timeout(Duration::from_millis(1));
    server.stop();
    // Nobody accepts. The queue of connections is full after some attempts.
    let _hanging = UnixListener::bind(place.socket()).unwrap();
    for attempt in 1..=300 {
        assert_eq!(client.sign(key(), scope(), header(1, 1)), Err(Unsigned::Unavailable));
        assert_eq!(client.stats().failures, attempt);
    }
}

#[test]
fn crash_of_the_signer_changes_no_outcome() {
    let place = Place::new();
    let server = place.start();
    let client = place.client();
    let statements = || [header(3, 1), vote(1, 1), vote(2, 1)];
    let before = statements().map(|statement| client.sign(key(), scope(), statement));
    assert!(before.iter().all(Result::is_ok));
    let crashed = place.marks_now();
    server.stop();
    assert_eq!(place.marks_now(), crashed, "a clean stop writes nothing");

    let server = place.start();
    let client = place.client();
    assert_eq!(statements().map(|statement| client.sign(key(), scope(), statement)), before);
    assert_eq!(place.marks_now(), crashed, "a repeat writes nothing");
    for contradiction in [header(3, 2), vote(1, 2), vote(2, 2)] {
        assert_eq!(client.sign(key(), scope(), contradiction), Err(Unsigned::Refused));
    }
    for next in [header(4, 1), vote(3, 1)] {
        assert!(client.sign(key(), scope(), next).is_ok(), "nothing is skipped");
    }
    server.stop();
}

#[test]
fn first_epoch_without_marks_stays_closed() {
    let place = Place::new();
    let options = ServerOptions { from_epoch: None, ..place.options() };
    let sign = |epoch| {
        let server = Running::new(Server::bind(&options, vec![secrets(1)]).unwrap());
        let signature = place.client().sign(key(), Scope { epoch: Epoch(epoch), ..scope() }, header(1, 1));
        server.stop();
        signature.is_ok()
    };
    assert_eq!([4, 4, 5, 4].map(sign), [false, false, true, false]);
}

#[test]
fn marks_have_one_signer_and_sockets_one_listener() {
    let place = Place::new();
    let server = place.start();
    let same_marks = Server::bind(&place.options(), Vec::new()).unwrap_err();
    assert!(matches!(same_marks, ServerError::Marks(MarkError::Locked { .. })), "{same_marks}");
    let other_marks = ServerOptions { marks: place.0.path().join("other"), ..place.options() };
    let same_socket = Server::bind(&other_marks, Vec::new()).unwrap_err();
    assert!(matches!(same_socket, ServerError::SocketInUse { .. }), "{same_socket}");
    server.stop();
    assert!(!place.socket().exists());
}

#[test]
fn old_socket_is_replaced_but_no_file() {
    let place = Place::new();
    drop(UnixListener::bind(place.socket()).unwrap());
    let server = place.start();
    assert_eq!(fs::metadata(place.socket()).unwrap().permissions().mode() & 0o777, 0o700);
    place.raw().hello();
    server.stop();
    fs::write(place.socket(), "a file").unwrap();
    let error = Server::bind(&place.options(), Vec::new()).unwrap_err();
    assert!(matches!(error, ServerError::NoSocket { .. }), "{error}");
    assert_eq!(fs::read(place.socket()).unwrap(), b"a file");
}

#[test]
fn another_user_is_not_answered() {
    let place = Place::new();
    let uid = Some(rustix::process::getuid().as_raw() + 1);
    match Server::bind(&ServerOptions { uid, ..place.options() }, vec![secrets(1)]) {
        // Only root gives a socket away, and may connect to it all the same.
        Ok(server) => {
            let _server = Running::new(server);
            assert_eq!(place.raw().answer(), None);
        }
        Err(error) => assert!(error.to_string().starts_with("set the owner of"), "{error}"),
    }
}

#[test]
fn unread_answers_close() {
    let place = Place::new();
    let _server = place.start();
    let mut raw = place.raw();
    raw.hello();
    raw.stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let frame = encode_frame(&Request::Hello { chain_id: CHAIN, genesis: GENESIS }).unwrap();
    // A signer that waited for its client would block this loop until the timeout.
    let error = std::iter::repeat_with(|| raw.stream.write_all(&frame)).find_map(Result::err).unwrap();
    assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
    place.raw().hello();
}

#[test]
fn failed_write_ends_the_server_without_a_signature() {
    let place = Place::new();
    let mut server = place.start();
    fs::remove_dir_all(place.options().marks).unwrap();
    let mut raw = place.raw();
    raw.send(&Request::Hello { chain_id: CHAIN, genesis: GENESIS });
    assert_eq!(raw.answer(), None);
    let ended = server.thread.take().unwrap().join().unwrap();
    assert!(matches!(ended, Err(ServerError::Marks(MarkError::Io { operation: "create", .. }))), "{ended:?}");
}
