//! `corniche contract new`: creates a contract project that builds and has tests.
//!
//! The templates are files in `templates/` of this crate; the tests create, build and test projects from
//! them. Projects need only crates of the registry, at the versions of the lock file that comes with them. So
//! a new release cannot break a first build, and no network is needed if those crates are cached.

use super::project::cargo;
use anyhow::{Context, ensure};
use clap::ValueEnum;
use corniche_console::exit;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

#[derive(clap::Args, Debug)]
pub struct New {
    /// Folder to create; its last component is the contract's name
    #[arg(value_name = "NAME")]
    path: PathBuf,
    /// Template of the contract
    #[arg(long, value_enum, default_value = "counter")]
    template: Template,
    /// Corniche checkout or git URL, to add tests of the built module on the nodes' virtual machine. The first build takes a few minutes
    #[arg(long, value_name = "FOLDER|URL")]
    harness: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Template {
    /// A counter that anyone can increase: storage, an event, an error
    Counter,
    /// An ERC-20 token: a constructor, mappings, errors that wallets decode
    Token,
}

/// Path and content of a file.
type File = (&'static str, &'static str);

/// Files of every project.
const PROJECT: [File; 4] = [
    ("Cargo.toml", include_str!("../templates/project/Cargo.toml")),
    ("Cargo.lock", include_str!("../templates/project/Cargo.lock")),
    (".gitignore", include_str!("../templates/project/.gitignore")),
    ("build.rs", include_str!("../templates/project/build.rs")),
];

const COUNTER: [File; 3] = [
    ("README.md", include_str!("../templates/counter/README.md")),
    ("abi.json", include_str!("../templates/counter/abi.json")),
    ("src/lib.rs", include_str!("../templates/counter/lib.rs")),
];

const TOKEN: [File; 3] = [
    ("README.md", include_str!("../templates/token/README.md")),
    ("abi.json", include_str!("../templates/token/abi.json")),
    ("src/lib.rs", include_str!("../templates/token/lib.rs")),
];

impl Template {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Token => "token",
        }
    }

    fn files(self) -> impl Iterator<Item = File> {
        let own = match self {
            Self::Counter => COUNTER,
            Self::Token => TOKEN,
        };
        PROJECT.into_iter().chain(own)
    }

    /// Tests of the module, for projects with the harness.
    fn harness(self) -> &'static str {
        match self {
            Self::Counter => include_str!("../templates/counter/harness.rs"),
            Self::Token => include_str!("../templates/token/harness.rs"),
        }
    }
}

impl New {
    pub fn run(&self) -> anyhow::Result<()> {
        let name = self.path.file_name().and_then(|name| name.to_str()).context("the folder needs a name")?;
        check_name(name)?;
        let empty = fs::read_dir(&self.path).map_or(true, |mut entries| entries.next().is_none());
        ensure!(empty, "{} is there already, and not empty", self.path.display());
        let write = |place: &str, text: &str| {
            let path = self.path.join(place);
            let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
            folder.and_then(|()| fs::write(&path, text)).with_context(|| format!("cannot write {}", path.display()))
        };
        for (place, text) in self.template.files() {
            write(place, &named(place, text, self.template.name(), name))?;
        }
        write("rust-toolchain.toml", &toolchain())?;
        if let Some(harness) = &self.harness {
            let manifest = fs::read_to_string(self.path.join("Cargo.toml"))?;
            write("Cargo.toml", &with_harness(&manifest, &dependency(harness)?))?;
            write("tests/module.rs", self.template.harness())?;
            // The lock file lacks the dependencies of the harness.
            let updated = cargo(&self.path).args(["update", "--workspace", "--quiet"]).status();
            ensure!(
                updated.is_ok_and(|status| status.success()),
                "cargo could not find what the harness at {harness} needs; the rest is made"
            );
        }
        let folder = self.path.display();
        exit::note(format_args!(
            "made {folder}. Next:\n\n  cd {folder}\n  cargo test\n  corniche contract build\n\nREADME.md goes on from there."
        ));
        exit::result(folder);
        Ok(())
    }
}

/// Checks for cargo's rules, and that the module's file name is unique.
fn check_name(name: &str) -> anyhow::Result<()> {
    let letters = name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_".contains(letter));
    let taken = [
        "test",
        "core",
        "std",
        "alloc",
        "proc_macro",
        "build",
        "deps",
        "examples",
        "incremental",
        "stylus-sdk",
        "alloy-primitives",
        "alloy-sol-types",
    ];
    ensure!(
        letters && name.starts_with(|letter: char| letter.is_ascii_lowercase()) && !taken.contains(&name),
        "'{name}' cannot be a contract's name: small letters, digits, - and _, a letter first, and nothing that Rust or cargo call something else"
    );
    Ok(())
}

