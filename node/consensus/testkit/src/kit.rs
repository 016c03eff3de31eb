//! What the arena must know about an engine.

use crate::{Gang, Judge, Random};
use corniche_engine::{Committee, Engine, Resume, Ticket, Verifier, VertexId};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex};
use std::{collections::BTreeMap, rc::Rc, sync::Arc};

/// One engine under one committee, with modelled keys. Its functions are pure.
pub trait Kit {
    /// The word that chooses the engine in a genesis.
    fn name(&self) -> &'static str;
    fn committee(&self) -> &Committee;
    fn start(&self, setup: Setup) -> Box<dyn Measured>;
    fn verifier(&self) -> Arc<dyn Verifier>;
    /// The proposal that a message carries, when the message is what an author says of its own proposal; not an answer that
    /// happens to contain proposals.
    fn peek(&self, message: &Bytes) -> Option<VertexId>;
    /// The proposal that a record makes durable.
    fn peek_record(&self, record: &Bytes) -> Option<VertexId>;
    /// A message of `author`'s, changed and signed again. `None` when this message offers nothing to forge.
    fn forge(&self, author: ValidatorIndex, forgery: Forgery, message: &Bytes, random: &mut Random) -> Option<Bytes>;
    /// Commits that a validator may be behind and still catch up through its peers' engines. One further behind follows certified
    /// commits first, and starts its engine there.
    fn most_behind(&self) -> u64;
    /// No correct engine of this committee ever holds more ([`Measured::footprint`]).
    fn most_held(&self) -> usize;

    /// Names of the doubles that only this engine knows. The last one does everything that the others do.
    fn own_doubles(&self) -> &'static [&'static str] {
        &[]
    }

    /// Plays them: each member by its identity, with the name of what it does.
    fn gang(&self, _members: &BTreeMap<usize, &'static str>) -> Option<Box<dyn Gang>> {
        None
    }

    /// For one run.
    fn judge(&self) -> Option<Box<dyn Judge>> {
        None
    }

    /// The same engine and committee with other parameters that a network may choose, also such as are live with honest validators only
    /// when there are no others. `None`: as it is.
    fn vary(&self, _random: &mut Random, _all_honest: bool) -> Option<Rc<dyn Kit>> {
        None
    }
}

/// An engine whose memory can be asked for.
pub trait Measured: Engine {
    /// How many things it holds that could become too many: proposals, verdicts, requests.
    fn footprint(&self) -> usize;

    /// For people who look into a failure.
    fn describe(&self) -> String {
        String::new()
    }
}

/// What an engine starts from; the committee and the parameters are the kit's.
pub struct Setup {
    pub me: ValidatorIndex,
    pub seed: u64,
    pub records: Vec<(Ticket, Bytes)>,
    pub resume: Resume,
    pub now: TimestampMs,
    /// Signs falsely: a Byzantine double.
    pub forgery: Option<Forgery>,
}

/// What a validator with its own key can do to its own proposals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgery {
    /// References that do not exist, are doubled, or are too few.
    Parents,
    /// A share, of a coin or of a certificate, that is noise.
    Share,
}
