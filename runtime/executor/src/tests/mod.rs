//! Tests of the scheduler's core. Scripts take the place of transactions; steps are single reads and publications.

mod exhaustive;
mod random;
mod script;
