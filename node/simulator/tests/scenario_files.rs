//! Reading of scenario files, and every rejection: its line, the mistake, the correction.

use corniche_simulator::scenario::{
    Behaviour, Crypto, EngineName, Fault, Jitter, Links, Payload, Sequencer, SequencerFault, parse,
};
use corniche_types::Votes;

/// Three lines that every file has; the rest of a case begins on line 4.
const HEAD: &str = "engine = \"mahi-mahi\"\nnodes = 4\nduration = \"60s\"\n";

fn head(more: &str) -> String {
    format!("{HEAD}{more}")
}

/// Asserts that the file is rejected on this line, with this message.
#[track_caller]
fn refuses(text: &str, line: usize, message: &str) {
    let error = parse(text).expect_err(&format!("accepted:\n{text}"));
    assert_eq!((error.line, error.message.as_str()), (line, message), "in\n{text}");
    assert_eq!(error.to_string(), format!("{line}: {message}"));
}

/// Asserts that a file is rejected on this line if these lines follow a `[[fault]]` on line 4.
#[track_caller]
fn refuses_fault(lines: &str, line: usize, message: &str) {
    refuses(&head(&format!("[[fault]]\n{lines}")), line, message);
}

#[test]
fn omitted_keys_have_defaults() {
    let scenario = parse(HEAD).unwrap();
    assert_eq!((scenario.nodes, scenario.duration_us, scenario.seed, scenario.crypto), (4, 60_000_000, 0, Crypto::Modelled));
    assert_eq!((scenario.network.one_way_us(0, 3), scenario.network.bytes_per_second), (50_000, 1_250_000_000));
    assert_eq!((scenario.load.count(), scenario.load.stop_us), (0, 60_000_000));
    assert!(scenario.faults.is_empty() && scenario.engine_config.is_empty() && scenario.remark().is_none());
}

#[test]
fn committees_change_only_with_epochs() {
    let change = |kind: &str, nodes: &str| format!("[[fault]]\nkind = \"{kind}\"\nat = \"1s\"\nnodes = {nodes}\n");
    let scenario = parse(&head(&format!("epoch_ms = 2000\nclosing_ms = 300\n{}", change("join", "[3]")))).unwrap();
    assert_eq!((scenario.members(), scenario.nodes, scenario.closing_ms), (3, 4, Some(300)));
    assert_eq!((scenario.changes_committee(), scenario.weights().total().0), (true, 3));
    for kind in ["join", "leave", "rotate", "no_notices", "bad_dealer"] {
        refuses(&head(&change(kind, "[3]")), 4, "committees change only at the ends of epochs; add epoch_ms");
    }
    let with = |rest: &str| head(&format!("epoch_ms = 2000\n{rest}"));
    refuses(&head("closing_ms = 300\n"), 4, "closing_ms: expected epoch_ms; add it, or remove closing_ms");
    refuses(&with("closing_ms = 501\n"), 5, "closing_ms: expected a whole number from 240 to 500, got 501");
    let twice = format!("{}{}", change("leave", "[1]"), change("leave", "[2, 1]"));
    refuses(&with(&twice), 9, "node 1 leaves twice; remove one");
    let twice = format!("{}{}", change("rotate", "[1]"), change("rotate", "[1]"));
    refuses(&with(&twice), 9, "node 1 replaces its keys twice; remove one");
    refuses(&with(&change("join", "[1]")), 5, "join: expected the nodes from 3 on, got 1; renumber them");
    refuses(&with(&change("join", "[0, 1, 2, 3]")), 5, "join: expected at least one validator in the genesis; add nodes");
}

#[test]
fn votes_are_checked_like_a_genesis() {
    let scenario = parse(&head("votes = [2, 2, 2, 1]\n")).unwrap();
    assert_eq!(scenario.weights().total().0, 7);
    refuses(&head("votes = [1, 1]\n"), 4, "votes: expected 4 numbers, one per validator, got 2");
    refuses(&head("votes = [0, 1, 1, 1]\n"), 4, "votes: expected a whole number from 1 to 64, got 0");
    let most = "votes: the validators have 2 of 5 votes at index 0: it could stop the chain alone; give it at most 1";
    refuses(&head("votes = [2, 1, 1, 1]\n"), 4, most);
}

