//! Checks whether a module would deploy, and proposes fixes if it would not.

use crate::{chain::Chain, contract::Contract, creation};
use corniche_abi::{CONSOLE_MODULE, ENTRYPOINT_EXPORT};
use corniche_vm::Rules;
use corniche_vm::wasm::validate::{self, ValidationError};
use std::collections::BTreeMap;
use wasmparser::{Parser, Payload};

/// Properties of a module that deploys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployable {
    /// Compressed size in bytes. With constructor arguments, it must be less than
    /// [`corniche_types::MAX_TRANSACTION_BYTES`].
    pub compressed: usize,
    /// Uncompressed size in bytes; at most [`validate::MAX_MODULE_BYTES`].
    pub unpacked: usize,
    /// Gas of a deployment without a constructor.
    pub deployment_gas: u64,
    /// Initial memory in pages of 64 KiB. Each page costs 250 gas per call.
    pub pages: u32,
    pub functions: u32,
    /// Host calls by module.
    pub imports: BTreeMap<String, Vec<String>>,
    /// True if it imports `console`, which only development chains accept.
    pub development_only: bool,
}

/// Reason why a module does not deploy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct NotDeployable {
    /// Text of the receipt that its deployment would have.
    pub fault: String,
    /// Proposed fix.
    pub fix: String,
}

/// Deploys the module on a new chain.
pub fn check(wasm: &[u8]) -> Result<Deployable, NotDeployable> {
    if !wasm.starts_with(b"\0asm") {
        let fix = "build it with `cargo build --release --target wasm32-unknown-unknown` and take the .wasm file; creation data and text format are not modules";
        return Err(NotDeployable { fault: "not a WebAssembly module: it does not begin with \\0asm".into(), fix: fix.into() });
    }
    let checked = validate::check_with_rules(Rules::DEVELOPMENT, wasm)
        .map_err(|error| NotDeployable { fix: fix(&error), fault: error.to_string() })?;
    let too_large = |fault| NotDeployable { fault, fix: SMALLER.into() };
    let data = creation::compressed(wasm).map_err(|error| too_large(error.to_string()))?;
    let (compressed, mut chain) = (data.len(), Chain::new());
    let author = chain.account("author");
    let deployed = chain.by(author).create(&Contract::new("contract", wasm.to_vec()), data);
    let deployed = deployed.map_err(|failed| too_large(failed.to_string()))?;
    let imports = imports(wasm);
    Ok(Deployable {
        compressed,
        unpacked: wasm.len(),
        deployment_gas: deployed.gas_used,
        pages: checked.initial_pages,
        functions: checked.defined_functions,
        development_only: imports.contains_key(CONSOLE_MODULE),
        imports,
    })
}

const SMALLER: &str = "make it smaller: `opt-level = \"z\"`, `lto = true`, `codegen-units = 1`, `panic = \"abort\"` and `strip = true` in [profile.release], \
    fewer dependencies, wasm-opt -Oz; or split it into several contracts";

/// Proposes a fix by the kind of fault. A few kinds have many causes; their text identifies the cause.
fn fix(error: &ValidationError) -> String {
    match error {
        ValidationError::TooLarge { .. } => SMALLER.into(),
        ValidationError::Malformed(_) => {
            "the file is damaged, or written for a feature this chain does not have: build it again with plain `cargo build --release --target wasm32-unknown-unknown`, \
             without -C target-feature and without post-processing"
                .into()
        }
        ValidationError::Instruction { reason, .. } | ValidationError::Feature(reason) => feature(reason),
        ValidationError::Function { reason, .. } | ValidationError::Type { reason, .. } => function(reason),
        ValidationError::Limit { what, .. } => limit(what),
        ValidationError::UnknownImport { module, .. } => import(module),
        ValidationError::Console(_) => {
            "debug builds print with it, on `corniche dev` and in tests only. Build without the feature `debug` for other chains".into()
        }
        ValidationError::WrongImport { .. } => {
            "declare it as in the table of host calls (sdk/abi), or use the declaration of stylus-sdk".into()
        }
        ValidationError::Export(name, _) if *name == ENTRYPOINT_EXPORT => {
            "add #[entrypoint] of stylus-sdk to the contract's storage; by hand: #[no_mangle] pub extern \"C\" fn user_entrypoint(length: usize) -> usize. \
             A library without it needs crate-type = [\"lib\", \"cdylib\"] to be a contract"
                .into()
        }
        ValidationError::Export(..) => "rustc exports it by default; do not pass --import-memory, and do not strip exports".into(),
        ValidationError::Segment(_) => "correct the tool that wrote it: data and element segments must be active, have constant offsets and fit into memory and table".into(),
    }
}

