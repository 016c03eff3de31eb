//! A node that lacks what it needs of the system must say so when it starts, and not stop in the middle of a block.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

#[test]
fn insufficient_stack_limit_is_reported() {
    // 64 GiB of writable memory: enough for everything but the stacks of contracts with large frames.
    let script = r#"ulimit -d 67108864 && exec "$0" dev --port 0 --json --no-explorer"#;
    let mut node = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_corniche")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(node.stdout.take().unwrap()).read_line(&mut line).unwrap();
    // A node that serves would run until it is stopped.
    let _ = node.kill();
    assert_eq!(line, "", "the node serves");
    let mut errors = String::new();
    node.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    for part in ["native stack", "RLIMIT_DATA (ulimit -d)", "vm.overcommit_memory to 0 or 1"] {
        assert!(errors.contains(part), "{errors}");
    }
    node.wait().unwrap();
}
