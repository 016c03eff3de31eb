//! Codes that count as loaded within a transaction.
//!
//! Loaded codes and kept instances differ between nodes and are never visible. The visible rule: the last
//! [`MAX_WARM_CODES`] codes that a transaction ran are warm. A node keeps an instance of each until the transaction ends
//! (`instance_pool`). So every start at the warm price finds an instance, even if a transaction calls many
//! contracts in turns. Deeply nested frames may need many instances of one code, so from depth [`MAX_WARM_DEPTH`] on every
//! start pays the cold price. At lower depths, a start within a frame of the same code pays for an additional
//! instance.

use crate::host::Readiness;
use alloy_primitives::B256;

pub(crate) const MAX_WARM_CODES: usize = 32;
pub(crate) const MAX_WARM_DEPTH: u32 = 32;

/// Identifies code under a gas version. Code that is deployed under several versions has one identifier for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CodeId {
    pub hash: B256,
    pub gas_version: u8,
}

impl CodeId {
    pub fn new(gas_version: u8, hash: &B256) -> Self {
        Self { hash: *hash, gas_version }
    }
}

#[derive(Default)]
pub(crate) struct WarmCode {
    /// Sorted by last start, newest last.
    ran: Vec<CodeId>,
    /// Codes of the open frames, outermost first.
    runs: Vec<CodeId>,
}

impl WarmCode {
    /// Returns the state of a code for a start at this depth; 0 is the outermost frame.
    pub fn readiness(&self, code: &CodeId, depth: u32) -> Readiness {
        if depth >= MAX_WARM_DEPTH || !self.ran.contains(code) {
            Readiness::Cold
        } else if self.runs.contains(code) {
            Readiness::Nested
        } else {
            Readiness::Warm
        }
    }

    /// Records the start of a frame with this code.
    pub fn starts(&mut self, code: CodeId) {
        self.runs.push(code);
        match self.ran.iter().position(|known| *known == code) {
            Some(at) => self.ran[at..].rotate_left(1),
            None => {
                if self.ran.len() == MAX_WARM_CODES {
                    self.ran.remove(0);
                }
                self.ran.push(code);
            }
        }
    }

    /// Number of open frames.
    pub fn running(&self) -> usize {
        self.runs.len()
    }

    /// Closes all frames beyond `running`.
    pub fn close(&mut self, running: usize) {
        self.runs.truncate(running);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U256;

    fn id(number: usize) -> CodeId {
        CodeId::new(1, &B256::from(U256::from(number)))
    }

    #[test]
    fn only_recent_codes_are_warm() {
        let (mut warm, code) = (WarmCode::default(), id);
        let run = |warm: &mut WarmCode, at| {
            warm.starts(code(at));
            warm.close(0);
        };
        (0..MAX_WARM_CODES).for_each(|at| run(&mut warm, at));
        assert!((0..MAX_WARM_CODES).all(|at| warm.readiness(&code(at), 0) == Readiness::Warm));
        // The first runs again, so the second is evicted.
        run(&mut warm, 0);
        run(&mut warm, MAX_WARM_CODES);
        let found = [0, 1, 2].map(|at| warm.readiness(&code(at), 0));
        assert_eq!(found, [Readiness::Warm, Readiness::Cold, Readiness::Warm]);
        let at_depth = [MAX_WARM_DEPTH - 1, MAX_WARM_DEPTH].map(|depth| warm.readiness(&code(0), depth));
        assert_eq!(at_depth, [Readiness::Warm, Readiness::Cold]);
    }

    #[test]
    fn running_code_needs_nested_instance() {
        let (mut warm, [one, other]) = (WarmCode::default(), [1, 2].map(id));
        warm.starts(one);
        assert_eq!(warm.readiness(&one, 1), Readiness::Nested);
        assert_eq!(warm.readiness(&other, 1), Readiness::Cold);
        let running = warm.running();
        warm.starts(other);
        assert_eq!(warm.readiness(&one, 2), Readiness::Nested, "also with another in between");
        warm.close(running);
        assert_eq!(warm.readiness(&other, 1), Readiness::Warm);
        warm.close(0);
        assert_eq!(warm.readiness(&one, 0), Readiness::Warm);
    }
}
