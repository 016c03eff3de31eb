//! Evaluates `#[cfg(…)]` for a contract build: wasm32, release profile.

use quote::ToTokens;
use std::collections::BTreeSet;

type Parts = syn::punctuated::Punctuated<syn::Meta, syn::Token![,]>;

/// Result of a condition: whether something is compiled into a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    Yes,
    No,
    /// Depends on this condition.
    Unknown(String),
}

impl Holds {
    fn all(parts: impl Iterator<Item = Self>) -> Self {
        parts.fold(Self::Yes, |all, part| match (all, part) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, part) => part,
            (unknown, _) => unknown,
        })
    }

    fn not(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            unknown => unknown,
        }
    }
}

/// Combines all `#[cfg(…)]` attributes.
pub fn holds(attributes: &[syn::Attribute], features: &BTreeSet<String>) -> Holds {
    Holds::all(attributes.iter().map(|attribute| match attribute.path().get_ident() {
        Some(name) if name == "cfg" => match attribute.parse_args::<syn::Meta>() {
            Ok(condition) => condition_holds(&condition, features),
            Err(_) => Holds::Unknown("a cfg that cannot be read".into()),
        },
        Some(name) if name == "cfg_attr" => adds_nothing(attribute, features),
        _ => Holds::Yes,
    }))
}

/// A `#[cfg_attr(…)]` that may add attributes relevant to storage counts as an unknown condition.
fn adds_nothing(attribute: &syn::Attribute, features: &BTreeSet<String>) -> Holds {
    let unknown = || Holds::Unknown(attribute.meta.to_token_stream().to_string());
    let Ok(parts) = attribute.parse_args_with(Parts::parse_terminated) else { return unknown() };
    let mut parts = parts.iter();
    let condition = parts.next().map_or(Holds::Yes, |condition| condition_holds(condition, features));
    let decides = |added: &syn::Meta| {
        let last = added.path().segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        ["cfg", "cfg_attr", "path", "storage", "solidity_storage"].contains(&last.as_str())
    };
    if condition != Holds::No && parts.any(decides) { unknown() } else { Holds::Yes }
}

fn condition_holds(condition: &syn::Meta, features: &BTreeSet<String>) -> Holds {
    let unknown = || Holds::Unknown(format!("cfg({})", condition.to_token_stream()));
    let known = |holds| if holds { Holds::Yes } else { Holds::No };
    let name = condition.path().get_ident().map(ToString::to_string).unwrap_or_default();
    match condition {
        syn::Meta::Path(_) => match name.as_str() {
            "test" | "doc" | "doctest" | "miri" | "unix" | "windows" | "debug_assertions" => Holds::No,
            _ => unknown(),
        },
        syn::Meta::NameValue(value) => {
            let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &value.value else { return unknown() };
            let text = text.value();
            match name.as_str() {
                "feature" => known(features.contains(&text)),
                "target_arch" => known(text == "wasm32"),
                "target_family" => known(text == "wasm"),
                "target_os" | "target_vendor" => known(text == "unknown"),
                "target_pointer_width" => known(text == "32"),
                "target_endian" => known(text == "little"),
                _ => unknown(),
            }
        }
        syn::Meta::List(parts) => {
            let Ok(parts) = parts.parse_args_with(Parts::parse_terminated) else { return unknown() };
            let parts = parts.iter().map(|part| condition_holds(part, features));
            match name.as_str() {
                "all" => Holds::all(parts),
                "any" => Holds::all(parts.map(Holds::not)).not(),
                "not" => Holds::all(parts).not(),
                _ => unknown(),
            }
        }
    }
}
