//! Runs the real WebAssembly of the governor and of its token on the nodes' virtual machine.
#![allow(clippy::too_many_arguments)] // One of the events has eight fields.

use alloy_sol_types::{sol, SolCall};
use corniche_harness::{Address, Bytes, Chain, Contract, Failed, B256, U256};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

sol! {
    #[derive(Debug)]
    interface Governor {
        function settings() external view returns (address votes, uint256 quorum, uint256 minimum, uint64 votingPeriod, uint64 delay);
        function proposalId(address to, uint256 value, bytes data, bytes32 descriptionHash) external view returns (bytes32 id);
        function proposal(bytes32 id) external view
            returns (uint256 against, uint256 inFavour, uint256 abstaining, uint64 snapshot, uint64 votingEnds);
        function state(bytes32 id) external view returns (uint8);
        function hasVoted(bytes32 id, address account) external view returns (bool);
        function propose(address to, uint256 value, bytes data, string description) external returns (bytes32 id);
        function vote(bytes32 id, uint8 support) external returns (uint256 weight);
        function execute(address to, uint256 value, bytes data, bytes32 descriptionHash) external returns (bytes memory);

        event Proposed(
            bytes32 indexed id, address indexed by, address to, uint256 value, bytes data, string description, uint64 snapshot, uint64 votingEnds
        );
        event Voted(bytes32 indexed id, address indexed voter, uint8 support, uint256 weight);
        event Executed(bytes32 indexed id, address indexed by);
        event Received(address indexed from, uint256 value);

        error BadSettings();
        error TooFewVotes(uint256 votes, uint256 needed);
        error AlreadyProposed(bytes32 id);
        error WrongState(bytes32 id, uint8 state);
        error BadSupport(uint8 support);
        error AlreadyVoted(bytes32 id, address voter);
        error NoVotes(bytes32 id, address voter);
    }

    #[derive(Debug)]
    interface Votes {
        function balanceAt(address account, uint64 block) external view returns (uint256);
        function name() external view returns (string memory);
        function symbol() external view returns (string memory);
        function decimals() external view returns (uint8);
        function totalSupply() external view returns (uint256);
        function balanceOf(address account) external view returns (uint256);
        function allowance(address owner, address spender) external view returns (uint256);
        function transfer(address to, uint256 value) external returns (bool);
        function approve(address spender, uint256 value) external returns (bool);
        function transferFrom(address from, address to, uint256 value) external returns (bool);

        event Transfer(address indexed from, address indexed to, uint256 value);
        event Approval(address indexed owner, address indexed spender, uint256 value);

        error TooMany(uint256 supply);
        error NotOver(uint64 block, uint64 height);
        error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
        error ERC20InvalidReceiver(address receiver);
        error ERC20InvalidSpender(address spender);
        error ERC20InsufficientAllowance(address spender, uint256 allowance, uint256 needed);
    }

    function arm(address target, bytes data);
    function attacks() returns (uint256 tried, uint256 let_in);
}

const DAY: u64 = 86_400;
/// Values of `state`.
const VOTING: u8 = 1;
const DEFEATED: u8 = 2;
const WAITING: u8 = 3;
const READY: u8 = 4;
const EXPIRED: u8 = 5;
const EXECUTED: u8 = 6;

fn n(value: u64) -> U256 {
    U256::from(value)
}

