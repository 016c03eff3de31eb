//! Served methods, by namespace: the prefix before the underscore.

use crate::Method;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::collections::BTreeSet;
use std::str::FromStr;

/// The namespaces that a node serves. A list of names: an array in a configuration, comma-separated on a command line. `all` selects
/// every namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces(BTreeSet<&'static str>);

/// Namespaces that wallets, libraries and indexers need. The others are served only on request: they are expensive for the node, show
/// more than untrusted clients should see, or change the chain.
const DEFAULT_NAMESPACES: [&str; 5] = ["corniche", "eth", "net", "rpc", "web3"];

impl Default for Namespaces {
    fn default() -> Self {
        let mut served = Self::all();
        served.0.retain(|name| DEFAULT_NAMESPACES.contains(name));
        served
    }
}

/// Reason why a list of namespaces is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// No method has this namespace.
    #[error("unknown namespace \"{0}\": expected {known}, or \"all\"", known = known())]
    Unknown(String),
    /// An empty list: the node would serve no method.
    #[error("no namespaces: name at least one of {known}, or \"all\"", known = known())]
    Empty,
}

fn known() -> String {
    Namespaces::all().names().collect::<Vec<_>>().join(", ")
}

impl Namespaces {
    /// All namespaces.
    pub fn all() -> Self {
        Self(Method::ALL.iter().map(|method| method.namespace()).collect())
    }

    /// Namespaces of a list; `all` selects every namespace.
    pub fn from_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self, NamespaceError> {
        let all = Self::all();
        let mut served = BTreeSet::new();
        for name in names {
            if name == "all" {
                served.extend(all.names());
                continue;
            }
            served.insert(all.names().find(|known| *known == name).ok_or_else(|| NamespaceError::Unknown(name.into()))?);
        }
        if served.is_empty() { Err(NamespaceError::Empty) } else { Ok(Self(served)) }
    }

    /// Returns true if the node serves this method, by [`Method::switch`].
    pub fn serves(&self, method: Method) -> bool {
        self.0.contains(method.config_name())
    }

    /// Names in ascending order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().copied()
    }
}

impl FromStr for Namespaces {
    type Err = NamespaceError;

    fn from_str(list: &str) -> Result<Self, NamespaceError> {
        Self::from_names(list.split(',').map(str::trim).filter(|name| !name.is_empty()))
    }
}

impl Serialize for Namespaces {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Namespaces {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        Self::from_names(names.iter().map(String::as_str)).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_namespaces_serve_wallets() {
        let strangers = Namespaces::default();
        assert!(strangers.names().all(|name| DEFAULT_NAMESPACES.contains(&name)));
        assert!(strangers.serves(Method::EthCall) && strangers.serves(Method::CornicheGetOrdering));
        assert!(Method::ALL.iter().all(|method| Namespaces::all().serves(*method)));
        for method in Method::ALL {
            let may_be_served =
                !["debug", "txpool", "dev", "evm", "hardhat", "anvil", "admin", "ots"].contains(&method.config_name());
            assert_eq!(strangers.serves(*method), may_be_served, "{}", method.name());
        }
    }

    #[test]
    fn parses_namespace_lists() {
        let read = |text: &str| serde_json::from_str::<Namespaces>(text);
        let some = read(r#"["web3", "eth"]"#).unwrap();
        assert!(some.serves(Method::EthChainId) && !some.serves(Method::NetVersion));
        assert_eq!(serde_json::to_string(&some).unwrap(), r#"["eth","web3"]"#);
        assert_eq!("eth, web3".parse(), Ok(some));
        assert_eq!("all".parse(), Ok(Namespaces::all()));
        let error = read(r#"["eth", "personal"]"#).unwrap_err().to_string();
        assert!(error.contains("unknown namespace \"personal\": expected anvil, corniche, "), "{error}");
        assert_eq!(" ,".parse::<Namespaces>(), Err(NamespaceError::Empty));
    }
}
