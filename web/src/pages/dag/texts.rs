//! Texts of the page that shows the consensus DAG, or the log of an engine without one.

use crate::indexer::dag::Form;

pub const TITLE: &str = "Consensus DAG";
pub const LEAD: &str = "A circle is a batch of transactions that a validator proposed. Lines lead to its parent proposals. There are no \
     separate vote messages: a proposal votes by its choice of parents.";
pub const LEAD_LANES: &str = "Each validator has a lane. A circle is a car: a batch of transactions that other validators store as well. \
     Leaders take turns to propose cuts through all lanes, drawn as vertical lines. A committed cut orders all cars \
     up to it. A car is drawn before the first cut that was decided after the car arrived, because the node does not \
     report the cars of a cut.";
pub const TITLE_LOG: &str = "Packet log";
pub const LEAD_LOG: &str = "A sequencer gives every request of the validators a number. The validators append these packets to one log, slot \
     by slot, in the order of the numbers. A packet is final when a quorum has it at the same place in the same log. \
     The validators agree only about numbers whose packets were lost.";
pub const LEAD_BATCHES: &str = "Each validator has a lane. A circle is a batch of transactions, which its author sent to all. Validators propose how far each \
     lane is ordered, and agree on one proposal for each slot, drawn as a vertical line. A batch is drawn before the first slot \
     that was decided after the batch arrived, because the node does not report the batches of a slot. This engine tolerates \
     crashes only: one validator that lies can split the chain.";
pub const TITLE_NUMBERS: &str = "Batch log";
pub const LEAD_NUMBERS: &str = "All validators lead at the same time. Each leader proposes batches of transactions for numbers of its own, and the validators \
     agree on every number separately. Numbers are final in any order, but executed in theirs. A leader whose numbers are \
     overdue is removed for a while, and a new epoch with other leaders begins.";
/// Replaces [`EMPTY`] if leaders propose for numbers.
pub const EMPTY_NUMBERS: &str = "No batches yet. An idle network orders an empty batch of each leader about once a second.";
pub const NONE: &str = "No DAG data available.";
pub const NONE_HINT: &str = "Only validators take part in consensus. A full node receives ordered blocks, so it has no DAG. Connect the \
     explorer to a validator that keeps its consensus trace.";
pub const EMPTY: &str = "No DAG data yet. An idle network proposes nothing: send a transaction.";
/// Replaces [`EMPTY`] if the engine orders a log.
pub const EMPTY_LOG: &str = "No packets yet. The log is empty until the sequencer sends the first packet.";
/// Note about events that the node dropped; their number precedes it.
pub const DROPPED: &str =
    "events were dropped by the node's trace since the start of the node, so the picture may be incomplete.";
pub const PICTURE: &str = "Proposals by validator and round, with their parents";
/// Accessible name of the picture of a log.
pub const PICTURE_LOG: &str = "Slots of the log with their status";
pub const ROUND: &str = "Round";
pub const SLOT: &str = "Slot";
pub const VALIDATOR: &str = "Validator";
pub const NOT_CUT: &str = "not ordered yet";
/// Replaces [`NOT_CUT`] if newer slots exist. The column then contains cars whose position another car of the lane had taken.
pub const CAME_LATER: &str = "late";
pub const EARLIER: &str = "Previous";
pub const LATER: &str = "Next";
pub const NEWEST: &str = "Latest";
pub const SHOW: &str = "Show";
pub const ROUNDS: &str = "Rounds";
pub const SLOTS: &str = "Slots";
pub const FOLLOWS: &str = "Live: new columns appear at the right. Arrow keys move the selection.";
pub const FACTS: &str = "Selection";
pub const FACTS_EMPTY: &str =
    "Select a circle for the proposal and its parents. Select the shape around a leader for its votes and its verdict.";
/// Note in the empty panel under Autobahn.
pub const FACTS_EMPTY_LANES: &str = "Select a circle for the car, its parents and its holders. Select the sign on a cut for its leader, its votes and \
     its rule.";
