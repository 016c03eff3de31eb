//! Deterministic doubles of keys and coin: as binding as the real ones inside a test, and a thousand times cheaper.

pub use corniche_mahi_mahi::kit::{BadShares, FakeCoin, FakeKeys, FakeSignatures, committee};
