//! Of the ordering.

/// Heading.
pub const TITLE: &str = "How the order comes about";
/// Below the heading, of Mahi-Mahi.
pub const LEAD: &str = "Every circle is a bundle of transactions that a validator proposed. Lines lead to the proposals it builds on. Nobody \
                        votes by a message of its own: who builds on what is the vote.";
/// Below the heading, of Autobahn.
pub const LEAD_LANES: &str = "Each validator drives a lane of its own: every circle is a car, a bundle of transactions that \
     others hold as well. Leaders in turn propose cuts through all lanes, drawn as upright lines: a cut that is agreed on \
     orders all cars up to it. A car is drawn before the first cut that was decided after the car came here: the node does \
     not tell which cars a cut names.";
/// Nothing to show: a full node.
pub const NONE: &str = "There is no picture here: this explorer is not shown how the order comes about.";
/// What to do.
pub const NONE_HINT: &str = "Only validators take part in the ordering. A full node gets blocks that are ordered already, so it has nothing to show. \
                             Let the explorer follow a validator that keeps a trace of its ordering.";
/// Nothing to show yet.
pub const EMPTY: &str = "Nothing is known of the ordering yet. Idle networks are quiet: the first transaction sets it going.";
/// After how many.
pub const DROPPED: &str =
    "events were dropped by the node's trace since it started: some of what is missing here may have happened.";
/// Of the picture, for those who do not see it.
pub const PICTURE: &str = "Proposals of validators by round, with what they build on";
/// Of the other picture.
pub const PICTURE_LANES: &str = "Lanes of cars, and the cuts through them";
/// A column.
pub const ROUND: &str = "Round";
/// A column.
pub const SLOT: &str = "Slot";
/// A row.
pub const VALIDATOR: &str = "Validator";
/// A proposal's place in a lane.
pub const CAR: &str = "Car";
/// The last column of lanes.
pub const NOT_CUT: &str = "not ordered yet";
/// The same where there are newer slots: cars of a place that another car of it had taken.
pub const CAME_LATER: &str = "came later";
/// Where to go.
pub const EARLIER: &str = "Earlier";
/// Where to go.
pub const LATER: &str = "Later";
/// Where to go.
pub const NEWEST: &str = "Newest";
/// Where to go.
pub const SHOW: &str = "Show";
/// Of the slider.
pub const SCRUB: &str = "Back in time";
/// Follows the newest.
pub const FOLLOWS: &str =
    "Follows the network: new rounds come in at the right. Arrow keys step; from a circle they walk through the picture.";
/// The panel.
pub const FACTS: &str = "What is selected";
/// The panel, empty.
pub const FACTS_EMPTY: &str = "Select a circle to see what the proposal holds and builds on, or the shape around a leader to \
     see its votes and the verdict.";
/// The panel of lanes, empty.
pub const FACTS_EMPTY_LANES: &str = "Select a circle to see what the car holds, what it builds on and which validators hold \
     it. Select the sign on a cut to see its leader, its votes and how it was agreed on.";
