//! Functions that write.
//!
//! Stake moves from bonded to the queue, from the queue to the owner, and out of both when it is burnt. So the contract's balance is
//! never below the sum of both.

use super::{Call, CallError, Context, Output, empty_revert, revert};
use crate::{
    Slots, ValidatorId,
    evidence::{Conviction, NoConviction, convict},
    interface::Staking::{self, StakingCalls},
    record::{
        Header, MAX_ENDPOINT_BYTES, NewValidator, Queue, Role, Status, Unbonding, Validator, delete_validator, reached_freeze,
        set_keys,
    },
};
use alloy_primitives::{Address, Bytes, U256};
use alloy_sol_types::{SolCall, SolEvent};
use corniche_crypto::evidence::Evidence;
use corniche_types::{STAKING_ADDRESS, wire};

/// Maximum number of a validator's endpoints.
const MAX_ENDPOINTS: usize = 4;

type Result<T, S> = std::result::Result<T, CallError<<S as Slots>::Error>>;

/// Runs a function that writes.
pub(super) fn write<S: Slots>(
    slots: &mut S,
    decoded: StakingCalls,
    call: &Call<'_>,
    context: &Context<'_>,
) -> Result<Output, S> {
    let mut writer = Writer { slots, call, context, output: Output::default() };
    match decoded {
        StakingCalls::register(call) => writer.register(call)?,
        StakingCalls::add(call) => writer.add(call.id)?,
        StakingCalls::unbond(call) => writer.unbond(call.id, call.amount)?,
        StakingCalls::withdraw(call) => writer.withdraw(call.id)?,
        StakingCalls::rotate(call) => writer.rotate(call)?,
        StakingCalls::setEndpoints(call) => writer.set_endpoints(call.id, &call.endpoints)?,
        StakingCalls::setFee(call) => writer.set_fee(call.id, call.fee)?,
        StakingCalls::setOperator(call) => writer.set_account(call.id, Role::Operator, call.operator)?,
        StakingCalls::transferOwnership(call) => writer.set_account(call.id, Role::NextOwner, call.to)?,
        StakingCalls::acceptOwnership(call) => writer.accept_ownership(call.id)?,
        StakingCalls::report(call) => writer.report(&call.evidence)?,
        _ => return Err(empty_revert()),
    }
    Ok(writer.output)
}

struct Writer<'a, S> {
    slots: &'a mut S,
    call: &'a Call<'a>,
    context: &'a Context<'a>,
    output: Output,
}

