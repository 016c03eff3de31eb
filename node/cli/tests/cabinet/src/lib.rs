//! Contract with a field of every kind, each of which can be filled. `tests/contract_layout.rs` compares the
//! output of `corniche contract layout` with the effects of this module on a state.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

mod fill;
mod kinds;

use alloc::{string::String, vec::Vec};
use alloy_primitives::{Address, FixedBytes, Signed, B256, U256, U8};
use corniche_contract::{erc20::Erc20, Balances, Counter};
use fill::{reach, Fill};
use kinds::*;
use stylus_sdk::prelude::*;

sol_storage! {
    #[entrypoint]
    pub struct Cabinet {
        // 25 bytes, then eight that do not fit behind them.
        bool flag;
        uint8 small;
        uint24 odd;
        address who;
        int64 signed;
        bytes1 letter;
        bytes4 tag;
        uint160 wide;
        uint256 whole;
        // Exactly a full slot, and one more byte.
        int128 half;
        uint120 most;
        uint8 last;
        uint8 alone;

        Pair pair;
        bool behind_pair;
        Tiny tiny;
        Nothing nothing;

        uint8[40] bytes_list;
        bool behind_list;
        uint24[11] threes;
        address[3] people;
        bool[33] flags;
        uint128[5] halves;
        uint256[2] wholes;
        Pair[2] pairs;
        uint8[3][4] grid;
        Tiny[3] tinies;

        string text;
        bytes data;
        uint8[] small_list;
        uint24[] three_list;
        uint256[] whole_list;
        Pair[] pair_list;
        uint16[20][] rows;
        string[] texts;
        uint8[][] ragged;

        mapping(address => uint8) ages;
        mapping(uint256 => Pair) by_number;
        mapping(string => mapping(bool => address)) named;
        mapping(bytes32 => uint8[40]) lists;
        mapping(int8 => uint24[]) histories;
        mapping(bytes4 => string) words;

        Counter counter;
        Balances balances;
        Erc20 erc20;
        Five five;
        bool behind_five;
        Wide two_slots;
        Modern modern;
        uint8 end;
    }

    pub struct Pair {
        uint128 one;
        uint64 other;
        uint128 third;
    }

    pub struct Tiny {
        bool bit;
    }
}

/// Fields by path, with the code that fills them, given the indices and keys in brackets.
macro_rules! drawers {
    (|$cabinet:ident, $at:ident| $($path:literal => $fill:expr,)*) => {
        const PATHS: &[&str] = &[$($path),*];

        fn pull($cabinet: &mut Cabinet, path: &str, $at: &[U256]) -> Option<()> {
            match path {
                $($path => $fill,)*
                _ => return None,
            }
            Some(())
        }
    };
}