/// What was selected is not in the picture.
pub const FACTS_GONE: &str = "What was selected is not among these rounds.";
/// The table.
pub const TABLE: &str = "The same as a table";
/// The legend.
pub const LEGEND: &str = "What the signs mean";
/// The legend.
pub const SIGN_ORDERED: &str = "proposal that is ordered; the larger, the more bytes of transactions";
/// The legend.
pub const SIGN_WAITS: &str = "proposal that waits for its place";
/// The legend.
pub const SIGN_COMMITTED: &str = "square: leader, committed";
/// The legend.
pub const SIGN_SKIPPED: &str = "crossed diamond: leader, skipped";
/// The legend.
pub const SIGN_UNDECIDED: &str = "dashed ring: leader, undecided";
/// The legend.
pub const SIGN_VOTE: &str = "triangle: votes for the selected leader";
/// The legend.
pub const SIGN_CERTIFICATE: &str = "star: certifies it, for it builds on a quorum of votes";
/// The legend of lanes.
pub const SIGN_CAR: &str = "car that was here when a cut was decided; the larger, the more bytes of transactions";
/// The legend of lanes.
pub const SIGN_CAR_WAITS: &str = "car that came after the newest cut";
/// The legend of lanes.
pub const SIGN_FAST: &str = "square and full line: cut agreed on the fast way";
/// The legend of lanes.
pub const SIGN_SLOW: &str = "diamond and dashed line: cut agreed on the slow way";
/// The legend of lanes.
pub const SIGN_SIGNED: &str = "triangle: voted for the selected cut, or holds a copy of the selected car";
/// The legend of lanes.
pub const SIGN_CONFIRMED: &str = "star: confirmed the votes for the selected cut, in the second step of the slow way";
/// Of a round, in the wave of the leader that is selected.
pub const PROPOSES: &str = "proposes";
/// The same.
pub const CASTS_VOTES: &str = "votes";
/// The same.
pub const CERTIFIES: &str = "certifies";
/// Too many lines.
pub const FEW_EDGES: &str = "With so many validators only the lines of leaders and of what is selected are drawn.";
/// Heading of the explanation.
pub const EXPLAINED: &str = "In plain words";
/// Facts.
pub const DIGEST: &str = "Digest";
/// Facts.
pub const AUTHOR: &str = "Proposed by";
/// Facts.
pub const POSITION: &str = "Place in its lane";
/// Facts.
pub const PARENTS: &str = "Builds on";
/// Facts.
pub const CHILDREN: &str = "Built on by";
/// Facts.
pub const BYTES: &str = "Transactions in it";
/// Facts.
pub const PROPOSED: &str = "Signed here";
/// Facts.
pub const ACCEPTED: &str = "Taken in with its whole history";
/// Facts.
pub const LEADER: &str = "Leader";
/// Facts.
pub const VERDICT: &str = "Verdict";
/// Facts.
pub const WHY: &str = "Rule";
/// Facts.
pub const DECIDED: &str = "Decided";
/// Facts.
pub const PROPOSAL: &str = "Its proposal";
/// Facts.
pub const VOTES: &str = "Votes";
/// Facts.
pub const CERTIFICATES: &str = "Certificates";
/// Facts, of a cut.
pub const CONFIRMATIONS: &str = "Confirmations";
/// Facts, of a car.
pub const HOLDERS: &str = "Held by";
/// Facts.
pub const BLOCKS: &str = "Block";
/// Facts.
pub const COMMIT: &str = "Commit";
/// Facts.
pub const BATCH: &str = "Its batch";
/// Heading: the blocks of the picture.
pub const BLOCKS_HERE: &str = "Blocks of these rounds";
/// Which they are.
pub const BLOCKS_NOTE: &str = "Blocks that hold something of what leaders of these rounds committed. A leader, or a proposal, that is selected names its own.";
/// No block.
pub const NO_BLOCK: &str = "none: it brought no transactions, or is not executed yet";
/// The proposal is not known.
pub const NO_VERTEX: &str = "not known here";
/// No bytes.
pub const NO_BYTES: &str = "none";
/// The same in a sentence.
pub const NO_TRANSACTIONS: &str = "no transactions";
/// Columns of the table.
pub const PROPOSALS: &str = "Proposals";
/// Columns of the table.
pub const LEADERS: &str = "Leaders and verdicts";
/// Columns of the table.
pub const CARS: &str = "Cars that came before it";
/// The verdicts, as the node says them.
pub const COMMITTED: &str = "committed";
/// See above.
pub const SKIPPED: &str = "skipped";
/// See above.
pub const UNDECIDED: &str = "undecided";
/// Nothing is known of a round.
pub const UNKNOWN: &str = "not known here";
/// Nobody knows yet.
pub const NO_LEADERS: &str = "leaders not drawn yet";
/// A validator proposed twice.
pub const CONTRADICTION: &str = "signed two proposals for one place";
/// What cannot be read.
pub const BAD_PICK: &str = "What is selected is named by a digest of 32 bytes, 0x and 64 digits, by an author and the digest of its batch, as in \
                            2-0x…, or for a leader by round and rank, as in 17.0.";

