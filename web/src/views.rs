//! Views that pages and the API share: rows of the database as values, the reasons for errors, and the API's reference.

pub mod failure;
pub mod log;
pub mod reference;
pub mod rounds;
pub mod transactions;
pub mod validators;

pub use failure::Failure;
