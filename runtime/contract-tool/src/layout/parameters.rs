//! Arguments of generic types, and constant numbers in them.

use super::names::{Named, Names, Scope};
use anyhow::{Context as _, bail, ensure};
use quote::ToTokens;
use std::{collections::BTreeMap, rc::Rc};
pub use syn::GenericArgument as Given;

/// Maximum number of steps to evaluate a number: ends circular constants.
const STEPS: usize = 1_000;
/// Maximum nesting of types.
const DEPTH: usize = 64;
/// Maximum length of a type's name.
const LONGEST: usize = 2_000;

/// Scope of a type, and its generic arguments there.
pub struct Context {
    pub scope: Scope,
    pub arguments: BTreeMap<String, Argument>,
}

#[derive(Clone)]
pub enum Argument {
    Type(Box<syn::Type>, Rc<Context>),
    Number(usize),
}

impl Names<'_> {
    /// Binds a type's parameters to arguments.
    pub fn bind(
        &self,
        generics: &syn::Generics,
        given: &[Given],
        scope: &Scope,
        context: &Rc<Context>,
    ) -> anyhow::Result<Context> {
        let mut bound = Context { scope: scope.clone(), arguments: BTreeMap::new() };
        let mut given = given.iter();
        for parameter in &generics.params {
            let Some(name) = parameter_name(parameter) else { continue };
            let argument = match (parameter, given.next()) {
                (syn::GenericParam::Const(_), Some(argument)) => Argument::Number(self.number_given(argument, context)?),
                (_, Some(Given::Type(kind))) => Argument::Type(Box::new(kind.clone()), context.clone()),
                (syn::GenericParam::Type(syn::TypeParam { default: Some(kind), .. }), None) => {
                    let arguments = bound.arguments.clone();
                    Argument::Type(Box::new(kind.clone()), Rc::new(Context { scope: scope.clone(), arguments }))
                }
                (syn::GenericParam::Const(syn::ConstParam { default: Some(expression), .. }), None) => {
                    let arguments = bound.arguments.clone();
                    Argument::Number(self.number(expression, &Context { scope: scope.clone(), arguments })?)
                }
                _ => bail!("type parameter {name} has no value here"),
            };
            bound.arguments.insert(name, argument);
        }
        Ok(bound)
    }

    pub fn numbers(&self, given: &[Given], context: &Context) -> anyhow::Result<Vec<usize>> {
        given.iter().map(|argument| self.number_given(argument, context)).collect()
    }

    pub fn number_given(&self, argument: &Given, context: &Context) -> anyhow::Result<usize> {
        match argument {
            Given::Const(expression) => self.number(expression, context),
            // A plain name may also be a type.
            Given::Type(syn::Type::Path(path)) => self
                .number(&syn::Expr::Path(syn::ExprPath { attrs: Vec::new(), qself: None, path: path.path.clone() }), context),
            _ => bail!("`{}` is not a supported constant", argument.to_token_stream()),
        }
    }

    /// Evaluates literals, constants and arithmetic.
    pub fn number(&self, expression: &syn::Expr, context: &Context) -> anyhow::Result<usize> {
        self.number_within(expression, context, &mut { STEPS })
    }

    fn number_within(&self, expression: &syn::Expr, context: &Context, steps: &mut usize) -> anyhow::Result<usize> {
        let told = || format!("`{}` is not a supported constant", expression.to_token_stream());
        *steps = steps.checked_sub(1).with_context(told)?;
        match expression {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. }) => number.base10_parse().with_context(told),
            syn::Expr::Paren(inner) => self.number_within(&inner.expr, context, steps),
            syn::Expr::Group(inner) => self.number_within(&inner.expr, context, steps),
            // Casts to smaller types, which may truncate, are not supported.
            syn::Expr::Cast(inner) if ["usize", "u32", "u64"].contains(&written(&inner.ty).as_str()) => {
                let number = self.number_within(&inner.expr, context, steps)?;
                u32::try_from(number).ok().with_context(told)?;
                Ok(number)
            }
            syn::Expr::Block(block) => match &block.block.stmts[..] {
                [syn::Stmt::Expr(inner, None)] => self.number_within(inner, context, steps),
                _ => bail!(told()),
            },
            syn::Expr::Binary(binary) => {
                let left = self.number_within(&binary.left, context, steps)?;
                let right = self.number_within(&binary.right, context, steps)?;
                let done = match binary.op {
                    syn::BinOp::Add(_) => left.checked_add(right),
                    syn::BinOp::Sub(_) => left.checked_sub(right),
                    syn::BinOp::Mul(_) => left.checked_mul(right),
                    syn::BinOp::Div(_) => left.checked_div(right),
                    _ => None,
                };
                done.with_context(told)
            }
            syn::Expr::Path(path) if path.qself.is_none() => {
                if let Some(Argument::Number(number)) = parameter(&path.path, context)? {
                    return Ok(number);
                }
                let (scope, expression) = self.constant(&path.path, &context.scope)?.with_context(told)?;
                self.number_within(&expression, &Context { scope, arguments: BTreeMap::new() }, steps)
            }
            _ => bail!(told()),
        }
    }

    /// Name of a type with its arguments: equal for equal structs, and different for different ones.
    pub fn told(&self, kind: &syn::Type, context: &Rc<Context>) -> anyhow::Result<String> {
        self.told_within(kind, context, 0)
    }

    fn told_within(&self, kind: &syn::Type, context: &Rc<Context>, depth: usize) -> anyhow::Result<String> {
        let path = match kind {
            syn::Type::Path(path) if path.qself.is_none() && depth < DEPTH => &path.path,
            _ => bail!("`{}` is no argument of a type that is understood here", written(kind)),
        };
        match parameter(path, context)? {
            Some(Argument::Type(kind, context)) => return self.told_within(&kind, &context, depth + 1),
            Some(Argument::Number(number)) => return Ok(number.to_string()),
            None => {}
        }
        let given = arguments(path);
        let told = match self.find(path, &context.scope)? {
            Some(Named::Struct(scope, found)) => {
                let bound = self.bind(&found.generics, &given, &scope, context)?;
                let arguments = self.told_arguments_within(&found.generics, &bound, depth + 1)?;
                format!("{}::{}{arguments}", scope.source.package, scope.path_of(&found.name))
            }
            Some(Named::Alias(scope, alias)) => {
                let bound = self.bind(&alias.generics, &given, &scope, context)?;
                return self.told_within(&alias.kind, &Rc::new(bound), depth + 1);
            }
            Some(Named::Library(way)) => {
                let told = given.iter().map(|argument| match argument {
                    Given::Type(kind) => self.told_within(kind, context, depth + 1),
                    number => Ok(self.number_given(number, context)?.to_string()),
                });
                listed(way.last().map_or("", String::as_str), told.collect::<anyhow::Result<_>>()?)
            }
            Some(Named::Other(scope)) if given.is_empty() => {
                let name = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
                format!("{}::{}", scope.source.package, scope.path_of(&name))
            }
            // A plain name may be a constant.
            None => self.number_given(&Given::Type(kind.clone()), context)?.to_string(),
            _ => bail!("`{}` is no argument of a type that is understood here", written(kind)),
        };
        ensure!(told.len() <= LONGEST, "the type `{}` is too long to be told", written(kind));
        Ok(told)
    }

    /// For instance `<here::Part, 20>`.
    pub fn told_arguments(&self, generics: &syn::Generics, bound: &Context) -> anyhow::Result<String> {
        self.told_arguments_within(generics, bound, 0)
    }

    fn told_arguments_within(&self, generics: &syn::Generics, bound: &Context, depth: usize) -> anyhow::Result<String> {
        let bound = generics.params.iter().filter_map(parameter_name).filter_map(|name| bound.arguments.get(&name));
        let told = bound.map(|argument| match argument {
            Argument::Type(kind, context) => self.told_within(kind, context, depth),
            Argument::Number(number) => Ok(number.to_string()),
        });
        Ok(listed("", told.collect::<anyhow::Result<_>>()?))
    }
}

