//! Errors of loading and building contracts.

use std::path::PathBuf;

/// Error in loading or building a contract.
#[derive(Debug, thiserror::Error)]
pub enum ContractError {
    #[error("cannot read {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("{} is not an ABI: {error}", path.display())]
    NotAnAbi { path: PathBuf, error: serde_json::Error },
    #[error("cannot run {0}: {1}")]
    CannotRun(&'static str, std::io::Error),
    #[error("{} does not build for wasm32-unknown-unknown:\n{errors}", manifest.display())]
    DoesNotBuild { manifest: PathBuf, errors: String },
    #[error("{} builds no .wasm: its [lib] needs crate-type = [\"lib\", \"cdylib\"]", .0.display())]
    NoModule(PathBuf),
}
