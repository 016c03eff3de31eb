//! Modelled keys and coin: in a test as binding as the real ones, and a thousand times cheaper.

pub use corniche_mahi_mahi_testing::{BadShares, FakeCoin, FakeKeys, FakeSignatures, committee, committee_of, sign};
