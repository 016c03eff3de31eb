//! `corniche contract verify`: checks whether the code at an address was built from this source.
//!
//! A node stores an account's code exactly as deployed, compressed or not. The comparison uses the module in
//! it, so packing and constructor arguments make no difference.

use super::{
    abi::Interface,
    build::make,
    compare::{Difference, compare},
    errors, known, module,
    options::Rpc,
    project::Project,
};
use anyhow::{Context, ensure};
use corniche_client::Client;
use corniche_console::exit::{self, Exit, Failed};
use corniche_types::{Address, B256, keccak256};
use corniche_vm::wasm::unpack;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Advice if the code differs.
const OTHER_CODE: &str = "to get the same code, build the same source with the same Cargo.lock, profile and compiler \
     (rust-toolchain.toml) by `corniche contract build`, which keeps paths out of the module; give a module that was built \
     in another way as a file";

/// Advice if only custom sections differ.
const OTHER_CUSTOM: &str =
    "to get the same custom sections, build with the same abi.json, the same `strip` in the profile and the same wasm-opt";

#[derive(clap::Args, Debug)]
pub struct Verify {
    #[arg(value_name = "ADDRESS")]
    address: Address,
    /// Module file, or folder of a contract, which is built as by `corniche contract build`
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    #[command(flatten)]
    rpc: Rpc,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Possible module, and how it is built.
struct Candidate {
    wasm: Vec<u8>,
    made: String,
}

/// Code at the address.
struct Deployed {
    /// Hash of the account's code, as deployed.
    code_hash: B256,
    /// Module in it.
    wasm: Vec<u8>,
}

/// Result.
struct Verdict {
    address: Address,
    deployed: Deployed,
    built: Candidate,
    difference: Option<Difference>,
}

impl Verify {
    pub fn run(&self) -> anyhow::Result<()> {
        let client = self.rpc.client();
        let deployed = self.deployed(&client)?;
        let built = closest(self.candidates()?, &deployed.wasm);
        let difference = compare(&deployed.wasm, &built.wasm);
        let verdict = Verdict { address: self.address, deployed, built, difference };
        if let Some(implementation) = known::implementation(&client, self.address) {
            let at = self.address;
            exit::note(format_args!(
                "{at} is a proxy: it runs the code at {implementation}, which has to be verified separately"
            ));
        }
        if self.json {
            exit::result(format_args!("{:#}", verdict.as_json()));
        }
        match &verdict.difference {
            Some(difference) => Err(Failed::new(Exit::Failure, verdict.refusal(difference)).into()),
            None if self.json => Ok(()),
            None => {
                exit::result(verdict.success());
                Ok(())
            }
        }
    }

    fn deployed(&self, client: &Client) -> anyhow::Result<Deployed> {
        let code = client.code(self.address).map_err(|error| errors::explain(error, Interface::nothing()))?;
        ensure!(!code.is_empty(), "there is no contract at {} on this node's chain; --rpc names another node", self.address);
        let wasm = unpack(&code).with_context(|| format!("the code at {} is no module", self.address))?;
        Ok(Deployed { code_hash: keccak256(&code), wasm })
    }

    /// Returns at least one. The deployer may have used wasm-opt or not.
    fn candidates(&self) -> anyhow::Result<Vec<Candidate>> {
        if !self.path.is_dir() {
            return Ok(vec![Candidate { wasm: module::read(&self.path)?, made: self.path.display().to_string() }]);
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

/// Equal module, or else the one with the closest length.
fn closest(candidates: Vec<Candidate>, deployed: &[u8]) -> Candidate {
    let distance = |candidate: &Candidate| (candidate.wasm != deployed, candidate.wasm.len().abs_diff(deployed.len()));
    candidates.into_iter().min_by_key(distance).expect("a path is at least one module")
}

impl Verdict {
    fn told(&self) -> String {
        format!("{} {} {}", self.address, if self.difference.is_none() { "is" } else { "is not" }, self.built.made)
    }

    fn success(&self) -> String {
        let Deployed { code_hash, wasm } = &self.deployed;
        format!("{}\ncode hash   {code_hash}\nmodule      {}", self.told(), size_and_hash(wasm))
    }

    fn refusal(&self, difference: &Difference) -> String {
        let mut lines = vec![
            self.told(),
            format!("code hash   {}", self.deployed.code_hash),
            format!("on chain    {}", size_and_hash(&self.deployed.wasm)),
            format!("built       {}", size_and_hash(&self.built.wasm)),
        ];
        lines.extend(difference.lines.iter().cloned());
        lines.push(if difference.only_custom { OTHER_CUSTOM } else { OTHER_CODE }.into());
        lines.join("\n  ")
    }

    fn as_json(&self) -> Value {
        let Deployed { code_hash, wasm } = &self.deployed;
        json!({
            "same": self.difference.is_none(),
            "codeHash": code_hash,
            "keccak256": keccak256(wasm),
            "bytes": wasm.len(),
            "built": {"keccak256": keccak256(&self.built.wasm), "bytes": self.built.wasm.len()},
            "told": self.told(),
            "onlyCustomSections": self.difference.as_ref().is_some_and(|difference| difference.only_custom),
            "differences": self.difference.as_ref().map(|difference| difference.lines.as_slice()).unwrap_or_default(),
        })
    }
}

fn size_and_hash(wasm: &[u8]) -> String {
    format!("{} bytes, keccak256 {}", wasm.len(), keccak256(wasm))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(wasm: &[u8]) -> Candidate {
        Candidate { wasm: wasm.to_vec(), made: format!("{} bytes", wasm.len()) }
    }

    #[test]
    fn equal_code_comes_before_equal_length() {
        let all = || vec![candidate(b"12"), candidate(b"345"), candidate(b"678"), candidate(b"90123")];
        assert_eq!(closest(all(), b"678").wasm, b"678");
        assert_eq!(closest(all(), b"abcdef").wasm, b"90123");
        assert_eq!(closest(all(), b"").wasm, b"12");
    }

    #[test]
    fn verdict_has_both_hashes_and_remedy() {
        let (one, other) = (b"\0asm\x01\0\0\0".to_vec(), b"\0asm\x01\0\0\0\0\x02\x01x".to_vec());
        let verdict = |built: &[u8]| Verdict {
            address: Address::ZERO,
            deployed: Deployed { code_hash: B256::repeat_byte(7), wasm: one.clone() },
            difference: compare(&one, built),
            built: candidate(built),
        };
        let same = verdict(&one);
        assert_eq!((&same.as_json()["same"], &same.as_json()["differences"]), (&json!(true), &json!([])));
        let told = same.success();
        assert!(told.contains(" is 8 bytes\n") && told.contains(&B256::repeat_byte(7).to_string()), "{told}");
        let differs = verdict(&other);
        let json = differs.as_json();
        assert_eq!(
            (&json["same"], &json["onlyCustomSections"], &json["built"]["bytes"]),
            (&json!(false), &json!(true), &json!(12))
        );
        let told = differs.refusal(differs.difference.as_ref().unwrap());
        let hashes = [&one, &other].map(|wasm| keccak256(wasm).to_string());
        for part in [hashes[0].as_str(), &hashes[1], " is not 12 bytes\n", OTHER_CUSTOM] {
            assert!(told.contains(part), "{part} in {told}");
        }
        let elsewhere = verdict(b"\0asm\x01\0\0\0\x01\x01\0");
        assert!(elsewhere.refusal(elsewhere.difference.as_ref().unwrap()).ends_with(OTHER_CODE));
    }
}
