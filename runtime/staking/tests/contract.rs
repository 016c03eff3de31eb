//! Calls of the contract: what they change, and what they refuse.
#![allow(clippy::unwrap_used)] // also in helpers

mod support;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::{SolCall, SolEvent};
use corniche_staking::{
    ValidatorId,
    contract::{Call, extra_gas},
    interface::{Staking::*, SubmittedKeys},
    record::{FreezeNumber, Queue, Validator},
};
use corniche_types::{STAKING_ADDRESS, StakingParameters};
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use support::{CHAIN_ID, Chain, Secrets, account, committee_hash, short_epochs, votes};

const NOTHING: U256 = U256::ZERO;

fn chain() -> Chain {
    Chain::new(short_epochs(), &[1, 1, 1, 1])
}

#[test]
fn a_validator_joins_and_leaves() {
    let mut chain = chain();
    let owner = account(9);
    let id = chain.send(owner, votes(2), &Secrets::new(9).register(owner)).unwrap();
    assert_eq!(id, 4);
    chain.send(owner, votes(1), &addCall { id }).unwrap();
    let started = chain.next_epoch();
    assert_eq!(started.committee.members.len(), 5);
    let found = chain.read(&idOfCall { keyHash: Secrets::new(9).keys.hashes()[1] });
    assert_eq!((found.found, found.id), (true, id));

    chain.send(owner, NOTHING, &unbondCall { id, amount: votes(3) }).unwrap();
    let validator = chain.read(&validatorCall { id });
    assert_eq!((validator.bonded, validator.queued), (NOTHING, votes(3)));
    // It sits in epoch 1, and is out from epoch 2 on. U epochs later is epoch 5.
    for _ in 0..3 {
        chain.next_epoch();
        chain.refuse(owner, NOTHING, &withdrawCall { id }, &NothingFree {});
    }
    chain.next_epoch();
    assert_eq!(chain.read(&freeCall { id }), votes(3));
    let slots = chain.memory.slots.len();
    let input = withdrawCall { id }.abi_encode();
    let output = chain.run(&Call { sender: owner, value: NOTHING, input: &input, is_static: false }).unwrap();
    assert_eq!(output.pay, Some((owner, votes(3))));
    chain.check_balance();

    // The record is deleted, and its keys stay used.
    assert!(chain.memory.slots.len() < slots - 10);
    assert_eq!(chain.registered(), (0..4).map(ValidatorId).collect::<Vec<_>>());
    chain.refuse(owner, NOTHING, &withdrawCall { id }, &Unknown { id });
    let used = KeyUsed { keyHash: Secrets::new(9).keys.hashes()[0] };
    chain.refuse(owner, votes(1), &Secrets::new(9).register(owner), &used);
    assert_eq!(chain.send(owner, votes(1), &Secrets::new(10).register(owner)), Ok(5), "numbers are not used again");
    let topics: Vec<B256> = chain.logs.iter().map(|log| log.topics()[0]).collect();
    let expected = [
        Registered::SIGNATURE_HASH,
        Added::SIGNATURE_HASH,
        UnbondStarted::SIGNATURE_HASH,
        Withdrawn::SIGNATURE_HASH,
        Registered::SIGNATURE_HASH,
    ];
    assert_eq!(topics, expected);
}

