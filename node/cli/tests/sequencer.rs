//! `corniche sequencer`, as an operator uses it.

use corniche_aom_wire::{ExchangeKey, Packet, encode_request};
use std::{
    fs,
    io::{BufRead, BufReader},
    net::UdpSocket,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

const GROUP: u32 = 7;
const SECRET: [u8; 32] = [3; 32];

/// Directory with a key and a configuration for one receiver.
struct Operator {
    folder: tempfile::TempDir,
    receiver: UdpSocket,
}

impl Operator {
    fn new() -> Self {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let operator = Self { folder: tempfile::tempdir().unwrap(), receiver };
        fs::write(operator.path("sequencer.key"), hex::encode(SECRET) + "\n").unwrap();
        operator.set_mode(0o600);
        operator.configure(1);
        operator
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        Path::new(self.folder.path()).join(name)
    }

    fn set_mode(&self, mode: u32) {
        fs::set_permissions(self.path("sequencer.key"), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn configure(&self, epoch: u32) {
        let address = self.receiver.local_addr().unwrap();
        let key = hex::encode(ExchangeKey::from_bytes([4; 32]).public());
        let text = format!(
            "listen = \"127.0.0.1:0\"\n[[groups]]\ngroup = {GROUP}\nchain_id = 86\nepoch = {epoch}\nsuite = 1\n\
             key = \"sequencer.key\"\n[[groups.receivers]]\naddress = \"{address}\"\nexchange_key = \"{key}\"\n"
        );
        fs::write(self.path("sequencer.toml"), text).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corniche"));
        command.args(["sequencer", "--config"]).arg(self.path("sequencer.toml")).args(arguments);
        command.current_dir(&self.folder).env("CORNICHE_LOG", "info");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Starts the sequencer, sends one request, and stops it by SIGTERM. Returns epoch and number of the packet.
    fn serve_one(&self) -> (u32, u64) {
        let mut process = self.command(&["--data", "data"]).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| Some(line.split_once(" address=")?.1.split(' ').next()?.to_owned()));
        self.receiver.send_to(&encode_request(GROUP, b"request").unwrap(), address.expect("it starts")).unwrap();
        let mut datagram = [0; 512];
        let length = self.receiver.recv(&mut datagram).unwrap();
        let header = Packet::decode(&datagram[..length]).unwrap().header;
        assert!(Command::new("kill").arg(process.id().to_string()).status().unwrap().success());
        assert!(process.wait().unwrap().success(), "SIGTERM is a normal end");
        (header.epoch, header.seq)
    }
}

fn message(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8(output.stderr.clone()).unwrap())
}

#[test]
fn restart_needs_a_newer_epoch() {
    let operator = Operator::new();
    assert_eq!(operator.serve_one(), (1, 1));
    let (code, text) = message(&operator.run(&["--data", "data"]));
    assert_eq!(code, Some(1));
    assert!(text.contains("group 7 of chain 86: epoch 1 is not newer than epoch 1"), "{text}");
    assert!(text.contains("Get an epoch above 1"), "{text}");
    operator.configure(2);
    // Heartbeats of the first run may wait in the socket.
    while operator.receiver.set_nonblocking(true).is_ok() && operator.receiver.recv(&mut [0; 512]).is_ok() {}
    operator.receiver.set_nonblocking(false).unwrap();
    assert_eq!(operator.serve_one(), (2, 1));
}

#[test]
fn public_keys_need_no_data_directory() {
    let operator = Operator::new();
    let output = operator.run(&["--public-keys"]);
    assert!(output.status.success(), "{output:?}");
    let keys: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(keys, serde_json::json!({ "7": hex::encode(ExchangeKey::from_bytes(SECRET).public()) }));
    assert_eq!(operator.run(&[]).status.code(), Some(2), "--data is missing");
    assert!(!operator.path("data").exists());
}

#[test]
fn readable_key_is_refused() {
    let operator = Operator::new();
    operator.set_mode(0o644);
    let (code, text) = message(&operator.run(&["--data", "data"]));
    assert_eq!(code, Some(1));
    assert!(text.contains("can be read by others"), "{text}");
    assert!(!operator.path("data").exists(), "no epoch is used");
}
