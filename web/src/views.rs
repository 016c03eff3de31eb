//! Views that pages and the API share: rows of the database as values, and the reasons for errors.

pub mod failure;
pub mod rounds;
pub mod transactions;
pub mod validators;

pub use failure::Failure;
