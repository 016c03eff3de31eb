//! One engine, and what its peers and its disk do at bad times. Some of them lie: then a validator may be wrong, but goes on.

use corniche_engine::{Batch, Committee, Engine, Input, Output, Recipients, Resume, Ticket, Verified};
use corniche_lanes::{LaneContext, MAX_OPEN_BATCHES};
use corniche_racs::{
    Config, Racs, Setup,
    chain::Chain,
    message::{Block, BlockId, Context, Message, Rank, Round, Tip, Value, View},
    record::Record,
    rules::Coin,
    verify::Checked,
};
use corniche_racs_testing::committee;
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex, wire};
use std::{collections::BTreeMap, sync::Arc};

const ME: ValidatorIndex = ValidatorIndex(0);
const ONE: ValidatorIndex = ValidatorIndex(1);
const TWO: ValidatorIndex = ValidatorIndex(2);
const START: TimestampMs = TimestampMs(1_000);
const GENESIS: View = View(0);

/// Validator 0 of three, its disk, and what it sent.
struct Node {
    engine: Racs,
    context: Context,
    now: TimestampMs,
    writing: Vec<(Ticket, Bytes)>,
    disk: BTreeMap<Ticket, Bytes>,
    is_slow: bool,
    sent: Vec<(Recipients, Message)>,
    has_twin: bool,
    /// Point of the last delivery.
    resume: Resume,
}

impl Node {
    /// A new validator. The coin elects `elected` in view 0.
    fn new(elected: ValidatorIndex) -> Self {
        Self::start(elected, Resume::default())
    }

    /// A validator without records, which starts at this point. It lost its disk, unless it is the genesis.
    fn start(elected: ValidatorIndex, resume: Resume) -> Self {
        let committee: Committee = committee(3);
        let elects = |seed: &B256| Coin::new(&committee, *seed).elect(GENESIS) == elected;
        let genesis_randomness = (0..=255).map(B256::with_last_byte).find(elects).unwrap();
        let config = Config { genesis_randomness, status_ms: 60_000, ..Config::default() };
        let (context, records, unsigned, now) = (Context::new(&committee), Vec::new(), resume.is_genesis(), START);
        let setup = Setup { config, committee, me: ME, records, unsigned, resume: resume.clone(), now };
        let engine = Racs::new(setup);
        let (writing, disk, sent) = (Vec::new(), BTreeMap::new(), Vec::new());
        let mut node = Self { engine, context, now, writing, disk, is_slow: false, sent, has_twin: false, resume };
        node.settle();
        // The clocks of a majority.
        [ONE, TWO].into_iter().for_each(|from| {
            node.receive(from, Message::Progress { round: Round(0), view: GENESIS, delivered: 0, time: START })
        });
        node
    }

    /// Does what the engine asks for.
    fn settle(&mut self) {
        loop {
            while let Some(output) = self.engine.poll() {
                match output {
                    Output::Send { to, message } => self.sent.push((to, wire::decode(&message).unwrap())),
                    Output::Persist(ticket, record) => self.writing.push((ticket, record)),
                    Output::Deliver(ordered) => {
                        self.resume = Resume { index: ordered.index, checkpoint: ordered.checkpoint, ..Resume::default() };
                    }
                    Output::Twin(_) => self.has_twin = true,
                    Output::ReleaseBelow(ticket) => self.disk = self.disk.split_off(&ticket),
                    _ => {}
                }
            }
            if self.is_slow || self.writing.is_empty() {
                return;
            }
            let (ticket, record) = self.writing.remove(0);
            self.disk.insert(ticket, record);
            self.engine.handle(self.now, Input::Durable(ticket));
        }
    }

    fn handle(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        self.settle();
    }

    fn receive(&mut self, from: ValidatorIndex, message: Message) {
        self.handle(Input::Message { from, message: Verified(Arc::new(Checked(message))) });
    }

    /// The timer for sending again.
    fn resend(&mut self) {
        self.now = TimestampMs(self.now.0 + 500);
        self.handle(Input::Deadline);
    }

    fn count(&self, wanted: impl Fn(&Message) -> bool) -> usize {
        self.sent.iter().filter(|(_, message)| wanted(message)).count()
    }

    fn has_silence(&self) -> bool {
        self.disk.values().any(|record| matches!(wire::decode(record), Ok(Record::Silent(_))))
    }
}

fn id(view: u64, level: u8, round: u64, proposer: ValidatorIndex, digest: u64) -> BlockId {
    let rank = Rank { view: View(view), level, round: Round(round) };
    BlockId { rank, proposer, digest: B256::left_padding_from(&digest.to_be_bytes()) }
}

