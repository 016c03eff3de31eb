//! Consecutive rounds of the DAG, read from the database.

use crate::{
    app_state::AppState,
    database::{Read, int, sql},
    format,
    indexer::dag::{Form, Round, content, distinct},
    texts::lookup,
    views::{Failure, log},
};
use alloy_primitives::B256;
use corniche_api::{DagVertex, LeaderSlot};
use std::collections::{BTreeMap, BTreeSet};

/// Number of rounds in a picture.
pub const COLUMNS: u64 = 24;

/// Maximum number of rounds in one API response.
pub const MAX_ROUNDS: u64 = 64;

/// Number of rounds that are read after those of the picture, because they decide about them.
const AFTER: u64 = 8;

/// Maximum number of rows of `dag_cars` that are read for a picture.
const MAX_CARS: i64 = 1_500;

/// Maximum number of validators in a picture while the committee is unknown.
const MAX_ROWS: u64 = 256;

/// Time in milliseconds before the first known decision, from which cars are shown if the slot before the picture is unknown.
const LEAD_MS: u64 = 1_000;

/// Maximum number of blocks listed for a picture.
const MAX_BLOCKS: i64 = 64;

/// Consecutive rounds, and the range of all stored rounds.
#[derive(Debug, Default)]
pub struct Window {
    /// Name of the engine.
    pub engine: String,
    /// Form of the order. With lanes, proposals are in `cars`.
    pub form: Form,
    /// First round of the picture.
    pub first: u64,
    /// Last round of the picture.
    pub last: u64,
    /// Oldest stored round.
    pub oldest: u64,
    /// Newest stored round.
    pub newest: u64,
    /// Rounds of the picture by number. Unknown rounds are missing.
    pub rounds: BTreeMap<u64, Round>,
    /// Round before the picture, which is not drawn.
    pub before: Option<Round>,
    /// Rounds after the picture, which are not drawn.
    pub after: BTreeMap<u64, Round>,
    /// Cars in the order in which the node accepted them. Cars for the same position in a lane are adjacent; an honest
    /// validator signs one per position.
    pub cars: Vec<DagVertex>,
    /// Autobahn: latest acceptance time of the cars that are drawn before each slot, in Unix milliseconds.
    pub until: BTreeMap<u64, u64>,
    /// Blocks with commits of the picture and some later blocks: first commit, last commit, number.
    pub blocks: Vec<(u64, u64, u64)>,
    /// Number of validators.
    pub size: u64,
    /// Votes of each validator by its position in the committee. Validators without an entry have one vote.
    pub votes: Vec<u64>,
    /// Number of votes in a quorum.
    pub quorum: u64,
}

impl Window {
    /// Loads the rounds around `about`, or the newest ones. Returns `None` if no round is stored.
    pub async fn load(app: &AppState, about: Option<u64>) -> Result<Option<Self>, Failure> {
        let Some((oldest, newest)) = stored_range(app).await? else { return Ok(None) };
        if let Some(round) = about.filter(|round| !(oldest..=newest).contains(round)) {
            let (round, oldest, newest) = (format::number(round), format::number(oldest), format::number(newest));
            let describe = if app.form() == Form::Rounds { lookup::no_round } else { lookup::no_slot };
            return Err(Failure::NotFound(describe(&round, &oldest, &newest)));
        }
        let last = about.map_or(newest, |round| (round + COLUMNS / 2 - 1).max(oldest + COLUMNS - 1).min(newest));
        let first = (last + 1).saturating_sub(COLUMNS).max(oldest);
        Self::fetch(app, first, last, (oldest, newest)).await.map(Some)
    }

    /// Loads a range for the API. The default of a missing bound follows from the other bound and the maximum length.
    pub async fn range(app: &AppState, from: Option<u64>, to: Option<u64>) -> Result<Option<Self>, Failure> {
        let Some((oldest, newest)) = stored_range(app).await? else { return Ok(None) };
        let most = MAX_ROUNDS;
        let last = to.unwrap_or(from.map_or(newest, |from| from.saturating_add(most - 1)));
        let first = from.unwrap_or((last.min(newest) + 1).saturating_sub(most));
        let (first, last) = (first.max(oldest), last.min(newest));
        if first > last {
            let (oldest, newest) = (format::number(oldest), format::number(newest));
            return Err(Failure::NotFound(lookup::no_rounds(&oldest, &newest)));
        }
        Self::fetch(app, first, last, (oldest, newest)).await.map(Some)
    }

