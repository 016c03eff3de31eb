//! Initial content of a contract's memory, and how to restore it.
//!
//! Invariant after [`Image::restore`]: memory equals the image and no mark is left, if every byte that differed was in
//! a marked chunk or within [`MAX_STORE_OVERHANG`] bytes after one. The instrumented module marks its stores
//! ([`instrument`](super::instrument)), and the host marks its writes ([`mark`]).

use super::instrument::{CHUNK, InstrumentError, MAX_STORE_OVERHANG, PRIVATE_BYTES, segments};
use super::validate::{ValidModule, parser};
use borsh::{BorshDeserialize, BorshSerialize};
use wasmparser::Payload;

/// The data segments over zeros. Chunks without data are not stored.
#[derive(BorshSerialize, BorshDeserialize)]
pub(super) struct Image {
    chunks: Vec<Option<Box<[u8; CHUNK]>>>,
    /// Bytes of the chunks with data.
    bytes: usize,
}

impl Image {
    pub fn of(checked: &ValidModule<'_>) -> Result<Self, InstrumentError> {
        let mut image = Self { chunks: Vec::new(), bytes: 0 };
        for payload in parser().parse_all(checked.wasm) {
            if let Payload::DataSection(section) = payload.map_err(InstrumentError::new)? {
                for segment in segments(section) {
                    let (at, bytes) = segment?;
                    image.write_data(at as usize, bytes);
                }
            }
        }
        Ok(image)
    }

    /// Host memory in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes + size_of_val(self.chunks.as_slice())
    }

    /// Numbers of the chunks with data.
    pub fn chunks(&self) -> impl Iterator<Item = usize> {
        self.chunks.iter().zip(0..).filter_map(|(chunk, number)| chunk.as_ref().map(|_| number))
    }

    fn write_data(&mut self, mut at: usize, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (chunk, within) = (at / CHUNK, at % CHUNK);
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - within));
            if self.chunks.len() <= chunk {
                self.chunks.resize(chunk + 1, None);
            }
            let chunk = self.chunks[chunk].get_or_insert_with(|| {
                self.bytes += CHUNK;
                Box::new([0; CHUNK])
            });
            chunk[within..within + now.len()].copy_from_slice(now);
            at += now.len();
            bytes = later;
        }
    }

    /// Restores `memory`, which is the module's: marks, then the contract's memory. Calls `visit` for each chunk that
    /// it writes, possibly twice.
    pub fn restore(&self, memory: &mut [u8], mut visit: impl FnMut(usize)) {
        let (marks, memory) = memory.split_at_mut(PRIVATE_BYTES);
        // Memory is whole pages, so each chunk has a mark, and eight marks form a word.
        let (words, _) = marks[..memory.len() / CHUNK].as_chunks_mut::<8>();
        for (word, marks) in words.iter_mut().enumerate() {
            let mut left = u64::from_le_bytes(*marks);
            if left == 0 {
                continue;
            }
            *marks = [0; 8];
            while left != 0 {
                let byte = left.trailing_zeros() / 8;
                left &= !(0xff << (8 * byte));
                let chunk = word * 8 + byte as usize;
                self.restore_chunk(memory, chunk);
                visit(chunk);
                // Its bytes behind this chunk are written too.
                if chunk + 1 < memory.len() / CHUNK {
                    visit(chunk + 1);
                }
            }
        }
    }

    fn restore_chunk(&self, memory: &mut [u8], chunk: usize) {
        let (whole, behind) = memory[chunk * CHUNK..].split_at_mut(CHUNK);
        match self.chunk(chunk) {
            Some(first) => whole.copy_from_slice(first),
            None => whole.fill(0),
        }
        if let Some(behind) = behind.first_chunk_mut::<MAX_STORE_OVERHANG>() {
            match self.chunk(chunk + 1).and_then(|first| first.first_chunk()) {
                Some(first) => *behind = *first,
                None => *behind = [0; MAX_STORE_OVERHANG],
            }
        }
    }

    fn chunk(&self, chunk: usize) -> Option<&[u8; CHUNK]> {
        self.chunks.get(chunk)?.as_deref()
    }
}

/// Marks a host write of `length` bytes at `start` of the contract's memory, which must be in bounds.
pub(super) fn mark(memory: &mut [u8], start: usize, length: usize) {
    if length > 0 {
        memory[start / CHUNK..=(start + length - 1) / CHUNK].fill(1);
    }
}
