//! The source of a contract's crate and of crates it names, as far as storage goes: modules, structs, aliases, constants, imports.
//!
//! Nothing is compiled. Files are found as the compiler finds them, and what `cfg` leaves out for wasm32 is left out. What only a macro writes is
//! not seen, except for `sol_storage!`.

use super::{
    cfg::{Holds, holds},
    solidity,
};
use anyhow::{Context, anyhow, bail, ensure};
use serde_json::Value;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::{Path, PathBuf},
    rc::Rc,
};
use syn::{ext::IdentExt, spanned::Spanned};

/// Bytes of a file. `STACK` in `entry` is for as many.
const LONGEST: u64 = 512 << 10;

/// What `cargo metadata` knows, and what was read so far.
pub struct Packages {
    metadata: Value,
    read: RefCell<BTreeMap<String, Rc<Crate>>>,
}

/// A library's source.
pub struct Crate {
    /// As its Cargo.toml calls it.
    pub package: String,
    /// By the name it has in this crate: the package.
    pub externs: BTreeMap<String, String>,
    /// The first is the root.
    pub modules: Vec<Module>,
    /// `impl StorageType for …`, by hand.
    pub implementations: Vec<Implementation>,
    /// `impl TopLevelStorage for …`, by hand: what an entry point of one's own begins with.
    pub top_level: Vec<(usize, syn::Path)>,
}

#[derive(Default)]
pub struct Module {
    /// `words::inner`; empty at the root.
    pub path: String,
    pub parent: usize,
    pub items: BTreeMap<String, Item>,
    pub constants: BTreeMap<String, syn::Expr>,
    /// By the name they give.
    pub imports: BTreeMap<String, Vec<String>>,
    pub globs: Vec<Vec<String>>,
}

#[derive(Clone)]
pub enum Item {
    Module(usize),
    Struct(Rc<Struct>),
    Alias(Rc<Alias>),
    /// A type that can be no storage.
    Other,
    /// It is there or not by a condition that is not known here, which this is.
    Unknown(String),
}

pub struct Struct {
    pub name: String,
    pub place: Place,
    /// Whether the SDK lays it out: `#[storage]`, `sol_storage!`.
    pub storage: bool,
    pub entrypoint: bool,
    pub generics: syn::Generics,
    pub fields: Vec<Field>,
}

pub struct Field {
    pub name: String,
    pub kind: syn::Type,
    pub place: Place,
    /// Why it may not be there. The SDK lays it out all the same.
    pub condition: Option<String>,
}

pub struct Alias {
    pub generics: syn::Generics,
    pub kind: syn::Type,
}

/// A storage type that somebody made by hand. What is absent is as the trait has it.
pub struct Implementation {
    pub module: usize,
    pub of: syn::Path,
    pub slot_bytes: Option<syn::Expr>,
    pub required_slots: Option<syn::Expr>,
}

/// A file and a line.
#[derive(Clone)]
pub struct Place {
    pub file: Rc<PathBuf>,
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

impl Packages {
    pub fn new(metadata: Value) -> Self {
        Self { metadata, read: RefCell::default() }
    }

    /// The package of a manifest.
    pub fn of_manifest(&self, manifest: &Path) -> anyhow::Result<&str> {
        let package = list(&self.metadata["packages"]).iter().find(|package| path_of(package) == Some(manifest));
        package
            .and_then(|package| package["id"].as_str())
            .with_context(|| format!("cargo does not know {}", manifest.display()))
    }

    /// The versions of a package, by its name, that another depends on, by whatever way.
    pub fn versions(&self, id: &str, name: &str) -> Vec<&str> {
        let (mut found, mut next) = (BTreeSet::from([id]), vec![id]);
        while let Some(id) = next.pop() {
            let deps = list(&self.node(id)["deps"]).iter().filter_map(|dep| dep["pkg"].as_str());
            next.extend(deps.filter(|dep| found.insert(dep)));
        }
        let packages = found.into_iter().filter_map(|id| self.package(id)).filter(|package| package["name"] == name);
        packages.filter_map(|package| package["version"].as_str()).collect()
    }

