//! One worker, in steps: take a position, run it, publish its result, settle what can be final. The thread pool and the
//! seeded driver use the same steps.

use crate::Statistics;
use crate::attempt::{Attempt, Halt};
use crate::core::{Core, Outcome};
use crate::runs;
use crate::schedule::{ATTEMPTS, Finished, Position, Settled, Until, Waits};
use crate::validate::Publication;
use corniche_types::SkipReason;
use corniche_vm::{Executed, NotExecuted};
use std::ops::Range;

pub(crate) struct Worker<'c> {
    stage: Stage<'c>,
    /// Position to run next.
    hand: Option<Position>,
    /// Positions assigned to this worker and not started yet.
    fresh: Range<Position>,
    pub statistics: Statistics,
    /// Attempts that ended with a result, or whose run was discarded, in order.
    pub taken: Vec<runs::Taken>,
}

enum Stage<'c> {
    Idle,
    Running(Attempt<'c>),
    Publishing(Box<Publication>),
    /// Executed; possibly at the frontier.
    Settling(Position),
}

/// How a run ended.
pub(crate) enum Ended {
    /// The virtual machine ran it.
    Ran(Result<Executed, NotExecuted>),
    /// A recorded result still holds; the virtual machine did not run.
    Adopted(Result<Executed, SkipReason>),
    /// The candidate failed verification, so it is skipped in every state.
    Never(SkipReason),
    /// A recorded result may hold; a value needed for the check is not available yet.
    Undecided,
}

/// Result of [`Worker::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Done,
    /// No work is available now.
    Nothing,
}

impl<'c> Worker<'c> {
    pub fn new() -> Self {
        Self { stage: Stage::Idle, hand: None, fresh: 0..0, statistics: Statistics::default(), taken: Vec::new() }
    }

    /// Does one step. `run` advances an attempt and returns `None` while it has not ended.
    pub fn step(&mut self, core: &'c Core<'c>, run: &mut dyn FnMut(&Attempt<'c>) -> Option<Ended>) -> Step {
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => {
                let Some(position) = self.hand.take().or_else(|| core.schedule.next(&mut self.fresh)) else {
                    return Step::Nothing;
                };
                self.begin(core, position);
            }
            Stage::Running(attempt) => match run(&attempt) {
                None => self.stage = Stage::Running(attempt),
                Some(ended) => self.end(core, attempt, ended),
            },
            Stage::Publishing(mut publication) => {
                if publication.step(core) {
                    self.stage = Stage::Publishing(publication);
                } else {
                    self.finish(core, *publication);
                }
            }
            Stage::Settling(position) => match core.settle(position, &mut self.statistics.bounds_violated) {
                Settled::Final(waiting) => {
                    self.stage = Stage::Settling(position + 1);
                    waiting.into_iter().for_each(|position| self.take(core, position));
                }
                Settled::Run => self.take(core, position),
                Settled::Later => {}
            },
        }
        Step::Done
    }

    /// Returns whether [`step`](Self::step) has work to do.
    #[cfg(test)]
    pub fn is_able(&self, core: &Core<'_>) -> bool {
        !matches!(self.stage, Stage::Idle) || self.hand.is_some() || !self.fresh.is_empty() || core.schedule.has_next()
    }

    fn begin(&mut self, core: &'c Core<'c>, position: Position) {
        if core.schedule.frontier() < position {
            for earlier in core.awaited(position) {
                if core.schedule.wait(position, earlier, Until::Final) == Waits::Yes {
                    self.statistics.foreseen += 1;
                    return;
                }
            }
        }
        let (reader, frontier) = core.schedule.start(position);
        self.stage = Stage::Running(Attempt::new(core, reader, frontier));
    }

    fn end(&mut self, core: &'c Core<'c>, attempt: Attempt<'c>, ended: Ended) {
        let reader = attempt.reader;
        if matches!(ended, Ended::Ran(_)) {
            self.statistics.executions += 1;
            self.statistics.re_executions += u64::from(reader.incarnation > 1);
            self.taken.push(runs::Taken { reader, ran: true });
        }
        if let Some(halt) = attempt.halt() {
            return self.suspend(core, reader.position, reader.incarnation, halt);
        }
        if matches!(ended, Ended::Adopted(_)) {
            self.statistics.adopted += 1;
            self.taken.push(runs::Taken { reader, ran: false });
        }
        let outcome = match ended {
            Ended::Ran(Ok(executed)) | Ended::Adopted(Ok(executed)) => Ok(executed),
            Ended::Ran(Err(NotExecuted::Skipped(reason))) | Ended::Adopted(Err(reason)) | Ended::Never(reason) => {
                Err(Outcome::Skipped(reason))
            }
            // D5: a fault counts only once the values that led to it are final.
            Ended::Ran(Err(NotExecuted::Fault(fault))) => Err(Outcome::Fault(fault.to_string())),
            Ended::Ran(Err(NotExecuted::Interrupted)) | Ended::Undecided => return self.retry(core, reader.position, false),
        };
        if attempt.is_stale() {
            return self.retry(core, reader.position, false);
        }
        let exact = attempt.exact;
        let publication = Publication::new(core, reader, exact, outcome, attempt.into_predicates());
        self.stage = Stage::Publishing(Box::new(publication));
    }

    /// D1: waits for the value that the attempt needs. D7: waits for the frontier after too many attempts.
    fn suspend(&mut self, core: &Core<'_>, position: Position, incarnation: u32, halt: Halt) {
        self.statistics.suspensions += 1;
        match halt {
            Halt::For(writer) if incarnation < ATTEMPTS => {
                if core.schedule.wait(position, writer, Until::Executed) == Waits::Over {
                    self.retry(core, position, false);
                }
            }
            Halt::For(_) | Halt::ForFrontier => self.retry(core, position, true),
        }
    }

    fn retry(&mut self, core: &Core<'_>, position: Position, for_frontier: bool) {
        if core.schedule.again(position, for_frontier) {
            self.take(core, position);
        } else {
            self.statistics.serial_fallbacks += 1;
        }
    }

    fn finish(&mut self, core: &Core<'_>, publication: Publication) {
        self.statistics.invalidations += publication.invalidations;
        let reader = publication.reader;
        match core.schedule.finish(reader, publication.into_work(), |work| core.take_back(reader.position, work)) {
            Finished::Stale(true) => self.take(core, reader.position),
            Finished::Stale(false) => self.statistics.serial_fallbacks += 1,
            Finished::Executed(waiting) => {
                self.stage = Stage::Settling(reader.position);
                waiting.into_iter().for_each(|position| self.take(core, position));
            }
        }
    }

    /// Keeps the lowest position in hand and queues the others.
    fn take(&mut self, core: &Core<'_>, position: Position) {
        match self.hand {
            None => self.hand = Some(position),
            Some(held) => {
                self.hand = Some(held.min(position));
                core.schedule.push(held.max(position));
            }
        }
    }
}