#[test]
fn numbers_are_scaled_to_units() {
    let text = head(
        "seed = 9\ncrypto = \"real\"\n[engine_config]\nwave_length = 5\n\
         [network]\nregions = [\"a\", \"b\"]\nrtt_ms = [[0.5, 50.0], [51, 0.4]]\njitter = 0.05\nmodel = \"pareto\"\n\
         loss = 1e-6\nreorder = 1\nduplicate = 0.999999\nbandwidth_mbps = 0.5\nadversary_delay_ms = 0.001\n\
         [load]\nrate = 2.5\npayload = \"counter\"\ncontract = \"counter.wasm\"\nstart = \"1m\"\nstop = \"0.025h\"\n[disk]\nlatency_ms = 2\n",
    );
    let scenario = parse(&text.replace("\"60s\"", "\"2m\"")).unwrap();
    let (network, load) = (&scenario.network, &scenario.load);
    assert_eq!((scenario.seed, scenario.crypto, scenario.engine_config["wave_length"]), (9, Crypto::Real, 5));
    assert_eq!(network.one_way_us, [[250, 25_000], [25_500, 200]]);
    assert_eq!((network.jitter_ppm, network.model), (50_000, Jitter::Pareto));
    assert_eq!((network.loss_ppm, network.reorder_ppm, network.duplicate_ppm), (1, 1_000_000, 999_999));
    assert_eq!((network.bytes_per_second, network.adversary_delay_us, scenario.disk.latency_us), (62_500, 1, 2_000));
    assert_eq!(scenario.contract.as_deref(), Some("counter.wasm"));
    assert_eq!((load.payload, load.start_us, load.stop_us), (Payload::Counter, 60_000_000, 90_000_000));
    assert_eq!((load.count(), load.at_us(0), load.at_us(74)), (75, 60_000_000, 89_600_000));
}

#[test]
fn numbers_are_rounded_to_nearest() {
    // As doubles, these are slightly less than the written numbers.
    let scenario = parse(&head("[network]\ndelay_ms = 1.005\n[load]\nrate = 1.001\nstart = \"1.005ms\"\n")).unwrap();
    assert_eq!((scenario.network.one_way_us(0, 1), scenario.load.millirate, scenario.load.start_us), (1_005, 1_001, 1_005));
}

#[test]
fn load_ends_at_duration() {
    let load = |rate: &str, stop: &str| parse(&head(&format!("[load]\nrate = {rate}\nstop = \"{stop}\"\n"))).unwrap().load;
    let slow = load("1", "1500ms");
    assert_eq!((slow.count(), slow.at_us(0), slow.at_us(1)), (2, 0, 1_000_000));
    assert_eq!((load("1", "2s").count(), load("0.3", "10s").count(), load("0", "10s").count()), (2, 3, 0));
}

#[test]
fn nodes_are_assigned_to_regions() {
    let scenario = parse(&head("[network]\nregions = [\"a\", \"b\"]\nrtt_ms = [[2, 100], [200, 4]]\n")).unwrap();
    let network = &scenario.network;
    assert_eq!([network.one_way_us(0, 1), network.one_way_us(1, 0)], [50_000, 100_000]);
    assert_eq!([network.one_way_us(0, 2), network.one_way_us(3, 1)], [1_000, 2_000]);
    // Twelve links: two within a, two within b, four each way.
    assert_eq!(scenario.delay_us(), (2 * 1_000 + 2 * 2_000 + 4 * 50_000 + 4 * 100_000) / 12);
}

