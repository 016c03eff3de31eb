//! `corniche bench dkg`: processor time that a validator needs for a coin dealt on the chain.

use anyhow::{Context, ensure};
use corniche_console::exit;
use corniche_service::{Keyring, ValidatorKeys};
use corniche_staking::{
    GenesisValidator, Notice, NoticeAuthor, NoticeKind, ValidatorId, calendar,
    coin::{EpochCoin, Need},
    genesis_slots,
    record::{Header, Phase},
};
use corniche_types::{B256, Bytes, Epoch, Height, StakingParameters, TimestampMs, ValidatorIndex, ValidatorInfo, Votes};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

const CHAIN_ID: u64 = 1;

/// Measure the coin that a committee deals to the next one, on one thread and without a network
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Validators, in both committees
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=300))]
    validators: u16,
    /// Votes of all of them, shared equally; default: one each
    #[arg(long)]
    votes: Option<u32>,
}

/// Time for one thing, how often a validator does it, and the longest time.
#[derive(Default)]
struct Cost {
    total: Duration,
    times: u32,
    longest: Duration,
}

impl Cost {
    fn measure<T>(&mut self, run: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = run();
        let passed = start.elapsed();
        (self.total, self.times, self.longest) = (self.total + passed, self.times + 1, self.longest.max(passed));
        result
    }

    fn line(&self, what: &str) -> String {
        let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
        format!("{what:<42} {:>6} {:>12.1} {:>12.1}", self.times, ms(self.longest), ms(self.total))
    }
}

struct Chain {
    slots: BTreeMap<B256, B256>,
    parameters: StakingParameters,
    authors: Vec<NoticeAuthor>,
}

impl Chain {
    fn new(members: &[Votes]) -> Self {
        let parameters = StakingParameters {
            most_votes: Votes(64),
            max_votes: Votes(512),
            max_validators: 300,
            min_validators: 1,
            ..StakingParameters::default()
        };
        let keys: Vec<_> = (1u64..).map(seeded).take(members.len()).collect();
        let validator = |(keys, votes): (&ValidatorKeys, &Votes)| {
            GenesisValidator::new(&ValidatorInfo { votes: *votes, ..keys.public() }).expect("a seed derives all keys")
        };
        let validators: Vec<_> = keys.iter().zip(members).map(validator).collect();
        let (slots, _) = genesis_slots(&parameters, TimestampMs(0), &validators, |_| B256::ZERO);
        Self {
            slots,
            parameters,
            authors: keys.iter().map(|keys| Keyring::from(keys.clone()).notice_author(CHAIN_ID)).collect(),
        }
    }

    /// Runs the steps that are due at a time between the freeze and the end, in eighths.
    fn advance(&mut self, eighths: u64) -> Phase {
        let freeze = self.parameters.epoch_ms - self.parameters.closing_ms;
        let now = TimestampMs(freeze + self.parameters.closing_ms * eighths / 8);
        let Ok(()) = calendar::advance(&mut self.slots, &self.parameters, Need::SoonAfterGenesis, CHAIN_ID, now);
        let Ok(header) = Header::load(&mut self.slots);
        header.phase
    }

    fn make(&mut self, author: usize, kind: NoticeKind) -> anyhow::Result<Bytes> {
        let Ok(notice) = self.authors[author].make(&mut self.slots, kind);
        Ok(notice.context("a validator has nothing to state")?.encode())
    }

    fn apply(&mut self, entry: &Bytes) -> anyhow::Result<()> {
        let notice = Notice::decode(entry).context("a notice cannot be decoded")?;
        let Ok(notice) = notice.verify(&mut self.slots, &self.parameters, CHAIN_ID);
        let Ok(applied) = notice.context("a notice is not valid")?.apply(&mut self.slots, &self.parameters, TimestampMs(0));
        ensure!(applied.is_some(), "a notice had no effect");
        Ok(())
    }
}

fn seeded(number: u64) -> ValidatorKeys {
    ValidatorKeys::from_seed(B256::left_padding_from(&number.to_be_bytes()).0)
}

/// Runs `corniche bench dkg`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let validators = u32::from(args.validators);
    let votes = args.votes.unwrap_or(validators);
    ensure!((validators..=512).contains(&votes), "expected {validators} to 512 votes, got {votes}");
    let members: Vec<_> = (0..validators).map(|index| Votes((votes + index) / validators)).collect();
    let mut chain = Chain::new(&members);
    let mut costs: [Cost; 6] = Default::default();
    let [deal, check, acknowledge, note, settle, share] = &mut costs;
    for id in 0..validators {
        let now = TimestampMs(chain.parameters.epoch_ms - chain.parameters.closing_ms * 2);
        let Ok(_) = calendar::announce(&mut chain.slots, &chain.parameters, ValidatorId(id), 1, now);
    }
    ensure!(chain.advance(0) == Phase::Dealing, "no coin is dealt: the votes are not allowed");
    let mut bytes = 0;
    for author in 0..members.len() {
        let entry = match author {
            0 => deal.measure(|| chain.make(author, NoticeKind::Deal))?,
            _ => chain.make(author, NoticeKind::Deal)?,
        };
        bytes += entry.len();
        check.measure(|| chain.apply(&entry))?;
    }
    for author in 0..members.len() {
        let entry = match author {
            0 => acknowledge.measure(|| chain.make(author, NoticeKind::Acknowledge))?,
            _ => chain.make(author, NoticeKind::Acknowledge)?,
        };
        note.measure(|| chain.apply(&entry))?;
    }
    chain.advance(3);
    chain.advance(5);
    let phase = settle.measure(|| chain.advance(7));
    ensure!(phase == Phase::Frozen, "the coin was not settled");
    let end = TimestampMs(chain.parameters.epoch_ms);
    let Ok(_) = calendar::activate(&mut chain.slots, &chain.parameters, Height(1), end, |_, _, _| B256::ZERO);
    let has_share = share.measure(|| {
        let Ok(coin) = EpochCoin::load(&mut chain.slots, CHAIN_ID, Epoch(1));
        let key = chain.authors[0].keys[0].coin.as_ref();
        coin.zip(key).and_then(|(coin, key)| coin.share(ValidatorIndex(0), key)).is_some()
    });
    ensure!(has_share, "a member has no share");
    let total: f64 = costs.iter().map(|cost| cost.total.as_secs_f64()).sum();
    let lines = [
        format!(
            "{validators} validators with {votes} votes: {total:.2} s of processor time for each, {} kB in blocks\n",
            bytes / 1_000
        ),
        format!("{:<42} {:>6} {:>12} {:>12}", "", "times", "longest, ms", "all, ms"),
        costs[0].line("make a dealing"),
        costs[1].line("check a dealing in a block"),
        costs[2].line("decrypt all dealings"),
        costs[3].line("take an acknowledgement in a block"),
        costs[4].line("settle in a block"),
        costs[5].line("find the own share"),
    ];
    exit::result(lines.join("\n"));
    Ok(())
}