/// Note in the empty panel of a log.
pub const FACTS_EMPTY_LOG: &str = "Select a slot for its packet, its status and its times.";
/// Note in the empty panel under engines for crashes.
pub const FACTS_EMPTY_BATCHES: &str =
    "Select a circle for the batch. Select the sign on a line for the slot, its proposer and its rule.";
/// Note in the empty panel of a log of batches.
pub const FACTS_EMPTY_NUMBERS: &str = "Select a slot for its batch, its status and its times.";
pub const FACTS_GONE: &str = "The selected item is not in these rounds.";
/// Replaces [`FACTS_GONE`] if the engine orders a log.
pub const FACTS_GONE_LOG: &str = "The selected item is not in these slots.";
pub const TABLE: &str = "Show as table";
pub const LEGEND: &str = "Legend";
pub const SIGN_ORDERED: &str = "ordered proposal; size by bytes of transactions";
pub const SIGN_WAITS: &str = "proposal that is not ordered yet";
pub const SIGN_COMMITTED: &str = "square: leader, committed";
pub const SIGN_SKIPPED: &str = "crossed diamond: leader, skipped";
pub const SIGN_UNDECIDED: &str = "dashed ring: leader, undecided";
pub const SIGN_VOTE: &str = "triangle: vote for the selected leader";
pub const SIGN_CERTIFICATE: &str = "star: certificate, which has a quorum of votes as parents";
pub const SIGN_CAR: &str = "car before the newest cut; size by bytes of transactions";
pub const SIGN_CAR_WAITS: &str = "car after the newest cut";
pub const SIGN_FAST: &str = "square and full line: cut committed on the fast path";
pub const SIGN_SLOW: &str = "diamond and dashed line: cut committed on the slow path";
pub const SIGN_SIGNED: &str = "triangle: voter for the selected cut, or holder of the selected car";
pub const SIGN_CONFIRMED: &str = "star: confirmation of the selected cut, in the second phase of the slow path";
pub const SIGN_PACKET: &str = "circle: request; size by bytes of transactions";
pub const SIGN_FINAL: &str = "square: final";
pub const SIGN_GAP: &str = "crossed diamond: gap, a number without a request";
pub const SIGN_PENDING: &str = "dashed ring: in the log, not final yet";
pub const SIGN_EPOCH: &str = "vertical line: an epoch begins";
pub const SIGN_BATCH: &str = "batch before the newest decided slot; size by bytes of transactions";
pub const SIGN_BATCH_WAITS: &str = "batch after the newest decided slot";
pub const SIGN_ONE: &str =
    "square and full line: one proposer alone decided, or the decision was learned from another validator";
pub const SIGN_SEVERAL: &str = "diamond and dashed line: several proposers agreed, for example because the leader was slow";
pub const SIGN_NUMBER: &str = "circle: batch; size by bytes of transactions";
pub const SIGN_NULL: &str = "crossed diamond: null, a number without a batch";
pub const SIGN_EPOCH_OF_LEADERS: &str = "vertical line: an epoch with other leaders begins";
pub const PROPOSES: &str = "proposes";
pub const CASTS_VOTES: &str = "votes";
pub const CERTIFIES: &str = "certifies";
pub const FEW_EDGES: &str = "Only the lines of leaders and of the selected proposal are drawn, because the committee is large.";
pub const EXPLAINED: &str = "Glossary";
pub const DIGEST: &str = "Digest";
pub const AUTHOR: &str = "Proposed by";
pub const POSITION: &str = "Position in lane";
pub const PARENTS: &str = "Parents";
pub const CHILDREN: &str = "Children";
pub const BYTES: &str = "Transactions";
pub const PROPOSED: &str = "Signed";
pub const ACCEPTED: &str = "Accepted";
pub const LEADER: &str = "Leader";
pub const VERDICT: &str = "Verdict";
pub const WHY: &str = "Rule";
pub const DECIDED: &str = "Decided";
pub const PROPOSAL: &str = "Proposal";
pub const VOTES: &str = "Votes";
pub const CERTIFICATES: &str = "Certificates";
pub const CONFIRMATIONS: &str = "Confirmations";
pub const HOLDERS: &str = "Held by";
pub const BLOCKS: &str = "Block";
pub const COMMIT: &str = "Commit";
pub const BATCH: &str = "Batch";
pub const BLOCKS_HERE: &str = "Blocks of these rounds";
pub const BLOCKS_NOTE: &str =
    "Blocks with transactions that leaders of these rounds committed. Select a leader or a proposal for its own blocks.";
