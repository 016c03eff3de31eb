//! The ABI of a contract's source.
//!
//! Functions and the constructor are those that the SDK itself tells: a small program that is built with the contract's `export-abi` feature prints them as
//! Solidity. Events it does not tell, nor errors that no function returns by name; these are read from the `sol!` blocks in the
//! crate's own source. What neither shows: events and errors that a dependency declares, blocks that a macro makes or that lie in another file
//! (`sol!("file.json")`), fallback and receive functions.

use super::project::{Project, cargo};
use alloy_json_abi::{Constructor, JsonAbi};
use anyhow::{Context, bail, ensure};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use syn_solidity::{Item, ItemContract, Mutability, SolIdent, Type};

/// What was found, and what was seen and could not be read.
#[derive(Default)]
pub struct Exported {
    pub items: Vec<Value>,
    pub unread: Vec<String>,
}

/// Builds the contract for this machine, which takes a while the first time.
pub fn export(project: &Project) -> anyhow::Result<Exported> {
    ensure!(
        project.features.contains("export-abi"),
        "{} has no feature export-abi, by which the SDK tells functions. Its Cargo.toml needs\n\n  [features]\n  export-abi = [\"stylus-sdk/export-abi\"]",
        project.name
    );
    let program = build_teller(project)?;
    let ask = |what: &str| -> anyhow::Result<String> {
        let output = Command::new(&program).arg(what).output().with_context(|| format!("cannot run {}", program.display()))?;
        ensure!(output.status.success(), "export-abi: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let mut source = Declared::default();
    source.read_folder(&project.folder.join("src"))?;
    let items = assemble(&ask("constructor")?, &ask("abi")?, &source.items)?;
    // Refused here rather than by whoever reads it.
    serde_json::from_value::<JsonAbi>(items.clone().into()).context("what the source tells is no ABI")?;
    Ok(Exported { items, unread: source.unread })
}

/// A crate beside the contract's that does nothing but print. It takes the contract's versions from its lock file.
fn build_teller(project: &Project) -> anyhow::Result<PathBuf> {
    let folder = project.target.join("corniche/abi").join(&project.name);
    fs::create_dir_all(folder.join("src")).with_context(|| format!("cannot create {}", folder.display()))?;
    let quoted = |text: &dyn std::fmt::Display| Value::from(text.to_string()).to_string();
    let manifest = format!(
        "[package]\nname = \"corniche-export-abi\"\nversion = \"0.0.0\"\nedition = \"2021\"\npublish = false\n\n[dependencies.contract]\npackage = {}\npath = {}\nfeatures = [\"export-abi\"]\n\n[workspace]\n",
        quoted(&project.name),
        quoted(&project.folder.display()),
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src/main.rs"), "fn main() {\n    contract::print_from_args();\n}\n")?;
    fs::copy(project.workspace.join("Cargo.lock"), folder.join("Cargo.lock")).context("cannot copy Cargo.lock")?;
    // The project's folder, for its compiler and its configuration.
    let output = cargo(&project.folder)
        .args(["build", "--message-format=json-render-diagnostics", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&project.target)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!(
            "{} does not build with its feature export-abi. If it is print_from_args that is missing: what #[public] is on has to be public at the root of the crate, \
             and crate-type has to have \"lib\"",
            project.name
        );
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .context("cargo made no program")
}

/// Constructor, functions, events, errors, each once.
fn assemble(constructor: &str, interface: &str, source: &[Item]) -> anyhow::Result<Vec<Value>> {
    let mut items = Vec::new();
    if !constructor.trim().is_empty() {
        let constructor = Constructor::parse(constructor.trim()).context("the constructor that export-abi tells")?;
        let inputs: Vec<_> = constructor.inputs.iter().map(|input| (input.ty.clone(), input.name.clone())).collect();
        let inputs: Vec<_> = inputs.into_iter().map(|(kind, name)| json!({"name": camel(&name), "type": kind})).collect();
        items.push(json!({"type": "constructor", "inputs": inputs, "stateMutability": constructor.state_mutability}));
    }
    let told = solidity(interface)?;
    let told: Vec<Item> = told.into_iter().flat_map(flattened).collect();
    let kinds = Kinds::of(told.iter().chain(source));
    for item in &told {
        if let Item::Function(function) = item {
            let mutability = match function.attributes.mutability() {
                Some(Mutability::Pure(_)) => "pure",
                Some(Mutability::View(_) | Mutability::Constant(_)) => "view",
                Some(Mutability::Payable(_)) => "payable",
                None => "nonpayable",
            };
            let name = function.name.as_ref().map(SolIdent::as_string).unwrap_or_default();
            let inputs = kinds.list(function.parameters.iter().map(|input| (&input.ty, &input.name)))?;
            let returns = function.returns.iter().flat_map(|returns| returns.returns.iter());
            let outputs = kinds.list(returns.map(|output| (&output.ty, &output.name)))?;
            items.push(
                json!({"type": "function", "name": name, "inputs": inputs, "outputs": outputs, "stateMutability": mutability}),
            );
        }
    }
    for item in source {
        if let Item::Event(event) = item {
            let mut inputs = kinds.list(event.parameters.iter().map(|input| (&input.ty, &input.name)))?;
            for (input, parameter) in inputs.iter_mut().zip(&event.parameters) {
                input["indexed"] = parameter.is_indexed().into();
            }
            items.push(
                json!({"type": "event", "name": event.name.as_string(), "inputs": inputs, "anonymous": event.is_anonymous()}),
            );
        }
    }
    for item in source.iter().chain(&told) {
        if let Item::Error(error) = item {
            let inputs = kinds.list(error.parameters.iter().map(|input| (&input.ty, &input.name)))?;
            items.push(json!({"type": "error", "name": error.name.as_string(), "inputs": inputs}));
        }
    }
    let mut seen = BTreeSet::new();
    items.retain(|item| {
        let types: Vec<_> = item["inputs"].as_array().into_iter().flatten().map(|input| input["type"].to_string()).collect();
        seen.insert((item["type"].to_string(), item["name"].to_string(), types))
    });
    Ok(items)
}

/// What `export-abi` prints, from the first interface on: what comes before is about licences.
fn solidity(text: &str) -> anyhow::Result<Vec<Item>> {
    let start = text.find("interface ").unwrap_or(text.len());
    let tokens: TokenStream =
        text[start..].parse().map_err(|error| anyhow::anyhow!("what export-abi tells is not Solidity: {error}"))?;
    if tokens.is_empty() {
        return Ok(Vec::new());
    }
    syn_solidity::parse2(tokens)
        .map(|file| file.items)
        .map_err(|error| anyhow::anyhow!("what export-abi tells is not Solidity: {error}"))
}

/// An interface's items in its place.
fn flattened(item: Item) -> Vec<Item> {
    match item {
        Item::Contract(ItemContract { body, .. }) => body.into_iter().flat_map(flattened).collect(),
        item => vec![item],
    }
}

/// Events, errors and types in `sol!` blocks.
#[derive(Default)]
struct Declared {
    items: Vec<Item>,
    unread: Vec<String>,
}

impl Declared {
    fn read_folder(&mut self, folder: &Path) -> anyhow::Result<()> {
        let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                self.read_folder(&path)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                self.read(&source, &path.display().to_string());
            }
        }
        Ok(())
    }

    fn read(&mut self, source: &str, place: &str) {
        match source.parse() {
            Ok(tokens) => self.walk(tokens, place),
            Err(error) => self.unread.push(format!("{place}: {error}")),
        }
    }

    /// `sol! { … }` wherever it stands, except below `#[cfg(test)]`.
    fn walk(&mut self, tokens: TokenStream, place: &str) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < trees.len() {
            match &trees[at..] {
                [TokenTree::Punct(mark), TokenTree::Group(attribute), ..]
                    if mark.as_char() == '#' && is_cfg_test(attribute.stream()) =>
                {
                    // What it is on ends with a body or a semicolon.
                    let ends = |tree: &TokenTree| match tree {
                        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                        TokenTree::Punct(mark) => mark.as_char() == ';',
                        _ => false,
                    };
                    at += 2 + trees[at + 2..].iter().position(ends).unwrap_or(trees.len());
                }
                [TokenTree::Ident(name), TokenTree::Punct(mark), TokenTree::Group(block), ..]
                    if name == "sol" && mark.as_char() == '!' =>
                {
                    self.take(block.stream(), place);
                    at += 2;
                }
                [TokenTree::Group(group), ..] => self.walk(group.stream(), place),
                _ => {}
            }
            at += 1;
        }
    }

    fn take(&mut self, block: TokenStream, place: &str) {
        match syn_solidity::parse2(block) {
            Ok(file) => self.items.extend(file.items.into_iter().flat_map(flattened)),
            Err(error) => self.unread.push(format!("{place}: a sol! block could not be read: {error}")),
        }
    }
}

fn is_cfg_test(attribute: TokenStream) -> bool {
    attribute.to_string().replace(' ', "") == "cfg(test)"
}

/// Types that somebody named.
#[derive(Default)]
struct Kinds<'a> {
    structs: BTreeMap<String, Vec<(&'a Type, &'a Option<SolIdent>)>>,
    enums: BTreeSet<String>,
    aliases: BTreeMap<String, &'a Type>,
}