#[test]
fn every_kind_of_fault_parses() {
    let text = "
        [[fault]]
        kind = 'crash'
        at = '0s'
        nodes = [3]
        [[fault]]
        kind = 'disk_loss'
        at = '1s'
        nodes = [2, 1]
        restart_at = '2s'
        [[fault]]
        kind = 'partition'
        at = '3s'
        groups = [[0, 3], [1], [2]]
        [[fault]]
        kind = 'delay'
        at = '4s'
        until = '5s'
        from = [0]
        to = [1, 2]
        extra_ms = 1.5
        [[fault]]
        kind = 'loss'
        at = '4s'
        nodes = [1]
        fraction = 0.25
        [[fault]]
        kind = 'slow'
        at = '4s'
        until = '5s'
        nodes = [2]
        execute_ms = 1.5
        [[fault]]
        kind = 'byzantine'
        at = '6s'
        nodes = [0]
        behaviour = 'coin-share-forger'";
    let faults = parse(&head(text)).unwrap().faults;
    let s = 1_000_000;
    let expected = [
        Fault::Crash { at_us: 0, nodes: vec![3], restart_at_us: None },
        Fault::DiskLoss { at_us: s, nodes: vec![2, 1], restart_at_us: Some(2 * s) },
        Fault::Partition { at_us: 3 * s, until_us: 60 * s, groups: vec![vec![0, 3], vec![1], vec![2]] },
        Fault::Delay {
            at_us: 4 * s,
            until_us: 5 * s,
            links: Links::Between { from: vec![0], to: vec![1, 2] },
            extra_us: 1_500,
        },
        Fault::Loss { at_us: 4 * s, until_us: 60 * s, links: Links::AttachedTo(vec![1]), fraction_ppm: 250_000 },
        Fault::Slow { at_us: 4 * s, until_us: 5 * s, nodes: vec![2], execute_us: 1_500, write_us: 0 },
        Fault::Byzantine { at_us: 6 * s, nodes: vec![0], behaviour: Behaviour::CoinShareForger },
    ];
    assert_eq!(faults, expected);
}

#[test]
fn links_between_are_directed() {
    let between = Links::Between { from: vec![0], to: vec![1] };
    assert_eq!([between.contain(0, 1), between.contain(1, 0), between.contain(0, 2)], [true, false, false]);
    let of = Links::AttachedTo(vec![1]);
    assert_eq!([of.contain(0, 1), of.contain(1, 0), of.contain(0, 2)], [true, true, false]);
}

#[test]
fn too_many_byzantine_validators_get_a_remark() {
    let text = head("[[fault]]\nkind = \"byzantine\"\nat = \"0s\"\nnodes = [0, 1]\nbehaviour = \"twin\"\n");
    let remark = parse(&text).unwrap().remark();
    assert_eq!(remark.as_deref(), Some("Byzantine validators have 2 of 4 votes, tolerated are 1; expect violations"));
    assert_eq!(parse(&text.replace("[0, 1]", "[1]")).unwrap().remark(), None);
}

#[test]
fn invalid_toml() {
    let error = parse("engine = \"mahi-mahi\"\nnodes = = 4\n").unwrap_err();
    assert!(error.line == 2 && error.message.starts_with("not TOML: "), "{error}");
    let error = parse(&head("nodes = 5\n")).unwrap_err();
    assert!(error.line == 4 && error.message.contains("duplicate key"), "{error}");
}

#[test]
fn unknown_keys() {
    refuses(
        &head("nods = 4\n"),
        4,
        "unknown key \"nods\" in the file; known: engine, nodes, votes, epoch_ms, closing_ms, block_ms, duration, seed, crypto, engine_config, network, sequencer, \
         disk, load, cost, fault",
    );
    // If there are two, the first in the file.
    refuses(&head("[disk]\nzzz = 1\nlatencyy = 2\n"), 5, "unknown key \"zzz\" in [disk]; known: latency_ms, bandwidth_mbps");
    refuses(&head("[disk]\naaa = 1\nzzz = 2\n"), 5, "unknown key \"aaa\" in [disk]; known: latency_ms, bandwidth_mbps");
    refuses(
        &head("[load]\nrate = 1\ntxbytes = 2\n"),
        6,
        "unknown key \"txbytes\" in [load]; known: rate, tx_bytes, payload, contract, start, stop, first_node, patience",
    );
    refuses(
        &head("cost.sign = 1\n"),
        4,
        "unknown key \"sign\" in [cost]; known: sign_us, verify_us, recover_us, share_us, combine_us",
    );
    refuses(
        &head("[network]\nlatencyy = 1\n"),
        5,
        "unknown key \"latencyy\" in [network]; known: regions, rtt_ms, delay_ms, jitter, model, loss, reorder, duplicate, \
         bandwidth_mbps, adversary, adversary_delay_ms",
    );
    // A key of another kind is unknown as well.
    let cases = [
        ("crash", "kind, at, nodes, restart_at"),
        ("disk_loss", "kind, at, nodes, restart_at"),
        ("partition", "kind, at, until, groups"),
        ("delay", "kind, at, until, nodes, from, to, extra_ms"),
        ("loss", "kind, at, until, nodes, from, to, fraction"),
        ("slow", "kind, at, until, nodes, execute_ms, write_ms"),
        ("byzantine", "kind, at, nodes, behaviour"),
    ];
    let sequencer = "[[fault]]\nkind = \"sequencer\"\nat = \"1s\"\nafter = 2\n";
    let message = "unknown key \"after\" in a [[fault]] of kind sequencer; known: kind, at, does, numbers, nodes";
    refuses(&neobft(sequencer), 7, message);
    for (kind, known) in cases {
        let message = format!("unknown key \"after\" in a [[fault]] of kind {kind}; known: {known}");
        refuses_fault(&format!("kind = \"{kind}\"\nat = \"1s\"\nafter = 2\n"), 7, &message);
    }
}

