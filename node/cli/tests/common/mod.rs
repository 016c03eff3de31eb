//! `corniche dev` as its users have it: a process, and a socket.

#![allow(dead_code)] // each test file uses its part

use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

/// A development chain as a process of its own, which dropping kills.
pub struct Node {
    process: Child,
    rpc: String,
    /// What it printed when it was up.
    pub says: Value,
}

impl Node {
    pub fn start(arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_corniche"))
            .args(["dev", "--port", "0", "--json"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let says: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no chain: {line}"));
        let rpc = says["rpc"].as_str().unwrap().trim_start_matches("http://").to_owned();
        Self { process, rpc, says }
    }

    pub fn on(data: &Path) -> Self {
        Self::start(&["--data", data.to_str().unwrap()])
    }

    /// A connection on which the answer will come.
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
