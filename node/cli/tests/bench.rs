//! `corniche bench exec` with sizes that take seconds: every workload runs, parallel results equal serial
//! ones, and the JSON matches docs/bench.md. Needs built contracts: `make contracts`.

use serde_json::Value;
use std::process::{Command, Output};

const SMALL: &str = "--block 48 --blocks 2 --repeats 1 --threads 1,2,4 --accounts 64 --smallbank-customers 200 --smallbank-hot 10 \
    --retwis-users 50 --tpcc-warehouses 2 --tpcc-items 40 --tpcc-customers 10 --ycsb-keys 100";

const WORKLOADS: [&str; 13] = [
    "native",
    "native-one",
    "erc20-uniform",
    "erc20-zipf",
    "amm",
    "mint-plain",
    "mint-commutative",
    "smallbank",
    "retwis",
    "tpcc",
    "ycsb-uniform",
    "ycsb-zipf",
    "all-conflict",
];

fn bench(arguments: &str) -> Output {
    let arguments = arguments.split_whitespace();
    Command::new(env!("CARGO_BIN_EXE_corniche")).args(["bench", "exec"]).args(arguments).output().unwrap()
}

fn report(arguments: &str) -> Value {
    let output = bench(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn parallel_workloads_match_serial() {
    let report = report(&format!("{SMALL} --json"));
    assert_eq!(keys(&report), ["cores", "parameters", "workloads"]);
    assert_eq!(keys(&report["parameters"]), ["blockTransactions", "blocks", "repeats", "seed", "sizes"]);
    let workloads = report["workloads"].as_array().unwrap();
    let names: Vec<_> = workloads.iter().map(|workload| workload["name"].as_str().unwrap()).collect();
    assert_eq!(names, WORKLOADS);
    for workload in workloads {
        let name = &workload["name"];
        let expected = [
            "about",
            "ceiling",
            "equal",
            "gasPerTransaction",
            "name",
            "parallel",
            "reverted",
            "root",
            "serial",
            "skipped",
            "transactions",
        ];
        assert_eq!(keys(workload), expected);
        assert_eq!((&workload["equal"], workload["transactions"].as_u64()), (&Value::Bool(true), Some(96)), "{name}");
        assert_eq!(workload["skipped"], 0, "{name}");
        // Only TPC-C has reverts; so the tables are where the contracts expect them.
        assert!(name == "tpcc" || workload["reverted"] == 0, "{workload:#}");
        assert!(workload["reverted"].as_u64().unwrap() < 10, "{workload:#}");
        assert_eq!(keys(&workload["serial"]), ["cpuMicrosecondsPerTransaction", "transactionsPerSecond"]);
        assert!(workload["serial"]["transactionsPerSecond"].as_f64().unwrap() > 0.0, "{name}");
        assert_eq!(workload["ceiling"].is_number(), report["cores"].as_u64() > Some(1), "{name}");
        let parallel = workload["parallel"].as_array().unwrap();
        let threads: Vec<_> = parallel.iter().map(|parallel| parallel["threads"].as_u64().unwrap()).collect();
        assert_eq!(threads, [1, 2, 4]);
        for parallel in parallel {
            let expected = [
                "cpuAgainstSerial",
                "reexecutionsPerTransaction",
                "serialFallbacksPerTransaction",
                "speculationHitRate",
                "speedup",
                "suspensionsPerTransaction",
                "threads",
                "transactionsPerSecond",
            ];
            assert_eq!(keys(parallel), expected);
            let timed = parallel["threads"].as_u64() <= report["cores"].as_u64();
            assert_eq!(parallel["speedup"].is_number(), timed, "no time with more threads than cores: {parallel:#}");
        }
    }
}

#[test]
fn contracts_run_on_bare_wasmtime() {
    let report = report("--vm-only --rounds 1 --calls 2 --json");
    assert_eq!(keys(&report), ["cores", "parameters", "workloads"]);
    assert_eq!(keys(&report["parameters"]), ["calls", "rounds", "seed"]);
    let workloads = report["workloads"].as_array().unwrap();
    let names: Vec<_> = workloads.iter().map(|workload| workload["name"].as_str().unwrap()).collect();
    assert_eq!(names, WORKLOADS[2..], "all but transfers, which call nothing");
    for workload in workloads {
        assert_eq!(keys(workload), ["about", "gas", "name", "subjects"]);
        assert!(workload["gas"].as_u64().unwrap() > 21_000, "{workload:#}");
        let subjects = workload["subjects"].as_array().unwrap();
        let names: Vec<_> = subjects.iter().map(|subject| subject["name"].as_str().unwrap()).collect();
        assert_eq!(names[..3], ["ours", "ours, no instance kept", "bare wasmtime"]);
        assert_eq!(names.len(), 7);
        for subject in subjects {
            assert_eq!(keys(subject), ["alone", "besideBusyThread", "name", "twoThreads"]);
            for company in ["alone", "besideBusyThread", "twoThreads"] {
                let figures = &subject[company];
                assert!(figures["microseconds"].as_f64().unwrap() > 0.0, "{subject:#}");
                // Another subject may have exactly the same time.
                let against = figures["againstBare"].as_f64().unwrap();
                assert!(against > 0.0 && (against == 1.0 || subject["name"] != "bare wasmtime"), "{subject:#}");
            }
        }
    }
    let alone = bench("--vm-only --workload erc20-uniform --rounds 1 --calls 2 --subject ours");
    let text = String::from_utf8(alone.stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with("  ours ")) && !text.contains("  bare"), "{text}");
    assert_eq!(bench("--vm-only --threads 2").status.code(), Some(2), "an option that would do nothing");
    assert_eq!(bench("--calls 2").status.code(), Some(2), "the other way round");
}

#[test]
fn seed_determines_workload() {
    let root =
        |seed: u64| report(&format!("{SMALL} --json --workload ycsb-zipf --seed {seed}"))["workloads"][0]["root"].clone();
    let one = root(1);
    assert_eq!(one.as_str().unwrap().len(), 66);
    assert_eq!(root(1), one);
    assert_ne!(root(2), one);
}

#[test]
fn text_output_is_a_table() {
    let output = bench(&format!("{SMALL} --workload native"));
    let text = String::from_utf8(output.stdout).unwrap();
    let row = text.lines().find(|line| line.starts_with("native ")).unwrap();
    assert!(row.split_whitespace().any(|figure| figure == "21000"), "{text}");
    assert!(["2 threads", "re-exec", "ceiling"].iter().all(|head| text.contains(head)), "{text}");

    let folder = tempfile::tempdir().unwrap();
    let output = bench(&format!("{SMALL} --workload amm --wasm-dir {}", folder.path().display()));
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("bench_amm.wasm is not built: run `make contracts`"), "{error}");

    assert_eq!(bench("--workload nothing").status.code(), Some(2), "a name that is none");
}