/// A file of NeoBFT with these lines after the head.
fn neobft(lines: &str) -> String {
    format!("{}{lines}", HEAD.replace("mahi-mahi", "neobft"))
}

#[test]
fn sequencer_values() {
    let table = |lines: &str| neobft(&format!("[sequencer]\n{lines}\n"));
    let all = "place = \"host\"\nsuite = 5\nsign_every = 8\nloss = 0.001\ninstall_ms = 80";
    let expected = Sequencer { is_on_host: true, suite: 5, sign_every: 8, loss_ppm: 1_000, install_us: 80_000 };
    assert_eq!(parse(&table(all)).unwrap().sequencer, expected);
    let default = Sequencer { is_on_host: false, suite: 1, sign_every: 1, loss_ppm: 0, install_us: 50_000 };
    assert_eq!(parse(&neobft("")).unwrap().sequencer, default);
    refuses(&table("suite = 3"), 5, "suite: expected 1, 2, 4 or 5, got 3, which is for switches only");
    refuses(&table("suite = 6"), 5, "suite: expected a whole number from 1 to 5, got 6");
    refuses(&table("sign_every = 0"), 5, "sign_every: expected a whole number from 1 to 64, got 0");
    refuses(&table("place = \"rack\""), 5, "place: expected one of \"path\", \"host\", got \"rack\"");
    let many = neobft("").replace("nodes = 4", "nodes = 65");
    let too_many = "sequencer: expected at most 64 nodes with suite 1, got 65; use fewer, or suite 5";
    refuses(&many, 1, too_many);
    assert!(parse(&format!("{many}[sequencer]\nsuite = 5\n")).is_ok());
    refuses(&head("[sequencer]\nsuite = 1\n"), 4, "mahi-mahi has no sequencer; use the engine \"neobft\"");
    let epochs = "epoch_ms: expected another engine, because a multicast group has a fixed committee; remove epoch_ms";
    refuses(&neobft("epoch_ms = 1000\n"), 4, epochs);
    let adversary = "adversary: expected \"none\" with neobft, which has no proposals; use faults instead";
    refuses(&neobft("[network]\nadversary = \"worst\"\n"), 5, adversary);
    assert!(parse(&neobft("[network]\nadversary = \"none\"\n")).is_ok());
}

#[test]
fn sequencer_faults() {
    let fault = |lines: &str| neobft(&format!("[[fault]]\nkind = \"sequencer\"\nat = \"1s\"\n{lines}\n"));
    let read = |lines: &str| match parse(&fault(lines)).unwrap().faults.remove(0) {
        Fault::Sequencer { at_us: 1_000_000, fault } => fault,
        other => panic!("{other:?}"),
    };
    assert_eq!(read("does = \"silent\""), SequencerFault::Silent);
    assert_eq!(read("does = \"duplicates\""), SequencerFault::Duplicates);
    assert_eq!(read("does = \"jump\"\nnumbers = 9"), SequencerFault::Jump(9));
    assert_eq!(read("does = \"equivocates\"\nnodes = [1, 3]"), SequencerFault::Equivocates(vec![1, 3]));
    let excess = "numbers belong to \"jump\" and nodes to \"equivocates\"; remove this key";
    refuses(&fault("does = \"silent\"\nnodes = [1]"), 8, excess);
    refuses(&fault("does = \"jump\"\nnumbers = 9\nnodes = [1]"), 9, excess);
    refuses(&fault("does = \"equivocates\"\nnodes = [1]\nnumbers = 9"), 9, excess);
    refuses_fault(
        "kind = \"sequencer\"\nat = \"1s\"\ndoes = \"silent\"\n",
        4,
        "mahi-mahi has no sequencer; use the engine \"neobft\"",
    );
    let byzantine =
        |behaviour: &str| format!("[[fault]]\nkind = \"byzantine\"\nat = \"1s\"\nnodes = [1]\nbehaviour = \"{behaviour}\"\n");
    for (file, engine) in [(neobft(&byzantine("parent-forger")), "neobft"), (head(&byzantine("gap-liar")), "mahi-mahi")] {
        refuses(&file, 8, &format!("behaviour: this one has no effect with {engine}; use another one"));
    }
    let crashes_only =
        |behaviour: &str| format!("engine = \"quepaxa\"\nnodes = 3\nduration = \"2s\"\n{}", byzantine(behaviour));
    refuses(
        &crashes_only("equivocator"),
        8,
        "behaviour: quepaxa does not tolerate lies; use \"silent\", \"late\", or another engine",
    );
    assert_eq!(parse(&crashes_only("silent")).unwrap().weights().quorum(), Votes(2));
}

