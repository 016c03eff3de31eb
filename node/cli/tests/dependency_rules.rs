//! The layers of this workspace, kept by machine: which of our crates may import which, and who may touch the world.
//!
//! The table is the one in the design; adding a crate means adding it here, and a line that has to be bent is a design
//! question before it is an edit of this file.

mod checkout;

use checkout::root;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

/// The layers, from the floor up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    /// Shared types. Imports none of our crates.
    Words,
    Tools,
    /// Protocol rules on storage slots. The virtual machine calls them.
    Rules,
    Cores,
    /// Code of several engines.
    Parts,
    /// Shared code of the deciders' tests.
    Kit,
    /// Sans-IO; never import each other.
    Deciders,
    /// Modelled keys and Byzantine validators of one engine, which imports them for its tests.
    EngineKit,
    /// The composition of the deciders, through the engine trait and never a named engine.
    Whole,
    /// Touches the world; imports no decider, and no other crate of the rim.
    Rim,
    /// A node as a library: composes the whole with the rim. The engine is a parameter. A sequencer composes likewise.
    Service,
    /// Other nodes from the parts of the service: one with more commands than a real network has, and members of sharded chains.
    Variants,
    /// Whole networks in virtual time: composes like a root, and touches no world.
    Simulated,
    /// Programs and libraries outside nodes. They import the sdk only.
    Users,
    /// Commands of the binary as libraries. They name no engine.
    Commands,
    /// Programs that wire everything: the binary, and the attacker on real networks. They and the simulator alone name engines.
    Roots,
}
use Layer::{
    Commands, Cores, Deciders, EngineKit, Kit, Parts, Rim, Roots, Rules, Service, Simulated, Tools, Users, Variants, Whole,
    Words,
};

/// Crate, folder, layer.
const CRATES: &[(&str, &str, Layer)] = &[
    ("corniche-types", "sdk/types", Words),
    ("corniche-abi", "sdk/abi", Words),
    ("corniche-origin", "sdk/origin", Words),
    ("corniche-aom-vectors", "node/aom/vectors", Words),
    ("corniche-crypto", "sdk/crypto", Tools),
    ("corniche-api", "sdk/api", Tools),
    ("corniche-state", "runtime/state", Tools),
    ("corniche-aom-wire", "node/aom/wire", Tools),
    ("corniche-staking", "runtime/staking", Rules),
    ("corniche-client", "sdk/client", Cores),
    ("corniche-console", "sdk/console", Cores),
    ("corniche-verifier", "sdk/verifier", Cores),
    ("corniche-vm", "runtime/vm", Cores),
    ("corniche-aom-receiver", "node/aom/receiver", Cores),
    ("corniche-engine", "node/consensus/engine", Cores),
    ("corniche-lanes", "node/consensus/lanes", Parts),
    ("corniche-committee-keys", "node/consensus/committee-keys", Parts),
    ("corniche-testkit", "node/consensus/testkit", Kit),
    ("corniche-mahi-mahi", "node/consensus/mahi-mahi", Deciders),
    ("corniche-mahi-mahi-testing", "node/consensus/mahi-mahi/testing", EngineKit),
    ("corniche-autobahn", "node/consensus/autobahn", Deciders),
    ("corniche-autobahn-testing", "node/consensus/autobahn/testing", EngineKit),
    ("corniche-neobft", "node/consensus/neobft", Deciders),
    ("corniche-neobft-testing", "node/consensus/neobft/testing", EngineKit),
    ("corniche-basil", "node/basil", Deciders),
    ("corniche-basil-testing", "node/basil/testing", EngineKit),
    ("corniche-basil-contracts", "node/basil/contracts", Whole),
    ("corniche-basil-service", "node/basil/service", Variants),
    ("corniche-mir", "node/consensus/mir", Deciders),
    ("corniche-mir-testing", "node/consensus/mir/testing", EngineKit),
    ("corniche-quepaxa", "node/consensus/quepaxa", Deciders),
    ("corniche-quepaxa-testing", "node/consensus/quepaxa/testing", EngineKit),
    ("corniche-racs", "node/consensus/racs", Deciders),
    ("corniche-racs-testing", "node/consensus/racs/testing", EngineKit),
    ("corniche-baxos", "node/consensus/baxos", Deciders),
    ("corniche-baxos-testing", "node/consensus/baxos/testing", EngineKit),
    ("corniche-executor", "runtime/executor", Deciders),
    ("corniche-harness", "runtime/harness", Deciders),
    ("corniche-admission", "node/admission", Deciders),
    ("corniche-certify", "node/certify", Deciders),
    ("corniche-sync", "node/sync", Deciders),
    ("corniche-threads", "runtime/threads", Whole),
    ("corniche-pipeline", "node/pipeline", Whole),
    ("corniche-network", "node/network", Rim),
    ("corniche-store", "node/store", Rim),
    ("corniche-aom-xdp", "node/aom/xdp", Rim),
    ("corniche-signer", "node/signer", Rim),
    ("corniche-rpc", "node/rpc", Rim),
    ("corniche-service", "node/service", Service),
    ("corniche-aom-sequencer", "node/aom/sequencer", Service),
    ("corniche-devchain", "node/devchain", Variants),
    ("corniche-simulator", "node/simulator", Simulated),
    ("corniche-core-bench", "node/consensus/bench", Simulated),
    ("corniche-web", "web", Users),
    ("corniche-processes", "testnet/processes", Users),
    ("corniche-contract-tool", "runtime/contract-tool", Commands),
    ("corniche-exec-bench", "runtime/bench", Commands),
    ("corniche-load", "testnet/load", Commands),
    ("corniche-network-bench", "testnet/bench", Commands),
    ("corniche", "node/cli", Roots),
    ("corniche-hostile", "testnet/hostile", Roots),
    ("corniche-fuzz", "testnet/fuzz", Roots),
    ("corniche-aom-rtl", "node/aom/rtl", Roots),
    ("corniche-aom-p4", "node/aom/p4", Roots),
];