#[test]
fn registrations_are_checked() {
    let mut chain = chain();
    let owner = account(9);
    let good = Secrets::new(9).register(owner);
    chain.refuse(owner, votes(1) - U256::ONE, &good, &TooLittle { limit: votes(1) });
    let contract = account(100);
    chain.memory.contracts.insert(contract);
    for fee in [contract, STAKING_ADDRESS] {
        chain.refuse(owner, votes(1), &registerCall { fee, ..good.clone() }, &FeeHasCode { fee });
    }

    let short = Bytes::from_static(&[1; 32]);
    let with = |change: &dyn Fn(&mut SubmittedKeys)| {
        let mut call = good.clone();
        change(&mut call.keys);
        call
    };
    let bad_keys = [
        // The identity of ed25519 has small order.
        (with(&|keys| keys.consensus = B256::with_last_byte(1)), 0),
        (with(&|keys| keys.bls = short.clone()), 1),
        (with(&|keys| keys.bls = vec![0xc0; 96].into()), 1),
        (with(&|keys| keys.network = B256::ZERO), 2),
        (with(&|keys| keys.coin = vec![1; 48].into()), 3),
        (with(&|keys| keys.coin = short.clone()), 3),
    ];
    for (call, column) in bad_keys {
        chain.refuse(owner, votes(1), &call, &BadKey { column });
    }
    let other = Secrets::new(10).sign(owner);
    let bad_proofs = [
        (with(&|keys| keys.consensusProof = short.clone()), 0),
        (with(&|keys| keys.consensusProof = keys.networkProof.clone()), 0),
        // Another coin key than was signed.
        (with(&|keys| keys.coin = other.coin.clone()), 0),
        (with(&|keys| keys.blsProof = other.blsProof.clone()), 1),
        (with(&|keys| keys.blsProof = short.clone()), 1),
        (with(&|keys| keys.networkProof = short.clone()), 2),
        (with(&|keys| keys.networkProof = keys.consensusProof.clone()), 2),
    ];
    for (call, column) in bad_proofs {
        chain.refuse(owner, votes(1), &call, &BadProof { column });
    }
    // A key serves one purpose and one validator.
    let genesis = Secrets::new(0).keys;
    let twice = with(&|keys| keys.network = keys.consensus);
    chain.refuse(owner, votes(1), &twice, &KeyUsed { keyHash: Secrets::new(9).keys.hashes()[0] });
    let taken = with(&|keys| keys.network = genesis.consensus);
    chain.refuse(owner, votes(1), &taken, &KeyUsed { keyHash: genesis.hashes()[0] });
    assert_eq!(chain.send(owner, votes(1), &good), Ok(4));
    chain.check_balance();
}

/// A stranger sees a registration before it is in a block, and registers keys of it first.
#[test]
fn copied_keys_are_refused() {
    let mut chain = chain();
    let (owner, stranger) = (account(9), account(8));
    let pending = Secrets::new(9).register(owner);
    let refuse = |chain: &mut Chain, keys: SubmittedKeys, column: u8| {
        let call = registerCall { keys, fee: stranger, operator: stranger };
        chain.refuse(stranger, votes(1), &call, &BadProof { column });
    };
    refuse(&mut chain, pending.keys.clone(), 0);
    // The other keys are its own, and all of them sign for it. So only the copied proof is wrong.
    let copied = pending.keys.clone();
    let own = |numbers: [u64; 4]| Secrets::mixed(numbers).sign(stranger);
    refuse(&mut chain, SubmittedKeys { consensusProof: copied.consensusProof, ..own([9, 8, 8, 8]) }, 0);
    refuse(&mut chain, SubmittedKeys { blsProof: copied.blsProof, ..own([8, 9, 8, 8]) }, 1);
    refuse(&mut chain, SubmittedKeys { networkProof: copied.networkProof, ..own([8, 8, 9, 8]) }, 2);
    assert_eq!(chain.send(owner, votes(1), &pending), Ok(4));
}

/// Proofs that keys have signed elsewhere: for another chain, and for a genesis.
#[test]
fn proofs_hold_for_one_chain() {
    let mut chain = chain();
    let owner = account(9);
    let secrets = Secrets::new(9);
    let (good, other) = (secrets.sign(owner), secrets.sign_for(owner, CHAIN_ID + 1));
    let genesis_proof = secrets.bls.prove_possession().to_bytes().into();
    let bad = [
        (SubmittedKeys { consensusProof: other.consensusProof, ..good.clone() }, 0),
        (SubmittedKeys { blsProof: other.blsProof, ..good.clone() }, 1),
        (SubmittedKeys { blsProof: genesis_proof, ..good.clone() }, 1),
        (SubmittedKeys { networkProof: other.networkProof, ..good }, 2),
    ];
    for (keys, column) in bad {
        chain.refuse(owner, votes(1), &registerCall { keys, fee: owner, operator: owner }, &BadProof { column });
    }
}

