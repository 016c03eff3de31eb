//! From a struct's source to the positions of its fields.

use super::{
    names::{Named, Names, Scope},
    parameters::{Argument, Context, Given, arguments, parameter, parameter_name, written},
    rules::{self, Size},
    solc::{Layout, Type, Variable},
    source::{Packages, Struct},
};
use anyhow::{Context as _, bail, ensure};
use quote::ToTokens;
use std::{collections::BTreeMap, rc::Rc};

/// Deeper than real types: ends recursive aliases and generic types.
const DEPTH: usize = 32;

/// Builds a layout.
pub struct Builder<'a> {
    names: Names<'a>,
    /// For instance `src/lib.rs:Token`.
    contract: String,
    types: BTreeMap<String, Type>,
    /// Struct of each type id, with its size once known: a struct may contain itself in a mapping.
    structs: BTreeMap<String, (Rc<Struct>, Option<Size>)>,
    variables: u64,
    depth: usize,
}

/// Storage type with its id.
struct Placed {
    id: String,
    /// Unknown while the layout of the struct is being computed.
    size: Option<Size>,
}

/// Layout of a contract's storage struct.
pub fn layout(packages: &Packages, scope: &Scope, root: &Rc<Struct>) -> anyhow::Result<Layout> {
    let contract = format!("{}:{}", root.place.file.display(), root.name);
    let (types, structs) = Default::default();
    let mut builder = Builder { names: Names { packages }, contract, types, structs, variables: 0, depth: 0 };
    ensure!(root.storage, "{}: {} is not #[storage], so the SDK does not lay it out", root.place, root.name);
    ensure!(root.generics.params.is_empty(), "{}: {} has parameters: nobody says what they stand for", root.place, root.name);
    let context = Rc::new(Context { scope: scope.clone(), arguments: BTreeMap::new() });
    let (storage, _) = builder.members(root, &context)?;
    Ok(Layout { storage, types: builder.types })
}

