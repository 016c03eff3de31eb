//! Native tests on the SDK's host in memory. Tests set the clock, the height and the token's results.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use stylus_sdk::testing::*;

const VOTES: Address = Address::repeat_byte(0xdd);
const TARGET: Address = Address::repeat_byte(0xcc);
const SUPPLY: u64 = 1_000;
const QUORUM: u64 = 300;
const PERIOD: u64 = 100;
const DELAY: u64 = 50;

fn person(number: u8) -> Address {
    Address::with_last_byte(number + 1)
}

fn n(value: u64) -> U256 {
    U256::from(value)
}

fn word(value: u64) -> Result<Vec<u8>, Vec<u8>> {
    Ok(n(value).to_be_bytes_vec())
}

fn create(vm: &TestVM, supply: u64, settings: (u64, u64, u64, u64)) -> (Governor, bool) {
    use alloy_sol_types::SolCall;
    let mut governor = Governor::from(vm);
    sol!(function totalSupply() returns (uint256););
    vm.mock_static_call(VOTES, totalSupplyCall {}.abi_encode(), word(supply));
    let (quorum, minimum, period, delay) = settings;
    let done = governor.constructor(VOTES, n(quorum), n(minimum), period, delay).is_ok();
    (governor, done)
}

/// A governor in block 10 at second 1,000, and a table of votes.
struct Place {
    vm: TestVM,
    governor: Governor,
    height: u64,
    now: u64,
    /// Balances at the end of each past block, and the current ones.
    history: BTreeMap<u64, BTreeMap<u8, u64>>,
    balances: BTreeMap<u8, u64>,
}

impl Place {
    /// Person 0 has all votes.
    fn new() -> Self {
        let vm = TestVM::default();
        let (governor, created) = create(&vm, SUPPLY, (QUORUM, 10, PERIOD, DELAY));
        assert!(created);
        let balances = BTreeMap::from([(0, SUPPLY)]);
        let mut place = Self { vm, governor, height: 0, now: 0, history: BTreeMap::new(), balances };
        place.go_on(10, 1_000);
        place
    }

    fn transfer(&mut self, from: u8, to: u8, value: u64) {
        let had = self.balances.entry(from).or_default();
        let value = value.min(*had);
        *had -= value;
        *self.balances.entry(to).or_default() += value;
    }

    fn had(&self, who: u8, block: u64) -> u64 {
        self.history[&block].get(&who).copied().unwrap_or_default()
    }

    /// Mocks the token's response to this query, and removes all earlier mocks.
    fn answers(&self, who: u8, block: u64) {
        use alloy_sol_types::SolCall;
        sol!(function balanceAt(address account, uint64 block) returns (uint256););
        let asked = balanceAtCall { account: person(who), block }.abi_encode();
        // Any other query gets another result, so the test notices it.
        self.vm.clear_mocks();
        self.vm.mock_static_call(VOTES, asked, word(self.had(who, block)));
    }

    fn go_on(&mut self, blocks: u64, seconds: u64) {
        (0..blocks).for_each(|more| {
            self.history.insert(self.height + more, self.balances.clone());
        });
        self.height += blocks;
        self.now += seconds;
        self.vm.set_block_number(self.height);
        self.vm.set_block_timestamp(self.now);
    }

    fn by(&mut self, who: u8) -> &mut Governor {
        self.vm.set_sender(person(who));
        &mut self.governor
    }

    fn vote(&mut self, who: u8, id: B256, support: u8) -> Result<U256, GovernorError> {
        let (.., snapshot, _) = self.governor.proposal(id);
        self.answers(who, snapshot);
        self.by(who).vote(id, support)
    }

    fn propose(&mut self, who: u8, description: &str) -> Result<B256, GovernorError> {
        self.answers(who, self.height - 1);
        self.by(who).propose(TARGET, n(0), Bytes::new(), description.into())
    }

    fn execute(&mut self, description: &str) -> Result<Bytes, GovernorError> {
        self.by(9).execute(TARGET, n(0), Bytes::new(), keccak256(description))
    }
}

fn refused_in(result: Result<impl Sized, GovernorError>, expected: State) {
    match result {
        Err(GovernorError::WrongState(WrongState { state, .. })) => assert_eq!(state, expected as u8),
        _ => panic!("expected error WrongState({expected:?})"),
    }
}