impl<'a> Kinds<'a> {
    fn of(items: impl Iterator<Item = &'a Item>) -> Self {
        let mut kinds = Self::default();
        for item in items {
            match item {
                Item::Struct(item) => {
                    let fields = item.fields.iter().map(|field| (&field.ty, &field.name)).collect();
                    kinds.structs.insert(item.name.as_string(), fields);
                }
                Item::Enum(item) => {
                    kinds.enums.insert(item.name.as_string());
                }
                Item::Udt(item) => {
                    kinds.aliases.insert(item.name.as_string(), &item.ty);
                }
                _ => {}
            }
        }
        kinds
    }

    fn list<'t>(&self, inputs: impl Iterator<Item = (&'t Type, &'t Option<SolIdent>)>) -> anyhow::Result<Vec<Value>> {
        inputs.map(|(kind, name)| self.parameter(kind, name.as_ref().map(SolIdent::as_string).unwrap_or_default(), 0)).collect()
    }

    fn parameter(&self, kind: &Type, name: String, depth: usize) -> anyhow::Result<Value> {
        ensure!(depth < 32, "the type {kind} contains itself");
        let (kind, components) = self.canonical(kind, depth)?;
        let mut parameter = json!({"name": camel(&name), "type": kind});
        if let Some(components) = components {
            parameter["components"] = components.into();
        }
        Ok(parameter)
    }

    /// The type in the ABI, and a tuple's parts.
    fn canonical(&self, kind: &Type, depth: usize) -> anyhow::Result<(String, Option<Vec<Value>>)> {
        let parts = |parts: &mut dyn Iterator<Item = (&Type, String)>| -> anyhow::Result<_> {
            let parts: anyhow::Result<Vec<_>> = parts.map(|(kind, name)| self.parameter(kind, name, depth + 1)).collect();
            Ok(("tuple".to_owned(), Some(parts?)))
        };
        match kind {
            Type::Array(array) => {
                let (element, components) = self.canonical(&array.ty, depth + 1)?;
                let size = array.size().map(|size| size.to_string()).unwrap_or_default();
                Ok((format!("{element}[{size}]"), components))
            }
            Type::Tuple(tuple) => parts(&mut tuple.types.iter().map(|kind| (kind, String::new()))),
            Type::Uint(_, None) => Ok(("uint256".into(), None)),
            Type::Int(_, None) => Ok(("int256".into(), None)),
            Type::Address(..) => Ok(("address".into(), None)),
            Type::Custom(path) => {
                let name = path.last().as_string();
                if let Some(fields) = self.structs.get(&name) {
                    let name = |name: &Option<SolIdent>| name.as_ref().map(SolIdent::as_string).unwrap_or_default();
                    return parts(&mut fields.iter().map(|(kind, field)| (*kind, name(field))));
                }
                match self.aliases.get(&name) {
                    Some(alias) => self.canonical(alias, depth + 1),
                    None if self.enums.contains(&name) => Ok(("uint8".into(), None)),
                    None => bail!("the type {name} is in no sol! block of the crate"),
                }
            }
            Type::Mapping(_) => bail!("a mapping is no argument"),
            kind => Ok((kind.to_string(), None)),
        }
    }
}