/// What the words mean, under Mahi-Mahi.
pub const WORDS: [(&str, &str); 6] = [
    (
        "Round",
        "Validators propose in step: a proposal of a round builds on proposals of at least a quorum of validators of the round before, and \
         on their whole history. Nobody waits for anybody in particular, so a slow validator holds up nothing.",
    ),
    (
        "Leader",
        "A few rounds later a common coin, which needs shares of a quorum and which nobody knows before, draws leaders for the round. Because \
         the votes are cast by then, nobody can stop just the proposals that will matter.",
    ),
    (
        "Vote",
        "A proposal of the voting round votes for a leader if the first proposal of that leader's round and author that its lines lead to is \
         the leader's. A proposal of the next round that builds on votes of a quorum is a certificate.",
    ),
    (
        "Commit",
        "When validators of a quorum have certificates, the leader's proposal is committed, and everything that its lines lead to gets its \
         place in the order: first what is older. Blocks are cut from that order.",
    ),
    (
        "Skip",
        "When a quorum does not vote for a leader, because its proposal came late or never, its slot is passed over at once. Nothing is lost: a \
         proposal that came late is taken along by a later leader.",
    ),
    (
        "Undecided",
        "Neither happened yet. Then a later leader that commits decides: if a certificate lies in its history, the slot commits, otherwise it \
         is skipped. What comes after an undecided slot waits for it.",
    ),
];

/// What the words mean, under Autobahn.
pub const WORDS_LANES: [(&str, &str); 6] = [
    (
        "Lane and car",
        "Each validator lines up its bundles of transactions as cars, one behind the other. A car is safe on the road when so many validators \
         hold it that one of them is honest. Lanes need no leader and go on when agreement stands still.",
    ),
    (
        "Slot",
        "Places in the order are numbered; several slots are worked on at the same time. Here a slot is called by the number that blocks \
         call a commit.",
    ),
    (
        "Leader",
        "Slots have leaders in turn. The leader proposes a cut: how far each lane is. A validator that is quick has more cars in a cut.",
    ),
    (
        "Vote",
        "Validators vote for the cut by message. If all answer at once, that is enough: the fast way. Otherwise a quorum votes and confirms in \
         a second step: the slow way.",
    ),
    (
        "Commit",
        "An agreed cut orders every car up to it that no earlier cut had, lane by lane. One cut catches up with whatever was driven during \
         a bad time.",
    ),
    (
        "Skip",
        "There is none: a slot always commits. If a leader is silent the validators move to the next view of the slot, which has another leader; \
         the view in the rule tells how often.",
    ),
];

/// What the engine's rules mean, by how they begin: of several that fit the first.
pub const RULES: [(&str, &str); 10] = [
    (
        "direct:",
        "proposals of a quorum of validators certify it: each builds on votes of a quorum. Nothing that comes later can change that.",
    ),
    ("skipped: no block", "the leader proposed nothing in this round that anybody built on, so nobody can vote for it."),
    ("skipped: no votes", "nobody votes for it, so it can never have a certificate."),
    (
        "skipped: anchor",
        "neither votes nor their absence were enough by themselves. A later committed leader decides, and no certificate lies in its history.",
    ),
    ("skipped:", "a quorum does not vote for it, so it can never have a certificate."),
    (
        "anchor",
        "it was not certified often enough by itself. A later committed leader decides, and a certificate lies in its history.",
    ),
    ("fast in view 0", "all validators voted for the first leader's cut at once, which is enough without a second step."),
    ("slow in view 0", "not all voted in time: a quorum voted for the first leader's cut, and confirmed in a second step."),
    ("fast", "earlier leaders of the slot were not answered in time. Then all voted for this one's cut at once."),
    (
        "slow",
        "earlier leaders of the slot were not answered in time. Then a quorum voted for this one's cut, and confirmed in a second step.",
    ),
];
/// A rule that is none of these.
pub const OTHER_RULE: &str = "in the engine's words.";

