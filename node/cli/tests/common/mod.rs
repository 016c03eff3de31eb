//! `corniche dev`, and `corniche node`, as users run them: a process and a socket.

#![allow(dead_code)] // each test file uses only a part

use serde_json::{Value, json};
use std::{
    ffi::OsStr,
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
};

/// Node as a process, killed on drop: a development chain, or a validator.
pub struct Node {
    process: Child,
    rpc: String,
    /// Output of a development chain when it was ready; of a validator, only `rpc`.
    pub says: Value,
}

impl Node {
    pub fn start(arguments: &[&str]) -> Self {
        Self::run(arguments, Stdio::null())
    }

    /// Also returns the lines of its standard error.
    pub fn overheard() -> (Self, impl Iterator<Item = String>) {
        let mut node = Self::run(&[], Stdio::piped());
        let lines = BufReader::new(node.process.stderr.take().unwrap()).lines().map(Result::unwrap);
        (node, lines)
    }

    fn run(arguments: &[&str], stderr: Stdio) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_corniche"))
            .args(["dev", "--port", "0", "--json", "--no-explorer"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let says: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no chain: {line}"));
        let rpc = says["rpc"].as_str().unwrap().trim_start_matches("http://").to_owned();
        Self { process, rpc, says }
    }

    /// Validator with the `node.toml` in this directory.
    pub fn validator(directory: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_corniche"))
            .args([OsStr::new("node"), "--config".as_ref(), directory.join("node.toml").as_ref()])
            .args([OsStr::new("--data"), directory.join("data").as_ref()])
            .env("CORNICHE_LOG", "info")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let rpc = lines.find_map(|line| Some(line.split_once(" rpc=")?.1.split(' ').next()?.to_owned())).expect("it starts");
        // A full pipe would stop the node.
        thread::spawn(move || lines.for_each(drop));
        Self { process, says: json!({"rpc": format!("http://{rpc}")}), rpc }
    }

    pub fn on(data: &Path) -> Self {
        Self::start(&["--data", data.to_str().unwrap()])
    }

    /// Names of its threads, as far as they have set one.
    pub fn threads(&self) -> Vec<String> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        let name = |thread: io::Result<fs::DirEntry>| fs::read_to_string(thread.ok()?.path().join("comm")).ok();
        // A thread that ends meanwhile has none.
        threads.filter_map(name).map(|name| name.trim_end().to_owned()).collect()
    }

    /// Sends a request; returns the connection on which the response will arrive.
    pub fn ask(&self, method: &str, params: &Value) -> TcpStream {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let mut stream = TcpStream::connect(&self.rpc).unwrap();
        let (host, length) = (&self.rpc, body.len());
        let head = "Content-Type: application/json\r\nConnection: close";
        write!(stream, "POST / HTTP/1.1\r\nHost: {host}\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        stream
    }

    pub fn answer(&self, method: &str, params: &Value) -> Value {
        let mut answer = String::new();
        self.ask(method, params).read_to_string(&mut answer).unwrap();
        let json = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
        serde_json::from_str(json).unwrap_or_else(|_| panic!("{method}: {answer}"))
    }

    pub fn call(&self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, &params);
        assert!(answer.get("error").is_none(), "{method} {params}: {answer}");
        answer["result"].clone()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Build folder of projects created by tests.
pub const PROJECTS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/projects");

/// Terminal in an empty folder, with a chain.
pub struct Terminal {
    pub node: Node,
    pub folder: tempfile::TempDir,
}

impl Terminal {
    pub fn new() -> Self {
        Self::beside(Node::start(&[]))
    }

    pub fn beside(node: Node) -> Self {
        Self { node, folder: tempfile::tempdir().unwrap() }
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_corniche"));
        command.args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("CORNICHE_RPC", self.node.says["rpc"].as_str().unwrap());
        command.env("CORNICHE_KEYSTORES", self.folder.path().join("keystores"));
        command.env("CARGO_TARGET_DIR", PROJECTS);
        for unset in ["CORNICHE_KEY", "CORNICHE_KEYSTORE", "CORNICHE_PASSWORD", "CORNICHE_EXPLORER"] {
            command.env_remove(unset);
        }
        command
    }

    pub fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Result on standard output.
    pub fn says(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Exit code, and messages on standard error.
    pub fn refuses(&self, words: &[&str]) -> (i32, String) {
        let output = self.run(words);
        assert!(output.stdout.is_empty(), "{words:?}: {output:?}");
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }
}