/// A coin key is not unique, and `idOf` does not find it.
#[test]
fn coin_keys_may_be_equal() {
    let mut chain = chain();
    let owner = account(9);
    let secrets = Secrets::mixed([9, 9, 9, 0]);
    assert_eq!(secrets.keys.coin, Secrets::new(0).keys.coin);
    assert_eq!(chain.send(owner, votes(1), &secrets.register(owner)), Ok(4));
    assert!(!chain.read(&idOfCall { keyHash: keccak256(secrets.keys.coin) }).found);
    for hash in secrets.keys.hashes() {
        assert_eq!(chain.read(&idOfCall { keyHash: hash }).id, 4);
    }
}

#[test]
fn keys_rotate() {
    let mut chain = chain();
    let (owner, operator) = (account(0), account(50));
    chain.send(owner, NOTHING, &setOperatorCall { id: 0, operator }).unwrap();
    chain.refuse(account(1), NOTHING, &Secrets::new(20).rotate(0, owner), &NotOperator {});
    // The proof is for the owner, also if the operator sends it.
    chain.refuse(operator, NOTHING, &Secrets::new(20).rotate(0, operator), &BadProof { column: 0 });
    chain.send(operator, NOTHING, &Secrets::new(20).rotate(0, owner)).unwrap();
    chain.refuse(operator, NOTHING, &Secrets::new(21).rotate(0, owner), &OncePerEpoch {});
    let started = chain.next_epoch();
    assert_eq!(started.committee.members[0].keys, Secrets::new(20).keys);
    // Keys may stay as they are, but old ones do not come back.
    chain.send(owner, NOTHING, &Secrets::new(20).rotate(0, owner)).unwrap();
    chain.next_epoch();
    let used = KeyUsed { keyHash: Secrets::new(0).keys.hashes()[0] };
    chain.refuse(owner, NOTHING, &Secrets::new(0).rotate(0, owner), &used);
    let old = chain.read(&idOfCall { keyHash: Secrets::new(0).keys.hashes()[0] });
    assert_eq!((old.found, old.id), (true, 0));
}

/// An operator sets keys of its own. The owner replaces both in time for the freeze.
#[test]
fn owner_has_the_last_word_on_keys() {
    let mut chain = chain();
    let (owner, operator) = (account(0), account(50));
    chain.send(owner, NOTHING, &setOperatorCall { id: 0, operator }).unwrap();
    chain.send(operator, NOTHING, &Secrets::new(20).rotate(0, owner)).unwrap();
    chain.send(owner, NOTHING, &Secrets::new(21).rotate(0, owner)).unwrap();
    chain.refuse(operator, NOTHING, &Secrets::new(22).rotate(0, owner), &OncePerEpoch {});
    chain.send(owner, NOTHING, &setOperatorCall { id: 0, operator: owner }).unwrap();
    assert_eq!(chain.next_epoch().committee.members[0].keys, Secrets::new(21).keys);
    chain.refuse(operator, NOTHING, &Secrets::new(22).rotate(0, owner), &NotOperator {});
}