pub const NO_BLOCK: &str = "none: without transactions, or not executed yet";
pub const NO_VERTEX: &str = "unknown";
pub const NO_BYTES: &str = "none";
pub const NO_TRANSACTIONS: &str = "no transactions";
pub const PROPOSALS: &str = "Proposals";
pub const LEADERS: &str = "Leaders and verdicts";
pub const COMMITTED: &str = "committed";
pub const SKIPPED: &str = "skipped";
pub const UNDECIDED: &str = "undecided";
pub const UNKNOWN: &str = "unknown";
pub const NO_LEADERS: &str = "leaders not known yet";
pub const EPOCH: &str = "Epoch";
pub const EPOCHS: &str = "Epochs";
pub const NUMBER: &str = "Number";
pub const PACKETS: &str = "Packets";
pub const GAPS: &str = "Gaps";
pub const CONTENT: &str = "Content";
pub const STATUS: &str = "Status";
pub const TOOK: &str = "Time to finality";
pub const FINALIZED: &str = "Final";
/// Label of requests that were in the slot before the log was rolled back.
pub const REPLACED: &str = "Replaced";
pub const FINAL: &str = "final";
pub const GAP: &str = "gap";
pub const PENDING: &str = "not final yet";
/// Replaces [`GAP`] if leaders propose for numbers.
pub const NULL: &str = "null";
pub const NULLS: &str = "Nulls";
pub const BATCHES: &str = "Batches";
/// Explanation beside [`NULL`].
pub const NULL_MEANS: &str = "a new epoch found no batch that could be final";
/// Explanation beside [`GAP`].
pub const GAP_MEANS: &str = "lost everywhere; the validators agreed that the number has no request";
/// Explanation beside [`PENDING`].
pub const PENDING_MEANS: &str = "in the log";
pub const CLOCK: &str = "clock";
pub const HEARTBEAT: &str = "heartbeat";
/// Block of a slot's transactions; its link follows.
pub const IN_BLOCK: &str = "block";
pub const CONTRADICTION: &str = "equivocation: two proposals for one position";
pub const BAD_PICK: &str =
    "Invalid selection: expected a digest (0x and 64 hexadecimal digits), AUTHOR-DIGEST of a batch, or ROUND.RANK of a leader.";

/// Terms of Mahi-Mahi and their explanations.
pub const WORDS: [(&str, &str); 6] = [
    (
        "Round",
        "A validator makes one proposal per round. The proposal has parents from the previous round, from at least a \
         quorum of validators. No validator waits for a particular other one, so a slow validator delays nothing.",
    ),
    (
        "Leader",
        "A common coin selects the leaders of a round a few rounds later. It needs shares of a quorum, so it is \
         unknown before. The votes are cast by then: an attacker cannot delay exactly the proposals of the leaders.",
    ),
    (
        "Vote",
        "A proposal of the voting round votes for a leader by its links: the first proposal of the leader's round and \
         author that they reach has the vote. A proposal of the next round with a quorum of votes as parents is a \
         certificate.",
    ),
    (
        "Commit",
        "A leader's proposal is committed when a quorum of validators has certificates for it. The commit orders all \
         proposals that its links reach and that are not ordered yet, oldest first. Blocks are cut from this order.",
    ),
    (
        "Skip",
        "A leader is skipped when a quorum does not vote for it, for example because its proposal was late. Nothing is \
         lost: a later leader orders a late proposal.",
    ),
    (
        "Undecided",
        "The leader is neither committed nor skipped yet. The next committed leader decides: it commits the slot if \
         its history has a certificate for it, and skips it otherwise. Later slots wait for the decision.",
    ),
];

