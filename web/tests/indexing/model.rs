//! A simple model of the indexer. It adds up the blocks' intended meaning in maps, one block after the other. Its
//! output has the same form as the lines of [`super::dump`].

use super::chain::{Made, VALIDATORS};
use alloy_primitives::{Address, U256};
use corniche_api::Certificate;
use corniche_web::{
    database::Place,
    indexer::events::{Standard, TokenEvent},
};
use std::collections::{BTreeMap, BTreeSet};

type Owned = (Address, Address, Option<U256>);
/// Owner, token, spender, and one id or `None` for all.
type Allowed = (Address, Address, Address, Option<U256>);

#[derive(Default)]
struct Token {
    standard: u64,
    supply: U256,
    transfers: u64,
    first_block: u64,
    inconsistent: bool,
}

/// Totals of a chain.
#[derive(Default)]
pub struct Model {
    balances: BTreeMap<Owned, U256>,
    tokens: BTreeMap<Address, Token>,
    token_days: BTreeMap<(Address, u64), (u64, U256)>,
    accounts: BTreeMap<Address, (u64, u64)>,
    activity: BTreeMap<(Address, i64), u64>,
    days: BTreeMap<u64, [u64; 8]>,
    validators: BTreeMap<(u64, u64), [u64; 5]>,
    approvals: BTreeMap<Allowed, (U256, i64)>,
    transfers: Vec<String>,
    sides: Vec<String>,
}

fn hex_of(bytes: impl AsRef<[u8]>) -> String {
    format!("x{}", hex::encode(bytes))
}

fn id_of(id: &Option<U256>) -> String {
    hex_of(id.map_or(Vec::new(), |id| id.to_be_bytes::<32>().to_vec()))
}

fn amount_of(amount: U256) -> String {
    hex_of(amount.to_be_bytes::<32>())
}