#[test]
fn ownership_is_accepted() {
    let mut chain = chain();
    let (from, to) = (account(0), account(50));
    chain.refuse(to, NOTHING, &acceptOwnershipCall { id: 0 }, &NotOwner {});
    chain.refuse(to, NOTHING, &transferOwnershipCall { id: 0, to }, &NotOwner {});
    chain.send(from, NOTHING, &transferOwnershipCall { id: 0, to }).unwrap();
    chain.refuse(account(51), NOTHING, &acceptOwnershipCall { id: 0 }, &NotOwner {});
    chain.send(from, votes(1), &addCall { id: 0 }).unwrap();
    chain.send(to, NOTHING, &acceptOwnershipCall { id: 0 }).unwrap();
    chain.refuse(from, votes(1), &addCall { id: 0 }, &NotOwner {});
    // The operator changes too, and the recipient of fees stays.
    let validator = chain.read(&validatorCall { id: 0 });
    assert_eq!((validator.owner, validator.operator, validator.fee), (to, to, from));
    chain.refuse(to, NOTHING, &acceptOwnershipCall { id: 0 }, &NotOwner {});
    let event = OwnershipTransferred::decode_log_data(chain.logs.last().unwrap()).unwrap();
    assert_eq!((event.id, event.from, event.to), (0, from, to));
}

#[test]
fn settings_have_bounds() {
    let mut chain = chain();
    let owner = account(0);
    let endpoints = Bytes::from_static(b"/ip4/192.0.2.1/tcp/4001\n/ip4/192.0.2.1/udp/4001/quic-v1");
    chain.send(owner, NOTHING, &setEndpointsCall { id: 0, endpoints: endpoints.clone() }).unwrap();
    assert_eq!(chain.read(&validatorCall { id: 0 }).endpoints, endpoints);
    for endpoints in [Bytes::from(vec![b'/'; 257]), Bytes::from_static(b"/a\n/b\n/c\n/d\n/e")] {
        chain.refuse(owner, NOTHING, &setEndpointsCall { id: 0, endpoints }, &BadEndpoints {});
    }
    chain.refuse(account(1), NOTHING, &setEndpointsCall { id: 0, endpoints }, &NotOperator {});
    chain.refuse(account(1), NOTHING, &setFeeCall { id: 0, fee: account(1) }, &NotOwner {});
    chain.send(owner, NOTHING, &setFeeCall { id: 0, fee: account(70) }).unwrap();
    assert_eq!(chain.next_epoch().committee.members[0].fee, account(70));

    chain.refuse(owner, NOTHING, &addCall { id: 0 }, &TooLittle { limit: U256::ONE });
    chain.refuse(owner, NOTHING, &unbondCall { id: 0, amount: NOTHING }, &TooLittle { limit: U256::ONE });
    chain.refuse(owner, NOTHING, &unbondCall { id: 0, amount: U256::MAX }, &TooMuch { limit: votes(1) });
    chain.refuse(owner, NOTHING, &unbondCall { id: 9, amount: U256::ONE }, &Unknown { id: 9 });
    let reason = "the bytes are no evidence".into();
    chain.refuse(owner, NOTHING, &reportCall { evidence: Bytes::new() }, &NoEvidence { reason });
}

#[test]
fn queue_has_an_entry_per_freeze() {
    let mut chain = Chain::new(StakingParameters { unbonding_epochs: 60, ..short_epochs() }, &[2, 2, 2, 2]);
    let unbond = unbondCall { id: 0, amount: U256::ONE };
    for _ in 0..16 {
        chain.send(account(0), NOTHING, &unbond).unwrap();
        chain.send(account(0), NOTHING, &unbond).unwrap();
        chain.next_epoch();
    }
    // The queue is full: stake joins the newest entry, which waits for the later freeze.
    chain.send(account(0), NOTHING, &unbond).unwrap();
    let queue = Queue::load(&mut chain.memory, ValidatorId(0)).unwrap().entries(&mut chain.memory).unwrap();
    assert_eq!(queue.len(), 16);
    assert_eq!((queue[14].amount, queue[14].first_freeze_without), (U256::from(2), FreezeNumber(15)));
    assert_eq!((queue[15].amount, queue[15].first_freeze_without), (U256::from(3), FreezeNumber(17)));
    assert_eq!(chain.read(&validatorCall { id: 0 }).queued, U256::from(33));
    chain.check_balance();
}

