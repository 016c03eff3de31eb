//! Committees with all their keys: the sitting one, and from the freeze on the next one.

use crate::{
    Keys, Slots, Tag, ValidatorId,
    record::{CoinKeys, CoinRef, FreezeNumber},
    slots::{Area, Values as _, area, narrow},
};
use alloy_primitives::{Address, B256, U256, keccak256};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{Epoch, FaultModel, Genesis, LightMember, ValidatorIndex, Votes, Weights, light_root, wire};
use std::cmp::Ordering;

/// A committee.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Committee {
    /// Price of a vote, in wei.
    pub unit: U256,
    /// Freeze that made it.
    pub frozen_in: FreezeNumber,
    /// Its coin, where the engine has one.
    pub coin: CoinRef,
    /// Members by ascending number.
    pub members: Vec<Member>,
}

/// A member, as it was at the freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Member {
    /// Its number.
    pub id: ValidatorId,
    /// Its keys.
    pub keys: Keys,
    /// Recipient of its fees and rewards.
    pub fee: Address,
    /// Its votes.
    pub votes: Votes,
}

impl Committee {
    /// Reads the committee of an epoch: of the running one, or of the next one after the freeze.
    pub fn load<S: Slots>(slots: &mut S, epoch: Epoch) -> Result<Self, S::Error> {
        let [members, frozen_in, generation, side] = slots.load_four(head(epoch).slot(0))?;
        let unit = slots.load_number(head(epoch).slot(1))?;
        let members = (0..members).map(|index| Member::load(slots, body(epoch, index))).collect::<Result<_, _>>()?;
        Ok(Self { unit, frozen_in: FreezeNumber(frozen_in), coin: CoinRef { generation: Epoch(generation), side }, members })
    }

    /// Reads the coin of the committee of an epoch.
    pub fn coin_of<S: Slots>(slots: &mut S, epoch: Epoch) -> Result<CoinRef, S::Error> {
        let [_, _, generation, side] = slots.load_four(head(epoch).slot(0))?;
        Ok(CoinRef { generation: Epoch(generation), side })
    }

    /// Reads the number of members of the committee of an epoch.
    pub(crate) fn size<S: Slots>(slots: &mut S, epoch: Epoch) -> Result<usize, S::Error> {
        let [members, ..] = slots.load_four(head(epoch).slot(0))?;
        Ok(usize::try_from(members).unwrap_or(usize::MAX))
    }

    /// Reads the votes of the committee of an epoch: a slot for each member.
    pub(crate) fn weights_of<S: Slots>(slots: &mut S, epoch: Epoch) -> Result<Weights, S::Error> {
        let members = Self::votes_by_member(slots, epoch)?;
        Ok(Weights::new(members.into_iter().map(|(_, votes)| votes), FaultModel::Byzantine))
    }

    /// Reads the numbers and votes of the committee of an epoch: a slot for each member.
    pub(crate) fn votes_by_member<S: Slots>(slots: &mut S, epoch: Epoch) -> Result<Vec<(ValidatorId, Votes)>, S::Error> {
        let [members, ..] = slots.load_four(head(epoch).slot(0))?;
        let mut votes = Vec::new();
        for index in 0..members {
            let [id, of_member, ..] = slots.load_four(body(epoch, index).slot(0))?;
            votes.push((ValidatorId(narrow(id)), Votes(narrow(of_member))));
        }
        Ok(votes)
    }

    /// Reads the seat of one validator in the committee of an epoch; `None` if it is no member. A member's index is its position.
    pub fn find<S: Slots>(slots: &mut S, epoch: Epoch, id: ValidatorId) -> Result<Option<(ValidatorIndex, Member)>, S::Error> {
        let [members, ..] = slots.load_four(head(epoch).slot(0))?;
        let (mut low, mut high) = (0, members);
        while low < high {
            let middle = low.midpoint(high);
            let [found, ..] = slots.load_four(body(epoch, middle).slot(0))?;
            match found.cmp(&id.0.into()) {
                Ordering::Less => low = middle.saturating_add(1),
                Ordering::Greater => high = middle,
                Ordering::Equal => {
                    let index = u16::try_from(middle).expect("invariant: a committee has at most 300 members");
                    return Ok(Some((ValidatorIndex(index), Member::load(slots, body(epoch, middle))?)));
                }
            }
        }
        Ok(None)
    }