/// Terms of Autobahn and their explanations.
pub const WORDS_LANES: [(&str, &str); 6] = [
    (
        "Lane and car",
        "Each validator has a lane, to which it appends batches of transactions, called cars. A car is available once \
         so many validators store it that at least one of them is honest. Lanes need no leader and grow even while \
         consensus stalls.",
    ),
    (
        "Slot",
        "Positions in the order are numbered slots. Several slots run in parallel. The number of a slot is the number \
         of its commit in blocks.",
    ),
    (
        "Leader",
        "The leaders of the slots rotate. A leader proposes a cut: the position of each lane up to which cars are \
         ordered. A faster lane has more cars in a cut.",
    ),
    (
        "Vote",
        "Validators vote for the cut by message. Fast path: all validators vote in time, and the cut commits at once. \
         Slow path: a quorum votes, and then confirms in a second phase.",
    ),
    (
        "Commit",
        "A committed cut orders all cars up to it that no earlier cut has ordered, lane by lane. So one cut catches up \
         after an outage.",
    ),
    (
        "Skip",
        "Slots are never skipped. If a leader does not respond, the validators move to the next view of the slot, \
         which has another leader. The rule of a cut names its view.",
    ),
];

/// Terms of NeoBFT and their explanations.
pub const WORDS_LOG: [(&str, &str); 7] = [
    (
        "Sequencer",
        "A process or a network device that gives each request the next number and an authenticator, and sends it to all \
         validators as a packet. It sends heartbeats while there are no requests.",
    ),
    (
        "Packet",
        "A request of a validator with its number. The request carries a batch of transactions, or only the clock of its \
         author.",
    ),
    (
        "Slot",
        "Positions in the log are numbered slots. Each holds a packet or a gap. Numbers begin again with each epoch, \
         slots do not. The number of a slot is the number of its commit in blocks.",
    ),
    (
        "Final",
        "A validator sends each packet's place and the hash of its log to all others. A slot is final when a quorum \
         reports the same log up to it. Before that, a new view can put another packet into the slot.",
    ),
    (
        "Gap",
        "A number without a request. A validator that misses a packet gets it from another one. If nobody has it, the \
         validators agree that the number stays empty. Its author sends the request again.",
    ),
    (
        "Epoch of the group",
        "The numbers of one sequencer. If it fails, a quorum of validators signs where the epoch ends, and the next sequencer \
         begins a new one. A single sequencer also serves the next epoch. Epochs of the committee are unrelated.",
    ),
    (
        "View",
        "A period with one leader. The leader has a part only in agreement about lost packets. A new view begins if the \
         leader or the sequencer fails, with a log that contains all final slots.",
    ),
];

/// Terms of engines for crashes and their explanations.
pub const WORDS_BATCHES: [(&str, &str); 5] = [
    (
        "Lane and batch",
        "Each validator has a lane, to which it appends batches of transactions. It sends them to all others, so any of them can \
         propose their order.",
    ),
    ("Slot", "Positions in the order are numbered slots. The number of a slot is the number of its commit in blocks."),
    (
        "Proposal",
        "A proposal names the last ordered batch of each lane, so its size does not depend on the batches. If another proposal \
         wins, nothing is lost: the winner names the same lanes.",
    ),
    (
        "Decision",
        "A slot is decided when validators with a majority of the votes have recorded the same proposal. If its usual proposer \
         is slow or dead, others help.",
    ),
    (
        "Crashes only",
        "Validators may crash, be slow and come back. They must not lie: signatures do not protect the order from a validator \
         that sends different answers to different others.",
    ),
];