    /// What a package is called.
    pub fn name<'a>(&'a self, id: &'a str) -> &'a str {
        self.package(id).and_then(|package| package["name"].as_str()).unwrap_or(id)
    }

    /// Read when it is first asked for.
    pub fn source(&self, id: &str) -> anyhow::Result<Rc<Crate>> {
        if let Some(read) = self.read.borrow().get(id) {
            return Ok(read.clone());
        }
        let read = Rc::new(self.read(id)?);
        self.read.borrow_mut().insert(id.to_owned(), read.clone());
        Ok(read)
    }

    /// What it depends on, and the features that it has.
    fn node(&self, id: &str) -> &Value {
        list(&self.metadata["resolve"]["nodes"]).iter().find(|node| node["id"] == id).unwrap_or(&Value::Null)
    }

    fn package(&self, id: &str) -> Option<&Value> {
        list(&self.metadata["packages"]).iter().find(|package| package["id"] == id)
    }

    fn read(&self, id: &str) -> anyhow::Result<Crate> {
        let package = self.package(id).with_context(|| format!("cargo does not know {id}"))?;
        let target_of = |kinds: &[&str]| {
            let is_of = |target: &&Value| list(&target["kind"]).iter().any(|kind| kinds.iter().any(|one| kind == one));
            list(&package["targets"]).iter().find(is_of)
        };
        let node = self.node(id);
        let externs = list(&node["deps"]).iter();
        let externs = externs.filter_map(|dep| Some((dep["name"].as_str()?.to_owned(), dep["pkg"].as_str()?.to_owned())));
        let source = Crate {
            package: package["name"].as_str().unwrap_or_default().to_owned(),
            externs: externs.collect(),
            modules: vec![Module::default()],
            implementations: Vec::new(),
            top_level: Vec::new(),
        };
        if target_of(&["proc-macro"]).is_some() {
            return Ok(source); // It has no types for others.
        }
        let library = target_of(&["lib", "rlib", "cdylib", "dylib", "staticlib"]);
        let root = library.and_then(|target| target["src_path"].as_str()).map(PathBuf::from);
        let root = root.with_context(|| format!("{id} has no library"))?;
        let features = list(&node["features"]).iter().filter_map(|feature| Some(feature.as_str()?.to_owned())).collect();
        let base = path_of(package).and_then(Path::parent).map(Path::to_owned);
        let mut reader = Reader { source, features, base, open: Vec::new() };
        let folder = root.parent().context("a file lies in a folder")?.to_owned();
        reader.file(&root, 0, folder)?;
        Ok(reader.source)
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn path_of(package: &Value) -> Option<&Path> {
    package["manifest_path"].as_str().map(Path::new)
}

struct Reader {
    source: Crate,
    features: BTreeSet<String>,
    /// Of its Cargo.toml: places are told from here.
    base: Option<PathBuf>,
    /// Files that are being read.
    open: Vec<PathBuf>,
}

/// Where items stand.
struct Within {
    module: usize,
    /// As it is told.
    file: Rc<PathBuf>,
    /// Where `#[path]` begins.
    folder: PathBuf,
    /// Where files of modules in it lie.
    children: PathBuf,
}

impl Reader {
    fn file(&mut self, file: &Path, module: usize, children: PathBuf) -> anyhow::Result<()> {
        let cannot = || format!("cannot read {}", file.display());
        let told = self.base.as_ref().and_then(|base| file.strip_prefix(base).ok()).unwrap_or(file).to_owned();
        let same = file.canonicalize().with_context(cannot)?;
        ensure!(!self.open.contains(&same), "{} is a module of itself, by #[path]", told.display());
        let length = fs::metadata(file).with_context(cannot)?.len();
        ensure!(length <= LONGEST, "{} has {length} bytes, and files of up to {LONGEST} are read", told.display());
        let text = fs::read_to_string(file).with_context(cannot)?;
        let parsed = syn::parse_file(&text).map_err(|error| {
            let line = error.span().start().line;
            anyhow!("{}:{line}: this is not Rust that can be read: {error}", told.display())
        })?;
        if holds(&parsed.attrs, &self.features) == Holds::No {
            return Ok(());
        }
        let folder = file.parent().map(Path::to_owned).unwrap_or_default();
        self.open.push(same);
        self.items(parsed.items, &Within { module, file: Rc::new(told), folder, children })?;
        self.open.pop();
        Ok(())
    }

    fn items(&mut self, items: Vec<syn::Item>, within: &Within) -> anyhow::Result<()> {
        for item in items {
            let condition = match holds(attributes(&item), &self.features) {
                Holds::Yes => None,
                Holds::No => continue,
                Holds::Unknown(condition) => Some(condition),
            };
            self.item(item, within, condition)?;
        }
        Ok(())
    }

    fn item(&mut self, item: syn::Item, within: &Within, condition: Option<String>) -> anyhow::Result<()> {
        match item {
            syn::Item::Mod(item) => self.module(item, within, condition)?,
            syn::Item::Struct(item) => {
                let name = item.ident.to_string();
                let made = self.structure(item, within);
                self.add(within, name, Item::Struct(Rc::new(made)), condition);
            }
            syn::Item::Type(item) => {
                let alias = Alias { generics: item.generics, kind: *item.ty };
                self.add(within, item.ident.to_string(), Item::Alias(Rc::new(alias)), condition);
            }
            syn::Item::Const(item) if condition.is_none() => {
                self.here(within).constants.insert(item.ident.to_string(), *item.expr);
            }
            syn::Item::Use(item) => {
                let path = if item.leading_colon.is_some() { vec![String::new()] } else { Vec::new() };
                self.import(&item.tree, path, within, condition.as_deref());
            }
            syn::Item::ExternCrate(item) => {
                let name = item.rename.map_or(item.ident.to_string(), |(_, name)| name.to_string());
                self.here(within).imports.insert(name, vec![String::new(), item.ident.to_string()]);
            }
            syn::Item::Impl(item) if condition.is_none() => self.implementation(item, within.module),
            syn::Item::Macro(item) if is_named(&item.mac.path, &["sol_storage"]) => {
                for item in solidity::structs(item.mac.tokens, &within.file)? {
                    let condition = match (holds(&item.attrs, &self.features), &condition) {
                        (Holds::No, _) => continue,
                        (Holds::Unknown(condition), _) => Some(condition),
                        (Holds::Yes, condition) => condition.clone(),
                    };
                    self.item(syn::Item::Struct(item), within, condition)?;
                }
            }
            syn::Item::Enum(item) => self.add(within, item.ident.to_string(), Item::Other, condition),
            syn::Item::Union(item) => self.add(within, item.ident.to_string(), Item::Other, condition),
            _ => {}
        }
        Ok(())
    }

    fn here(&mut self, within: &Within) -> &mut Module {
        &mut self.source.modules[within.module]
    }

    fn add(&mut self, within: &Within, name: String, item: Item, condition: Option<String>) {
        let items = &mut self.here(within).items;
        let item = match condition {
            Some(condition) => Item::Unknown(condition),
            // One of them is there by a condition that looked as if it held.
            None if items.contains_key(&name) => Item::Unknown("it is there twice".into()),
            None => item,
        };
        items.insert(name, item);
    }

    fn module(&mut self, item: syn::ItemMod, within: &Within, condition: Option<String>) -> anyhow::Result<()> {
        let name = item.ident.to_string();
        if condition.is_some() {
            self.add(within, name, Item::Other, condition);
            return Ok(());
        }
        let parent = &self.source.modules[within.module].path;
        let path = if parent.is_empty() { name.clone() } else { format!("{parent}::{name}") };
        let module = self.source.modules.len();
        self.source.modules.push(Module { path, parent: within.module, ..Module::default() });
        self.add(within, name.clone(), Item::Module(module), None);
        if let Some((_, items)) = item.content {
            let children = within.children.join(item.ident.unraw().to_string());
            let within = Within { module, file: within.file.clone(), folder: children.clone(), children };
            return self.items(items, &within);
        }
        let named = item.attrs.iter().find(|attribute| attribute.path().is_ident("path")).and_then(|attribute| {
            let syn::Meta::NameValue(value) = &attribute.meta else { return None };
            let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &value.value else { return None };
            Some(within.folder.join(text.value()))
        });
        if let Some(file) = named {
            let children = file.parent().map(Path::to_owned).unwrap_or_default();
            return self.file(&file, module, children);
        }
        let plain = item.ident.unraw().to_string();
        let folder = within.children.join(&plain);
        let files = [within.children.join(format!("{plain}.rs")), folder.join("mod.rs")];
        let Some(file) = files.iter().find(|file| file.exists()) else {
            bail!("{}:{}: the module {name} has no file", within.file.display(), item.ident.span().start().line)
        };
        self.file(file, module, folder)
    }

    fn structure(&self, item: syn::ItemStruct, within: &Within) -> Struct {
        let place = |line| Place { file: within.file.clone(), line };
        let marked = |names: &[&str]| item.attrs.iter().any(|attribute| is_named(attribute.path(), names));
        let field = |field: &syn::Field| Field {
            name: field.ident.as_ref().map(|name| name.unraw().to_string()).unwrap_or_default(),
            kind: field.ty.clone(),
            place: place(field.ident.as_ref().map_or(field.ty.span(), syn::Ident::span).start().line),
            condition: match holds(&field.attrs, &self.features) {
                Holds::Yes => None,
                Holds::No => Some("its cfg does not hold for wasm32".into()),
                Holds::Unknown(condition) => Some(condition),
            },
        };
        Struct {
            name: item.ident.to_string(),
            place: place(item.ident.span().start().line),
            storage: marked(&["storage", "solidity_storage"]),
            entrypoint: marked(&["entrypoint"]),
            fields: item.fields.iter().map(field).collect(),
            generics: item.generics,
        }
    }

    fn import(&mut self, tree: &syn::UseTree, mut path: Vec<String>, within: &Within, condition: Option<&str>) {
        let name = |ident: &syn::Ident| ident.to_string();
        let (given, last) = match tree {
            syn::UseTree::Path(next) => {
                path.push(name(&next.ident));
                return self.import(&next.tree, path, within, condition);
            }
            syn::UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.import(tree, path.clone(), within, condition));
            }
            syn::UseTree::Glob(_) => return self.here(within).globs.push(path),
            syn::UseTree::Name(last) if last.ident == "self" => (path.last().cloned().unwrap_or_default(), "self".into()),
            syn::UseTree::Name(last) => (name(&last.ident), name(&last.ident)),
            syn::UseTree::Rename(last) => (name(&last.rename), name(&last.ident)),
        };
        if last != "self" {
            path.push(last);
        }
        match condition {
            Some(condition) => self.add(within, given, Item::Other, Some(condition.to_owned())),
            None => {
                self.here(within).imports.insert(given, path);
            }
        }
    }

    fn implementation(&mut self, item: syn::ItemImpl, module: usize) {
        let (Some((None, of, _)), syn::Type::Path(subject)) = (&item.trait_, &*item.self_ty) else { return };
        if is_named(of, &["TopLevelStorage"]) {
            self.source.top_level.push((module, subject.path.clone()));
        }
        if !is_named(of, &["StorageType"]) {
            return;
        }
        let constant = |name: &str| {
            item.items.iter().find_map(|item| match item {
                syn::ImplItem::Const(constant) if constant.ident == name => Some(constant.expr.clone()),
                _ => None,
            })
        };
        let (slot_bytes, required_slots) = (constant("SLOT_BYTES"), constant("REQUIRED_SLOTS"));
        let of = subject.path.clone();
        self.source.implementations.push(Implementation { module, of, slot_bytes, required_slots });
    }
}

/// Whether a path ends in one of these names: macros are called by their own names, whatever leads there.
fn is_named(path: &syn::Path, names: &[&str]) -> bool {
    path.segments.last().is_some_and(|last| names.iter().any(|name| last.ident == name))
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::ExternCrate(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