impl Model {
    /// Builds the model from these blocks and certificates.
    pub fn of<'a>(blocks: &[Made], certificates: impl Iterator<Item = &'a Certificate>) -> Self {
        let mut model = Self::default();
        blocks.iter().for_each(|made| model.block(made));
        for certificate in certificates {
            let certified = blocks.iter().find(|made| made.whole.block.number.to::<u64>() == certificate.block_number);
            let day = day(certified.expect("a certified block"));
            for validator in 0..VALIDATORS {
                let signed = certificate.signers[0] >> validator & 1 == 1;
                model.validators.entry((validator, day)).or_default()[if signed { 3 } else { 4 }] += 1;
            }
        }
        model
    }

    fn block(&mut self, made: &Made) {
        let (block, receipts) = (&made.whole.block, &made.whole.receipts);
        let number: u64 = block.number.to();
        let day = day(made);
        let mut named: BTreeMap<Address, u64> = BTreeMap::new();
        let mut failed = 0;
        let mut made_contracts = 0;
        for (position, (transaction, receipt)) in block.transactions.iter().zip(receipts).enumerate() {
            let place = Place::new(number, position as u64).0;
            let succeeded = receipt.status.to::<u64>() == 1;
            failed += u64::from(!succeeded);
            let created = receipt.contract_address.filter(|_| succeeded);
            made_contracts += u64::from(created.is_some());
            let parties = [(Some(transaction.from), 1), (transaction.to, 2), (created, 4)];
            let parties = parties.into_iter().filter_map(|(who, role)| Some((who?, role)));
            let mut once = BTreeSet::new();
            for (who, role) in parties.chain(receipt.logs.iter().map(|log| (log.address, 8))) {
                *self.activity.entry((who, place)).or_default() |= role;
                if role < 8 && once.insert(who) {
                    *named.entry(who).or_default() += 1;
                }
            }
        }
        let mut transfers = 0;
        for (position, moved) in &made.token_events {
            let place = Place::new(number, *position).0;
            match moved {
                TokenEvent::Transfer { .. } => {
                    self.transfer(moved, number, transfers, place, day, &mut named);
                    transfers += 1;
                }
                TokenEvent::Approval { token, owner, spender, id, amount } => {
                    if id.is_some() {
                        // An id has at most one approval.
                        self.approvals.retain(|(of, what, _, which), _| (of, what, which) != (owner, token, id));
                    }
                    if id.is_none() || !spender.is_zero() {
                        self.approvals.insert((*owner, *token, *spender, *id), (*amount, place));
                    }
                }
            }
        }
        let mut new = 0;
        for (who, count) in named {
            new += u64::from(!self.accounts.contains_key(&who));
            self.accounts.entry(who).or_insert((number, 0)).1 += count;
        }
        let skipped = made.whole.ordering.as_ref().map_or(0, |ordering| ordering.skipped.len() as u64);
        let count = block.transactions.len() as u64;
        let sums = [1, count, failed, skipped, block.gas_used.to(), transfers, made_contracts, new];
        self.days.entry(day).or_default().iter_mut().zip(sums).for_each(|(sum, one)| *sum += one);
        self.order(made, day);
    }

    fn order(&mut self, made: &Made, day: u64) {
        let Some(ordering) = &made.whole.ordering else { return };
        self.validators.entry((ordering.leader, day)).or_default()[0] += 1;
        let mut position = 0;
        for batch in &ordering.batches {
            let record = self.validators.entry((batch.author, day)).or_default();
            record[1] += 1;
            for _ in 0..batch.count {
                record[2] += u64::from(!ordering.skipped.iter().any(|skipped| skipped.position == position));
                position += 1;
            }
        }
    }

    fn transfer(
        &mut self,
        moved: &TokenEvent,
        block: u64,
        at: u64,
        transaction: i64,
        day: u64,
        named: &mut BTreeMap<Address, u64>,
    ) {
        let TokenEvent::Transfer { token, standard, from, to, id, amount } = moved else { return };
        let place = Place::new(block, at).0;
        let id_cell = id.map_or("null".into(), |_| id_of(id));
        self.transfers.push(format!(
            "place={place} transaction_place={transaction} token={} sender={} recipient={} token_id={id_cell} amount={}",
            hex_of(token),
            hex_of(from),
            hex_of(to),
            amount_of(*amount)
        ));
        let sums =
            self.tokens.entry(*token).or_insert(Token { standard: standard.number(), first_block: block, ..Token::default() });
        sums.transfers += 1;
        if from.is_zero() {
            sums.inconsistent |= sums.supply.checked_add(*amount).is_none();
            sums.supply = sums.supply.saturating_add(*amount);
        }
        if to.is_zero() {
            sums.inconsistent |= sums.supply < *amount;
            sums.supply = sums.supply.saturating_sub(*amount);
        }
        // The total, and the balance of the id if there is one.
        for id in BTreeSet::from([None, *id]) {
            if !from.is_zero() {
                let had = self.balances.entry((*token, *from, id)).or_default();
                sums.inconsistent |= *had < *amount;
                *had = had.saturating_sub(*amount);
            }
            if !to.is_zero() {
                let had = self.balances.entry((*token, *to, id)).or_default();
                sums.inconsistent |= had.checked_add(*amount).is_none();
                *had = had.saturating_add(*amount);
            }
        }
        let of_day = self.token_days.entry((*token, day)).or_default();
        *of_day = (of_day.0 + 1, sums.supply);
        for side in BTreeSet::from([*from, *to]).into_iter().filter(|side| !side.is_zero()) {
            self.sides.push(format!("address={} place={place}", hex_of(side)));
            *self.activity.entry((side, transaction)).or_default() |= 32;
            named.entry(side).or_default();
        }
        if let (Standard::Erc721, Some(_)) = (standard, id) {
            self.approvals.retain(|(of, what, _, which), _| (of, what, which) != (from, token, id));
        }
    }

    /// Returns queries with the lines that they should find.
    pub fn lines(&self) -> Vec<(&'static str, Vec<String>)> {
        let balances = self.balances.iter().filter(|(_, amount)| !amount.is_zero());
        let holders = |token: &Address| {
            let of = self.balances.iter().filter(|((of, _, id), amount)| of == token && id.is_none() && !amount.is_zero());
            of.count()
        };
        let tables = [
            (
                "SELECT token, holder, token_id, amount FROM balances",
                balances
                    .map(|((token, holder, id), amount)| {
                        format!(
                            "token={} holder={} token_id={} amount={}",
                            hex_of(token),
                            hex_of(holder),
                            id_of(id),
                            amount_of(*amount)
                        )
                    })
                    .collect(),
            ),
            (
                "SELECT address, standard, supply, holders, transfers, first_block, consistent FROM tokens",
                self.tokens
                    .iter()
                    .map(|(token, sums)| {
                        format!(
                            "address={} standard={} supply={} holders={} transfers={} first_block={} consistent={}",
                            hex_of(token),
                            sums.standard,
                            amount_of(sums.supply),
                            holders(token),
                            sums.transfers,
                            sums.first_block,
                            u8::from(!sums.inconsistent)
                        )
                    })
                    .collect(),
            ),
            (
                "SELECT token, day, transfers, supply FROM token_days",
                self.token_days
                    .iter()
                    .map(|((token, day), (transfers, supply))| {
                        format!("token={} day={day} transfers={transfers} supply={}", hex_of(token), amount_of(*supply))
                    })
                    .collect(),
            ),
            (
                "SELECT address, first_block, transactions FROM accounts",
                self.accounts
                    .iter()
                    .map(|(who, (first, count))| format!("address={} first_block={first} transactions={count}", hex_of(who)))
                    .collect(),
            ),
            (
                "SELECT address, place, roles FROM activity",
                self.activity
                    .iter()
                    .map(|((who, place), roles)| format!("address={} place={place} roles={roles}", hex_of(who)))
                    .collect(),
            ),
            (
                "SELECT owner, token, spender, token_id, amount, place FROM approvals",
                self.approvals
                    .iter()
                    .map(|((owner, token, spender, id), (amount, place))| {
                        format!(
                            "owner={} token={} spender={} token_id={} amount={} place={place}",
                            hex_of(owner),
                            hex_of(token),
                            hex_of(spender),
                            id_of(id),
                            amount_of(*amount)
                        )
                    })
                    .collect(),
            ),
            (
                "SELECT place, transaction_place, token, sender, recipient, token_id, amount FROM transfers",
                self.transfers.clone(),
            ),
            ("SELECT address, place FROM transfer_sides", self.sides.clone()),
            ("SELECT * FROM days", self.days.iter().map(|(day, sums)| counted(&[("day", *day)], &DAY, sums)).collect()),
            (
                "SELECT * FROM validator_days",
                self.validators
                    .iter()
                    .map(|((validator, day), sums)| counted(&[("validator", *validator), ("day", *day)], &RECORD, sums))
                    .collect(),
            ),
        ];
        tables.into_iter().map(|(query, lines): (_, Vec<String>)| (query, sorted(lines))).collect()
    }
}

const DAY: [&str; 8] = ["blocks", "transactions", "failed", "skipped", "gas_used", "transfers", "contracts", "new_accounts"];
const RECORD: [&str; 5] = ["led", "batches", "transactions", "signed", "missed"];

fn counted(key: &[(&str, u64)], names: &[&str], sums: &[u64]) -> String {
    let key = key.iter().map(|(name, value)| format!("{name}={value}"));
    let sums = names.iter().zip(sums).map(|(name, sum)| format!("{name}={sum}"));
    key.chain(sums).collect::<Vec<_>>().join(" ")
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

fn day(made: &Made) -> u64 {
    made.whole.ordering.as_ref().map_or(0, |ordering| ordering.timestamp_ms / 86_400_000)
}