/// Substrings that identify a refused feature, with the fix. The first match counts.
const FEATURES: [(&[&str], &str); 11] = [
    (
        &["float"],
        "use integers (fixed point: amounts in the smallest unit, rates in parts of 10^18). If a dependency does it, the function's name shows which one: build with \
         strip = \"debuginfo\" to see it, and remove that dependency or disable its float features",
    ),
    (
        &["SIMD"],
        "build without -C target-feature=+simd128 and without target-cpu=native, and disable SIMD features of dependencies",
    ),
    (&["thread", "atomic"], "build without -C target-feature=+atomics; a contract runs alone"),
    (&["reference"], "build with -C target-feature=-reference-types; tables of externref are not supported"),
    (&["tail"], "build without -C target-feature=+tail-call"),
    (&["exception"], "build with panic = \"abort\" and without -C target-feature=+exception-handling"),
    (&["multi-value"], "build without -C target-feature=+multivalue; return several values through memory"),
    (
        &["bulk memory"],
        "segments that are copied when running come with shared memory: build with plain `cargo build`, without -C link-arg=--shared-memory",
    ),
    (&["memory64"], "build for wasm32, not wasm64"),
    (&["memor"], "export exactly one memory as `memory`; rustc does so by default"),
    (&["start"], "remove it: no code runs before a call. Initialize in a constructor"),
];

fn feature(reason: &str) -> String {
    let plain = "build with plain `cargo build --release --target wasm32-unknown-unknown`: integers, sign extension, memory.copy and memory.fill are supported";
    let known = FEATURES.iter().find(|(names, _)| names.iter().any(|name| reason.contains(name)));
    known.map_or(plain, |(_, fix)| fix).into()
}

fn function(reason: &str) -> String {
    if ["local", "operand", "frame", "branch", "instruction", "nest", "parameter", "block"]
        .iter()
        .any(|word| reason.contains(word))
        && !["float", "SIMD", "reference", "multi-value"].iter().any(|word| reason.contains(word))
    {
        return "the function is too large: split it, put #[inline(never)] on parts of it, or build with opt-level = \"z\", which inlines less".into();
    }
    feature(reason)
}

fn limit(what: &str) -> String {
    match what {
        what if what.contains("page") => {
            "reduce the stack, which takes most of the memory: -C link-arg=-zstack-size=32768 in rustflags; move large static arrays to storage".into()
        }
        what if what.contains("import") || what.contains("export") => "remove unused exports: #[no_mangle] and pub extern functions are exported".into(),
        _ => SMALLER.into(),
    }
}

fn import(module: &str) -> String {
    match module {
        "env" => "a declaration is not linked: a C function, or an `extern` block without #[link(wasm_import_module = \"…\")]. Look for it with \
                  `cargo tree`, or remove the dependency"
            .into(),
        "wbg" | "__wbindgen_placeholder__" | "__wbindgen_externref_xform__" => {
            "wasm-bindgen needs a browser: disable the features that add it (getrandom's `wasm_js`, chrono's `wasmbind`, `js-sys`)".into()
        }
        "wasi_snapshot_preview1" | "wasi_unstable" => "it was built for wasm32-wasip1: build for wasm32-unknown-unknown".into(),
        CONSOLE_MODULE => "use a function of `console`: log_txt, log_i32, log_i64, tee_i32 or tee_i64".into(),
        "debug" => "it belongs to another chain's test node: remove it".into(),
        "vm_hooks" | "corniche" => "the name is not in the table of sdk/abi: compare the spelling, or use stylus-sdk 0.9 or 0.10".into(),
        _ => "this chain offers the modules `vm_hooks` and `corniche` only".into(),
    }
}

/// Returns the imports of a validated module.
fn imports(wasm: &[u8]) -> BTreeMap<String, Vec<String>> {
    let mut imports = BTreeMap::<String, Vec<String>>::new();
    for payload in Parser::new(0).parse_all(wasm).map_while(Result::ok) {
        let Payload::ImportSection(section) = payload else { continue };
        for import in section.into_imports().map_while(Result::ok) {
            imports.entry(import.module.into()).or_default().push(import.name.into());
        }
    }
    imports
}
