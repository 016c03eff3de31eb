//! Finds the struct that is a contract's storage.

use super::{
    names::{Named, Names, Scope},
    solc::Layout,
    source::{Crate, Item, Packages, Struct},
    types,
};
use anyhow::{Context, bail, ensure};
use serde_json::Value;
use std::{panic::resume_unwind, path::Path, rc::Rc, thread};

/// SDK versions with known rules.
const KNOWN: &[&str] = &["0.9.", "0.10."];

/// Stack size: the parser recurses as deep as a source nests. The worst case used 4 KB of stack per byte of
/// source, so no accepted file overflows this stack. Memory is allocated only as the stack is used.
const STACK: usize = 4 << 30;

/// Layout of the crate with this manifest, given the output of `cargo metadata`. Uses the struct called
/// `root`, or else the entry point's.
pub fn layout(metadata: Value, manifest: &Path, root: Option<&str>) -> anyhow::Result<Layout> {
    thread::scope(|scope| {
        let reader = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || layout_of(metadata, manifest, root));
        reader.context("no thread to read in")?.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn layout_of(metadata: Value, manifest: &Path, root: Option<&str>) -> anyhow::Result<Layout> {
    let packages = Packages::new(metadata);
    let id = packages.of_manifest(manifest)?.to_owned();
    let versions = packages.versions(&id, "stylus-sdk");
    ensure!(!versions.is_empty(), "it does not depend on stylus-sdk, whose rules are those that are known here");
    for version in versions {
        let known = KNOWN.iter().any(|known| version.starts_with(known));
        ensure!(known, "it uses stylus-sdk {version}: how 0.9 and 0.10 lay storage out is known here, and no other");
    }
    let source = packages.source(&id)?;
    let (scope, root) = root_of(&packages, &source, root)?;
    types::layout(&packages, &scope, &root)
}

fn root_of(packages: &Packages, source: &Rc<Crate>, wanted: Option<&str>) -> anyhow::Result<(Scope, Rc<Struct>)> {
    let modules = (0..source.modules.len()).map(|module| Scope { source: source.clone(), module });
    let structs = modules.flat_map(|scope| {
        let items = source.modules[scope.module].items.values();
        items.filter_map(move |item| match item {
            Item::Struct(found) => Some((scope.clone(), found.clone())),
            _ => None,
        })
    });
    let structs: Vec<(Scope, Rc<Struct>)> = structs.collect();
    let named: Vec<_> = match wanted {
        Some(wanted) => {
            structs.into_iter().filter(|(scope, one)| one.name == wanted || scope.path_of(&one.name) == wanted).collect()
        }
        None => match structs.into_iter().filter(|(_, one)| one.entrypoint).collect::<Vec<_>>() {
            // A hand-written entry point: the SDK's router requires this trait of its argument.
            none if none.is_empty() => top_level(packages, source)?,
            some => some,
        },
    };
    let told: Vec<_> = named.iter().map(|(scope, one)| scope.path_of(&one.name)).collect();
    match (&named[..], wanted) {
        ([one], _) => Ok(one.clone()),
        ([], Some(wanted)) => bail!("the package {} has no struct {wanted}", source.package),
        ([], None) => bail!(
            "the package {} has neither a struct with #[entrypoint] nor an impl TopLevelStorage: --root NAME says which struct its storage is",
            source.package
        ),
        _ => bail!("the package {} may begin with each of {}: --root NAME says which", source.package, told.join(", ")),
    }
}

fn top_level(packages: &Packages, source: &Rc<Crate>) -> anyhow::Result<Vec<(Scope, Rc<Struct>)>> {
    let mut found = Vec::new();
    for (module, path) in &source.top_level {
        let scope = Scope { source: source.clone(), module: *module };
        if let Some(Named::Struct(scope, one)) = (Names { packages }).find(path, &scope)? {
            found.push((scope, one));
        }
    }
    Ok(found)
}
