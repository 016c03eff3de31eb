//! Errors of the client, with exit codes and decoded revert reasons.

use super::abi::Interface;
use corniche_client::ClientError;
use corniche_console::exit::{Exit, Failed};
use corniche_types::Bytes;

/// Adds the exit code to each kind of failure, and the reason to reverts.
pub fn explain(error: ClientError, abi: &Interface) -> anyhow::Error {
    explain_by(error, &|data| abi.revert_reason(data))
}

/// Adds the exit code to each kind of failure, and the reason that `reason` decodes from revert data.
pub fn explain_by(error: ClientError, reason: &impl Fn(&Bytes) -> Option<String>) -> anyhow::Error {
    let exit = match &error {
        ClientError::Unreachable { .. } => Exit::Unreachable,
        ClientError::Refused { .. } | ClientError::Dropped { .. } => Exit::Refused,
        ClientError::Reverted { .. } => Exit::Reverted,
        ClientError::Deadline { .. } => Exit::Deadline,
        ClientError::InvalidResponse { .. }
        | ClientError::Unproven { .. }
        | ClientError::TrustExpired(_)
        | ClientError::Conflict(_)
        | ClientError::Unsignable(_) => Exit::Failure,
    };
    let message = match &error {
        ClientError::Reverted { message, data } => match reason(data) {
            Some(reason) if !message.contains(&reason) => format!("{message}: {reason}"),
            _ => message.clone(),
        },
        _ => error.to_string(),
    };
    Failed::new(exit, message).into()
}