/// Stake below the price of a vote would occupy a place for almost nothing.
#[test]
fn bonded_stake_is_nothing_or_a_vote() {
    let mut chain = Chain::new(short_epochs(), &[2, 2, 2, 2]);
    let owner = account(0);
    let too_little = TooLittle { limit: votes(1) };
    chain.refuse(owner, NOTHING, &unbondCall { id: 0, amount: votes(1) + U256::ONE }, &too_little);
    chain.send(owner, NOTHING, &unbondCall { id: 0, amount: votes(1) }).unwrap();
    chain.refuse(owner, NOTHING, &unbondCall { id: 0, amount: U256::ONE }, &too_little);
    chain.send(owner, NOTHING, &unbondCall { id: 0, amount: votes(1) }).unwrap();
    chain.refuse(owner, votes(1) - U256::ONE, &addCall { id: 0 }, &too_little);
    chain.send(owner, votes(1), &addCall { id: 0 }).unwrap();
    chain.check_balance();
}

/// Slashing takes all stake of validator 0, in the queue or not.
#[test]
fn slashed_records_free_their_places() {
    let mut chain = Chain::new(short_epochs(), &[2, 2, 2, 2]);
    let (owner, stranger) = (account(0), account(50));
    let withdraw = withdrawCall { id: 0 };
    let amount = votes(1) - U256::ONE;
    chain.send(owner, NOTHING, &unbondCall { id: 0, amount }).unwrap();
    slash_entry(&mut chain, amount);
    chain.refuse(stranger, NOTHING, &withdraw, &NotOwner {});
    for _ in 0..4 {
        chain.next_epoch();
    }
    // An entry of nothing is removed, although the validator still has stake.
    chain.refuse(stranger, NOTHING, &withdraw, &NotOwner {});
    assert_eq!(withdraw_as(&mut chain, owner), (NOTHING, None));
    assert!(Queue::load(&mut chain.memory, ValidatorId(0)).unwrap().is_empty());
    chain.refuse(owner, NOTHING, &withdraw, &NothingFree {});
    chain.refuse(stranger, NOTHING, &withdraw, &NotOwner {});

    Validator::new(ValidatorId(0)).set_bonded(&mut chain.memory, NOTHING).unwrap();
    assert_eq!(withdraw_as(&mut chain, stranger), (NOTHING, None));
    assert_eq!(chain.registered(), [1, 2, 3].map(ValidatorId));
}

/// Sets the entry of this amount to nothing. No other slot has the number.
fn slash_entry(chain: &mut Chain, amount: U256) {
    let slots = chain.memory.slots.len();
    chain.memory.slots.retain(|_, value| *value != B256::from(amount));
    assert_eq!(chain.memory.slots.len(), slots - 1);
}

fn withdraw_as(chain: &mut Chain, sender: Address) -> (U256, Option<(Address, U256)>) {
    let input = withdrawCall { id: 0 }.abi_encode();
    let output = chain.run(&Call { sender, value: NOTHING, input: &input, is_static: false }).unwrap();
    (withdrawCall::abi_decode_returns(&output.data).unwrap(), output.pay)
}

/// Input beyond the limit is not decoded.
#[test]
fn long_input_is_refused() {
    let mut chain = chain();
    let mut read = |length: usize| {
        let mut input = epochCall {}.abi_encode();
        input.resize(length, 0);
        chain.run(&Call { sender: account(0), value: NOTHING, input: &input, is_static: true })
    };
    assert!(read(2_048).is_ok());
    assert_eq!(read(2_049), Err(Bytes::new()));
}