fn listed(name: &str, arguments: Vec<String>) -> String {
    if arguments.is_empty() { name.to_owned() } else { format!("{name}<{}>", arguments.join(", ")) }
}

/// Argument of a path, if the path is a parameter.
pub fn parameter(path: &syn::Path, context: &Context) -> anyhow::Result<Option<Argument>> {
    let first = path.segments.first().and_then(|first| context.arguments.get(&first.ident.to_string()));
    let (Some(argument), None) = (first, path.leading_colon) else { return Ok(None) };
    let told = path.to_token_stream();
    ensure!(path.segments.len() == 1, "`{told}` is an associated type, which is not supported: write the type out");
    Ok(Some(argument.clone()))
}

pub fn parameter_name(parameter: &syn::GenericParam) -> Option<String> {
    match parameter {
        syn::GenericParam::Type(parameter) => Some(parameter.ident.to_string()),
        syn::GenericParam::Const(parameter) => Some(parameter.ident.to_string()),
        syn::GenericParam::Lifetime(_) => None,
    }
}

/// Generic arguments in a path.
pub fn arguments(path: &syn::Path) -> Vec<Given> {
    match path.segments.last().map(|last| &last.arguments) {
        Some(syn::PathArguments::AngleBracketed(given)) => {
            given.args.iter().filter(|argument| !matches!(argument, Given::Lifetime(_))).cloned().collect()
        }
        _ => Vec::new(),
    }
}

/// Type in usual Rust notation.
pub fn written(kind: &syn::Type) -> String {
    let tokens = kind.to_token_stream().to_string();
    ["::", "<", ">", ",", "[", "]", "(", ")"].into_iter().fold(tokens, |text, mark| {
        let text = text.replace(&format!(" {mark}"), mark);
        if mark == "," { text } else { text.replace(&format!("{mark} "), mark) }
    })
}