#[test]
fn missing_keys() {
    refuses("nodes = 4\n", 1, "\"engine\" is missing in the file: the ordering engine, such as \"mahi-mahi\"");
    refuses("engine = \"mahi-mahi\"\n", 1, "\"nodes\" is missing in the file: the number of validators");
    let no_duration = "engine = \"mahi-mahi\"\nnodes = 4\n";
    refuses(no_duration, 1, "\"duration\" is missing in the file: the virtual time of the run, such as \"60s\"");
    refuses(&head("[load]\ntx_bytes = 512\n"), 4, "\"rate\" is missing in [load]: transactions per second over all nodes");
    refuses_fault("at = \"1s\"\n", 4, "\"kind\" is missing in [[fault]]: the kind of fault, such as \"crash\"");
    let missing = |kind, key, meaning| format!("\"{key}\" is missing in a [[fault]] of kind {kind}: {meaning}");
    let when = "the time of the fault, such as \"10s\"";
    let which = "the affected nodes, such as [0, 3]";
    refuses_fault("kind = \"crash\"\n", 4, &missing("crash", "at", when));
    refuses_fault("kind = \"crash\"\nat = \"1s\"\n", 4, &missing("crash", "nodes", which));
    refuses_fault("kind = \"disk_loss\"\nat = \"1s\"\n", 4, &missing("disk_loss", "nodes", which));
    let who = "the nodes that stay connected, such as [[0, 1], [2, 3]]";
    refuses_fault("kind = \"partition\"\nat = \"1s\"\n", 4, &missing("partition", "groups", who));
    refuses_fault("kind = \"delay\"\nat = \"1s\"\n", 4, &missing("delay", "extra_ms", "the additional delay of messages"));
    let how_many = "the fraction of messages lost, from 0 to 1";
    refuses_fault("kind = \"loss\"\nat = \"1s\"\n", 4, &missing("loss", "fraction", how_many));
    refuses_fault("kind = \"slow\"\nat = \"1s\"\n", 4, &missing("slow", "nodes", which));
    let what = "the behaviour of the nodes, such as \"equivocator\"";
    refuses_fault("kind = \"byzantine\"\nat = \"1s\"\n", 4, &missing("byzantine", "behaviour", what));
}

#[test]
fn top_level_values() {
    let known: Vec<_> = EngineName::ALL.iter().map(|name| format!("\"{}\"", name.id())).collect();
    let expected = |got: &str| format!("engine: expected one of {}, got {got}", known.join(", "));
    refuses(&HEAD.replace("mahi-mahi", "tusk"), 1, &expected("\"tusk\""));
    refuses(&HEAD.replace("\"mahi-mahi\"", "4"), 1, &expected("4"));
    for absurd in ["0", "-4", "4.0", "\"4\"", "1001", "99999999999999999999"] {
        refuses(
            &HEAD.replace("nodes = 4", &format!("nodes = {absurd}")),
            2,
            &format!("nodes: expected a whole number from 1 to 1000, got {absurd}"),
        );
    }
    let time = "a time with its unit, such as \"60s\", \"500ms\" or \"2m\"";
    for absurd in ["60", "\"60\"", "\"60 s\"", "\"-1s\"", "\"s\"", "\"1.2.3s\"", "\"1e3s\"", "\"9999999h\"", "\"inf\""] {
        refuses(&HEAD.replace("\"60s\"", absurd), 3, &format!("duration: expected {time}, got {absurd}"));
    }
    refuses(&HEAD.replace("\"60s\"", "\"0s\""), 3, "duration: expected more than 0, got 0");
    refuses(&HEAD.replace("\"60s\"", "\"0.1us\""), 3, "duration: expected \"0s\" or at least \"1us\", got \"0.1us\"");
    refuses(&HEAD.replace("\"60s\"", "\"24h\""), 3, "duration: expected less than a day; use a shorter one, such as \"60s\"");
    refuses(&head("seed = -1\n"), 4, "seed: expected a whole number from 0 to 9223372036854775807, got -1");
    refuses(&head("crypto = \"none\"\n"), 4, "crypto: expected one of \"modelled\", \"real\", got \"none\"");
    refuses(&head("network = 3\n"), 4, "network: expected a table: [network], got 3");
    refuses(&head("fault = 3\n"), 4, "fault: expected a list of tables, each under its own [[fault]], got 3");
}

