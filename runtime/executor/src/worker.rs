//! One worker, in steps: take a position, run it, publish its result, finalize what can be final. The thread pool and the
//! seeded driver use the same steps.

use crate::Statistics;
use crate::attempt::{Attempt, Halt};
use crate::core::{Core, Outcome};
use crate::runs;
use crate::schedule::{FinalizeResult, FinishResult, MAX_ATTEMPTS, Position, WaitFor, WaitResult};
use crate::validate::Publication;
use corniche_types::SkipReason;
use corniche_vm::{Executed, NotExecuted};
use std::ops::Range;

pub(crate) struct Worker<'c> {
    stage: Stage<'c>,
    /// Position to run next.
    next_position: Option<Position>,
    /// Positions assigned to this worker and not started yet.
    fresh: Range<Position>,
    pub statistics: Statistics,
    /// Attempts that ended with a result, or whose run was discarded, in order.
    pub taken: Vec<runs::EndedAttempt>,
}

enum Stage<'c> {
    Idle,
    Running(Attempt<'c>),
    Publishing(Box<Publication>),
    /// Executed; possibly at the frontier.
    Finalizing(Position),
}

/// How a run ended.
pub(crate) enum RunOutcome {
    /// The virtual machine ran it.
    Ran(Result<Executed, NotExecuted>),
    /// A recorded result still holds; the virtual machine did not run.
    Adopted(Result<Executed, SkipReason>),
    /// The candidate failed verification, so it is skipped in every state.
    Invalid(SkipReason),
    /// A recorded result may hold; a value needed for the check is not available yet.
    Undecided,
}

/// Result of [`Worker::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Progressed,
    /// No work is available now.
    Idle,
}

impl<'c> Worker<'c> {
    pub fn new() -> Self {
        Self { stage: Stage::Idle, next_position: None, fresh: 0..0, statistics: Statistics::default(), taken: Vec::new() }
    }

    /// Does one step. `run` advances an attempt and returns `None` while it has not ended.
    pub fn step(&mut self, core: &'c Core<'c>, run: &mut dyn FnMut(&Attempt<'c>) -> Option<RunOutcome>) -> Step {
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => {
                let Some(position) = self.next_position.take().or_else(|| core.schedule.next(&mut self.fresh)) else {
                    return Step::Idle;
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
            Stage::Finalizing(position) => match core.finalize(position, &mut self.statistics.bounds_violated) {
                FinalizeResult::Final(waiting) => {
                    self.stage = Stage::Finalizing(position + 1);
                    waiting.into_iter().for_each(|position| self.take(core, position));
                }
                FinalizeResult::Run => self.take(core, position),
                FinalizeResult::Later => {}
            },
        }
        Step::Progressed
    }

    /// Returns whether [`step`](Self::step) has work to do.
    #[cfg(test)]
    pub fn is_able(&self, core: &Core<'_>) -> bool {
        !matches!(self.stage, Stage::Idle) || self.next_position.is_some() || !self.fresh.is_empty() || core.schedule.has_next()
    }

    fn begin(&mut self, core: &'c Core<'c>, position: Position) {
        if core.schedule.frontier() < position {
            for earlier in core.predecessors(position) {
                if core.schedule.wait(position, earlier, WaitFor::Final) == WaitResult::Waiting {
                    self.statistics.predicted_conflicts += 1;
                    return;
                }
            }
        }
        let (reader, frontier) = core.schedule.start(position);
        self.stage = Stage::Running(Attempt::new(core, reader, frontier));
    }

    fn end(&mut self, core: &'c Core<'c>, attempt: Attempt<'c>, ended: RunOutcome) {
        let reader = attempt.reader;
        if matches!(ended, RunOutcome::Ran(_)) {
            self.statistics.executions += 1;
            self.statistics.re_executions += u64::from(reader.incarnation > 1);
            self.taken.push(runs::EndedAttempt { reader, ran: true });
        }
        if let Some(halt) = attempt.halt() {
            return self.suspend(core, reader.position, reader.incarnation, halt);
        }
        if matches!(ended, RunOutcome::Adopted(_)) {
            self.statistics.adopted += 1;
            self.taken.push(runs::EndedAttempt { reader, ran: false });
        }
        let outcome = match ended {
            RunOutcome::Ran(Ok(executed)) | RunOutcome::Adopted(Ok(executed)) => Ok(executed),
            RunOutcome::Ran(Err(NotExecuted::Skipped(reason)))
            | RunOutcome::Adopted(Err(reason))
            | RunOutcome::Invalid(reason) => Err(Outcome::Skipped(reason)),
            // D5: a fault counts only once the values that led to it are final.
            RunOutcome::Ran(Err(NotExecuted::Fault(fault))) => Err(Outcome::Fault(fault.to_string())),
            RunOutcome::Ran(Err(NotExecuted::Interrupted)) | RunOutcome::Undecided => {
                return self.retry(core, reader.position, false);
            }
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
            Halt::Writer(writer) if incarnation < MAX_ATTEMPTS => {
                if core.schedule.wait(position, writer, WaitFor::Executed) == WaitResult::AlreadyReached {
                    self.retry(core, position, false);
                }
            }
            Halt::Writer(_) | Halt::Frontier => self.retry(core, position, true),
        }
    }

    fn retry(&mut self, core: &Core<'_>, position: Position, for_frontier: bool) {
        if core.schedule.requeue(position, for_frontier) {
            self.take(core, position);
        } else {
            self.statistics.serial_fallbacks += 1;
        }
    }

    fn finish(&mut self, core: &Core<'_>, publication: Publication) {
        self.statistics.invalidations += publication.invalidations;
        let reader = publication.reader;
        match core.schedule.finish(reader, publication.into_result(), |work| core.withdraw_result(reader.position, work)) {
            FinishResult::Stale(true) => self.take(core, reader.position),
            FinishResult::Stale(false) => self.statistics.serial_fallbacks += 1,
            FinishResult::Executed(waiting) => {
                self.stage = Stage::Finalizing(reader.position);
                waiting.into_iter().for_each(|position| self.take(core, position));
            }
        }
    }

    /// Keeps the lowest position in hand and queues the others.
    fn take(&mut self, core: &Core<'_>, position: Position) {
        match self.next_position {
            None => self.next_position = Some(position),
            Some(held) => {
                self.next_position = Some(held.min(position));
                core.schedule.push(held.max(position));
            }
        }
    }
}