/// Replaces the template's name by the project's: in the manifest, the lock file, the README's title and the
/// module's path.
fn named(place: &str, text: &str, template: &str, name: &str) -> String {
    let field = |text: &str| text.replacen("name = \"template\"\n", &format!("name = \"{name}\"\n"), 1);
    match place {
        "Cargo.toml" => field(text),
        "Cargo.lock" => sorted(&field(text)),
        "README.md" => {
            let module = format!("{}.wasm", name.replace('-', "_"));
            text.replacen(&format!("# {template}\n"), &format!("# {name}\n"), 1).replace(&format!("{template}.wasm"), &module)
        }
        _ => text.into(),
    }
}

/// Sorts the packages of a lock file by name, as cargo requires for `--locked`.
fn sorted(lock: &str) -> String {
    let mut parts = lock.split("\n[[package]]\n");
    let head = parts.next().unwrap_or_default();
    let mut packages: Vec<_> = parts.map(str::trim_end).collect();
    let name = |package: &&str| package.lines().next().unwrap_or_default().trim_end_matches('"').to_owned();
    packages.sort_by_key(name); // Stable: several versions of one package keep their order.
    packages.iter().fold(head.to_owned(), |lock, package| format!("{lock}\n[[package]]\n{package}\n"))
}

/// Toolchain file. Only the same compiler produces the same code, so it is pinned to the installed one; no
/// download is needed before the first build.
fn toolchain() -> String {
    let print = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()
    };
    let version = print("rustc", &["--version"]).and_then(|text| text.split(' ').nth(1).map(str::to_owned));
    let installed = print("rustup", &["toolchain", "list"]).unwrap_or_default();
    let pinned = version.filter(|version| installed.lines().any(|line| line.starts_with(&format!("{version}-"))));
    let comment = match &pinned {
        Some(_) => "# The same code comes only from the same compiler.",
        None => {
            "# The same code comes only from the same compiler: name a version, for instance \"1.95.0\", before others are to build what you deploy."
        }
    };
    let channel = pinned.as_deref().unwrap_or("stable");
    format!("{comment}\n[toolchain]\nchannel = \"{channel}\"\ntargets = [\"{}\"]\n", corniche_harness::cargo::TARGET)
}

/// Line of `[dev-dependencies]`.
fn dependency(harness: &str) -> anyhow::Result<String> {
    if harness.contains("://") || harness.starts_with("git@") {
        return Ok(format!("corniche-harness = {{ git = {harness:?} }}"));
    }
    let given = Path::new(harness);
    let folder =
        [given.join("runtime/harness"), given.to_owned()].into_iter().find(|folder| folder.join("Cargo.toml").exists());
    let folder = folder.and_then(|folder| folder.canonicalize().ok());
    let folder = folder.with_context(|| format!("{harness} is neither a checkout of Corniche nor the address of one"))?;
    Ok(format!("corniche-harness = {{ path = {:?} }}", folder.display().to_string()))
}

fn with_harness(manifest: &str, dependency: &str) -> String {
    let profile = "# The virtual machine of the tests: optimised once, without its own checks and debug information.
[profile.dev]
debug = \"line-tables-only\"

[profile.dev.package.\"*\"]
opt-level = 1
debug = false
debug-assertions = false
overflow-checks = false

[profile.dev.build-override]
opt-level = 0
debug = false

";
    let manifest = manifest.replacen("[dev-dependencies]\n", &format!("[dev-dependencies]\n{dependency}\n"), 1);
    manifest.replacen("[profile.release]", &format!("{profile}[profile.release]"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_name_is_valid_for_cargo() {
        for good in ["a", "my-token", "token2", "a_b"] {
            check_name(good).unwrap();
        }
        for bad in ["", "2token", "My", "a b", "a/b", "-a", "test", "étoile", "stylus-sdk"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn project_name_replaces_template_name() {
        for template in [Template::Counter, Template::Token] {
            for (place, text) in template.files() {
                let mine = named(place, text, template.name(), "zz-mine");
                match place {
                    "Cargo.toml" => assert!(mine.starts_with("[package]\nname = \"zz-mine\"\n"), "{mine}"),
                    "Cargo.lock" => {
                        assert!(mine.ends_with("\n]\n") && mine.len() > 10_000);
                        let position = |name: &str| mine.find(&format!("name = \"{name}\"\n"));
                        assert!(position("zz-mine") > position("stylus-sdk"), "sorted by name");
                        assert_eq!(position("template"), None);
                        assert_eq!(named(place, text, template.name(), "template"), text, "and otherwise as it was");
                    }
                    "README.md" => assert!(mine.contains("# zz-mine\n") && mine.contains("/zz_mine.wasm"), "{mine}"),
                    _ => assert_eq!(mine, text, "{place}"),
                }
            }
        }
    }

    #[test]
    fn harness_is_path_or_url() {
        assert_eq!(dependency("https://a.example/c").unwrap(), "corniche-harness = { git = \"https://a.example/c\" }");
        let checkout = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        assert!(dependency(checkout).unwrap().ends_with("/runtime/harness\" }"));
        assert!(dependency("/nowhere").is_err());
        let manifest = with_harness(PROJECT[0].1, "corniche-harness = {}");
        assert!(
            manifest.contains("[dev-dependencies]\ncorniche-harness = {}\n") && manifest.contains("opt-level = 1"),
            "{manifest}"
        );
    }
}
