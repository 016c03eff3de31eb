//! Memory above the program's own: the input, then the output, which grows while it is written. The `deployer` beside this
//! contract includes this file too.

use crate::hooks;
use core::arch::wasm32::{memory_grow, memory_size};

const PAGE: usize = 65_536;
const WORD: usize = 32;

extern "C" {
    /// End of the program's own data, set by the linker.
    static __heap_base: u8;
}

/// Part of the input, read by the Solidity ABI. `None` means an invalid encoding or an access outside.
#[derive(Clone, Copy)]
pub struct Place(&'static [u8]);

/// The return data.
pub struct Output {
    start: *mut u8,
    length: usize,
}

/// Reads the input.
pub fn input(length: usize) -> (Place, Output) {
    let base = core::ptr::addr_of!(__heap_base) as usize;
    let end = base.wrapping_add(length);
    if end < base || !reach(end) {
        core::arch::wasm32::unreachable();
    }
    let base = base as *mut u8;
    // SAFETY: these bytes are in memory, nothing else is stored there, and they are not written after the read.
    let input = unsafe {
        hooks::arguments(base);
        core::slice::from_raw_parts(base, length)
    };
    (Place(input), Output { start: end as *mut u8, length: 0 })
}

/// Grows memory up to an address.
fn reach(end: usize) -> bool {
    let pages = end.div_ceil(PAGE);
    let there = memory_size(0);
    pages <= there || memory_grow(0, pages - there) != usize::MAX
}

impl Place {
    pub const EMPTY: Self = Self(&[]);

    pub fn contents(self) -> &'static [u8] {
        self.0
    }

    pub fn start(self) -> *const u8 {
        self.0.as_ptr()
    }

    pub fn length(self) -> usize {
        self.0.len()
    }

    /// Returns the function's selector and its arguments.
    pub fn selector(self) -> Option<(u32, Self)> {
        let (selector, arguments) = self.0.split_first_chunk()?;
        Some((u32::from_be_bytes(*selector), Self(arguments)))
    }

    fn from(self, at: usize) -> Option<Self> {
        self.0.get(at..).map(Self)
    }

    pub fn word(self, at: usize) -> Option<&'static [u8; WORD]> {
        self.from(at)?.0.first_chunk()
    }

    fn number(self, at: usize) -> Option<usize> {
        let (high, low) = self.word(at)?.split_last_chunk::<4>()?;
        is_zero(high).then_some(u32::from_be_bytes(*low) as usize)
    }

    pub fn truth(self, at: usize) -> Option<bool> {
        match self.number(at)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub fn address(self, at: usize) -> Option<&'static [u8; 20]> {
        let (high, low) = self.word(at)?.split_last_chunk::<20>()?;
        is_zero(high).then_some(low)
    }

    /// Follows the offset at `at`.
    pub fn follow(self, at: usize) -> Option<Self> {
        self.from(self.number(at)?)
    }

    /// Returns the elements of an array, starting with their heads, and their number.
    pub fn array(self, at: usize) -> Option<(Self, usize)> {
        let array = self.follow(at)?;
        let (count, elements) = (array.number(0)?, array.from(WORD)?);
        (count <= elements.length() / WORD).then_some((elements, count))
    }

    pub fn bytes(self, at: usize) -> Option<Self> {
        let bytes = self.follow(at)?;
        bytes.from(WORD)?.0.get(..bytes.number(0)?).map(Self)
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

impl Output {
    pub fn length(&self) -> usize {
        self.length
    }

    /// Starts an empty output at the old place. Old bytes stay there, so new output has to write every byte.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Starts an empty output behind the old one, where memory is zero. The old output stays readable.
    pub fn leave(&mut self) -> Place {
        // SAFETY: these bytes are written, and they do not change any more.
        let written = unsafe { core::slice::from_raw_parts(self.start, self.length) };
        self.start = self.start.wrapping_add(self.length);
        self.length = 0;
        Place(written)
    }

    /// Reserves bytes at the end.
    fn room(&mut self, bytes: usize) -> Option<*mut u8> {
        let length = self.length.checked_add(bytes)?;
        if !reach((self.start as usize).checked_add(length)?) {
            return None;
        }
        let place = self.start.wrapping_add(self.length);
        self.length = length;
        Some(place)
    }

    /// Appends zeros, to be overwritten later.
    pub fn skip(&mut self, bytes: usize) -> Option<()> {
        self.room(bytes).map(|_| ())
    }

    pub fn word(&mut self, word: &[u8; WORD]) -> Option<()> {
        let place = self.room(WORD)?;
        // SAFETY: there is room for a word, and nothing else refers to the output.
        unsafe { place.cast::<[u8; WORD]>().write_unaligned(*word) };
        Some(())
    }

    pub fn append(&mut self, bytes: &[u8]) -> Option<()> {
        let place = self.room(bytes.len())?;
        // SAFETY: there is room for the bytes, and they do not overlap.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Some(())
    }

    pub fn number(&mut self, number: u64) -> Option<()> {
        self.word(&word(number))
    }

    /// Overwrites a word that [`skip`](Self::skip) left.
    pub fn number_at(&mut self, at: usize, number: u64) {
        if at + WORD <= self.length {
            // SAFETY: that word is part of the output.
            unsafe { self.start.wrapping_add(at).cast::<[u8; WORD]>().write_unaligned(word(number)) };
        }
    }

    /// Appends the result of the last call.
    pub fn returned_bare(&mut self, length: usize) -> Option<()> {
        let place = self.room(length)?;
        // SAFETY: there is room for it.
        unsafe { hooks::returned(place, length) };
        Some(())
    }

    /// Appends the result of the last call, padded with zeros to a whole word.
    pub fn returned(&mut self, length: usize) -> Option<()> {
        let place = self.room(length.checked_next_multiple_of(WORD)?)?;
        // SAFETY: there is room for it.
        unsafe { hooks::returned(place, length) };
        Some(())
    }

    /// Writes Error(string), with a text of at most a word.
    pub fn error(&mut self, text: &str) -> Option<()> {
        let place = self.room(4)?;
        // SAFETY: there is room for four bytes.
        unsafe { place.cast::<[u8; 4]>().write_unaligned([0x08, 0xc3, 0x79, 0xa0]) };
        self.number(32)?;
        self.number(text.len() as u64)?;
        let mut padded = [0; WORD];
        padded.iter_mut().zip(text.as_bytes()).for_each(|(to, from)| *to = *from);
        self.word(&padded)
    }

    pub fn write(&self) {
        // SAFETY: this many bytes are written.
        unsafe { hooks::result(self.start, self.length) };
    }
}

fn word(number: u64) -> [u8; WORD] {
    let mut word = [0; WORD];
    if let Some(low) = word.last_chunk_mut() {
        *low = number.to_be_bytes();
    }
    word
}
