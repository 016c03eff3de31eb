//! The virtual machine as the rest of the node holds it.

use crate::machine::Machine;
use std::sync::Arc;

/// Runs transactions and calls. A clone is another handle to the same engine and cache.
#[derive(Clone)]
pub struct Vm {
    machine: Arc<dyn Machine>,
}

impl Vm {
    pub(crate) fn with_machine(machine: Arc<dyn Machine>) -> Self {
        Self { machine }
    }

    pub(crate) fn machine(&self) -> &dyn Machine {
        &*self.machine
    }
}
