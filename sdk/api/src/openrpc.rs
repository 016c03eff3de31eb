//! The document that `rpc_discover` returns: the table of methods as OpenRPC 1.3. Tools generate pages, types and checks from it.
//!
//! A method's signature in the table reads like TypeScript, `(account: Address, block?: BlockId) -> Quantity`: positional parameters,
//! optional ones with a question mark, and a result. A type is the name of a schema in `schemas.json`, an array of it (`Log[]`),
//! `null`, or alternatives separated by `|`.

use crate::{Method, Namespaces};
use serde_json::{Map, Value, json};

/// JSON schemas by name.
const SCHEMAS: &str = include_str!("schemas.json");

/// A parameter or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name in documents and messages; requests use positions.
    pub name: &'static str,
    /// True for a required parameter. Optional parameters come last.
    pub required: bool,
    /// Type in the table's notation.
    pub kind: &'static str,
}

/// The parameters of a method, by position, and the type of its result.
pub fn signature(method: Method) -> (Vec<Field>, &'static str) {
    let (params, result) = method.signature().split_once(" -> ").expect("a signature has a result");
    let params = params.strip_prefix('(').and_then(|params| params.strip_suffix(')')).expect("parameters are in brackets");
    let named = params.split(", ").filter(|param| !param.is_empty()).map(|param| {
        let (name, kind) = param.split_once(": ").expect("a parameter has a type");
        let optional = name.strip_suffix('?');
        Field { name: optional.unwrap_or(name), required: optional.is_none(), kind }
    });
    (named.collect(), result)
}

/// The document of a node that serves these namespaces; `version` is the node's.
pub fn document(version: &str, served: &Namespaces) -> Value {
    let methods: Vec<Value> =
        Method::ALL.iter().filter(|method| served.serves(**method)).map(|method| method_document(*method)).collect();
    json!({
        "openrpc": "1.3.2",
        "info": {
            "title": "Corniche",
            "description": "Ethereum's JSON-RPC over HTTP and WebSocket, and what this chain adds to it.",
            "version": version,
        },
        "methods": methods,
        "components": { "schemas": schemas() },
    })
}

/// JSON schemas by name; they refer to each other by `#/components/schemas/…`.
pub fn schemas() -> Map<String, Value> {
    serde_json::from_str(SCHEMAS).expect("schemas.json is an object; a test reads it")
}

fn method_document(method: Method) -> Value {
    let (params, result) = signature(method);
    let params: Vec<Value> = params
        .iter()
        .map(|param| json!({"name": param.name, "required": param.required, "schema": schema(param.kind)}))
        .collect();
    json!({
        "name": method.name(),
        "summary": method.summary(),
        "tags": [{"name": method.namespace()}],
        "paramStructure": "by-position",
        "params": params,
        "result": {"name": "result", "schema": schema(result)},
    })
}

/// The schema of a type.
pub fn schema(kind: &str) -> Value {
    let one = |kind: &str| match (kind, kind.strip_suffix("[]")) {
        ("null", _) => json!({"type": "null"}),
        (_, Some(item)) => json!({"type": "array", "items": reference(item)}),
        (name, None) => reference(name),
    };
    let mut alternatives: Vec<Value> = kind.split(" | ").map(one).collect();
    if alternatives.len() == 1 { alternatives.remove(0) } else { json!({"anyOf": alternatives}) }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Names that a schema refers to.
    fn references(value: &Value, into: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    match member {
                        Value::String(path) if name == "$ref" => {
                            into.insert(path.strip_prefix("#/components/schemas/").expect("within the document").into());
                        }
                        member => references(member, into),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, into)),
            _ => {}
        }
    }

    #[test]
    fn schema_references_are_complete() {
        let document = document("0.0.0", &Namespaces::all());
        let mut used = BTreeSet::new();
        references(&document, &mut used);
        let known: BTreeSet<String> = schemas().keys().cloned().collect();
        assert_eq!(used, known);
    }

    #[test]
    fn signature_is_parsed() {
        let (params, result) = signature(Method::EthGetBalance);
        let account = Field { name: "account", required: true, kind: "Address" };
        assert_eq!(params, [account, Field { name: "block", required: false, kind: "BlockId" }]);
        assert_eq!(result, "Quantity");
        assert_eq!(signature(Method::EthChainId), (vec![], "Quantity"));
        assert_eq!(
            schema("Hash[] | null"),
            json!({"anyOf": [{"type": "array", "items": {"$ref": "#/components/schemas/Hash"}}, {"type": "null"}]})
        );
        for method in Method::ALL {
            let (params, _) = signature(*method);
            assert!(params.is_sorted_by_key(|param| !param.required), "{}: what may be left out comes last", method.name());
            assert!(
                method.summary().ends_with('.') && !method.summary().contains("  "),
                "{}: {}",
                method.name(),
                method.summary()
            );
        }
    }

    #[test]
    fn document_lists_served_methods() {
        let served: Namespaces = "net,web3".parse().expect("both are known");
        let described = document("1.2.3", &served);
        let names: Vec<&str> =
            described["methods"].as_array().expect("a list").iter().filter_map(|method| method["name"].as_str()).collect();
        assert_eq!(names, ["web3_clientVersion", "web3_sha3", "net_version", "net_listening", "net_peerCount"]);
        assert_eq!(described["info"]["version"], "1.2.3");
    }
}