impl Builder<'_> {
    /// Fields of a struct with their positions, and the total number of slots.
    fn members(&mut self, of: &Struct, context: &Rc<Context>) -> anyhow::Result<(Vec<Variable>, usize)> {
        let mut kinds = Vec::with_capacity(of.fields.len());
        for field in &of.fields {
            let told = || format!("{}: the field {}", field.place, field.name);
            if let Some(condition) = &field.condition {
                bail!("{} is there on a condition, and the SDK lays it out in any case: {condition}", told());
            }
            let placed = self.storage(&field.kind, context).with_context(told)?;
            let size = placed.size.with_context(|| format!("{}: it contains itself", told()))?;
            kinds.push((placed.id, size));
        }
        let (positions, slots) = rules::place(&kinds.iter().map(|(_, size)| *size).collect::<Vec<_>>());
        let mut members = Vec::with_capacity(kinds.len());
        for ((field, (kind, size)), position) in of.fields.iter().zip(kinds).zip(positions) {
            // `PhantomData` has no position.
            if size != Size::NOTHING {
                self.variables += 1;
                let (contract, label) = (self.contract.clone(), field.name.clone());
                let (offset, slot) = (position.offset as u64, position.slot.to_string());
                members.push(Variable { ast_id: self.variables, contract, label, offset, slot, kind });
            }
        }
        Ok((members, slots))
    }

    fn storage(&mut self, kind: &syn::Type, context: &Rc<Context>) -> anyhow::Result<Placed> {
        ensure!(self.depth < DEPTH, "{} has no end", written(kind));
        self.depth += 1;
        let placed = self.resolved(kind, context);
        self.depth -= 1;
        placed
    }

    fn resolved(&mut self, kind: &syn::Type, context: &Rc<Context>) -> anyhow::Result<Placed> {
        let path = match kind {
            syn::Type::Path(path) if path.qself.is_none() => &path.path,
            syn::Type::Paren(inner) => return self.resolved(&inner.elem, context),
            syn::Type::Group(inner) => return self.resolved(&inner.elem, context),
            _ => bail!("`{}` is not a supported storage type", written(kind)),
        };
        if let Some(argument) = parameter(path, context)? {
            return match argument {
                Argument::Type(kind, context) => self.storage(&kind, &context),
                Argument::Number(_) => bail!("`{}` is a number, not a type", written(kind)),
            };
        }
        let given = arguments(path);
        match self.names.find(path, &context.scope)? {
            Some(Named::Struct(scope, found)) => self.structure(&scope, &found, &given, context),
            Some(Named::Alias(scope, alias)) => {
                let bound = self.names.bind(&alias.generics, &given, &scope, context)?;
                self.storage(&alias.kind, &Rc::new(bound))
            }
            Some(Named::Library(way)) => self.library(&way, &given, context),
            Some(Named::Module(_) | Named::Other(_)) => bail!("`{}` is not a storage type", written(kind)),
            None => bail!(
                "the type `{}` is not found, neither in its module nor in what that imports (the package {}). Macros are not run here: a type that one \
                 makes has to be written out",
                written(kind),
                context.scope.source.package
            ),
        }
    }

    /// Type of the SDK.
    fn library(&mut self, way: &[String], given: &[Given], context: &Rc<Context>) -> anyhow::Result<Placed> {
        let (first, name) = (way.first().map_or("", String::as_str), way.last().map_or("", String::as_str));
        if name == "PhantomData" {
            return Ok(self.add("t_nothing", Size::NOTHING, None));
        }
        ensure!(first == "stylus_sdk", "{} is not a storage type", way.join("::"));
        let one = |at: usize| match given.get(at) {
            Some(Given::Type(kind)) => Ok(kind),
            _ => bail!("{name} lacks an argument"),
        };
        match name {
            "StorageString" | "StorageBytes" => {
                let label = if name == "StorageString" { "string" } else { "bytes" };
                Ok(self.add(&format!("t_{label}_storage"), Size::SLOT, Some(Type::new("bytes", label, 32))))
            }
            "StorageMap" => {
                let key = self.key(one(0)?, context)?;
                let value = self.storage(one(1)?, context)?.id;
                self.mapping(key, value)
            }
            "StorageVec" => {
                let base = self.storage(one(0)?, context)?.id;
                let kind = Type::new("dynamic_array", format!("{}[]", self.label(&base)), 32);
                let id = format!("t_array({base})dyn_storage");
                Ok(self.add(&id, Size::SLOT, Some(Type { base: Some(base), ..kind })))
            }
            "StorageArray" => {
                let element = self.storage(one(0)?, context)?;
                let length = self.names.number_given(given.get(1).context("StorageArray lacks its length")?, context)?;
                let size = element.size.context("it contains itself")?;
                let size =
                    rules::array(size, length).with_context(|| format!("array of {length}: it does not fit into storage"))?;
                let (base, bytes) = (element.id, size.bytes());
                let kind = Type::inplace(format!("{}[{length}]", self.label(&base)), bytes);
                let id = format!("t_array({base}){length}_storage");
                Ok(self.add(&id, size, Some(Type { base: Some(base), ..kind })))
            }
            _ => {
                let numbers = self.names.numbers(given, context)?;
                let found = rules::value(name, &numbers);
                let (label, size) =
                    found.with_context(|| format!("{} is a type of the SDK that is not known here", way.join("::")))?;
                let kind = Type::inplace(&label, size.slot_bytes);
                Ok(self.add(&format!("t_{label}"), size, Some(kind)))
            }
        }
    }

    fn mapping(&mut self, key: String, value: String) -> anyhow::Result<Placed> {
        let label = format!("mapping({} => {})", self.label(&key), self.label(&value));
        let id = format!("t_mapping({key},{value})");
        let kind = Type { key: Some(key), value: Some(value), ..Type::new("mapping", label, 32) };
        Ok(self.add(&id, Size::SLOT, Some(kind)))
    }

    /// Key type of a mapping. Keys take no space, so an unknown type is only a name.
    fn key(&mut self, kind: &syn::Type, context: &Rc<Context>) -> anyhow::Result<String> {
        let known = |this: &mut Self, label: &str, bytes| {
            let (id, encoding) = match label {
                "string" | "bytes" => (format!("t_{label}_memory_ptr"), "bytes"),
                _ => (format!("t_{label}"), "inplace"),
            };
            this.add(&id, Size::value(bytes), Some(Type::new(encoding, label, bytes))).id
        };
        let path = match kind {
            syn::Type::Reference(inner) => return self.key(&inner.elem, context),
            syn::Type::Slice(_) => return Ok(known(self, "bytes", 32)),
            syn::Type::Path(path) if path.qself.is_none() => &path.path,
            _ => bail!("`{}` is no key that is understood here", written(kind)),
        };
        if let Some(Argument::Type(kind, context)) = parameter(path, context)? {
            return self.key(&kind, &context);
        }
        let given = arguments(path);
        match self.names.find(path, &context.scope)? {
            Some(Named::Alias(scope, alias)) => {
                let bound = Rc::new(self.names.bind(&alias.generics, &given, &scope, context)?);
                return self.key(&alias.kind, &bound);
            }
            Some(Named::Library(way)) => {
                let name = way.last().map_or("", String::as_str);
                let numbers = if name == "Vec" { Vec::new() } else { self.names.numbers(&given, context)? };
                if let Some((label, bytes)) = rules::key(name, &numbers) {
                    return Ok(known(self, &label, bytes));
                }
            }
            _ => {}
        }
        let told = self.names.told(kind, context)?;
        Ok(self.add(&format!("t_userDefinedValueType({told})"), Size::SLOT, Some(Type::inplace(told, 32))).id)
    }

    fn structure(
        &mut self,
        scope: &Scope,
        found: &Rc<Struct>,
        given: &[Given],
        context: &Rc<Context>,
    ) -> anyhow::Result<Placed> {
        let bound = self.names.bind(&found.generics, given, scope, context)?;
        if !found.storage {
            return self.made_by_hand(scope, found, &bound);
        }
        let mut told = format!("{}::{}", scope.source.package, scope.path_of(&found.name));
        let mut label = format!("struct {}", found.name);
        let arguments = self.names.told_arguments(&found.generics, &bound)?;
        told.push_str(&arguments);
        label.push_str(&arguments);
        let id = format!("t_struct({told})_storage");
        if let Some((same, size)) = self.structs.get(&id) {
            ensure!(Rc::ptr_eq(same, found), "two structs are called {told}: of two versions of a package?");
            return Ok(Placed { id, size: *size });
        }
        self.structs.insert(id.clone(), (found.clone(), None));
        // Recursive references to the struct use its id.
        self.types.insert(id.clone(), Type::inplace(&label, 0));
        let (members, slots) = self.members(found, &Rc::new(bound))?;
        let size = Size::counted(slots).with_context(|| format!("{told} has more slots than a module can count"))?;
        self.structs.insert(id.clone(), (found.clone(), Some(size)));
        self.types.insert(id.clone(), Type { members: Some(members), ..Type::inplace(label, size.bytes()) });
        Ok(Placed { id, size: Some(size) })
    }

    /// Type with a hand-written `impl StorageType`: its size is the one declared there, and its content is
    /// unknown.
    fn made_by_hand(&mut self, scope: &Scope, found: &Rc<Struct>, bound: &Context) -> anyhow::Result<Placed> {
        let told = format!("{}::{}", scope.source.package, scope.path_of(&found.name));
        let mut implementations = Vec::new();
        for one in &scope.source.implementations {
            let at = Scope { module: one.module, ..scope.clone() };
            if let Some(Named::Struct(_, same)) = self.names.find(&one.of, &at)?
                && Rc::ptr_eq(&same, found)
            {
                implementations.push((one, at));
            }
        }
        let (implementation, at) = match implementations.pop() {
            Some(one) if implementations.is_empty() => one,
            Some(_) => bail!("{}: {told} has several impl StorageType, for different arguments", found.place),
            None => bail!("{}: {told} is neither #[storage] nor has an impl StorageType in its crate", found.place),
        };
        // Names of the parameters in the implementation.
        let names = found.generics.params.iter().filter_map(parameter_name);
        let values = names.filter_map(|name| bound.arguments.get(&name));
        let called = arguments(&implementation.of);
        let called = called.iter().map(|argument| argument.to_token_stream().to_string());
        let context = Rc::new(Context { scope: at, arguments: called.zip(values.cloned()).collect() });
        let constant = |name: &str, expression: &Option<syn::Expr>, default| match expression {
            Some(expression) => self.names.number(expression, &context).with_context(|| format!("{name} of {told}")),
            None => Ok(default),
        };
        let size = Size {
            slot_bytes: constant("SLOT_BYTES", &implementation.slot_bytes, Size::SLOT.slot_bytes)?,
            required_slots: constant("REQUIRED_SLOTS", &implementation.required_slots, Size::SLOT.required_slots)?,
        };
        ensure!(size.slot_bytes <= 32, "SLOT_BYTES of {told} is {}, and a slot has 32", size.slot_bytes);
        ensure!(Size::counted(size.required_slots).is_some(), "REQUIRED_SLOTS of {told} is more than a module can count");
        if scope.source.package == "corniche-contract"
            && size == Size::SLOT
            && let Some(known) = self.of_this_chain(&found.name)?
        {
            return Ok(known);
        }
        let told = told + &self.names.told_arguments(&found.generics, bound)?;
        Ok(self.add(&format!("t_userDefinedValueType({told})"), size, Some(Type::inplace(told, size.bytes()))))
    }

    /// Types of this chain's library that are stored as in Solidity and declare so.
    fn of_this_chain(&mut self, name: &str) -> anyhow::Result<Option<Placed>> {
        let number = self.add("t_uint256", Size::value(32), Some(Type::inplace("uint256", 32)));
        Ok(match name {
            "Counter" => Some(number),
            "Balances" => {
                let key = self.add("t_address", Size::value(20), Some(Type::inplace("address", 20))).id;
                Some(self.mapping(key, number.id)?)
            }
            _ => None,
        })
    }

    fn add(&mut self, id: &str, size: Size, kind: Option<Type>) -> Placed {
        if let Some(kind) = kind {
            self.types.entry(id.to_owned()).or_insert(kind);
        }
        Placed { id: id.to_owned(), size: Some(size) }
    }

    fn label<'a>(&'a self, id: &'a str) -> &'a str {
        self.types.get(id).map_or(id, |kind| &kind.label)
    }
}