/// snake_case, as Rust has it, in the way of Solidity; what the SDK put before a keyword stays.
fn camel(name: &str) -> String {
    let (before, name) = name.split_at(name.len() - name.trim_start_matches('_').len());
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    let rest = words.map(|word| {
        let mut letters = word.chars();
        letters.next().map(|letter| letter.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    });
    before.to_owned() + &first + &rest.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
        sol! {
            /// It moved.
            event Moved(address indexed by, Point to, uint count);
            struct Point { int128 x; int128 y; }
            enum Side { Left, Right }
            type Price is uint128;
            error TooFar(Point at, Side side, Price[2] prices);
        }
        mod inner { alloy_sol_types::sol! { interface IOther { function ping() external; event Deep(bytes data); } } }
        #[cfg(test)]
        mod tests { sol! { event OfTests(); } }
        #[cfg(test)]
        use x::y;
        sol_interface! { interface INever { event Never(); } }
        sol!("there.json");
    "#;

    const TOLD: &str = "/** * This file was generated. */\n\n// SPDX-License-Identifier: MIT\npragma solidity ^0.8.23;\n\ninterface IMap is IOther {\n    function move_to(Point to, (uint256, string)[] notes, uint8[3] _days) external payable returns (bool);\n\n    function at(address who) external view returns (Point);\n\n    struct Point { int128 x; int128 y; }\n\n    error TooFar(Point, Side, Price[2]);\n    error Other(string);\n}\ninterface IOther {\n    function owner() external view returns (address);\n}\n";

    fn items() -> (Vec<Value>, Vec<String>) {
        let mut source = Declared::default();
        source.read(SOURCE, "lib.rs");
        (assemble("constructor(string full_name, address owner) payable", TOLD, &source.items).unwrap(), source.unread)
    }

    #[test]
    fn functions_are_told_and_events_and_errors_are_read() {
        let (items, unread) = items();
        let names: Vec<_> = items.iter().map(|item| format!("{} {}", item["type"], item["name"]).replace('"', "")).collect();
        assert_eq!(
            names,
            [
                "constructor null",
                "function move_to",
                "function at",
                "function owner",
                "event Moved",
                "event Deep",
                "error TooFar",
                "error Other"
            ]
        );
        assert_eq!(unread.len(), 1, "{unread:?}");
        assert_eq!(items[0]["inputs"][0], json!({"name": "fullName", "type": "string"}));
        assert_eq!(items[0]["stateMutability"], "payable");
        let abi: JsonAbi = serde_json::from_value(items.into()).unwrap();
        assert_eq!(abi.functions["move_to"][0].signature(), "move_to((int128,int128),(uint256,string)[],uint8[3])");
        assert_eq!(abi.functions["at"][0].signature_with_outputs(), "at(address)((int128,int128))");
        assert_eq!(abi.events["Moved"][0].signature(), "Moved(address,(int128,int128),uint256)");
        assert_eq!(abi.errors["TooFar"][0].signature(), "TooFar((int128,int128),uint8,uint128[2])");
        assert_eq!(abi.errors["TooFar"][0].inputs[0].name, "at", "what the source says counts before what is told");
    }

    #[test]
    fn a_type_without_end_or_without_a_declaration_is_an_error() {
        for (declared, says) in
            [("struct A { A[] more; } error E(A a);", "contains itself"), ("error E(Nowhere a);", "Nowhere")]
        {
            let mut source = Declared::default();
            source.read(&format!("sol! {{ {declared} }}"), "lib.rs");
            let error = assemble("", "", &source.items).unwrap_err();
            assert!(error.to_string().contains(says), "{error:#}");
        }
    }

    #[test]
    fn names_are_in_the_way_of_solidity() {
        for (rust, solidity) in
            [("initial_supply", "initialSupply"), ("to", "to"), ("_days", "_days"), ("", ""), ("a_b_c", "aBC")]
        {
            assert_eq!(camel(rust), solidity);
        }
    }
}