#[test]
fn proposal_lifecycle() {
    let mut place = Place::new();
    place.transfer(0, 1, 400);
    place.go_on(1, 1);
    let id = place.propose(0, "pay").ok().unwrap();
    refused_in(place.execute("pay"), State::Voting);
    assert_eq!(place.vote(0, id, 1).ok(), Some(n(600)));
    assert_eq!(place.vote(1, id, 0).ok(), Some(n(400)));
    place.go_on(1, PERIOD - 1);
    refused_in(place.execute("pay"), State::Voting);
    place.go_on(1, 1);
    refused_in(place.execute("pay"), State::Waiting);
    refused_in(place.vote(2, id, 1), State::Waiting);
    place.go_on(1, DELAY - 1);
    refused_in(place.execute("pay"), State::Waiting);
    place.go_on(1, 1);
    assert_eq!(place.governor.state(id), State::Ready as u8);
    refused_in(place.execute("pay somebody else"), State::Unknown);
    assert!(place.execute("pay").is_ok());
    refused_in(place.execute("pay"), State::Executed);
    assert!(matches!(place.propose(0, "pay"), Err(GovernorError::AlreadyProposed(_))));
    let (against, in_favour, abstaining, snapshot, ends) = place.governor.proposal(id);
    assert_eq!((against, in_favour, abstaining, snapshot, ends), (n(400), n(600), n(0), 10, 1_001 + PERIOD));
}

#[test]
fn unexecuted_proposal_expires() {
    let mut place = Place::new();
    let id = place.propose(0, "late").ok().unwrap();
    assert!(place.vote(0, id, 1).is_ok());
    place.go_on(1, PERIOD + DELAY + GRACE - 1);
    assert_eq!(place.governor.state(id), State::Ready as u8);
    place.go_on(1, 1);
    refused_in(place.execute("late"), State::Expired);
}

#[test]
fn passing_needs_majority_and_quorum() {
    // Votes against, for and abstaining, and the expected decision.
    for (against, in_favour, abstaining, decides) in [
        (0, 300, 0, true),
        (0, 299, 0, false),
        (0, 1, 299, true),
        (300, 300, 0, false),
        (300, 301, 0, true),
        (301, 299, 400, false),
    ] {
        let mut place = Place::new();
        for (who, value) in [(1, against), (2, in_favour), (3, abstaining)] {
            place.transfer(0, who, value);
        }
        place.go_on(1, 1);
        place.governor.minimum.set(n(0));
        let id = place.propose(4, "decide").ok().unwrap();
        for (who, support, value) in [(1, 0, against), (2, 1, in_favour), (3, 2, abstaining)] {
            assert_eq!(place.vote(who, id, support).is_ok(), value > 0);
        }
        place.go_on(1, PERIOD + DELAY);
        assert_eq!(place.governor.state(id) == State::Ready as u8, decides, "{against} {in_favour} {abstaining}");
    }
}

#[test]
fn rejects_degenerate_settings() {
    let fine = |quorum, minimum, period, delay| create(&TestVM::default(), 10, (quorum, minimum, period, delay)).1;
    assert!(fine(10, 10, 1, 0));
    assert!(!fine(0, 1, 1, 1) && !fine(11, 1, 1, 1) && !fine(1, 11, 1, 1));
    assert!(!fine(1, 1, 0, 1) && !fine(1, 1, 1, u64::MAX) && !fine(1, 1, 1 << 32, 1));
}

#[test]
fn rejects_low_power_and_unknown_vote() {
    let mut place = Place::new();
    place.transfer(0, 1, 9);
    place.go_on(1, 1);
    assert!(matches!(
        place.propose(1, "mine"),
        Err(GovernorError::TooFewVotes(TooFewVotes { votes, needed })) if (votes, needed) == (n(9), n(10))
    ));
    let id = place.propose(0, "ours").ok().unwrap();
    assert!(matches!(place.vote(1, id, 3), Err(GovernorError::BadSupport(_))));
    assert!(matches!(place.vote(5, id, 1), Err(GovernorError::NoVotes(_))));
    assert!(place.vote(0, id, 1).is_ok());
    assert!(matches!(place.vote(0, id, 0), Err(GovernorError::AlreadyVoted(_))));
}