    async fn fetch(app: &AppState, first: u64, last: u64, (oldest, newest): (u64, u64)) -> Result<Self, Failure> {
        let readers = app.database.readers();
        // Includes the slot before the first one: the time of its decision is the start of the first column.
        let text = "SELECT round, content FROM dag_rounds WHERE round >= $1 AND round <= $2 ORDER BY round LIMIT 74";
        let rows = sql(text).bind(int(first.saturating_sub(1))).bind(int(last + AFTER)).fetch_all(readers).await?;
        let mut rounds = BTreeMap::new();
        let committee = app.status().committee;
        let most = committee.as_ref().map_or(MAX_ROWS, |committee| committee.validators.len() as u64);
        for row in rows {
            let number = row.number("round")?;
            rounds.insert(number, validated(content(&row)?, number, most));
        }
        let after = rounds.split_off(&(last + 1));
        let engine = committee.as_ref().map(|committee| committee.engine.clone()).unwrap_or_default();
        let mut window = Self { first, last, oldest, newest, rounds, after, ..Self::default() };
        window.form = match &committee {
            Some(_) => Form::of(&engine),
            None if sql("SELECT 1 FROM dag_cars LIMIT 1").fetch_optional(readers).await?.is_some() => Form::Lanes,
            None if log::is_log(&window.rounds) => Form::Log,
            None => Form::Rounds,
        };
        window.engine = engine;
        if window.form.has_lanes() {
            window.fetch_cars(app).await?;
            window.cars.retain(|car| car.author < most);
            window.cars.iter_mut().for_each(|car| distinct(&mut car.holders, most));
        }
        if first > 0 {
            window.before = window.rounds.remove(&(first - 1));
        }
        window.fetch_blocks(app).await?;
        window.size = committee.as_ref().map_or(0, |committee| committee.validators.len() as u64).max(window.seen());
        let faulty = window.size.saturating_sub(1) / 3;
        window.quorum = committee.as_ref().map_or(window.size - faulty, |committee| committee.quorum);
        let validators = committee.into_iter().flat_map(|committee| committee.validators);
        window.votes = validators.map(|validator| validator.votes).collect();
        Ok(window)
    }

    /// Fills `until`: the time up to which cars are drawn before each slot. A slot that is not decided gets no cars; they are
    /// drawn before the next decided slot. Returns the time after which cars belong to this picture.
    pub fn divide(&mut self) -> u64 {
        let decided = |round: &Round| round.slots.iter().filter_map(|slot| slot.decided_ms).max();
        let known = self.rounds.values().find_map(decided).unwrap_or(0);
        // No cut precedes slot 1, so its column starts at time 0.
        let mut until = if self.first <= 1 { 0 } else { known.saturating_sub(LEAD_MS) };
        let mut begin = until;
        for number in self.first.saturating_sub(1)..=self.last {
            // Slots are decided in parallel, so a later one may be decided first.
            until = until.max(self.rounds.get(&number).and_then(decided).unwrap_or(0));
            if number < self.first {
                begin = until;
            } else {
                self.until.insert(number, until);
            }
        }
        begin
    }

    /// Reads the cars that were accepted between the slot before the first one and the last one.
    async fn fetch_cars(&mut self, app: &AppState) -> Result<(), Failure> {
        let begin = self.divide();
        let until = self.until.get(&self.last).copied().unwrap_or(begin);
        let end = if self.last == self.newest { i64::MAX } else { int(until) };
        let text = "SELECT content FROM dag_cars WHERE at_ms > $1 AND at_ms <= $2 ORDER BY at_ms LIMIT $3";
        let rows = sql(text).bind(int(begin)).bind(end).bind(MAX_CARS).fetch_all(app.database.readers()).await?;
        for row in rows {
            self.cars.extend(content::<Vec<DagVertex>>(&row)?);
        }
        Ok(())
    }

    /// Reads the blocks from the first commit of the picture on.
    async fn fetch_blocks(&mut self, app: &AppState) -> Result<(), Failure> {
        let commits = self.rounds.values().flat_map(|round| &round.slots).filter_map(|slot| self.commit_of(slot));
        let Some(first) = commits.min() else { return Ok(()) };
        let text = "SELECT number, first_commit, last_commit FROM blocks WHERE last_commit >= $1 ORDER BY last_commit LIMIT $2";
        let rows = sql(text).bind(int(first)).bind(MAX_BLOCKS).fetch_all(app.database.readers()).await?;
        for row in rows {
            let commits = (row.maybe_number("first_commit")?.unwrap_or(0), row.maybe_number("last_commit")?.unwrap_or(0));
            self.blocks.push((commits.0, commits.1, row.number("number")?));
        }
        Ok(())
    }