/// Terms of Mir-BFT and their explanations.
pub const WORDS_NUMBERS: [(&str, &str); 5] = [
    (
        "Number",
        "Positions in the order are numbers. Each belongs to one leader, and leaders take turns. The number is also the number of \
         its commit in blocks.",
    ),
    (
        "Batch",
        "Transactions that a leader proposes for its number. A leader without transactions proposes an empty batch, because \
         others wait for its number.",
    ),
    (
        "Final",
        "The leader sends its batch to all. The validators answer in two phases, each with a quorum of votes. Then the batch is \
         final.",
    ),
    (
        "Null",
        "A number for which a new epoch found no batch that could be final. It orders nothing. Its author proposes the \
         transactions again.",
    ),
    (
        "Epoch of leaders",
        "A period with one set of leaders. If a number is overdue, the validators begin a new epoch without the suspect. After some \
         time it may lead again. Epochs of the committee are unrelated.",
    ),
];

/// Prefixes of the engine's rules and their explanations. The first matching prefix applies.
pub const RULES: [(&str, &str); 21] = [
    ("leader", "a quorum of validators recorded the proposal of the slot's leader first, so one round trip was enough."),
    ("common", "several validators proposed, and a quorum recorded this proposal as the best one."),
    ("votes", "a quorum of validators voted for this block of the leader."),
    ("coin", "the leader was too slow. All validators proposed, and the common coin elected this block."),
    ("proposed", "a quorum of validators accepted the proposer's own value."),
    ("adopted", "a proposer completed a value that another one had begun."),
    ("learned", "another validator reported the decision."),
    ("committed", "a quorum of validators committed the batch in this epoch of leaders."),
    ("null", "the new epoch found no batch that could be final for this number."),
    ("packet", "a quorum of validators has the packet with this number at the same place in the same log."),
    ("gap", "nobody had the packet with this number. The validators agreed that it has no request."),
    ("direct:", "proposals of a quorum of validators are certificates for it, so the verdict is final."),
    ("skipped: no block", "no proposal of the leader is known in this round, so it cannot have votes."),
    ("skipped: no votes", "it has no votes, so it can never have a certificate."),
    ("skipped: anchor", "its own votes did not decide. A later committed leader decides, and its history has no certificate."),
    ("skipped:", "a quorum does not vote for it, so it can never have a certificate."),
    ("anchor", "its own certificates did not decide. A later committed leader decides, and its history has a certificate."),
    ("fast in view 0", "all validators voted for the cut of the first leader in time, so no second phase was needed."),
    (
        "slow in view 0",
        "not all validators voted in time: a quorum voted for the cut of the first leader, and confirmed it in a \
         second phase.",
    ),
    ("fast", "earlier leaders of the slot timed out. Then all validators voted for the cut of this leader in time."),
    (
        "slow",
        "earlier leaders of the slot timed out. Then a quorum voted for the cut of this leader, and confirmed it in a \
         second phase.",
    ),
];
/// Explanation of a rule without an entry in [`RULES`].
pub const OTHER_RULE: &str = "rule of the engine without a description here.";

/// Title of the page.
pub fn title(form: Form) -> &'static str {
    match form {
        Form::Rounds | Form::Lanes | Form::Batches => TITLE,
        Form::Log => TITLE_LOG,
        Form::Numbers => TITLE_NUMBERS,
    }
}

/// Introduction of the page.
pub fn lead(form: Form) -> &'static str {
    match form {
        Form::Rounds => LEAD,
        Form::Lanes => LEAD_LANES,
        Form::Batches => LEAD_BATCHES,
        Form::Log => LEAD_LOG,
        Form::Numbers => LEAD_NUMBERS,
    }
}

/// Text of the page without rounds.
pub fn empty(form: Form) -> &'static str {
    match form {
        Form::Rounds | Form::Lanes | Form::Batches => EMPTY,
        Form::Log => EMPTY_LOG,
        Form::Numbers => EMPTY_NUMBERS,
    }
}