/// Engines by name: only roots, and tests of the whole, may import one.
const ENGINES: &[&str] = &["corniche-mahi-mahi", "corniche-autobahn", "corniche-neobft"];

/// Roots that only test: they may contain modelled keys.
const TEST_ROOTS: &[&str] = &["corniche-fuzz", "corniche-aom-rtl", "corniche-aom-p4"];

/// Crates that use clocks, sockets, files or the operating system's randomness.
const WORLD: &[&str] = &[
    "async-std",
    "axum",
    "fs4",
    "futures",
    "getrandom",
    "hyper",
    "jsonrpsee",
    "libp2p",
    "libp2p-stream",
    "mio",
    "quinn",
    "rand",
    "redb",
    "reqwest",
    "sled",
    "socket2",
    "sqlx",
    "tokio",
    "tokio-tungstenite",
    "tower",
    "tower-http",
    "ureq",
];

/// Exceptions to [`WORLD`], each with its reason.
const WORLD_EXCEPTIONS: &[(&str, &str)] = &[
    ("corniche-client", "ureq"), // it is the way in for users, not a part of the node
];

/// One dependency as a manifest states it.
struct Dependency {
    name: String,
    /// Only tests see it.
    dev: bool,
}

struct Package {
    name: String,
    folder: String,
    dependencies: Vec<Dependency>,
}

#[test]
fn every_crate_has_a_layer() {
    let expected: BTreeSet<_> = CRATES.iter().map(|&(name, folder, _)| (name.to_owned(), folder.to_owned())).collect();
    let found: BTreeSet<_> = workspace().into_iter().map(|package| (package.name, package.folder)).collect();
    assert_eq!(found, expected, "a crate was added, moved or removed: adapt the table");
}

