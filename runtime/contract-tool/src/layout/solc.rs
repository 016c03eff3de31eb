//! Layout in the format of Solidity's compiler (`storageLayout` in its standard JSON), which other tools
//! read.

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Storage of a contract from slot zero on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    pub storage: Vec<Variable>,
    /// Keyed by the ids that variables and other types use.
    pub types: BTreeMap<String, Type>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Variable {
    /// Arbitrary unique number: in Solidity it refers to the syntax tree.
    #[serde(default)]
    pub ast_id: u64,
    /// For instance `src/lib.rs:Token`.
    #[serde(default)]
    pub contract: String,
    pub label: String,
    /// Offset in bytes from the low end of the slot.
    pub offset: u64,
    /// In decimal; for a struct's member relative to the start of the struct.
    pub slot: String,
    #[serde(rename = "type")]
    pub kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Type {
    /// `inplace`, `mapping`, `dynamic_array` or `bytes`.
    pub encoding: String,
    /// Type in Solidity notation.
    pub label: String,
    /// In decimal.
    pub number_of_bytes: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<Variable>>,
}

impl Type {
    pub fn inplace(label: impl Into<String>, bytes: usize) -> Self {
        Self::new("inplace", label, bytes)
    }

    pub fn new(encoding: &str, label: impl Into<String>, bytes: usize) -> Self {
        let (encoding, label, number_of_bytes) = (encoding.to_owned(), label.into(), bytes.to_string());
        Self { encoding, label, number_of_bytes, base: None, key: None, value: None, members: None }
    }
}

impl Layout {
    /// Parses a file: the object itself, or one with it under `storageLayout`, as in compilers' artefacts.
    pub fn parse(json: &[u8]) -> anyhow::Result<Self> {
        let mut value: Value = serde_json::from_slice(json).context("it is not JSON")?;
        let mut value = value.get_mut("storageLayout").map(Value::take).unwrap_or(value);
        // Solidity writes null if nothing is stored.
        if value.get("types").is_some_and(Value::is_null) {
            value["types"] = Value::Object(serde_json::Map::new());
        }
        let layout: Self = serde_json::from_value(value).context("it is no storage layout")?;
        layout.whole()?;
        Ok(layout)
    }

    /// Checks that all referenced types exist and all numbers are valid.
    fn whole(&self) -> anyhow::Result<()> {
        let members = self.types.values().filter_map(|kind| kind.members.as_ref()).flatten();
        for variable in self.storage.iter().chain(members) {
            self.kind(&variable.kind)?;
            variable.slot.parse::<alloy_primitives::U256>().with_context(|| format!("the slot of {}", variable.label))?;
        }
        for kind in self.types.values() {
            kind.number_of_bytes.parse::<u64>().with_context(|| format!("the bytes of {}", kind.label))?;
            for named in [&kind.base, &kind.key, &kind.value].into_iter().flatten() {
                self.kind(named)?;
            }
            match kind.encoding.as_str() {
                "inplace" | "bytes" => {}
                "mapping" if kind.key.is_some() && kind.value.is_some() => {}
                "dynamic_array" if kind.base.is_some() => {}
                other => bail!("{} is encoded as {other:?}, of which nothing is known", kind.label),
            }
        }
        Ok(())
    }

    pub fn kind(&self, name: &str) -> anyhow::Result<&Type> {
        self.types.get(name).with_context(|| format!("the type {name} is not among its types"))
    }
}