/// Inputs that a decoder may treat in one way or another: all nodes must agree on them.
#[test]
fn decoding_is_frozen() {
    let mut chain = chain();
    let mut accepts = |input: &[u8]| match chain.run(&Call { sender: account(0), value: NOTHING, input, is_static: false }) {
        Ok(_) => true,
        Err(data) => {
            assert_eq!(data, Bytes::new());
            false
        }
    };
    let with = |input: &[u8], at: usize, byte: u8| {
        let mut input = input.to_vec();
        input[at] = byte;
        input
    };
    let words = setFeeCall { id: 0, fee: account(70) }.abi_encode();
    assert!(accepts(&words));
    let unknown = with(&words, 0, !words[0]);
    assert!(!accepts(&unknown));
    // Bytes after the arguments are ignored up to the limit.
    assert!(accepts(&[&words[..], &[1]].concat()));
    assert!(accepts(&[&words[..], &[1; 32]].concat()));
    assert!(!accepts(&[&words[..], &[1; 2_048]].concat()));
    // Short input.
    assert!(!accepts(&words[..words.len() - 1]));
    assert!(!accepts(&words[..4]));
    // Padding of a uint32, with 28 bytes, and of an address, with 12.
    for at in [4, 31, 36, 47] {
        assert_eq!(words[at], 0);
        assert!(!accepts(&with(&words, at, 1)), "byte {at}");
    }
    assert!(accepts(&with(&words, 48, 1)), "first byte of the address");

    // Selector, id, offset of the bytes, their length, and 2 bytes with 30 of padding.
    let bytes = setEndpointsCall { id: 0, endpoints: Bytes::from_static(b"/a") }.abi_encode();
    assert_eq!((bytes.len(), bytes[67], bytes[99]), (132, 0x40, 2));
    assert!(accepts(&bytes));
    // Offsets: after a gap, and back to the first argument, but only to words within the input.
    assert!(accepts(&with(&[&bytes[..68], &[0; 32], &bytes[68..]].concat(), 67, 0x60)));
    assert!(accepts(&with(&bytes, 67, 0)));
    assert!(!accepts(&with(&[&bytes[..], &[0; 32]].concat(), 67, 0x41)));
    assert!(!accepts(&with(&bytes, 67, 0xa0)));
    assert!(!accepts(&with(&bytes, 36, 0xff)));
    // Length and padding of bytes.
    assert!(accepts(&with(&bytes, 131, 1)));
    assert!(accepts(&bytes[..102]));
    assert!(!accepts(&bytes[..101]));
    assert!(!accepts(&with(&bytes, 99, 33)));

    // Selector, id and offset of the keys. These are seven words, the second one an offset from the first, and the bytes.
    let keys = Secrets::new(20).rotate(0, account(0)).abi_encode();
    assert_eq!((keys.len(), keys[67], keys[131]), (804, 0x40, 0xe0));
    assert!(accepts(&keys));
    assert!(accepts(&with(&[&keys[..68], &[0; 32], &keys[68..]].concat(), 67, 0x60)));
    assert!(!accepts(&with(&keys, 66, 3)));
    assert!(!accepts(&with(&keys, 130, 3)));
    assert!(!accepts(&with(&keys, 131, 0xe1)));
    assert!(!accepts(&keys[..keys.len() - 33]));
}

#[test]
fn a_thousand_validators_are_enough() {
    use corniche_staking::record::Registry;
    let mut chain = chain();
    while Registry::load(&mut chain.memory).unwrap().insert(&mut chain.memory).unwrap().is_some() {}
    chain.refuse(account(9), votes(1), &Secrets::new(9).register(account(9)), &Full {});
}

