//! `corniche keys backup` and `corniche keys restore`, as an operator uses them.

use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

/// Folder with `keys/`, a password in the file `password`, and a backup in `backup.json`.
struct Operator {
    folder: TempDir,
}

impl Operator {
    fn with_backup() -> Self {
        let operator = Self { folder: tempfile::tempdir().unwrap() };
        operator.says(&["keys", "new", "--out", "keys"], "");
        fs::write(operator.folder.path().join("password"), "correct horse\n").unwrap();
        let shown = operator.says(&["keys", "backup", "--out", "backup.json", "--password-file", "password"], "");
        assert_eq!(shown.trim_end(), operator.json("keys/public.json")["consensus_key"].as_str().unwrap());
        operator
    }

    fn run(&self, words: &[&str], input: &str) -> Output {
        let mut process = Command::new(env!("CARGO_BIN_EXE_corniche"))
            .args(words)
            .current_dir(&self.folder)
            .env_remove("CORNICHE_PASSWORD")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that reads no input closes the pipe when it ends.
        let _ = process.stdin.take().unwrap().write_all(input.as_bytes());
        process.wait_with_output().unwrap()
    }

    /// Result on standard output.
    fn says(&self, words: &[&str], input: &str) -> String {
        let output = self.run(words, input);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Exit code, and messages on standard error.
    fn refuses(&self, words: &[&str], input: &str) -> (i32, String) {
        let output = self.run(words, input);
        assert!(output.stdout.is_empty(), "{words:?}: {output:?}");
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    fn json(&self, file: &str) -> Value {
        serde_json::from_slice(&fs::read(self.folder.path().join(file)).unwrap()).unwrap()
    }

    fn exists(&self, name: &str) -> bool {
        self.folder.path().join(name).exists()
    }
}

const RESTORE: &[&str] = &["keys", "restore", "backup.json", "--out", "restored", "--password-file", "password"];

/// Files of a directory without folders.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

#[test]
fn keys_are_restored_after_confirmation() {
    let operator = Operator::with_backup();
    let folder = operator.folder.path();
    let backup = operator.json("backup.json");
    assert_eq!(backup["consensus_key"], operator.json("keys/public.json")["consensus_key"]);
    assert_eq!((&backup["version"], &backup["kind"]), (&1.into(), &"corniche-keys-backup".into()));

    let before = fs::read_dir(folder).unwrap().count();
    for input in ["no\n", ""] {
        let (code, message) = operator.refuses(RESTORE, input);
        assert_eq!(code, 2, "{message}");
        for part in [
            "runs twice with the same keys signs contradictory messages and loses stake",
            "the data directory of the old machine must not run any more",
            "a backup never contains what was signed",
            "nothing was written",
        ] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(fs::read_dir(folder).unwrap().count(), before);
    }

    let public = operator.says(RESTORE, "yes\n");
    assert_eq!(serde_json::from_str::<Value>(&public).unwrap(), operator.json("keys/public.json"));
    assert_eq!(files(&folder.join("restored")), files(&folder.join("keys")));
    assert_eq!(operator.says(&["keys", "show", "restored"], ""), public);
    let (code, message) = operator.refuses(RESTORE, "yes\n");
    assert!(code == 1 && message.contains("restored exists already, and is never overwritten"), "{message}");
}

#[test]
fn option_confirms_and_password_is_checked() {
    let operator = Operator::with_backup();
    fs::write(operator.folder.path().join("wrong"), "battery staple\n").unwrap();
    let words = ["keys", "restore", "backup.json", "--out", "restored", "--yes", "--password-file"];
    let (code, message) = operator.refuses(&[&words[..], &["wrong"]].concat(), "");
    assert_eq!(
        (code, message.as_str()),
        (1, "error: cannot open backup.json: the password is wrong, or the file is damaged\n")
    );
    assert!(!operator.exists("restored"));
    operator.says(&[&words[..], &["password"]].concat(), "");
    assert!(operator.exists("restored/consensus.key"));
}

#[test]
fn backup_is_never_overwritten() {
    let operator = Operator::with_backup();
    let before = operator.json("backup.json");
    let (code, message) = operator.refuses(&["keys", "backup", "keys", "--out", "backup.json"], "");
    assert!(code == 1 && message.contains("backup.json exists already, and is never overwritten"), "{message}");
    assert_eq!(operator.json("backup.json"), before);
    let (code, message) = operator.refuses(&["keys", "backup", "keys"], "");
    assert!(code == 2 && message.contains("--out"), "{message}");
}