fn contract(folder: &str) -> Contract {
    Contract::in_crate(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap()
}

fn hash(text: &str) -> B256 {
    alloy_primitives::keccak256(text)
}

/// Votes: alice 500, bob 300, carol 200. Three days of voting, two of waiting, a quorum of 400, and a thousand wei to govern.
#[derive(Clone)]
struct Place {
    chain: Chain,
    people: [Address; 4],
    votes: Address,
    governor: Address,
}

impl Place {
    fn new() -> Self {
        thread_local!(static PREPARED: Place = Place::prepared());
        PREPARED.with(Clone::clone)
    }

    fn prepared() -> Self {
        let mut chain = Chain::new();
        let people = ["alice", "bob", "carol", "dave"].map(|name| chain.account(name));
        let arguments = ("Votes".to_owned(), "VOTE".to_owned(), n(1_000));
        let votes = chain.by(people[0]).deploy(&contract("../votes"), arguments).unwrap();
        let settings = (votes, n(400), n(100), 3 * DAY, 2 * DAY);
        let governor = chain.by(people[0]).value(n(1_000)).deploy(&Contract::in_this_crate(), settings).unwrap();
        let mut place = Self { chain, people, votes, governor };
        place.transfer(0, 1, 300).unwrap();
        place.transfer(0, 2, 200).unwrap();
        place
    }

    fn transfer(&mut self, from: usize, to: usize, value: u64) -> Result<(), Failed> {
        let call = Votes::transferCall { to: self.people[to], value: n(value) };
        self.chain.by(self.people[from]).send(self.votes, call).map(drop)
    }

    /// Proposes to pay dave this amount. The description is the number.
    fn propose(&mut self, who: usize, wei: u64) -> Result<B256, Failed> {
        let (to, value, data, description) = (self.people[3], n(wei), Bytes::new(), wei.to_string());
        let call = Governor::proposeCall { to, value, data, description };
        Ok(self.chain.by(self.people[who]).send(self.governor, call)?.output)
    }

    fn vote(&mut self, who: usize, id: B256, support: u8) -> Result<U256, Failed> {
        Ok(self.chain.by(self.people[who]).send(self.governor, Governor::voteCall { id, support })?.output)
    }

    fn execute(&mut self, wei: u64) -> Result<Bytes, Failed> {
        let (to, value, data) = (self.people[3], n(wei), Bytes::new());
        let call = Governor::executeCall { to, value, data, descriptionHash: hash(&wei.to_string()) };
        Ok(self.chain.by(self.people[2]).send(self.governor, call)?.output)
    }

    fn state(&self, id: B256) -> u8 {
        self.chain.view(self.governor, Governor::stateCall { id })
    }

    fn refused_in(&self, refused: Failed, state: u8) {
        assert_eq!(refused.error::<Governor::WrongState>().unwrap_or_else(|| panic!("{refused:?}")).state, state);
    }
}

#[test]
fn proposal_executes_once_after_delay() {
    let mut place = Place::new();
    let ([alice, bob, carol, dave], governor) = (place.people, place.governor);
    let call = Governor::proposeCall { to: dave, value: n(300), data: Bytes::new(), description: "300".into() };
    let sent = place.chain.by(alice).send(governor, call).unwrap();
    let id = sent.output;
    let [told] = &sent.events::<Governor::Proposed>()[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.id, told.by, told.to, told.value, told.description.as_str()), (id, alice, dave, n(300), "300"));
    let asked = Governor::proposalIdCall { to: dave, value: n(300), data: Bytes::new(), descriptionHash: hash("300") };
    assert_eq!(place.chain.view(governor, asked), id);

    let sent = place.chain.by(alice).send(governor, Governor::voteCall { id, support: 1 }).unwrap();
    let [told] = &sent.events::<Governor::Voted>()[..] else { panic!("{:?}", sent.logs) };
    assert_eq!((told.id, told.voter, told.support, told.weight), (id, alice, 1, n(500)));
    assert_eq!(place.vote(1, id, 0).unwrap(), n(300));
    assert_eq!(place.vote(2, id, 2).unwrap(), n(200));
    let counted = place.chain.view(governor, Governor::proposalCall { id });
    assert_eq!((counted.against, counted.inFavour, counted.abstaining), (n(300), n(500), n(200)));
    let voted = |account| place.chain.view(governor, Governor::hasVotedCall { id, account });
    assert_eq!([alice, bob, carol, dave].map(voted), [true, true, true, false]);

    let refused = place.execute(300).unwrap_err();
    place.refused_in(refused, VOTING);
    place.chain.advance(counted.votingEnds - place.chain.time());
    assert_eq!(place.state(id), WAITING);
    let refused = place.vote(3, id, 1).unwrap_err();
    place.refused_in(refused, WAITING);
    let before = place.chain.balance(dave);
    // Exact to the second: a block earlier it is refused, and that block takes a second.
    place.chain.advance(counted.votingEnds + 2 * DAY - 1 - place.chain.time());
    let refused = place.execute(300).unwrap_err();
    place.refused_in(refused, WAITING);
    assert_eq!(place.chain.time(), counted.votingEnds + 2 * DAY);
    place.execute(300).unwrap();
    assert_eq!((place.chain.balance(dave) - before, place.chain.balance(governor)), (n(300), n(700)));
    let refused = place.execute(300).unwrap_err();
    place.refused_in(refused, EXECUTED);
    let refused = place.propose(0, 300).unwrap_err();
    assert_eq!(refused.error::<Governor::AlreadyProposed>().unwrap().id, id);
    place.chain.gas().assert_matches_file("gas.txt");
}

