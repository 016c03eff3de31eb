//! `corniche contract check`: checks whether a module can be deployed, on its own chain in memory without a
//! node.

use super::{build, deployable};
use anyhow::Context;
use corniche_console::exit::{self, Exit, Failed};
use corniche_harness::{Deployable, check};
use std::{fs, path::PathBuf};

#[derive(clap::Args, Debug)]
pub struct Check {
    /// Module file, or folder of a contract, which is built as by `corniche contract build`
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    pub fn run(&self) -> anyhow::Result<()> {
        let path = self.path.display();
        let wasm = match build::in_folder(&self.path)? {
            Some(wasm) => wasm,
            None => fs::read(&self.path).with_context(|| format!("cannot read {path}"))?,
        };
        let fits = check(&wasm).map_err(|refused| {
            let (fault, fix) = (refused.fault.trim_end(), refused.fix);
            Failed::new(Exit::Usage, format!("{path} would not deploy: {fault}\n  {fix}"))
        })?;
        exit::result(if self.json { format!("{:#}", deployable::as_json(&fits)) } else { self.told(&fits) });
        Ok(())
    }

    fn told(&self, fits: &Deployable) -> String {
        let Deployable { compressed, unpacked, deployment_gas, pages, functions, imports, development_only } = fits;
        let imports: Vec<_> = imports.iter().map(|(module, names)| format!("{module}: {}", names.join(", "))).collect();
        let limit = corniche_types::MAX_TRANSACTION_BYTES;
        let plural = if *pages == 1 { "" } else { "s" };
        let mut lines = vec![
            format!("{} deploys{}", self.path.display(), if *development_only { ", on development chains only" } else { "" }),
            format!("size        {unpacked} bytes; {compressed} compressed, of {limit} that a transaction holds"),
            format!("deployment  {deployment_gas} gas compressed, without a constructor"),
            format!("functions   {functions}"),
            format!("memory      {pages} page{plural} of 64 KiB to start with, 250 gas each at every call"),
            format!("imports     {}", imports.join("; ")),
        ];
        if *development_only {
            lines.push("note        it imports `console`, as debug builds do: `corniche dev` and tests take it; build without the feature `debug` for other chains".into());
        }
        lines.extend(deployable::pages_note(*pages));
        lines.join("\n")
    }
}