    /// Writes the committee of an epoch over that of two epochs before.
    pub fn store<S: Slots>(&self, slots: &mut S, epoch: Epoch) -> Result<(), S::Error> {
        for (index, member) in (0u64..).zip(&self.members) {
            member.store(slots, body(epoch, index))?;
        }
        let CoinRef { generation, side } = self.coin;
        slots.store_four(head(epoch).slot(0), [self.members.len() as u64, self.frozen_in.0, generation.0, side])?;
        slots.store_number(head(epoch).slot(1), self.unit)
    }

    /// Returns the hash of what a light client needs of the committee: BLS keys, votes and fault model (E6).
    pub fn light_root(&self, fault_model: FaultModel) -> B256 {
        let members = self.members.iter();
        let members: Vec<_> = members.map(|member| LightMember { bls_key: member.keys.bls.0, votes: member.votes }).collect();
        light_root(fault_model, &members)
    }

    /// Returns the hash that identifies the committee in everything that its members sign in this epoch (E6). `coin` has the keys
    /// of its coin; `None` for the coin of the genesis. The first epoch's hash is [`Genesis::committee_hash`].
    pub fn hash(&self, genesis: &Genesis, epoch: Epoch, protocol_version: u32, coin: Option<&CoinKeys>) -> B256 {
        let chain = (genesis.hash(), genesis.chain_id);
        let coin = match coin {
            Some(keys) => (self.coin.generation, &keys.shares, &keys.combined),
            None => (Epoch(0), &genesis.coin_shares, &genesis.coin_public_key),
        };
        let (members, coin) = (self.members_hash(), keccak256(wire::encode(&coin)));
        let light_root = self.light_root(genesis.fault_model());
        keccak256(wire::encode(&("corniche-committee", chain, epoch, protocol_version, light_root, members, coin)))
    }

    /// Returns the hash of the members, to which dealings of the coin are bound.
    pub(crate) fn members_hash(&self) -> B256 {
        keccak256(wire::encode(&self.members))
    }

    /// Returns whether both committees have the same validators, votes and coin keys at the same indices. Then one can use the
    /// coin of the other.
    pub(crate) fn can_share_coin_of(&self, other: &Self) -> bool {
        let receivers = |committee: &Self| -> Vec<_> {
            committee.members.iter().map(|member| (member.id, member.votes, member.keys.coin)).collect()
        };
        receivers(self) == receivers(other)
    }

    /// Returns the votes of a validator; 0 if it is no member.
    pub fn votes_of(&self, id: ValidatorId) -> Votes {
        let index = self.members.binary_search_by_key(&id, |member| member.id);
        index.ok().and_then(|index| self.members.get(index)).map_or(Votes(0), |member| member.votes)
    }

    /// Returns the votes, and the quorums that they make.
    pub fn weights(&self) -> Weights {
        Weights::new(self.members.iter().map(|member| member.votes), FaultModel::Byzantine)
    }
}

impl Member {
    fn load<S: Slots>(slots: &mut S, from: Area) -> Result<Self, S::Error> {
        let [id, votes, ..] = slots.load_four(from.slot(0))?;
        Ok(Self {
            id: ValidatorId(narrow(id)),
            votes: Votes(narrow(votes)),
            fee: slots.load_address(from.slot(1))?,
            keys: Keys::load(slots, from.after(2))?,
        })
    }

    fn store<S: Slots>(&self, slots: &mut S, to: Area) -> Result<(), S::Error> {
        slots.store_four(to.slot(0), [self.id.0.into(), self.votes.0.into(), 0, 0])?;
        slots.store_address(to.slot(1), self.fee)?;
        self.keys.store(slots, to.after(2))
    }
}

fn head(epoch: Epoch) -> Area {
    area(Tag::Committee, epoch.0 % 2, 0)
}

fn body(epoch: Epoch, index: u64) -> Area {
    area(Tag::Committee, epoch.0 % 2, index.saturating_add(1))
}