#[test]
fn invalid_engine_parameters() {
    let config = |lines: &str| head(&format!("[engine_config]\nleaders = 2\n{lines}\ngc_depth = 100\n"));
    refuses(&config("wave_lenght = 5"), 6, "mahi-mahi: unknown parameter wave_lenght");
    refuses(&config("wave_length = 3"), 6, "mahi-mahi parameter wave_length: expected 4 or 5, got 3");
    refuses(&config("wave_length = 4.5"), 6, "wave_length: expected a whole number, not negative, got 4.5");
    refuses(&head("engine_config = 1\n"), 4, "engine_config: expected a table: [engine_config], got 1");
}

#[test]
fn network_values() {
    let network = |lines: &str| head(&format!("[network]\n{lines}\n"));
    let regions = |rows: &str| network(&format!("regions = [\"a\", \"b\"]\nrtt_ms = {rows}"));
    refuses(&regions("[[1, 2]]"), 6, "rtt_ms: expected 2 rows, got 1; add one per region");
    refuses(&regions("[\n[1, 2],\n[3, 4, 5],\n]"), 8, "rtt_ms: expected 2 numbers in the row of \"b\", got 3");
    refuses(&regions("[[1, 2], 3]"), 6, "rtt_ms: expected a list of rows, each a list of numbers, got 3");
    refuses(&regions("[[1, 2], [3,\n-4]]"), 7, "rtt_ms: expected a number from 0 to 3600000, got -4");
    refuses(&regions("[[1, nan], [3, 4]]"), 6, "rtt_ms: expected a number from 0 to 3600000, got nan");
    refuses(&regions("5"), 6, "rtt_ms: expected a list of rows, got 5");
    refuses(&network("regions = [\"a\"]"), 5, "regions: expected rtt_ms with a row and a column per region; add it");
    refuses(&network("rtt_ms = [[1]]"), 5, "rtt_ms: expected regions, the names of its rows and columns; add them");
    let both = "delay_ms: expected no regions; remove delay_ms, or regions and rtt_ms";
    refuses(&network("regions = [\"a\"]\nrtt_ms = [[1]]\ndelay_ms = 1"), 7, both);
    refuses(&network("regions = [\"a\", \"a\"]\nrtt_ms = [[1]]"), 5, "regions: expected distinct names, got \"a\" twice");
    let names = "a list of names, such as [\"us-east-2\", \"eu-south-1\"]";
    refuses(&network("regions = []\nrtt_ms = []"), 5, &format!("regions: expected {names}, got an empty list"));
    refuses(&network("regions = [1]\nrtt_ms = [[1]]"), 5, "regions: expected a list of names, got 1");
    refuses(&network("delay_ms = -1"), 5, "delay_ms: expected a number from 0 to 3600000, got -1");
    refuses(&network("delay_ms = inf"), 5, "delay_ms: expected a number from 0 to 3600000, got inf");
    refuses(&network("delay_ms = 0.0001"), 5, "delay_ms: expected 0 or at least 1/1000, got 0.0001");
    for key in ["jitter", "loss", "reorder", "duplicate"] {
        refuses(&network(&format!("{key} = 1.01")), 5, &format!("{key}: expected a number from 0 to 1, got 1.01"));
        refuses(&network(&format!("{key} = -0.5")), 5, &format!("{key}: expected a number from 0 to 1, got -0.5"));
    }
    refuses(&network("loss = 1e-9"), 5, "loss: expected 0 or at least 1/1000000, got 1e-9");
    refuses(&network("bandwidth_mbps = 0"), 5, "bandwidth_mbps: expected more than 0, got 0");
    refuses(&network("bandwidth_mbps = true"), 5, "bandwidth_mbps: expected a number from 0 to 10000000, got true");
    refuses(&network("model = \"normal\""), 5, "model: expected one of \"uniform\", \"pareto\", got \"normal\"");
    let adversaries = "one of \"none\", \"random\", \"worst\", \"leaders\"";
    refuses(&network("adversary = \"evil\""), 5, &format!("adversary: expected {adversaries}, got \"evil\""));
    refuses(&network("adversary_delay_ms = \"1s\""), 5, "adversary_delay_ms: expected a number from 0 to 3600000, got \"1s\"");
}