    /// Number of validators according to the known proposals and leaders.
    fn seen(&self) -> u64 {
        let leaders = self.rounds.values().flat_map(|round| &round.slots).map(|slot| slot.validator);
        self.vertices().map(|vertex| vertex.author).chain(leaders).max().map_or(0, |most| most + 1)
    }

    /// Votes of these validators together. A validator that occurs several times counts once.
    pub fn weigh(&self, validators: impl IntoIterator<Item = u64>) -> u64 {
        let distinct: BTreeSet<u64> = validators.into_iter().collect();
        let votes_of = |validator: u64| self.votes.get(validator as usize).copied().unwrap_or(1);
        // The numbers come from the node, so their sum may overflow.
        distinct.into_iter().map(votes_of).fold(0, u64::saturating_add)
    }

    /// Votes of all validators. Returns `None` if each validator has one vote, so that texts count validators.
    pub fn weighted_total(&self) -> Option<u64> {
        self.votes.iter().any(|votes| *votes != 1).then(|| self.weigh(0..self.size))
    }

    /// Round that identifies this window in links.
    pub fn middle(&self) -> u64 {
        (self.last + 1).saturating_sub(COLUMNS / 2).max(self.first)
    }

    /// All proposals of the picture.
    pub fn vertices(&self) -> impl Iterator<Item = &DagVertex> {
        self.rounds.values().flat_map(|round| &round.vertices).chain(&self.cars)
    }

    /// A round, of the picture or after it.
    pub fn round(&self, number: u64) -> Option<&Round> {
        self.rounds.get(&number).or_else(|| self.after.get(&number))
    }

    /// All rounds, including those after the picture.
    pub fn all_rounds(&self) -> impl Iterator<Item = &Round> {
        self.rounds.values().chain(self.after.values())
    }

    /// A proposal by its digest.
    pub fn vertex(&self, digest: B256) -> Option<&DagVertex> {
        self.and_after().find(|vertex| vertex.digest == digest)
    }

    /// A validator's proposal by the digest of its batch.
    pub fn proposal_with(&self, author: u64, batch: B256) -> Option<&DagVertex> {
        self.and_after().find(|vertex| vertex.author == author && vertex.batch_digest == Some(batch))
    }

    fn and_after(&self) -> impl Iterator<Item = &DagVertex> {
        self.vertices().chain(self.after.values().flat_map(|round| &round.vertices))
    }

    /// Number of a slot's commit. Under Autobahn and NeoBFT it is the number of the slot.
    pub fn commit_of(&self, slot: &LeaderSlot) -> Option<u64> {
        slot.commit.or((self.form != Form::Rounds).then_some(slot.round))
    }

    /// Numbers of the blocks that contain something of these slots' commits.
    pub fn blocks_of<'a>(&self, slots: impl IntoIterator<Item = &'a LeaderSlot>) -> Vec<u64> {
        let commits: Vec<u64> = slots.into_iter().filter_map(|slot| self.commit_of(slot)).collect();
        let holds = |(first, last, _): &&(u64, u64, u64)| commits.iter().any(|commit| (*first..=*last).contains(commit));
        self.blocks.iter().filter(holds).map(|(.., number)| *number).collect()
    }
}

/// Removes invalid data: items of unknown validators or of another round, and ranks beyond the number of validators. Each
/// validator is a row of the picture.
fn validated(mut round: Round, number: u64, validators: u64) -> Round {
    round.vertices.retain(|vertex| vertex.author < validators && vertex.round == number);
    round.slots.retain(|slot| slot.validator < validators && slot.rank < validators && slot.round == number);
    for slot in &mut round.slots {
        distinct(&mut slot.voters, validators);
        distinct(&mut slot.confirmers, validators);
    }
    round
}

/// Time at which the node had a proposal: its acceptance, otherwise its signature.
pub fn arrival_ms(vertex: &DagVertex) -> Option<u64> {
    vertex.accepted_ms.or(vertex.proposed_ms)
}

