//! Resolves paths to types: modules, imports, globs, crates.

use super::source::{Alias, Crate, Item, Packages, Struct};
use anyhow::{bail, ensure};
use std::{collections::BTreeSet, rc::Rc};

/// Module of a crate.
#[derive(Clone)]
pub struct Scope {
    pub source: Rc<Crate>,
    pub module: usize,
}

/// Result of a resolution.
#[derive(Clone)]
pub enum Named {
    Module(Scope),
    Struct(Scope, Rc<Struct>),
    Alias(Scope, Rc<Alias>),
    /// Type of a built-in library: its crate and the path in it.
    Library(Vec<String>),
    /// Type that cannot be storage, and its module.
    Other(Scope),
}

impl Named {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Module(one), Self::Module(other)) => one.module == other.module && Rc::ptr_eq(&one.source, &other.source),
            (Self::Struct(_, one), Self::Struct(_, other)) => Rc::ptr_eq(one, other),
            (Self::Alias(_, one), Self::Alias(_, other)) => Rc::ptr_eq(one, other),
            // Equal for any re-export.
            (Self::Library(one), Self::Library(other)) => one.last() == other.last(),
            (Self::Other(one), Self::Other(other)) => one.module == other.module && Rc::ptr_eq(&one.source, &other.source),
            _ => false,
        }
    }
}

/// Crates with built-in types: the SDK and the types that it stores.
const LIBRARIES: &[&str] = &["stylus-sdk", "stylus-core", "stylus-proc", "alloy-primitives", "alloy-sol-types", "ruint"];

impl Scope {
    pub fn root(source: Rc<Crate>) -> Self {
        Self { source, module: 0 }
    }

    /// Path of an item in this module, from the crate root.
    pub fn path_of(&self, name: &str) -> String {
        match self.source.modules[self.module].path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}::{name}"),
        }
    }

    fn within(&self, module: usize) -> Self {
        Self { source: self.source.clone(), module }
    }
}

/// Resolves names; returns `None` for unknown ones.
pub struct Names<'a> {
    pub packages: &'a Packages,
}

/// Maximum number of steps of a search: the number of import paths to an item can be exponential.
const STEPS: usize = 100_000;

/// State of a search.
#[derive(Default)]
struct SearchState {
    /// Names being resolved, by package and module. Detects circular imports.
    open: BTreeSet<(String, usize, String)>,
    steps: usize,
}

