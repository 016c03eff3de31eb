//! Realistic sources in a temporary folder, with a matching `cargo metadata` output.

mod layouts;
mod refusals;
mod upgrades;

use super::{entry, solc::Layout, table::table};
use serde_json::{Value, json};
use std::{fs, path::Path};

/// Crate called `here` that uses the SDK, with these files; and the crate `other`, if a file is in it.
fn try_files(files: &[(&str, &str)], root: Option<&str>) -> anyhow::Result<Layout> {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    entry::layout(metadata(&folder, "0.10.10"), &folder.join("Cargo.toml"), root)
}

fn metadata(folder: &Path, sdk: &str) -> Value {
    let package = |name: &str, version: &str, below: &str| {
        let source = folder.join(below).join("src/lib.rs");
        json!({"id": name, "name": name, "version": version, "manifest_path": folder.join(below).join("Cargo.toml"),
               "targets": [{"kind": ["cdylib", "lib"], "src_path": source}]})
    };
    let dep = |name: &str, package: &str| json!({"name": name, "pkg": package});
    let libraries = [dep("stylus_sdk", "stylus-sdk"), dep("alloy_primitives", "alloy-primitives")];
    let all = [&libraries[..], &[dep("other", "other"), dep("corniche_contract", "corniche-contract")]].concat();
    json!({
        "packages": [package("here", "0.1.0", ""), package("other", "0.2.0", "other"), package("stylus-sdk", sdk, "sdk"),
                     package("alloy-primitives", "1.7.3", "alloy"), package("corniche-contract", "0.1.0", "corniche")],
        "resolve": {"nodes": [
            {"id": "here", "features": ["with"], "deps": all},
            {"id": "other", "features": [], "deps": libraries},
            {"id": "corniche-contract", "features": [], "deps": libraries},
        ]},
    })
}

fn laid(source: &str) -> Layout {
    try_files(&[("src/lib.rs", source)], None).unwrap_or_else(|error| panic!("{error:#}\n{source}"))
}

fn refused(source: &str) -> String {
    format!("{:#}", try_files(&[("src/lib.rs", source)], None).unwrap_err())
}

/// Contract with these fields.
fn fields(fields: &str) -> Layout {
    laid(&format!(
        "sol_storage! {{ #[entrypoint] pub struct Contract {{ {fields} }} struct Pair {{ uint128 one; uint128 other; address who; }} }}"
    ))
}

/// `slot+offset type name` of each field.
fn told(layout: &Layout) -> Vec<String> {
    let rows = table(layout);
    let rows = rows.lines().filter(|row| !row.starts_with("slot") && !row.is_empty());
    rows.map(|row| {
        let mut words = row.split_whitespace();
        let (slot, offset) = (words.next().unwrap(), words.next().unwrap());
        words.next();
        let words: Vec<_> = words.collect();
        let (name, kind) = words.split_last().unwrap();
        format!("{slot}+{offset} {} {name}", kind.join(" "))
    })
    .collect()
}