/// A round before there are any.
pub fn no_round_yet(round: &str) -> String {
    format!("There is no round {round} here: none is known yet.")
}

/// A round that is not among those that are kept.
pub fn not_kept(round: &str, oldest: &str, newest: &str) -> String {
    format!("There is no round {round} here. Rounds {oldest} to {newest} are kept.")
}

/// Several such rounds.
pub fn none_kept(oldest: &str, newest: &str) -> String {
    format!("None of these rounds is kept. Those from {oldest} to {newest} are.")
}

/// A proposal in one sentence: where it stands, who signed it, and what is in it.
pub fn proposal(place: &str, author: u64, bytes: &str, parents: usize) -> String {
    format!("{place}, {VALIDATOR} {author}: {bytes}, {}", builds_on(parents))
}

/// How many proposals a proposal builds on.
pub fn builds_on(parents: usize) -> String {
    format!("builds on {parents}")
}

/// A leader of Mahi-Mahi in one sentence.
pub fn leader(round: u64, rank: u64, validator: u64, verdict: &str) -> String {
    format!("{LEADER} {rank} of round {round}: validator {validator}, {verdict}")
}

/// A cut in one sentence.
pub fn cut(slot: u64, leader: u64, verdict: &str) -> String {
    format!("{SLOT} {slot}, {VALIDATOR} {leader} leads: {verdict}")
}

/// A leader among those of a round that is named already.
pub fn rank(rank: u64) -> String {
    format!("rank {rank}")
}

/// The same beside its validator.
pub fn rank_in_round(rank: u64) -> String {
    format!("rank {rank} of its round")
}

/// Who votes for a leader.
pub fn votes(voters: usize, proposals: usize, round: u64, quorum: usize) -> String {
    format!("{voters} of {proposals} proposals of round {round}, a quorum is {quorum}")
}

/// Who certifies it.
pub fn certificates(count: usize, round: u64) -> String {
    format!("{count} in round {round}")
}

/// Who signed, of all.
pub fn signers(signers: usize, validators: u64) -> String {
    format!("{signers} of {validators} validators")
}

/// The same where a quorum is asked for.
pub fn signers_of_quorum(signers: usize, validators: u64, quorum: usize) -> String {
    format!("{}, a quorum is {quorum}", self::signers(signers, validators))
}

/// So many that they are not named.
pub fn validators(count: usize) -> String {
    format!("{count} validators")
}

/// Of a car, in a sentence.
pub fn held_by(names: &str) -> String {
    format!("held by {names}")
}

/// Of a cut, in the table.
pub fn voted_by(names: &str) -> String {
    format!("voted by {names}")
}

/// The same, of the second step.
pub fn confirmed_by(names: &str) -> String {
    format!("confirmed by {names}")
}

/// When a proposal was taken in.
pub fn after_signed(took: &str) -> String {
    format!("{took} after it was signed")
}

/// When a verdict came.
pub fn after_leader_signed(took: &str) -> String {
    format!("{took} after the leader's proposal was signed")
}

/// The same of a proposal of another validator.
pub fn after_leader_came(took: &str) -> String {
    format!("{took} after the leader's proposal came here")
}

/// The same in the table.
pub fn after_came(took: &str) -> String {
    format!("{took} after its proposal came")
}

/// Why there is no picture: the operator's choice.
pub const KEEPS_NONE: &str = "the explorer was told to keep no rounds";

/// What the script of the picture says, by the names that it has for it. It puts a value in the place of `{}`.
pub const SCRIPT: [(&str, &str); 6] = [
    ("decidedAfterSigned", "decided {} ms after it was signed"),
    ("decidedAfterCame", "decided {} ms after it came"),
    ("digest", "digest {}"),
    ("parents", "builds on {}"),
    ("accepted", "taken in {}"),
    ("acceptedAfter", "{} ms after it was signed"),
];
