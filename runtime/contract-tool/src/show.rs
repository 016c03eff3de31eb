//! `corniche contract abi`: prints an ABI in the formats of other tools.

use super::{
    abi::{Interface, parse_items},
    errors, export,
    options::Rpc,
    project::Project,
};
use alloy_json_abi::{JsonAbi, ToSolConfig};
use anyhow::{Context, bail, ensure};
use corniche_abi::interface;
use corniche_console::exit;
use corniche_types::Address;
use corniche_vm::wasm::unpack;
use serde_json::Value;
use std::{collections::BTreeSet, fs, path::Path};

#[derive(clap::Args, Debug)]
pub struct Show {
    /// Module file, JSON file, address on the chain of --rpc, or folder of a contract, whose source is read
    #[arg(value_name = "FILE|ADDRESS|FOLDER", default_value = ".")]
    of: String,
    #[command(flatten)]
    form: Form,
    /// Name in Solidity and TypeScript; default: the file's name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Write the ABI of a folder's source to abi.json in the folder
    #[arg(long, conflicts_with_all = ["solidity", "typescript"])]
    write: bool,
    /// Fail if abi.json in a folder differs from the ABI of its source
    #[arg(long, conflicts_with = "write")]
    check: bool,
    #[command(flatten)]
    rpc: Rpc,
}

#[derive(clap::Args, Debug)]
#[group(multiple = false)]
struct Form {
    /// Print JSON, one item per line (default)
    #[arg(long)]
    json: bool,
    /// Print a Solidity interface
    #[arg(long)]
    solidity: bool,
    /// Print a TypeScript constant from which viem and abitype infer types
    #[arg(long)]
    typescript: bool,
}

impl Show {
    pub fn run(&self) -> anyhow::Result<()> {
        let items = self.items()?;
        let kept = Path::new(&self.of).join("abi.json");
        if self.write {
            fs::write(&kept, lines(&items) + "\n").with_context(|| format!("cannot write {}", kept.display()))?;
            exit::note(format_args!("wrote {}", kept.display()));
            return Ok(());
        }
        if self.check {
            return differences(&kept, &items);
        }
        let name = self.name.clone().unwrap_or_else(|| match self.of.starts_with("0x") {
            true => "contract".into(),
            false => Path::new(&self.of)
                .canonicalize()
                .unwrap_or_default()
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
        });
        exit::result(match &self.form {
            Form { solidity: true, .. } => {
                let abi: JsonAbi = serde_json::from_value(items.into())?;
                abi.to_sol(&camel(&name, true), Some(ToSolConfig::new().print_constructors(true)))
            }
            Form { typescript: true, .. } => format!("export const {}Abi = {} as const;", camel(&name, false), lines(&items)),
            _ => lines(&items),
        });
        Ok(())
    }

    /// In the order of the source.
    fn items(&self) -> anyhow::Result<Vec<Value>> {
        if let Ok(address) = self.of.parse::<Address>() {
            return self.on_chain(address);
        }
        let path = Path::new(&self.of);
        if path.is_dir() {
            let exported = export::export(&Project::open(path)?)?;
            exported.unread.iter().for_each(exit::note);
            return Ok(exported.items);
        }
        ensure!(
            !self.write && !self.check,
            "--write and --check are for the folder of a contract, which {} is not",
            path.display()
        );
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        if bytes.starts_with(b"\0asm") {
            let carried = interface::embedded(&bytes);
            let help = "`corniche contract build` puts the abi.json of a project into its module";
            return parse_items(carried.with_context(|| format!("{} carries no ABI; {help}", path.display()))?, &self.of);
        }
        parse_items(&bytes, &self.of)
    }

    fn on_chain(&self, address: Address) -> anyhow::Result<Vec<Value>> {
        let code = self.rpc.client().code(address).map_err(|error| errors::explain(error, Interface::nothing()))?;
        ensure!(!code.is_empty(), "there is no contract at {address}");
        let wasm = unpack(&code).with_context(|| format!("the code at {address} is no module"))?;
        match interface::embedded(&wasm) {
            Some(carried) => parse_items(carried, &self.of),
            None => bail!("the contract at {address} carries no ABI; whoever deployed it may have its abi.json"),
        }
    }
}

/// Reports the items that exist in only one of the two. Ignores their order, and the names of arguments that
/// are not decoded.
fn differences(kept: &Path, source: &[Value]) -> anyhow::Result<()> {
    let json = fs::read(kept).with_context(|| format!("cannot read {}; --write makes it", kept.display()))?;
    let kept_items = parse_items(&json, &kept.display().to_string())?;
    let all = |items: &[Value]| -> anyhow::Result<BTreeSet<String>> {
        // Converted to the same type, so that omitted optional fields do not count as differences.
        let abi: JsonAbi = serde_json::from_value(items.to_vec().into())?;
        Ok(abi.items().map(|item| serde_json::to_string(&item)).collect::<Result<_, _>>()?)
    };
    let (kept_items, source) = (all(&kept_items)?, all(source)?);
    let mut lines: Vec<_> = kept_items.difference(&source).map(|item| format!("- {item}")).collect();
    lines.extend(source.difference(&kept_items).map(|item| format!("+ {item}")));
    ensure!(lines.is_empty(), "{} is not what the source says; --write makes it so\n{}", kept.display(), lines.join("\n"));
    Ok(())
}

/// JSON with one item per line, as in `abi.json`.
pub fn lines(items: &[Value]) -> String {
    let items: Vec<_> = items.iter().map(|item| format!("  {item}")).collect();
    if items.is_empty() { "[]".into() } else { format!("[\n{}\n]", items.join(",\n")) }
}

/// Converts my-token to MyToken or myToken; a name must not start with a digit.
pub fn camel(name: &str, first_upper: bool) -> String {
    let mut out = String::new();
    let mut upper = first_upper;
    for letter in name.chars() {
        match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' => {
                if out.is_empty() && letter.is_ascii_digit() {
                    out.push('_');
                }
                out.push(if upper { letter.to_ascii_uppercase() } else { letter });
                upper = false;
            }
            _ => upper = !out.is_empty() || first_upper,
        }
    }
    if out.is_empty() { camel("contract", first_upper) } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_target_language() {
        for (name, solidity, typescript) in [
            ("my-token", "MyToken", "myToken"),
            ("token", "Token", "token"),
            ("a_b.c", "ABC", "aBC"),
            ("3d", "_3d", "_3d"),
            ("", "Contract", "contract"),
            ("-x", "X", "x"),
        ] {
            assert_eq!((camel(name, true).as_str(), camel(name, false).as_str()), (solidity, typescript), "{name}");
        }
    }

    #[test]
    fn json_has_one_item_per_line() {
        assert_eq!(lines(&[]), "[]");
        let items = [serde_json::json!({"type": "receive"}), serde_json::json!({"type": "fallback"})];
        assert_eq!(lines(&items), "[\n  {\"type\":\"receive\"},\n  {\"type\":\"fallback\"}\n]");
        assert_eq!(serde_json::from_str::<Vec<Value>>(&lines(&items)).unwrap(), items);
    }
}