/// Accessible name of the picture of lanes.
pub fn picture_lanes(form: Form) -> &'static str {
    if form == Form::Lanes { "Lanes of cars with cuts" } else { "Lanes of batches with decided slots" }
}

/// Name of a proposal in a lane; its position follows.
pub fn car(form: Form) -> &'static str {
    if form == Form::Lanes { "Car" } else { BATCH }
}

/// Heading of the proposals before a slot.
pub fn cars(form: Form) -> &'static str {
    if form == Form::Lanes { "Cars before the cut" } else { "Batches before the slot" }
}

/// Name of the columns.
pub fn places(form: Form) -> &'static str {
    if form == Form::Rounds { ROUNDS } else { SLOTS }
}

/// Name of a column's number.
pub fn place(form: Form) -> &'static str {
    if form == Form::Rounds { ROUND } else { SLOT }
}

/// Text of the panel without a selection.
pub fn facts_empty(form: Form) -> &'static str {
    match form {
        Form::Rounds => FACTS_EMPTY,
        Form::Lanes => FACTS_EMPTY_LANES,
        Form::Batches => FACTS_EMPTY_BATCHES,
        Form::Log => FACTS_EMPTY_LOG,
        Form::Numbers => FACTS_EMPTY_NUMBERS,
    }
}

/// Text of the panel if the selected item is in another window.
pub fn facts_gone(form: Form) -> &'static str {
    if form.is_log() { FACTS_GONE_LOG } else { FACTS_GONE }
}

/// Terms and their explanations.
pub fn words(form: Form) -> &'static [(&'static str, &'static str)] {
    match form {
        Form::Rounds => &WORDS,
        Form::Lanes => &WORDS_LANES,
        Form::Batches => &WORDS_BATCHES,
        Form::Log => &WORDS_LOG,
        Form::Numbers => &WORDS_NUMBERS,
    }
}

/// A slot of a log in one sentence.
pub fn entry(slot: u64, status: &str, facts: &[String]) -> String {
    let facts = if facts.is_empty() { String::new() } else { format!(": {}", facts.join(", ")) };
    format!("{SLOT} {slot}, {status}{facts}")
}

/// Place of a packet in its sequencer's sequence.
pub fn stamp(number: u64, epoch: u64) -> String {
    format!("number {number} of epoch {epoch}")
}

/// Label at the first slot of an epoch.
pub fn epoch(epoch: u64) -> String {
    format!("epoch {epoch}")
}

/// Heading of the slots of an epoch.
pub fn epoch_begins(form: Form, epoch: &str) -> String {
    let why = if form == Form::Log { "the sequencer was replaced" } else { "the leaders change" };
    format!("{EPOCH} {epoch} begins: {why}")
}

/// Range of slots or epochs.
pub fn range(first: &str, last: &str) -> String {
    if first == last { first.to_owned() } else { format!("{first} to {last}") }
}

/// Numbers of packets by status.
pub fn packets(finals: usize, pending: usize, unknown: usize) -> String {
    let mut text = format!("{finals} {FINAL}");
    for (count, status) in [(pending, PENDING), (unknown, UNKNOWN)] {
        if count > 0 {
            text += &format!(", {count} {status}");
        }
    }
    text
}

/// Time between the signature of a request and its finality.
pub fn after_author_signed(took: &str) -> String {
    format!("{took} after its author signed it")
}

/// Time between the acceptance of a request and its finality.
pub fn after_accepted(took: &str) -> String {
    format!("{took} after it was accepted")
}

/// Error: no round or slot is known yet.
pub fn no_round_yet(form: Form, round: &str) -> String {
    format!("{} {round} not found: no {} are known yet.", place(form), places(form).to_lowercase())
}

