//! Runs the real WebAssembly on the nodes' virtual machine.

use alloy_sol_types::sol;
use corniche_harness::{Address, Chain, Contract, B256, U256};
use std::collections::BTreeSet;

sol! {
    function tickets() returns (uint256);
    function winner() returns (address);
    function buy();
    function draw();
    function pay();
    event Drawn(address indexed winner, uint256 ticket);
    error WrongPrice(uint256 paid, uint256 price);
    error Closed(uint256 since);
    error NotClosed(uint256 until);
    error NothingToDraw();
    error NotPaid();
}

const PRICE: u64 = 1_000_000;
const HOUR: u64 = 3_600;

/// A raffle that closes in an hour, and three buyers.
fn raffle() -> (Chain, Address, [Address; 3]) {
    let mut chain = Chain::new();
    let people = ["alice", "bob", "carol"].map(|name| chain.account(name));
    let arguments = (U256::from(PRICE), U256::from(chain.time() + HOUR));
    let raffle = chain.by(people[0]).deploy(&Contract::in_this_crate(), arguments).unwrap();
    (chain, raffle, people)
}

#[test]
fn draw_uses_unknown_randomness() {
    let (mut chain, raffle, people) = raffle();
    for who in people {
        chain.by(who).value(U256::from(PRICE)).send(raffle, buyCall {}).unwrap();
    }
    assert_eq!(chain.view(raffle, ticketsCall {}), U256::from(3));
    assert!(chain.by(people[0]).send(raffle, drawCall {}).unwrap_err().error::<NotClosed>().is_some());
    assert!(chain.by(people[0]).send(raffle, payCall {}).unwrap_err().error::<NotPaid>().is_some());
    chain.advance(HOUR);

    let late = chain.by(people[1]).value(U256::from(PRICE)).send(raffle, buyCall {}).unwrap_err();
    assert!(late.error::<Closed>().is_some());
    let sent = chain.by(people[1]).send(raffle, drawCall {}).unwrap();
    let [drawn] = &sent.events::<Drawn>()[..] else { panic!("{:?}", sent.logs) };
    assert_eq!(drawn.winner, people[drawn.ticket.to::<usize>()]);
    assert!(chain.by(people[2]).send(raffle, drawCall {}).unwrap_err().error::<NothingToDraw>().is_some(), "once");

    let before = chain.balance(drawn.winner);
    chain.by(people[0]).send(raffle, payCall {}).unwrap();
    chain.by(people[0]).send(raffle, payCall {}).unwrap();
    assert_eq!(chain.balance(drawn.winner) - before, U256::from(3 * PRICE), "all, and nothing the second time");
    assert_eq!(chain.balance(raffle), U256::ZERO);
    chain.gas().assert_matches_file("gas.txt");
}

/// For one history, other randomness draws another ticket, and equal randomness an equal ticket.
#[test]
fn draw_depends_only_on_block() {
    let (mut chain, raffle, people) = raffle();
    for who in people.into_iter().cycle().take(8) {
        chain.by(who).value(U256::from(PRICE)).send(raffle, buyCall {}).unwrap();
    }
    chain.advance(HOUR);
    let draw = |randomness: u8, by: usize| {
        let mut chain = chain.clone();
        chain.set_randomness(B256::with_last_byte(randomness));
        chain.by(people[by]).send(raffle, drawCall {}).unwrap().events::<Drawn>()[0].ticket
    };
    let drawn: BTreeSet<U256> = (0..60).map(|randomness| draw(randomness, 0)).collect();
    assert_eq!(drawn.len(), 8, "every ticket can win");
    assert!((0..10).all(|randomness| draw(randomness, 0) == draw(randomness, 1)), "whoever sends it");
}

#[test]
fn rejects_wrong_price_and_empty_draw() {
    let (mut chain, raffle, [alice, ..]) = raffle();
    for paid in [0, PRICE - 1, PRICE + 1] {
        let refused: WrongPrice =
            chain.by(alice).value(U256::from(paid)).send(raffle, buyCall {}).unwrap_err().error().unwrap();
        assert_eq!((refused.paid, refused.price), (U256::from(paid), U256::from(PRICE)));
    }
    chain.advance(HOUR);
    assert!(chain.by(alice).send(raffle, drawCall {}).unwrap_err().error::<NothingToDraw>().is_some());
    assert_eq!(chain.view(raffle, winnerCall {}), Address::ZERO);
}
