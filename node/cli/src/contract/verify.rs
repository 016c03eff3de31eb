//! `corniche contract verify`: is what lies at an address what this source makes.

use super::{Rpc, build::make, paying, project::Project};
use crate::{
    contract::abi::Interface,
    exit::{self, Exit, Failed},
};
use anyhow::{Context, ensure};
use corniche_harness::Symbols;
use corniche_types::{Address, keccak256};
use corniche_vm::wasm::unpack;
use serde_json::json;
use std::{collections::BTreeMap, path::PathBuf};
use wasmparser::{Parser, Payload};

#[derive(clap::Args, Debug)]
pub struct Verify {
    #[arg(value_name = "ADDRESS")]
    address: Address,
    /// Folder of the contract, or a module
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    #[command(flatten)]
    rpc: Rpc,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A module that it may be, and how it is made.
struct Candidate {
    wasm: Vec<u8>,
    made: String,
}

impl Verify {
    pub fn run(&self) -> anyhow::Result<()> {
        let code = self.rpc.client().code(self.address).map_err(|error| paying::explain(error, Interface::nothing()))?;
        ensure!(!code.is_empty(), "there is no contract at {}", self.address);
        let deployed = unpack(&code).with_context(|| format!("the code at {} is no module", self.address))?;
        let candidates = self.candidates()?;
        let same = candidates.iter().find(|candidate| candidate.wasm == deployed);
        let (told, differences) = match same {
            Some(candidate) => (format!("{} is {}", self.address, candidate.made), Vec::new()),
            None => {
                let candidate = &candidates[0];
                (format!("{} is not {}", self.address, candidate.made), compare(&deployed, &candidate.wasm))
            }
        };
        if self.json {
            let told =
                json!({"same": same.is_some(), "keccak256": keccak256(&deployed), "told": told, "differences": differences});
            exit::result(format_args!("{told:#}"));
        } else if same.is_some() {
            exit::result(&told);
        }
        if same.is_some() {
            return Ok(());
        }
        let help = "the same code comes from the same source, Cargo.lock and compiler (rust-toolchain.toml), built by `corniche contract build`";
        Err(Failed::new(Exit::Failure, format!("{told}\n  {}\n  {help}", differences.join("\n  "))).into())
    }

    /// At least one. Whoever deployed it may have had a wasm-opt, or none.
    fn candidates(&self) -> anyhow::Result<Vec<Candidate>> {
        if !self.path.is_dir() {
            return Ok(vec![Candidate { wasm: super::module::read(&self.path)?, made: self.path.display().to_string() }]);
        }
        let project = Project::open(&self.path)?;
        let mut candidates = Vec::new();
        for optimise in [false, true] {
            let made = make(&project, optimise)?;
            let by = made.optimised.as_ref().map(|version| format!(" and {version}")).unwrap_or_default();
            if candidates.iter().all(|candidate: &Candidate| candidate.wasm != made.wasm) {
                let told = format!("{} in {}, by {}{by}", project.name, project.folder.display(), made.compiler);
                candidates.push(Candidate { wasm: made.wasm, made: told });
            }
        }
        Ok(candidates)
    }
}

/// A module in pieces.
#[derive(Default)]
struct Pieces<'a> {
    /// By name; custom sections under theirs.
    sections: BTreeMap<String, &'a [u8]>,
    functions: Vec<&'a [u8]>,
    imported: u32,
    symbols: Symbols,
}

impl<'a> Pieces<'a> {
    /// As far as it can be read.
    fn of(wasm: &'a [u8]) -> Self {
        let mut pieces = Self { symbols: Symbols::of(wasm).unwrap_or_default(), ..Self::default() };
        for payload in Parser::new(0).parse_all(wasm).map_while(Result::ok) {
            match &payload {
                Payload::ImportSection(section) => {
                    let imports = section.clone().into_imports().map_while(Result::ok);
                    pieces.imported = imports.filter(|import| matches!(import.ty, wasmparser::TypeRef::Func(_))).count() as u32;
                }
                Payload::CodeSectionEntry(body) => pieces.functions.extend(wasm.get(body.range())),
                _ => {}
            }
            if let Some((id, range)) = payload.as_section() {
                let name = match &payload {
                    Payload::CustomSection(section) => section.name().to_owned(),
                    _ => section_name(id),
                };
                pieces.sections.insert(name, wasm.get(range).unwrap_or_default());
            }
        }
        pieces
    }
}

fn section_name(id: u8) -> String {
    let names = [
        "custom",
        "types",
        "imports",
        "functions",
        "tables",
        "memory",
        "globals",
        "exports",
        "start",
        "elements",
        "code",
        "data",
        "data count",
    ];
    names.get(usize::from(id)).map_or_else(|| format!("section {id}"), |name| (*name).to_owned())
}

/// What is different, a line each.
fn compare(deployed: &[u8], built: &[u8]) -> Vec<String> {
    let (chain, here) = (Pieces::of(deployed), Pieces::of(built));
    let mut lines = Vec::new();
    let mut names: Vec<&String> = chain.sections.keys().chain(here.sections.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        match (chain.sections.get(name), here.sections.get(name)) {
            (Some(one), Some(other)) if one == other => {}
            (Some(one), Some(other)) => lines.push(format!("{name}: {} bytes on the chain, {} built", one.len(), other.len())),
            (Some(one), None) => lines.push(format!("{name}: {} bytes on the chain, none built", one.len())),
            (None, Some(other)) => lines.push(format!("{name}: none on the chain, {} bytes built", other.len())),
            (None, None) => {}
        }
    }
    if lines.iter().all(|line| line.starts_with(corniche_abi::interface::SECTION)) && !lines.is_empty() {
        lines.push("what runs is the same; what the module says of itself is not".into());
    }
    let lengths = (chain.functions.len(), here.functions.len());
    if lengths.0 != lengths.1 {
        lines.push(format!("{} functions on the chain, {} built", lengths.0, lengths.1));
    }
    if let Some(first) = chain.functions.iter().zip(&here.functions).position(|(one, other)| one != other) {
        let index = here.imported + first as u32;
        let name = here.symbols.name(index).or_else(|| chain.symbols.name(index));
        let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
        let (one, other) = (chain.functions[first].len(), here.functions[first].len());
        lines.push(format!("function {index}{name} is the first that differs: {one} bytes on the chain, {other} built"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_abi::interface::embed;

    fn module(body: &[u8]) -> Vec<u8> {
        let code = [&[2, 2, 0, 0x0b, body.len() as u8 + 2, 0][..], body, &[0x0b]].concat();
        let section = |id: u8, body: &[u8]| [&[id, body.len() as u8][..], body].concat();
        [&b"\0asm\x01\0\0\0"[..], &section(1, &[1, 0x60, 0, 0]), &section(3, &[2, 0, 0]), &section(10, &code)].concat()
    }

    #[test]
    fn the_first_function_that_differs_is_named() {
        let lines = compare(&module(&[0x01]), &module(&[0x01, 0x01]));
        assert_eq!(
            lines,
            ["code: 8 bytes on the chain, 9 built", "function 1 is the first that differs: 3 bytes on the chain, 4 built"]
        );
    }

    #[test]
    fn an_interface_alone_is_no_other_code() {
        let lines = compare(&embed(&module(&[]), b"[]"), &module(&[]));
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("corniche.abi: ") && lines[1].starts_with("what runs is the same"), "{lines:?}");
        assert!(compare(&module(&[]), &module(&[])).is_empty());
    }
}
