//! Code that the command-line programs share: exit codes and output channels ([`exit`]), secrets in files ([`secret`]),
//! password-protected keys ([`keystore`]), the public [`dev_accounts`], and processor time ([`processor`]).

pub mod dev_accounts;
pub mod exit;
pub mod keystore;
pub mod processor;
pub mod secret;