#[test]
fn static_calls_and_fixed_chains_do_not_write() {
    let refused = |chain: &mut Chain, input: &[u8], value: U256, is_static: bool| {
        chain.run(&Call { sender: account(0), value, input, is_static }).unwrap_err()
    };
    let mut chain = chain();
    let unbond = unbondCall { id: 0, amount: U256::ONE }.abi_encode();
    let view = epochCall {}.abi_encode();
    assert_eq!(refused(&mut chain, &unbond, NOTHING, true), Bytes::new());
    // Value for a function that takes none, and inputs that are no calls.
    assert_eq!(refused(&mut chain, &unbond, U256::ONE, false), Bytes::new());
    assert_eq!(refused(&mut chain, &view, U256::ONE, false), Bytes::new());
    assert_eq!(refused(&mut chain, &[], U256::ONE, false), Bytes::new());
    assert_eq!(refused(&mut chain, &unbond[..40], NOTHING, false), Bytes::new());
    assert_eq!(refused(&mut chain, &[0xff; 200], NOTHING, false), Bytes::new());

    let mut fixed = Chain::new(StakingParameters { epoch_ms: 0, ..StakingParameters::default() }, &[1]);
    fixed.refuse(account(0), NOTHING, &unbondCall { id: 0, amount: U256::ONE }, &EpochsNeverEnd {});
    fixed.refuse(account(9), votes(1), &Secrets::new(9).register(account(9)), &EpochsNeverEnd {});
    assert_eq!(fixed.read(&epochCall {}).end, 0);
    assert_eq!(fixed.read(&validatorCall { id: 0 }).owner, account(0));
}

#[test]
fn views_describe_the_chain() {
    let mut chain = chain();
    chain.send(account(0), votes(9), &addCall { id: 0 }).unwrap();
    chain.next_epoch();
    let epoch = chain.read(&epochCall {});
    assert_eq!((epoch.epoch, epoch.start, epoch.end, epoch.startHeight), (1, 1_001_000, 1_002_000, 10));
    assert_eq!((epoch.frozenIn, epoch.phase), (1, 0));
    let committee = chain.read(&committeeCall { epoch: 1 });
    assert_eq!((committee.hash, committee.unit), (committee_hash(corniche_types::Epoch(1)), votes(1)));
    assert_eq!(committee.seats.iter().map(|seat| seat.votes).collect::<Vec<_>>(), [1, 1, 1, 1], "nobody is above F");
    assert_eq!(committee.seats[2].signingHash, Secrets::new(2).keys.signing_hash());
    assert_eq!(chain.read(&committeeCall { epoch: 2 }).hash, B256::ZERO);
    assert_eq!(chain.read(&minimumStakeCall {}), votes(1));
    let parameters = chain.read(&parametersCall {});
    assert_eq!((parameters.epochMs, parameters.unbondingEpochs, parameters.mostVotes), (1_000, 3, 16));
    assert!(!chain.read(&idOfCall { keyHash: B256::ZERO }).found);
}

/// Arguments of random words: mostly small numbers, so that offsets and lengths are plausible.
#[test]
fn no_input_panics() {
    let mut random = SplitMix64::seed_from_u64(1);
    let mut chain = chain();
    let (mut accepted, mut refused) = (0, 0);
    for selector in StakingCalls::SELECTORS.iter().cycle().take(20_000) {
        let mut input = selector.to_vec();
        for _ in 0..random.next_u64() % 20 {
            let number = random.next_u64() >> (random.next_u64() % 64);
            input.extend(B256::from(U256::from(number)));
        }
        let is_static = random.next_u64().is_multiple_of(2);
        match chain.run(&Call { sender: account(0), value: NOTHING, input: &input, is_static }) {
            Ok(_) => accepted += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(accepted > 1_000 && refused > 1_000, "{accepted} accepted, {refused} refused");
    chain.check_balance();
}

#[test]
fn gas_depends_on_the_function_alone() {
    let owner = Address::ZERO;
    let register = Secrets::new(0).register(owner).abi_encode();
    assert_eq!((register.len(), extra_gas(&register)), (836, 400_000));
    assert_eq!(extra_gas(&rotateCall::SELECTOR), 400_000);
    assert_eq!(extra_gas(&reportCall::SELECTOR), 300_000);
    assert_eq!(extra_gas(&withdrawCall { id: 0 }.abi_encode()), 5_000);
    assert_eq!(extra_gas(&epochCall {}.abi_encode()), 2_000);
    assert_eq!(extra_gas(&[]), 2_000);
}