impl<S: Slots> Writer<'_, S> {
    fn register(&mut self, call: Staking::registerCall) -> Result<(), S> {
        let (sender, stake) = (self.call.sender, self.call.value);
        self.require_vote(stake)?;
        let (fee, operator) = (call.fee, call.operator);
        self.check_fee(fee)?;
        let keys = call.keys.check(self.slots, sender, self.context.chain_id, None)?;
        let new = NewValidator { owner: sender, operator, fee, keys, stake };
        let Some(id) = new.register(self.slots)? else { return Err(revert(Staking::Full {})) };
        self.emit(&Staking::Registered { id: id.0, owner: sender, consensusKey: keys.consensus, amount: stake });
        self.output.data = Staking::registerCall::abi_encode_returns(&id.0).into();
        Ok(())
    }

    fn add(&mut self, id: u32) -> Result<(), S> {
        let (validator, _) = self.require_owner(id)?;
        let amount = self.call.value;
        if amount.is_zero() {
            return Err(revert(Staking::TooLittle { limit: U256::ONE }));
        }
        // No chain has that many wei.
        let Some(bonded) = validator.bonded(self.slots)?.checked_add(amount) else { return Err(empty_revert()) };
        self.require_vote(bonded)?;
        validator.set_bonded(self.slots, bonded)?;
        self.emit(&Staking::Added { id, amount });
        Ok(())
    }

    fn unbond(&mut self, id: u32, amount: U256) -> Result<(), S> {
        let (validator, _) = self.require_owner(id)?;
        let bonded = validator.bonded(self.slots)?;
        if amount.is_zero() {
            return Err(revert(Staking::TooLittle { limit: U256::ONE }));
        }
        let Some(rest) = bonded.checked_sub(amount) else { return Err(revert(Staking::TooMuch { limit: bonded })) };
        if !rest.is_zero() {
            self.require_vote(rest)?;
        }
        let first_freeze_without = Header::load(self.slots)?.first_freeze_without();
        Queue::load(self.slots, ValidatorId(id))?.push(self.slots, Unbonding { amount, first_freeze_without })?;
        validator.set_bonded(self.slots, rest)?;
        self.emit(&Staking::UnbondStarted { id, amount });
        Ok(())
    }

    fn withdraw(&mut self, id: u32) -> Result<(), S> {
        let has_bonded = !Validator::new(ValidatorId(id)).bonded(self.slots)?.is_zero();
        let mut queue = Queue::load(self.slots, ValidatorId(id))?;
        // Anybody may free the place of a validator that was slashed to nothing.
        let (_, status) = if has_bonded || !queue.is_empty() { self.require_owner(id)? } else { self.load(id)? };
        let epoch = Header::load(self.slots)?.epoch;
        let reached = reached_freeze(self.slots, epoch, self.context.parameters)?;
        let (count, amount) = queue.take_free(self.slots, reached)?;
        let is_empty = !has_bonded && queue.is_empty();
        // Entries that were slashed to nothing count, so that they do not lock the record.
        if count == 0 && !is_empty {
            return Err(revert(Staking::NothingFree {}));
        }
        if is_empty {
            delete_validator(self.slots, ValidatorId(id), status)?;
        }
        self.emit(&Staking::Withdrawn { id, amount });
        self.output.pay = (!amount.is_zero()).then_some((self.call.sender, amount));
        self.output.data = Staking::withdrawCall::abi_encode_returns(&amount).into();
        Ok(())
    }

    fn rotate(&mut self, call: Staking::rotateCall) -> Result<(), S> {
        let id = call.id;
        let (validator, status) = self.require_operator(id)?;
        let epoch = Header::load(self.slots)?.epoch;
        let owner = validator.account(self.slots, Role::Owner)?;
        // The owner is liable for the keys, so an operator must not keep it from replacing them before the freeze.
        if status.rotated_in == Some(epoch) && self.call.sender != owner {
            return Err(revert(Staking::OncePerEpoch {}));
        }
        let current = validator.keys(self.slots)?;
        let keys = call.keys.check(self.slots, owner, self.context.chain_id, Some(&current))?;
        set_keys(self.slots, ValidatorId(id), &keys)?;
        validator.set_status(self.slots, Status { rotated_in: Some(epoch), ..status })?;
        self.emit(&Staking::Rotated { id, consensusKey: keys.consensus });
        Ok(())
    }

    fn set_endpoints(&mut self, id: u32, endpoints: &Bytes) -> Result<(), S> {
        let (validator, _) = self.require_operator(id)?;
        let count = endpoints.split(|byte| *byte == b'\n').count();
        if endpoints.len() > MAX_ENDPOINT_BYTES || count > MAX_ENDPOINTS {
            return Err(revert(Staking::BadEndpoints {}));
        }
        validator.set_endpoints(self.slots, endpoints)?;
        self.emit(&Staking::EndpointsChanged { id });
        Ok(())
    }

    fn set_fee(&mut self, id: u32, fee: Address) -> Result<(), S> {
        let (validator, _) = self.require_owner(id)?;
        self.check_fee(fee)?;
        Ok(validator.set_account(self.slots, Role::Fee, fee)?)
    }

    fn set_account(&mut self, id: u32, role: Role, account: Address) -> Result<(), S> {
        let (validator, _) = self.require_owner(id)?;
        Ok(validator.set_account(self.slots, role, account)?)
    }

    fn accept_ownership(&mut self, id: u32) -> Result<(), S> {
        let (validator, _) = self.load(id)?;
        let to = validator.account(self.slots, Role::NextOwner)?;
        if to.is_zero() || to != self.call.sender {
            return Err(revert(Staking::NotOwner {}));
        }
        let from = validator.account(self.slots, Role::Owner)?;
        validator.set_account(self.slots, Role::Owner, to)?;
        validator.set_account(self.slots, Role::Operator, to)?;
        validator.set_account(self.slots, Role::NextOwner, Address::ZERO)?;
        self.emit(&Staking::OwnershipTransferred { id, from, to });
        Ok(())
    }

    fn report(&mut self, evidence: &[u8]) -> Result<(), S> {
        let refuse = |reason: String| Err(revert(Staking::NoEvidence { reason }));
        let Ok(evidence) = wire::decode::<Evidence>(evidence) else { return refuse("the bytes are no evidence".into()) };
        match convict(self.slots, self.context.parameters, self.context.chain_id, &evidence)? {
            Ok(Conviction { id, slashed, burnt }) => {
                let (epoch, kind) = (evidence.epoch.0, evidence.contradiction.kind());
                self.emit(&Staking::Convicted { id: id.0, epoch, kind, slashed });
                self.output.burn = burnt;
                Ok(())
            }
            Err(NoConviction::Already) => Err(revert(Staking::AlreadyConvicted {})),
            Err(refused) => refuse(refused.to_string()),
        }
    }

    fn load(&mut self, id: u32) -> Result<(Validator, Status), S> {
        let validator = Validator::new(ValidatorId(id));
        let Some(status) = validator.status(self.slots)? else { return Err(revert(Staking::Unknown { id })) };
        Ok((validator, status))
    }

    /// Returns a validator that the sender owns.
    fn require_owner(&mut self, id: u32) -> Result<(Validator, Status), S> {
        let loaded = self.load(id)?;
        if loaded.0.account(self.slots, Role::Owner)? != self.call.sender {
            return Err(revert(Staking::NotOwner {}));
        }
        Ok(loaded)
    }

    /// Returns a validator that the sender owns or operates.
    fn require_operator(&mut self, id: u32) -> Result<(Validator, Status), S> {
        let loaded = self.load(id)?;
        for role in [Role::Owner, Role::Operator] {
            if loaded.0.account(self.slots, role)? == self.call.sender {
                return Ok(loaded);
            }
        }
        Err(revert(Staking::NotOperator {}))
    }

    /// Refuses stake below the lowest price of a vote: it would occupy a place in the registry for almost nothing.
    fn require_vote(&self, stake: U256) -> Result<(), S> {
        let limit = self.context.parameters.vote_wei;
        if stake < limit {
            return Err(revert(Staking::TooLittle { limit }));
        }
        Ok(())
    }

    /// Refuses accounts with code, and the contract itself: its balance is stake only.
    fn check_fee(&mut self, fee: Address) -> Result<(), S> {
        if fee == STAKING_ADDRESS || self.slots.has_code(fee)? {
            return Err(revert(Staking::FeeHasCode { fee }));
        }
        Ok(())
    }

    fn emit(&mut self, event: &impl SolEvent) {
        self.output.logs.push(event.encode_log_data());
    }
}