/// A proposal in one sentence: position, author, size and number of parents.
pub fn proposal(place: &str, author: u64, bytes: &str, parents: usize) -> String {
    format!("{place}, {VALIDATOR} {author}: {bytes}, {}", builds_on(parents))
}

/// Number of parents of a proposal.
pub fn builds_on(parents: usize) -> String {
    format!("parents: {parents}")
}

/// A leader of Mahi-Mahi in one sentence.
pub fn leader(round: u64, rank: u64, validator: u64, verdict: &str) -> String {
    format!("{LEADER} {rank} of round {round}: validator {validator}, {verdict}")
}

/// A cut of Autobahn in one sentence.
pub fn cut(slot: u64, leader: u64, verdict: &str) -> String {
    format!("{SLOT} {slot}, {VALIDATOR} {leader} leads: {verdict}")
}

/// Rank of a leader whose round is already given.
pub fn rank(rank: u64) -> String {
    format!("rank {rank}")
}

/// Rank of a leader, shown beside its validator.
pub fn rank_in_round(rank: u64) -> String {
    format!("rank {rank} of its round")
}

/// Number of proposals that vote for a leader.
pub fn votes(voters: usize, proposals: usize, round: u64, quorum: u64) -> String {
    format!("{voters} of {proposals} proposals of round {round}, a quorum is {quorum}")
}

/// [`votes`] if validators have several votes: the votes of the proposals' authors out of all votes.
pub fn weighted_votes((voters, proposals): (usize, usize), round: u64, (votes, total): (u64, u64), quorum: u64) -> String {
    format!("{voters} of {proposals} proposals of round {round}, {votes} of {total} votes, a quorum is {quorum}")
}

/// Number of certificates for a leader.
pub fn certificates(count: usize, round: u64) -> String {
    format!("{count} in round {round}")
}

/// Number of signers out of all validators.
pub fn signers(signers: usize, validators: u64) -> String {
    format!("{signers} of {validators} validators")
}

/// [`signers`] if validators have several votes: also their votes out of all votes.
pub fn weighted_signers(signers: usize, validators: u64, votes: u64, total: u64) -> String {
    format!("{} with {votes} of {total} votes", self::signers(signers, validators))
}

/// [`signers`] or [`weighted_signers`] with the size of the quorum.
pub fn signers_of_quorum(signers: &str, quorum: u64) -> String {
    format!("{signers}, a quorum is {quorum}")
}

/// Number of validators, if they are too many to name.
pub fn validators(count: usize) -> String {
    format!("{count} validators")
}

/// Holders of a car, in a sentence.
pub fn held_by(names: &str) -> String {
    format!("held by {names}")
}

/// Voters for a cut, in the table.
pub fn voted_by(names: &str) -> String {
    format!("voted by {names}")
}

/// Validators that confirmed a cut in the second step, in the table.
pub fn confirmed_by(names: &str) -> String {
    format!("confirmed by {names}")
}

/// Time between the signature of a proposal and its acceptance.
pub fn after_signed(took: &str) -> String {
    format!("{took} after signing")
}

/// Time between the signature of the leader's proposal and the verdict.
pub fn after_leader_signed(took: &str) -> String {
    format!("{took} after the leader signed its proposal")
}

/// Time between the arrival of the leader's proposal and the verdict, if another validator signed the proposal.
pub fn after_leader_came(took: &str) -> String {
    format!("{took} after the leader's proposal arrived")
}

/// Time between the arrival of a proposal and the verdict, in the table.
pub fn after_came(took: &str) -> String {
    format!("{took} after its proposal arrived")
}

/// Texts of the picture's script, by the names the script uses. The script replaces `{}` by a value.
pub const SCRIPT: [(&str, &str); 6] = [
    ("decidedAfterSigned", "decided {} ms after signing"),
    ("decidedAfterCame", "decided {} ms after arrival"),
    ("digest", "digest {}"),
    ("parents", "parents: {}"),
    ("accepted", "accepted {}"),
    ("acceptedAfter", "{} ms after signing"),
];