#[test]
fn moved_or_later_tokens_do_not_vote() {
    let mut place = Place::new();
    let id = place.propose(0, 1).unwrap();
    assert_eq!(place.vote(0, id, 1).unwrap(), n(500));
    place.transfer(0, 3, 500).unwrap();
    let refused = place.vote(3, id, 1).unwrap_err();
    assert_eq!(refused.error::<Governor::NoVotes>().unwrap().voter, place.people[3]);
    let refused = place.vote(0, id, 1).unwrap_err();
    assert_eq!(refused.error::<Governor::AlreadyVoted>().unwrap().voter, place.people[0]);
    // An account that transfers its votes later has still voted, and keeps the votes of its snapshot.
    place.transfer(1, 2, 300).unwrap();
    assert_eq!((place.vote(1, id, 0).unwrap(), place.vote(2, id, 0).unwrap()), (n(300), n(200)));
    let next = place.propose(3, 2).unwrap();
    assert_eq!(place.vote(3, next, 1).unwrap(), n(500));
    let refused = place.propose(0, 3).unwrap_err();
    assert_eq!(refused.error::<Governor::TooFewVotes>().unwrap().needed, n(100));
    let refused = place.vote(2, next, 3).unwrap_err();
    assert_eq!(refused.error::<Governor::BadSupport>().unwrap().support, 3);
}

#[test]
fn defeated_without_quorum_or_majority() {
    let mut place = Place::new();
    let [quiet, tied, late] = [1, 2, 3].map(|wei| place.propose(0, wei).unwrap());
    place.vote(1, quiet, 1).unwrap();
    for (who, support) in [(0, 1), (1, 0), (2, 0)] {
        place.vote(who, tied, support).unwrap();
    }
    place.vote(0, late, 1).unwrap();
    place.chain.advance(5 * DAY);
    assert_eq!([quiet, tied, late].map(|id| place.state(id)), [DEFEATED, DEFEATED, READY]);
    let refused = place.execute(1).unwrap_err();
    place.refused_in(refused, DEFEATED);
    place.chain.advance(14 * DAY);
    let refused = place.execute(3).unwrap_err();
    place.refused_in(refused, EXPIRED);
}

#[test]
fn failed_execution_can_be_retried() {
    let mut place = Place::new();
    let (alice, governor, votes) = (place.people[0], place.governor, place.votes);
    let data: Bytes = Votes::transferCall { to: alice, value: n(7) }.abi_encode().into();
    let call = Governor::proposeCall { to: votes, value: n(0), data: data.clone(), description: "back".into() };
    let id = place.chain.by(alice).send(governor, call).unwrap().output;
    place.vote(0, id, 1).unwrap();
    place.chain.advance(5 * DAY);
    let execute = Governor::executeCall { to: votes, value: n(0), data, descriptionHash: hash("back") };
    let refused = place.chain.by(alice).send(governor, execute.clone()).unwrap_err();
    let error: Votes::ERC20InsufficientBalance = refused.error().unwrap();
    assert_eq!((error.sender, error.needed), (governor, n(7)));
    place.chain.by(alice).send(votes, Votes::transferCall { to: governor, value: n(7) }).unwrap();
    let other = Governor::executeCall { value: n(1), ..execute.clone() };
    let refused = place.chain.by(alice).send(governor, other).unwrap_err();
    place.refused_in(refused, 0);
    let sent = place.chain.by(alice).send(governor, execute).unwrap();
    assert_eq!((sent.events::<Votes::Transfer>()[0].value, sent.events::<Governor::Executed>().len()), (n(7), 1));
}

/// A payee that executes the proposal again during its payment.
#[test]
fn payment_executes_once() {
    let mut place = Place::new();
    let (alice, governor) = (place.people[0], place.governor);
    let rogue = place.chain.by(alice).deploy(&contract("../../exchange/rogue"), ()).unwrap();
    let call = Governor::proposeCall { to: rogue, value: n(400), data: Bytes::new(), description: "rogue".into() };
    let id = place.chain.by(alice).send(governor, call).unwrap().output;
    place.vote(0, id, 1).unwrap();
    place.chain.advance(5 * DAY);
    let execute = Governor::executeCall { to: rogue, value: n(400), data: Bytes::new(), descriptionHash: hash("rogue") };
    place.chain.by(alice).send(rogue, armCall { target: governor, data: execute.abi_encode().into() }).unwrap();
    place.chain.by(alice).send(governor, execute).unwrap();
    let attacks = place.chain.view(rogue, attacksCall {});
    assert_eq!((attacks.tried, attacks.let_in, place.chain.balance(governor)), (n(1), n(0), n(600)));
}

