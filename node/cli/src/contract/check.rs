//! `corniche contract check`: would a module deploy, on a chain of its own and without a node.

use crate::exit::{self, Exit, Failed};
use anyhow::Context;
use corniche_harness::{Deployable, check};
use serde_json::json;
use std::{fs, path::PathBuf};

#[derive(clap::Args, Debug)]
pub struct Check {
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub const STACK_NOTE: &str = "note        most of its memory is the stack, paid for at every call: `rustflags = [\"-C\", \"link-arg=-zstack-size=65536\"]` under \
    [target.wasm32-unknown-unknown] in .cargo/config.toml makes it smaller";

impl Check {
    pub fn run(&self) -> anyhow::Result<()> {
        let wasm = fs::read(&self.file).with_context(|| format!("cannot read {}", self.file.display()))?;
        let fits = check(&wasm).map_err(|refused| {
            let (file, fault, mend) = (self.file.display(), refused.fault.trim_end(), refused.mend);
            Failed::new(Exit::Usage, format!("{file} would not deploy: {fault}\n  {mend}"))
        })?;
        exit::result(if self.json { format!("{:#}", as_json(&fits)) } else { self.told(&fits) });
        Ok(())
    }

    fn told(&self, fits: &Deployable) -> String {
        let Deployable { compressed, unpacked, deployment_gas, pages, functions, imports, development_only } = fits;
        let imports: Vec<_> = imports.iter().map(|(module, names)| format!("{module}: {}", names.join(", "))).collect();
        let limit = corniche_types::MAX_TRANSACTION_BYTES;
        let mut lines = vec![
            format!("{} deploys{}", self.file.display(), if *development_only { ", on development chains only" } else { "" }),
            format!("size        {unpacked} bytes; {compressed} compressed, of {limit} that a transaction holds"),
            format!("deployment  {deployment_gas} gas compressed, without a constructor"),
            format!("functions   {functions}"),
            format!("memory      {pages} pages of 64 KiB to start with, 250 gas each at every call"),
            format!("imports     {}", imports.join("; ")),
        ];
        if *development_only {
            lines.push("note        it imports `console`, as debug builds do: `corniche dev` and tests take it; build without the feature `debug` for other chains".into());
        }
        if *pages > 4 {
            lines.push(STACK_NOTE.into());
        }
        lines.join("\n")
    }
}

pub fn as_json(fits: &Deployable) -> serde_json::Value {
    json!({
        "unpackedBytes": fits.unpacked,
        "compressedBytes": fits.compressed,
        "deploymentGas": fits.deployment_gas,
        "functions": fits.functions,
        "memoryPages": fits.pages,
        "imports": fits.imports,
        "developmentOnly": fits.development_only,
    })
}