/// Proposals of equivocating authors: they signed another one for the same place. Proposals for one place must be adjacent.
pub fn equivocations(vertices: &[DagVertex]) -> BTreeSet<B256> {
    let places = vertices.chunk_by(|one, other| (one.author, one.round) == (other.author, other.round));
    places.filter(|place| place.len() > 1).flatten().map(|vertex| vertex.digest).collect()
}

/// Oldest and newest stored round.
async fn stored_range(app: &AppState) -> Result<Option<(u64, u64)>, Failure> {
    let end = |text| sql(text).fetch_optional(app.database.readers());
    let oldest = end("SELECT round FROM dag_rounds ORDER BY round LIMIT 1").await?;
    let newest = end("SELECT round FROM dag_rounds ORDER BY round DESC LIMIT 1").await?;
    let (Some(oldest), Some(newest)) = (oldest, newest) else { return Ok(None) };
    Ok(Some((oldest.number("round")?, newest.number("round")?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{database::Rows, testing};
    use corniche_api::SlotStatus;
    use std::sync::Arc;

    fn vertex(author: u64, round: u64) -> DagVertex {
        let digest = B256::with_last_byte(author as u8);
        DagVertex {
            round,
            author,
            digest,
            parents: vec![],
            batch_bytes: 0,
            batch_digest: None,
            proposed_ms: None,
            accepted_ms: None,
            holders: vec![],
        }
    }

    fn slot(validator: u64) -> LeaderSlot {
        LeaderSlot {
            round: 5,
            rank: validator,
            validator,
            status: SlotStatus::Undecided,
            digest: None,
            why: None,
            decided_ms: None,
            commit: None,
            voters: vec![],
            confirmers: vec![],
        }
    }

    /// Data of two validators of a committee of four, and data that the node invented.
    #[tokio::test]
    async fn unknown_authors_are_not_drawn() {
        let filled = testing::test_app().await;
        let vertices = vec![vertex(0, 5), vertex(1, 4), vertex(3, 5), vertex(4, 5), vertex(u64::MAX, 5)];
        let signed = LeaderSlot { voters: vec![3, 1, 1, 4], confirmers: vec![u64::MAX], ..slot(2) };
        let last_of_all = LeaderSlot { rank: u64::MAX, ..slot(1) };
        let stored = Round { vertices, slots: vec![signed, slot(1_000_000), last_of_all] };
        let mut rows = Rows::new("dag_rounds", &["round", "seen_ms", "content"]);
        rows.push([5_u64.into(), 1_u64.into(), serde_json::to_string(&stored).unwrap().into()]);
        filled.write(rows).await;
        let window = Window::load(&filled.app, None).await.unwrap().unwrap();
        assert_eq!((window.size, window.quorum), (4, 3));
        assert_eq!(window.vertices().map(|vertex| vertex.author).collect::<Vec<_>>(), [0, 3]);
        let expected = LeaderSlot { voters: vec![1, 3], ..slot(2) };
        assert_eq!(window.rounds[&5].slots, [expected]);
    }

    #[test]
    fn votes_of_distinct_validators_are_added() {
        let weighted = Window { size: 6, votes: vec![2, 2, 1, 1, 1], ..Window::default() };
        assert_eq!(weighted.weigh([0, 1, 2]), 5);
        assert_eq!(weighted.weigh([0, 2, 0, 0]), 3, "an author of several proposals counts once");
        assert_eq!(weighted.weigh([5, u64::MAX]), 2, "one vote without an entry");
        assert_eq!(weighted.weighted_total(), Some(8));
        let equal = Window { size: 4, votes: vec![1; 4], ..Window::default() };
        assert_eq!((equal.weigh([0, 1, 3]), equal.weighted_total()), (3, None));
        assert_eq!(Window { size: 4, ..Window::default() }.weighted_total(), None, "the committee is unknown");
        let invented = Window { size: 2, votes: vec![u64::MAX; 2], ..Window::default() };
        assert_eq!(invented.weighted_total(), Some(u64::MAX));
    }

    #[tokio::test]
    async fn votes_are_those_of_the_committee() {
        let mut filled = testing::test_app().await;
        let stored = Round { vertices: (0..7).map(|author| vertex(author, 5)).collect(), slots: vec![] };
        let mut rows = Rows::new("dag_rounds", &["round", "seen_ms", "content"]);
        rows.push([5_u64.into(), 1_u64.into(), serde_json::to_string(&stored).unwrap().into()]);
        filled.write(rows).await;
        filled.introduce_votes(&[2, 2, 1, 1, 1], 5);
        let window = Window::load(&filled.app, None).await.unwrap().unwrap();
        assert_eq!((window.size, window.votes, window.quorum), (5, vec![2, 2, 1, 1, 1], 5));
        Arc::get_mut(&mut filled.app).unwrap().indexer_status = Arc::default();
        let unknown = Window::load(&filled.app, None).await.unwrap().unwrap();
        assert_eq!((unknown.size, unknown.quorum, unknown.weigh(0..7)), (7, 5, 7), "one vote for each of the seen authors");
        assert_eq!(unknown.weighted_total(), None);
    }

    fn agreed(round: u64, at: u64) -> Round {
        let slot = LeaderSlot { round, status: SlotStatus::Committed, decided_ms: Some(at), ..slot(0) };
        Round { vertices: vec![], slots: vec![slot] }
    }

    /// Start of the first column and end of each column, for four slots. `agreed_on` contains slots with the time of their
    /// decision.
    fn divided(first: u64, agreed_on: &[(u64, u64)]) -> (u64, Vec<u64>) {
        let rounds = agreed_on.iter().map(|(number, at)| (*number, agreed(*number, *at))).collect();
        let mut window = Window { form: Form::Lanes, first, last: first + 3, rounds, ..Window::default() };
        let begin = window.divide();
        assert!(window.until.keys().copied().eq(first..first + 4));
        (begin, window.until.into_values().collect())
    }

    #[test]
    fn cars_belong_to_next_decided_slot() {
        let whole = divided(5, &[(4, 900), (5, 1_000), (6, 2_000), (7, 3_000), (8, 4_000)]);
        assert_eq!(whole, (900, vec![1_000, 2_000, 3_000, 4_000]), "since the one before the first");
        let open = divided(5, &[(6, 2_000), (8, 4_000)]);
        assert_eq!(open, (1_000, vec![1_000, 2_000, 2_000, 4_000]), "neither slot 5 nor slot 7 takes any");
        let crossed = divided(5, &[(4, 900), (5, 2_500), (6, 2_000), (7, 3_000), (8, 4_000)]);
        assert_eq!(crossed, (900, vec![2_500, 2_500, 3_000, 4_000]), "slot 6 was first");
        assert_eq!(divided(1, &[(1, 70_000)]), (0, vec![70_000; 4]), "the first cut of all takes whatever came before");
        assert_eq!(divided(5, &[]), (0, vec![0; 4]));
    }

    #[tokio::test]
    async fn cars_are_loaded_with_their_slots() {
        let filled = testing::test_app().await;
        filled.introduce("autobahn");
        let mut rows = Rows::new("dag_rounds", &["round", "seen_ms", "content"]);
        for (number, at) in [(6_u64, 5_000), (7, 6_000)] {
            rows.push([number.into(), 1_u64.into(), serde_json::to_string(&agreed(number, at)).unwrap().into()]);
        }
        filled.write(rows).await;
        let mut rows = Rows::new("dag_cars", &["lane", "position", "at_ms", "content"]);
        // There is no validator 4.
        for (lane, at) in [(0_u64, 3_999_u64), (1, 4_500), (2, 5_500), (3, 6_500), (4, 5_500)] {
            let cars = vec![DagVertex { accepted_ms: Some(at), holders: vec![4, 2, 0, 2], ..vertex(lane, 1) }];
            rows.push([lane.into(), 1_u64.into(), at.into(), serde_json::to_string(&cars).unwrap().into()]);
        }
        filled.write(rows).await;
        let window = Window::load(&filled.app, None).await.unwrap().unwrap();
        assert_eq!(window.form, Form::Lanes);
        assert_eq!(window.cars.iter().map(|car| car.author).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(window.cars.iter().all(|car| car.holders == [0, 2]), "{:?}", window.cars);
        assert_eq!(window.until, [(6, 5_000), (7, 6_000)].into());
    }

    #[test]
    fn slot_is_its_commit() {
        for (form, commit) in [(Form::Lanes, Some(5)), (Form::Log, Some(5)), (Form::Rounds, None)] {
            assert_eq!(Window { form, ..Window::default() }.commit_of(&agreed(5, 1).slots[0]), commit);
        }
    }
}
