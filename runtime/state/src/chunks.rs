//! A state as chunks, each of which a header's state root proves (validators.md §7, Y2 to Y4).
//!
//! A chunk has all entries whose tree keys begin with the same bits, its *prefix*. The prefixes of a state are a complete prefix code: each
//! key has exactly one. A chunk is a subtree of the state's tree, so the list of their hashes, the [`Manifest`], folds to the state root. A
//! peer that sends a wrong manifest or a wrong chunk is found out at once, whatever other peers send.
//!
//! ```text
//!   from depth 0 on, a prefix is split while its entries have more than `chunk_bytes` bytes
//!
//!                 root                      manifest: 0 ─ branch 71c0…, 10 ─ branch 3e9b…, 11 ─ leaf 02fa…
//!               0 /  \ 1
//!            chunk    •                     fold:     empty, empty   ─▶ empty
//!                  0 / \ 1                            empty, leaf    ─▶ that leaf, unchanged
//!               chunk   chunk                         else           ─▶ branch(hash, hash)
//! ```
//!
//! The *kind* of each chunk is in the manifest, because a leaf alone under a prefix is at the top of that subtree in our tree.

mod chunk;
mod entry;
mod manifest;

pub use chunk::{Chunk, ChunkError, ItemBuffer, Items, cut};
pub use entry::Entry;
pub use manifest::{ChunkInfo, CodeInfo, MAX_CHUNKS, MAX_CODES, Manifest, ManifestError, Prefix, Subtree, chunk_bytes};
