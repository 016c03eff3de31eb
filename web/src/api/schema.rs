//! Schema of responses. Each object is declared once: the same lines define the Rust type, its documentation and an
//! example. So every served field is documented.

use crate::views::reference::Schema;
use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// A type that responses may contain.
pub trait HasSchema: Serialize {
    /// Returns its schema.
    fn schema() -> Schema;
}

/// Converts a Rust name to JSON's camel case.
pub fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// Joins the lines of a doc comment.
pub fn sentences(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Declares an object of responses: doc comment, name, and fields with doc comments and optional examples.
macro_rules! object {
    (
        $(#[doc = $about:literal])+
        $name:ident { $( $(#[doc = $meaning:literal])+ $field:ident: $kind:ty $(= $example:tt)?, )+ }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name { $( $(#[doc = $meaning])+ pub $field: $kind, )+ }

        impl $crate::api::schema::HasSchema for $name {
            fn schema() -> $crate::views::reference::Schema {
                use $crate::{
                    api::schema::{camel_case, sentences},
                    views::reference::{Field, Object, Schema},
                };
                let fields = vec![$( Field {
                    name: camel_case(stringify!($field)),
                    meaning: sentences(&[$($meaning),+]),
                    schema: <$kind as $crate::api::schema::HasSchema>::schema(),
                    example: None $(.or(Some(serde_json::json!($example))))?,
                } ),+];
                Schema::Object(Object { name: stringify!($name), about: sentences(&[$($about),+]), fields })
            }
        }
    };
}
pub(super) use object;

/// Declares plain types.
macro_rules! plain {
    ($($type:ty: $kind:literal, $example:expr;)+) => {
        $(impl HasSchema for $type {
            fn schema() -> Schema {
                Schema::Plain { kind: $kind, example: json!($example) }
            }
        })+
    };
}

plain! {
    u64: "number", 1_024;
    bool: "true or false", true;
    String: "text", "Gold";
    Json: "JSON", json!([]);
    Amount: "decimal string", "1000000000000000000";
    ChecksumAddress: "address", "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
    B256: "hash", "0x9c2f1f6a3f0e3d8c0a4b7a8a1e0c6f5d4b3a29181706f5e4d3c2b1a09f8e7d6c";
    Bytes: "bytes", "0xa9059cbb";
}

impl<T: HasSchema> HasSchema for Option<T> {
    fn schema() -> Schema {
        Schema::Maybe(Box::new(T::schema()))
    }
}

impl<T: HasSchema> HasSchema for Vec<T> {
    fn schema() -> Schema {
        Schema::List(Box::new(T::schema()))
    }
}

/// A number that may exceed JavaScript's safe integers, served as a decimal string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount(pub U256);

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl From<u64> for Amount {
    fn from(number: u64) -> Self {
        Self(U256::from(number))
    }
}

/// An address with EIP-55 checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumAddress(pub Address);

impl Serialize for ChecksumAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// JSON from untrusted sources.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Json(pub Value);

#[cfg(test)]
mod tests {
    use super::*;

    object! {
        /// A thing,
        /// in two lines.
        Thing {
            /// How many.
            how_many: u64 = 7,
            /// Owner.
            owner: Option<ChecksumAddress>,
        }
    }

    #[test]
    fn documented_fields_match_served_fields() {
        let Schema::Object(object) = Thing::schema() else { panic!("no object") };
        assert_eq!((object.name, object.about.as_str()), ("Thing", "A thing, in two lines."));
        let served = serde_json::to_value(Thing { how_many: 1, owner: None }).unwrap();
        let documented: Vec<_> = object.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(documented, served.as_object().unwrap().keys().collect::<Vec<_>>());
        assert_eq!(Thing::schema().example(), json!({"howMany": 7, "owner": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"}));
        assert_eq!(object.fields[1].schema.kind(), "address or null");
    }
}
