//! The staking contract: native code at [`STAKING_ADDRESS`] on chains whose genesis has staking.
//!
//! A call pays [`extra_gas`](contract::extra_gas), and for each slot what SLOAD and SSTORE cost. Its events are free. The
//! rules are in `corniche_staking`. A payment runs no code of its recipient. Delegate calls revert.

use crate::{
    frame::{Message, World, affordable},
    host::{CallKind, Charged, HostError},
    machine::Machine,
    outcome::{ExecutionStatus, Fault, FrameOutcome},
};
use alloy_primitives::{Address, B256};
use corniche_staking::{
    Slots,
    contract::{self, Call, CallError, Context, Output},
};
use corniche_types::{Log, STAKING_ADDRESS, StakingParameters};

/// Returns the parameters, if the staking contract is at this address.
pub(crate) fn staking_at<'m>(machine: &'m dyn Machine, address: &Address) -> Option<&'m StakingParameters> {
    machine.staking().filter(|_| *address == STAKING_ADDRESS)
}

impl World<'_> {
    /// Handles a call to the staking contract; its value has already been transferred.
    pub fn stake(&mut self, message: &Message, parameters: &StakingParameters) -> FrameOutcome {
        let Some(gas_left) = message.gas.checked_sub(contract::extra_gas(&message.input)) else {
            return FrameOutcome::failed(ExecutionStatus::OutOfGas, 0);
        };
        if message.kind == CallKind::Delegate {
            return FrameOutcome::failed(ExecutionStatus::Revert, gas_left);
        }
        let call = Call { sender: message.caller, value: message.value, input: &message.input, is_static: message.is_static };
        let context = Context { chain_id: self.block.chain_id, parameters };
        let mut slots = ChargedSlots { world: self, gas_left };
        let called = contract::call(&mut slots, &call, &context);
        let gas_left = slots.gas_left;
        match called {
            Ok(output) => self.settle(output, gas_left),
            Err(CallError::Revert(output)) => FrameOutcome { end: ExecutionStatus::Revert, output, gas_left },
            Err(CallError::Slots(HostError::Fault(text))) => FrameOutcome::failed(ExecutionStatus::Fault(Fault(text)), 0),
            Err(CallError::Slots(_)) => FrameOutcome::failed(ExecutionStatus::OutOfGas, 0),
        }
    }

    fn settle(&mut self, output: Output, gas_left: u64) -> FrameOutcome {
        for log in output.logs {
            let (topics, data) = log.split();
            self.log(Log { address: STAKING_ADDRESS, topics, data });
        }
        if !output.burn.is_zero() && !self.journal.debit(&STAKING_ADDRESS, output.burn) {
            return FrameOutcome::failed(ExecutionStatus::Revert, gas_left);
        }
        if let Some((recipient, wei)) = output.pay
            && !self.transfer(&STAKING_ADDRESS, &recipient, wei)
        {
            // Only possible if somebody has set the balance: on a development chain, or for a simulated call.
            return FrameOutcome::failed(ExecutionStatus::Revert, gas_left);
        }
        FrameOutcome { end: ExecutionStatus::Success, output: output.data, gas_left }
    }
}

/// The contract's slots, paid from the gas of a call.
struct ChargedSlots<'w, 'a> {
    world: &'w mut World<'a>,
    gas_left: u64,
}

impl ChargedSlots<'_, '_> {
    fn pay<T>(&mut self, charged: Charged<T>) -> T {
        self.gas_left = self.gas_left.saturating_sub(charged.gas);
        charged.value
    }
}

impl Slots for ChargedSlots<'_, '_> {
    type Error = HostError;

    fn load(&mut self, slot: B256) -> Result<B256, HostError> {
        let charged = self.world.load_slot(&STAKING_ADDRESS, &slot, self.gas_left)?;
        Ok(self.pay(charged))
    }

    fn store(&mut self, slot: B256, value: B256) -> Result<(), HostError> {
        let charged = self.world.store_slot(&STAKING_ADDRESS, &slot, &value, self.gas_left)?;
        self.pay(charged);
        Ok(())
    }

    fn has_code(&mut self, account: Address) -> Result<bool, HostError> {
        let cost = affordable(self.world.access_account(&account), self.gas_left)?;
        let has_code = self.world.journal.account_code(&account).is_contract();
        let charged = self.world.uninterrupted(Charged::new(has_code, cost))?;
        Ok(self.pay(charged))
    }
}
