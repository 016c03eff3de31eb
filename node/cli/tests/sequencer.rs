//! `corniche sequencer`, as operators and validators of a network use it.

use corniche_aom_sequencer::public_key;
use corniche_aom_wire::{
    EpochStart, ExchangeKey, Header, Packet, Suite, TagScope, VerifyingKey, derive_tag_key, encode_request,
};
use corniche_console::secret;
use corniche_engine::Committee;
use corniche_neobft::{
    crypto::ValidatorKeys,
    message::{Confirmed, Context, Slot, Statement, View, ViewCertificate},
};
use corniche_service::{Network, NetworkSpec, make_network};
use corniche_types::{B256, Bytes, EngineConfig, MulticastGroup, ValidatorIndex, wire};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpStream, UdpSocket},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

const VALIDATORS: usize = 4;
const GROUP: u32 = 7;

/// Directory with a genesis of four validators, and with keys and configurations of two sequencers.
struct Operator {
    folder: tempfile::TempDir,
    network: Network,
    suite: Suite,
    receivers: Vec<UdpSocket>,
    sender: UdpSocket,
}

/// A sequencer process.
struct Running {
    process: Child,
    address: String,
    admin: String,
}

impl Operator {
    fn new(suite: Suite) -> Self {
        let receiver = |_| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            socket
        };
        let parameters = BTreeMap::from([("payload_bytes".into(), 600)]);
        let engine = EngineConfig { name: "neobft".into(), parameters };
        let mut network =
            make_network(&NetworkSpec { validators: VALIDATORS, seed: [3; 32], ..NetworkSpec::new(engine) }).unwrap();
        let sequencers = [0, 1].map(|index| Bytes::from(public_key(suite, &secret_of(index)).unwrap())).to_vec();
        network.genesis.multicast = Some(MulticastGroup { group: GROUP, suite: suite as u8, sequencers });
        let operator = Self {
            folder: tempfile::tempdir().unwrap(),
            network,
            suite,
            receivers: (0..VALIDATORS).map(receiver).collect(),
            sender: UdpSocket::bind("127.0.0.1:0").unwrap(),
        };
        operator.write_genesis();
        for index in [0, 1] {
            secret::write(&operator.path(&format!("{index}.key")), &hex::encode(secret_of(index))).unwrap();
            operator.configure(index, VALIDATORS);
        }
        operator
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write_genesis(&self) {
        fs::write(self.path("genesis.json"), self.network.genesis.to_json()).unwrap();
    }

