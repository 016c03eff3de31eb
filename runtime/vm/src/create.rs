//! Creation of contracts, by transactions and by contracts.
//!
//! Ethereum runs init code, which returns the code to store. Here the creation data *contains* the code (design,
//! section 5). It is decoded, validated and stored. If constructor arguments follow, the constructor runs as a call of
//! the new contract. Gas is charged in this order: decoding and validation, in any case; then the deposit for the
//! stored bytes; the constructor runs with the rest. A constructor that does not return reverts the creation.

use crate::{
    frame::{Frame, Message, World},
    host::{CallKind, CreateRequest, CreateReturn, HostError, Limits},
    outcome::{ExecutionStatus, Fault, FrameOutcome},
    price,
    trace::{FrameKind, FrameStatus, TraceFrame},
};
use alloy_primitives::{Address, Bytes, U256};
use corniche_types::intrinsic::{INIT_CODE_WORD_GAS, MAX_INIT_CODE_BYTES};

/// A creation to run. The creator's nonce has been increased, and its balance covers the value.
pub(crate) struct Creation<'d> {
    /// For traces.
    pub kind: FrameKind,
    pub creator: Address,
    pub address: Address,
    pub value: U256,
    pub data: &'d Bytes,
    pub gas: u64,
    pub depth: u32,
    pub limits: Limits,
}

impl World<'_> {
    /// Runs a creation. On failure everything is reverted, except that the address stays warm (EIP-2929).
    pub fn create(&mut self, creation: Creation<'_>) -> FrameOutcome {
        self.enter(|| creation.to_trace());
        let address = creation.address;
        let ended = self.create_untraced(creation);
        if self.trace.is_some() {
            // A creation's trace shows the code as output.
            let hash = self.journal.account(&address).code_hash;
            let code = if ended.end == ExecutionStatus::Success { self.journal.code(&hash) } else { None };
            self.leave(|| FrameStatus::from(&ended), &code.unwrap_or_else(|| ended.output.clone()), ended.gas_left);
        }
        ended
    }

    fn create_untraced(&mut self, creation: Creation<'_>) -> FrameOutcome {
        self.journal.warm_account(&creation.address);
        let existing = self.journal.account(&creation.address);
        if existing.nonce != 0 || existing.has_code() {
            return FrameOutcome::failed(ExecutionStatus::Collision, 0);
        }
        let checkpoint = self.journal.checkpoint();
        let ended = self.create_unguarded(creation);
        if ended.end != ExecutionStatus::Success {
            self.journal.revert(checkpoint);
        }
        ended
    }

    fn create_unguarded(&mut self, creation: Creation<'_>) -> FrameOutcome {
        let prepared = self.machine.prepare(creation.data, creation.gas, self.block.rules.gas_version);
        let Some(gas) = creation.gas.checked_sub(prepared.gas) else {
            return FrameOutcome::failed(ExecutionStatus::OutOfGas, 0);
        };
        let deployment = match prepared.contract {
            Ok(deployment) => deployment,
            Err(end) => return FrameOutcome::failed(end, gas),
        };
        let Some(gas) = gas.checked_sub(price::CODE_DEPOSIT_BYTE * deployment.code.len() as u64) else {
            return FrameOutcome::failed(ExecutionStatus::OutOfGas, 0);
        };
        let address = creation.address;
        // A new contract starts at nonce 1 (EIP-161).
        let first = self.journal.bump_nonce(&address);
        debug_assert!(first, "the nonce of a fresh account is 0");
        self.journal.set_code(&address, deployment.code_hash, deployment.code, deployment.abi_version, deployment.gas_version);
        let Some(input) = deployment.constructor_input else {
            return match self.transfer(&creation.creator, &address, creation.value) {
                true => FrameOutcome::success(gas),
                false => {
                    FrameOutcome::failed(ExecutionStatus::Fault(Fault("the value of a creation was not checked".into())), 0)
                }
            };
        };
        // In a trace the constructor belongs to the creation's frame. A revert of it reverts the creation.
        self.call_unguarded(Message {
            kind: CallKind::Call,
            code_of: address,
            address,
            caller: creation.creator,
            value: creation.value,
            input,
            gas,
            is_static: false,
            depth: creation.depth,
            limits: creation.limits,
        })
    }
}

impl Creation<'_> {
    fn to_trace(&self) -> TraceFrame {
        TraceFrame::beginning(self.kind, self.creator, self.address, self.value, self.gas, self.data)
    }
}

impl Frame<'_, '_> {
    /// CREATE and CREATE2 of a frame that is not static.
    pub(crate) fn create_contract(&mut self, request: CreateRequest) -> Result<CreateReturn, HostError> {
        if request.code.len() > MAX_INIT_CODE_BYTES {
            return Err(HostError::OutOfGas);
        }
        let words = request.code.len().div_ceil(32) as u64;
        let hashing = if request.salt.is_some() { price::KECCAK_WORD * words } else { 0 };
        let base = price::CREATE + INIT_CODE_WORD_GAS * words + hashing;
        let Some(rest) = request.gas_left.checked_sub(base) else {
            return Err(HostError::OutOfGas);
        };
        let nothing = |gas| Ok(CreateReturn { address: None, output: Bytes::new(), gas });
        let creator = self.context.address;
        let refused = self.check_call(request.value);
        let nonce = self.world.journal.account(&creator).nonce;
        let (kind, address) = match request.salt {
            None => (FrameKind::Create, creator.create(nonce)),
            Some(salt) => (FrameKind::Create2, creator.create2_from_code(salt, &request.code)),
        };
        let given = price::all_but_one_64th(rest);
        let creation = Creation {
            kind,
            creator,
            address,
            value: request.value,
            data: &request.code,
            gas: given,
            depth: self.context.depth + 1,
            limits: request.limits,
        };
        if let Some(why) = refused {
            self.world.record_failed_call(|| creation.to_trace(), why, given);
            return nothing(base);
        }
        if !self.world.journal.bump_nonce(&creator) {
            return nothing(base);
        }
        let ended = self.world.create(creation);
        let gas = base + given - ended.gas_left;
        match ended.end {
            ExecutionStatus::Success => Ok(CreateReturn { address: Some(address), output: Bytes::new(), gas }),
            ExecutionStatus::Revert => Ok(CreateReturn { address: None, output: ended.output, gas }),
            ExecutionStatus::Fault(Fault(text)) => Err(HostError::Fault(text)),
            _ => nothing(gas),
        }
    }
}
