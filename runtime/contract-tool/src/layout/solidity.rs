//! `sol_storage!`: structs in Solidity syntax, converted to Rust structs like in the SDK.

use anyhow::anyhow;
use proc_macro2::TokenStream;
use std::path::Path;
use syn::{
    Attribute, Field, Ident, ItemStruct, Token, Type, braced, bracketed,
    parse::{ParseStream, Parser},
    parse_quote, parse_str, token,
};

/// Structs of a block, marked as by the macro.
pub fn structs(block: TokenStream, file: &Path) -> anyhow::Result<Vec<ItemStruct>> {
    let parse = |input: ParseStream<'_>| {
        let mut structs = Vec::new();
        while !input.is_empty() {
            structs.push(structure(input)?);
        }
        Ok(structs)
    };
    parse.parse2(block).map_err(|error| {
        let line = error.span().start().line;
        anyhow!("{}:{line}: a sol_storage! block that cannot be read: {error}", file.display())
    })
}

fn structure(input: ParseStream<'_>) -> syn::Result<ItemStruct> {
    let attributes = input.call(Attribute::parse_outer)?;
    let visibility: syn::Visibility = input.parse()?;
    input.parse::<Token![struct]>()?;
    let (name, generics): (Ident, syn::Generics) = (input.parse()?, input.parse()?);
    let body;
    braced!(body in input);
    let fields = body.parse_terminated(field, Token![;])?;
    let mut made: ItemStruct = parse_quote! { #(#attributes)* #[storage] #visibility struct #name { } };
    made.generics = generics;
    made.fields =
        syn::Fields::Named(syn::FieldsNamed { brace_token: token::Brace::default(), named: fields.into_iter().collect() });
    Ok(made)
}

fn field(input: ParseStream<'_>) -> syn::Result<Field> {
    let attrs = input.call(Attribute::parse_outer)?;
    let ty = declared(input, 0)?;
    let ident = Some(input.parse()?);
    let (vis, mutability, colon_token) = (syn::Visibility::Inherited, syn::FieldMutability::None, None);
    Ok(Field { attrs, vis, mutability, ident, colon_token, ty })
}

/// Maximum nesting of mappings and arrays: an inner type is parsed again for each level.
const DEPTH: usize = 32;

/// Parses a type like `mapping(address => uint256[4])[]` into a Rust type.
fn declared(input: ParseStream<'_>, mut depth: usize) -> syn::Result<Type> {
    let path: syn::Path = input.parse()?;
    let mut kind = if path.is_ident("mapping") {
        within(input, depth)?;
        let content;
        syn::parenthesized!(content in input);
        let key = key(&content.parse()?)?;
        // Names of keys and values are ignored.
        if !content.peek(Token![=>]) {
            content.parse::<Ident>()?;
        }
        content.parse::<Token![=>]>()?;
        let value = declared(&content, depth + 1)?;
        if !content.is_empty() {
            content.parse::<Ident>()?;
        }
        parse_quote!(stylus_sdk::storage::StorageMap<#key, #value>)
    } else {
        primitive(&path)?
    };
    while input.peek(token::Bracket) {
        within(input, depth)?;
        depth += 1;
        let content;
        bracketed!(content in input);
        kind = if content.is_empty() {
            parse_quote!(stylus_sdk::storage::StorageVec<#kind>)
        } else {
            let length: syn::LitInt = content.parse()?;
            parse_quote!(stylus_sdk::storage::StorageArray<#kind, #length>)
        };
    }
    Ok(kind)
}

fn within(input: ParseStream<'_>, depth: usize) -> syn::Result<()> {
    if depth < DEPTH { Ok(()) } else { Err(input.error("a type without end")) }
}

fn primitive(path: &syn::Path) -> syn::Result<Type> {
    let Some(name) = path.get_ident().map(ToString::to_string) else { return Ok(named(path)) };
    let kind = match sized(&name) {
        Some(("uint", bits)) => format!("StorageUint<{bits}, {}>", bits.div_ceil(64)),
        Some(("int", bits)) => format!("StorageSigned<{bits}, {}>", bits.div_ceil(64)),
        Some((_, bytes)) => format!("StorageFixedBytes<{bytes}>"),
        None => match name.as_str() {
            "address" => "StorageAddress".into(),
            "bool" => "StorageBool".into(),
            "bytes" => "StorageBytes".into(),
            "int" => "StorageI256".into(),
            "string" => "StorageString".into(),
            "uint" => "StorageU256".into(),
            _ => return Ok(named(path)),
        },
    };
    parse_str(&format!("stylus_sdk::storage::{kind}"))
}

fn key(path: &syn::Path) -> syn::Result<Type> {
    let Some(name) = path.get_ident().map(ToString::to_string) else { return Ok(named(path)) };
    let kind = match sized(&name) {
        Some(("uint", bits)) => format!("Uint<{bits}, {}>", bits.div_ceil(64)),
        Some(("int", bits)) => format!("Signed<{bits}, {}>", bits.div_ceil(64)),
        Some((_, bytes)) => format!("FixedBytes<{bytes}>"),
        None => match name.as_str() {
            "address" => "Address".into(),
            // The SDK uses a number for it, which has the same hash.
            "bool" => return Ok(parse_quote!(bool)),
            "int" => "I256".into(),
            "uint" => "U256".into(),
            "bytes" => return Ok(parse_quote!(Vec<u8>)),
            "string" => return Ok(parse_quote!(String)),
            _ => return Ok(named(path)),
        },
    };
    parse_str(&format!("stylus_sdk::alloy_primitives::{kind}"))
}

fn named(path: &syn::Path) -> Type {
    Type::Path(syn::TypePath { qself: None, path: path.clone() })
}

/// Splits `uint24` into kind and number.
fn sized(name: &str) -> Option<(&str, usize)> {
    ["uint", "int", "bytes"].into_iter().find_map(|kind| Some((kind, name.strip_prefix(kind)?.parse().ok()?)))
}