#[test]
fn rejects_token_without_votes() {
    let mut place = Place::new();
    let (alice, votes) = (place.people[0], place.votes);
    for (quorum, minimum, period) in [(0, 1, 1), (1_001, 1, 1), (1, 1_001, 1), (1, 1, 0)] {
        let settings = (votes, n(quorum), n(minimum), period, 0_u64);
        let refused = place.chain.by(alice).deploy(&Contract::in_this_crate(), settings).unwrap_err();
        assert!(refused.error::<Governor::BadSettings>().is_some());
    }
    assert!(place.chain.by(alice).deploy(&Contract::in_this_crate(), (alice, n(1), n(1), 1_u64, 1_u64)).is_err());
    let now = Votes::balanceAtCall { account: alice, block: place.chain.height() };
    let refused = place.chain.by(alice).call(votes, now);
    assert!(refused.unwrap_err().error::<Votes::NotOver>().is_some());
}

#[test]
fn modules_embed_tested_abis() {
    let set = |selectors: &[[u8; 4]]| selectors.iter().copied().collect::<BTreeSet<_>>();
    let (governor, votes) = (Contract::in_this_crate(), contract("../votes"));
    assert_eq!(governor.interface(), Some(&include_bytes!("../abi.json")[..]));
    assert_eq!(votes.interface(), Some(&include_bytes!("../../votes/abi.json")[..]));
    let functions = |contract: &Contract| contract.abi.functions().map(|one| one.selector().0).collect::<BTreeSet<_>>();
    let errors = |contract: &Contract| contract.abi.errors().map(|one| one.selector().0).collect::<BTreeSet<_>>();
    let events = |contract: &Contract| contract.abi.events().map(|one| one.selector().0).collect::<BTreeSet<_>>();
    assert_eq!(functions(&governor), set(Governor::GovernorCalls::SELECTORS));
    assert_eq!(functions(&votes), set(Votes::VotesCalls::SELECTORS));
    assert_eq!(errors(&governor), set(Governor::GovernorErrors::SELECTORS));
    assert_eq!(errors(&votes), set(Votes::VotesErrors::SELECTORS));
    assert_eq!(events(&governor), Governor::GovernorEvents::SELECTORS.iter().copied().collect());
    assert_eq!(events(&votes), Votes::VotesEvents::SELECTORS.iter().copied().collect());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Tokens move during three votes. Each counts balances at its proposal, so never more than the supply.
    #[test]
    fn transferred_tokens_vote_once(deeds in prop::collection::vec((0..3_usize, 0..4_usize, 0..4_usize, 1..400_u64), 1..25)) {
        let mut place = Place::new();
        let mut balances = [500_u64, 300, 200, 0];
        // Balances at the proposal, and the votes so far.
        let mut proposals: Vec<(B256, [u64; 4], BTreeMap<usize, u8>)> = Vec::new();
        for (deed, who, to, value) in deeds {
            match deed {
                0 => {
                    prop_assert_eq!(place.transfer(who, to, value).is_ok(), value <= balances[who]);
                    if value <= balances[who] {
                        balances[who] -= value;
                        balances[to] += value;
                    }
                }
                1 if proposals.len() < 3 => {
                    let proposed = place.propose(who, proposals.len() as u64 + 1);
                    prop_assert_eq!(proposed.is_ok(), balances[who] >= 100);
                    proposals.extend(proposed.ok().map(|id| (id, balances, BTreeMap::new())));
                }
                _ => {
                    let Some((id, had, voted)) = proposals.get_mut(to) else { continue };
                    let support = (value % 3) as u8;
                    let may = had[who] > 0 && !voted.contains_key(&who);
                    prop_assert_eq!(place.vote(who, *id, support).ok(), may.then(|| n(had[who])));
                    voted.entry(who).or_insert(support);
                    let counted = place.chain.view(place.governor, Governor::proposalCall { id: *id });
                    let sum = |support: u8| n(voted.iter().filter(|(_, voted)| **voted == support).map(|(who, _)| had[*who]).sum());
                    prop_assert_eq!([counted.against, counted.inFavour, counted.abstaining], [0, 1, 2].map(sum));
                }
            }
        }
    }
}