fn block(view: u64, level: u8, proposer: ValidatorIndex, parent: BlockId) -> Block {
    let rank = Rank { view: View(view), level, round: parent.rank.round.next() };
    Block { rank, proposer, parent, value: Value { time: START, tips: vec![Tip::default(); 3] } }
}

/// Blocks of one view, each on the one before.
fn blocks(context: &Context, parent: BlockId, count: usize) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for _ in 0..count {
        let parent = blocks.last().map_or(parent, |last| context.id(last));
        blocks.push(block(parent.rank.view.0, 0, ME, parent));
    }
    blocks
}

/// S6: after a lost disk, votes for a block arrive of which nothing else is left.
#[test]
fn votes_for_unknown_blocks_do_not_count() {
    let mut node = Node::new(ONE);
    let before = node.engine.footprint();
    for digest in 1..100 {
        for from in [ONE, TWO] {
            node.receive(from, Message::Vote { block: id(0, 0, 1, ME, digest), time: START });
            node.receive(from, Message::Vote { block: id(0, 2, 2, ME, digest), time: START });
        }
    }
    assert_eq!(node.engine.footprint(), before);
}

/// X18: a lie takes the elected block off the log before a quorum completed the view.
#[test]
fn committed_block_off_the_log_is_no_end() {
    let mut node = Node::new(ONE);
    [ONE, TWO].into_iter().for_each(|from| node.receive(from, Message::Timeout { view: GENESIS, high: BlockId::default() }));
    let level1 = block(0, 1, ONE, BlockId::default());
    let level2 = block(0, 2, ONE, node.context.id(&level1));
    let elected = node.context.id(&level2);
    node.receive(ONE, Message::ProposeAsync { block: level2, parent: Some(level1) });
    node.receive(ONE, Message::Complete { block: elected });
    node.receive(TWO, Message::Decided(vec![block(0, 0, ME, BlockId::default())]));
    node.receive(TWO, Message::Complete { block: id(0, 2, 1, TWO, 1) });
    assert!(node.engine.describe().starts_with("view 1,"), "{}", node.engine.describe());
}

/// A1: a block that a stored timeout names survives the next view, which starts from another one.
#[test]
fn block_of_a_stored_timeout_is_kept() {
    let mut node = Node::new(ONE);
    let level1 = block(0, 1, TWO, BlockId::default());
    let level2 = block(0, 2, TWO, node.context.id(&level1));
    let high = node.context.id(&level2);
    node.receive(TWO, Message::Timeout { view: View(1), high });
    assert_eq!(node.count(|message| matches!(message, Message::FetchBlocks { block, .. } if *block == high)), 1);
    node.receive(TWO, Message::Blocks(vec![level1, level2]));
    node.receive(ONE, Message::Ahead { view: View(1), high: BlockId::default() });
    node.receive(ONE, Message::Timeout { view: View(1), high: BlockId::default() });
    let is_on_it = |message: &Message| matches!(message, Message::ProposeAsync { block, .. } if block.parent == high);
    assert_eq!(node.count(is_on_it), 1, "{}", node.engine.describe());
}

/// J2: a full response without anything new must not ask for the next one.
#[test]
fn full_responses_that_add_nothing_start_no_loop() {
    let mut node = Node::new(ONE);
    let progress = |node: &Node| node.count(|message| matches!(message, Message::Progress { .. }));
    let (context, before) = (node.context, progress(&node));
    node.receive(ONE, Message::Decided(blocks(&context, id(0, 0, 2_000, ME, 1), 256)));
    assert_eq!(progress(&node), before);
    let log = blocks(&context, BlockId::default(), 256);
    node.receive(ONE, Message::Decided(log.clone()));
    assert_eq!(progress(&node), before + 1);
    node.receive(ONE, Message::Decided(log));
    assert_eq!(progress(&node), before + 1);
}

/// A validator ahead in rounds and one ahead in views do not answer each other for ever.
#[test]
fn progress_is_answered_once_between_two_timers() {
    let mut node = Node::new(ONE);
    let answers = |node: &Node| node.count(|message| matches!(message, Message::Progress { .. }));
    let before = answers(&node);
    let ahead = || Message::Progress { round: Round(10), view: GENESIS, delivered: 0, time: START };
    (0..5).for_each(|_| node.receive(ONE, ahead()));
    assert_eq!(answers(&node), before + 1);
    node.resend();
    node.receive(ONE, ahead());
    assert_eq!(answers(&node), before + 2);
}

