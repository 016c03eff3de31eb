//! Codes that a node need not load again for a transaction.
//!
//! Which code is loaded, and which instances wait for their next run, is each node's own affair and never shows. What shows is this: the last
//! [`WARM_CODES`] codes that a transaction ran are warm. A node keeps an instance of each of them until the transaction ends
//! ([`shelf`](crate::wasm)), so a start at the price of warm code finds one, however many contracts a transaction calls in turns. Frames that are
//! open deep below each other may need many instances of one code, so from [`WARM_DEPTH`] on every start pays for a cold one.

use alloy_primitives::B256;

pub(crate) const WARM_CODES: usize = 32;
pub(crate) const WARM_DEPTH: u32 = 32;

#[derive(Default)]
pub(crate) struct WarmCode(Vec<B256>);

impl WarmCode {
    /// Whether a start at this depth, 0 for the outermost frame, pays the price of loaded code.
    pub fn is_warm(&self, code_hash: &B256, depth: u32) -> bool {
        depth < WARM_DEPTH && self.0.contains(code_hash)
    }

    /// It ran just now.
    pub fn ran(&mut self, code_hash: B256) {
        match self.0.iter().position(|known| *known == code_hash) {
            Some(at) => self.0[at..].rotate_left(1),
            None => {
                if self.0.len() == WARM_CODES {
                    self.0.remove(0);
                }
                self.0.push(code_hash);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_codes_are_warm_and_no_others() {
        let (mut warm, code) = (WarmCode::default(), |at: usize| B256::from(alloy_primitives::U256::from(at)));
        (0..WARM_CODES).for_each(|at| warm.ran(code(at)));
        assert!((0..WARM_CODES).all(|at| warm.is_warm(&code(at), 0)));
        // The first runs again, so it is the second that is forgotten.
        warm.ran(code(0));
        warm.ran(code(WARM_CODES));
        assert!(warm.is_warm(&code(0), 0) && !warm.is_warm(&code(1), 0) && warm.is_warm(&code(2), 0));
        assert!(warm.is_warm(&code(0), WARM_DEPTH - 1) && !warm.is_warm(&code(0), WARM_DEPTH));
    }
}
