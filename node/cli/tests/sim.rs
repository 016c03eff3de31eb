//! `corniche sim` as scripts use it: output channels and exit codes.

use std::{fs, process::Command};

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs a scenario with these arguments.
fn sim(text: &str, args: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenario.toml");
    fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_corniche")).arg("sim").arg(file).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

const SMALL: &str =
    "engine = \"mahi-mahi\"\nnodes = 4\nduration = \"2s\"\n[network]\ndelay_ms = 10\n[load]\nrate = 50\nstop = \"1s\"\n";

#[test]
fn pass_is_json_with_exit_code_0() {
    let ran = sim(SMALL, &["--json", "--seed", "5"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((json["verdict"].as_str(), json["seed"].as_u64()), (Some("pass"), Some(5)));
    assert_eq!((json["submitted"].as_u64(), json["committed"].as_u64(), json["lost"].as_u64()), (Some(50), Some(50), Some(0)));
    let again = sim(SMALL, &["--json", "--seed", "5"]);
    assert_eq!(again.out, ran.out, "the same file and seed");
}

#[test]
fn trace_shows_proposals_and_leaders() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("trace.jsonl");
    let ran = sim(SMALL, &["--trace", file.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let text = fs::read_to_string(file).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let authors: std::collections::BTreeSet<_> =
        lines.iter().filter_map(|line| line["vertex"]["author"].as_str()).map(str::to_owned).collect();
    assert_eq!(authors.len(), 4);
    let committed = |line: &&serde_json::Value| line["slot"]["status"] == "committed" && line["slot"]["why"].is_string();
    assert!(lines.iter().filter(committed).count() > 20, "{} lines", lines.len());
}

#[test]
fn text_report_of_file_seed() {
    let ran = sim(&format!("seed = 9\n{SMALL}"), &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.starts_with("verdict         pass, 0 safety violations\n"), "{}", ran.out);
    assert!(ran.out.contains("seed 9"), "{}", ran.out);
}

#[test]
fn no_quorum_exits_with_8() {
    let ran = sim(&format!("{SMALL}[[fault]]\nkind = \"crash\"\nat = \"0s\"\nnodes = [2, 3]\n"), &["--json"]);
    assert_eq!(ran.code, Some(8), "{}", ran.err);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["verdict"].as_str(), Some("no_progress"));
    assert!(json["latency_ms"]["mean"].is_null(), "{}", ran.out);
}

#[test]
fn comparison_is_a_table_of_engines() {
    let folder = tempfile::tempdir().unwrap();
    let plots = folder.path().join("plots");
    let epochs = format!("epoch_ms = 1000\n{SMALL}");
    let ran = sim(&epochs, &["--compare", "mahi-mahi,neobft,quepaxa", "--plots", plots.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let rows: Vec<_> = ran.out.lines().skip(2).collect();
    assert_eq!(rows.len(), 3, "{}", ran.out);
    assert!(rows[0].starts_with("| Mahi-Mahi | lies | 50 | "), "{}", rows[0]);
    assert!(rows[1].contains("does not run: epoch_ms: expected another engine"), "{}", rows[1]);
    assert!(rows[2].starts_with("| QuePaxa | crashes | 50 | "), "{}", rows[2]);
    let cells = |row: &str| row.matches(" |").count();
    assert!(ran.out.lines().skip(2).all(|row| cells(row) == 12), "{}", ran.out);
    for name in ["latency.svg", "throughput.svg"] {
        let svg = fs::read_to_string(plots.join(name)).unwrap();
        assert_eq!(svg.matches("<polyline").count(), 2, "{name}");
        assert!(svg.contains("QuePaxa") && !svg.contains("NaN"), "{name}: {svg}");
    }
}

#[test]
fn comparison_of_unknown_engine_is_refused() {
    let ran = sim(SMALL, &["--compare", "mahi-mahi,raft"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("no engine named raft; there are mahi-mahi, autobahn"), "{}", ran.err);
}

#[test]
fn invalid_file_names_line_and_exits_with_2() {
    let ran = sim(&format!("{SMALL}\n[disk]\nlatencyy = 1\n"), &["--json"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("scenario.toml:11: unknown key \"latencyy\" in [disk]; known: latency_ms"), "{}", ran.err);
}