    fn configure(&self, index: u8, receivers: usize) {
        let addresses: Vec<_> = self.receivers.iter().map(|socket| socket.local_addr().unwrap().to_string()).collect();
        let text = format!(
            "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nheartbeat_after_us = 1000000000000\n[[groups]]\ngenesis = \"genesis.json\"\n\
             key = \"{index}.key\"\nreceivers = {:?}\n",
            &addresses[..receivers]
        );
        fs::write(self.path(&format!("{index}.toml")), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corniche"));
        command.arg("sequencer").args(arguments).current_dir(&self.folder).env("CORNICHE_LOG", "info");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Message of a sequencer that does not start.
    fn refuses(&self, index: u8) -> String {
        let output = self.run(&["--config", &format!("{index}.toml"), "--data", "data"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(!self.path("data").exists(), "nothing is written before the group is known");
        String::from_utf8(output.stderr).unwrap()
    }

    fn start(&self, index: u8) -> Running {
        let (config, data) = (format!("{index}.toml"), format!("data-{index}"));
        let mut process = self.command(&["--config", &config, "--data", &data]).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("sequencer is on standby")).expect("it starts");
        let field = |name: &str| line.split_once(name).unwrap().1.split(' ').next().unwrap().trim_matches('"').to_owned();
        let running = Running { process, address: field("address="), admin: field("admin=") };
        // A closed pipe would stop the process at its next line.
        std::thread::spawn(move || lines.for_each(drop));
        running
    }

    fn committee(&self) -> Committee {
        Committee::from_genesis(&self.network.genesis)
    }

    /// Certificate of these validators for the first view of an epoch.
    fn certificate(&self, epoch: u32, signers: &[u16]) -> Vec<u8> {
        let (committee, slot) = (self.committee(), Slot(5));
        let confirmed = Confirmed { view: View { epoch, leader: 1 }, base: slot, slot, hash: B256::repeat_byte(1) };
        let vote = |&index: &u16| {
            let keys = ValidatorKeys::new(&committee, self.network.validators[usize::from(index)].consensus.clone()).unwrap();
            let signature = Context::new(&committee, GROUP).sign(&Statement::ViewConfirm(confirmed), &keys).unwrap();
            (ValidatorIndex(index), signature)
        };
        wire::encode(&ViewCertificate { confirmed, votes: signers.iter().map(vote).collect() })
    }

    fn send(&self, running: &Running, datagram: &[u8]) {
        self.sender.send_to(datagram, &running.address).unwrap();
    }

    /// Begins an epoch as the validators do: they ask until they see it.
    fn begin(&self, running: &Running, epoch: u32, certificate: &[u8]) {
        let start = EpochStart { group: GROUP, epoch, certificate }.encode().unwrap();
        while running.epoch() != Some(epoch) {
            self.send(running, &start);
        }
        for receiver in 0..VALIDATORS {
            let mut first = self.receive(receiver);
            while first.0.epoch != epoch {
                first = self.receive(receiver);
            }
            assert_eq!((first.0.seq, first.1.len()), (1, 0), "an epoch begins with a heartbeat");
        }
    }

    /// Sends a request, which each validator gets with one number.
    fn request(&self, running: &Running) {
        let epoch = running.epoch();
        // The first one is above the genesis' limit.
        for payload in [&[1; 601][..], b"request"] {
            self.send(running, &encode_request(GROUP, payload).unwrap());
        }
        let number = |receiver| {
            loop {
                let (header, payload) = self.receive(receiver);
                // Repeated starts of epochs got further heartbeats.
                if Some(header.epoch) == epoch && !payload.is_empty() {
                    assert_eq!(payload, b"request");
                    return header.seq;
                }
            }
        };
        let numbers: Vec<_> = (0..VALIDATORS).map(number).collect();
        assert!(numbers.iter().all(|number| *number == numbers[0] && *number > 1), "{numbers:?}");
    }

    /// Waits for the next packet of a validator, and checks it with the validator's keys.
    fn receive(&self, receiver: usize) -> (Header, Vec<u8>) {
        let mut datagram = [0; 2048];
        let length = self.receivers[receiver].recv(&mut datagram).expect("a packet arrives");
        let packet = Packet::decode(&datagram[..length]).unwrap();
        self.verify(&packet.header, receiver);
        (packet.header, packet.payload.to_vec())
    }

    fn verify(&self, header: &Header, receiver: usize) {
        let genesis = &self.network.genesis;
        let public = &genesis.multicast.as_ref().unwrap().sequencers[header.epoch as usize % 2];
        if self.suite == Suite::Ed25519 {
            let key = VerifyingKey::from_bytes(self.suite, public).unwrap();
            assert_eq!(header.is_signed(), header.verify_signature(&key).is_ok());
            assert!(header.seq > 1 || header.is_signed());
            return;
        }
        let own = ExchangeKey::from_ed25519(&self.network.validators[receiver].network.seed());
        let shared = own.agree(public[..].try_into().unwrap()).unwrap();
        let (chain_id, epoch, suite) = (genesis.chain_id, header.epoch, self.suite);
        let scope = TagScope { chain_id, group: GROUP, epoch, receiver: receiver as u16, suite };
        assert_eq!(header.verify_tag(&derive_tag_key(&shared, scope).unwrap()), Ok(()));
    }

    /// Sends the start of an epoch until a certificate was checked and refused.
    fn expect_invalid(&self, running: &Running, epoch: u32, certificate: &[u8]) {
        let start = EpochStart { group: GROUP, epoch, certificate }.encode().unwrap();
        let before = running.refused("certificate");
        while running.refused("certificate") == before {
            self.send(running, &start);
        }
        assert_ne!(running.epoch(), Some(epoch));
    }
}

impl Running {
    fn health(&self) -> serde_json::Value {
        let mut stream = TcpStream::connect(&self.admin).unwrap();
        write!(stream, "GET /health HTTP/1.1\r\nHost: sequencer\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        serde_json::from_str(response.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    fn epoch(&self) -> Option<u32> {
        self.health()["groups"][0]["epoch"].as_u64().map(|epoch| epoch as u32)
    }

    fn refused(&self, reason: &str) -> u64 {
        self.health()["refused"][reason].as_u64().unwrap()
    }

    fn stop(mut self) {
        assert!(Command::new("kill").arg(self.process.id().to_string()).status().unwrap().success());
        assert!(self.process.wait().unwrap().success(), "SIGTERM is a normal end");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process has ended already, except in a test that fails.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn secret_of(index: u8) -> [u8; 32] {
    [index + 30; 32]
}

/// Two sequencers serve alternate epochs; one that was killed serves again when its next epoch comes.
#[test]
fn validators_begin_epochs() {
    for suite in [Suite::SipHash64, Suite::Ed25519] {
        let operator = Operator::new(suite);
        let certificate = |epoch| operator.certificate(epoch, &[0, 2, 3]);
        let [first, second] = [0, 1].map(|index| operator.start(index));
        assert_eq!((first.epoch(), second.epoch()), (None, None), "both are on standby");
        operator.begin(&first, 0, b"");
        operator.request(&first);
        operator.begin(&second, 1, &certificate(1));
        operator.request(&second);
        operator.begin(&first, 2, &certificate(2));
        drop(first);

        let first = operator.start(0);
        operator.send(&first, &encode_request(GROUP, b"dropped").unwrap());
        let again = EpochStart { group: GROUP, epoch: 2, certificate: &certificate(2) }.encode().unwrap();
        while first.refused("used") == 0 {
            operator.send(&first, &again);
        }
        assert_eq!(first.epoch(), None, "no process resumes an epoch");
        operator.begin(&second, 3, &certificate(3));
        operator.begin(&first, 4, &certificate(4));
        operator.request(&first);
        first.stop();
        second.stop();
        assert_eq!(
            [0, 1].map(|index| fs::read_to_string(operator.path(&format!("data-{index}/EPOCHS"))).unwrap()),
            [4, 3].map(|epoch| format!("{} {GROUP} {epoch}\n", operator.network.genesis.chain_id))
        );
    }
}

#[test]
fn invalid_certificates_begin_no_epoch() {
    let operator = Operator::new(Suite::SipHash64);
    let running = operator.start(1);
    let valid = operator.certificate(3, &[0, 1, 2]);
    let mut changed = valid.clone();
    *changed.last_mut().unwrap() ^= 1;
    let mut other = Operator::new(Suite::SipHash64);
    other.network.genesis.chain_id += 1;
    for (certificate, about) in [
        (operator.certificate(3, &[1, 2]), "two of four are no quorum"),
        (operator.certificate(3, &[0, 1, 1]), "one of them votes twice"),
        (operator.certificate(1, &[0, 1, 2]), "an earlier epoch"),
        (operator.certificate(5, &[0, 1, 2]), "a later epoch"),
        (other.certificate(3, &[0, 1, 2]), "another chain"),
        (changed, "another signature"),
        (valid[..valid.len() - 1].to_vec(), "cut"),
        ([&valid[..], &[0]].concat(), "longer"),
        (vec![], "empty"),
        (vec![255; 8_800], "noise"),
    ] {
        operator.expect_invalid(&running, 3, &certificate);
        assert_eq!(running.epoch(), None, "{about}");
    }
    // That of epoch 2 is valid, but sequencer 0 serves it.
    let not_mine = EpochStart { group: GROUP, epoch: 2, certificate: &operator.certificate(2, &[0, 1, 2]) };
    while running.refused("not_mine") == 0 {
        operator.send(&running, &not_mine.encode().unwrap());
    }
    operator.begin(&running, 3, &valid);
    operator.request(&running);
    running.stop();
}

#[test]
fn public_key_needs_no_genesis() {
    let operator = Operator::new(Suite::SipHash64);
    for suite in [Suite::SipHash64, Suite::SipHash128, Suite::Ecdsa, Suite::Ed25519] {
        let output = operator.run(&["--public-key", "0.key", "--suite", &(suite as u8).to_string()]);
        assert!(output.status.success(), "{output:?}");
        let expected = hex::encode(public_key(suite, &secret_of(0)).unwrap());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("0x{expected}\n"));
    }
    for arguments in [
        &["--public-key", "0.key"][..],
        &["--public-key", "0.key", "--suite", "3"],
        &["--public-key", "0.key", "--suite", "1", "--data", "data"],
        &["--config", "0.toml"],
        &["--data", "data"],
        &[],
    ] {
        assert_eq!(operator.run(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

/// Each message names the file and the remedy.
#[test]
fn unusable_groups_are_refused() {
    let mut operator = Operator::new(Suite::SipHash64);
    operator.configure(0, 3);
    let text = operator.refuses(0);
    assert!(text.contains("genesis.json: receivers: expected 4 addresses, one for each validator"), "{text}");
    operator.configure(0, VALIDATORS);

    let key = operator.path("0.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let text = operator.refuses(0);
    assert!(text.contains("can be read by others"), "{text}");
    fs::remove_file(&key).unwrap();
    secret::write(&key, &hex::encode(secret_of(9))).unwrap();
    let text = operator.refuses(0);
    let own = hex::encode(public_key(Suite::SipHash64, &secret_of(9)).unwrap());
    assert!(text.contains(&format!("expected 0x{own}, the public key of")), "{text}");

    operator.network.genesis.multicast = None;
    operator.write_genesis();
    let text = operator.refuses(0);
    assert!(text.contains("add `multicast` to the genesis"), "{text}");
    fs::remove_file(operator.path("genesis.json")).unwrap();
    let text = operator.refuses(0);
    assert!(text.contains("cannot read") && text.contains("genesis.json"), "{text}");
}
