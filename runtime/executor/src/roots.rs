//! Ethereum's ordered trie, divided into pieces that different threads can hash.
//!
//! The key of item i is the RLP of i. Sixteen items, starting at a multiple of sixteen, differ only in the last nibble
//! of their key, so they form one branch node. Pieces hash the branch nodes; the levels above are built from these
//! hashes. Item 0 is the exception: its key is the RLP of the empty string, which sorts between the keys of 127 and
//! 128.

use alloy_trie::{EMPTY_ROOT_HASH, HashBuilder, Nibbles};
use corniche_types::B256;
use std::ops::Range;

const BRANCH_WIDTH: usize = 16;
/// Branch nodes per piece. A piece is large enough that distributing pieces costs nothing.
const BRANCHES_PER_PIECE: usize = 4;

/// Returns the number of pieces for a trie of `items` items.
pub(crate) fn pieces(items: usize) -> usize {
    items.div_ceil(BRANCH_WIDTH * BRANCHES_PER_PIECE)
}

/// Returns the items of a piece.
pub(crate) fn items_of(piece: usize, items: usize) -> Range<usize> {
    let start = piece * BRANCH_WIDTH * BRANCHES_PER_PIECE;
    start..(start + BRANCH_WIDTH * BRANCHES_PER_PIECE).min(items)
}

/// A hashed piece.
#[derive(Default)]
pub(crate) struct Piece {
    /// In the order of the items.
    nodes: Vec<Node>,
}

enum Node {
    Branch(B256),
    /// An item that has no sibling among its sixteen, and so no branch node.
    Item(Vec<u8>),
}

impl Piece {
    /// Hashes the items of a piece. `encode` appends item i, in at least 32 bytes.
    pub fn new(items: Range<usize>, mut encode: impl FnMut(usize, &mut Vec<u8>)) -> Self {
        let mut nodes = Vec::with_capacity(BRANCHES_PER_PIECE + 1);
        let mut buffer = Vec::new();
        let mut next = items.start;
        while next < items.end {
            // Item 0 has no siblings.
            let end = if next == 0 { 1 } else { ((next / BRANCH_WIDTH + 1) * BRANCH_WIDTH).min(items.end) };
            if end - next == 1 {
                let mut item = Vec::new();
                encode(next, &mut item);
                nodes.push(Node::Item(item));
            } else {
                let mut branch = HashBuilder::default();
                for item in next..end {
                    buffer.clear();
                    encode(item, &mut buffer);
                    debug_assert!(buffer.len() >= 32, "a node this small is embedded in its parent");
                    branch.add_leaf(Nibbles::from_nibbles([(item % BRANCH_WIDTH) as u8]), &buffer);
                }
                nodes.push(Node::Branch(branch.root()));
            }
            next = end;
        }
        Self { nodes }
    }
}

/// Returns the root over all pieces, in order.
pub(crate) fn root(pieces: impl IntoIterator<Item = Piece>) -> B256 {
    let mut nodes = pieces.into_iter().flat_map(|piece| piece.nodes);
    let Some(Node::Item(first)) = nodes.next() else { return EMPTY_ROOT_HASH };
    let mut first = Some(first);
    let mut builder = HashBuilder::default();
    let mut index = 1;
    for node in nodes {
        if index >= 0x80
            && let Some(first) = first.take()
        {
            builder.add_leaf(key(0), &first);
        }
        match node {
            Node::Branch(hash) => builder.add_branch(key(index).slice(..key(index).len() - 1), hash, false),
            Node::Item(item) => builder.add_leaf(key(index), &item),
        }
        index = (index / BRANCH_WIDTH + 1) * BRANCH_WIDTH;
    }
    if let Some(first) = first {
        builder.add_leaf(key(0), &first);
    }
    builder.root()
}

fn key(index: usize) -> Nibbles {
    Nibbles::unpack(alloy_rlp::encode_fixed_size(&index))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(index: usize) -> Vec<u8> {
        (0..32 + index % 90).map(|byte| (byte * 7 + index * 13) as u8).collect()
    }

    #[test]
    fn root_of_pieces_matches_whole() {
        for items in (0..300).chain([1_000, 4_095, 4_096, 4_097, 65_700]) {
            let all: Vec<Vec<u8>> = (0..items).map(item).collect();
            let whole = alloy_trie::root::ordered_trie_root_with_encoder(&all, |item, out| out.extend_from_slice(item));
            let cut = (0..pieces(items))
                .map(|piece| Piece::new(items_of(piece, items), |index, out| out.extend_from_slice(&all[index])));
            assert_eq!(root(cut), whole, "{items} items");
        }
    }
}