#[derive(Clone, Debug)]
enum Deed {
    Transfer { from: u8, to: u8, value: u64 },
    Propose { who: u8 },
    Vote { who: u8, proposal: usize, support: u8 },
    Execute { proposal: usize },
    GoOn { blocks: u64, seconds: u64 },
}

fn deed() -> impl Strategy<Value = Deed> {
    let (who, proposal) = (0..5_u8, 0..3_usize);
    prop_oneof![
        4 => (who.clone(), who.clone(), 0..600_u64).prop_map(|(from, to, value)| Deed::Transfer { from, to, value }),
        1 => who.clone().prop_map(|who| Deed::Propose { who }),
        4 => (who, proposal.clone(), 0..4_u8).prop_map(|(who, proposal, support)| Deed::Vote { who, proposal, support }),
        2 => proposal.prop_map(|proposal| Deed::Execute { proposal }),
        // Blocks often advance without the clock, and the clock sometimes jumps by the whole grace period.
        3 => (0..3_u64, prop_oneof![Just(0), 0..60_u64, Just(GRACE)])
            .prop_map(|(blocks, seconds)| Deed::GoOn { blocks, seconds }),
    ]
}

/// A proposal in the model.
struct Remembered {
    id: B256,
    at: u64,
    /// Balances at the end of the block before the proposal.
    had: BTreeMap<u8, u64>,
    voted: BTreeMap<u8, u8>,
    executed: bool,
}

impl Remembered {
    fn votes(&self, support: u8) -> u64 {
        self.voted.iter().filter(|(_, voted)| **voted == support).map(|(who, _)| self.had[who]).sum()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn votes_use_snapshot_and_delays_hold(deeds in prop::collection::vec(deed(), 1..80)) {
        let mut place = Place::new();
        let mut proposals: Vec<Remembered> = Vec::new();
        for deed in deeds {
            match deed {
                Deed::Transfer { from, to, value } => place.transfer(from, to, value),
                Deed::Propose { who } => {
                    let description = proposals.len().to_string();
                    let may = place.had(who, place.height - 1) >= 10;
                    let had = place.history[&(place.height - 1)].clone();
                    let proposed = place.propose(who, &description);
                    prop_assert_eq!(proposed.is_ok(), may);
                    if let Ok(id) = proposed {
                        proposals.push(Remembered { id, at: place.now, had, voted: BTreeMap::new(), executed: false });
                    }
                }
                Deed::Vote { who, proposal, support } => {
                    let Some(proposal) = proposals.get_mut(proposal) else { continue };
                    let weight = proposal.had.get(&who).copied().unwrap_or_default();
                    let in_time = place.now < proposal.at + PERIOD;
                    let may = in_time && weight > 0 && !proposal.voted.contains_key(&who) && support < 3;
                    let before = place.vm.snapshot().storage;
                    let voted = place.vote(who, proposal.id, support);
                    prop_assert_eq!(voted.is_ok(), may);
                    if may {
                        prop_assert_eq!(voted.ok(), Some(n(weight)));
                        proposal.voted.insert(who, support);
                    } else {
                        // A failed call must leave no changes. On a chain the node ensures this.
                        place.vm.clear_storage();
                        before.into_iter().for_each(|(slot, value)| place.vm.set_storage(slot, value));
                    }
                }
                Deed::Execute { proposal: at } => {
                    let Some(proposal) = proposals.get_mut(at) else { continue };
                    let ready = proposal.at + PERIOD + DELAY;
                    let decided = proposal.votes(1) > proposal.votes(0) && proposal.votes(1) + proposal.votes(2) >= QUORUM;
                    let may = decided && !proposal.executed && place.now >= ready && place.now < ready + GRACE;
                    prop_assert_eq!(place.execute(&at.to_string()).is_ok(), may);
                    proposal.executed |= may;
                }
                Deed::GoOn { blocks, seconds } => place.go_on(blocks, seconds),
            }
            for proposal in &proposals {
                let (against, in_favour, abstaining, ..) = place.governor.proposal(proposal.id);
                prop_assert_eq!([against, in_favour, abstaining], [0, 1, 2].map(|support| n(proposal.votes(support))));
                prop_assert!(against + in_favour + abstaining <= n(SUPPLY));
            }
        }
    }
}
