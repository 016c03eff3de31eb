//! From an empty folder to a deployed contract: `corniche contract new`, `build`, `abi` of a source,
//! `deploy`, `verify`. Cargo builds the projects from the registry's crates, in a folder that is kept between
//! runs.

mod common;

use common::Terminal;
use serde_json::Value;
use std::{fs, path::Path, process::Command};

impl Terminal {
    /// `cargo test` in a project, as its author runs it.
    fn cargo_test(&self, project: &str) {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["test", "--locked"])
            .current_dir(self.folder.path().join(project))
            .env("CARGO_TARGET_DIR", common::PROJECTS)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{project}: {}{told}", String::from_utf8_lossy(&output.stdout));
        assert!(!told.contains("warning"), "{project}: {told}");
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.says(words)).unwrap()
    }
}

#[test]
fn counter_project_end_to_end() {
    let terminal = Terminal::new();
    assert_eq!(terminal.says(&["contract", "new", "my-counter"]), "my-counter");
    terminal.cargo_test("my-counter");
    terminal.says(&["contract", "abi", "my-counter", "--check"]);
    let built = terminal.json(&["contract", "build", "my-counter", "--no-wasm-opt", "--out", "here.wasm", "--json"]);
    assert_eq!((&built["carriesAbi"], &built["memoryPages"]), (&true.into(), &1.into()), "{built}");

    // Same bytes in another folder, with another build folder and other compiler flags.
    let elsewhere = terminal.folder.path().join("a/much/longer/way/to");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::rename(terminal.folder.path().join("my-counter"), elsewhere.join("somewhere-else")).unwrap();
    let mut command = terminal.command(&["contract", "build", "--no-wasm-opt", "--json"]);
    let target = elsewhere.join("somewhere-else/target");
    command.current_dir(elsewhere.join("somewhere-else")).env("CARGO_TARGET_DIR", target).env("RUSTFLAGS", "-C opt-level=1");
    let output = command.env("CARGO_PROFILE_RELEASE_DEBUG", "2").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let again: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(again["keccak256"], built["keccak256"]);
    let file = fs::canonicalize(elsewhere.join("somewhere-else/target/corniche/my_counter.wasm")).unwrap();
    assert_eq!(again["file"].as_str(), file.to_str());
    let module = fs::read(&file).unwrap();
    assert_eq!(module, fs::read(terminal.folder.path().join("here.wasm")).unwrap());
    let home = std::env::var("HOME").unwrap();
    for path in [terminal.folder.path().to_str().unwrap(), &home, "/.cargo/"] {
        let carried = module.windows(path.len()).any(|part| part == path.as_bytes());
        assert!(!carried, "the module carries {path}");
    }

    let project = elsewhere.join("somewhere-else");
    let (project, file) = (project.to_str().unwrap(), file.to_str().unwrap());
    let counter = terminal.says(&["contract", "deploy", file, "--dev-account"]);
    terminal.says(&["contract", "send", &counter, "add", "41", "--dev-account"]);
    assert_eq!(terminal.says(&["contract", "call", &counter, "number"]), "41");
    let told = terminal.says(&["contract", "verify", &counter, project]);
    assert!(told.starts_with(&format!("{counter} is my-counter in ")) && told.contains("rustc 1."), "{told}");
    assert!(told.contains(built["keccak256"].as_str().unwrap()), "the hash is that of the build: {told}");
    terminal.says(&["contract", "verify", &counter, file]);

    let source = Path::new(project).join("src/lib.rs");
    let text = fs::read_to_string(&source).unwrap();
    fs::write(&source, text.replace("self.add(U256::from(1))", "self.add(U256::from(2))")).unwrap();
    let (code, told) = terminal.refuses(&["contract", "verify", &counter, project]);
    assert!(code == 1 && told.contains(&format!("{counter} is not my-counter in ")), "{told}");
    assert!(told.contains("is the first that differs: ") && told.contains("code: "), "{told}");

    // After adding a function, the stored ABI is outdated.
    fs::write(
        &source,
        text.replace(
            "    pub fn number(",
            "    pub fn twice(&self) -> U256 {\n        self.number.get()\n    }\n\n    pub fn number(",
        ),
    )
    .unwrap();
    let (code, told) = terminal.refuses(&["contract", "abi", project, "--check"]);
    assert!(code == 1 && told.contains("+ {") && told.contains("twice") && told.contains("--write"), "{told}");
    terminal.says(&["contract", "abi", project, "--write"]);
    terminal.says(&["contract", "abi", project, "--check"]);
}

#[test]
fn token_project_end_to_end() {
    let terminal = Terminal::new();
    terminal.says(&["contract", "new", "gold", "--template", "token"]);
    terminal.cargo_test("gold");
    terminal.says(&["contract", "abi", "gold", "--check"]);
    let built = terminal.json(&["contract", "build", "gold", "--json"]);
    let file = built["file"].as_str().unwrap();
    // The folder is equivalent to the module built from it.
    let [of_folder, of_file] = ["gold", file].map(|path| terminal.json(&["contract", "check", path, "--json"]));
    assert_eq!(of_folder, of_file);
    let token = terminal.says(&["contract", "deploy", "gold", "Gold", "GLD", "1000000", "--dev-account"]);
    terminal.says(&["contract", "verify", &token, file]);
    assert_eq!(terminal.says(&["contract", "call", &token, "symbol"]), "GLD");
    let used = built["callGas"]["first"].as_u64().unwrap();
    assert!((5_000..40_000).contains(&used), "{built}");
}

#[test]
fn build_errors_give_advice() {
    let terminal = Terminal::new();
    for (name, says) in [("2fast", "a letter first"), ("test", "Rust or cargo")] {
        let (_, told) = terminal.refuses(&["contract", "new", name]);
        assert!(told.contains(says), "{told}");
    }
    let (_, told) = terminal.refuses(&["contract", "build", "nowhere"]);
    assert!(told.contains("corniche contract new"), "{told}");
    terminal.says(&["contract", "new", "mine"]);
    let (_, told) = terminal.refuses(&["contract", "new", "mine"]);
    assert!(told.contains("not empty"), "{told}");
    let manifest = terminal.folder.path().join("mine/Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("[\"lib\", \"cdylib\"]", "[\"lib\"]")).unwrap();
    for command in ["build", "check", "deploy"] {
        let (_, told) = terminal.refuses(&["contract", command, "mine"]);
        assert!(told.contains("crate-type = [\"lib\", \"cdylib\"]"), "{command}: {told}");
    }
    fs::write(&manifest, text.replace("export-abi = [", "other = [")).unwrap();
    let (_, told) = terminal.refuses(&["contract", "abi", "mine"]);
    assert!(told.contains("export-abi = [\"stylus-sdk/export-abi\"]"), "{told}");
    fs::write(&manifest, text).unwrap();
    fs::remove_file(terminal.folder.path().join("mine/Cargo.lock")).unwrap();
    let (_, told) = terminal.refuses(&["contract", "build", "mine"]);
    assert!(told.contains("cargo update --workspace"), "{told}");
    // Invalid ABI file next to the manifest.
    terminal.says(&["contract", "new", "other"]);
    fs::write(terminal.folder.path().join("other/abi.json"), "{}").unwrap();
    let (_, told) = terminal.refuses(&["contract", "build", "other"]);
    assert!(told.contains("abi.json"), "{told}");
}