#[test]
fn imports_follow_the_layers() {
    let layers: BTreeMap<_, _> = CRATES.iter().map(|&(name, _, layer)| (name, layer)).collect();
    let mut broken = Vec::new();
    for package in workspace() {
        let Some(&layer) = layers.get(package.name.as_str()) else { continue };
        for dependency in &package.dependencies {
            let Some(&imported) = layers.get(dependency.name.as_str()) else { continue };
            if dependency.name == package.name {
                // Its own tests ask for one of its features.
                continue;
            }
            let named_engine = ENGINES.contains(&dependency.name.as_str());
            if let Err(reason) = may_import(layer, imported, named_engine, dependency.dev) {
                broken.push(format!("{} ({layer:?}) imports {} ({imported:?}): {reason}", package.name, dependency.name));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Modelled keys are hashes that anyone can compute.
#[test]
fn no_program_of_users_contains_modelled_keys() {
    let layers: BTreeMap<_, _> = CRATES.iter().map(|&(name, _, layer)| (name, layer)).collect();
    for package in workspace() {
        if layers.get(package.name.as_str()) != Some(&Roots) || TEST_ROOTS.contains(&package.name.as_str()) {
            continue;
        }
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.dev) {
            let imported = layers.get(dependency.name.as_str());
            assert!(!matches!(imported, Some(Kit | EngineKit)), "{} imports {}", package.name, dependency.name);
        }
    }
}

#[test]
fn only_outer_crates_do_io() {
    let layers: BTreeMap<_, _> = CRATES.iter().map(|&(name, _, layer)| (name, layer)).collect();
    let mut broken = Vec::new();
    for package in workspace() {
        let layer = layers.get(package.name.as_str());
        if matches!(layer, Some(Rim | Service | Variants | Users | Commands | Roots) | None) {
            continue;
        }
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.dev) {
            let excused = WORLD_EXCEPTIONS.contains(&(package.name.as_str(), dependency.name.as_str()));
            if WORLD.contains(&dependency.name.as_str()) && !excused {
                broken.push(format!("{} imports {}", package.name, dependency.name));
            }
        }
    }
    assert!(broken.is_empty(), "only network, store, rpc, service, devchain and cli may:\n{}", broken.join("\n"));
}

/// The explorer sees a node as anybody does: through its RPC.
#[test]
fn explorer_depends_only_on_sdk() {
    let folders: BTreeMap<_, _> = CRATES.iter().map(|&(name, folder, _)| (name, folder)).collect();
    let is_user = |package: &Package| CRATES.iter().any(|&(name, _, layer)| name == package.name && layer == Users);
    let users: Vec<_> = workspace().into_iter().filter(is_user).collect();
    assert!(!users.is_empty());
    for package in users {
        for dependency in &package.dependencies {
            let folder = folders.get(dependency.name.as_str());
            assert!(folder.is_none_or(|folder| folder.starts_with("sdk/")), "{} imports {}", package.name, dependency.name);
        }
    }
}

/// Contracts are a workspace of their own. Of ours, what is compiled into a module may be `sdk/contract` and the words; tests run it in the
/// harness.
#[test]
fn contracts_do_not_depend_on_node() {
    let layers: BTreeMap<_, _> = CRATES.iter().map(|&(name, _, layer)| (name, layer)).collect();
    let packages = packages(&root().join("contracts"));
    assert!(packages.iter().any(|package| package.folder == "sdk/contract"));
    for package in packages {
        for dependency in &package.dependencies {
            let allowed = match dependency.name.as_str() {
                "corniche-contract" => true,
                "corniche-harness" => dependency.dev,
                name => layers.get(name).is_none_or(|layer| *layer == Words),
            };
            assert!(allowed, "{} imports {}", package.name, dependency.name);
        }
    }
}

/// Features are unified over what is built together: one contract that asks for it would take the SDK's guard against reentrancy from all.
#[test]
fn contracts_keep_reentrancy_guard() {
    for package in packages(&root().join("contracts")) {
        let manifest = std::fs::read_to_string(root().join(&package.folder).join("Cargo.toml")).unwrap();
        assert!(
            !manifest.contains("\"reentrant\""),
            "{} turns off the guard of every contract in the workspace",
            package.folder
        );
    }
}

#[test]
fn strict_lints_are_the_same() {
    let [consensus, basil, runtime] = ["node/consensus", "node/basil", "runtime"]
        .map(|folder| std::fs::read_to_string(root().join(folder).join(".clippy.toml")).unwrap());
    assert_eq!(consensus, runtime);
    assert_eq!(basil, runtime);
}

#[test]
fn rules_reject_violations() {
    for (importer, imported, engine, dev) in [
        (Words, Words, false, false),
        (Tools, Tools, false, false),
        (Cores, Cores, false, false),
        (Parts, Parts, false, false),
        (Parts, Kit, false, false),
        (Parts, Deciders, true, false),
        (Rim, Parts, false, false),
        (Tools, Cores, false, false),
        (Deciders, Deciders, false, false),
        (Deciders, Deciders, true, true),
        (Whole, Deciders, true, false),
        (Whole, Rim, false, false),
        (Rim, Deciders, false, false),
        (Rim, Whole, false, false),
        (Rim, Rim, false, false),
        (Kit, Deciders, true, false),
        (Deciders, Kit, false, false),
        (Deciders, EngineKit, false, false),
        (EngineKit, EngineKit, false, true),
        (Whole, EngineKit, false, false),
        (Rim, EngineKit, false, true),
        (Service, EngineKit, false, false),
        (Service, Deciders, true, false),
        (Service, Simulated, false, false),
        (Service, Variants, false, false),
        (Variants, Deciders, true, false),
        (Commands, Variants, false, false),
        (Simulated, Rim, false, false),
        (Simulated, Service, false, false),
        (Users, Rim, false, false),
        (Commands, Commands, false, false),
        (Commands, Deciders, true, false),
        (Commands, Service, false, false),
        (Roots, Roots, false, false),
    ] {
        assert!(may_import(importer, imported, engine, dev).is_err(), "{importer:?} may not import {imported:?}");
    }
    for (importer, imported, engine, dev) in [
        (Tools, Words, false, false),
        (Parts, Cores, false, false),
        (Deciders, Cores, false, false),
        (Deciders, Parts, false, false),
        (Parts, Kit, false, true),
        (Whole, Deciders, false, false),
        (Whole, Deciders, true, true),
        (Rim, Cores, false, false),
        (Deciders, Kit, false, true),
        (Deciders, EngineKit, false, true),
        (EngineKit, Deciders, true, false),
        (EngineKit, Kit, false, false),
        (Whole, Kit, false, true),
        (Simulated, Deciders, true, false),
        (Simulated, EngineKit, false, false),
        (Service, Rim, false, false),
        (Service, Whole, false, false),
        (Service, Deciders, true, true),
        (Commands, Whole, false, false),
        (Variants, Service, false, false),
        (Roots, Service, false, false),
        (Roots, Variants, false, false),
        (Roots, Commands, false, false),
        (Roots, Deciders, true, false),
        (Roots, Simulated, false, false),
        (Roots, Rim, false, false),
    ] {
        assert!(may_import(importer, imported, engine, dev).is_ok(), "{importer:?} may import {imported:?}");
    }
}

fn may_import(importer: Layer, imported: Layer, named_engine: bool, dev: bool) -> Result<(), &'static str> {
    match importer {
        Deciders if imported == EngineKit && dev => Ok(()),
        Parts if imported == Kit && dev => Ok(()),
        _ if imported >= importer => Err("arrows point down, and never sideways"),
        Whole | Service | Variants if named_engine && !dev => Err("engines are known by their trait only; tests may name one"),
        // Tests of the signer compare its signatures with those of the engines.
        Rim if matches!(imported, Kit | Deciders) && dev => Ok(()),
        Deciders | Whole | Rim | Service | Variants | Commands if matches!(imported, Kit | EngineKit) && !dev => {
            Err("test support is for tests")
        }
        Rim if imported > Cores => Err("the rim may not know who decides"),
        Commands if matches!(imported, Service | Variants) => Err("commands for users reach a node by its RPC"),
        Commands if named_engine => Err("engines are known by their trait only"),
        Users if imported > Cores => Err("what people use knows the sdk"),
        Simulated if matches!(imported, Rim | Service | Variants) => Err("a simulated network has no sockets, files or clock"),
        _ => Ok(()),
    }
}

fn workspace() -> Vec<Package> {
    packages(root())
}

/// Returns the packages of a workspace from its manifests, without network access.
fn packages(workspace: &Path) -> Vec<Package> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(workspace)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let dependency = |value: &Value| Dependency { name: text(&value["name"]), dev: value["kind"] == "dev" };
    let package = |value: &Value| Package {
        name: text(&value["name"]),
        folder: folder(&text(&value["manifest_path"])),
        dependencies: value["dependencies"].as_array().expect("a list").iter().map(dependency).collect(),
    };
    metadata["packages"].as_array().expect("a list").iter().map(package).collect()
}

fn folder(manifest: &str) -> String {
    let folder = Path::new(manifest).parent().expect("a manifest lies in a folder");
    let folder = folder.strip_prefix(root().canonicalize().expect("the workspace exists")).unwrap_or(folder);
    folder.to_str().expect("our folders have ASCII names").to_owned()
}