drawers! { |c, at|
    "flag" => c.flag.fill(),
    "small" => c.small.fill(),
    "odd" => c.odd.fill(),
    "who" => c.who.fill(),
    "signed" => c.signed.fill(),
    "letter" => c.letter.fill(),
    "tag" => c.tag.fill(),
    "wide" => c.wide.fill(),
    "whole" => c.whole.fill(),
    "half" => c.half.fill(),
    "most" => c.most.fill(),
    "last" => c.last.fill(),
    "alone" => c.alone.fill(),
    "pair.one" => c.pair.one.fill(),
    "pair.other" => c.pair.other.fill(),
    "pair.third" => c.pair.third.fill(),
    "behind_pair" => c.behind_pair.fill(),
    "tiny.bit" => c.tiny.bit.fill(),
    "bytes_list[]" => c.bytes_list.setter(at[0])?.fill(),
    "behind_list" => c.behind_list.fill(),
    "threes[]" => c.threes.setter(at[0])?.fill(),
    "people[]" => c.people.setter(at[0])?.fill(),
    "flags[]" => c.flags.setter(at[0])?.fill(),
    "halves[]" => c.halves.setter(at[0])?.fill(),
    "wholes[]" => c.wholes.setter(at[0])?.fill(),
    "pairs[].one" => c.pairs.setter(at[0])?.one.fill(),
    "pairs[].other" => c.pairs.setter(at[0])?.other.fill(),
    "pairs[].third" => c.pairs.setter(at[0])?.third.fill(),
    "grid[][]" => c.grid.setter(at[0])?.setter(at[1])?.fill(),
    "tinies[].bit" => c.tinies.setter(at[0])?.bit.fill(),
    "text" => c.text.fill(),
    "data" => c.data.fill(),
    "small_list[]" => reach(&mut c.small_list, at[0])?.fill(),
    "three_list[]" => reach(&mut c.three_list, at[0])?.fill(),
    "whole_list[]" => reach(&mut c.whole_list, at[0])?.fill(),
    "pair_list[].one" => reach(&mut c.pair_list, at[0])?.one.fill(),
    "pair_list[].other" => reach(&mut c.pair_list, at[0])?.other.fill(),
    "pair_list[].third" => reach(&mut c.pair_list, at[0])?.third.fill(),
    "rows[][]" => reach(&mut c.rows, at[0])?.setter(at[1])?.fill(),
    "texts[]" => reach(&mut c.texts, at[0])?.fill(),
    "ragged[][]" => reach(&mut *reach(&mut c.ragged, at[0])?, at[1])?.fill(),
    "ages[]" => c.ages.setter(account(at[0])).fill(),
    "by_number[].one" => c.by_number.setter(at[0]).one.fill(),
    "by_number[].other" => c.by_number.setter(at[0]).other.fill(),
    "by_number[].third" => c.by_number.setter(at[0]).third.fill(),
    "named[][]" => c.named.setter(alloc::format!("{}", at[0])).setter(U8::from(at[1].to::<u8>())).fill(),
    "lists[][]" => c.lists.setter(B256::from(at[0])).setter(at[1])?.fill(),
    "histories[][]" => reach(&mut c.histories.setter(Signed::from_raw(U8::from(at[0].to::<u8>()))), at[1])?.fill(),
    "words[]" => c.words.setter(FixedBytes::from(at[0].to::<u32>())).fill(),
    "counter" => c.counter.fill(),
    "balances[]" => c.balances.credit(account(at[0]), U256::MAX).then_some(())?,
    "erc20.supply" => c.erc20.supply.fill(),
    "erc20.balances[]" => c.erc20.balances.credit(account(at[0]), U256::MAX).then_some(())?,
    "erc20.allowances[][]" => c.erc20.allowances.setter(account(at[0])).setter(account(at[1])).fill(),
    "five" => c.five.fill(),
    "behind_five" => c.behind_five.fill(),
    "two_slots" => c.two_slots.fill(),
    "modern.height" => c.modern.height.fill(),
    "modern.behind_height" => c.modern.behind_height.fill(),
    "modern.hash" => c.modern.hash.fill(),
    "modern.of.first" => c.modern.of.first.fill(),
    "modern.of.all[]" => c.modern.of.all.setter(at[0])?.fill(),
    "modern.of.more[]" => c.modern.of.more.setter(at[0])?.fill(),
    "modern.ages[]" => c.modern.ages.setter(account(at[0])).fill(),
    "modern.last" => c.modern.last.fill(),
    "end" => c.end.fill(),
}

fn account(number: U256) -> Address {
    Address::from_word(number.into())
}

#[public]
impl Cabinet {
    /// All fields.
    pub fn paths(&self) -> Vec<String> {
        PATHS.iter().map(|path| String::from(*path)).collect()
    }

    /// Fills one field with ones. `at` has the indices and keys in brackets.
    pub fn fill(&mut self, path: String, at: Vec<U256>) -> Result<(), Vec<u8>> {
        pull(self, &path, &at).ok_or_else(|| path.into_bytes())
    }
}
