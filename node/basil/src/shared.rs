//! Values that messages, records and machines share without copies. On the wire a shared value is the value.

use borsh::{BorshDeserialize, BorshSerialize};
use std::io;
use std::sync::Arc;

/// A shared value.
#[derive(Debug, PartialEq, Eq)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> std::ops::Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: BorshSerialize> BorshSerialize for Shared<T> {
    fn serialize<W: io::Write>(&self, writer: &mut W) -> io::Result<()> {
        self.0.serialize(writer)
    }
}

impl<T: BorshDeserialize> BorshDeserialize for Shared<T> {
    fn deserialize_reader<R: io::Read>(reader: &mut R) -> io::Result<Self> {
        T::deserialize_reader(reader).map(Self::new)
    }
}
