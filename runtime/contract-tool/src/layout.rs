//! `corniche contract layout`: storage layout of a contract's fields, and compatibility of a new version with
//! the stored data of an old one.
//!
//! Reads the source and runs nothing: the contract's struct and the types of its fields, through modules,
//! imports and crates, down to types of the SDK, whose rules are in [`rules`]. A type that cannot be resolved
//! is an error that names it, because a partly guessed layout is useless.
//!
//! | module | |
//! |---|---|
//! | [`source`], [`cfg`], [`solidity`] | files, as far as storage needs them |
//! | [`names`], [`parameters`] | resolution of paths |
//! | [`rules`], [`types`], [`entry`] | positions of fields |
//! | [`solc`], [`table`] | output formats |
//! | [`compare`] | changes that a new version may make |

mod cfg;
mod compare;
mod entry;
mod names;
mod parameters;
mod rules;
mod solc;
mod solidity;
mod source;
mod table;
#[cfg(test)]
mod tests;
mod types;

use super::project::Project;
use anyhow::Context;
use compare::{Comparison, compare};
use corniche_console::exit::{self, Exit, Failed};
use serde_json::json;
use solc::Layout;
use std::{
    fs,
    path::{Path, PathBuf},
};

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Folder of the contract
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// Old version to compare with: a layout.json, or the folder of its source. Fail if the new version cannot read the old version's data
    #[arg(long, value_name = "FILE|FOLDER")]
    against: Option<PathBuf>,
    /// Write the layout to layout.json beside Cargo.toml; with --against only if the versions are compatible
    #[arg(long)]
    write: bool,
    /// Name of the storage struct; default: the one with #[entrypoint], or the only one that implements TopLevelStorage
    #[arg(long, value_name = "NAME")]
    root: Option<String>,
    /// Print JSON: the layout in the format of Solidity's compiler, or the result of --against
    #[arg(long)]
    json: bool,
}

impl Args {
    pub fn run(&self) -> anyhow::Result<()> {
        let (layout, folder) = self.layout_in(&self.path)?;
        if let Some(old) = &self.against {
            self.compare(old, &layout)?;
        }
        if self.write {
            let file = folder.join("layout.json");
            fs::write(&file, format!("{:#}\n", json!(layout))).with_context(|| format!("cannot write {}", file.display()))?;
            exit::note(format_args!("wrote {}", file.display()));
        } else if self.against.is_none() {
            exit::result(if self.json { format!("{:#}", json!(layout)) } else { table::table(&layout) });
        }
        Ok(())
    }

    /// Layout, and the folder that it belongs to.
    fn layout_in(&self, path: &Path) -> anyhow::Result<(Layout, PathBuf)> {
        let project = Project::open(path)?;
        let manifest = project.folder.join("Cargo.toml");
        let layout = entry::layout(project.metadata().clone(), &manifest, self.root.as_deref())
            .with_context(|| format!("the layout of {} cannot be told", project.name))?;
        Ok((layout, project.folder))
    }

    fn compare(&self, old: &Path, layout: &Layout) -> anyhow::Result<()> {
        let before = match old.is_dir() {
            true => self.layout_in(old)?.0,
            false => {
                let json = fs::read(old).with_context(|| format!("cannot read {}", old.display()))?;
                Layout::parse(&json).with_context(|| format!("{} is no layout", old.display()))?
            }
        };
        let found = compare(&before, layout);
        if self.json {
            let Comparison { clashes, renamed, added } = &found;
            let told = json!({"compatible": clashes.is_empty(), "clashes": clashes, "renamed": renamed, "added": added});
            exit::result(format_args!("{told:#}"));
        }
        for renamed in &found.renamed {
            exit::note(format_args!("warning: {renamed}; if it is another field, it begins with what the old one left"));
        }
        let (here, there) = (self.path.display(), old.display());
        if !found.clashes.is_empty() {
            let clashes: Vec<_> = found.clashes.iter().map(|clash| format!("\n  {clash}")).collect();
            let told = format!("{here} would not find what {there} stored, and must not take its place:{}", clashes.concat());
            return Err(Failed::new(Exit::Failure, told).into());
        }
        if !self.json {
            exit::result(format_args!("{here} finds all that {there} stored"));
            found.added.iter().for_each(|added| exit::result(format_args!("+ {added}")));
        }
        Ok(())
    }
}
