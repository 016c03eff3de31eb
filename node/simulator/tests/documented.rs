//! Checks that `docs/simulator.md` and `testnet/scenarios/` agree with the parser and the report.

use corniche_simulator::{
    Report, Spent, Verdict,
    scenario::{Behaviour, Fault, SCHEMA, parse},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

const DOCS: &str = include_str!("../../../docs/simulator.md");

/// First cells of the tables, by heading and header cell; the cells of a table count from its header on.
fn tables() -> BTreeMap<(&'static str, &'static str), Vec<&'static str>> {
    let (mut heading, mut header, mut tables) = ("", None, BTreeMap::<_, Vec<_>>::new());
    for line in DOCS.lines() {
        let cell = line.strip_prefix('|').and_then(|rest| rest.split('|').next()).map(str::trim);
        match (line.trim_start_matches('#'), cell) {
            (title, _) if title.len() < line.len() => heading = title.trim(),
            (_, None) => header = None,
            (_, Some(cell)) if header.is_none() => header = Some(cell),
            (_, Some(cell)) if cell.starts_with("---") => {}
            (_, Some(cell)) => tables.entry((heading, header.expect("the arm above"))).or_default().push(cell),
        }
    }
    tables
}

/// The words in code spans of these cells.
fn words(cells: &[&'static str]) -> Vec<&'static str> {
    cells.iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn documented_keys_match() {
    let headings = BTreeMap::from([
        ("", "The file"),
        ("network", "`[network]`"),
        ("sequencer", "`[sequencer]`"),
        ("disk", "`[disk]`"),
        ("load", "`[load]`"),
        ("cost", "`[cost]`"),
    ]);
    let tables = tables();
    for (table, keys) in SCHEMA {
        let heading = headings.get(table).copied().or(table.strip_prefix("fault ")).expect("a heading for every table");
        let documented = tables.get(&(heading, "key")).unwrap_or_else(|| panic!("no table under {heading}"));
        assert_eq!(words(documented), *keys, "under the heading {heading}");
    }
    // Every table of keys belongs to the schema, or to the result.
    let documented = tables.keys().filter(|(_, header)| *header == "key").count();
    assert_eq!(documented, SCHEMA.len() + 1);
}

#[test]
fn documented_behaviours_match() {
    let documented = words(&tables()[&("byzantine", "behaviour")]);
    let read = |word: &str| {
        let fault = format!("[[fault]]\nkind = \"byzantine\"\nat = \"0s\"\nnodes = [0]\nbehaviour = \"{word}\"\n");
        let engine = if ["gap-liar", "tag-forger"].contains(&word) { "neobft" } else { "mahi-mahi" };
        parse(&format!("engine = \"{engine}\"\nnodes = 4\nduration = \"1s\"\n{fault}"))
    };
    let behaviours: BTreeSet<Behaviour> = documented
        .iter()
        .map(|word| match &read(word).unwrap().faults[..] {
            [Fault::Byzantine { behaviour, .. }] => *behaviour,
            other => panic!("{other:?}"),
        })
        .collect();
    let refusal = read("").unwrap_err().message;
    let known = refusal.matches('"').count() / 2 - 1;
    assert_eq!((behaviours.len(), documented.len()), (known, known), "{refusal}");
}

#[test]
fn documented_result_keys_match() {
    let report = Report {
        engine: String::new(),
        nodes: 0,
        seed: 0,
        virtual_us: 0,
        submitted: 0,
        committed: 0,
        lost: 0,
        duplicated: 0,
        delay_us: 0,
        latency: None,
        commit: None,
        messages: 0,
        bytes: 0,
        ordering: Spent::default(),
        certificates: Spent::default(),
        received: (0, 0),
        failovers: 0,
        transactions: Vec::new(),
        timeline: Vec::new(),
        verdict: Verdict::Pass,
        violation_count: 0,
        violations: Vec::new(),
        epochs_ended: 0,
        epochs_kept: 0,
        epoch_gap: None,
        epoch_throughput: None,
        coin_dealing: None,
        committees: Vec::new(),
        unfinished: Vec::new(),
        convicted: Default::default(),
        stalled_us: 0,
        digest: [0; 32],
    };
    let json = report.json();
    // Keys of the object itself: indented by two spaces.
    let keys: Vec<_> = json.lines().filter_map(|line| line.strip_prefix("  \"")?.split('"').next()).collect();
    assert_eq!(words(&tables()[&("The result", "key")]), keys);
}

#[test]
fn documented_example_parses() {
    let example = DOCS.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let scenario = parse(example).unwrap();
    assert_eq!((scenario.nodes, scenario.load.count(), scenario.faults.len()), (10, 60_000, 1));
}

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testnet/scenarios");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect();
    files.sort();
    files
}

#[test]
fn example_scenarios_parse() {
    let examples = examples();
    assert!(examples.len() >= 8, "{examples:?}");
    for path in examples {
        let text = std::fs::read_to_string(&path).unwrap();
        let scenario = parse(&text).unwrap_or_else(|error| panic!("{}:{error}", path.display()));
        assert_eq!(scenario.remark(), None, "{}", path.display());
        assert!(scenario.load.count() > 0, "{} submits nothing", path.display());
    }
}

#[test]
fn wan_matches_published_matrix() {
    let path = examples().into_iter().find(|path| path.ends_with("wan.toml")).unwrap();
    let network = parse(&std::fs::read_to_string(path).unwrap()).unwrap().network;
    assert_eq!(network.regions, ["us-east-2", "us-west-2", "af-south-1", "ap-east-1", "eu-south-1"]);
    // Ohio to Cape Town, and back.
    assert_eq!([network.one_way_us(0, 2), network.one_way_us(7, 5)], [121_000, 120_500]);
}