#[test]
fn disk_load_and_cost_values() {
    refuses(&head("[disk]\nlatency_ms = -1\n"), 5, "latency_ms: expected a number from 0 to 3600000, got -1");
    refuses(&head("[disk]\nbandwidth_mbps = 0\n"), 5, "bandwidth_mbps: expected more than 0, got 0");
    let load = |lines: &str| head(&format!("[load]\nrate = 1\n{lines}\n"));
    refuses(&head("[load]\nrate = -1\n"), 5, "rate: expected a number from 0 to 1000000, got -1");
    refuses(&load("tx_bytes = 10"), 6, "tx_bytes: expected a whole number from 128 to 131072, got 10");
    refuses(
        &load("payload = \"uniswap\""),
        6,
        "payload: expected one of \"none\", \"transfer\", \"counter\", \"erc20\", got \"uniswap\"",
    );
    let needs = "payload: expected contract, the path of its wasm file; add it, relative to this file";
    refuses(&load("payload = \"erc20\""), 6, needs);
    let removes = "contract: expected the payload \"counter\" or \"erc20\"; remove contract";
    refuses(&load("contract = \"a.wasm\""), 6, removes);
    refuses(&load("payload = \"counter\"\ncontract = 1"), 7, "contract: expected the path of a wasm file, got 1");
    refuses(&load("stop = \"61s\""), 6, "stop: expected at most duration; use an earlier time");
    refuses(
        &load("stop = \"9s\"\nstart = \"9s\""),
        7,
        "load: expected start before stop; use an earlier start or a later stop",
    );
    refuses(&load("stop = \"0s\""), 6, "load: expected start before stop; use an earlier start or a later stop");
    refuses(&load("first_node = 4"), 6, "node: expected 0 to 3, got 4");
    refuses(&load("patience = \"0s\""), 6, "patience: expected more than 0, got 0");
    refuses(&head("[cost]\nshare_us = 1.5\n"), 5, "share_us: expected a whole number from 0 to 1000000, got 1.5");
}