impl Names<'_> {
    pub fn find(&self, path: &syn::Path, scope: &Scope) -> anyhow::Result<Option<Named>> {
        let mut names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if path.leading_colon.is_some() {
            names.insert(0, String::new());
        }
        self.follow(&names, scope, &mut SearchState::default())
    }

    /// Finds the constant of a path.
    pub fn constant(&self, path: &syn::Path, scope: &Scope) -> anyhow::Result<Option<(Scope, syn::Expr)>> {
        let mut names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let Some(name) = names.pop() else { return Ok(None) };
        let at = match names.is_empty() {
            true => Some(Named::Module(scope.clone())),
            false => self.follow(&names, scope, &mut SearchState::default())?,
        };
        let Some(Named::Module(at)) = at else { return Ok(None) };
        let module = &at.source.modules[at.module];
        if let Some(found) = module.constants.get(&name) {
            return Ok(Some((at.clone(), found.clone())));
        }
        let imported = module.imports.get(&name).cloned().into_iter();
        let globs = module.globs.iter().map(|glob| [&glob[..], std::slice::from_ref(&name)].concat());
        for mut names in imported.chain(globs) {
            let Some(name) = names.pop() else { continue };
            // The imported path must name the module that declares the constant: re-exports are not followed.
            if let Some(Named::Module(at)) = self.follow(&names, &at, &mut SearchState::default())?
                && let Some(found) = at.source.modules[at.module].constants.get(&name)
            {
                return Ok(Some((at.clone(), found.clone())));
            }
        }
        Ok(None)
    }

    fn follow(&self, names: &[String], scope: &Scope, sought: &mut SearchState) -> anyhow::Result<Option<Named>> {
        let Some((first, mut rest)) = names.split_first() else { return Ok(Some(Named::Module(scope.clone()))) };
        let parent = |scope: &Scope| scope.within(scope.source.modules[scope.module].parent);
        let mut at = match first.as_str() {
            "" => {
                let Some((name, more)) = rest.split_first() else { return Ok(None) };
                rest = more;
                self.external(name, scope)?
            }
            "crate" => Some(Named::Module(scope.within(0))),
            "self" => Some(Named::Module(scope.clone())),
            "super" => Some(Named::Module(parent(scope))),
            name => match self.declared(name, scope, sought)? {
                Some(found) => Some(found),
                None => match self.external(name, scope)? {
                    Some(found) => Some(found),
                    None => self.globbed(name, scope, sought)?.or_else(|| prelude(name)),
                },
            },
        };
        for name in rest {
            at = match at {
                Some(Named::Module(scope)) if name == "super" => Some(Named::Module(parent(&scope))),
                Some(Named::Module(scope)) => self.member(name, &scope, sought)?,
                Some(Named::Library(way)) => Some(Named::Library([&way[..], std::slice::from_ref(name)].concat())),
                _ => return Ok(None),
            };
        }
        Ok(at)
    }

    /// Finds a name in a module.
    fn member(&self, name: &str, scope: &Scope, sought: &mut SearchState) -> anyhow::Result<Option<Named>> {
        match self.declared(name, scope, sought)? {
            Some(found) => Ok(Some(found)),
            None => self.globbed(name, scope, sought),
        }
    }

    /// Finds an item or import with that name.
    fn declared(&self, name: &str, scope: &Scope, sought: &mut SearchState) -> anyhow::Result<Option<Named>> {
        let module = &scope.source.modules[scope.module];
        if let Some(item) = module.items.get(name) {
            return match item {
                Item::Module(module) => Ok(Some(Named::Module(scope.within(*module)))),
                Item::Struct(found) => Ok(Some(Named::Struct(scope.clone(), found.clone()))),
                Item::Alias(found) => Ok(Some(Named::Alias(scope.clone(), found.clone()))),
                Item::Other => Ok(Some(Named::Other(scope.clone()))),
                Item::Unknown(condition) => {
                    let (path, package) = (scope.path_of(name), &scope.source.package);
                    bail!("cannot determine if {path} of the package {package} is compiled: unsupported condition {condition}")
                }
            };
        }
        let Some(path) = module.imports.get(name) else { return Ok(None) };
        self.once(name, scope, sought, |sought| self.follow(path, scope, sought))
    }

    /// Finds a name through `use …::*`. Several globs may lead to the same item.
    fn globbed(&self, name: &str, scope: &Scope, sought: &mut SearchState) -> anyhow::Result<Option<Named>> {
        self.once(name, scope, sought, |sought| {
            let mut known: Option<Named> = None;
            for glob in &scope.source.modules[scope.module].globs {
                let found = match self.follow(glob, scope, sought)? {
                    Some(Named::Module(scope)) => self.member(name, &scope, sought)?,
                    Some(Named::Library(way)) if has(&way, name) => {
                        Some(Named::Library([&way[..], &[name.to_owned()]].concat()))
                    }
                    _ => None,
                };
                if let (Some(one), Some(other)) = (&known, &found) {
                    let (path, package) = (scope.path_of(name), &scope.source.package);
                    ensure!(one.is(other), "{path} of the package {package} is ambiguous: two `use …::*` import the name");
                }
                known = known.or(found);
            }
            Ok(known)
        })
    }

    /// Returns `None` if the search is already resolving this name.
    fn once(
        &self,
        name: &str,
        scope: &Scope,
        sought: &mut SearchState,
        search: impl FnOnce(&mut SearchState) -> anyhow::Result<Option<Named>>,
    ) -> anyhow::Result<Option<Named>> {
        let key = (scope.source.package.clone(), scope.module, name.to_owned());
        if !sought.open.insert(key.clone()) {
            return Ok(None);
        }
        sought.steps += 1;
        ensure!(sought.steps < STEPS, "{} of the package {} is imported in too many ways", key.2, key.0);
        let found = search(sought);
        sought.open.remove(&key);
        found
    }

    fn external(&self, name: &str, scope: &Scope) -> anyhow::Result<Option<Named>> {
        if matches!(name, "std" | "core" | "alloc") {
            return Ok(Some(Named::Library(vec![name.to_owned()])));
        }
        let Some(package) = scope.source.externs.get(name) else { return Ok(None) };
        let called = self.packages.name(package);
        if LIBRARIES.contains(&called) {
            return Ok(Some(Named::Library(vec![called.replace('-', "_")])));
        }
        Ok(Some(Named::Module(Scope::root(self.packages.source(package)?))))
    }
}

/// Names that need no import.
fn prelude(name: &str) -> Option<Named> {
    let known = ["Vec", "String", "bool", "str", "usize", "isize"].contains(&name)
        || name.strip_prefix(['u', 'i']).is_some_and(|bits| ["8", "16", "32", "64", "128"].contains(&bits));
    known.then(|| Named::Library(vec!["std".into(), name.into()]))
}

/// True if `use way::*` imports this name.
fn has(way: &[String], name: &str) -> bool {
    match way.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["stylus_sdk", "storage"] => name.starts_with("Storage") && name != "StorageType" && name != "StorageKey",
        ["stylus_sdk"] => ["storage", "alloy_primitives", "alloy_sol_types"].contains(&name),
        ["alloy_primitives"] | ["stylus_sdk", "alloy_primitives"] => super::rules::is_key(name),
        _ => false,
    }
}