/// D7: the leader missed the announcement of the last batch, and blocks of others go on.
#[test]
fn completion_is_announced_until_a_block_covers_it() {
    let mut node = Node::new(ONE);
    let announced = |node: &Node| node.count(|message| matches!(message, Message::Completed { .. }));
    node.receive(ONE, Message::Ahead { view: View(1), high: BlockId::default() });
    node.handle(Input::Batch(Batch { bytes: Bytes::from(vec![1]) }));
    let own = node.sent.iter().find_map(|(_, message)| if let Message::Batch(batch) = message { Some(batch) } else { None });
    let tip = LaneContext::new(&committee(3), "corniche-racs-batch").tip(own.unwrap());
    node.receive(TWO, Message::BatchVote { tip });
    node.handle(Input::Deadline);
    let mut last = BlockId::default();
    for count in 1..4 {
        assert_eq!(announced(&node), count);
        let next = block(1, 0, ONE, last);
        last = node.context.id(&next);
        node.receive(TWO, Message::Decided(vec![next]));
        node.resend();
    }
}

/// X14: a lost timeout does not keep a validator silent on an idle chain.
#[test]
fn leaving_a_view_is_said_again() {
    let mut node = Node::new(ONE);
    let timeouts = |node: &Node| node.count(|message| matches!(message, Message::Timeout { .. }));
    for count in 1..4 {
        node.receive(TWO, Message::Leave { through: GENESIS });
        assert_eq!(timeouts(&node), count);
    }
}

/// X14, §2: the record of the silence goes when the state that ends it is on disk.
#[test]
fn silence_outlives_the_state_being_written() {
    let mut before = Node::new(ONE);
    before.receive(TWO, Message::Decided(vec![block(1, 0, ONE, BlockId::default())]));
    assert!(!before.resume.is_genesis(), "it delivered a block, and lost its disk after that");
    let mut node = Node::start(ONE, before.resume);
    let asked =
        node.sent.iter().find_map(|(_, message)| if let Message::AskView { run } = message { Some(*run) } else { None });
    let run = asked.unwrap_or(START);
    [ONE, TWO]
        .into_iter()
        .for_each(|from| node.receive(from, Message::InView { run, view: GENESIS, round: None, time: START }));
    assert!(node.engine.describe().contains("silence Through(View(1))"), "{}", node.engine.describe());
    node.receive(TWO, Message::AskView { run: START });
    let report = Message::InView { run: START, view: View(1), round: None, time: START };
    assert_eq!(node.count(|message| *message == report), 1, "it does not know the rounds of its earlier votes");
    node.is_slow = true;
    node.receive(ONE, Message::Ahead { view: View(2), high: BlockId::default() });
    assert!(node.has_silence(), "power may fail now");
    node.is_slow = false;
    node.settle();
    assert!(node.engine.describe().contains("silence Nowhere"), "{}", node.engine.describe());
    assert!(!node.has_silence());
}

/// §2: after a restart, the blocks that votes rely on come before the old ones of the log.
#[test]
fn open_blocks_have_room_after_a_restart() {
    let context = Context::new(&committee(3));
    let all = blocks(&context, BlockId::default(), 20);
    let (checkpoint, committed, last) = (context.id(&all[14]), context.id(&all[16]), context.id(&all[19]));
    let chain = Chain::recover(context, all, checkpoint, Some(committed), 8);
    assert!(chain.holds(&last));
    assert_eq!((chain.committed(), chain.count(), chain.first()), (committed, 8, Some(Round(13))));
}

/// K5: after a start, blocks name an own batch that no earlier run can have made.
#[test]
fn twin_is_found_by_its_batches() {
    let is_noticed = |round: Option<Round>, number: u64| {
        let mut node = Node::new(ONE);
        let report = Message::InView { run: START, view: GENESIS, round, time: START };
        [ONE, TWO].into_iter().for_each(|from| node.receive(from, report.clone()));
        let mut block = block(0, 0, ME, BlockId::default());
        block.value.tips[0].number = number;
        node.receive(ONE, Message::Decided(vec![block]));
        node.has_twin
    };
    let room = MAX_OPEN_BATCHES + 1;
    assert!(!is_noticed(Some(Round(0)), room), "an earlier run had a full lane, and its disk was lost");
    assert!(is_noticed(Some(Round(0)), room + 1));
    assert!(!is_noticed(Some(Round(1)), room + 1), "an earlier run knew block 1, in which any of its batches may be");
    assert!(!is_noticed(None, room + 1), "both others lost their disks");
}