#[test]
fn invalid_faults() {
    refuses_fault(
        "kind = \"meteor\"\n",
        5,
        "kind: expected one of \"crash\", \"disk_loss\", \"partition\", \"delay\", \"loss\", \"slow\", \"sequencer\", \"byzantine\", \"join\", \"leave\", \"rotate\", \"no_notices\", \"bad_dealer\", got \"meteor\"",
    );
    let crash = |lines: &str| format!("kind = \"crash\"\n{lines}\n");
    let beyond = "at: expected a time before the end of the run; use an earlier time or a longer duration";
    refuses_fault(&crash("at = \"60s\"\nnodes = [0]"), 6, beyond);
    refuses_fault(&crash("at = \"9s\"\nnodes = [\n0,\n4]"), 9, "node: expected 0 to 3, got 4");
    refuses_fault(&crash("at = \"9s\"\nnodes = [0, 0]"), 7, "nodes: expected distinct nodes, got node 0 twice");
    refuses_fault(&crash("at = \"9s\"\nnodes = []"), 7, "nodes: expected a list of nodes, such as [0, 3], got []");
    refuses_fault(&crash("at = \"9s\"\nnodes = 0"), 7, "nodes: expected a list of nodes, such as [0, 3], got 0");
    refuses_fault(&crash("at = \"9s\"\nnodes = [-1]"), 7, "nodes: expected a whole number, not negative, got -1");
    let early = "restart_at: expected a time after at; use a later time";
    refuses_fault(&crash("at = \"9s\"\nnodes = [0]\nrestart_at = \"9s\""), 8, early);
    let late = "restart_at: expected a time within the run; omit it, or use a longer duration";
    refuses_fault(&crash("at = \"9s\"\nnodes = [0]\nrestart_at = \"61s\""), 8, late);
    let early = "until: expected a time after at; use a later time";
    refuses_fault("kind = \"loss\"\nat = \"9s\"\nuntil = \"8s\"\nfraction = 1\n", 7, early);
    let links = |lines: &str| format!("kind = \"delay\"\nat = \"9s\"\nextra_ms = 1\n{lines}\n");
    refuses_fault(&links("from = [0]"), 8, "from: expected to as well; add the nodes at the other end");
    refuses_fault(&links("to = [0]"), 8, "to: expected from as well; add the nodes at the other end");
    refuses_fault(&links("from = [1]\nnodes = [0]"), 9, "nodes: expected either nodes, or from and to; remove one");
    refuses_fault("kind = \"loss\"\nat = \"9s\"\nfraction = 1.5\n", 7, "fraction: expected a number from 0 to 1, got 1.5");
    refuses_fault(
        "kind = \"byzantine\"\nat = \"9s\"\nnodes = [0]\nbehaviour = \"rude\"\n",
        8,
        "behaviour: expected one of \"equivocator\", \"withholder\", \"silent\", \"garbage\", \"late\", \"twin\", \
         \"parent-forger\", \"coin-share-forger\", \"gap-liar\", \"tag-forger\", got \"rude\"",
    );
}

#[test]
fn invalid_partition_groups() {
    let groups = |groups: &str| format!("kind = \"partition\"\nat = \"9s\"\ngroups = {groups}\n");
    refuses_fault(&groups("[\n[0, 1],\n[2, 3, 1]]"), 9, "groups: expected each node once, got node 1 twice");
    refuses_fault(&groups("[[0, 1], [3]]"), 7, "groups: expected each node once, node 2 is missing; add the group [2]");
    refuses_fault(&groups("[[0, 1], [2, 3, 4]]"), 7, "node: expected 0 to 3, got 4");
    refuses_fault(&groups("[0, 1]"), 7, "groups: expected a list of nodes, such as [0, 3], got 0");
    refuses_fault(&groups("7"), 7, "groups: expected a list of lists of nodes, such as [[0, 1], [2, 3]], got 7");
}

#[test]
fn conflicting_faults() {
    let fault = |lines: &str| format!("[[fault]]\n{lines}\n");
    let crash =
        |kind, at, restart| fault(&format!("kind = \"{kind}\"\nnodes = [1]\nat = \"{at}\"\nrestart_at = \"{restart}\""));
    let no_power = "node 1 is already crashed at this time; use an earlier restart_at in the earlier fault";
    refuses(&head(&(crash("crash", "5s", "10s") + &crash("disk_loss", "9s", "20s"))), 9, no_power);
    let for_good = fault("kind = \"crash\"\nnodes = [0, 1]\nat = \"5s\"");
    refuses(&head(&(for_good + &crash("crash", "50s", "51s"))), 8, no_power);
    assert!(parse(&head(&(crash("crash", "5s", "10s") + &crash("disk_loss", "10s", "20s")))).is_ok());

    let cut =
        |at, until| fault(&format!("kind = \"partition\"\nat = \"{at}\"\nuntil = \"{until}\"\ngroups = [[0], [1, 2, 3]]"));
    let at_once = "two partitions overlap; end one before the next, or combine them";
    refuses(&head(&(cut("5s", "10s") + &cut("1s", "6s"))), 9, at_once);
    assert!(parse(&head(&(cut("5s", "10s") + &cut("1s", "5s")))).is_ok());

    let enemy = || fault("kind = \"byzantine\"\nnodes = [1]\nat = \"5s\"\nbehaviour = \"late\"");
    let both = "node 1 both crashes and is Byzantine; use one, such as the behaviour \"silent\"";
    refuses(&head(&(enemy() + &crash("crash", "1s", "2s"))), 9, both);
    refuses(&head(&(crash("crash", "1s", "2s") + &enemy())), 9, both);
    refuses(&head(&(enemy() + &enemy())), 9, "node 1 is already Byzantine; a node has one behaviour");
}
