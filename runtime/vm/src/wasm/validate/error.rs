//! Reasons why a module is refused, as messages for its developer.

/// Why a module is refused. The developer sees the text at deployment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValidationError {
    #[error("the module has {size} bytes unpacked; at most {limit} are allowed")]
    TooLarge { size: usize, limit: usize },
    #[error("not a valid WebAssembly module: {0}")]
    Malformed(String),
    #[error("{place}: {instruction} is not allowed ({reason})")]
    Instruction { place: FunctionRef, instruction: String, reason: &'static str },
    #[error("{place}: {reason}")]
    Function { place: FunctionRef, reason: String },
    #[error("type {index}: {reason}")]
    Type { index: u32, reason: String },
    #[error("{0} are not allowed")]
    Feature(&'static str),
    #[error("the module has {have} {what}; at most {limit} are allowed")]
    Limit { what: &'static str, have: u64, limit: u64 },
    #[error("import `{module}`.`{name}` is not known; contracts can import the functions of `vm_hooks` and `corniche` only")]
    UnknownImport { module: String, name: String },
    #[error("import `console`.`{0}` is for development chains only")]
    Console(String),
    #[error("import `{module}`.`{name}` has the wrong type: expected {want}, found {have}")]
    WrongImport { module: String, name: String, want: String, have: String },
    #[error("export `{0}` is missing or has the wrong type: {1}")]
    Export(&'static str, &'static str),
    #[error("{0}")]
    Segment(String),
}

/// A function, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionRef {
    pub index: u32,
    pub name: Option<String>,
}

impl std::fmt::Display for FunctionRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "function {} `{name}`", self.index),
            None => write!(f, "function {}", self.index),
        }
    }
}

pub(super) fn malformed(error: wasmparser::Error) -> ValidationError {
    ValidationError::Malformed(error.to_string())
}
